"""Utility calibration: difference between predicted and realised utility of acting on predictions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import AnyArray, Float64Array, FloatArray, IntArray
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.cumulative import CumulativeStatistic, chosen_statistic
from calibrant.metrics.decisions import check_columns, parsed_costs
from calibrant.metrics.declaration import Evaluator, MetricTraits, metric
from calibrant.metrics.events import confidences, float64_probabilities
from calibrant.numerics.cumulative import ScoreGroups
from calibrant.numerics.reductions import row_sums
from calibrant.numerics.rounding import SAME_COST, argmin_within_rounding
from calibrant.numerics.row_blocks import BlockSums, row_blocks
from calibrant.options import check_whole
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["OneClass", "OptimalDecision", "Prospect", "TopClasses", "Utility", "utility_calibration_error"]

Split = Callable[[Float64Array], tuple[FloatArray, FloatArray]]

# Relative tolerance for sums of the same numbers in another order.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Prospect:
    """Predicted utility of every row with its variance, and the realised utility as a function of the labels.

    Attributes
    ----------
    expected, variance : ndarray of shape (n,)
        Mean and variance of the utility under the predicted probabilities.
    realised : function
        Takes column numbers of true classes, (n,), and returns the realised utility, (n,).
    span : float
        Largest difference between two utilities that one row can have.
    tolerance : float
        Expected utilities that differ by at most this are equal up to rounding.
    """

    expected: Float64Array
    variance: Float64Array
    realised: Callable[[IntArray], AnyArray]
    span: float = 1.0
    tolerance: float = 0.0


@runtime_checkable
class Utility(Protocol):
    """Utility of a prediction f once the true class y is known, :math:`U(f, y)`.

    :class:`~calibrant.metrics.TopClasses`, :class:`~calibrant.metrics.OneClass` and
    :class:`~calibrant.metrics.OptimalDecision` are utilities, as is any object with these two members.
    """

    @property
    def claim(self) -> str:
        """What calibrated predictions mean for this utility, as a sentence without a full stop."""
        ...

    def prospect(self, predictions: Predictions) -> Prospect:
        """Return the predicted utility of the predictions."""
        ...


def check_utility(utility: Any) -> None:
    """Raise unless this is a utility."""
    if isinstance(utility, type) or not isinstance(utility, Utility):
        raise ParameterError(
            f"utility must be TopClasses(k), OneClass(column), OptimalDecision(costs) or an object with "
            f"'claim' and 'prospect', not {utility!r}."
        )


@dataclass(frozen=True)
class TopClasses:
    """Top-k utility: 1 if the true class is among the k most probable, else 0; ties go to the first columns.

    Parameters
    ----------
    k : int, default=1
        Size of the set; one is the predicted class. Must be less than the number of classes.
    """

    k: int = 1

    def __post_init__(self) -> None:
        check_whole("k", self.k, least=1)

    @property
    def claim(self) -> str:
        """What calibrated predictions mean."""
        if self.k == 1:
            return "the predicted class is right as often as its probability says"
        return f"the true class is among the {self.k} most probable as often as their probabilities say"

    def prospect(self, predictions: Predictions) -> Prospect:
        """Return the probability of the set; O(nK) time, in blocks of rows."""
        if self.k >= predictions.n_classes:
            raise ParameterError(
                f"k must be less than the number of classes, {predictions.n_classes}, but is {self.k}; "
                "the true class is always among all of them."
            )
        predicted, given = predictions.predicted, predictions.space is Space.PROBABILITIES
        if self.k == 1 and given:
            return _event(confidences(predictions), lambda labels: labels == predicted)
        others = predictions.n_classes - self.k

        def split(block: Float64Array) -> tuple[FloatArray, FloatArray]:
            block.partition(others, axis=1)
            return row_sums(block[:, others:]), row_sums(block[:, :others])

        if self.k == 1:
            return _event_of_logits(predictions, split, lambda labels: labels == predicted)
        if not given:
            return _event_of_logits(predictions, split, lambda labels: self._contains(predictions, labels))
        total = np.empty(predictions.n_rows)
        for rows in row_blocks(*predictions.scores.shape):
            total[rows], _ = split(predictions.scores[rows].astype(np.float64))
        return _event(total, lambda labels: self._contains(predictions, labels), ROUNDING)

    def _contains(self, predictions: Predictions, labels: IntArray) -> NDArray[np.bool_]:
        """Return for every row whether fewer than k classes rank before the true one."""
        contained = np.empty(predictions.n_rows, dtype=np.bool_)
        place = np.arange(predictions.n_classes)
        for rows in row_blocks(*predictions.scores.shape):
            block, column = predictions.scores[rows], labels[rows, np.newaxis]
            own = np.take_along_axis(block, column, axis=1)
            before = (block > own) | ((block == own) & (place < column))
            contained[rows] = np.count_nonzero(before, axis=1) < self.k
        return contained


@dataclass(frozen=True)
class OneClass:
    """Utility of one class: 1 if it is the true class, else 0.

    Parameters
    ----------
    column : int
        Column number of the class.
    """

    column: int

    def __post_init__(self) -> None:
        check_whole("column", self.column, least=0)

    @property
    def claim(self) -> str:
        """What calibrated predictions mean."""
        return f"the class of column {self.column} occurs as often as its probability says"

    def prospect(self, predictions: Predictions) -> Prospect:
        """Return the probability of the class; O(n), and O(K) for every row that predicts the class from logits."""
        if self.column >= predictions.n_classes:
            raise ParameterError(
                f"column must be less than the number of classes, {predictions.n_classes}, "
                f"but is {self.column}."
            )
        prospect = _event(predictions.probabilities[:, self.column], lambda labels: labels == self.column)
        if predictions.space is Space.PROBABILITIES:
            return prospect

        def split(block: Float64Array) -> tuple[FloatArray, FloatArray]:
            own = block[:, self.column].copy()
            block[:, self.column] = 0
            return own, row_sums(block)

        # Only a probability above one half can be so close to one that rounding leaves no variance.
        top = np.flatnonzero(predictions.predicted == self.column)
        exact = _event_of_logits(predictions.take(top), split, prospect.realised)
        prospect.expected[top], prospect.variance[top] = exact.expected, exact.variance
        return prospect


@dataclass(frozen=True, eq=False, repr=False)
class OptimalDecision:
    r"""Utility of the Bayes decision under a cost matrix: minus its cost.

    The decision is :math:`d_i = \arg\min_d \sum_k p_{ik} c_{dk}`, the first in case of ties, and the utility is
    :math:`-c_{d_i y_i}`.

    Parameters
    ----------
    costs : array of shape (D, K)
        Cost of each decision (row) for each true class (column); gains are negative costs.
    """

    costs: Float64Array

    def __init__(self, costs: Any) -> None:
        matrix = parsed_costs(costs)
        matrix.flags.writeable = False
        object.__setattr__(self, "costs", matrix)

    def __repr__(self) -> str:
        n_decisions, n_classes = self.costs.shape
        shown = self.costs.tolist() if self.costs.size <= 16 else f"<{n_decisions} x {n_classes}>"
        return f"OptimalDecision(costs={shown})"

    @property
    def claim(self) -> str:
        """What calibrated predictions say."""
        return "the Bayes decision costs as much as the probabilities say"

    def prospect(self, predictions: Predictions) -> Prospect:
        """Return the expected utility of the Bayes decision; O(nKD) time, in blocks of rows.

        Rows are divided by their sum, so that adding a constant to all costs changes no residual.
        """
        costs = self.costs
        n_rows, n_classes = predictions.scores.shape
        check_columns(costs, n_classes)
        largest = float(np.abs(costs).max())
        tolerance = SAME_COST * largest
        decision = np.empty(n_rows, dtype=np.intp)
        expected, variance = np.empty(n_rows), np.empty(n_rows)

        def decide(rows: slice) -> int:
            block = float64_probabilities(predictions, rows)
            block /= row_sums(block)[:, np.newaxis]
            means = block @ costs.T
            decision[rows] = argmin_within_rounding(means, largest, axis=1)
            chosen = costs[decision[rows]]
            expected[rows] = -np.einsum("ik,ik->i", block, chosen)
            chosen += expected[rows, np.newaxis]
            variance[rows] = np.einsum("ik,ik->i", block, np.square(chosen, out=chosen))
            return len(block)

        with BlockSums.over(n_rows, n_classes + len(costs), min_rows=64) as over_all_rows:
            over_all_rows(decide)
        variance[variance <= tolerance**2] = 0.0
        spans = costs.max(axis=1) - costs.min(axis=1)
        return Prospect(
            expected,
            variance,
            lambda labels: -costs[decision, labels],
            span=float(spans[decision].max()),
            tolerance=tolerance,
        )


def _event(
    probabilities: FloatArray, occurs: Callable[[IntArray], NDArray[np.bool_]], tolerance: float = 0.0
) -> Prospect:
    """Return the predicted utility for the indicator of an event."""
    # Rows sum to one only up to rounding; probabilities are capped at one.
    expected = np.minimum(probabilities, 1.0, dtype=np.float64)
    return Prospect(expected, expected * (1 - expected), occurs, tolerance=tolerance)


def _event_of_logits(
    predictions: Predictions, split: Split, occurs: Callable[[IntArray], NDArray[np.bool_]]
) -> Prospect:
    """Return the predicted utility for an event from logits, in float64 and in blocks of rows.

    ``split`` takes a block of positive numbers proportional to the probabilities, which it may overwrite, and returns the
    part of each row that belongs to the event and the rest. A float32 softmax that rounds to one would be a certainty that
    the logits do not imply; summing the rest separately keeps the variance above zero.
    """
    expected, variance = np.empty(predictions.n_rows), np.empty(predictions.n_rows)
    for rows in row_blocks(*predictions.scores.shape):
        block = predictions.scores[rows].astype(np.float64)
        block -= block.max(axis=1, keepdims=True)
        inside, outside = split(np.exp(block, out=block))
        total = inside + outside
        expected[rows] = inside / total
        variance[rows] = expected[rows] * (outside / total)
    return Prospect(expected, variance, occurs, tolerance=ROUNDING)


def _prepare(predictions: Predictions, *, utility: Utility, statistic: CumulativeStatistic) -> Evaluator:
    measure = chosen_statistic(statistic).measure
    check_utility(utility)
    prospect = utility.prospect(predictions)
    groups = ScoreGroups.of(prospect.expected, prospect.tolerance)

    def evaluate(labels: IntArray, weights: Float64Array | None) -> float:
        return measure(groups.path(prospect.realised(labels) - prospect.expected, weights))

    return evaluate


@metric(MetricTraits(positive_by_noise=True), prepare=_prepare)
def utility_calibration_error(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    utility: Utility = TopClasses(),
    statistic: CumulativeStatistic = "kuiper",
) -> float:
    r"""Largest gap between predicted and realised utility over an interval of predictions (utility calibration).

    With the utility :math:`U(f, y)` of a prediction f when y is true, the predicted utility
    :math:`v_i = \sum_k f_{ik} U(f_i, k)` and :math:`W = \sum_i w_i`,

    .. math:: \max_{a \le b} \Bigl| \frac{1}{W} \sum_{i :\, a \le v_i \le b} w_i \, (U(f_i, y_i) - v_i) \Bigr|,

    the largest error among rows whose predicted utility lies in any interval :cite:`hegazy2025`.

    Parameters
    ----------
    utility : Utility, default=TopClasses(1)
        :class:`~calibrant.metrics.TopClasses` for the predicted class or a set of k,
        :class:`~calibrant.metrics.OneClass` for a class, :class:`~calibrant.metrics.OptimalDecision` for a cost
        matrix, or any other object with ``claim`` and ``prospect``.
    statistic : {"kuiper", "ks"}, default="kuiper"
        The formula above, or the largest error among the rows whose predicted utility is at most some t.

    Returns
    -------
    float
        At least 0; lower is better. At most 1 for the first two utilities, in units of the costs for the last.

    Notes
    -----
    With :class:`~calibrant.metrics.TopClasses` and ``k=1`` this is
    :func:`~calibrant.metrics.kuiper_calibration_error`. Costs one O(nK) pass (O(nKD) for D
    decisions) in blocks of rows and a sort of n numbers; memory O(n). Predicted utilities of logits are computed in
    float64 whatever their float type, so that none is rounded to a certainty.

    Examples
    --------
    Treatment costs 1, and not treating an ill person costs 4. The four people with a probability of illness of one
    half are treated, at the predicted cost. The two with a probability of 20 % are not treated, at a predicted cost of
    0.8 each. One of these two is ill, so their mean cost is 2:

    >>> costs = [[0, 4], [1, 1]]
    >>> p = [0.5, 0.5, 0.5, 0.5, 0.2, 0.2]
    >>> error = utility_calibration_error([0, 0, 0, 0, 0, 1], p, utility=OptimalDecision(costs))
    >>> round(error, 6)      # (2 - 0.8) times two rows of six
    0.4
    """
    chosen_statistic(statistic)
    check_utility(utility)
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    return _prepare(data.predictions, utility=utility, statistic=statistic)(data.labels, data.weights)
