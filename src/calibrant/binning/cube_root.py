"""Cube-root rule: a number of bins that grows with the number of rows."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from calibrant.arrays import Float64Array, FloatArray
from calibrant.binning.equal_mass import EqualMass
from calibrant.binning.equal_width import EqualWidth
from calibrant.binning.partition import Partition
from calibrant.options import check_choice

__all__ = ["CubeRoot"]


@dataclass(frozen=True)
class CubeRoot:
    r"""Bins of equal mass or width, as many as the cube root of the number of rows, rounded up.

    :math:`B = \lceil n^{1/3} \rceil` is of the order that minimises the error of a binned calibration error :cite:`sun2023`.
    Metrics use it for ``n_bins="cube_root"``.

    Parameters
    ----------
    strategy : {"quantile", "uniform"}, default="quantile"
        Bins of equal weight, or of equal width from 0 to 1.

    Notes
    -----
    Rows are counted whatever their weight; those of weight zero are not.

    Examples
    --------
    >>> CubeRoot()(np.linspace(0, 1, 1000)).bin_edges().size - 1
    10
    """

    strategy: Literal["uniform", "quantile"] = "quantile"

    def __post_init__(self) -> None:
        check_choice("strategy", self.strategy, ("uniform", "quantile"))

    def __call__(self, scores: FloatArray, weights: Float64Array | None = None, /) -> Partition:
        """Return the bins for these scores, a non-empty array of shape (n,), and weights."""
        n_bins = _cube_root(len(scores) if weights is None else int(np.count_nonzero(weights)))
        return EqualWidth(n_bins) if self.strategy == "uniform" else EqualMass(n_bins)(scores, weights)


def _cube_root(n_rows: int) -> int:
    """Return the cube root of an integer, rounded up, in exact arithmetic.

    >>> [_cube_root(n) for n in (1, 2, 8, 9, 1000, 1001)]
    [1, 2, 2, 3, 10, 11]
    """
    root: int = round(n_rows ** (1 / 3))
    return root if root**3 >= n_rows else root + 1
