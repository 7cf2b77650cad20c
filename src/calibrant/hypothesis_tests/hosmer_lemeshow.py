"""Hosmer-Lemeshow test: expected and observed counts in groups of rising risk."""

from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from calibrant.binning import EqualMass
from calibrant.errors import ParameterError
from calibrant.hypothesis_tests.event import Event
from calibrant.hypothesis_tests.few_rows import few_rows
from calibrant.hypothesis_tests.result import TestResult
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.wording import class_text, counted

__all__ = ["hosmer_lemeshow_test"]

EventKind = Literal["auto", "positive", "confidence"]
Variance = Literal["rows", "groups"]
Vector = NDArray[np.float64]

# Expected events, and non-events, from which the chi-square distribution of a group is trusted.
ENOUGH = 5.0

# Fifty times 0.1, added up, is five but for rounding.
ROUNDING = 1e-9


def hosmer_lemeshow_test(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    kind: EventKind = "auto",
    n_bins: int = 10,
    fitted: bool = False,
    variance: Variance = "rows",
    min_expected: float = ENOUGH,
) -> TestResult:
    r"""Compare expected and observed counts in groups of rows with similar probabilities.

    Rows are sorted by the probability :math:`p_i` of an event and cut into g groups :math:`B_b` of equal
    weight, usually tenths of risk. With outcomes :math:`o_i`,

    .. math::

        \chi^2 = \sum_{b=1}^{g} \frac{\bigl( \sum_{i \in B_b} w_i (o_i - p_i) \bigr)^2}{V_b}, \qquad
        V_b = \sum_{i \in B_b} w_i^2 p_i (1 - p_i)
        \quad \text{or} \quad
        V_b = \bar p_b (1 - \bar p_b) \sum_{i \in B_b} w_i^2

    is referred to the chi-square distribution with g degrees of freedom :cite:`hosmer1980`.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two.
    sample_weight : array of shape (n,), optional
        How much each row matters; only ratios count. Rows are independent observations: a row of weight two
        is one observation, not two.
    kind : {"auto", "positive", "confidence"}, default="auto"
        The event: the second class of two, or the predicted class being right. ``"auto"`` takes the former for
        two classes and the latter for more.
    n_bins : int, default=10
        Number of groups, g; equal probabilities share a group, so that there may be fewer.
    fitted : bool, default=False
        Whether the probabilities are those of a logistic regression *on the rows it was fitted to*; then two
        degrees of freedom are lost. For held-out rows, or after calibration on other rows, none are.
    variance : {"rows", "groups"}, default="rows"
        Variance of a group's count: the exact one under the hypothesis, the first form above, or the one of
        the original paper and of other programs, the second form. The latter is too large where
        probabilities vary within a group, so that the test rejects too rarely.
    min_expected : float, default=5.0
        Neighbouring groups are merged until each expects at least this many events and as many non-events, by
        the classical rule five; 0 merges none.

    Returns
    -------
    TestResult
        Its ``caution`` says so if a group expects fewer than five events or non-events.

    Notes
    -----
    ``hoslem.test`` of R and ``estat gof, group(10)`` of Stata are ``fitted=True, variance="groups",
    min_expected=0``, up to the way in which equal probabilities are grouped.

    Without merging, an unexpected event in a group that expects 0.001 of them adds a thousand to the statistic,
    and confident classifiers would be rejected far too often; with a smaller ``min_expected``, or heavy-tailed
    weights, a test at the 1 % level still rejects too often. Groups that cannot vary, because all their
    probabilities are 0 or 1, count nothing; but an event of probability zero that happened
    refutes the hypothesis: the statistic is then infinite. For weights, counts
    are those of the effective sample size :math:`(\sum w)^2 / \sum w^2` of the group. :math:`1 - p_i` is the
    sum of the probabilities of the other classes, and those of logits are computed in float64, so that
    confidences which round to one remain uncertain.

    The result depends on the groups, and says little on single classes; a sum over classes of
    such statistics has no chi-square distribution, since classes exclude each other. For all classes use
    :func:`~calibrant.hypothesis_tests.consistency_test` with a classwise metric. O(nK) in blocks of rows and a
    sort of n numbers; memory O(n).

    Examples
    --------
    Two groups of 100, expecting 20 and 60 events with variances 16 and 24, and seeing 28 and 60:

    >>> p = [0.2] * 100 + [0.6] * 100
    >>> y = [1] * 28 + [0] * 72 + [1] * 60 + [0] * 40
    >>> result = hosmer_lemeshow_test(y, p)
    >>> round(result.statistic, 6), round(result.p_value, 4)       # exp(-2) for two degrees of freedom
    (4.0, 0.1353)
    """
    _check_options(kind, variance, min_expected)
    scheme = EqualMass(n_bins)
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    chosen, event = _event(data, kind)
    weights = np.ones(data.n_rows) if data.weights is None else data.weights
    index = scheme(event.probability, weights).index(event.probability)
    groups = _Groups.of(index, event, weights).merged(min_expected)
    statistic, n_groups = groups.statistic(variance)
    degrees = n_groups - 2 if fitted else n_groups
    if degrees < 1 and n_groups > 0:
        raise ParameterError(
            f"fitted=True needs at least three groups, but these rows make {n_groups}; "
            "use held-out rows and fitted=False, or set a larger n_bins or a smaller min_expected."
        )
    refuted = event.refuted
    if refuted:
        statistic = float("inf")
    # Where nothing can vary there is nothing to test, and nothing was refuted.
    p_value = 0.0 if refuted else float(chdtrc(degrees, statistic)) if n_groups else 1.0
    least = groups.least_count()
    caution = None
    if n_groups and not refuted and least < ENOUGH * (1 - ROUNDING):
        caution = few_rows(data.n_rows) or (
            f"the p-value is rough, since a group expects only {least:.2g} events or non-events; use consistency_test"
        )
    size = f"{counted(n_groups, 'group')}, {counted(max(degrees, 0), 'degree')} of freedom"
    return TestResult(
        statistic=statistic,
        p_value=p_value,
        test=f"Hosmer-Lemeshow test of {chosen} ({size})",
        null_hypothesis="every event happened with its predicted probability",
        n_rows=data.n_rows,
        caution=caution,
    )


