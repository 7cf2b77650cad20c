"""Objective of parameterized temperature scaling: inputs, network, link, and its minimisation."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from calibrant.arrays import Vector
from calibrant.calibrators.scaling.parameterized_temperature.losses import RowLosses
from calibrant.graph import TracedPredictions, Value
from calibrant.graph.apply import evaluated
from calibrant.graph.order import SortDescending
from calibrant.numerics.dense_network import DenseNetwork
from calibrant.numerics.row_blocks import BlockSums, one_blas_thread
from calibrant.predictions import Predictions
from calibrant.solvers import Status
from calibrant.solvers.quasi_newton import LocalMinimum, quasi_newton

__all__ = [
    "Inputs",
    "Link",
    "RowTemperatures",
    "StandardInputs",
    "TemperatureLink",
    "lowest_minimum",
    "row_inputs",
    "traced_row_inputs",
]


Inputs = Literal["gaps", "logits", "entropy"]


def traced_row_inputs(
    given: TracedPredictions, kind: Inputs, top_k: int, inverse_temperature: float
) -> Value:
    r"""Return the inputs of the network as float64, one column per input.

    For "logits" the largest ``top_k`` of a row in falling order, all if there are fewer classes; for "gaps" how far each
    of them but the first lies below the first; for "entropy" the entropy of :math:`\mathrm{softmax}(\beta z)`
    divided by its largest possible value, :math:`\log K`, at the given inverse temperature.
    """
    logits = given.logits
    if kind == "entropy":
        gaps = (logits - logits.row("max")) * inverse_temperature
        terms = gaps.function("exp")
        total = terms.row("sum")
        entropies = total.log(TINY) - (terms * gaps).row("sum") / total
        return entropies.widened * float(1 / np.log(given.n_classes))
    falling = logits.then(SortDescending(min(top_k, given.n_classes))).widened
    if kind == "logits":
        return falling
    return falling.columns([0]) - falling.columns(np.arange(1, falling.width))


def row_inputs(
    predictions: Predictions, kind: Inputs, top_k: int, inverse_temperature: float
) -> NDArray[np.float64]:
    """Return the inputs of the network for predictions, (n, inputs); see :func:`traced_row_inputs`.

    >>> row_inputs(Predictions.from_logits([[1.0, 4.0, 2.0]]), "gaps", 10, 1.0)
    array([[2., 3.]])
    """
    return evaluated(lambda given: traced_row_inputs(given, kind, top_k, inverse_temperature), predictions)


TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True, eq=False)
class StandardInputs:
    """Standardisation of the inputs to mean zero and variance one, clipped to the range of the calibration set.

    Attributes
    ----------
    means, scales : ndarray of shape (d,)
        Mean and standard deviation over calibration rows; 1 for an input that does not vary.
    smallest, largest : ndarray of shape (d,)
        Range over calibration rows; inputs outside count as its nearer end.
    """

    means: Vector
    scales: Vector
    smallest: Vector
    largest: Vector

    @classmethod
    def of(cls, inputs: NDArray[np.float64], weights: Vector | None) -> Self:
        """Return the standard of these rows.

        >>> standard = StandardInputs.of(np.array([[1.0, 5.0], [3.0, 5.0]]), None)
        >>> standard(np.array([[3.0, 5.0], [100.0, 7.0]]))
        array([[1., 0.], [1., 0.]])
        """
        means = np.average(inputs, axis=0, weights=weights)
        scales = np.sqrt(np.average((inputs - means) ** 2, axis=0, weights=weights))
        # Differences within rounding are no variation.
        scales[scales <= 1e-12 * np.abs(inputs).max(axis=0)] = 1.0
        return cls(means, scales, inputs.min(axis=0), inputs.max(axis=0))

    def __call__(self, inputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return standardised inputs."""
        standard: NDArray[np.float64] = (
            np.clip(inputs, self.smallest, self.largest) - self.means
        ) / self.scales
        return standard


Link = Literal["softplus", "absolute", "exponential"]

SOFTPLUS_OF_THIS_IS_ONE = math.log(math.e - 1)


