"""Decisions under a cost matrix: Bayes decisions, their expected and realised cost, and net benefit."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Float64Array, IntArray
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.declaration import Evaluator, MetricTraits, metric
from calibrant.metrics.events import confidences
from calibrant.metrics.row_losses import MeanMetric
from calibrant.numerics.reductions import row_sums
from calibrant.numerics.rounding import argmin_within_rounding
from calibrant.numerics.row_blocks import row_blocks
from calibrant.options import check_share
from calibrant.predictions import Predictions
from calibrant.shared_parameters import documented

__all__ = ["bayes_decisions", "cost_gap", "expected_cost", "net_benefit", "realised_cost"]

Decisions = tuple[IntArray, Float64Array]
"""Decision of every row and its expected cost, both of shape (n,)."""


@documented
def bayes_decisions(y_proba: Any, costs: Any) -> IntArray:
    r"""Bayes decisions: the decision of least expected cost for every row.

    .. math:: \delta(p) = \arg\min_d \sum_k C_{dk} \, p_k

    Parameters
    ----------
    costs : array of shape (n_decisions, K)
        Cost :math:`C_{dk}` of decision d if class k is the true one; a gain is a negative cost.

    Returns
    -------
    ndarray of shape (n,)
        Row numbers of ``costs``. Ties, within 1e-12 of the largest cost, go to the first decision.

    Notes
    -----
    Optimal if the probabilities are calibrated for these costs, which :func:`cost_gap` measures.
    Costs O(n K n_decisions) time and O(n) memory.

    Examples
    --------
    Treatment costs 1, and not treating a sick patient costs 10: treat from a probability of 1/10 on.

    >>> costs = [[0, 10],        # wait
    ...          [1, 1]]         # treat
    >>> bayes_decisions([0.05, 0.2, 0.7], costs)
    array([0, 1, 1])
    """
    matrix = parsed_costs(costs)
    return _bayes_decisions(Predictions.parse(y_proba), matrix)[0]


@documented
def expected_cost(y_proba: Any, costs: Any, *, sample_weight: Any = None) -> float:
    r"""Mean expected cost of the Bayes decisions, according to the predicted probabilities.

    .. math:: \frac{1}{W} \sum_i w_i \min_d \sum_k C_{dk} \, p_{ik}, \qquad W = \sum_i w_i

    Parameters
    ----------
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two; rows are divided by their sums.
    costs : array of shape (n_decisions, K)
        Cost :math:`C_{dk}` of decision d if class k is the true one.

    Returns
    -------
    float
        In the unit of the costs. Costs O(n K n_decisions) time and O(n) memory.

    Examples
    --------
    >>> round(expected_cost([0.05, 0.2, 0.7], [[0, 10], [1, 1]]), 6)        # (0.5 + 1 + 1) / 3
    0.833333
    """
    matrix = parsed_costs(costs)
    data = parsed_without_labels(y_proba, sample_weight)
    return float(np.average(_bayes_decisions(data.predictions, matrix)[1], weights=data.weights))


def _prepare_realised_cost(predictions: Predictions, costs: Any = None) -> Evaluator:
    matrix = None if costs is None else parsed_costs(costs)
    decisions, _ = _bayes_decisions(predictions, matrix)
    return lambda labels, weights: float(np.average(_row_costs(decisions, labels, matrix), weights=weights))


@metric(MetricTraits(commutes_with_permutations=False, two_sided=True), prepare=_prepare_realised_cost)
def realised_cost(y_true: Any, y_proba: Any, *, sample_weight: Any = None, costs: Any = None) -> float:
    r"""Realised cost: mean cost of the Bayes decisions, given the true classes.

    .. math:: \frac{1}{W} \sum_i w_i \, C_{\delta(p_i) \, y_i},
              \qquad \delta(p) = \arg\min_d \sum_k C_{dk} \, p_k, \quad W = \sum_i w_i

    Parameters
    ----------
    costs : array of shape (n_decisions, K), optional
        Cost :math:`C_{dk}` of decision d if class k, in the order of the columns, is the true one. By default
        a decision names a class and costs 1 if it is wrong: the error rate.

    Returns
    -------
    float
        In the unit of the costs; lower is better. In expectation no probabilities beat the true ones,
        but others may do equally well. Costs O(n K n_decisions) time and O(n) memory.

    Examples
    --------
    >>> realised_cost([0, 1, 1, 0], [0.05, 0.08, 0.7, 0.2], costs=[[0, 10], [1, 1]])      # (0 + 10 + 1 + 1) / 4
    3.0
    >>> realised_cost([0, 1, 1, 0], [0.05, 0.08, 0.7, 0.2])
    0.25
    """
    matrix = None if costs is None else parsed_costs(costs)
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    return _prepare_realised_cost(data.predictions, matrix)(data.labels, data.weights)


def _prepare_cost_gap(predictions: Predictions, costs: Any = None, signed: bool = False) -> Evaluator:
    matrix = None if costs is None else parsed_costs(costs)
    decisions, expected = _bayes_decisions(predictions, matrix)

    def evaluate(labels: IntArray, weights: Float64Array | None) -> float:
        gap = float(np.average(_row_costs(decisions, labels, matrix) - expected, weights=weights))
        return gap if signed else abs(gap)

    return evaluate


@metric(MetricTraits(commutes_with_permutations=False, two_sided="signed"), prepare=_prepare_cost_gap)
def cost_gap(
    y_true: Any, y_proba: Any, *, sample_weight: Any = None, costs: Any = None, signed: bool = False
) -> float:
    r"""Cost gap: difference between the realised and the expected cost of the Bayes decisions.

    .. math::

        \Bigl| \frac{1}{W} \sum_i w_i \Bigl( C_{\delta(p_i) \, y_i} - \sum_k C_{\delta(p_i) \, k} \, p_{ik}
        \Bigr) \Bigr|, \qquad \delta(p) = \arg\min_d \sum_k C_{dk} \, p_k, \quad W = \sum_i w_i

    Zero in expectation for predictions that are calibrated for these decisions :cite:`zhao2021`.

    Parameters
    ----------
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two; rows are divided by their sums.
    costs : array of shape (n_decisions, K), optional
        Cost :math:`C_{dk}` of decision d if class k, in the order of the columns, is the true one. By default
        a decision names a class and costs 1 if it is wrong: the gap between mean confidence and
        accuracy.
    signed : bool, default=False
        Keep the sign: positive if decisions cost more than expected.

    Returns
    -------
    float
        In the unit of the costs; nearer to zero is better. Costs O(n K n_decisions) time and O(n) memory.

    Examples
    --------
    >>> y, p = [0, 1, 1, 0], [0.05, 0.08, 0.7, 0.2]
    >>> round(cost_gap(y, p, costs=[[0, 10], [1, 1]], signed=True), 6)     # 3 paid, 3.3 / 4 expected
    2.175
    """
    if not isinstance(signed, bool | np.bool_):
        raise ParameterError(f"signed must be True or False, not {signed!r}.")
    matrix = None if costs is None else parsed_costs(costs)
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    return _prepare_cost_gap(data.predictions, matrix, bool(signed))(data.labels, data.weights)


def parsed_costs(costs: Any) -> Float64Array:
    """Return finite costs as float64, (n_decisions, K), a copy."""
    try:
        matrix = np.array(costs, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            "costs must be a table of numbers with one row per decision and one column per class."
        ) from error
    if matrix.ndim != 2 or matrix.size == 0 or not np.isfinite(matrix).all():
        found = (
            f"have shape {matrix.shape}" if matrix.ndim != 2 or matrix.size == 0 else "some are not finite"
        )
        raise ParameterError(
            f"costs must be a table of finite numbers with one row per decision and one column per class, but {found}."
        )
    return matrix


def check_columns(costs: Float64Array, n_classes: int) -> None:
    """Raise unless costs have one column per class."""
    if costs.shape[1] != n_classes:
        raise ParameterError(
            f"costs must have one column per class, {n_classes}, but have {costs.shape[1]}; "
            "give every decision a cost for every class."
        )


def parsed_without_labels(y_proba: Any, sample_weight: Any) -> LabelledPredictions:
    """Parse predictions and weights; the predicted classes serve as labels, which have no effect on the result."""
    predictions = Predictions.parse(y_proba)
    predicted = predictions.predicted
    labels = predicted if predictions.classes is None else predictions.classes[predicted]
    return LabelledPredictions.parse(predictions, labels, sample_weight)


def _bayes_decisions(predictions: Predictions, costs: Float64Array | None) -> Decisions:
    """Return the decision of every row and its expected cost, in blocks of rows."""
    if costs is None:
        return _most_probable_classes(predictions)
    check_columns(costs, predictions.n_classes)
    decisions = np.empty(predictions.n_rows, dtype=np.intp)
    expected = np.empty(predictions.n_rows)
    largest = float(np.abs(costs).max())
    for rows in row_blocks(predictions.n_rows, predictions.n_classes + len(costs)):
        block = predictions.probabilities[rows].astype(np.float64)
        # Otherwise adding a constant to all costs would change the expected cost by another amount.
        block /= row_sums(block)[:, np.newaxis]
        expected_costs = block @ costs.T  # (rows, n_decisions)
        decisions[rows] = argmin_within_rounding(expected_costs, largest, axis=1)
        expected[rows] = expected_costs[np.arange(len(expected_costs)), decisions[rows]]
    return decisions, expected


def _most_probable_classes(predictions: Predictions) -> Decisions:
    """Return the predicted class of every row and one minus its probability, without a K x K matrix."""
    expected = 1 - confidences(predictions).astype(np.float64)
    for rows in row_blocks(predictions.n_rows, predictions.n_classes):
        total = row_sums(predictions.probabilities[rows].astype(np.float64))
        expected[rows] = 1 - (1 - expected[rows]) / total
    return predictions.predicted, expected


def _row_costs(decisions: IntArray, labels: IntArray, costs: Float64Array | None) -> Float64Array:
    """Return the cost of every row, (n,)."""
    return (decisions != labels).astype(np.float64) if costs is None else costs[decisions, labels]


def _benefits(predictions: Predictions, threshold: float) -> Callable[[NDArray[np.intp]], Float64Array]:
    if predictions.n_classes != 2:
        raise ParameterError(
            f"net benefit is for two classes, but there are {predictions.n_classes}; pass the probability of one class "
            "and whether it is the true one, or use realised_cost."
        )
    treated = predictions.probabilities[:, 1] >= threshold
    odds = threshold / (1 - threshold)
    return lambda labels: np.where(treated, np.where(labels == 1, 1.0, -odds), 0.0)


def _net_benefit(threshold: float) -> MeanMetric:
    check_share("threshold", threshold, 0.2)
    return MeanMetric(
        lambda data: _benefits(data.predictions, threshold)(data.labels),
        lambda predictions: _benefits(predictions, threshold),
    )


@metric(
    MetricTraits(higher_is_better=True, commutes_with_permutations=False, two_sided=True), parts=_net_benefit
)
def net_benefit(y_true: Any, y_proba: Any, *, threshold: float, sample_weight: Any = None) -> float:
    r"""Net benefit: true positives minus false positives at the odds of a probability threshold, per row.

    .. math:: \frac{1}{W} \sum_i w_i \, [p_i \ge t] \Bigl( y_i - (1 - y_i) \frac{t}{1 - t} \Bigr)

    for the probability :math:`p_i` of the second class and the outcome :math:`y_i` :cite:`vickers2006`.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns; two classes.
    y_proba : array, frame or Predictions
        Probabilities (n, 2), or (n,) or (n, 1) for the positive class.
    threshold : float
        Probability t, between 0 and 1, from which on one acts (treats, investigates, alerts). It expresses the costs: at
        :math:`t = 0.1` one accepts nine false positives for one true positive.

    Returns
    -------
    float
        In true positives per row; higher is better. Acting on no row has a net benefit of 0, acting on all rows of
        :math:`\pi - (1 - \pi) t / (1 - t)` at a prevalence :math:`\pi`. Costs O(n).

    Notes
    -----
    If acting on a row without the event costs :math:`c_\mathrm{FP}`, and not acting on a row with it costs
    :math:`c_\mathrm{FN}`, the threshold of least expected cost for calibrated probabilities is
    :math:`t = c_\mathrm{FP} / (c_\mathrm{FP} + c_\mathrm{FN})`. :math:`c_\mathrm{FN}` times the net benefit is then the
    saving against never acting. :func:`~calibrant.intervals.decision_curve` has all thresholds, with intervals.

    Examples
    --------
    Above 0.2 are two true positives and one false one, which costs a quarter of a true one:

    >>> net_benefit([1, 1, 0, 0], [0.9, 0.3, 0.4, 0.1], threshold=0.2)      # (2 - 1/4) / 4
    0.4375
    """
    return _net_benefit(threshold)(LabelledPredictions.parse(y_proba, y_true, sample_weight))
