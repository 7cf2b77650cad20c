"""The KDE calibration error as computed by the program published with the paper (Mix-n-Match)."""

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import trapezoid
from scipy.signal import fftconvolve

from calibrant.arrays import Float64Array
from calibrant.metrics.kde_bandwidth import effective_rows, rule_of_thumb, standard_deviation, triweight

__all__ = ["published_kde_error"]


# The grid extends beyond [0, 1] to hold the mirror images.
GRID: Float64Array = np.linspace(-0.6, 1.6, 2**14)
NEGLIGIBLE = 1e-6


def published_kde_error(
    scores: NDArray[np.floating],
    outcomes: NDArray[np.bool_],
    weights: Float64Array | None,
    norm: float,
    bandwidth: float | None,
) -> float:
    """Return the mean p-th power of the gap as the Mix-n-Match program computes it.

    :func:`~calibrant.metrics.kde_ece` lists the differences. The program normalises rows first.
    """
    places = np.clip(scores, 0, 1).astype(np.float64)
    masses = np.ones(len(places)) if weights is None else weights / weights.mean()
    of_events = places[outcomes].astype(np.float32)
    if bandwidth is None:
        bandwidth = _published_bandwidth(places, of_events, outcomes, weights)
    density = _density(places, masses, bandwidth)
    density_of_events = _density(of_events, masses[outcomes], bandwidth)
    share = masses[outcomes].sum() / masses.sum()
    populated = np.maximum(density, density_of_events) > NEGLIGIBLE
    rate = np.divide(share * density_of_events, density, out=np.ones_like(density), where=density > 0)
    integrand = np.where(populated, np.abs(GRID - np.minimum(rate, 1.0)) ** norm * density, 0.0)
    last_populated = np.maximum.accumulate(np.where(populated, np.arange(len(GRID)), 0))
    inside = (GRID >= 0) & (GRID <= 1)
    total = trapezoid(integrand[last_populated][inside], GRID[inside])
    return float(total / trapezoid(density[inside], GRID[inside]))


def _published_bandwidth(
    places: Float64Array,
    of_events: NDArray[np.float32],
    outcomes: NDArray[np.bool_],
    weights: Float64Array | None,
) -> float:
    if len(of_events):
        spread = standard_deviation(of_events, None if weights is None else weights[outcomes])
        if spread > 0:
            return spread * float((2 * effective_rows(len(places), weights)) ** -0.2)
    return rule_of_thumb(places, weights)


def _density(places: NDArray[np.floating], masses: Float64Array, bandwidth: float) -> Float64Array:
    """Return the density of scores on the grid, each with one mirror image at the nearer end."""
    if not len(places):
        return np.zeros_like(GRID)
    step = (GRID[-1] - GRID[0]) / (len(GRID) - 1)
    binned = np.zeros_like(GRID)
    # The program rounds mirror images to the type of the scores, and at 2 - 2^-24 this shows in the result.
    mirrored = np.where(places < 0.5, -places, 2 - places)
    for images in (places, mirrored):
        scaled = (images.astype(np.float64) - GRID[0]) / step
        cells = scaled.astype(np.intp)
        to_the_right = (scaled - cells) * masses
        binned += np.bincount(cells, masses - to_the_right, len(GRID))
        binned += np.bincount(cells + 1, to_the_right, len(GRID))
    reach = min(int(3 * bandwidth / step), len(GRID) // 2)
    kernel = triweight(step * np.arange(-reach, reach + 1), bandwidth)
    density: Float64Array = np.maximum(fftconvolve(binned / masses.sum(), kernel, mode="same"), 0.0)
    density[(GRID <= 0) | (GRID >= 1)] = 0.0
    return density
