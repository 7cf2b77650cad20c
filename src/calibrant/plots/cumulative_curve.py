"""The numbers of a picture of cumulative differences: outcomes minus probabilities, added up in order."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.hypothesis_tests.cumulative import PathNoise
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.cumulative import RANGE, ScoreGroups
from calibrant.plots.event_rows import EventKind, EventRows
from calibrant.tabular import Tabular
from calibrant.wording import counted, p_text

__all__ = ["CumulativeCurve", "cumulative_curve"]

Vector = NDArray[np.float64]

MOST_POINTS = 500


@dataclass(frozen=True, eq=False)
class CumulativeCurve(Tabular):
    """Outcomes minus probabilities, added up from the lowest probability to the highest.

    Attributes
    ----------
    event : str
        What is looked at: ``"predicted class"``, ``"class 'cat'"`` or ``"predicted class 'cat'"``.
    kind : str
        ``"confidence"``, ``"positive"``, ``"class"`` or ``"top-label"``.
    n_rows : int
        Number of rows.
    share : ndarray of shape (m,)
        Share of the weight up to each point, from 0 to 1; at most 500 points, the highest and lowest among them.
    difference : ndarray of shape (m,)
        Sum of outcome minus score up to there, divided by the weight of all rows; begins at 0.
    score : ndarray of shape (m,)
        Score at each point.
    sigma : float
        Standard deviation of the last difference if the scores are true.
    kuiper : float
        Highest minus lowest difference: by how much the event was promised too rarely or too often, in share of all
        rows, in the worst interval of scores.
    p_value : float
        Probability of at least so much if the scores are true.
    caution : str or None
        Why the p-value is rough, if it is.
    """

    event: str
    kind: str
    n_rows: int
    share: Vector
    difference: Vector
    score: Vector
    sigma: float
    kuiper: float
    p_value: float
    caution: str | None

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return one row per point."""
        return {"share": self.share, "score": self.score, "difference": self.difference}

    def __repr__(self) -> str:
        return (
            f"CumulativeCurve({self.event}, Kuiper {self.kuiper:.4g}, {p_text(self.p_value)}, "
            f"{counted(self.n_rows, 'row')})"
        )


def cumulative_curve(
    y_true: Any, y_proba: Any, *, sample_weight: Any = None, kind: EventKind = "auto", label: Any = None
) -> CumulativeCurve:
    r"""Differences between what happened and what was said, added up in the order of the probabilities.

    .. math:: C_j = \frac{1}{W} \sum_{s_i \le s_j} w_i (o_i - s_i), \qquad W = \sum_i w_i

    with scores s, outcomes o and weights w :cite:`arrieta2022`. No bins are needed: over any interval of scores the
    slope of the curve is the mean difference there. For calibrated scores it is a random walk, of standard deviation
    :math:`\sigma = (\sum_i w_i^2 s_i (1 - s_i))^{1/2} / W` at its end.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two.
    sample_weight : array of shape (n,), optional
        How much each row matters; each is one observation.
    kind : {"auto", "confidence", "positive", "class", "top-label"}, default="auto"
        The event, as in :func:`~calibrant.plots.reliability_curve`.
    label : label, optional
        For ``kind="class"`` and ``kind="top-label"``: the class, as it is called in ``y_true``.

    Returns
    -------
    CumulativeCurve
        With ``columns()`` and ``frame()``; the statistic and its p-value are those of
        :func:`~calibrant.hypothesis_tests.cumulative_test`. Costs a sort, O(n log n).

    Examples
    --------
    Of a hundred rows at 20 % the event happened in 30, ten more than said:

    >>> curve = cumulative_curve([1] * 30 + [0] * 70, [0.2] * 100)
    >>> curve.share, curve.difference.round(6)
    (array([0., 1.]), array([0. , 0.1]))
    >>> round(curve.sigma, 6), round(curve.p_value, 4)
    (0.04, 0.0124)
    """
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    rows = EventRows.of(data, kind, label)
    prospect = rows.utility.prospect(rows.data.predictions)
    groups = ScoreGroups.of(prospect.expected, prospect.tolerance)
    path = groups.path(prospect.realised(rows.data.labels) - prospect.expected, rows.weights)
    noise = PathNoise.of(prospect, groups, rows.weights, RANGE, continuity_correction=True)
    kuiper = RANGE.measure(path)
    share = groups.path(np.ones(rows.n_rows), rows.weights)
    score = prospect.expected[groups.order[groups.ends]]
    difference = np.concatenate([[0.0], path])
    chosen = _chosen(difference)
    return CumulativeCurve(
        event=rows.name,
        kind=rows.kind,
        n_rows=rows.n_rows,
        share=np.concatenate([[0.0], share])[chosen],
        difference=difference[chosen],
        score=np.concatenate([score[:1], score])[chosen],
        sigma=noise.deviation,
        kuiper=kuiper,
        p_value=noise.p_value(kuiper, prospect.tolerance),
        caution=noise.caution(rows.n_rows),
    )


def _chosen(difference: Vector) -> NDArray[np.intp]:
    """Return which points to keep: all, or some evenly over the rows, and the highest and the lowest."""
    if len(difference) <= MOST_POINTS:
        return np.arange(len(difference))
    even = np.linspace(0, len(difference) - 1, MOST_POINTS - 2).round().astype(np.intp)
    return np.unique(np.append(even, [np.argmax(difference), np.argmin(difference)]))