@dataclass(frozen=True)
class TemperatureLink:
    r"""A row's temperature as a multiple of the single temperature, :math:`\rho(g) = T / T_0` with :math:`\rho(0) = 1`.

    =========== =====================================================
    link        :math:`\rho(g)`
    =========== =====================================================
    softplus    :math:`\log(1 + e^{g + c})`, :math:`c = \log(e - 1)`
    absolute    :math:`|1 + g|`
    exponential :math:`e^g`
    =========== =====================================================

    Multiples outside ``bounds`` count as the nearer bound, where the slope is zero.

    Examples
    --------
    >>> link = TemperatureLink("absolute", (0.1, 10.0))
    >>> np.exp(link(np.array([0.0, 1.0, 99.0]))[0]).round(6)
    array([ 1.,  2., 10.])
    """

    kind: Link
    bounds: tuple[float, float]

    @property
    def limits(self) -> tuple[float, float]:
        """Logarithms of the bounds."""
        return float(np.log(self.bounds[0])), float(np.log(self.bounds[1]))

    def __call__(self, outputs: Vector) -> tuple[Vector, Vector]:
        """Return the logarithms of the multiples and their derivatives in ``outputs``."""
        multiples, slopes = _LINKS[self.kind](outputs)
        inside = (multiples > self.bounds[0]) & (multiples < self.bounds[1])
        multiples = np.clip(multiples, *self.bounds)
        return np.log(multiples), np.where(inside, slopes / multiples, 0.0)

    def traced(self, outputs: Value) -> Value:
        """Return the logarithms of the multiples of symbolic outputs."""
        if self.kind == "softplus":
            multiples = (outputs + SOFTPLUS_OF_THIS_IS_ONE).function("softplus")
        elif self.kind == "absolute":
            multiples = (outputs + 1.0).function("absolute")
        else:
            multiples = outputs.function("exp")
        return multiples.clip(*self.bounds).log(min(self.bounds[0], 0.5))


def _softplus(outputs: Vector) -> tuple[Vector, Vector]:
    shifted = outputs + SOFTPLUS_OF_THIS_IS_ONE
    return np.logaddexp(0, shifted), expit(shifted)


def _absolute(outputs: Vector) -> tuple[Vector, Vector]:
    shifted = 1 + outputs
    return np.abs(shifted), np.sign(shifted)


def _exponential(outputs: Vector) -> tuple[Vector, Vector]:
    with np.errstate(over="ignore"):
        multiples = np.exp(outputs)
    # Infinite ones lie outside every bound, where slopes are not used.
    return multiples, np.minimum(multiples, np.finfo(np.float64).max)


_LINKS: dict[str, Callable[[Vector], tuple[Vector, Vector]]] = {
    "softplus": _softplus,
    "absolute": _absolute,
    "exponential": _exponential,
}


# A step that gains less ends a search; of the loss on other rows it would be the seventh digit at best.
TOLERANCE = 1e-9

# The same for a sample, whose minimum is not that of all rows in any case, and for so many rows that a sample is taken.
ROUGH_TOLERANCE = 1e-6
TOLERANCE_OF_MANY = 3e-8

# Relative gain over the single temperature that counts as zero.
WORTHWHILE = 1e-7


