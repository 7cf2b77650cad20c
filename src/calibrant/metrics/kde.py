"""KDE calibration error: kernel density estimates of the score, after the paper or its published program."""

from functools import partial
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import trapezoid
from scipy.signal import fftconvolve

from calibrant.arrays import Float64Array, FloatArray
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.declaration import MetricTraits, metric
from calibrant.metrics.events import Kind, check_kind, mean_over_events
from calibrant.numerics.reflected_kernel import linear_binning, reflected_convolution
from calibrant.options import check_choice

__all__ = ["kde_ece"]


Convention = Literal["paper", "published"]

CELLS_PER_BANDWIDTH = 32


# The bandwidth depends on the effective sample size: repeated rows are not more evidence.
@metric(MetricTraits(weights_are_counts=False, positive_by_noise=True))
def kde_ece(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    kind: Kind = "confidence",
    norm: float = 1,
    bandwidth: float | None = None,
    convention: Convention = "paper",
) -> float:
    r"""KDE calibration error: ECE with kernel density estimates of the score density and the event frequency.

    For scores :math:`c_i` of events :math:`y_i \in \{0, 1\}` with weights :math:`w_i` that sum to one, and a
    kernel :math:`K_h` reflected at 0 and at 1,

    .. math::

        \Bigl( \int_0^1 | t - \hat\pi(t) |^p \hat f(t) \, dt \Bigr)^{1/p}, \qquad
        \hat f(t) = \sum_i w_i K_h(t, c_i), \qquad
        \hat\pi(t) = \frac{1}{\hat f(t)} \sum_i w_i y_i K_h(t, c_i)

    with the triweight kernel :math:`\propto (1 - u^2)^3` of standard deviation h, which ends at 3h, and
    :math:`h = 1.06 \, \hat\sigma n^{-1/5}` :cite:`zhang2020`.

    Parameters
    ----------
    sample_weight : array of shape (n,), optional
        Weights of the rows. In the bandwidth, n is the effective sample size,
        :math:`(\sum_i w_i)^2 / \sum_i w_i^2`; only ratios of weights matter.
    norm : number of at least 1, default=1
        p.
    bandwidth : float, optional
        Standard deviation h of the kernel, from 0.00025 to 1, instead of the rule of thumb. For a kernel of a given
        support radius, pass a third of it.
    convention : {"paper", "published"}, default="paper"
        ``"published"`` reproduces the authors' program, see the notes.

    Returns
    -------
    float
        From 0 to 1 (the published program may exceed 1); lower is better.

    Notes
    -----
    The rule for h is Scott's, in which h is the standard deviation of the kernel. If all scores are equal, h is the
    smallest bandwidth, 0.00025. The error depends on h: smoothing lowers it where scores are miscalibrated in both
    directions, and blurs the scores themselves by about 0.8 h.

    The authors' program differs in the following points, all reproduced by ``convention="published"``:

    - h is :math:`\hat\sigma_1 (2n)^{-1/5}` with the standard deviation :math:`\hat\sigma_1` of the scores of
      rows *in which the event occurred*, both rounded to float32;
    - no root is taken: the result is the mean of the p-th power;
    - each score is reflected once, at the nearer end, and the integral, divided by that of the density, is
      taken on a grid of 2^14 points from -0.6 to 1.6 whose ends are not 0 and 1;
    - where both densities are below 1e-6 the previous value of the integrand is repeated, so an interval
      without scores adds to the error, which can exceed 1 if there are few rows;
    - with two classes it takes the second one, ``kind="positive"``, otherwise the predicted one.

    Where the program fails, because no event occurred or all scores are equal, h follows the rule of the paper.

    Costs O(n + G log G) with a grid of G <= 131,072 cells, at least 32 per bandwidth; memory O(n + G).

    Examples
    --------
    Nine of ten predictions are correct at a confidence of 80 %:

    >>> round(kde_ece([0] * 9 + [1], [[0.8, 0.2]] * 10), 6)
    0.1
    """
    check_kind(kind)
    _check_options(norm, bandwidth, convention)
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    error = _smoothed_error if convention == "paper" else published_kde_error
    return mean_over_events(data, kind, partial(error, norm=float(norm), bandwidth=bandwidth))