def _event(data: LabelledPredictions, kind: EventKind) -> tuple[str, Event]:
    """Return the event in words and in numbers."""
    if kind == "positive" and data.n_classes != 2:
        raise ParameterError(
            f"kind='positive' is for two classes, but there are {data.n_classes}; use kind='confidence'."
        )
    if kind == "confidence" or data.n_classes != 2:
        return "the predicted class", Event.predicted_class(data)
    return class_text(data.classes[1]), Event.one_class(data, 1)


@dataclass(frozen=True, eq=False)
class _Groups:
    """Sums over the rows of each group, from low to high probability, each (g,)."""

    weight: Vector
    square_weight: Vector
    expected: Vector
    expected_not: Vector
    residual: Vector
    row_variance: Vector

    @classmethod
    def of(cls, index: NDArray[np.intp], event: Event, weights: Vector) -> Self:
        def sums(values: Vector) -> Vector:
            return np.bincount(index, values).astype(np.float64, copy=False)

        return cls(
            sums(weights),
            sums(weights * weights),
            sums(weights * event.probability),
            sums(weights * event.opposite),
            sums(weights * (event.happened - event.probability)),
            sums(weights * weights * event.variance),
        )

    def merged(self, min_expected: float) -> Self:
        """Join neighbours from left to right until each expects enough; what is left joins the last."""
        columns = np.column_stack(
            [
                self.weight,
                self.square_weight,
                self.expected,
                self.expected_not,
                self.residual,
                self.row_variance,
            ]
        )
        groups: list[Vector] = []
        pending = np.zeros(columns.shape[1])
        for group in columns:
            pending = pending + group
            if _least_count(pending) >= min_expected * (1 - ROUNDING):
                groups.append(pending)
                pending = np.zeros(columns.shape[1])
        if pending[0] > 0:
            groups.append(groups.pop() + pending if groups else pending)
        return type(self)(*np.array(groups).T)

    def least_count(self) -> float:
        """Return the smallest number of events or non-events that a group expects, of those that can vary."""
        columns = np.stack([self.weight, self.square_weight, self.expected, self.expected_not], axis=1)
        return min((_least_count(group) for group in columns[self.row_variance > 0]), default=np.inf)

    def statistic(self, variance: Variance) -> tuple[float, int]:
        """Return chi-square, and the number of groups whose count can vary."""
        variances = self.row_variance
        if variance == "groups":
            variances = self.expected / self.weight * (self.expected_not / self.weight) * self.square_weight
        varying = self.row_variance > 0
        with np.errstate(over="ignore"):  # logits can call an event as good as impossible
            terms = self.residual[varying] ** 2 / variances[varying]
        return float(terms.sum()), int(varying.sum())


def _least_count(group: Vector) -> float:
    """Return how many events, or non-events if these are fewer, a group expects."""
    weight, square_weight, expected, expected_not = group[:4]
    return float(min(expected, expected_not) * weight / square_weight)


def _check_options(kind: Any, variance: Any, min_expected: Any) -> None:
    if kind not in get_args(EventKind):
        raise ParameterError(f"kind must be 'auto', 'positive' or 'confidence', not {kind!r}.")
    if variance not in get_args(Variance):
        raise ParameterError(f"variance must be 'rows' or 'groups', not {variance!r}.")
    if not (isinstance(min_expected, Real) and 0 <= float(min_expected) < np.inf):
        raise ParameterError(f"min_expected must be a number of at least 0, not {min_expected!r}.")
