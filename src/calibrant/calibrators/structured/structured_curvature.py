"""An approximation of the Hessian of structured scaling that preconditions conjugate gradients."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from calibrant.arrays import FloatArray
from calibrant.objective import QuadraticPenalty
from calibrant.objective.curvature import (
    ByClassCurvature,
    Curvature,
    KroneckerCurvature,
    Solver,
    dense_solver,
)

if TYPE_CHECKING:
    from calibrant.calibrators.structured.structured_map import StructuredMap

__all__ = ["StructuredCurvature"]


# Up to this many parameters the Hessian is formed and factorised as a whole.
WHOLE_PARAMETERS = 600


@dataclass(frozen=True, eq=False)
class StructuredCurvature:
    """Sums over rows that approximate the Hessian of the cross-entropy; those of two sets of rows add up.

    The Hessian itself where parameters are few. Else that of the shared ones, next to a cheaper picture of the class
    terms as if the two knew nothing of each other: the strong penalty of many classes makes that nearly true.

    Attributes
    ----------
    dense : ndarray of shape (Q, Q)
        Of all parameters, or of the shared ones.
    rest : Curvature or None
        Of the others.
    """

    dense: FloatArray
    rest: Curvature | None

    @classmethod
    def of_block(
        cls, logit_map: "StructuredMap", probabilities: FloatArray, weighted: FloatArray, features: FloatArray
    ) -> Self:
        """Return the sums for one block of rows; ``weighted`` is probabilities times row weight."""
        if cls.is_whole(logit_map) or logit_map.class_map is None:
            return cls(logit_map.fisher(probabilities, weighted, features), None)
        shared, _ = logit_map.shared_fisher(probabilities, weighted, features)
        kind = KroneckerCurvature if logit_map.class_terms == "matrix" else ByClassCurvature
        return cls(shared, kind.of_block(logit_map.class_map, probabilities, weighted, features))

    @staticmethod
    def is_whole(logit_map: "StructuredMap") -> bool:
        """Tell whether all parameters are seen together."""
        return logit_map.class_map is None or logit_map.n_parameters <= WHOLE_PARAMETERS

    @classmethod
    def work_per_row(cls, logit_map: "StructuredMap") -> int:
        """Return about how many multiplications a row takes."""
        of_slopes = logit_map.n_classes * (20 + logit_map.n_slopes) * logit_map.n_slopes
        if cls.is_whole(logit_map):
            return of_slopes + logit_map.n_parameters**2
        return of_slopes + logit_map.n_classes * (
            5 if logit_map.class_terms == "vector" else 3 * logit_map.n_classes
        )

    def __add__(self, other: Self) -> Self:
        rest = None if self.rest is None or other.rest is None else self.rest + other.rest
        return type(self)(self.dense + other.dense, rest)

    def averaged(self, total_weight: float) -> Self:
        """Return the curvature of the mean loss from that of the sum."""
        rest = None if self.rest is None else self.rest.averaged(total_weight)
        return type(self)(self.dense.astype(np.float64) / total_weight, rest)

    def solver(self, penalty: QuadraticPenalty) -> Solver:
        """Return a symmetric positive definite approximate inverse of the curvature of mean loss plus penalty."""
        size = len(self.dense)
        of_dense = dense_solver(self.dense + penalty.hessian(size))
        if self.rest is None:
            return of_dense
        own = slice(size, None)
        of_rest = self.rest.solver(QuadraticPenalty(penalty.strengths[own], penalty.center[own]))
        return lambda residual: np.concatenate([of_dense(residual[:size]), of_rest(residual[own])])
