"""Mean absolute and squared conditional expectation given a scalar, from nodes sorted by the scalar."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Float64Array

__all__ = ["ConditionalSizes", "conditional_sizes"]


SAME_VALUE = 1e-12
"""Scalars closer than this are equal up to rounding."""


class ConditionalSizes(NamedTuple):
    """Mean absolute and mean squared conditional expectation, each with an error estimate."""

    absolute: float
    absolute_error: float
    squared: float
    squared_error: float


def conditional_sizes(
    scalar: Float64Array, difference: Float64Array, weights: Float64Array, n_replicates: int, n_cells: int
) -> ConditionalSizes:
    r"""Return the mean absolute and mean squared value of :math:`r(S) = \operatorname{E}[D \mid S]`.

    Nodes are sorted by the scalar and divided into cells of equal mass, in which :math:`r` is estimated by the mean of
    :math:`D`. Nodes with the same scalar are never separated, and form a cell of their own if they have the mass of one.
    For a scalar with few values the cells are therefore exact.

    Replicates, independent sets of nodes of equal total weight, follow each other in the arrays.

    *Noise.* The noise of the cell means biases absolute values and squares upwards. A jackknife over replicates corrects
    this, exactly for squares. For the absolute value a bias remains in cells with a mean of about zero. The error estimate
    includes half the distance between the plain value, which is too large, and the one with signs from the other
    replicates, which is too small.

    *Resolution.* Cells that are too wide bias both values downwards, by a term of the order of ``n_cells`` to the power -2
    where :math:`r` is smooth and -1 where it jumps. The change with cells of twice the width is included in the error
    estimate too. By chance it can be close to zero, since the absolute value loses only what cancels in the few cells where
    :math:`r` changes its sign, and the squared one mainly where it jumps. The noise part of the error estimate is therefore
    at least what neighbouring cells of different sign, or the steps between cells, suggest.

    With a single replicate the noise is unknown: the plain values are returned, and error estimates cover the resolution
    only.

    Costs O(m log m) time and O(m) memory for m nodes.
    """
    order = np.argsort(scalar, kind="stable")
    fine = _from_cells(order, scalar, difference, weights, n_replicates, n_cells)
    coarse = _from_cells(order, scalar, difference, weights, n_replicates, max(1, n_cells // 2))
    return ConditionalSizes(
        fine.absolute,
        fine.absolute_error + abs(fine.absolute - coarse.absolute),
        fine.squared,
        fine.squared_error + abs(fine.squared - coarse.squared),
    )


def _from_cells(
    order: NDArray[np.intp],
    scalar: Float64Array,
    difference: Float64Array,
    weights: Float64Array,
    n_replicates: int,
    n_cells: int,
) -> ConditionalSizes:
    cells, n_mixed = _cells(order, scalar, weights, n_cells)
    slot = cells * n_replicates + np.repeat(np.arange(n_replicates), len(scalar) // n_replicates)
    shape = int(cells.max()) + 1, n_replicates
    total = weights.sum() / n_replicates
    sums = np.bincount(slot, weights * difference, minlength=shape[0] * shape[1]).reshape(shape) / total
    mass = np.bincount(slot, weights, minlength=shape[0] * shape[1]).reshape(shape) / total

    plain_sums, plain_mass = sums.mean(axis=1), mass.mean(axis=1)
    absolute, squared = float(np.abs(plain_sums).sum()), float(_squares(plain_sums, plain_mass))
    cancelled = _at_sign_changes(plain_sums[:n_mixed])
    levelled = _within_cells(plain_sums[:n_mixed], plain_mass[:n_mixed])
    if n_replicates == 1:
        return ConditionalSizes(absolute, cancelled, squared, levelled)
    others = n_replicates - 1
    sums_without = (n_replicates * plain_sums[:, np.newaxis] - sums) / others
    mass_without = (n_replicates * plain_mass[:, np.newaxis] - mass) / others
    absolute_without = np.abs(sums_without).sum(axis=0)
    squared_without = _squares(sums_without, mass_without)
    crossed = float((np.sign(sums_without) * sums).sum(axis=0).mean())
    return ConditionalSizes(
        max(0.0, absolute + others * (absolute - float(absolute_without.mean()))),
        float(np.sqrt(others * absolute_without.var())) + max((absolute - crossed) / 2, cancelled),
        max(0.0, squared + others * (squared - float(squared_without.mean()))),
        max(float(np.sqrt(others * squared_without.var())), levelled),
    )


def _squares(sums: Float64Array, mass: Float64Array) -> Float64Array:
    """Return the mean squared cell mean, cells along the first axis; cells without mass in these replicates count as zero."""
    return np.asarray(np.divide(sums**2, mass, out=np.zeros_like(sums), where=mass > 0).sum(axis=0))


def _at_sign_changes(sums: Float64Array) -> float:
    """Bound what can cancel within cells: half of the absolute values of both neighbours of different sign.

    A straight line through zero loses at most half of it, a jump in its worst position two to four times as much.
    """
    before, after = sums[:-1], sums[1:]
    return float((np.abs(before) + np.abs(after))[before * after <= 0].sum()) / 2


def _within_cells(sums: Float64Array, mass: Float64Array) -> float:
    """Return the variance of the conditional expectation within cells, as if cell means were joined by straight lines.

    A line that rises by d over a cell has variance d^2 / 12.
    """
    sums, mass = sums[mass > 0], mass[mass > 0]
    return float((mass[:-1] + mass[1:]) / 2 @ np.diff(sums / mass) ** 2) / 12


def _cells(
    order: NDArray[np.intp], scalar: Float64Array, weights: Float64Array, n_cells: int
) -> tuple[NDArray[np.intp], int]:
    """Return the cell number of every node, from 0 on, and the number of leading cells that may mix scalars."""
    in_order = scalar[order]
    starts = np.flatnonzero(np.concatenate([[True], np.diff(in_order) > SAME_VALUE]))
    mass = np.add.reduceat(weights[order], starts) / weights.sum()
    middle = np.cumsum(mass) - mass / 2
    cell = np.minimum((middle * n_cells).astype(np.intp), n_cells - 1)
    heavy = mass >= 1 / n_cells
    cell[heavy] = n_cells + np.arange(np.count_nonzero(heavy))
    kept, numbers = np.unique(cell, return_inverse=True)
    result = np.empty(len(scalar), dtype=np.intp)
    result[order] = np.repeat(numbers, np.diff(np.append(starts, len(scalar))))
    return result, int(np.searchsorted(kept, n_cells))
