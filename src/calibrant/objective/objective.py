"""Objective: mean loss after a logit map, plus a penalty, as sums over row blocks."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.numerics.row_blocks import BlockSums, State
from calibrant.objective.curvature import Curvature, curvature_type
from calibrant.objective.loss import Loss
from calibrant.objective.maps import LogitMap
from calibrant.objective.penalty import QuadraticPenalty

__all__ = ["BlockExpansion", "Expansion", "Objective"]

FloatArray = NDArray[np.floating]
Vector = NDArray[np.float64]

# A product with a K x K matrix reads that matrix once per block; thinner blocks would wait for memory.
PRODUCT_ROWS = 512


@dataclass(frozen=True)
class BlockExpansion:
    """What a set of rows adds to value and gradient; two of them add up to that of their union."""

    value: float
    gradient: Vector

    def __add__(self, other: Self) -> Self:
        return type(self)(self.value + other.value, self.gradient + other.gradient)


class Objective:
    r"""The function of theta that a fit minimises.

    .. math:: F(\theta) = \frac{1}{\sum_i w_i} \sum_i w_i\, \ell(u(\theta; x_i), y_i) + \mathrm{penalty}(\theta)

    Everything is a sum over rows and is taken block by block, so the same code serves one array, a memory
    map or the parts of a larger set whose :class:`BlockExpansion` are added up elsewhere.

    Value and gradient are computed in float64 whatever the features are, so that a fit can converge, unless
    ``exact=False`` says that the float type of the features will do; the Hessian products, which need not be
    exact, always stay in that type.

    Use as a context manager around a fit: ``with objective.open(): ...`` keeps one thread pool for all
    passes.
    """

    def __init__(
        self,
        loss: Loss,
        logit_map: LogitMap,
        features: FloatArray,
        labels: NDArray[np.intp],
        weights: Vector | None = None,
        penalty: QuadraticPenalty | None = None,
        *,
        exact: bool = True,
    ) -> None:
        self.loss = loss
        self.map = logit_map
        self.features = features
        self.labels = labels
        total = float(len(labels) if weights is None else weights.sum())
        self.weights = weights
        self.total_weight = total
        self.penalty = penalty or QuadraticPenalty.none(logit_map.n_parameters)
        self.exact = exact
        self._sums: BlockSums | None = None

    def with_penalty(self, penalty: QuadraticPenalty) -> "Objective":
        """Return the same loss on the same rows with another penalty."""
        return Objective(
            self.loss, self.map, self.features, self.labels, self.weights, penalty, exact=self.exact
        )

    def exactly(self, penalty: QuadraticPenalty) -> "Objective":
        """Return the same with another penalty, its value and gradient in float64."""
        return Objective(self.loss, self.map, self.features, self.labels, self.weights, penalty)

    @contextmanager
    def open(self) -> Iterator[Self]:
        """Keep one pool of threads for all passes inside the ``with`` block."""
        with self._blocks() as self._sums:
            try:
                yield self
            finally:
                self._sums = None

    def data_loss(self, theta: Vector) -> float:
        """Return the mean loss without the penalty, and without the work for derivatives."""

        def block_loss(rows: slice) -> float:
            features = self.features[rows].astype(np.float64, copy=False)
            losses = self.loss.values(self.map.forward(theta, features), self.labels[rows])
            return float(losses.sum() if self.weights is None else losses @ self.weights[rows])

        return self.summed(block_loss) / self.total_weight

    def expand(self, theta: Vector) -> "Expansion":
        """Return value, gradient and what Hessian products need, from one softmax per row."""
        probabilities = self._memory()
        total = self.summed(lambda rows: self.block_expansion(theta, rows, probabilities))
        data_loss = total.value / self.total_weight
        return self._expansion_type()(
            objective=self,
            theta=theta,
            data_loss=data_loss,
            value=data_loss + self.penalty.value(theta),
            gradient=total.gradient / self.total_weight + self.penalty.gradient(theta),
            probabilities=probabilities,
        )

    def block_expansion(
        self, theta: Vector, rows: slice, probabilities: FloatArray | None = None
    ) -> BlockExpansion:
        """Return what some rows add to the *sums* of loss and gradient; keep their softmax if asked."""
        features, kept = self.features[rows], self._kept(rows)
        if self.exact:
            features = features.astype(np.float64, copy=False)
        scores = self.map.forward(theta, features, *kept)
        losses, softmax, gradients = self.loss.expand(scores, self.labels[rows])
        if probabilities is not None:
            probabilities[rows] = softmax
        if self.weights is None:
            value = float(losses.sum(dtype=np.float64))
        else:
            value = float(losses @ self.weights[rows])
            gradients *= self.weights[rows, np.newaxis].astype(gradients.dtype)
        return BlockExpansion(value, self.map.adjoint(gradients, features, *kept))

    def block_product(self, probabilities: FloatArray, direction: Vector, rows: slice) -> Vector:
        """Return what some rows add to the *sum* of Hessians, times ``direction``."""
        features, kept = self.features[rows], self._kept(rows)
        moved = self.map.forward(direction, features, *kept)
        product = self.loss.curvature_product(probabilities[rows], self.labels[rows], moved)
        if self.weights is not None:
            product *= self.weights[rows, np.newaxis].astype(product.dtype)
        return self.map.adjoint(product, features, *kept)

    def _kept(self, rows: slice) -> tuple[Any, ...]:  # noqa: ARG002 (for objectives that keep something)
        """Return what is known about a block of rows already, for a map that asks for it after the features."""
        return ()

    def _expansion_type(self) -> "type[Expansion]":
        return Expansion

    def _memory(self) -> FloatArray:
        """Return an array for the softmax of all rows; its contents do not matter."""
        return np.empty_like(self.features)

    def _blocks(self) -> AbstractContextManager[BlockSums]:
        return BlockSums.over(len(self.features), self.map.n_classes, min_rows=PRODUCT_ROWS)

    def summed(self, contribution: Callable[[slice], State]) -> State:
        """Return the sum of what every block of rows contributes."""
        if self._sums is not None:
            return self._sums(contribution)
        with self._blocks() as sums:
            return sums(contribution)


@dataclass(frozen=True, eq=False)
class Expansion:
    """An objective at one theta: value, gradient, Hessian products and the Fisher matrix."""

    objective: Objective
    theta: Vector
    data_loss: float
    value: float
    gradient: Vector
    probabilities: FloatArray

    def with_penalty_of(self, objective: Objective) -> "Expansion":
        """Return the expansion of an objective on the same rows with another penalty, without a pass."""
        old, new = self.objective.penalty, objective.penalty
        return replace(
            self,
            objective=objective,
            value=self.data_loss + new.value(self.theta),
            gradient=self.gradient - old.gradient(self.theta) + new.gradient(self.theta),
        )

    def hessian_product(self, direction: Vector) -> Vector:
        """Return the Hessian times ``direction``; exact up to the float type of the features."""
        objective = self.objective
        total: Vector = objective.summed(
            lambda rows: objective.block_product(self.probabilities, direction, rows)
        )
        product = total / objective.total_weight
        return product + objective.penalty.curvature * direction

    def curvature(self) -> Curvature:
        """Return the affordable approximation of the Hessian that fits the map; for cross-entropy."""
        objective = self.objective
        kind = curvature_type(objective.map)

        def block_curvature(rows: slice) -> Curvature:
            probabilities = self.probabilities[rows]
            weighted = probabilities
            if objective.weights is not None:
                weighted = probabilities * objective.weights[rows, np.newaxis].astype(probabilities.dtype)
            return kind.of_block(objective.map, probabilities, weighted, objective.features[rows])

        return objective.summed(block_curvature).averaged(objective.total_weight)
