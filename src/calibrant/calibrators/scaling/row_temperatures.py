"""The objective behind parameterized temperature scaling, and its minimum."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Vector
from calibrant.calibrators.scaling.row_temperature_links import TemperatureLink
from calibrant.calibrators.scaling.row_temperature_losses import RowLosses
from calibrant.numerics.dense_network import DenseNetwork
from calibrant.numerics.row_blocks import BlockSums, one_blas_thread
from calibrant.solvers import Status
from calibrant.solvers.quasi_newton import Valley, quasi_newton

__all__ = ["RowTemperatures", "lowest_valley"]


# A step that gains less ends a search; of the loss on other rows it would be the seventh digit at best.
TOLERANCE = 1e-9

# The same for a sample, whose minimum is not that of all rows in any case, and for so many rows that a sample is taken.
ROUGH_TOLERANCE = 1e-6
TOLERANCE_OF_MANY = 3e-8

# Share of the loss below which a gain over the single temperature is none.
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

    def _block(self, theta: Vector, rows: slice) -> Vector:
        """Return the sum of losses and then that of gradients over some rows."""
        run = self.network.run(theta, self.inputs[rows])
        logarithms, slopes_of_link = self.link(run.outputs[:, 0].astype(np.float64, copy=False))
        losses, slopes = self.losses(rows, self.start + logarithms)
        slopes = slopes * slopes_of_link
        if self.weights is not None:
            losses, slopes = losses * self.weights[rows], slopes * self.weights[rows]
        return np.append(losses.sum(), self.network.gradient(theta, run, slopes[:, np.newaxis]))


def lowest_valley(
    objective: RowTemperatures,
    starts: Sequence[Vector],
    max_iterations: int = 1000,
    sample: RowTemperatures | None = None,
) -> Valley:
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
        starts, tolerance = [min(rough, key=lambda valley: valley.value).theta], TOLERANCE_OF_MANY
        n_iterations = sum(valley.n_iterations for valley in rough)
        share = len(sample.inputs) / len(objective.inputs)
        n_evaluations += round(share * sum(valley.n_evaluations for valley in rough))
    with objective.open():
        found = [
            quasi_newton(objective, start, tolerance=tolerance, max_iterations=max_iterations)
            for start in starts
        ]
        single = np.zeros(objective.network.n_parameters)
        value, slopes = objective(single)
    # The single temperature is kept where a network of zeros is as good: a search ends next to it, not on it.
    lowest = min(found, key=lambda valley: valley.value)
    if lowest.value >= value * (1 - WORTHWHILE):
        lowest = Valley(single, value, float(np.abs(slopes).max()), 0, 1, Status.CONVERGED)
    return lowest._replace(
        n_iterations=n_iterations + sum(valley.n_iterations for valley in found),
        n_evaluations=n_evaluations + sum(valley.n_evaluations for valley in found),
    )
