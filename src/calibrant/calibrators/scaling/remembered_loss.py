"""The loss of rows that are gone, as the quadratic function that it was near the last estimate."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

from calibrant.objective import Objective
from calibrant.solvers import Solution
from calibrant.solvers.bounded_newton import ConvexExpansion, bounded_newton

__all__ = ["RememberedLoss", "event_loss", "softmax_loss"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
# Share of the mean bend that is added where the softmax is flat, so that rounding does not make it negative.
RIDGE = 1e-10

Loss = Callable[[Vector], ConvexExpansion]
"""The sum of losses over some rows, with derivatives, as a function of the parameters."""


@dataclass(frozen=True)
class RememberedLoss:
    r"""Second-order expansion of the summed loss of all rows so far around the estimate that they gave.

    .. math:: Q(\theta) = L + g^\top (\theta - \hat\theta) + \tfrac12 (\theta - \hat\theta)^\top H
              (\theta - \hat\theta)

    A new batch has its exact loss added to Q, the sum is minimised, and its expansion around the new minimum is
    what is remembered next. This is the extended Kalman filter for logistic regression, iterated to its optimum in
    every batch, or Laplace's approximation applied again and again. The estimates settle, so what is lost is the
    third order of ever smaller steps: up to a logarithm, the difference from a fit of all rows falls as fast as one
    over their number, where the statistical error falls as one over its square root.

    Attributes
    ----------
    theta : ndarray of shape (P,)
        Estimate around which the loss is expanded.
    loss, gradient, hessian : float, (P,), (P, P)
        L, g and H. The gradient is zero unless the estimate lies on a bound or is a fall-back.
    weight : float
        Total weight of the rows.
    """

    theta: Vector
    loss: float
    gradient: Vector
    hessian: Matrix
    weight: float

    @classmethod
    def of(cls, loss: Loss, theta: Vector, weight: float) -> Self:
        """Return the expansion of a loss around an estimate."""
        at = loss(theta)
        return cls(theta, float(at.value), at.gradient, at.hessian, weight)

    @classmethod
    def from_memory(cls, memory: dict[str, Any]) -> Self:
        """Return what :meth:`memory` stored."""
        return cls(
            memory["theta"], memory["loss"], memory["gradient"], memory["hessian"], memory["total_weight"]
        )

    def memory(self, n_rows: float) -> dict[str, Any]:
        """Return plain arrays and numbers that a file can hold."""
        return {
            "rows": float(n_rows),
            "theta": self.theta,
            "loss": self.loss,
            "gradient": self.gradient,
            "hessian": self.hessian,
            "total_weight": self.weight,
        }

    def faded(self, kept: float) -> "RememberedLoss":
        """Return the same rows with weights that are ``kept`` times as large."""
        return RememberedLoss(
            self.theta, self.loss * kept, self.gradient * kept, self.hessian * kept, self.weight * kept
        )

    def __call__(self, theta: Vector) -> ConvexExpansion:
        step = theta - self.theta
        bent = self.hessian @ step
        return ConvexExpansion(
            self.loss + float((self.gradient + bent / 2) @ step), self.gradient + bent, self.hessian
        )

    def updated(
        self, batch: Loss, weight: float, lower: Vector | float = -np.inf, price: Loss | None = None
    ) -> tuple[Solution, "RememberedLoss"]:
        """Return the minimum of the remembered loss and that of a batch, and what to remember then.

        ``price`` is a penalty on the scale of the sum of losses, which is not remembered.
        """
        total = self.weight + weight

        def summed(theta: Vector) -> ConvexExpansion:
            return _sum(self(theta), batch(theta))

        def mean(theta: Vector) -> ConvexExpansion:
            at = summed(theta) if price is None else _sum(summed(theta), price(theta))
            return ConvexExpansion(at.value / total, at.gradient / total, at.hessian / total)

        solution = bounded_newton(mean, self.theta, lower)
        at = summed(solution.theta)
        return solution, RememberedLoss(solution.theta, float(at.value), at.gradient, at.hessian, total)


def _sum(first: ConvexExpansion, second: ConvexExpansion) -> ConvexExpansion:
    return ConvexExpansion(
        first.value + second.value, first.gradient + second.gradient, first.hessian + second.hessian
    )


def event_loss(columns: Matrix, targets: Vector, weights: Vector | None) -> Loss:
    """Return the log-loss of logistic regression on the rows of ``columns``, (P, n), as a sum."""

    def loss(theta: Vector) -> ConvexExpansion:
        scores = theta @ columns
        probabilities = expit(scores)
        losses = -(targets * log_expit(scores) + (1 - targets) * log_expit(-scores))
        residuals, bends = probabilities - targets, probabilities * expit(-scores)
        if weights is not None:
            losses, residuals, bends = losses * weights, residuals * weights, bends * weights
        return ConvexExpansion(float(losses.sum()), columns @ residuals, (columns * bends) @ columns.T)

    return loss


def softmax_loss(objective: Objective) -> Loss:
    """Return the data loss of an objective with cross-entropy, as a sum over its rows."""

    def loss(theta: Vector) -> ConvexExpansion:
        at = objective.expand(theta)

        def block(rows: slice) -> Matrix:
            probabilities = at.probabilities[rows].astype(np.float64)
            # Of float32 they sum to one so roughly that a flat direction would seem to bend downwards.
            probabilities /= probabilities.sum(axis=1, keepdims=True)
            weighted = probabilities
            if objective.weights is not None:
                weighted = probabilities * objective.weights[rows, np.newaxis]
            features = objective.features[rows].astype(np.float64, copy=False)
            return objective.map.fisher(probabilities, weighted, features).astype(np.float64, copy=False)

        total = objective.total_weight
        hessian = objective.summed(block)
        hessian.flat[:: len(hessian) + 1] += RIDGE * np.trace(hessian) / len(hessian)
        return ConvexExpansion(at.data_loss * total, at.gradient * total, hessian)

    return loss
