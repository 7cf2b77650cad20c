"""Objective: mean loss after a score map, plus a penalty, as sums over blocks of rows."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from calibrant.arrays import FloatArray, Matrix, Vector
from calibrant.numerics.row_blocks import State
from calibrant.objective.curvature import Curvature, DenseCurvature, curvature_type
from calibrant.objective.losses import Loss
from calibrant.objective.maps import LogitMap
from calibrant.objective.penalty import QuadraticPenalty
from calibrant.objective.rows import Block, FeatureRows

__all__ = ["BlockExpansion", "ConvexExpansion", "Expansion", "Objective"]


# A product with a K x K matrix reads that matrix once per block; thinner blocks would wait for memory.
PRODUCT_ROWS = 512

# Multiplications that a preconditioner may cost; beyond that, it is taken from every second, third, ... row.
CURVATURE_WORK = 2e9


@dataclass(frozen=True)
class BlockExpansion:
    """Contribution of a set of rows to value and gradient; those of two sets of rows add up."""

    value: float
    gradient: Vector

    def __add__(self, other: Self) -> Self:
        return type(self)(self.value + other.value, self.gradient + other.gradient)


class ConvexExpansion(NamedTuple):
    """A convex function and its derivatives at one place."""

    value: float
    gradient: Vector
    hessian: Matrix


class Objective:
    r"""The function of theta that a fit minimises.

    .. math:: F(\theta) = \frac{1}{\sum_i w_i} \sum_i w_i\, \ell(u(\theta; x_i), y_i) + \mathrm{penalty}(\theta)

    All terms but the penalty are sums over rows. :class:`~calibrant.objective.FeatureRows` gives these block by block: from
    one array, a memory map, or batches that are read again.

    Value and gradient are computed in float64 whatever the features are, so that a fit can converge, unless
    ``exact=False`` says that the float type of the features will do. Hessian products, which need not be
    exact, stay in that type. They use the state of every row (its softmax) where the rows can store it, and
    compute it again where not.

    A ``hessian`` of the data loss at a place nearby saves all products with rows; steps are then almost Newton's.

    ``with objective.open(): ...`` keeps one thread pool for all passes.
    """

    def __init__(
        self,
        loss: Loss,
        logit_map: LogitMap,
        rows: FeatureRows,
        penalty: QuadraticPenalty | None = None,
        *,
        exact: bool = True,
        hessian: Matrix | None = None,
    ) -> None:
        self.loss = loss
        self.map = logit_map
        self.rows = rows
        self.total_weight = rows.total_weight
        self.penalty = penalty or QuadraticPenalty.none(logit_map.n_parameters)
        self.exact = exact
        self.hessian = hessian
        self._summed: Callable[[Callable[[Block], Any]], Any] | None = None

    def with_penalty(
        self, penalty: QuadraticPenalty, *, exact: bool | None = None, hessian: Matrix | None = None
    ) -> "Objective":
        """Return the same loss on the same rows with another penalty."""
        exact = self.exact if exact is None else exact
        return Objective(self.loss, self.map, self.rows, penalty, exact=exact, hessian=hessian)

    @contextmanager
    def open(self) -> Iterator[Self]:
        """Keep one pool of threads for all passes inside the ``with`` block."""
        width, itemsize, min_rows = self.map.n_classes, 8, PRODUCT_ROWS
        if self.map.block_bytes is not None:
            itemsize = 8 if self.exact else self.rows.dtype.itemsize
            min_rows = max(1, self.map.block_bytes // (width * itemsize))
        with self.rows.passes(width, itemsize, min_rows) as self._summed:
            try:
                yield self
            finally:
                self._summed = None

    def summed(self, contribution: Callable[[Block], State]) -> State:
        """Return the sum of what every block of rows contributes."""
        if self._summed is not None:
            total: State = self._summed(contribution)
            return total
        with self.open():
            return self.summed(contribution)

    def data_loss(self, theta: Vector) -> float:
        """Return the mean loss without the penalty, and without the work for derivatives."""

        def block_loss(block: Block) -> float:
            features = block.features.astype(np.float64, copy=False)
            losses = self.loss.values(self.map.forward(theta, features), block.labels)
            return float(losses.sum() if block.weights is None else losses @ block.weights)

        return self.summed(block_loss) / self.total_weight

    def expand(self, theta: Vector) -> "Expansion":
        """Return value, gradient and what Hessian products need, from one pass."""
        if self.map.n_parameters <= self.rows.dense_parameters:
            at = self.data_expansion(theta)
            return Expansion(
                objective=self,
                theta=theta,
                data_loss=at.value,
                value=at.value + self.penalty.value(theta),
                gradient=at.gradient + self.penalty.gradient(theta),
                states=None,
                hessian=at.hessian,
            )
        states = None
        if self.hessian is None:
            states = self.rows.storage(self.map.score_shape, self.rows.dtype)
        total = self.summed(lambda block: self.block_expansion(theta, block, states))
        data_loss = total.value / self.total_weight
        return Expansion(
            objective=self,
            theta=theta,
            data_loss=data_loss,
            value=data_loss + self.penalty.value(theta),
            gradient=total.gradient / self.total_weight + self.penalty.gradient(theta),
            states=states,
            hessian=self.hessian,
        )

    def block_expansion(
        self, theta: Vector, block: Block, states: FloatArray | None = None
    ) -> BlockExpansion:
        """Return what some rows add to the *sums* of loss and gradient; store their states if asked."""
        features, prepared = block.features, self._prepared(block)
        if self.exact:
            features = features.astype(np.float64, copy=False)
        losses, state, gradients = self.loss.expand(
            self.map.forward(theta, features, *prepared), block.labels
        )
        if states is not None:
            states[block.rows] = state
        if block.weights is None:
            value = float(losses.sum(dtype=np.float64))
        else:
            value = float(losses @ block.weights)
        return BlockExpansion(value, self.map.adjoint(block.weighted(gradients), features, *prepared))

    def second_order(self, theta: Vector) -> ConvexExpansion:
        """Return value, gradient and the dense Hessian from one pass; for up to some hundred parameters."""
        at = self.data_expansion(theta)
        return ConvexExpansion(
            at.value + self.penalty.value(theta),
            at.gradient + self.penalty.gradient(theta),
            at.hessian + self.penalty.hessian(),
        )

    def data_expansion(self, theta: Vector) -> ConvexExpansion:
        """Return :meth:`second_order` without the penalty."""
        size = self.map.n_parameters
        sums = self.summed(lambda block: self.map.second_order(theta, self.loss, block)) / self.total_weight
        return ConvexExpansion(float(sums[0]), sums[1 : size + 1], sums[size + 1 :].reshape(size, size))

    def state_of(self, theta: Vector, block: Block, states: FloatArray | None) -> FloatArray:
        """Return the state of some rows at theta, as stored or computed again."""
        if states is not None:
            return states[block.rows]
        scores = self.map.forward(theta, block.features, *self._prepared(block))
        return self.loss.expand(scores, block.labels)[1]

    def _prepared(self, block: Block) -> tuple[Any, ...]:
        return block.keep(self.map, lambda: self.map.prepare(block.features))


@dataclass(frozen=True, eq=False)
class Expansion:
    """An objective at one theta: value, gradient, Hessian products and an approximation of the Hessian."""

    objective: Objective
    theta: Vector
    data_loss: float
    value: float
    gradient: Vector
    states: FloatArray | None
    hessian: Matrix | None = None
    """Hessian of the data loss if a pass costs more than computing it, or one from a place nearby."""

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
        if self.hessian is not None:
            dense: Vector = self.hessian @ direction
            return dense + objective.penalty.product(direction)

        def block_product(block: Block) -> Vector:
            features, prepared = block.features, objective._prepared(block)
            moved = objective.map.forward(direction, features, *prepared)
            state = objective.state_of(self.theta, block, self.states)
            product = objective.loss.curvature_product(state, block.labels, moved)
            return objective.map.adjoint(block.weighted(product), features, *prepared)

        total: Vector = objective.summed(block_product)
        return total / objective.total_weight + objective.penalty.product(direction)

    def curvature(self) -> Curvature:
        """Return the affordable approximation of the Hessian that fits the map, from some of very many rows."""
        objective = self.objective
        if self.hessian is not None:
            return DenseCurvature([self.hessian])
        kind = curvature_type(objective.map)
        step = max(1, int(objective.rows.n_rows * kind.work_per_row(objective.map) / CURVATURE_WORK))

        def block_curvature(block: Block) -> _Weighed:
            # By the place among all rows, so that blocks and batches make no difference.
            first = -block.first % step
            some = slice(first, None, step)
            weights = None if block.weights is None else block.weights[some]
            if first >= len(block.labels):
                some, weights = slice(0, 1), np.zeros(1)  # none of a short block: one row that does not count
            thin = replace(block, features=block.features[some], labels=block.labels[some], weights=weights)
            state = objective.state_of(self.theta, block, self.states)[some]
            total = float(len(state) if weights is None else weights.sum())
            return _Weighed(kind.of_block(objective.map, state, thin.weighted(state), thin.features), total)

        found = objective.summed(block_curvature)
        return found.curvature.averaged(found.total_weight)

    def discard(self) -> None:
        """Give the memory of an expansion that is not needed any more to the next one."""
        self.objective.rows.recycle(self.states)


@dataclass(frozen=True, eq=False)
class _Weighed:
    """A curvature and the total weight of the rows it was taken from."""

    curvature: Curvature
    total_weight: float

    def __add__(self, other: Self) -> Self:
        return type(self)(self.curvature + other.curvature, self.total_weight + other.total_weight)
