"""The inverse temperature of a batch and of all rows before it."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.scaling.remembered_loss import Loss, RememberedLoss
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.objective import BrierLoss, CrossEntropy, Objective, ScalarMap
from calibrant.solvers import Solution, bracketed_newton
from calibrant.solvers.bounded_newton import ConvexExpansion

__all__ = ["remembered_temperature", "updated_temperature"]

Vector = NDArray[np.float64]
LossName = Literal["log", "brier"]


def remembered_temperature(
    data: LabelledPredictions, loss: LossName, inverse_temperature: float
) -> RememberedLoss:
    """Return what is remembered of rows and of the inverse temperature that was fitted to them."""
    return _convex(RememberedLoss.of(_summed(data, loss), np.array([inverse_temperature]), data.total_weight))


def updated_temperature(
    remembered: RememberedLoss, data: LabelledPredictions, loss: LossName, bounds: tuple[float, float]
) -> tuple[Solution, RememberedLoss]:
    """Return the inverse temperature of a batch and of what is remembered, and what to remember then."""
    batch = _summed(data, loss)
    total = remembered.weight + data.total_weight

    def mean(beta: float) -> tuple[float, float, float]:
        old, new = remembered(np.array([beta])), batch(np.array([beta]))
        return (
            (old.value + new.value) / total,
            float(old.gradient[0] + new.gradient[0]) / total,
            float(old.hessian[0, 0] + new.hessian[0, 0]) / total,
        )

    found = bracketed_newton(mean, float(remembered.theta[0]), bounds)
    value, slope, bend = mean(found.argument)
    solution = Solution(
        theta=np.array([found.argument]),
        value=value,
        loss=value,
        identity_loss=np.nan,
        decrement=found.decrement,
        n_iterations=found.n_evaluations,
        n_evaluations=found.n_evaluations + 1,
        status=found.status,
    )
    return solution, _convex(
        RememberedLoss(
            solution.theta, value * total, np.array([slope]) * total, np.array([[bend]]) * total, total
        )
    )


def _convex(remembered: RememberedLoss) -> RememberedLoss:
    """Return the same with no bend where it is negative, as the Brier score can have it at the edge of the range."""
    if remembered.hessian[0, 0] >= 0:
        return remembered
    return RememberedLoss(
        remembered.theta, remembered.loss, remembered.gradient, np.zeros((1, 1)), remembered.weight
    )


def _summed(data: LabelledPredictions, loss: LossName) -> Loss:
    """Return the summed loss of rows as a function of the inverse temperature."""
    objective = Objective(
        CrossEntropy() if loss == "log" else BrierLoss(),
        ScalarMap(data.n_classes, bias=False),
        data.predictions.logits,
        data.labels,
        data.weights,
    )

    def summed(theta: Vector) -> ConvexExpansion:
        at = objective.expand(theta)
        bend = at.hessian_product(np.ones(1))
        total = objective.total_weight
        return ConvexExpansion(at.data_loss * total, at.gradient * total, bend[:, np.newaxis] * total)

    return summed
