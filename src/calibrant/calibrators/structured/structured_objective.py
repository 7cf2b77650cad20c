"""Mean log-loss of structured scaling plus its penalty, for a solver with bounds."""

from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.structured.shared_segments import Places
from calibrant.calibrators.structured.structured_curvature import StructuredCurvature
from calibrant.calibrators.structured.structured_map import StructuredMap
from calibrant.calibrators.structured.structured_penalty import StructuredPenalty
from calibrant.numerics.row_blocks import BlockSums
from calibrant.objective import CrossEntropy, Expansion, Objective
from calibrant.objective.curvature import Solver

__all__ = ["StructuredExpansion", "StructuredObjective"]

FloatArray = NDArray[np.floating]
Vector = NDArray[np.float64]

# A pass consists of some fifty short operations: in blocks of this size their start does not count, nor do threads wait
# for each other, and a third-level cache still holds a few of them.
BLOCK_BYTES = 2**21

# Multiplications that a preconditioner may cost; it is taken from every second, third, ... row beyond.
CURVATURE_WORK = 2e9


class StructuredObjective(Objective):
    r"""The function of structured scaling's parameters that a fit minimises.

    .. math:: F(\theta) = \frac1n \sum_i w_i\, \ell(u(\theta; x_i), y_i) + \mathrm{penalty}(\theta)

    An :class:`~calibrant.objective.Objective` whose penalty couples neighbouring slopes, in blocks that suit the map.

    Parameters
    ----------
    logit_map : StructuredMap
        From features to scores.
    features : ndarray of shape (n, K)
        x: logarithms of tempered and mixed probabilities.
    labels : ndarray of shape (n,)
        Column number of the true class.
    weights : ndarray of shape (n,) or None
        Weights of the rows.
    penalty : StructuredPenalty
        Price of leaving the identity.
    exact : bool
        Whether value and gradient are computed in float64 whatever the float type of the features.
    """

    map: StructuredMap
    penalty: StructuredPenalty

    def __init__(
        self,
        logit_map: StructuredMap,
        features: FloatArray,
        labels: NDArray[np.intp],
        weights: Vector | None,
        penalty: StructuredPenalty,
        *,
        exact: bool = True,
    ) -> None:
        super().__init__(CrossEntropy(), logit_map, features, labels, weights, penalty, exact=exact)
        self._places: dict[tuple[int, int], Places] = {}
        self._spare: list[FloatArray] = []

    def repriced(self, penalty: StructuredPenalty) -> "StructuredObjective":
        """Return the same loss on the same rows with another penalty; what is known of the rows is shared."""
        twin = StructuredObjective(
            self.map, self.features, self.labels, self.weights, penalty, exact=self.exact
        )
        twin._places, twin._spare = self._places, self._spare
        return twin

    def _memory(self) -> FloatArray:
        # Fresh memory costs as much as the work done in it: that of an expansion nobody needs is used again.
        return self._spare.pop() if self._spare else super()._memory()

    def _kept(self, rows: slice) -> tuple[Places | None]:
        return (self.places(rows),)

    def _expansion_type(self) -> "type[StructuredExpansion]":
        return StructuredExpansion

    def places(self, rows: slice) -> Places | None:
        """Return where the features of a block are; looked up once and kept."""
        if self.map.segments is None:
            return None
        known = self._places.get((rows.start, rows.stop))
        if known is None:
            known = self._places[rows.start, rows.stop] = self.map.segments.places(self.features[rows])
        return known

    def inverse_of(self, curvature: StructuredCurvature) -> Solver:
        """Return the preconditioner for the penalty of this objective."""
        return curvature.solver(self.penalty)

    def _blocks(self) -> AbstractContextManager[BlockSums]:
        n_classes = self.map.n_classes
        itemsize = 8 if self.exact else self.features.itemsize
        block_rows = max(1, BLOCK_BYTES // (n_classes * itemsize))
        return BlockSums.over(len(self.features), n_classes, itemsize, min_rows=block_rows)


@dataclass(frozen=True, eq=False)
class StructuredExpansion(Expansion):
    """The objective at one theta: value, gradient, Hessian products and a preconditioner."""

    objective: StructuredObjective

    def discard(self) -> None:
        """Give the memory of an expansion that is not needed any more to the next one."""
        self.objective._spare.append(self.probabilities)

    def hessian_product(self, direction: Vector) -> Vector:
        """Return the Hessian times ``direction``; exact up to the float type of the features."""
        return super().hessian_product(direction) + self.objective.penalty.coupling(direction)

    def curvature(self) -> StructuredCurvature:  # type: ignore[override]
        """Return the affordable approximation of the Hessian, from some of the rows if there are very many."""
        objective = self.objective
        logit_map = objective.map
        work = len(objective.labels) * StructuredCurvature.work_per_row(logit_map)
        step = max(1, int(work / CURVATURE_WORK))

        def block_curvature(rows: slice) -> StructuredCurvature:
            chosen = slice(rows.start + -rows.start % step, rows.stop, step)
            probabilities = self.probabilities[chosen]
            weighted = probabilities
            if objective.weights is not None:
                weighted = probabilities * objective.weights[chosen, np.newaxis].astype(probabilities.dtype)
            return StructuredCurvature.of_block(
                logit_map, probabilities, weighted, objective.features[chosen]
            )

        total = (
            len(objective.labels[::step]) if objective.weights is None else objective.weights[::step].sum()
        )
        return objective.summed(block_curvature).averaged(float(total))