@dataclass
class RowTemperatures:
    r"""Mean loss of rows at the temperatures that a network gives them, plus weight decay.

    .. math:: F(\theta) = \frac{1}{\sum_i w_i} \sum_i w_i \, \ell_i\!\left(\log T_0 + \log \rho(g_\theta(x_i))\right)
              + \lambda \sum_{W \in \theta} W^2

    where the sum of squares is over weights and not biases.

    Attributes
    ----------
    network : DenseNetwork
        The function g, of one output.
    link : TemperatureLink
        From outputs to multiples of the single temperature.
    inputs : ndarray of shape (n, d)
        What the network sees of the rows.
    losses : RowLosses
        Loss of every row as a function of the logarithm of its temperature.
    start : float
        Logarithm of the single temperature, :math:`\log T_0`.
    weight_decay : float
        Strength :math:`\lambda`.
    weights : ndarray of shape (n,) or None
        Weights of the rows.
    """

    network: DenseNetwork
    link: TemperatureLink
    inputs: NDArray[np.float64]
    losses: RowLosses
    start: float
    weight_decay: float
    weights: Vector | None = None
    _sums: BlockSums | None = field(default=None, repr=False)

    def __call__(self, theta: Vector) -> tuple[float, Vector]:
        """Return value and gradient."""

        def block(rows: slice) -> Vector:
            return self._block(theta, rows)

        total = block(slice(None)) if self._sums is None else self._sums(block)
        total /= self._total_weight
        decayed = np.where(self.network.is_weight, theta, 0.0)
        value = float(total[0] + self.weight_decay * (decayed @ decayed))
        return value, total[1:] + 2 * self.weight_decay * decayed

    def mean_loss(self, theta: Vector) -> float:
        """Return the value without weight decay."""
        decayed = theta[self.network.is_weight]
        return self(theta)[0] - self.weight_decay * float(decayed @ decayed)

    def batch_gradient(self, theta: Vector, rows: NDArray[np.intp]) -> Vector:
        """Return an unbiased estimate of the gradient from some rows."""
        mean_weight = 1.0 if self.weights is None else self._total_weight / len(self.inputs)
        decayed = np.where(self.network.is_weight, theta, 0.0)
        gradient: Vector = (
            self._block(theta, rows)[1:] / (len(rows) * mean_weight) + 2 * self.weight_decay * decayed
        )
        return gradient

    @contextmanager
    def open(self) -> Iterator[None]:
        """Keep threads at hand for repeated evaluations."""
        n_columns = max(self.losses.n_columns, sum(self.network.widths))
        # Products of small matrices, those of the search included, are ten times as slow on several threads.
        with one_blas_thread(), BlockSums.over(len(self.inputs), n_columns) as self._sums:
            try:
                yield
            finally:
                self._sums = None

    @property
    def _total_weight(self) -> float:
        return float(len(self.inputs) if self.weights is None else self.weights.sum())

    def _block(self, theta: Vector, rows: slice | NDArray[np.intp]) -> Vector:
        """Return the sum of losses and then that of gradients over some rows."""
        run = self.network.run(theta, self.inputs[rows])
        logarithms, slopes_of_link = self.link(run.outputs[:, 0].astype(np.float64, copy=False))
        losses, slopes = self.losses(rows, self.start + logarithms)
        slopes = slopes * slopes_of_link
        if self.weights is not None:
            losses, slopes = losses * self.weights[rows], slopes * self.weights[rows]
        return np.append(losses.sum(), self.network.gradient(theta, run, slopes[:, np.newaxis]))


def lowest_minimum(
    objective: RowTemperatures,
    starts: Sequence[Vector],
    max_iterations: int = 1000,
    sample: RowTemperatures | None = None,
) -> LocalMinimum:
    """Return the lowest of the minima found from several starts, and of the single temperature.

    A network whose parameters are all zero gives every row the single temperature, free of decay. Nothing that is
    returned is above it. With a ``sample``, the objective of some of the rows, that one is searched from all starts,
    and where the lowest search ends a single search of the objective begins. Iterations and evaluations are
    those of all searches together, evaluations of a sample by the share of the rows that are in it.
    """
    n_iterations, n_evaluations, tolerance = 0, 1, TOLERANCE
    if sample is not None:
        with sample.open():
            rough = [
                quasi_newton(sample, start, tolerance=ROUGH_TOLERANCE, max_iterations=max_iterations)
                for start in starts
            ]
        starts, tolerance = [min(rough, key=lambda minimum: minimum.value).theta], TOLERANCE_OF_MANY
        n_iterations = sum(minimum.n_iterations for minimum in rough)
        share = len(sample.inputs) / len(objective.inputs)
        n_evaluations += round(share * sum(minimum.n_evaluations for minimum in rough))
    with objective.open():
        found = [
            quasi_newton(objective, start, tolerance=tolerance, max_iterations=max_iterations)
            for start in starts
        ]
        single = np.zeros(objective.network.n_parameters)
        value, slopes = objective(single)
    # The single temperature is kept where a network of zeros is as good: a search ends next to it, not on it.
    lowest = min(found, key=lambda minimum: minimum.value)
    if lowest.value >= value * (1 - WORTHWHILE):
        lowest = LocalMinimum(single, value, float(np.abs(slopes).max()), 0, 1, Status.CONVERGED)
    return lowest._replace(
        n_iterations=n_iterations + sum(minimum.n_iterations for minimum in found),
        n_evaluations=n_evaluations + sum(minimum.n_evaluations for minimum in found),
    )
