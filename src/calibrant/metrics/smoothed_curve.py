"""ICI, E50, E90 and Emax: distances between the probabilities and a smoothed calibration curve."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Float64Array
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.declaration import MetricTraits, metric
from calibrant.metrics.events import Kind, check_kind, mean_over_events
from calibrant.options import check_choice, is_number

__all__ = ["integrated_calibration_index"]

Summary = Literal["mean", "median", "90%", "max"]
"""``"mean"``: ICI. ``"median"``: E50. ``"90%"``: E90. ``"max"``: Emax."""

N_POINTS = 201
"""The curve is fitted at this many quantiles of the scores and interpolated linearly between them."""

# Scores within a window that vary less, relative to its width, have no slope that could be estimated.
LEAST_VARIANCE = 1e-6


@metric(MetricTraits(positive_by_noise=True))
def integrated_calibration_index(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    kind: Kind = "confidence",
    summary: Summary = "mean",
    span: float = 0.75,
) -> float:
    r"""ICI, E50, E90 or Emax: distance between the probabilities and a smoothed calibration curve (loess).

    .. math:: \frac{1}{W} \sum_i w_i \, | \hat c(p_i) - p_i |

    with the calibration curve :math:`\hat c`, a local regression of the outcomes on the probabilities :cite:`austin2019`.

    Parameters
    ----------
    kind : {"confidence", "classwise", "positive"}, default="confidence"
        The predicted class by its confidence; every class by its probability (mean over classes); or the second class of two,
        as in the clinical literature.
    summary : {"mean", "median", "90%", "max"}, default="mean"
        The integrated calibration index (ICI), or the median (E50), the 90 % quantile (E90) or the maximum (Emax) of the absolute
        differences.
    span : float, default=0.75
        Fraction of the rows in the window around each probability.

    Returns
    -------
    float
        From 0 to 1; lower is better.

    Notes
    -----
    The curve is locally linear, with tricube weights within the nearest ``span`` of the rows, fitted at 201 quantiles of the
    probabilities and clipped to [0, 1]. R's ``loess`` is locally quadratic by default, and ``val.prob`` of the package rms uses a
    span of 2/3; both give other values. A curve that follows noise differs from the diagonal for calibrated predictions too, so
    the index of few rows is biased upwards. Costs O(n log n + 201 n) per event.

    Examples
    --------
    Nine of ten correct at a confidence of 80 %:

    >>> round(integrated_calibration_index([0] * 9 + [1], [[0.8, 0.2]] * 10), 6)
    0.1
    """
    check_kind(kind)
    check_choice("summary", summary, ("mean", "median", "90%", "max"))
    if not is_number(span) or not 0 < span <= 1:
        raise ParameterError(f"span must be above 0 and at most 1, such as 0.75, not {span!r}.")
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)

    def error(
        scores: NDArray[np.floating], outcomes: NDArray[np.bool_], weights: Float64Array | None
    ) -> float:
        clipped = np.clip(scores, 0.0, 1.0).astype(np.float64)
        values, level = np.unique(clipped, return_inverse=True)
        weight = np.bincount(level, weights, minlength=len(values)).astype(np.float64)
        events = outcomes * (1.0 if weights is None else weights)
        mean = np.bincount(level, events, minlength=len(values)) / weight
        differences = np.abs(_curve(values, mean, weight, span) - values)
        return _summarised(differences, weight, summary)

    return mean_over_events(data, kind, error)


def _curve(scores: Float64Array, mean: Float64Array, weight: Float64Array, span: float) -> Float64Array:
    """Return the local regression at increasing scores, (m,), of their mean outcomes."""
    cumulative = np.cumsum(weight)
    total = cumulative[-1]
    places = np.searchsorted(cumulative, np.linspace(0, 1, N_POINTS) * total * (1 - 1e-12))
    places = np.unique(np.clip(places, 0, len(scores) - 1))
    fitted = np.array([_fit(scores, mean, weight, cumulative, at, span * total) for at in scores[places]])
    curve: Float64Array = np.clip(np.interp(scores, scores[places], fitted), 0.0, 1.0)
    return curve


def _fit(
    scores: Float64Array,
    mean: Float64Array,
    weight: Float64Array,
    cumulative: Float64Array,
    at: float,
    wanted: float,
) -> float:
    """Return the local line at one score, from the nearest rows of the weight ``wanted``."""
    width = _width(scores, weight, cumulative, at, wanted)
    first = int(np.searchsorted(scores, at - width, side="left"))
    last = int(np.searchsorted(scores, at + width, side="right"))
    inside = slice(first, last)
    distance = (scores[inside] - at) / width if width > 0 else np.zeros(last - first)
    local = weight[inside] * (1 - np.abs(np.clip(distance, -1, 1)) ** 3) ** 3
    total = float(local.sum())
    centre = float(local @ distance) / total
    level = float(local @ mean[inside]) / total
    variance = float(local @ (distance - centre) ** 2) / total
    if variance < LEAST_VARIANCE:
        return level
    slope = float(local @ ((distance - centre) * mean[inside])) / total / variance
    return level - slope * centre


def _width(
    scores: Float64Array, weight: Float64Array, cumulative: Float64Array, at: float, wanted: float
) -> float:
    """Return the distance to the nearest rows of the weight ``wanted``; by bisection over the distances, O(log^2 m)."""

    def inside(width: float) -> float:
        first = int(np.searchsorted(scores, at - width, side="left"))
        last = int(np.searchsorted(scores, at + width, side="right"))
        return float(cumulative[last - 1] - (cumulative[first] - weight[first])) if last > first else 0.0

    low, high = 0.0, 1.0
    # Rounding of a sum of weights must not decide whether one more row is needed.
    enough = wanted * (1 - 1e-9)
    if inside(low) >= enough:
        return 0.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if inside(middle) >= enough else (middle, high)
    return high


def _summarised(differences: Float64Array, weight: Float64Array, summary: Summary) -> float:
    if summary == "mean":
        return float(np.average(differences, weights=weight))
    if summary == "max":
        return float(differences.max())
    order = np.argsort(differences)
    cumulative = np.cumsum(weight[order]) / weight.sum()
    wanted = 0.5 if summary == "median" else 0.9
    return float(differences[order][np.searchsorted(cumulative, wanted * (1 - 1e-12))])
