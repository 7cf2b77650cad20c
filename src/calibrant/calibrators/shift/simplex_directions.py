"""Where a minimum on the simplex moves: for each weight the direction in which all others give way best."""

from dataclasses import dataclass

import numpy as np

from calibrant.arrays import Matrix, Vector

__all__ = ["Directions"]


# Curvature added in all directions, as a share of what there is: finite, and far below anything that data could tell.
RIDGE = 1e-12


@dataclass(frozen=True, eq=False)
class Directions:
    r"""Second-order picture of a convex function around its minimum over the simplex.

    Weights at zero stay there, except the one that a direction is about.

    Attributes
    ----------
    vectors : ndarray of shape (K, K)
        Row k: a change of all weights that sums to zero and adds one to weight k, of least curvature.
    curvatures : ndarray of shape (K,)
        Second derivative along each of them.
    response : ndarray of shape (K, K)
        How the minimum moves when a linear term is taken away from the function: minus the gradient times this.
    """

    vectors: Matrix
    curvatures: Vector
    response: Matrix

    @classmethod
    def around(cls, weights: Vector, hessian: Matrix, slopes: Vector) -> "Directions":
        """Return the directions at a minimum; ``slopes`` are minus the gradient, largest for what may enter next."""
        size = len(weights)
        hessian = hessian + RIDGE * max(float(np.trace(hessian)) / size, 1e-300) * np.eye(size)
        free = weights > 0
        inverse = np.linalg.inv(hessian[np.ix_(free, free)])
        sums = inverse.sum(axis=1)
        level = sums / sums.sum()  # of least curvature among those that add one to the sum
        tangent = inverse - np.outer(sums, level)
        response = np.zeros((size, size))
        response[np.ix_(free, free)] = tangent
        vectors = np.zeros((size, size))
        if free.sum() > 1:
            vectors[np.ix_(free, free)] = tangent / np.diagonal(tangent)[:, np.newaxis]
        else:
            # A single weight can only give way to one that enters: the one that would help most, or hurt least.
            alone = int(np.flatnonzero(free)[0])
            other = int(np.argmax(np.where(free, -np.inf, slopes)))
            vectors[alone, [alone, other]] = [1.0, -1.0]
        entering = np.flatnonzero(~free)
        vectors[np.ix_(entering, free)] = -hessian[np.ix_(entering, free)] @ tangent - level
        vectors[entering, entering] = 1.0
        curvatures = np.einsum("kj,jl,kl->k", vectors, hessian, vectors, optimize=True)
        return cls(vectors, curvatures, response)
