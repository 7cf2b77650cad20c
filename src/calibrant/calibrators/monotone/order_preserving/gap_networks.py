"""Networks that rescale the gaps between the sorted scores of a row, and their fit."""

from dataclasses import dataclass, field, replace
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray, Vector
from calibrant.calibrators.monotone.order_preserving.tempered_scores import (
    Inputs,
    TemperedScores,
    traced_tempered_scores,
)
from calibrant.graph import TracedPredictions, Value
from calibrant.graph.order import CumulativeSum, SortDescending, Unsort
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.dense_network import Activation, DenseNetwork
from calibrant.numerics.reductions import row_sums, running_sums
from calibrant.numerics.row_blocks import BlockSums, row_blocks
from calibrant.predictions import Predictions
from calibrant.solvers import LocalMinimum, Solution, Status, quasi_newton

__all__ = ["GapFamily", "GapNetwork", "GapObjective", "InputScale", "fit_gap_network"]


# Spreads from the mean, further than which an input counts as being there.
FAR_OUT = 3.0

# A spread of less than this share of the numbers themselves is their rounding.
ROUNDING = 1e-12


@dataclass(frozen=True)
class GapFamily:
    """What a network sees and how it is built.

    Attributes
    ----------
    sees : {"classes", "places"}
        Whether the scores go into the network in the order of the classes, or sorted downwards.
    hidden : tuple of int
        Units of each hidden layer.
    activation : {"elu", "relu", "tanh"}
        What hidden units compute.
    inputs : {"log-probabilities", "logits"}
        What the scores are.
    """

    sees: Literal["classes", "places"]
    hidden: tuple[int, ...] = (10,)
    activation: Activation = "elu"
    inputs: Inputs = "log-probabilities"

    def network(self, n_classes: int) -> DenseNetwork:
        """Return the network from K scores to K - 1 gaps."""
        return DenseNetwork((n_classes, *self.hidden, n_classes - 1), self.activation)


@dataclass(frozen=True, eq=False)
class InputScale:
    """Mean and spread of each input over the calibration rows, both (K,)."""

    means: Vector
    spreads: Vector

    @classmethod
    def of(cls, inputs: FloatArray, shares: Vector) -> "InputScale":
        """Measure the columns of (n, K), with weights of the rows that sum to one."""
        means: Vector = shares @ inputs
        squares = np.zeros(len(means))
        for rows in row_blocks(*inputs.shape):
            squares += shares[rows] @ (inputs[rows] - means) ** 2
        spreads = np.sqrt(squares)
        constant = spreads <= ROUNDING * np.abs(inputs).max(axis=0)
        return cls(means, np.where(constant, 1.0, spreads))

    def standardised(self, inputs: FloatArray) -> FloatArray:
        """Return inputs of mean zero and variance one, and of at most :data:`FAR_OUT` spreads.

        So a row far from all others neither pulls a network nor makes it explode.
        """
        scaled = inputs - self.means
        scaled /= self.spreads
        return np.clip(scaled, -FAR_OUT, FAR_OUT, out=scaled)


