"""Kuiper and Kolmogorov-Smirnov tests of calibration from cumulative residuals, with p-values in closed form."""

from dataclasses import dataclass
from math import sqrt
from typing import Any, Self

import numpy as np

from calibrant.arrays import AnyArray, Float64Array, IntArray, Matrix
from calibrant.hypothesis_tests.result import TestResult, small_sample_caution
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.cumulative import CumulativeStatistic, chosen_statistic
from calibrant.metrics.utility import OneClass, Prospect, TopClasses, Utility, check_utility
from calibrant.numerics.cumulative import PathStatistic, ScoreGroups
from calibrant.presentation.sentences import class_text, counted, p_text
from calibrant.ranking.holm import holm
from calibrant.remedies import USE_OTHER_TEST

__all__ = [
    "ClasswiseTests",
    "NullDistribution",
    "adjusted_p_values",
    "classwise_cumulative_tests",
    "cumulative_test",
]

# Number of classes that a sentence on all of them names.
SHOWN = 3

# Total variance of the rows, relative to the square of the largest residual, below which p-values are rough.
MIN_VARIANCE = 5.0


@dataclass(frozen=True, eq=False)
class NullDistribution:
    """Null distribution of a statistic of the cumulative residuals of calibrated predictions.

    Attributes
    ----------
    statistic : PathStatistic
    deviation : float
        Standard deviation of the mean residual.
    steps : ndarray of shape (G,) or None
        Variance that each group of equal scores adds; None for the limit of many rows.
    n_varying : float
        Variance of the sum of residuals divided by the square of the largest possible residual, given the
        weights: for rare events about their expected number. If it is small the sum is not nearly normal.
    """

    statistic: PathStatistic
    deviation: float
    steps: Float64Array | None
    n_varying: float

    @classmethod
    def of(
        cls,
        prospect: Prospect,
        groups: ScoreGroups,
        weights: Float64Array | None,
        statistic: PathStatistic,
        continuity_correction: bool,
    ) -> Self:
        """Add up the variances of the rows; O(n)."""
        shares = 1 / len(prospect.expected) if weights is None else weights / weights.sum()
        variances = groups.path(prospect.variance * shares, weights)
        steps = np.diff(variances, prepend=0.0) if continuity_correction else None
        largest = prospect.span * float(np.max(shares))
        n_varying = float(variances[-1]) / largest**2 if largest > 0 else 0.0
        return cls(statistic, sqrt(variances[-1]), steps, n_varying)

    def caution(self, n_rows: int) -> str | None:
        """Return why a p-value is rough; None if it is not, or if it is exact because all variances are zero."""
        if self.deviation == 0 or self.n_varying >= MIN_VARIANCE * (1 - 1e-9):
            return None
        return small_sample_caution(n_rows) or (
            f"the p-value is rough, since the total variance of the rows is {self.n_varying:.2g} times the square of the "
            f"largest possible residual, less than {MIN_VARIANCE:g}{USE_OTHER_TEST}"
        )

    def mean(self) -> float:
        """Return the mean of the statistic."""
        return self.deviation * self.statistic.mean(self.steps)

    def quantile(self, probability: float) -> float:
        """Return the value that the statistic exceeds with this probability."""
        return self.deviation * self.statistic.quantile(probability, self.steps)

    def p_value(self, value: float, tolerance: float = 0.0) -> float:
        """Return the probability of a statistic of at least ``value``; values up to ``tolerance`` count as rounding."""
        if value <= tolerance:
            return 1.0
        if self.deviation == 0:  # the utility of every row was certain
            return 0.0
        return self.statistic.tail(value / self.deviation, self.steps)

    def test_of(self, path: Matrix, name: str, claim: str, n_rows: int, tolerance: float = 0.0) -> TestResult:
        """Return the test of a path of cumulative residuals."""
        value = self.statistic.measure(path)
        return TestResult(
            statistic=value,
            p_value=self.p_value(value, tolerance),
            test=name,
            null_hypothesis=claim,
            n_rows=n_rows,
            null_mean=self.mean(),
            null_quantile=self.quantile(0.05),
            caution=self.caution(n_rows),
        )


