"""Logit map of structured scaling: a shared map, then class-wise terms, with its curvature and penalty."""

from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from operator import add
from typing import Any, ClassVar, Literal, Self

import numpy as np

from calibrant.arrays import Cube, FloatArray, Matrix, Vector
from calibrant.calibrators.structured.shared_segments import Places, SharedSegments
from calibrant.graph import Value
from calibrant.numerics.reductions import row_sums
from calibrant.numerics.row_blocks import row_blocks
from calibrant.objective import DiagonalMap, FullMap, LogitMap, QuadraticPenalty
from calibrant.objective.curvature import (
    ByClassCurvature,
    Curvature,
    KroneckerCurvature,
    Solver,
    dense_solver,
)

__all__ = ["ClassTerms", "StructuredCurvature", "StructuredMap", "structured_penalty"]

ClassTerms = Literal["vector", "matrix"] | None
"""Parameters per class: a weight and an intercept, weights of all scores and an intercept, or none."""

# Up to this many parameters the complete Hessian is formed and factorised.
WHOLE_PARAMETERS = 600

# Rows of a part of a block; with fewer, the start of each operation would count.
FEWEST_ROWS = 1024


@dataclass(frozen=True, eq=False)
class StructuredCurvature:
    """Sums over rows that approximate the Hessian of the cross-entropy; those of two sets of rows add up.

    The Hessian itself if parameters are few. Otherwise a block-diagonal approximation: the Hessian of the shared parameters,
    and a cheaper approximation for class terms. With the strong penalty of many classes the blocks are nearly independent.
    """

    dense: FloatArray  # of all parameters, or of the shared ones
    rest: Curvature | None  # of the others

    @classmethod
    def of_block(
        cls, logit_map: "StructuredMap", probabilities: FloatArray, weighted: FloatArray, features: FloatArray
    ) -> Self:
        """Return the sums for one block of rows; ``weighted`` is probabilities times row weight."""
        # In parts, since the features of all slopes take many times the memory of the block.
        width = logit_map.n_classes * max(1, logit_map.n_slopes)
        parts = row_blocks(len(features), width, features.itemsize, FEWEST_ROWS)
        return reduce(
            add, (cls._of_rows(logit_map, probabilities[p], weighted[p], features[p]) for p in parts)
        )

    @classmethod
    def _of_rows(
        cls, logit_map: "StructuredMap", probabilities: FloatArray, weighted: FloatArray, features: FloatArray
    ) -> Self:
        if cls.is_whole(logit_map) or logit_map.class_map is None:
            return cls(logit_map.fisher(probabilities, weighted, features), None)
        shared, _ = logit_map.shared_fisher(probabilities, weighted, features)
        kind = KroneckerCurvature if logit_map.class_terms == "matrix" else ByClassCurvature
        return cls(shared, kind.of_block(logit_map.class_map, probabilities, weighted, features))

    @staticmethod
    def is_whole(logit_map: "StructuredMap") -> bool:
        """Return whether the Hessian of all parameters is formed."""
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


