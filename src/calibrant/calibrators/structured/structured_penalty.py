"""The price of leaving temperature scaling: squares of all parameters, and of differences between neighbours."""

from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.structured.structured_map import StructuredMap
from calibrant.objective import QuadraticPenalty

__all__ = ["StructuredPenalty"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# What a slope of rows costs, as a multiple of one of a segment; chosen on the odd-numbered sets of
# benchmarks/structured_and_auto.py.
ROW_PRICE = 4.0


@dataclass(frozen=True)
class StructuredPenalty(QuadraticPenalty):
    r"""Weighted squared distance from the identity, plus a quadratic form of the first few parameters.

    .. math:: \sum_j c_j (\theta_j - \theta^0_j)^2 + \theta_{1..Q}^\top D\, \theta_{1..Q}

    D prices the differences of neighbouring slopes. The Hessian is diagonal but for D: ``curvature`` is the
    diagonal, :meth:`coupling` the rest.

    Attributes
    ----------
    strengths : ndarray of shape (P,)
        Prices c.
    center : ndarray of shape (P,)
        The parameters :math:`\theta^0` that cost nothing.
    differences : ndarray of shape (Q, Q)
        D, symmetric and without negative eigenvalues; the centre must cost nothing.

    Examples
    --------
    >>> penalty = StructuredPenalty(np.array([1.0, 1.0, 3.0]), np.array([1.0, 1.0, 0.0]), 2 * chain_of([2]))
    >>> theta = np.array([1.0, 2.0, 1.0])
    >>> penalty.value(theta)                                                      # 1 + 3 + 2 * 1
    6.0
    >>> penalty.hessian() @ (theta - penalty.center) - penalty.gradient(theta)
    array([0., 0., 0.])
    """

    differences: Matrix

    @classmethod
    def of(
        cls,
        logit_map: StructuredMap,
        total_weight: float,
        strength: float,
        slope_penalty: float,
        difference_penalty: float,
    ) -> "StructuredPenalty":
        """Return the penalty of structured scaling for so many rows.

        A slope costs ``slope_penalty``, each of K weights v and of K intercepts K times the ``strength``, each of K (K - 1)
        weights M so many times the strength, all divided by the number of rows.
        """
        n_classes = logit_map.n_classes
        own = np.empty(0)
        if logit_map.class_terms == "vector":
            own = np.full(2 * n_classes, float(n_classes))
        elif logit_map.class_terms == "matrix":
            prices = np.full((n_classes, n_classes + 1), float(n_classes * (n_classes - 1)))
            np.fill_diagonal(prices, float(n_classes))
            prices[:, -1] = n_classes
            own = prices.ravel()
        n_segments = 0 if logit_map.segments is None else logit_map.segments.scores.n_segments
        lengths = [n_segments, logit_map.n_slopes - n_segments]
        of_slopes = np.repeat([1.0, ROW_PRICE], lengths)
        return cls(
            np.concatenate([slope_penalty * of_slopes, strength * own]) / total_weight,
            logit_map.identity(),
            difference_penalty * of_slopes[:, np.newaxis] * chain_of(lengths) / total_weight,
        )

    def value(self, theta: Vector) -> float:
        """Return the price of ``theta``."""
        first = theta[: len(self.differences)]
        return super().value(theta) + float(first @ self.differences @ first)

    def gradient(self, theta: Vector) -> Vector:
        """Return the derivative at ``theta``."""
        size = len(self.differences)
        gradient = super().gradient(theta)
        gradient[:size] += 2 * self.differences @ theta[:size]
        return gradient

    @property
    def curvature(self) -> Vector:
        """Diagonal of the Hessian."""
        curvature = 2 * self.strengths
        curvature[: len(self.differences)] += 2 * np.diag(self.differences)
        return curvature

    def coupling(self, direction: Vector) -> Vector:
        """Return the Hessian without its diagonal, times ``direction``."""
        size = len(self.differences)
        product = np.zeros_like(direction)
        first = direction[:size]
        product[:size] = 2 * (self.differences @ first - np.diag(self.differences) * first)
        return product

    def hessian(self, size: int | None = None) -> Matrix:
        """Return the Hessian, (P, P), or that of the first ``size`` parameters, for which D has to be among them."""
        hessian = np.diag(2 * self.strengths[:size])
        coupled = len(self.differences)
        hessian[:coupled, :coupled] += 2 * self.differences
        return hessian


def chain_of(lengths: list[int]) -> Matrix:
    r"""Return the matrix of :math:`\sum_j (\theta_{j+1} - \theta_j)^2` within stretches of given lengths.

    >>> chain_of([2, 1])
    array([[ 1., -1.,  0.], [-1.,  1.,  0.], [ 0.,  0.,  0.]])
    """
    steps = np.diff(np.eye(sum(lengths)), axis=0)
    ends = [end - 1 for end in accumulate(lengths) if 0 < end < sum(lengths)]
    steps = np.delete(steps, ends, axis=0)
    return steps.T @ steps
