"""Plots of hypothesis tests: the calibration belt, and the segments of side columns."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.hypothesis_tests import (
    CalibrationBelt,
    SubgroupCalibration,
    calibration_belt,
    subgroup_calibration,
)
from calibrant.options import check_whole
from calibrant.plots.display import Display, PredictionDisplay, new_axes
from calibrant.plots.style import DIAGONAL, FAINT, LABEL_SIZE, SERIES, label_axes, legend_above, write_caption
from calibrant.presentation.sentences import p_text

__all__ = ["CalibrationBeltDisplay", "SubgroupDisplay"]


class CalibrationBeltDisplay(PredictionDisplay):
    """GiViTI calibration belt :cite:`nattino2014`: predictions are miscalibrated where the belt excludes the diagonal.

    Parameters
    ----------
    belt : CalibrationBelt
        Data of the plot.
    name : str, default=""
        Title.

    Examples
    --------
    >>> p, y = [0.1, 0.2, 0.3, 0.6, 0.7, 0.8] * 20, [0, 0, 1, 1, 0, 1] * 20
    >>> display = CalibrationBeltDisplay.from_predictions(y, p, n_points=5)
    >>> display.columns()["predicted"].round(3)
    array([0.1  , 0.275, 0.45 , 0.625, 0.8  ])
    """

    def __init__(self, belt: CalibrationBelt, name: str = "") -> None:
        self.belt = belt
        self.name = name

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_proba: Any,
        *,
        kind: Any = "auto",
        max_degree: int = 4,
        level: float = 0.95,
        n_points: int = 101,
        name: str = "",
    ) -> Self:
        """Create the display from true classes and predictions.

        The options are those of :func:`~calibrant.hypothesis_tests.calibration_belt`.
        """
        belt = calibration_belt(
            y_true, y_proba, kind=kind, max_degree=max_degree, level=level, n_points=n_points
        )
        return cls(belt, name)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return one row per probability."""
        return self.belt.columns()

    def plot(self, ax: Any = None) -> Self:
        self.ax_, self.figure_ = new_axes(ax, (5.0, 5.0))
        axes, belt = self.ax_, self.belt
        axes.plot([0, 1], [0, 1], **DIAGONAL, label="calibrated")
        axes.fill_between(belt.predicted, belt.low, belt.high, color=SERIES[0], alpha=0.2, linewidth=0)
        axes.plot(belt.predicted, belt.curve, color=SERIES[0], linewidth=1.8, label=f"degree {belt.degree}")
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        label_axes(axes, "predicted probability", "frequency")
        legend_above(axes, axes.get_legend_handles_labels()[0], self.name)
        write_caption(
            axes, f"Shaded: {100 * belt.level:g} % belt. GiViTI test: {p_text(belt.test.p_value, None)}."
        )
        return self


class SubgroupDisplay(Display):
    """Observed frequency minus mean prediction of segments, with intervals that hold for all of them together.

    Parameters
    ----------
    subgroups : SubgroupCalibration
        Data of the plot.
    n_segments : int, default=20
        Number of segments, those with the strongest evidence.
    name : str, default=""
        Title.

    Examples
    --------
    >>> p, y, site = [0.3] * 80 + [0.6] * 80, [1, 0, 0, 0] * 20 + [1, 1, 0] * 20 + [0] * 20, ["a", "b"] * 80
    >>> display = SubgroupDisplay.from_predictions(y, p, {"site": site})
    >>> sorted(display.columns()["segment"])
    ['site = a', 'site = b']
    """

    def __init__(self, subgroups: SubgroupCalibration, n_segments: int = 20, name: str = "") -> None:
        self.subgroups = subgroups
        self.n_segments = n_segments
        self.name = name

    @classmethod
    def from_predictions(
        cls, y_true: Any, y_proba: Any, columns: Any, *, n_segments: int = 20, name: str = "", **options: Any
    ) -> Self:
        """Create the display from true classes, predictions and side columns.

        Further options are those of :func:`~calibrant.hypothesis_tests.subgroup_calibration`.
        """
        check_whole("n_segments", n_segments)
        return cls(subgroup_calibration(y_true, y_proba, columns, **options), n_segments, name)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return one row per segment."""
        return self.subgroups.columns()

    def plot(self, ax: Any = None) -> Self:
        found = self.subgroups
        shown = slice(0, self.n_segments)
        n_shown = len(found.segment[shown])
        self.ax_, self.figure_ = new_axes(ax, (6.4, 1.4 + 0.28 * n_shown))
        axes, places = self.ax_, np.arange(n_shown)
        difference, rejected = found.difference[shown], found.p_value[shown] <= 1 - found.level
        for place, low, high, is_rejected in zip(
            places, found.low[shown], found.high[shown], rejected, strict=True
        ):
            axes.plot([low, high], [place, place], color=SERIES[0] if is_rejected else FAINT, linewidth=1.6)
        colours = [SERIES[0] if one else FAINT for one in rejected]
        axes.scatter(difference, places, c=colours, s=22, zorder=3)
        axes.axvline(0, **DIAGONAL)
        axes.set_yticks(places, found.segment[shown])
        axes.set_ylim(n_shown - 0.5, -0.5)
        label_axes(axes, "observed − predicted")
        if self.name:
            axes.set_title(self.name, fontsize=LABEL_SIZE + 1)
        # Long names of segments make the axes narrower, to whose width the caption is wrapped.
        axes.figure.draw_without_rendering()
        write_caption(
            axes,
            f"{100 * found.level:g} % intervals for all {len(found.segment)} segments together. "
            "Coloured: rejected, adjusted for the search.",
        )
        return self