def cumulative_test(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    utility: Utility = TopClasses(),  # noqa: B008 (frozen)
    statistic: CumulativeStatistic = "kuiper",
    continuity_correction: bool = True,
) -> TestResult:
    r"""Kuiper or Kolmogorov-Smirnov test of calibration, without bins and without simulation.

    The statistic is the range (Kuiper) or the largest absolute value (Kolmogorov-Smirnov) of the cumulative
    residuals of :func:`~calibrant.metrics.utility_calibration_error`. Under calibration these converge to
    a Brownian motion with final standard deviation :math:`\sigma`, where
    :math:`\sigma^2 = \sum_i w_i^2 \mathrm{Var}_i / W^2` and :math:`\mathrm{Var}_i` is the variance of the
    utility under the predicted probabilities, p (1 - p) for an event. Hence :cite:`arrieta2022`

    .. math::

        P(\text{Kuiper} > x \sigma) &= 8 \sum_{j \ge 1} (-1)^{j-1} j \, (1 - \Phi(j x)), \\
        P(\text{KS} > x \sigma) &= 4 \sum_{j \ge 0} (-1)^j \, (1 - \Phi((2 j + 1) x)).

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two.
    sample_weight : array of shape (n,), optional
        Importance of the rows; only ratios matter. Each row is one observation whatever its weight, so pass
        duplicated rows twice.
    utility : Utility, default=TopClasses(1)
        What is tested: :class:`~calibrant.metrics.TopClasses` for the predicted class or a set of k,
        :class:`~calibrant.metrics.OneClass` for one class, :class:`~calibrant.metrics.OptimalDecision` for
        a cost matrix.
    statistic : {"kuiper", "ks"}, default="kuiper"
        Kuiper detects errors in any interval of scores; KS is slightly better for intervals that start at one end.
    continuity_correction : bool, default=True
        Whether to correct for the path being observed at finitely many points, see the notes; False gives the
        published formula above.

    Returns
    -------
    TestResult
        ``statistic`` is the error itself, ``null_mean`` and ``null_quantile`` are its mean and quantile under
        calibration, and ``caution`` is set if the p-value is rough.

    Notes
    -----
    The p-value is asymptotic. With s the largest difference of utilities in a row, 1 for an event, it requires

    .. math:: V = \frac{\sum_i w_i^2 \mathrm{Var}_i}{s^2 \max_i w_i^2}

    of ten or more, whatever the unit of costs; for rare events this is their expected number. Below five,
    ``caution`` says that p is rough. Then use :func:`~calibrant.hypothesis_tests.consistency_test`
    with :func:`~calibrant.metrics.utility_calibration_error`, which is the same test by simulation.

    The published formula is conservative, more so with few rows or few distinct scores. The correction brings the
    rejection rate close to the nominal level (:doc:`/measurements/coverage` has simulated rates of both). With few distinct
    scores of very unequal weight it remains conservative. If all scores are equal, the test is the
    exact one of a normal mean.

    Costs the same as the metric; memory O(n).

    Examples
    --------
    >>> result = cumulative_test([1] * 30 + [0] * 70, [0.2] * 100, utility=OneClass(1))
    >>> round(result.statistic, 6), round(result.p_value, 4)       # P(|N| > 2.5)
    (0.1, 0.0124)
    """
    path_statistic = chosen_statistic(statistic)
    check_utility(utility)
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    name = f"Cumulative test ({statistic=!s}, {utility=}, {continuity_correction=})"
    return _test(data, utility, path_statistic, continuity_correction, name, utility.claim)


def _test(
    data: LabelledPredictions,
    utility: Utility,
    path_statistic: PathStatistic,
    continuity_correction: bool,
    name: str,
    claim: str,
) -> TestResult:
    prospect = utility.prospect(data.predictions)
    groups = ScoreGroups.of(prospect.expected, prospect.tolerance)
    path = groups.path(prospect.realised(data.labels) - prospect.expected, data.weights)
    null = NullDistribution.of(prospect, groups, data.weights, path_statistic, continuity_correction)
    return null.test_of(path, name, claim, data.n_rows, prospect.tolerance)


