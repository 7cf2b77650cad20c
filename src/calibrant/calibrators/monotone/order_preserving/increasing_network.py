"""Increasing function of the scores, shared by all classes: the integral of a small positive network."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray, Vector
from calibrant.calibrators.monotone.order_preserving.tempered_scores import (
    Inputs,
    TemperedScores,
    traced_tempered_scores,
)
from calibrant.graph import TracedPredictions, Value
from calibrant.graph.curves import Piecewise
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.dense_network import DenseNetwork, NetworkRun
from calibrant.numerics.row_blocks import BlockSums, one_blas_thread
from calibrant.objective import CrossEntropy
from calibrant.options import random_source
from calibrant.solvers import LocalMinimum, Solution, Status, quasi_newton

__all__ = ["IncreasingNetwork", "NetworkObjective", "fit_increasing_network"]

# The authors' program adds it, so that the function increases even where the network falls without end.
LEAST_RATE = 1e-8

# Random starts are judged after a rough fit, to some of the rows where there are many; the best of them are
# then fitted to all. Accuracies are shares of the loss that a step must gain.
ROUGH, FINE, FINALISTS = 1e-6, 1e-9, 2

SAMPLE_ENTRIES, SAMPLE_ROWS = 2**18, 2000

MAX_DRAWS = 100  # for a start in which all units do something; a few suffice


@dataclass(frozen=True, eq=False)
class Places:
    """Where some numbers lie among the nodes; it stays the same while the function changes.

    Attributes
    ----------
    cells : ndarray of int16
        How many nodes are not above the number: 0 to the left of all, G to the right of all.
    offsets : ndarray
        Distance from the last of these nodes, or from the first node to the left of all.
    """

    cells: NDArray[np.int16]
    offsets: FloatArray

    def take(self, rows: slice | NDArray[np.intp]) -> "Places":
        """Return the places of some rows."""
        return Places(self.cells[rows], self.offsets[rows])


@dataclass(frozen=True, eq=False)
class IntegralTable:
    r"""The integral :math:`f(x) = \int_{t_1}^x r(t)\, dt` of a function that is linear between nodes.

    To the left of the first node and to the right of the last, r is constant. So f has a continuous
    derivative, is quadratic between nodes, linear outside, and increasing wherever r is positive. It is
    linear in the values :math:`r_1, \dots, r_G` at the nodes, and :meth:`adjoint` is its transpose.

    Attributes
    ----------
    nodes : ndarray of shape (G,)
        Strictly increasing, at least two and fewer than 32,000.

    Notes
    -----
    Values and adjoint cost O(1) per number besides O(G), once :meth:`places` has found where the numbers lie.

    Examples
    --------
    The integral of t is half of the square, and continues by straight lines:

    >>> table = IntegralTable(np.array([0.0, 1.0, 2.0]))
    >>> places = table.places(np.array([-1.0, 0.5, 1.5, 3.0]))
    >>> table.integrals(table.nodes, places)
    array([0.   , 0.125, 1.125, 4.   ])
    >>> table.adjoint(np.array([0.0, 1.0, 0.0, 0.0]), places)         # weights of the nodes for x = 1/2
    array([0.375, 0.125, 0.   ])
    """

    nodes: Vector

    @cached_property
    def _widths(self) -> Vector:
        return np.diff(self.nodes)

    def places(self, x: FloatArray) -> Places:
        """Return where every x lies; O(log G) each."""
        cells = np.searchsorted(self.nodes, x, side="right")
        starts = np.append(self.nodes[0], self.nodes)
        return Places(cells.astype(np.int16), x - starts[cells])

    def integrals(self, rates: Vector, places: Places) -> Vector:
        """Return f for the values ``rates`` (G,) of r, in the shape of the places; a new array."""
        areas = self._widths * (rates[:-1] + rates[1:]) / 2
        heights = np.concatenate([[0.0, 0.0], np.cumsum(areas)])
        bends = np.concatenate([[0.0], np.diff(rates) / self._widths / 2, [0.0]])
        cells = places.cells.astype(np.intp)
        integrals: Vector = bends[cells]
        integrals *= places.offsets
        integrals += np.append(rates[0], rates)[cells]
        integrals *= places.offsets
        integrals += heights[cells]
        return integrals

    def adjoint(self, gradients: FloatArray, places: Places) -> Vector:
        """Return the derivatives in ``rates``, (G,), of a sum whose derivatives in the integrals are ``gradients``."""
        size = len(self.nodes) + 1
        cells, offsets = places.cells.ravel().astype(np.intp), places.offsets.ravel()
        constant = np.bincount(cells, gradients.ravel(), size)
        moments = gradients.ravel() * offsets
        linear = np.bincount(cells, moments, size)
        moments *= offsets
        squares = np.bincount(cells, moments, size)[1:-1] / self._widths / 2
        # Half of the area between two nodes belongs to either of them, for all x beyond.
        beyond = constant[::-1].cumsum()[::-1][2:] * self._widths / 2
        derivatives: Vector = linear[1:].astype(np.float64, copy=False)
        derivatives[0] += linear[0]
        derivatives[:-1] += beyond - squares
        derivatives[1:] += beyond + squares
        return derivatives


@dataclass(frozen=True, eq=False)
class IncreasingNetwork:
    r"""Calibrated logits :math:`f(x_k)`, with f the integral of a positive function, the same for all classes.

    Attributes
    ----------
    inverse_temperature : float
        What logits are multiplied by before all else.
    nodes : ndarray of shape (G,)
        Where the integrand is known, on the scale of
        :func:`~calibrant.calibrators.monotone.order_preserving.tempered_scores.tempered_scores`, from the least calibration
        score to the largest.
    rates : ndarray of shape (G,)
        The integrand there, that is the slope of f; linear in between, constant outside.
    inputs : {"log-probabilities", "logits"}
        What f is a function of.
    solution : Solution
        How the fit went; its ``theta`` are weights and biases of the network.
    """

    inverse_temperature: float
    nodes: Vector
    rates: Vector
    inputs: Inputs
    solution: Solution

    def traced(self, given: TracedPredictions) -> Value:
        """Return calibrated logits, which have the order of the scores but for rounding."""
        scores = traced_tempered_scores(given, self.inverse_temperature, self.inputs)
        return scores.then(Piecewise.integral(self.nodes, self.rates)).narrowed()


def fit_increasing_network(
    data: LabelledPredictions,
    hidden: tuple[int, ...] = (2, 2),
    weight_decay: float = 1e-4,
    restarts: int = 5,
    random_state: Any = 0,
    n_nodes: int = 256,
    inputs: Inputs = "log-probabilities",
) -> IncreasingNetwork:
    r"""Fit a network whose integral is one increasing function for all classes.

    .. math:: f(x) = \int^x \big( \mathrm{ELU}(h(t)) + 1 + 10^{-8} \big)\, dt

    with h a small network of ReLU units: the diagonal family of :cite:`rahimi2020`, after :cite:`wehenkel2019`.
    The lower limit of the integral is a constant that the softmax removes.

    Parameters
    ----------
    data : LabelledPredictions
        Calibration rows.
    hidden : tuple of int
        Units of each hidden layer; none for an integrand that is ELU + 1 of a straight line.
    weight_decay : float
        Price of the sum of squares of all weights and of the output's bias, next to the mean log-loss. All of them
        zero is temperature scaling.
    restarts : int
        How many random networks the fit starts from.
    random_state : int, Generator or None
        Where these come from.
    n_nodes : int
        Nodes of the table of integrals; half of them at quantiles of the scores, weighted by p (1 - p), the others at
        equal distances from the least score to the largest. At most some thousand.
    inputs : {"log-probabilities", "logits"}
        Whether x are logarithms of probabilities, or logits as they come, divided by the temperature.

    Notes
    -----
    Every start is temperature scaling: the last layer is zero, so that the slope of f is 1 everywhere. Starts
    are fitted to some of the rows first, and the best of these to all of them, full batch, by a quasi-Newton method;
    temperature scaling itself is among those that the lowest penalised loss is chosen from, so the fit never
    ends above it, nor above doing nothing.

    The authors' program integrates for every score by a quadrature of its own, with about 50 runs of the network
    each. Here the network runs on the nodes of one table that all scores share, and a pass costs about as much as
    its softmax. The program also adds up gradients over the evaluations of its line search, which therefore
    stops early, and neither scales its inputs nor starts from a temperature; it ends at a higher loss, and on some
    networks nowhere near a minimum.

    Costs O(nK) time per pass, some hundred passes, and O(nK) memory.

    Examples
    --------
    Confident rows are wrong too often and others are calibrated; one temperature cannot correct both.

    >>> p = [[0.98, 0.01, 0.01]] * 100 + [[0.5, 0.3, 0.2]] * 100
    >>> y = ([0] * 8 + [1, 2]) * 10 + ([0] * 5 + [1] * 3 + [2] * 2) * 10
    >>> data = LabelledPredictions.parse(p, y)
    >>> from calibrant import Predictions
    >>> from calibrant.graph.apply import evaluated
    >>> fitted = fit_increasing_network(data)
    >>> calibrated = evaluated(fitted.traced, data.predictions.take([0, 100]))
    >>> Predictions.from_logits(calibrated).probabilities.round(2)
    array([[0.8, 0.1, 0.1], [0.5, 0.3, 0.2]])
    """
    generator = random_source(random_state)
    data = data.with_counting_weights()
    rows = TemperedScores.of(data, inputs)
    objective = NetworkObjective.of(rows, hidden, weight_decay, n_nodes)
    start = np.zeros(objective.network.n_parameters)
    valleys = [LocalMinimum(start, objective.expand(start)[0], 0.0, 0, 1, Status.CONVERGED)]
    # All matrices are tiny: threads of BLAS would only wait for each other.
    with one_blas_thread():
        rough = _rough_fits(objective, restarts, generator)
        best = sorted(rough, key=lambda minimum: minimum.value)[:FINALISTS]
        valleys += [quasi_newton(objective.expand, minimum.theta, tolerance=FINE) for minimum in best]
    lowest = min(valleys, key=lambda minimum: minimum.value)
    theta, beta, status = lowest.theta, rows.inverse_temperature, lowest.status
    loss = lowest.value - objective.penalty(theta)
    if status is Status.OUT_OF_PRECISION:
        # A line search that finds nothing better stands at the bend of a unit as often as at the end of digits.
        status = Status.CONVERGED
    if not loss <= rows.identity_loss:
        # Only rounding, or scores too large for their float type, can lead here: temperature scaling is no worse.
        theta, beta, status, loss = start, 1.0, Status.IDENTITY, rows.identity_loss
    solution = Solution(
        theta=theta,
        value=loss + objective.penalty(theta),
        loss=loss,
        identity_loss=rows.identity_loss,
        decrement=FINE * max(1.0, lowest.value),
        n_iterations=sum(minimum.n_iterations for minimum in rough + valleys),
        n_evaluations=sum(minimum.n_evaluations for minimum in rough + valleys),
        status=status,
    )
    return IncreasingNetwork(beta, objective.table.nodes, objective.rates(theta)[0], inputs, solution)


@dataclass(frozen=True, eq=False)
class NetworkObjective:
    r"""Mean log-loss of :math:`\mathrm{softmax}(f(x_1), \dots, f(x_K))` plus weight decay, and its gradient.

    Attributes
    ----------
    network : DenseNetwork
        From one number to one number.
    table : IntegralTable
        Nodes at which the network runs.
    times : ndarray of shape (G, 1)
        The nodes, shifted and scaled to mean zero and variance one over the quantiles: what goes into the network.
    places : Places
        Where the scores (n, K) lie in the table.
    labels : ndarray of shape (n,)
        Column number of the true class.
    weights : ndarray of shape (n,) or None
        Weights of the rows.
    weight_decay : float
        Price of squared parameters.
    """

    network: DenseNetwork
    table: IntegralTable
    times: Vector
    places: Places
    labels: NDArray[np.intp]
    weights: Vector | None
    weight_decay: float

    @classmethod
    def of(
        cls, rows: TemperedScores, hidden: tuple[int, ...], weight_decay: float, n_nodes: int
    ) -> "NetworkObjective":
        """Lay out the table for these rows."""
        quantiles = rows.quantiles(n_nodes // 2)
        least, largest = float(rows.scores.min()), float(rows.scores.max())
        even = np.linspace(least, largest, max(2, n_nodes - len(quantiles)))
        nodes = np.unique(np.concatenate([even, quantiles]))
        # Nodes closer than the rounding of scores would divide noise by noise.
        apart = np.diff(nodes, prepend=-np.inf) > np.finfo(rows.scores.dtype).eps * max(
            -least, largest, 1e-300
        )
        nodes = nodes[apart]
        if len(nodes) < 2:
            nodes = nodes[0] + np.array([-0.5, 0.5])
        middle = quantiles if len(quantiles) > 1 else nodes
        times = (nodes - middle.mean()) / middle.std()
        table = IntegralTable(nodes)
        return cls(
            network=DenseNetwork((1, *hidden, 1)),
            table=table,
            times=times[:, np.newaxis],
            places=table.places(rows.scores),
            labels=rows.labels,
            weights=rows.weights,
            weight_decay=weight_decay,
        )

    @property
    def decaying(self) -> NDArray[np.bool_]:
        """Which parameters have a price: weights, and the bias of the output."""
        decaying = self.network.is_weight.copy()
        decaying[-1] = True
        return decaying

    def penalty(self, theta: Vector) -> float:
        """Return the weight decay alone."""
        return self.weight_decay * float(theta[self.decaying] @ theta[self.decaying])

    def rates(self, theta: Vector) -> tuple[Vector, Vector, NetworkRun]:
        """Return the integrand at the nodes, its derivative in the output of the network, and the run of that."""
        run = self.network.run(theta, self.times)
        outputs = run.outputs[:, 0]
        below = np.exp(np.minimum(outputs, 0))
        rates = np.maximum(outputs, 0) + below + LEAST_RATE
        return rates, np.where(outputs > 0, 1.0, below), run

    def expand(self, theta: Vector) -> tuple[float, Vector]:
        """Return value and gradient."""
        rates, slopes, run = self.rates(theta)

        def block(rows: slice) -> Vector:
            places = self.places.take(rows)
            losses, _, gradients = CrossEntropy().expand(
                self.table.integrals(rates, places), self.labels[rows]
            )
            if self.weights is not None:
                losses *= self.weights[rows]
                gradients *= self.weights[rows, np.newaxis]
            return np.append(self.table.adjoint(gradients, places), losses.sum())

        with BlockSums.over(*self.places.cells.shape) as in_all_blocks:
            total = in_all_blocks(block)
        total /= len(self.labels) if self.weights is None else self.weights.sum()
        gradient = self.network.gradient(theta, run, (total[:-1] * slopes)[:, np.newaxis])
        gradient += 2 * self.weight_decay * np.where(self.decaying, theta, 0.0)
        return float(total[-1]) + self.penalty(theta), gradient

    def take(self, rows: NDArray[np.intp]) -> "NetworkObjective":
        """Return the same for some of the rows."""
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, places=self.places.take(rows), labels=self.labels[rows], weights=weights)

    def start(self, generator: np.random.Generator) -> Vector:
        """Return a random network that is zero everywhere because its last layer is, with no dead unit before it."""
        for _ in range(MAX_DRAWS):
            theta = self.network.start(generator, 0.0)
            units = self.network.run(theta, self.times).layers[-1]
            if np.ptp(units, axis=0).min() > 0:
                break
        return theta


def _rough_fits(
    objective: NetworkObjective, restarts: int, generator: np.random.Generator
) -> list[LocalMinimum]:
    """Return where random starts lead to, roughly, on some of the rows if there are many."""
    n_rows, n_classes = objective.places.cells.shape
    n_sampled = max(SAMPLE_ROWS, SAMPLE_ENTRIES // n_classes)
    if 2 * n_rows > 3 * n_sampled:
        objective = objective.take(np.sort(generator.choice(n_rows, n_sampled, replace=False)))
    return [
        quasi_newton(objective.expand, objective.start(generator), tolerance=ROUGH) for _ in range(restarts)
    ]