@dataclass(frozen=True, eq=False)
class GapNetwork:
    r"""Calibrated logits with the order of the scores, whose gaps a network has stretched.

    .. math:: f_{(1)} = 0, \qquad f_{(j+1)} = f_{(j)} - (x_{(j)} - x_{(j+1)})\, g(m_j), \qquad
              g(m) = \tfrac12 \big(m + \sqrt{m^2 + 4}\big) > 0

    with x the scores of a row at the temperature 1 / ``inverse_temperature``, (j) the place of a class in the row, and
    m the outputs of the network for this row. A network of zeros is temperature scaling, since g(0) = 1.

    Attributes
    ----------
    family : GapFamily
        What the network sees and how it is built.
    inverse_temperature : float
        What logits are multiplied by before all else.
    scale : InputScale
        How inputs are brought to mean zero and variance one.
    theta : ndarray
        Parameters of the network.
    solution : Solution
        Result of the solver.
    """

    family: GapFamily
    inverse_temperature: float
    scale: InputScale
    theta: Vector
    solution: Solution

    def traced(self, given: TracedPredictions) -> Value:
        """Return calibrated logits in the float type of the scores, computed in float64."""
        widened = TracedPredictions(given.scores.widened, given.space, given.floor)
        scores = traced_tempered_scores(widened, self.inverse_temperature, self.family.inputs)
        descending = scores.then(SortDescending(given.n_classes))
        inputs = scores if self.family.sees == "classes" else descending
        units = ((inputs - self.scale.means) * (1 / self.scale.spreads)).clip(-FAR_OUT, FAR_OUT)
        network = self.family.network(given.n_classes)
        outputs = units.network(network.layers(self.theta), self.family.activation)
        before, after = (descending.columns(np.arange(given.n_classes - 1) + shift) for shift in (0, 1))
        # m + sqrt(m^2 + 4), half of which is the stretch of a gap.
        stretch = outputs + (outputs.function("square") + 4.0).function("square-root")
        fallen = (stretch * (before - after) * 0.5).then(CumulativeSum()) * -1.0
        largest = fallen.constant(0.0)
        return largest.joined(fallen).then(Unsort(), scores).narrowed()


