"""Bin sensitivity: a binned calibration error for several numbers of bins, and its plot."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self, get_args

import numpy as np

from calibrant.arrays import AnyArray, IntArray, Vector
from calibrant.binning import EqualWidth
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.binned_errors import class_ece, classwise_ece, confidence_ece
from calibrant.metrics.debiased import debiased_ece
from calibrant.metrics.declaration import evaluator
from calibrant.metrics.events import Kind, events
from calibrant.numerics.label_sampling import LabelSampler
from calibrant.options import check_choice, check_whole, is_whole, random_source
from calibrant.plots.display import PredictionDisplay, new_axes
from calibrant.plots.style import FAINT, MARKERS, SERIES, label_axes, legend_above, write_caption
from calibrant.presentation.sentences import counted
from calibrant.shared_parameters import documented
from calibrant.tabular import Tabular

__all__ = ["BinSensitivity", "BinSensitivityDisplay", "bin_sensitivity"]


# Limit of simulated labels; with more rows the sums over bins are practically normal.
MAX_DRAWS = 20_000_000

QUANTILE = 0.95

ERRORS: dict[str, Callable[..., Any]] = {
    "confidence": confidence_ece,
    "classwise": classwise_ece,
    "positive": partial(class_ece, label=1),
}


@dataclass(frozen=True, eq=False)
class BinSensitivity(Tabular):
    """Binned calibration errors by number of bins, with their distribution under calibration.

    Attributes
    ----------
    metric : str
        ``"confidence"``, ``"classwise"`` or ``"positive"``.
    n_rows : int
        Number of rows.
    n_bins : ndarray of shape (m,)
        Numbers of bins, increasing.
    equal_width, equal_mass : ndarray of shape (m,)
        The error with equal-width and with equal-mass bins.
    debiased : ndarray of shape (m,)
        The debiased error with equal-mass bins.
    noise, noise_high : ndarray of shape (m,)
        Mean and 95 % quantile of the error with equal-width bins for calibrated predictions. Errors below the quantile are
        not significant for these rows.
    """

    metric: str
    n_rows: int
    n_bins: IntArray
    equal_width: Vector
    equal_mass: Vector
    debiased: Vector
    noise: Vector
    noise_high: Vector

    def columns(self) -> dict[str, AnyArray]:
        """Return one row per number of bins."""
        names = ("n_bins", "equal_width", "equal_mass", "debiased", "noise", "noise_high")
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        first, last = self.n_bins[0], self.n_bins[-1]
        return f"BinSensitivity({self.metric}, {first} to {last} bins, {counted(self.n_rows, 'row')})"


@documented
def bin_sensitivity(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    metric: Kind = "confidence",
    n_bins: Sequence[int] = (5, 10, 15, 20, 30, 50, 100),
    n_resamples: int = 200,
    random_state: int | np.random.Generator | None = 0,
) -> BinSensitivity:
    r"""Compute a binned calibration error for several numbers of bins, with its distribution under calibration.

    .. math:: E(B) = \sum_{b=1}^B \frac{W_b}{W} \, | \bar o_b - \bar s_b |

    depends on B, and with few rows per bin it is mostly noise: its expectation for calibrated predictions is about
    :math:`\sqrt{2 / \pi} \sum_b \sigma_b` with :math:`\sigma_b^2 = \sum_{i \in b} w_i^2 s_i (1 - s_i) / W^2`, which
    grows as the root of B.

    Parameters
    ----------
    sample_weight : array of shape (n,), optional
        Sample weights; each row is one observation.
    metric : {"confidence", "classwise", "positive"}, default="confidence"
        :func:`~calibrant.metrics.confidence_ece`, :func:`~calibrant.metrics.classwise_ece`, or
        :func:`~calibrant.metrics.class_ece` of the second class of two.
    n_bins : sequence of int, default=(5, 10, 15, 20, 30, 50, 100)
        Numbers of bins, B.
    n_resamples : int, default=200
        Number of sets of labels simulated from the predictions.
    random_state : int, Generator or None, default=0
        Seed of the random numbers; None for different ones each time.

    Returns
    -------
    BinSensitivity
        With ``columns()`` and ``frame()``. The debiased error is :func:`~calibrant.metrics.debiased_ece` with
        ``norm=1``.

    Notes
    -----
    The cost is O(nK) per number of bins, a sort for equal-mass bins, and O(n) per simulation and number of bins. Above
    20 million simulated labels, the sums over bins are drawn from normal distributions instead, independently for
    different classes.

    Examples
    --------
    Nine of ten correct at 80 %: an error of 0.1 for any bins, which is also the mean for calibrated predictions.

    >>> found = bin_sensitivity([0] * 9 + [1], [[0.8, 0.2]] * 10, n_bins=(5, 10))
    >>> found.equal_width.round(6), found.noise.round(1)
    (array([0.1, 0.1]), array([0.1, 0.1]))
    """
    check_choice("metric", metric, get_args(Kind))
    check_whole("n_resamples", n_resamples)
    numbers = _checked(n_bins)
    generator = random_source(random_state, np.random.SFC64)
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    if metric == "positive" and data.n_classes != 2:
        raise ParameterError(
            f"metric='positive' is for two classes, but there are {data.n_classes}; use metric='classwise'."
        )
    # Use column numbers as labels.
    columns = np.arange(data.n_classes)
    data = replace(data, predictions=replace(data.predictions, classes=None), classes=columns)
    error = ERRORS[metric]

    def values(function: Callable[..., Any], **options: Any) -> Vector:
        of_rows = partial(function, data.labels, data.predictions, sample_weight=data.weights, **options)
        return np.array([of_rows(n_bins=int(number)) for number in numbers])

    if data.n_rows * n_resamples <= MAX_DRAWS:
        draws = _simulated(data, error, numbers, n_resamples, generator)
        noise = draws.mean(axis=0)
    else:
        draws, noise = _normal(data, metric, numbers, n_resamples, generator)
    return BinSensitivity(
        metric=metric,
        n_rows=data.n_rows,
        n_bins=numbers,
        equal_width=values(error),
        equal_mass=values(error, strategy="quantile"),
        debiased=values(debiased_ece, kind=metric, norm=1),
        noise=noise,
        noise_high=np.quantile(draws, QUANTILE, axis=0, method="inverted_cdf"),
    )


def _checked(n_bins: Any) -> IntArray:
    """Return the numbers of bins in increasing order."""
    numbers = list(n_bins) if isinstance(n_bins, Sequence | np.ndarray) else [n_bins]
    if not numbers or not all(is_whole(number, 1) for number in numbers):
        raise ParameterError(f"n_bins must be integers of at least 1, such as (5, 15, 50), not {n_bins!r}.")
    return np.unique(np.array(numbers, dtype=np.intp))


def _simulated(
    data: LabelledPredictions,
    error: Callable[..., Any],
    numbers: IntArray,
    n_resamples: int,
    generator: np.random.Generator,
) -> Vector:
    """Return the errors of labels simulated from the predictions, (R, m)."""
    sampler = LabelSampler(data.predictions.probabilities)
    evaluators = [evaluator(partial(error, n_bins=int(number)), data) for number in numbers]
    errors = np.empty((n_resamples, len(numbers)))
    for draw in errors:
        labels = sampler.draw(generator)
        draw[:] = [evaluate(labels, data.weights) for evaluate in evaluators]
    return errors


def _normal(
    data: LabelledPredictions,
    metric: Kind,
    numbers: IntArray,
    n_resamples: int,
    generator: np.random.Generator,
) -> tuple[Vector, Vector]:
    """Return simulated errors, (R, m), and their means, (m,), with normal sums over bins."""
    shares = None if data.weights is None else data.weights / data.total_weight
    sums = np.zeros((n_resamples, len(numbers)))
    means = np.zeros(len(numbers))
    n_events = 0
    for scores, _ in events(data, metric):
        variances = (
            scores * (1 - np.minimum(scores, 1)) * (1 / data.n_rows**2 if shares is None else shares**2)
        )
        n_events += 1
        for place, number in enumerate(numbers):
            index = EqualWidth(int(number)).index(scores)
            deviations = np.sqrt(np.bincount(index, variances, number))
            sums[:, place] += np.abs(generator.standard_normal((n_resamples, int(number)))) @ deviations
            means[place] += np.sqrt(2 / np.pi) * deviations.sum()
    return sums / n_events, means / n_events


METRIC_NAMES = {
    "confidence": "calibration error of the confidence",
    "classwise": "calibration error, mean over classes",
    "positive": "calibration error of the second class",
}


class BinSensitivityDisplay(PredictionDisplay):
    """Plot of binned calibration errors against the number of bins, with their range under calibration.

    Similar to figure 3a of :cite:`tomani2022`. The shaded range is that of calibrated predictions: an error within this
    range is no evidence of miscalibration, and an error that grows with it is mostly noise.

    Parameters
    ----------
    sensitivity : BinSensitivity
        Data of the plot.
    name : str, default=""
        Title.

    Examples
    --------
    >>> display = BinSensitivityDisplay.from_predictions([0] * 9 + [1], [[0.8, 0.2]] * 10, n_bins=(5, 10))
    >>> display.columns()["equal_width"].round(6)
    array([0.1, 0.1])
    """

    def __init__(self, sensitivity: BinSensitivity, name: str = "") -> None:
        self.sensitivity = sensitivity
        self.name = name

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_proba: Any,
        *,
        sample_weight: Any = None,
        metric: Kind = "confidence",
        n_bins: Sequence[int] = (5, 10, 15, 20, 30, 50, 100),
        n_resamples: int = 200,
        random_state: int | np.random.Generator | None = 0,
        name: str = "",
    ) -> Self:
        """Create the display from predictions and true classes; see :func:`~calibrant.plots.bin_sensitivity`."""
        sensitivity = bin_sensitivity(
            y_true,
            y_proba,
            sample_weight=sample_weight,
            metric=metric,
            n_bins=n_bins,
            n_resamples=n_resamples,
            random_state=random_state,
        )
        return cls(sensitivity, name)

    def columns(self) -> dict[str, AnyArray]:
        """Return one row per number of bins."""
        return self.sensitivity.columns()

    def plot(self, ax: Any = None) -> Self:
        self.ax_, self.figure_ = new_axes(ax, (5.4, 4.6))
        found, axes = self.sensitivity, self.ax_
        axes.fill_between(
            found.n_bins,
            0,
            found.noise_high,
            color=FAINT,
            alpha=0.4,
            linewidth=0,
            label="if calibrated, 95 %",
        )
        axes.plot(
            found.n_bins,
            found.noise,
            color="#555555",
            linestyle=":",
            linewidth=1.6,
            label="if calibrated, mean",
        )
        lines = (
            ("equal-width bins", found.equal_width),
            ("equal-mass bins", found.equal_mass),
            ("equal mass, debiased", found.debiased),
        )
        for (label, values), colour, marker in zip(lines, SERIES, MARKERS, strict=False):
            axes.plot(
                found.n_bins, values, color=colour, marker=marker, markersize=5, linewidth=1.6, label=label
            )
        axes.set_xscale("log")
        axes.set_xticks(found.n_bins, labels=[str(number) for number in found.n_bins])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        label_axes(axes, "number of bins", METRIC_NAMES[found.metric])
        legend_above(axes, axes.get_legend_handles_labels()[0], self.name)
        write_caption(
            axes, "Shaded: range of 95 % of the errors of calibrated predictions with equal-width bins."
        )
        return self
