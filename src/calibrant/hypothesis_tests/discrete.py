"""Exact test of calibration for discrete scores, such as agreement counts, with intervals for every score."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from calibrant.arrays import Float64Array
from calibrant.errors import ParameterError
from calibrant.hypothesis_tests.event import EventKind, chosen_event
from calibrant.hypothesis_tests.result import TestResult
from calibrant.intervals.clopper_pearson import clopper_pearson
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.options import check_choice, check_level
from calibrant.presentation.sentences import counted, p_text
from calibrant.tabular import Tabular

__all__ = ["DiscreteCalibration", "discrete_score_test"]

MOST_SCORES = 1000


@dataclass(frozen=True, eq=False)
class DiscreteCalibration(Tabular):
    """Calibration of every distinct score, in increasing order.

    Attributes
    ----------
    score : ndarray of shape (m,)
        Predicted probability of the event.
    n_rows, n_events : ndarray of shape (m,)
        Number of rows with the score, and of events among them.
    observed : ndarray of shape (m,)
        Frequency of the event.
    low, high : ndarray of shape (m,)
        Simultaneous exact confidence intervals of the frequency.
    p_value : ndarray of shape (m,)
        Exact, adjusted for the search over all scores.
    event : str
        Which event the probabilities refer to.
    level : float
        Confidence level of all intervals together.
    test : TestResult
        Exact test that all scores are calibrated.
    """

    score: Float64Array
    n_rows: NDArray[np.intp]
    n_events: NDArray[np.intp]
    observed: Float64Array
    low: Float64Array
    high: Float64Array
    p_value: Float64Array
    event: str
    level: float
    test: TestResult

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return one row per score."""
        return {
            "score": self.score,
            "n_rows": self.n_rows,
            "n_events": self.n_events,
            "observed": self.observed,
            "low": self.low,
            "high": self.high,
            "p_value": self.p_value,
        }

    def __str__(self) -> str:
        lines = [
            f"{counted(len(self.score), 'score')}; event: {self.event}; exact {p_text(self.test.p_value, None)}."
        ]
        lines += [
            f"  {self.score[i]:.3g}: {self.n_events[i]} of {counted(int(self.n_rows[i]), 'row')} ({100 * self.low[i]:.3g} to "
            f"{100 * self.high[i]:.3g} %)"
            for i in range(len(self.score))
        ]
        return "\n".join(lines)


def discrete_score_test(
    y_true: Any, y_proba: Any, *, kind: EventKind = "auto", level: float = 0.95
) -> DiscreteCalibration:
    r"""Exact test of calibration for discrete scores, without asymptotics: for few rows per score.

    Of :math:`n_s` rows with score s, the number of events is binomial with :math:`n_s` and s if scores are calibrated. The
    p-value of a score doubles the smaller tail. The test statistic is the smallest of all p-values; scores are independent, so

    .. math:: P(\min_s P_s \le t) = 1 - \prod_s \bigl( 1 - P(P_s \le t) \bigr)

    is exact, for the test and for the adjusted p-value of every score.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two; at most 1000 different ones.
    kind : {"auto", "confidence", "positive"}, default="auto"
        The event: the second of two classes occurs, or the predicted class is correct. ``"auto"`` uses the former for two
        classes and the latter for more.
    level : float, default=0.95
        Confidence level of all intervals together.

    Returns
    -------
    DiscreteCalibration

    Notes
    -----
    The level holds for any number of rows; as outcomes are discrete, it is usually below 5 %. The intervals are those of Clopper
    and Pearson at level :math:`1 - (1 - \mathrm{level}) / m` for m scores. Rows must be independent and unweighted. Costs O(n).

    Examples
    --------
    Of ten rows at a probability of 0.9 six have the event, of eight rows at 0.75 as well:

    >>> p, y = [0.9] * 10 + [0.75] * 8, [1] * 6 + [0] * 4 + [1] * 6 + [0] * 2
    >>> found = discrete_score_test(y, p)
    >>> found.n_events, found.p_value.round(3)
    (array([6, 6]), array([1.   , 0.017]))
    """
    check_choice("kind", kind, ("auto", "confidence", "positive"))
    check_level(level)
    data = LabelledPredictions.parse(y_proba, y_true)
    event, words = chosen_event(data, kind)
    scores, place = np.unique(event.probability, return_inverse=True)
    if len(scores) > MOST_SCORES:
        raise ParameterError(
            f"there are {len(scores)} different scores; this test is for discrete ones (at most {MOST_SCORES}), for others use "
            "cumulative_test."
        )
    n_rows = np.bincount(place, minlength=len(scores))
    n_events = np.bincount(place, event.occurred, minlength=len(scores)).astype(np.intp)
    # Of every score, the p-value of each possible number of events, and the probability of that number.
    tables = [_p_values(n, s) for n, s in zip(n_rows.tolist(), scores.tolist(), strict=True)]
    own = np.array([p[x] for (p, _), x in zip(tables, n_events.tolist(), strict=True)])
    adjusted = np.array([_smallest_at_most(tables, p) for p in own.tolist()])
    low, high = clopper_pearson(n_events, n_rows, 1 - (1 - level) / len(scores))
    p_value = float(adjusted.min())
    return DiscreteCalibration(
        score=scores,
        n_rows=n_rows.astype(np.intp),
        n_events=n_events,
        observed=n_events / n_rows,
        low=np.asarray(low),
        high=np.asarray(high),
        p_value=adjusted,
        event=words,
        level=float(level),
        test=TestResult(
            statistic=float(own.min()),
            p_value=p_value,
            test=f"exact test of {counted(len(scores), 'score')}",
            null_hypothesis=f"the probabilities that {words} are calibrated",
            n_rows=data.n_rows,
        ),
    )


def _p_values(n_rows: int, score: float) -> tuple[Float64Array, Float64Array]:
    """Return the two-sided p-value of every number of events, (n + 1,), and its probability."""
    counts = np.arange(n_rows + 1)
    probability = binom.pmf(counts, n_rows, score)
    at_most, at_least = binom.cdf(counts, n_rows, score), binom.sf(counts - 1, n_rows, score)
    return np.minimum(1.0, 2 * np.minimum(at_most, at_least)), probability


def _smallest_at_most(tables: list[tuple[Float64Array, Float64Array]], t: float) -> float:
    """Return the probability that the smallest p-value of all scores is at most ``t``."""
    # The same p-value of another score may differ in its last digits.
    taken = np.array([min(1.0, probability[p <= t * (1 + 1e-12)].sum()) for p, probability in tables])
    with np.errstate(divide="ignore"):
        return float(-np.expm1(np.log1p(-taken).sum()))