def _check_options(norm: Any, bandwidth: Any, convention: Any) -> None:
    if not (isinstance(norm, Real) and 1 <= float(norm) < np.inf):
        raise ParameterError(f"norm must be 1, 2 or another finite number of at least 1, not {norm!r}.")
    if bandwidth is not None and not (isinstance(bandwidth, Real) and MIN_BANDWIDTH <= float(bandwidth) <= 1):
        raise ParameterError(f"bandwidth must be from 0.00025 to 1, or None for the rule, not {bandwidth!r}.")
    check_choice("convention", convention, get_args(Convention))


def _smoothed_error(
    scores: FloatArray,
    outcomes: NDArray[np.bool_],
    weights: Float64Array | None,
    norm: float,
    bandwidth: float | None,
) -> float:
    places = np.clip(scores, 0, 1).astype(np.float64)
    width = rule_of_thumb(places, weights) if bandwidth is None else float(bandwidth)
    n_cells = 2 ** int(np.clip(np.ceil(np.log2(CELLS_PER_BANDWIDTH / width)), 10, 17))
    of_events = outcomes.astype(np.float64) if weights is None else outcomes * weights
    masses = np.stack([linear_binning(places, mass, n_cells) for mass in (weights, of_events)])  # (2, G + 1)
    masses /= len(places) if weights is None else weights.sum()
    density, events = reflected_convolution(masses, _folded_triweight(n_cells, width))
    nodes = np.linspace(0.0, 1.0, n_cells + 1)
    gap = np.abs(nodes * density - events)
    if norm != 1:
        # Below this density the FFT leaves only rounding error; for p = 1 no division is needed.
        inside = density > 1e-12 * density.max()
        rate_gap = np.divide(gap, density, out=np.zeros_like(gap), where=inside)
        gap = np.minimum(rate_gap, 1.0) ** norm * np.maximum(density, 0.0)
    return float(max(trapezoid(gap, dx=1 / n_cells), 0.0) ** (1 / norm))


def _folded_triweight(n_cells: int, width: float) -> Float64Array:
    """Return the kernel at all distances up to 1, with the mass beyond reflected back."""
    distances = np.linspace(0.0, 1.0, n_cells + 1)
    folded = np.zeros_like(distances)
    near = distances[: int(3 * width * n_cells) + 1]
    folded[: len(near)] = triweight(near, width)
    if 3 * width > 1:  # at most 3, as bandwidths end at 1
        for shift in (-4.0, -2.0, 2.0, 4.0):
            folded += triweight(distances + shift, width)
    return folded


# The bandwidth if all scores are equal and the rule of thumb gives zero; it changes an error by less than its value.
MIN_BANDWIDTH = 2.0**-12


def triweight(distances: Float64Array, bandwidth: float) -> Float64Array:
    r"""Return the triweight density :math:`\frac{35}{32} (1 - u^2)^3 / 3h`, :math:`u = d / 3h`, of standard deviation h.

    >>> triweight(np.array([0.0, 1.5, 3.0, 4.0]), 1.0).round(4)
    array([0.3646, 0.1538, 0.    , 0.    ])
    """
    reach = 3 * bandwidth
    return 35 / 32 / reach * np.maximum(1 - (distances / reach) ** 2, 0.0) ** 3


def effective_rows(n_rows: int, weights: Float64Array | None) -> float:
    """Return the effective sample size, ``(sum w)^2 / sum w^2``."""
    if weights is None:
        return float(n_rows)
    relative = weights / weights.max()
    return float(relative.sum() ** 2 / (relative @ relative))


def standard_deviation(values: FloatArray, weights: Float64Array | None) -> float:
    """Return the weighted standard deviation."""
    if weights is None:
        return float(values.std())
    centre = np.average(values, weights=weights)
    return float(np.sqrt(np.average((values - centre) ** 2, weights=weights)))


def rule_of_thumb(scores: Float64Array, weights: Float64Array | None) -> float:
    r"""Return Scott's bandwidth :math:`1.06 \, \hat\sigma n^{-1/5}`, but at least the smallest one.

    >>> round(rule_of_thumb(np.array([0.2] * 16 + [0.8] * 16), None), 6)
    0.159
    """
    rows = effective_rows(len(scores), weights)
    return max(1.06 * standard_deviation(scores, weights) / float(rows**0.2), MIN_BANDWIDTH)


# The grid extends beyond [0, 1] to hold the mirror images.
GRID: Float64Array = np.linspace(-0.6, 1.6, 2**14)
NEGLIGIBLE = 1e-6


def published_kde_error(
    scores: FloatArray,
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


def _density(places: FloatArray, masses: Float64Array, bandwidth: float) -> Float64Array:
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
