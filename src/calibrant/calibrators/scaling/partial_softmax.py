"""Learning batch by batch for maps of all scores at once that a penalty holds near the identity."""

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.partial_fitting import PartialFitting
from calibrant.calibrators.scaling.remembered_loss import Loss, RememberedLoss, softmax_loss
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.objective import Objective, QuadraticPenalty
from calibrant.solvers import Solution, Status
from calibrant.solvers.bounded_newton import ConvexExpansion

__all__ = ["PartialSoftmax"]

Vector = NDArray[np.float64]

# What is remembered of more parameters, their number squared, would be larger than a sample of the rows and slower.
MOST_PARAMETERS = 1200

# Where rows are remembered as they are: so many at most, or so many numbers, but three rows of each class.
MOST_ROWS, MOST_ENTRIES = 10_000, 2**20

# Share of the mean curvature that keeps flat directions from making the equations singular.
RIDGE = 1e-9

# A curvature below this is none: rows so sure, and right, that no parameter matters.
NOTHING = 1e-200


class PartialSoftmax(PartialFitting):
    """A penalised softmax map that remembers the loss of past rows as a quadratic function; abstract.

    As long as some class has no rows, the identity is kept, or parameters are very many, a sample of rows is remembered
    instead, and fitted anew with every batch.

    A penalty is a number of rows that it is worth. It does not fade, and it does not grow with the rows unless its
    strength was given as a number. After a fit to a sample that stands for many more rows it is raised as their weight
    is, since the sample knows no more than its own rows do, and falls back as they fade.
    """

    solution_: Solution
    _n_fitted: float

    @abstractmethod
    def _n_parameters(self, n_classes: int) -> int:
        """Return the number of parameters, or somewhat more."""

    @abstractmethod
    def _batch_objective(self, data: LabelledPredictions) -> Objective:
        """Return the mean loss of some rows as a function of the parameters, without a penalty."""

    @abstractmethod
    def _fitted_parameters(self, data: LabelledPredictions) -> Vector:
        """Return the parameters of one map of these rows, which were just fitted."""

    @abstractmethod
    def _use_parameters(self, solution: Solution) -> None:
        """Set the map that follows from ``solution``, and what ``memory_`` says about it."""

    @abstractmethod
    def _penalty(self, multiple: float, total_weight: float) -> QuadraticPenalty:
        """Return the penalty for a sum of losses.

        That of the last whole fit for its rows, so many times; or, if its strength was given, for rows of that weight.
        """

    def _prices(self, data: LabelledPredictions, n_fitted: float) -> dict[str, Any]:  # noqa: ARG002
        """Return what :meth:`_penalty` has to remember of the last whole fit, which counted so many rows."""
        return {}

    def _lower_bounds(self) -> Vector | float:
        return -np.inf

    def _rough_parameters(self, n_classes: int) -> int:
        return self._n_parameters(n_classes)

    def _condenses(self, data: LabelledPredictions) -> bool:
        few = self._n_parameters(data.n_classes) <= MOST_PARAMETERS
        return few and bool(data.class_weights.all()) and self.solution_.status is not Status.IDENTITY

    def _most_rows(self, n_classes: int) -> int:
        return max(3 * n_classes, min(MOST_ROWS, MOST_ENTRIES // n_classes))

    def _fit_rows(self, data: LabelledPredictions, *, sampled: bool) -> None:
        if sampled and data.weights is not None:
            # Each row is one, whatever it stands for, or it would weaken the penalty.
            data = replace(data, weights=data.weights / data.weights.mean())
        super()._fit_rows(data, sampled=sampled)
        self._n_fitted = data.with_counting_weights().total_weight

    def _condense(self, data: LabelledPredictions, n_rows: float) -> None:
        weight = data.total_weight
        surplus = weight / (_weight_of_row(weight, n_rows) * self._n_fitted)
        loss = softmax_loss(self._batch_objective(data))
        remembered = RememberedLoss.of(loss, self._fitted_parameters(data), weight)
        self.memory_ = remembered.memory(n_rows) | {"surplus": max(1.0, surplus)}
        self.memory_ |= self._prices(data, self._n_fitted)

    def _update(self, data: LabelledPredictions, kept: float, n_rows: float) -> None:
        past = self.memory_
        remembered = RememberedLoss.from_memory(past).faded(kept)
        surplus = max(1.0, past["surplus"] * kept)
        total = remembered.weight + data.total_weight
        penalty = self._penalty(surplus * _weight_of_row(total, n_rows), total)
        objective = self._batch_objective(data)
        with objective.open():
            solution, remembered = remembered.updated(
                softmax_loss(objective), data.total_weight, self._lower_bounds(), _price(penalty)
            )
        self.memory_ = past | remembered.memory(n_rows) | {"surplus": surplus}
        self._use_parameters(solution)
        solution.warn_unless_converged(type(self).__name__)

    def _degrees_of_freedom(self, n_rough: int, n_rows: float) -> float:
        r"""Return the trace of :math:`H (H + \Lambda)^{-1}` for the Hessians of so many rows and of the penalty."""
        if n_rough > MOST_PARAMETERS:
            return float(n_rough)
        hessian = self.memory_["hessian"] * (n_rows / self.memory_["total_weight"])
        held = hessian + self._penalty(1.0, n_rows).hessian()
        size = float(np.trace(held)) / len(held)
        if size < NOTHING:
            return 0.0
        held.flat[:: len(held) + 1] += RIDGE * size
        return max(0.0, float(np.trace(np.linalg.solve(held / size, hessian / size))))


def _weight_of_row(total_weight: float, n_rows: float) -> float:
    """Return what a row weighs, one at most: larger weights count rows, smaller ones do not make them fewer."""
    return min(1.0, total_weight / n_rows)


def _price(penalty: QuadraticPenalty) -> Loss:
    hessian = penalty.hessian()

    def price(theta: Vector) -> ConvexExpansion:
        return ConvexExpansion(penalty.value(theta), penalty.gradient(theta), hessian)

    return price
