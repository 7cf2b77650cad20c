"""BinSensitivityDisplay: how much a calibration error depends on the number of bins."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.metrics.events import Kind
from calibrant.plots.bin_sensitivity import BinSensitivity, bin_sensitivity
from calibrant.plots.caption import legend_above, write_caption
from calibrant.plots.display import PredictionDisplay, new_axes
from calibrant.plots.style import FAINT, LABEL_SIZE, MARKERS, SERIES

__all__ = ["BinSensitivityDisplay"]

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

    Attributes
    ----------
    ax_, figure_
        Axes and figure, set by :meth:`plot`.

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

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return one row per number of bins."""
        return self.sensitivity.columns()

    def plot(self, ax: Any = None) -> Self:
        """Plot on the given axes, or on a new figure, and return self."""
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
        axes.set_xlabel("number of bins", fontsize=LABEL_SIZE)
        axes.set_ylabel(METRIC_NAMES[found.metric], fontsize=LABEL_SIZE)
        axes.tick_params(labelsize=LABEL_SIZE)
        legend_above(axes, axes.get_legend_handles_labels()[0], self.name)
        write_caption(
            axes,
            "Shaded: range of 95 % of the errors of calibrated predictions with equal-width bins.",
        )
        return self
