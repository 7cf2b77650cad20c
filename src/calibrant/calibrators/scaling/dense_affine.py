"""Fits of affine maps to a small calibration set: Newton's method with dense Hessians."""

from dataclasses import dataclass

import numpy as np

from calibrant.arrays import Matrix, Vector
from calibrant.numerics.row_blocks import ENTRIES_PER_THREAD
from calibrant.numerics.softmax_fisher import SoftmaxFisher
from calibrant.objective import ArrayRows, FeatureRows, QuadraticPenalty
from calibrant.objective.curvature import RIDGE, Solver, dense_solver

__all__ = ["DenseFits", "Place"]

MOST_CLASSES = 34
MOST_STEPS = 100
# In nats, of the last step. Losses of held-out rows that a weak penalty leaves open need more digits than training losses.
TOLERANCE = 1e-6
SUFFICIENT_DECREASE, SMALLEST_STEP = 0.1, 2.0**-30
# A Hessian costs about as much as K^2 / 32 products with it; an old one serves as preconditioner for so many.
PRODUCTS_PER_HESSIAN = 1 / 32

# Probabilities stay above exp of this number: products of smaller ones are no normal numbers, and slow.
LOWEST_SCORE = -150.0


@dataclass(frozen=True, eq=False)
class Place:
    """The mean loss at theta, its gradient, and the probabilities, (K, n)."""

    theta: Vector
    loss: float
    gradient: Vector
    probabilities: Matrix


class DenseFits:
    r"""Fits of softmax(W x + b) to the same rows with several penalties.

    Arrays are stored by columns, (K, n), so that sums over classes are fast.
    """

    @staticmethod
    def is_worthwhile(rows: FeatureRows) -> bool:
        """Return whether rows are few enough for one thread, and classes for dense Hessians."""
        few = rows.n_rows * rows.n_columns <= ENTRIES_PER_THREAD and rows.n_columns <= MOST_CLASSES
        return isinstance(rows, ArrayRows) and few

    def __init__(self, rows: ArrayRows) -> None:
        n_classes = rows.n_columns
        self.features = np.ones((n_classes + 1, rows.n_rows))
        self.features[:-1] = rows.features.T
        self.shares = np.full(rows.n_rows, 1.0) if rows.weights is None else rows.weights
        self.shares = self.shares / rows.total_weight
        self.own = rows.labels * rows.n_rows + np.arange(rows.n_rows)
        self._fisher = SoftmaxFisher(n_classes, n_classes + 1, rows.n_rows, np.float64)
        self._hessian: Matrix | None = None
        self._hessian_at: Place | None = None
        self._n_products = 0

    def _softmax(self, theta: Vector) -> tuple[Matrix, Vector]:
        """Return the probabilities, (K, n), and the loss of every row."""
        scores = theta.reshape(-1, len(self.features)) @ self.features
        losses = -scores.ravel()[self.own]
        tops = scores.max(axis=0)
        scores -= tops
        np.maximum(scores, LOWEST_SCORE, out=scores)
        np.exp(scores, out=scores)
        totals = scores.sum(axis=0)
        scores /= totals
        return scores, losses + np.log(totals) + tops

    def data_loss(self, theta: Vector) -> float:
        """Return the mean loss."""
        return float(self._softmax(theta)[1] @ self.shares)

    def expand(self, theta: Vector) -> Place:
        """Return loss and gradient."""
        probabilities, losses = self._softmax(theta)
        residuals = probabilities.copy()
        residuals.ravel()[self.own] -= 1
        residuals *= self.shares
        gradient = (residuals @ self.features.T).ravel()
        return Place(theta, float(losses @ self.shares), gradient, probabilities)

    def fitted(self, start: Place, penalty: QuadraticPenalty) -> Place:
        """Minimise loss plus penalty by Newton's method; never above the start."""
        current = start
        solve: Solver | None = None
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(MOST_STEPS):
                if solve is None or self._is_spent():
                    solve = self._solver(current, penalty)
                gradient = current.gradient + penalty.gradient(current.theta)
                step = self._step(current, gradient, penalty, solve)
                decrement = -float(gradient @ step) / 2
                if not decrement > 0:
                    break
                found = self._along(current, step, penalty, decrement)
                current = found or current
                if found is None or decrement <= TOLERANCE:
                    break
        return current

    def _along(self, start: Place, step: Vector, penalty: QuadraticPenalty, decrement: float) -> Place | None:
        """Return a place along a Newton step where loss plus penalty falls enough, or None; the last step need only fall."""
        before, length = start.loss + penalty.value(start.theta), 1.0
        while length >= SMALLEST_STEP:
            place = self.expand(start.theta + length * step)
            change = place.loss + penalty.value(place.theta) - before
            if decrement <= TOLERANCE:
                return place if change < 0 else None
            if change <= -2 * SUFFICIENT_DECREASE * length * decrement:
                return place
            length /= 2
        return None

    def _is_spent(self) -> bool:
        """Return whether enough products were computed with an old Hessian to pay for a new one."""
        return self._n_products >= int(PRODUCTS_PER_HESSIAN * len(self.features) ** 2)

    def _solver(self, at: Place, penalty: QuadraticPenalty) -> Solver:
        """Return the inverse of the Hessian at a place, or near it where that will do."""
        if self._hessian is None or (self._hessian_at is not at and self._is_spent()):
            self._hessian, self._hessian_at, self._n_products = self._hessian_of(at), at, 0
        matrix = self._hessian.copy()
        np.einsum("ii->i", matrix)[:] += penalty.curvature
        return dense_solver(matrix, RIDGE * (float(np.trace(self._hessian)) / len(matrix) + 1e-300))

    def _hessian_of(self, at: Place) -> Matrix:
        weighted = at.probabilities * self.shares
        return self._fisher(at.probabilities, weighted, self.features).astype(np.float64, copy=False)

    def _step(self, at: Place, gradient: Vector, penalty: QuadraticPenalty, solve: Solver) -> Vector:
        """Return the Newton step: at once with the Hessian of this place, else by conjugate gradients."""
        step = solve(-gradient)
        if self._hessian_at is at:
            return step
        residual, direction = -gradient, step
        size = float(residual @ direction)
        step = np.zeros_like(gradient)
        target = max(size * min(0.1, np.sqrt(max(size, 0.0))) ** 2, 1e-3 * TOLERANCE)
        for _ in range(10 + len(gradient)):
            if not size > target:
                break
            product = self._hessian_product(at, direction) + penalty.product(direction)
            self._n_products += 1
            bend = float(direction @ product)
            if bend <= 1e-14 * size:
                step = step if step.any() else direction
                break
            step += size / bend * direction
            residual = residual - size / bend * product
            preconditioned = solve(residual)
            size, previous = float(residual @ preconditioned), size
            direction = preconditioned + size / previous * direction
        return step

    def _hessian_product(self, at: Place, direction: Vector) -> Vector:
        moved = direction.reshape(-1, len(self.features)) @ self.features
        moved -= (at.probabilities * moved).sum(axis=0)
        moved *= at.probabilities
        moved *= self.shares
        product: Vector = (moved @ self.features.T).ravel()
        return product
