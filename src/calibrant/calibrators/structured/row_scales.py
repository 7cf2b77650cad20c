"""Factors that depend on how decided a row is, linear in their values at a few places."""

from dataclasses import dataclass

import numpy as np

from calibrant.arrays import FloatArray, Vector
from calibrant.graph import Value
from calibrant.graph.curves import Piecewise
from calibrant.numerics.reductions import row_sums

__all__ = ["RowScales", "mean_features"]


def mean_features(features: FloatArray) -> FloatArray:
    r"""Return the mean :math:`\bar x` of rows of log-probabilities, (n,).

    It says how decided a row is: :math:`-\bar x - \log K` is the divergence of the row from the uniform distribution,
    zero for even odds and large where most classes are ruled out.

    >>> mean_features(np.log([[0.5, 0.5], [0.9, 0.1]])).round(6)
    array([-0.693147, -1.203973])
    """
    means: FloatArray = row_sums(features)
    means /= features.shape[1]
    return means


@dataclass(frozen=True, eq=False)
class RowScales:
    r"""A function :math:`\tau(\bar x)` of a row's mean log-probability, linear between knots and constant beyond them.

    .. math:: \tau(\bar x) = \sum_{r=1}^R t_r\, h_r(\bar x)

    with the hat functions h, of which :math:`h_r` is one at knot r and zero at all others. Costs one sum per row.

    Attributes
    ----------
    knots : ndarray of shape (R,)
        Mean log-probabilities, strictly increasing; two at least.

    Examples
    --------
    >>> scales = RowScales(np.array([-1.0, 0.0]))
    >>> undecided = np.log([[0.5, 0.5]])                              # of mean -log 2
    >>> scales.hats(undecided).round(4)
    array([[0.6931, 0.3069]])
    >>> scales.factors(np.array([10.0, 0.0]), undecided).round(4)
    array([6.9315])
    """

    knots: Vector

    @property
    def n_knots(self) -> int:
        """Number of values, R."""
        return len(self.knots)

    def hats(self, features: FloatArray) -> FloatArray:
        """Return every hat function of the mean of every row, (n, R), in the float type of the features."""
        of_rows = mean_features(features)
        hats = np.empty((len(of_rows), self.n_knots), features.dtype)
        for knot, values in enumerate(np.eye(self.n_knots)):
            hats[:, knot] = np.interp(of_rows, self.knots, values)
        return hats

    def factors(self, values: FloatArray, features: FloatArray) -> FloatArray:
        """Return the function for every row, (n,), from its values at the knots."""
        return np.interp(mean_features(features), self.knots, values).astype(features.dtype)

    def traced(self, values: Vector, x: Value) -> Value:
        """Return the function of symbolic rows, one column, from its values at the knots."""
        return x.row("mean").then(Piecewise.linear(self.knots, values)).narrowed()
