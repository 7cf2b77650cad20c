"""Map of several labels: one curve that all share, and a slope and a shift of every label."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from calibrant.arrays import Cube, FloatArray, Matrix, Vector
from calibrant.calibrators.monotone.piecewise_linear import SegmentMaps
from calibrant.graph import Value
from calibrant.graph.curves import Piecewise
from calibrant.numerics.reductions import column_sums
from calibrant.objective import LogitMap, QuadraticPenalty
from calibrant.objective.curvature import Solver, dense_solver

__all__ = ["LabelMap", "label_penalty"]

RIDGE = 1e-12
"""Added to the curvature of a label, relative to that of all, where no outcome of the label is known."""

SLOPE_PENALTY = 4.0
"""Penalty of a slope relative to that of a shift: log-odds spread by about two, so that both cost the same for one effect."""


@dataclass(frozen=True, eq=False)
class ArrowCurvature:
    r"""Hessian of the loss of several labels, which is an arrow: labels meet only through the shared curve.

    .. math:: \begin{pmatrix} A & B_1 & \cdots & B_L \\ B_1^\top & C_1 & & \\ \vdots & & \ddots & \\ B_L^\top & & & C_L
              \end{pmatrix}

    Its inverse costs O(L m^2) through the Schur complement :math:`A - \sum_l B_l C_l^{-1} B_l^\top`.

    Attributes
    ----------
    shared : ndarray of shape (Q, Q)
        A.
    mixed : ndarray of shape (L, Q, 2)
        B.
    own : ndarray of shape (L, 2, 2)
        C.
    """

    shared: Matrix
    mixed: Cube
    own: Cube

    @classmethod
    def of_block(
        cls, label_map: "LabelMap", bends: FloatArray, weighted: FloatArray, features: FloatArray
    ) -> Self:
        """Return the sums for one block of rows; ``weighted`` are second derivatives times row weights, (n, L)."""
        del bends
        columns = label_map.shared_features(features)
        own = np.stack([features - label_map.middle, np.ones_like(features)])
        heavy = columns * weighted
        size = len(columns)
        return cls(
            heavy.reshape(size, -1) @ columns.reshape(size, -1).T,
            np.einsum("anl,bnl->lab", heavy, own),
            np.einsum("anl,bnl->lab", own * weighted, own),
        )

    @staticmethod
    def work_per_row(label_map: "LabelMap") -> int:
        """Return about how many multiplications a row takes."""
        return label_map.n_classes * (label_map.n_shared + 2) ** 2

    def __add__(self, other: Self) -> Self:
        return type(self)(self.shared + other.shared, self.mixed + other.mixed, self.own + other.own)

    def averaged(self, total_weight: float) -> Self:
        """Return the curvature of the mean loss from that of the sum."""
        return type(self)(self.shared / total_weight, self.mixed / total_weight, self.own / total_weight)

    def solver(self, penalty: QuadraticPenalty) -> Solver:
        """Return the inverse of the Hessian of mean loss plus penalty."""
        size, n_labels = len(self.shared), len(self.own)
        own = self.own.copy()
        least = RIDGE * (float(np.abs(self.own).mean()) + 1e-300)
        of_labels = penalty.strengths[size:].reshape(2, n_labels)
        for k in range(2):
            own[:, k, k] += 2 * of_labels[k] + least
        inverse = np.linalg.inv(own)
        solved = np.einsum("lab,lqb->laq", inverse, self.mixed)  # C^-1 B^T, (L, 2, Q)
        complement = self.shared + penalty.hessian(size) - np.einsum("lqa,lar->qr", self.mixed, solved)
        of_shared = dense_solver((complement + complement.T) / 2)

        def solve(residual: Vector) -> Vector:
            shared, rest = residual[:size], residual[size:].reshape(2, n_labels).T
            step = of_shared(shared - np.einsum("laq,la->q", solved, rest))
            of_each = np.einsum("lab,lb->la", inverse, rest) - solved @ step
            return np.concatenate([step, of_each.T.ravel()])

        return solve


class LabelMap(LogitMap):
    r"""Log-odds :math:`u_l = b + \sum_j s_j\, g_j(x_l) + v_l (x_l - c) + d_l` of L labels from their scores :math:`x_l`.

    :math:`\theta` holds b and the slopes s that all labels share, as in
    :class:`~calibrant.calibrators.monotone.piecewise_linear.SegmentMaps`, then the slopes v and the shifts d of the labels,
    which are measured at the middle c of the knots.

    Parameters
    ----------
    n_labels : int
        Number of labels, L.
    maps : SegmentMaps
        The shared curve.

    Examples
    --------
    >>> label_map = LabelMap(2, SegmentMaps(np.array([-1.0])))
    >>> label_map.forward(np.array([-1.0, 1.0, 2.0, 0.0, 0.5, 0.0, 0.25]), np.array([[-2.0, 0.0]]))
    array([[-2.  ,  1.75]])
    """

    curvature_type: ClassVar[type[Any] | None] = ArrowCurvature

    def __init__(self, n_labels: int, maps: SegmentMaps) -> None:
        super().__init__(n_labels, bias=True)
        self.maps = maps
        self.n_shared = 1 + maps.n_slopes
        self.middle = maps.middle

    @property
    def n_parameters(self) -> int:
        return self.n_shared + 2 * self.n_classes

    def identity(self) -> Vector:
        return np.concatenate([self.maps.unchanged, np.zeros(2 * self.n_classes)])

    def lower(self) -> Vector:
        return np.concatenate([self.maps.lower, np.full(2 * self.n_classes, -np.inf)])

    def of_label(self, theta: Vector, label: int) -> Vector:
        """Return the map of one label in the parameters of the shared curve: value at the first knot, and slopes."""
        shared, slopes, shifts = self._parts(theta)
        own: Vector = shared.astype(np.float64)
        own[1:] += slopes[label]
        first = self.maps.knots[0] if len(self.maps.knots) else 0.0
        own[0] += shifts[label] + slopes[label] * (first - self.middle)
        return own

    def shared_features(self, features: FloatArray) -> FloatArray:
        """Return what every shared parameter is multiplied by, (Q, n, L)."""
        columns = np.empty((self.n_shared, *features.shape), features.dtype)
        columns[0] = 1.0
        columns[1:] = self.maps.segments.features(features)
        return columns

    def traced(self, theta: Vector, x: Value) -> Value:
        shared, slopes, shifts = self._parts(theta)
        curve = x.then(Piecewise.sloped(self.maps.knots, shared[1:].astype(np.float64)))
        return curve + x.affine(slopes, shifts - slopes * self.middle + shared[0])

    def forward(self, theta: FloatArray, features: FloatArray, *prepared: Any) -> FloatArray:  # noqa: ARG002
        shared, slopes, shifts = self._parts(theta)
        scores = self.maps.segments.values(shared[1:], features)
        scores += (features - self.middle) * slopes
        scores += shifts + shared[0]
        return scores

    def adjoint(self, cotangent: FloatArray, features: FloatArray, *prepared: Any) -> Vector:  # noqa: ARG002
        own = np.einsum("nl,nl->l", cotangent, features - self.middle)
        shifts = column_sums(cotangent)
        of_slopes = self.maps.segments.adjoint(cotangent, features)
        return np.concatenate([[shifts.sum()], of_slopes, own, shifts]).astype(np.float64)

    def _parts(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        return (
            theta[: self.n_shared],
            theta[self.n_shared : self.n_shared + self.n_classes],
            theta[self.n_shared + self.n_classes :],
        )


def label_penalty(label_map: LabelMap, of_curve: Matrix, strength: float) -> QuadraticPenalty:
    """Return the penalty on the sum of losses: of the shared curve as given, of slopes and shifts of labels by strength."""
    of_labels = np.repeat([SLOPE_PENALTY * strength, strength], label_map.n_classes)
    return QuadraticPenalty(
        np.concatenate([np.zeros(label_map.n_shared), of_labels]),
        label_map.identity(),
        of_curve,
    )
