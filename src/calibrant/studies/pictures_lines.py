"""LinesDisplay: means against a number, one line for every series, with bands of their spread."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Vector
from calibrant.plots.display import Display, new_axes
from calibrant.plots.style import FAINT, INK, LABEL_SIZE, TITLE_SIZE, look

__all__ = ["Curve", "LinesDisplay"]

MOST_TICKS = 8
LEGEND_IN_AXES = 8


@dataclass(frozen=True)
class Curve:
    """One line: places, means, standard deviations (NaN where there is none) and numbers of units behind each."""

    x: Vector
    y: Vector
    sd: Vector
    count: NDArray[np.intp]


class LinesDisplay(Display):
    """Lines of means, with bands of one standard deviation.

    Parameters
    ----------
    curves : mapping of str to Curve
        What is drawn.
    label_x, label_y, title : str
        What is written.
    band : bool, default=False
        Whether bands are drawn.
    log_x, log_y : bool, default=False
        Whether axes are logarithmic.
    names_x : mapping of float to str, optional
        Words in the place of numbers on the horizontal axis.
    """

    def __init__(
        self,
        curves: Mapping[str, Curve],
        *,
        label_x: str,
        label_y: str,
        title: str = "",
        band: bool = False,
        log_x: bool = False,
        log_y: bool = False,
        names_x: Mapping[float, str] | None = None,
    ) -> None:
        self.curves = dict(curves)
        self.label_x, self.label_y, self.title = label_x, label_y, title
        self.band, self.log_x, self.log_y = band, log_x, log_y
        self.names_x = dict(names_x or {})

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return one row for every point."""
        sizes = [len(curve.x) for curve in self.curves.values()]
        named = [self.names_x.get(float(x), x) for curve in self.curves.values() for x in curve.x]
        return {
            "series": np.repeat(np.array(list(self.curves), dtype=object), sizes),
            "x": np.array(named, dtype=object if self.names_x else np.float64),
            "mean": _joined([curve.y for curve in self.curves.values()]),
            "sd": _joined([curve.sd for curve in self.curves.values()]),
            "n_units": _joined([curve.count for curve in self.curves.values()]).astype(int),
        }

    def plot(self, ax: Any = None) -> Self:
        """Draw on the given axes, or on those of a new figure, and return self."""
        outside = len(self.curves) > LEGEND_IN_AXES
        self.ax_, self.figure_ = new_axes(ax, (7.6 if outside else 6.4, 4.2))
        ax = self.ax_
        for number, (name, curve) in enumerate(self.curves.items()):
            colour, marker = look(number)
            # Markers on hundreds of points would hide the line.
            every = max(1, len(curve.x) // 20)
            ax.plot(
                curve.x,
                curve.y,
                color=colour,
                marker=marker,
                markersize=5,
                markevery=every,
                linewidth=1.6,
                label=name,
            )
            if self.band and np.isfinite(curve.sd).any():
                ax.fill_between(
                    curve.x, curve.y - curve.sd, curve.y + curve.sd, color=colour, alpha=0.15, linewidth=0
                )
        self._scale_axes(ax)
        ax.grid(color=FAINT, linewidth=0.5, alpha=0.6)
        ax.set_axisbelow(True)
        ax.set_xlabel(self.label_x, fontsize=LABEL_SIZE)
        ax.set_ylabel(self.label_y, fontsize=LABEL_SIZE)
        ax.set_title(self.title, fontsize=TITLE_SIZE, color=INK, wrap=True)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        if outside:
            ax.legend(fontsize=LABEL_SIZE - 1, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        elif len(self.curves) > 1 or next(iter(self.curves), ""):
            ax.legend(fontsize=LABEL_SIZE - 1, framealpha=0.85, edgecolor="none")
        return self

    def _scale_axes(self, ax: Any) -> None:
        places = sorted({float(x) for curve in self.curves.values() for x in curve.x})
        if self.log_y:
            ax.set_yscale("log")
        if self.log_x and places and places[0] > 0:
            ax.set_xscale("log")
            if places[0] >= 1e-3 and places[-1] <= 1e6:  # else powers of ten are shorter
                ax.xaxis.set_major_formatter("{x:g}")
        if self.names_x:
            ax.set_xticks(places, labels=[self.names_x.get(place, "") for place in places])
            if sum(len(name) for name in self.names_x.values()) > 60:
                ax.tick_params(axis="x", rotation=30)
                for label in ax.get_xticklabels():
                    label.set_horizontalalignment("right")
        elif 1 < len(places) <= MOST_TICKS and _apart(places, self.log_x):
            ax.set_xticks(places, labels=[f"{place:g}" for place in places])
            ax.minorticks_off()
        elif not self.log_x and all(place.is_integer() for place in places):
            ax.xaxis.get_major_locator().set_params(integer=True)


def _apart(places: Sequence[float], log: bool) -> bool:
    """Whether numbers at all places can be written without touching each other."""
    where = [math.log(place) for place in places] if log and places[0] > 0 else list(places)
    return float(np.diff(where).min()) > 0.06 * (where[-1] - where[0])


def _joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0)
