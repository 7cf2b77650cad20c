"""Acceleration of the BCa interval, by the jackknife."""

import numpy as np

from calibrant.intervals.statistic import Statistic
from calibrant.numerics.row_resampling import RowResampling

__all__ = ["acceleration"]

# Each block costs one evaluation. The noise of the acceleration with m blocks is about 1 / (sqrt(6) m), 0.001, if block
# sums are nearly normal, and somewhat more for heavy tails.
MAX_BLOCKS = 500


def acceleration(statistic: Statistic, resampling: RowResampling, generator: np.random.Generator) -> float:
    r"""Return the acceleration of the BCa interval, a sixth of the skewness of the statistic.

    .. math::

        a = \frac{1}{6} \, \frac{\sum_j u_j^3}{\bigl( \sum_j u_j^2 \bigr)^{3/2}}, \qquad
        u_j = \frac{m - 1}{m} \bigl( \bar t - t_{(j)} \bigr)

    where :math:`t_{(j)}` is the value without block j, and :math:`\bar t` the mean of these over the m blocks of
    its stratum :cite:`efron1987,davison1997`. Blocks are single units (rows, or groups) if there are up to 500, and
    otherwise 500 random sets of units. The skewness of a sum of k terms is smaller by :math:`\sqrt k`, and
    there are k times fewer terms, so a is unchanged. Zero if leaving out blocks changes nothing; NaN
    if the statistic is not finite without some block.
    """
    blocks = resampling.blocks(generator, MAX_BLOCKS)
    n_blocks = len(blocks.stratum)
    if n_blocks == 0:
        return 0.0
    values = np.array(
        [statistic((blocks.block_of_row != block).astype(np.intp)) for block in range(n_blocks)]
    )
    if not np.isfinite(values).all():
        return float("nan")
    sizes = np.bincount(blocks.stratum)
    means = np.bincount(blocks.stratum, values)[blocks.stratum] / sizes[blocks.stratum]
    influences = (1 - 1 / sizes[blocks.stratum]) * (means - values)
    largest = np.abs(influences).max()
    # Differences that are only rounding carry no information on skewness.
    if largest <= 1e-14 * np.abs(values).max():
        return 0.0
    influences /= largest  # so that cubes do not underflow
    return float((influences**3).sum() / (6 * (influences**2).sum() ** 1.5))