def stretched(gaps: FloatArray, outputs: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""Return gaps times g(m) for outputs m of a network, and :math:`\sqrt{m^2 + 4}`; ``outputs`` is overwritten.

    >>> stretched(np.ones(3), np.array([-1.5, 0.0, 1.5]))
    (array([0.5, 1. , 2. ]), array([2.5, 2. , 2.5]))
    """
    roots = outputs * outputs
    roots += 4
    np.sqrt(roots, out=roots)
    outputs += roots
    outputs *= gaps
    outputs *= 0.5
    return outputs, roots


@dataclass(frozen=True, eq=False)
class GapObjective:
    r"""Mean log-loss of a gap network plus weight decay, with its gradient.

    With :math:`t_j` the sum of the first j stretched gaps, the softmax is :math:`p_{(j+1)} = e^{-t_j} / (1 + \sum_l
    e^{-t_l})`, and the derivative of a row's loss in the l-th stretched gap is

    .. math:: [\text{the label comes after place } l] - \sum_{j > l} p_{(j)} ,

    a cumulative sum from the end; :math:`g'(m) = g(m) / \sqrt{m^2 + 4}` does the rest, and the network its own part.

    Attributes
    ----------
    network : DenseNetwork
        From K inputs to K - 1 gaps.
    inputs : ndarray of shape (n, K)
        What goes into it.
    gaps : ndarray of shape (n, K - 1)
        Gaps between neighbours of a sorted row.
    places : ndarray of shape (n,)
        How many classes come before the true one.
    shares : ndarray of shape (n,)
        Weights of the rows, which sum to one.
    weight_decay : float
        Price of the sum of squares of all parameters.
    """

    network: DenseNetwork
    inputs: FloatArray
    gaps: FloatArray
    places: NDArray[np.intp]
    shares: Vector
    weight_decay: float
    _kept: dict[int | None, tuple[FloatArray, FloatArray]] = field(default_factory=dict)

    def penalty(self, theta: Vector) -> float:
        """Return the weight decay alone."""
        return self.weight_decay * float(theta @ theta)

    def expand(self, theta: Vector, in_all_blocks: BlockSums | None = None) -> tuple[float, Vector]:
        """Return value and gradient."""

        def block(rows: slice) -> Vector:
            return self._block(theta, rows)

        total = block(slice(None)) if in_all_blocks is None else in_all_blocks(block)
        return float(total[0]) + self.penalty(theta), total[1:] + 2 * self.weight_decay * theta

    def _block(self, theta: Vector, rows: slice) -> Vector:
        """Return the sums of losses and gradients of some rows, one after the other."""
        shares, places = self.shares[rows], self.places[rows]
        run = self.network.run(theta, self.inputs[rows])
        steps, roots = stretched(self.gaps[rows], run.outputs)
        # Fresh memory costs as much as the work done in it.
        fallen, later_slopes = self._kept.setdefault(rows.start, (np.empty_like(steps), np.empty_like(steps)))
        running_sums(steps, fallen)
        later = np.flatnonzero(places)  # rows whose label is not the largest entry
        before = places[later] - 1
        losses_of_labels = fallen[later, before]
        relative = np.exp(np.negative(fallen, out=fallen), out=fallen)
        totals = 1 + row_sums(relative)
        loss = shares @ np.log(totals) + shares[later] @ losses_of_labels
        slopes = np.multiply(relative, (-shares / totals)[:, np.newaxis], out=relative)
        slopes[later, before] += shares[later]
        slopes = running_sums(slopes, later_slopes, from_end=True)
        slopes *= steps
        slopes /= roots
        return np.append(loss, self.network.gradient(theta, run, slopes))

    def descend(self, start: Vector, tolerance: float, max_iterations: int) -> LocalMinimum:
        """Walk downhill from ``start``."""
        with BlockSums.over(len(self.places), max(self.network.widths)) as in_all_blocks:
            return quasi_newton(
                lambda theta: self.expand(theta, in_all_blocks),
                start,
                tolerance=tolerance,
                max_iterations=max_iterations,
            )


def fit_gap_network(
    data: LabelledPredictions,
    family: GapFamily,
    weight_decay: float,
    *,
    seed: int = 0,
    restarts: int = 1,
    tolerance: float = 1e-9,
    max_iterations: int = 1000,
) -> GapNetwork:
    """Fit a network to the log-loss of calibration rows, from temperature scaling on.

    Parameters
    ----------
    data : LabelledPredictions
        Calibration rows.
    family : GapFamily
        What the network sees and how it is built.
    weight_decay : float
        Price of the sum of squares of all parameters, next to the mean log-loss. Infinite for temperature scaling.
    seed : int
        Where the random weights of hidden units come from.
    restarts : int
        How many such starts there are; the one that leads lowest is kept.
    tolerance, max_iterations : float, int
        See :func:`~calibrant.solvers.quasi_newton.quasi_newton`.

    Notes
    -----
    In every start the last layer is zero, which is temperature scaling. Should no start lead below the loss of that,
    it is temperature scaling itself, so neither this nor doing nothing has a lower loss on the calibration rows. Where
    rows are all right, and no temperature is low enough, the identity takes its place.

    A pass costs O(nK (h + 1)) time for h units next to the inputs and outputs. Memory is that of several
    matrices of shape (n, K) in float64.

    Examples
    --------
    Confident rows are wrong too often and others are calibrated; one temperature cannot correct both.

    >>> p = [[0.98, 0.01, 0.01]] * 100 + [[0.5, 0.3, 0.2]] * 100
    >>> y = ([0] * 8 + [1, 2]) * 10 + ([0] * 5 + [1] * 3 + [2] * 2) * 10
    >>> data = LabelledPredictions.parse(p, y)
    >>> from calibrant.graph.apply import evaluated
    >>> fitted = fit_gap_network(data, GapFamily("places"), weight_decay=1e-5)
    >>> calibrated = evaluated(fitted.traced, data.predictions.take([0, 100]))
    >>> Predictions.from_logits(calibrated).probabilities.round(2)
    array([[0.8, 0.1, 0.1], [0.5, 0.3, 0.2]])
    """
    data = replace(data, predictions=_in_float64(data.predictions, slice(None)))
    rows = TemperedScores.of(data, family.inputs)
    sorted_rows = SortedRows.of(rows.scores)
    inputs = rows.scores if family.sees == "classes" else sorted_rows.values
    weights = np.ones(data.n_rows) if rows.weights is None else rows.weights
    shares = weights / weights.sum()
    scale = InputScale.of(inputs, shares)
    objective = GapObjective(
        network=family.network(data.n_classes),
        inputs=scale.standardised(inputs),
        gaps=sorted_rows.gaps,
        places=sorted_rows.places_of(rows.labels),
        shares=shares,
        weight_decay=0.0 if np.isinf(weight_decay) else weight_decay,
    )
    nothing = np.zeros(objective.network.n_parameters)
    valleys = [LocalMinimum(nothing, objective.expand(nothing)[0], 0.0, 0, 1, Status.CONVERGED)]
    if np.isfinite(weight_decay) and objective.gaps.max() > 0:
        for start in range(restarts):
            theta = objective.network.start(np.random.default_rng([seed, start]), 0.0)
            valleys.append(objective.descend(theta, tolerance, max_iterations))
    lowest = min(valleys, key=lambda minimum: minimum.value)
    beta, loss = rows.inverse_temperature, lowest.value - objective.penalty(lowest.theta)
    if not loss <= rows.identity_loss:
        # Only rounding, or scores at the edge of what floats hold, can lead here.
        beta, loss = 1.0, rows.identity_loss
        lowest = lowest._replace(theta=nothing, value=loss, status=Status.IDENTITY)
    solution = Solution(
        theta=lowest.theta,
        value=lowest.value,
        loss=loss,
        identity_loss=rows.identity_loss,
        decrement=tolerance * max(1.0, lowest.value),
        n_iterations=sum(minimum.n_iterations for minimum in valleys),
        n_evaluations=sum(minimum.n_evaluations for minimum in valleys),
        status=lowest.status,
    )
    return GapNetwork(family, beta, scale, lowest.theta, solution)


def _in_float64(predictions: Predictions, rows: slice) -> Predictions:
    """Return some rows in float64, so that logarithms and sums of float32 scores do not round."""
    scores = predictions.scores[rows].astype(np.float64, copy=False)
    return Predictions(scores, predictions.space, predictions.classes, predictions.floor)


@dataclass(frozen=True, eq=False)
class SortedRows:
    """The entries of every row from the largest to the smallest.

    Attributes
    ----------
    order : ndarray of shape (n, K)
        Column that comes first, second and so on; of equal entries the one further to the left comes first.
    values : ndarray of shape (n, K)
        The entries in that order.

    Examples
    --------
    >>> rows = SortedRows.of(np.array([[1.0, 4.0, 2.0]]))
    >>> rows.order, rows.gaps
    (array([[1, 2, 0]]), array([[2., 1.]]))
    >>> rows.descending_by(rows.gaps)           # the same row, but for its largest entry
    array([[-3.,  0., -2.]])
    >>> rows.places_of(np.array([0]))
    array([2])
    """

    order: NDArray[np.intp]
    values: FloatArray

    @classmethod
    def of(cls, rows: FloatArray) -> Self:
        """Sort every row of (n, K); one stable sort each."""
        order = np.argsort(-rows, axis=1, kind="stable")
        return cls(order, np.take_along_axis(rows, order, axis=1))

    @property
    def gaps(self) -> FloatArray:
        """How much each entry exceeds the next one, (n, K - 1); zero between equals."""
        gaps: FloatArray = self.values[:, :-1] - self.values[:, 1:]
        return gaps

    def places_of(self, columns: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return how many entries come before the one in the given column of each row, (n,)."""
        places: NDArray[np.intp] = (self.order == columns[:, np.newaxis]).argmax(axis=1)
        return places

    def descending_by(self, steps: FloatArray) -> FloatArray:
        """Return rows (n, K) whose largest entry is 0 and which go down by ``steps`` (n, K - 1) in this order."""
        fallen = np.zeros((len(steps), steps.shape[1] + 1), dtype=steps.dtype)
        np.cumsum(steps, axis=1, out=fallen[:, 1:])
        rows = np.empty_like(fallen)
        np.put_along_axis(rows, self.order, np.subtract(0, fallen, out=fallen), axis=1)
        return rows
