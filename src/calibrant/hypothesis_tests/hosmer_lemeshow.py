"""Hosmer-Lemeshow test: expected and observed counts in groups of increasing probability."""

from dataclasses import astuple, dataclass
from numbers import Real
from typing import Any, Literal, Self, get_args

import numpy as np
from scipy.special import chdtrc

from calibrant.arrays import IntArray, Vector
from calibrant.binning import EqualMass
from calibrant.errors import ParameterError
from calibrant.hypothesis_tests.event import Event
from calibrant.hypothesis_tests.result import TestResult, small_sample_caution
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.events import check_two_classes
from calibrant.presentation.sentences import class_text, counted
from calibrant.remedies import USE_OTHER_TEST

__all__ = ["hosmer_lemeshow_test"]


EventKind = Literal["auto", "positive", "confidence"]
Variance = Literal["rows", "groups"]

# Expected events, and non-events, from which the chi-square approximation of a group is adequate.
MIN_EXPECTED = 5.0

# Fifty times 0.1 sums to five only up to rounding.
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
    min_expected: float = MIN_EXPECTED,
) -> TestResult:
    r"""Hosmer-Lemeshow goodness-of-fit test of an event's probabilities.

    Rows are sorted by the probability :math:`p_i` of an event and divided into g groups :math:`B_b` of equal
    weight, usually deciles of risk. With outcomes :math:`o_i`,

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
        Importance of each row; only ratios matter. Rows are independent observations: a row of weight two
        is one observation, not two.
    kind : {"auto", "positive", "confidence"}, default="auto"
        The event: the second class of two, or the predicted class being correct. ``"auto"`` is the former for
        two classes and the latter for more.
    n_bins : int, default=10
        Number of groups, g; equal probabilities share a group, so there may be fewer.
    fitted : bool, default=False
        Whether the probabilities are those of a logistic regression *on its own training rows*; this costs two
        degrees of freedom. For held-out rows, or after calibration on other rows, leave it False.
    variance : {"rows", "groups"}, default="rows"
        Variance of a group's count: the exact one under the null hypothesis (first form above), or that of
        the original paper and other programs (second form). The latter is too large if probabilities vary within a
        group, which makes the test conservative.
    min_expected : float, default=5.0
        Neighbouring groups are merged until each has at least this many expected events and non-events; five
        is the classical rule, and 0 disables merging.

    Returns
    -------
    TestResult
        Its ``caution`` is set if a group has fewer than five expected events or non-events.

    Notes
    -----
    ``hoslem.test`` of R and ``estat gof, group(10)`` of Stata are ``fitted=True, variance="groups",
    min_expected=0``, except for the grouping of equal probabilities.

    Without merging, an unexpected event in a group with 0.001 expected events adds a thousand to the statistic,
    and confident classifiers would be rejected far too often. With a smaller ``min_expected``, or heavy-tailed
    weights, a test at the 1 % level still rejects too often. Groups without variance, because all their
    probabilities are 0 or 1, are ignored; but if an event of probability zero occurs, the statistic is infinite. With
    weights, counts are replaced by the effective sample size :math:`(\sum w)^2 / \sum w^2` of the group.
    :math:`1 - p_i` is the sum of the probabilities of the other classes, and probabilities of logits are computed in
    float64, so that confidences which round to one keep a positive variance.

    The result depends on the groups, and says little about single classes. A sum over classes of
    such statistics has no chi-square distribution, since classes exclude each other. To test all classes use
    :func:`~calibrant.hypothesis_tests.consistency_test` with a classwise metric. Costs O(nK) in blocks of rows and a
    sort of n numbers; memory O(n).

    Examples
    --------
    Two groups of 100, with 20 and 60 expected events, variances 16 and 24, and 28 and 60 observed events:

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
            f"fitted=True needs at least three groups, but these rows give {n_groups}; "
            "use held-out rows and fitted=False, or set a larger n_bins or a smaller min_expected."
        )
    refuted = event.refuted
    if refuted:
        statistic = float("inf")
    # Without variance there is nothing to test, and no outcome of probability zero occurred.
    p_value = 0.0 if refuted else float(chdtrc(degrees, statistic)) if n_groups else 1.0
    least = groups.least_count()
    caution = None
    if n_groups and not refuted and least < MIN_EXPECTED * (1 - ROUNDING):
        caution = small_sample_caution(data.n_rows) or (
            f"the p-value is rough, since a group expects only {least:.2g} events or non-events{USE_OTHER_TEST}"
        )
    size = f"{counted(n_groups, 'group')}, {counted(max(degrees, 0), 'degree')} of freedom"
    return TestResult(
        statistic=statistic,
        p_value=p_value,
        test=f"Hosmer-Lemeshow test of {chosen} ({size})",
        null_hypothesis="every event occurs with its predicted probability",
        n_rows=data.n_rows,
        caution=caution,
    )


def _event(data: LabelledPredictions, kind: EventKind) -> tuple[str, Event]:
    """Return the name of the event, and its probabilities and outcomes."""
    if kind == "positive":
        check_two_classes(data.n_classes, "kind='confidence'")
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
    def of(cls, index: IntArray, event: Event, weights: Vector) -> Self:
        def sums(values: Vector) -> Vector:
            return np.bincount(index, values).astype(np.float64, copy=False)

        return cls(
            sums(weights),
            sums(weights * weights),
            sums(weights * event.probability),
            sums(weights * event.opposite),
            sums(weights * (event.occurred - event.probability)),
            sums(weights * weights * event.variance),
        )

    def merged(self, min_expected: float) -> Self:
        """Merge neighbours from left to right until each has enough expected counts; the remainder joins the last group."""
        columns = np.column_stack(astuple(self))
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
        """Return the smallest expected number of events or non-events in a group with positive variance."""
        columns = np.stack([self.weight, self.square_weight, self.expected, self.expected_not], axis=1)
        return min((_least_count(group) for group in columns[self.row_variance > 0]), default=np.inf)

    def statistic(self, variance: Variance) -> tuple[float, int]:
        """Return chi-square, and the number of groups with positive variance."""
        variances = self.row_variance
        if variance == "groups":
            variances = self.expected / self.weight * (self.expected_not / self.weight) * self.square_weight
        varying = self.row_variance > 0
        with np.errstate(over="ignore"):  # logits can make an event almost impossible
            terms = self.residual[varying] ** 2 / variances[varying]
        return float(terms.sum()), int(varying.sum())


def _least_count(group: Vector) -> float:
    """Return the smaller of the expected numbers of events and non-events of a group."""
    weight, square_weight, expected, expected_not = group[:4]
    return float(min(expected, expected_not) * weight / square_weight)


def _check_options(kind: Any, variance: Any, min_expected: Any) -> None:
    if kind not in get_args(EventKind):
        raise ParameterError(f"kind must be 'auto', 'positive' or 'confidence', not {kind!r}.")
    if variance not in get_args(Variance):
        raise ParameterError(f"variance must be 'rows' or 'groups', not {variance!r}.")
    if not (isinstance(min_expected, Real) and 0 <= float(min_expected) < np.inf):
        raise ParameterError(f"min_expected must be a number of at least 0, not {min_expected!r}.")