@dataclass(frozen=True, eq=False)
class ClasswiseTests:
    """One test per class, with p-values adjusted for multiple testing.

    Attributes
    ----------
    classes : ndarray of shape (K,)
        Label of every column.
    results : tuple of TestResult
        The test of each class separately; its ``caution`` is set if the p-value is rough.
    adjusted_p_values : ndarray of shape (K,)
        Holm's adjustment; for two classes, which are one hypothesis, see
        :func:`~calibrant.hypothesis_tests.classwise_cumulative_tests`. Rejecting where they are at most alpha
        keeps the familywise error rate at alpha, for any dependence between the tests.
    """

    classes: AnyArray
    results: tuple[TestResult, ...]
    adjusted_p_values: Float64Array

    def rejected(self, alpha: float = 0.05) -> AnyArray:
        """Return the labels of the classes whose calibration is rejected, the smallest p-value first."""
        order = self._order()
        return self.classes[order[self.adjusted_p_values[order] <= alpha]]

    def _order(self) -> IntArray:
        """Return the columns in increasing order of p-value, ties in decreasing order of the statistic."""
        statistics = [-result.statistic for result in self.results]
        return np.lexsort((statistics, [result.p_value for result in self.results]))

    def _described(self, columns: IntArray) -> str:
        return ", ".join(
            f"{class_text(self.classes[k])} (statistic {self.results[k].statistic:.4g}, "
            f"adjusted {p_text(float(self.adjusted_p_values[k]))}"
            f"{'' if self.results[k].caution is None else ', rough'})"
            for k in columns
        )

    def __str__(self) -> str:
        n_classes, n_found = len(self.classes), len(self.rejected())
        rows = counted(self.results[0].n_rows, "row")
        shown = self._order()[: min(n_found or SHOWN, SHOWN)]
        worst = self._described(shown)
        is_rough = any(self.results[k].caution is not None for k in shown)
        rough = f" Rough p-values come from too few rows{USE_OTHER_TEST}." if is_rough else ""
        if n_found == 0:
            return (
                f"Calibration rejected for none of {n_classes} classes at a familywise level of 5 % ({rows}); smallest "
                f"p-values: {worst}.{rough}"
            )
        more = f" and {n_found - SHOWN} more" if n_found > SHOWN else ""
        found = (
            f"Calibration rejected for {n_found} of {n_classes} classes at a familywise level of 5 % ({rows})"
        )
        return f"{found}: {worst}{more}.{rough}"


def classwise_cumulative_tests(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    statistic: CumulativeStatistic = "kuiper",
    continuity_correction: bool = True,
) -> ClasswiseTests:
    r"""Kuiper or KS test of calibration for every class, with p-values adjusted after Holm.

    With the p-values of :func:`~calibrant.hypothesis_tests.cumulative_test` in increasing order,

    .. math:: \tilde p_{(j)} = \max_{i \le j} \min(1, (K - i + 1) \, p_{(i)})

    :cite:`holm1979`. Two classes are one hypothesis, since each is calibrated if the other is. With Kuiper's statistic
    both tests are identical, and their p-value is not adjusted. With KS, which starts at the lowest score of each
    class, they are two tests of one hypothesis, and both classes have twice the smaller p-value.

    Parameters
    ----------
    y_true, y_proba, sample_weight, statistic, continuity_correction
        See :func:`~calibrant.hypothesis_tests.cumulative_test`.

    Returns
    -------
    ClasswiseTests

    Notes
    -----
    If fewer than about ten rows of a class are expected, its p-value is rough; below about five, its result has a
    ``caution``. Costs O(n log n) for each class; memory O(n).

    Examples
    --------
    >>> p = np.tile([0.5, 0.3, 0.2], (100, 1))
    >>> tests = classwise_cumulative_tests([0] * 30 + [1] * 50 + [2] * 20, p)
    >>> print(tests)
    Calibration rejected for 2 of 3 classes at a familywise level of 5 % (100 rows): class 1 (statistic 0.2,
    adjusted p = 3.82e-05), class 0 (statistic 0.2, adjusted p = 0.000127).
    >>> tests.adjusted_p_values.round(4)
    array([1.e-04, 0.e+00, 1.e+00])
    """
    path_statistic = chosen_statistic(statistic)
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    results = tuple(
        _test(
            data,
            OneClass(column),
            path_statistic,
            continuity_correction,
            f"Cumulative test ({statistic=!s}, {name}, {continuity_correction=})",
            f"{name} occurs as often as its probability says",
        )
        for column, name in enumerate(map(class_text, data.classes))
    )
    return ClasswiseTests(
        data.classes, results, adjusted_p_values([result.p_value for result in results], statistic)
    )


def adjusted_p_values(p_values: list[float], statistic: CumulativeStatistic) -> Float64Array:
    """Return p-values adjusted for the number of hypotheses."""
    if len(p_values) > 2:
        return holm(p_values)
    # The two classes determine each other, and the range of a path does not depend on its direction.
    return np.array(p_values) if statistic == "kuiper" else np.full(2, min(1.0, 2 * min(p_values)))