class StructuredMap(LogitMap):
    r"""Scores :math:`u_k = \varphi_s(x_k) + \tau_t(H)\, x_k + v_k x_k + \sum_{j \ne k} M_{kj} x_j + b_k`.

    Linear in all parameters. :math:`\theta` holds the slopes s and t that all classes share first, in the order of
    :class:`~calibrant.calibrators.structured.shared_segments.SharedSegments`, then the class terms: v and b for
    ``"vector"``, the rows of [W | b] with v on the diagonal of W and M off it for ``"matrix"``. Without a shared map the
    identity is part of the weights: 1 + v, or the unit matrix plus W.

    Parameters
    ----------
    n_classes : int
        Number of classes, K.
    segments : SharedSegments or None
        The shared map; None for none.
    class_terms : {"vector", "matrix"} or None
        Parameters of every class.

    Notes
    -----
    :meth:`forward` and :meth:`adjoint` take the cached places of a block of features on the segments, which saves most of the
    work for the shared map.

    Examples
    --------
    >>> from calibrant.numerics.linear_segments import LinearSegments
    >>> shared = SharedSegments(LinearSegments(np.array([-1.0])), None)
    >>> theta = np.array([1.0, 2.0, 0.0, 0.5, 0.0, 0.25])               # two slopes, v and b
    >>> StructuredMap(2, shared, "vector").forward(theta, np.array([[-2.0, -0.5]]))
    array([[-1.,  1.]])
    """

    curvature_type: ClassVar[type[Any] | None] = StructuredCurvature
    # A pass consists of some fifty short operations: in blocks of this size their start does not count, nor do threads
    # wait for each other, and a third-level cache still holds a few of them.
    block_bytes = 2**21

    def __init__(self, n_classes: int, segments: SharedSegments | None, class_terms: ClassTerms) -> None:
        super().__init__(n_classes, class_terms is not None)
        self.segments = segments
        self.n_slopes = 0 if segments is None else segments.n_slopes
        self.class_terms = class_terms
        self.class_map: LogitMap | None = None
        if class_terms is not None:
            self.class_map = (DiagonalMap if class_terms == "vector" else FullMap)(n_classes, bias=True)

    @property
    def n_parameters(self) -> int:
        return self.n_slopes + (0 if self.class_map is None else self.class_map.n_parameters)

    def lower(self) -> Vector:
        """Return the lower bound of every parameter: the shared map is increasing, class terms are free."""
        lower = np.full(self.n_parameters, -np.inf)
        if self.segments is not None:
            lower[: self.n_slopes] = self.segments.lower
        return lower

    def identity(self) -> Vector:
        if self.class_map is None:
            own = np.empty(0)
        else:
            own = (
                self.class_map.identity() if self.segments is None else np.zeros(self.class_map.n_parameters)
            )
        return own if self.segments is None else np.concatenate([self.segments.identity, own])

    def deviations(self, theta: Vector) -> tuple[Vector | None, Vector | None]:
        """Return weights and intercepts of the classes as far as they leave the identity; None if there are none.

        The weights are v, (K,), or the matrix with v on its diagonal, (K, K).
        """
        own = (theta - self.identity())[self.n_slopes :]
        if self.class_terms is None:
            return None, None
        if self.class_terms == "vector":
            return own[: self.n_classes].copy(), own[self.n_classes :].copy()
        matrix = own.reshape(self.n_classes, self.n_classes + 1)
        return matrix[:, :-1].copy(), matrix[:, -1].copy()

    def traced(self, theta: Vector, x: Value) -> Value:
        shared, own, scores = theta[: self.n_slopes], theta[self.n_slopes :], x
        if self.segments is not None:
            scores = self.segments.traced(shared, x)
        elif self.class_map is not None:
            # The identity is part of the weights; as a term of its own it is what all classes share.
            own = own - self.class_map.identity()
        return scores if self.class_map is None else scores + self.class_map.traced(own, x)

    def prepare(self, features: FloatArray) -> tuple[Places | None]:
        return (None if self.segments is None else self.segments.places(features),)

    def forward(self, theta: FloatArray, features: FloatArray, places: Places | None = None) -> FloatArray:
        shared, own = theta[: self.n_slopes], theta[self.n_slopes :]
        if self.segments is None:
            return np.array(features) if self.class_map is None else self.class_map.forward(own, features)
        scores = self.segments.values(shared, features, places)
        if self.class_map is not None:
            scores += self.class_map.forward(own, features)
        return scores

    def adjoint(self, cotangent: FloatArray, features: FloatArray, places: Places | None = None) -> Vector:
        own = np.empty(0) if self.class_map is None else self.class_map.adjoint(cotangent, features)
        if self.segments is None:
            return own
        return np.concatenate([self.segments.adjoint(cotangent, features, places), own])

    def row_directions(self, features: FloatArray, changes: Matrix) -> Cube:
        if self.class_map is None:
            return super().row_directions(features, changes)
        own = self.class_map.row_directions(features, changes[self.n_slopes :])
        return own + self._shared_jacobian(features) @ changes[: self.n_slopes]

    def row_adjoints(self, cotangent: FloatArray, features: FloatArray) -> Matrix:
        if self.class_map is None:
            return super().row_adjoints(cotangent, features)
        shared = np.einsum("ik,ikp->ip", cotangent, self._shared_jacobian(features))
        return np.hstack([shared, self.class_map.row_adjoints(cotangent, features)])

    def _shared_jacobian(self, features: FloatArray) -> Cube:
        """Return the derivatives of the scores in the parameters that all classes share, (n, K, m)."""
        jacobian = np.empty((*features.shape, self.n_slopes))
        for place, unit in enumerate(np.eye(self.n_parameters)[: self.n_slopes]):
            jacobian[:, :, place] = self.forward(unit, features)
        return jacobian

    def information(self, probabilities: FloatArray, weights: Vector, features: FloatArray) -> Matrix:
        whole = super().information(probabilities, weights, features)
        if self.class_map is not None:
            own = slice(self.n_slopes, None)
            whole[own, own] = self.class_map.information(probabilities, weights, features)
        return whole

    def fisher(self, probabilities: FloatArray, weighted: FloatArray, features: FloatArray) -> FloatArray:
        if self.class_map is None:
            return self.shared_fisher(probabilities, weighted, features)[0]
        own = self.class_map.fisher(probabilities, weighted, features)
        if self.segments is None:
            return own
        shared, centred = self.shared_fisher(probabilities, weighted, features)
        if self.class_terms == "vector":
            mixed = np.hstack([np.einsum("mik,ik->mk", centred, features), centred.sum(axis=1)])
        else:
            padded = np.hstack([features, np.ones((len(features), 1), features.dtype)])
            mixed = np.matmul(centred.transpose(0, 2, 1), padded).reshape(self.n_slopes, -1)
        return np.block([[shared, mixed], [mixed.T, own]])

    def shared_fisher(
        self, probabilities: FloatArray, weighted: FloatArray, features: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the part of :meth:`fisher` that belongs to the shared map, and its features, centred.

        The latter, (n_slopes, rows, K), are those of the slopes less their means in the row, times the weighted
        probabilities.
        """
        if self.segments is None:
            return np.empty((0, 0), features.dtype), np.empty((0, *features.shape), features.dtype)
        of_slopes = self.segments.features(features)
        size = len(of_slopes)
        means = row_sums((of_slopes * probabilities).reshape(-1, self.n_classes)).reshape(size, -1, 1)
        centred = (of_slopes - means) * weighted
        return centred.reshape(size, -1) @ of_slopes.reshape(size, -1).T, centred


# Penalty of a row slope as a multiple of that of a segment slope; chosen on the odd-numbered sets of
# benchmarks/structured_and_auto.py.
ROW_SLOPE_PENALTY = 4.0


def structured_penalty(
    logit_map: StructuredMap, strength: float, slope_penalty: float, difference_penalty: float
) -> QuadraticPenalty:
    """Return the penalty of structured scaling on the sum of losses, around temperature scaling.

    A slope costs ``slope_penalty``, each of K weights v and of K intercepts K times the ``strength``, each of K (K - 1)
    weights M K (K - 1) times the strength; differences of neighbouring slopes cost ``difference_penalty``.
    """
    n_classes = logit_map.n_classes
    own = np.empty(0)
    if logit_map.class_terms == "vector":
        own = np.full(2 * n_classes, float(n_classes))
    elif logit_map.class_terms == "matrix":
        penalties = np.full((n_classes, n_classes + 1), float(n_classes * (n_classes - 1)))
        np.fill_diagonal(penalties, float(n_classes))
        penalties[:, -1] = n_classes
        own = penalties.ravel()
    n_segments = 0 if logit_map.segments is None else logit_map.segments.scores.n_segments
    lengths = [n_segments, logit_map.n_slopes - n_segments]
    of_slopes = np.repeat([1.0, ROW_SLOPE_PENALTY], lengths)
    return QuadraticPenalty(
        np.concatenate([slope_penalty * of_slopes, strength * own]),
        logit_map.identity(),
        difference_penalty * of_slopes[:, np.newaxis] * chain_of(lengths),
    )


def chain_of(lengths: list[int]) -> Matrix:
    r"""Return the matrix of :math:`\sum_j (\theta_{j+1} - \theta_j)^2` within stretches of given lengths.

    >>> chain_of([2, 1])
    array([[ 1., -1.,  0.], [-1.,  1.,  0.], [ 0.,  0.,  0.]])
    """
    steps = np.diff(np.eye(sum(lengths)), axis=0)
    ends = [end - 1 for end in accumulate(lengths) if 0 < end < sum(lengths)]
    steps = np.delete(steps, ends, axis=0)
    return steps.T @ steps
