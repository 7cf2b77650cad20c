"""Bar and line charts of means over the splits of a study."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Vector
from calibrant.plots.display import Display, new_axes
from calibrant.plots.style import BAR, FAINT, INK, INTERVAL, LABEL_SIZE, SERIES, TITLE_SIZE, look

__all__ = ["BarsDisplay", "Curve", "LinesDisplay"]


MOST_TICKS = 8
LEGEND_IN_AXES = 8


@dataclass(frozen=True)
class Curve:
    """One line: places, means, standard deviations (NaN if undefined) and numbers of units."""

    x: Vector
    y: Vector
    sd: Vector
    count: NDArray[np.intp]


class LinesDisplay(Display):
    """Lines of means with bands of one standard deviation.

    Parameters
    ----------
    curves : mapping of str to Curve
        Lines by name.
    label_x, label_y, title : str
        Labels of the axes, and title.
    band : bool, default=False
        Whether to draw bands.
    log_x, log_y : bool, default=False
        Whether axes are logarithmic.
    names_x : mapping of float to str, optional
        Tick labels of the horizontal axis instead of numbers.
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
        """Return one row per point."""
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
        _finish(ax, "both", self.label_x, self.label_y, self.title)
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
            if places[0] >= 1e-3 and places[-1] <= 1e6:  # Otherwise powers of ten are shorter.
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


def _finish(ax: Any, grid: str, label_x: str, label_y: str, title: str) -> None:
    ax.grid(axis=grid, color=FAINT, linewidth=0.5, alpha=0.6)
    ax.set_axisbelow(True)
    ax.set_xlabel(label_x, fontsize=LABEL_SIZE)
    ax.set_ylabel(label_y, fontsize=LABEL_SIZE)
    ax.set_title(title, fontsize=TITLE_SIZE, color=INK, wrap=True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def _apart(places: Sequence[float], log: bool) -> bool:
    """Return whether tick labels at all places fit side by side."""
    where = [math.log(place) for place in places] if log and places[0] > 0 else list(places)
    return float(np.diff(where).min()) > 0.06 * (where[-1] - where[0])


def _joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0)


HATCHES = ("", "///", "...", "\\\\\\", "xxx", "+++", "ooo")
MOST_VERTICAL = 30
"""Largest number of vertical bars; more are horizontal."""
LETTERS_ACROSS = 38
"""Number of letters that fit below the axis; if names need more, bars are horizontal."""


class BarsDisplay(Display):
    """Bars by group, and by series within each group.

    Parameters
    ----------
    groups : sequence of str
        Names of the groups, in order.
    values : mapping of str to array
        Series -> one number per group, NaN if missing.
    spreads : mapping of str to array, optional
        Series -> standard deviations.
    label_groups, label_values, title : str
        Labels of the axes, and title.
    line : float, optional
        Position of a dashed line, such as one for quotients.
    """

    def __init__(
        self,
        groups: Sequence[str],
        values: Mapping[str, NDArray[np.float64]],
        *,
        spreads: Mapping[str, NDArray[np.float64]] | None = None,
        label_groups: str = "",
        label_values: str = "",
        title: str = "",
        line: float | None = None,
    ) -> None:
        self.groups = tuple(groups)
        self.values = {name: np.asarray(row, dtype=np.float64) for name, row in values.items()}
        self.spreads = {name: np.asarray(row, dtype=np.float64) for name, row in (spreads or {}).items()}
        self.label_groups, self.label_values, self.title = label_groups, label_values, title
        self.line = line

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return one row per bar."""
        nothing = np.full(len(self.groups), np.nan)
        return {
            "group": np.array([group for group in self.groups for _ in self.values], dtype=object),
            "series": np.array([name for _ in self.groups for name in self.values], dtype=object),
            "value": np.array(
                [row[number] for number in range(len(self.groups)) for row in self.values.values()]
            ),
            "sd": np.array(
                [
                    self.spreads.get(name, nothing)[number]
                    for number in range(len(self.groups))
                    for name in self.values
                ]
            ),
        }

    def plot(self, ax: Any = None) -> Self:
        """Draw on the given axes, or on those of a new figure, and return self."""
        n_groups, n_series = len(self.groups), max(1, len(self.values))
        # Below vertical bars, the longest name must fit into its share of the width.
        room = LETTERS_ACROSS / max(1, n_groups)
        lying = max(map(len, self.groups), default=0) + 1 > room or n_groups * n_series > MOST_VERTICAL
        size = (6.4, max(2.6, 1.3 + 0.2 * n_groups * (n_series + 0.6))) if lying else (6.4, 4.0)
        self.ax_, self.figure_ = new_axes(ax, size)
        ax = self.ax_
        width = 0.8 / n_series
        places = np.arange(n_groups)
        for number, (name, row) in enumerate(self.values.items()):
            where = places + (number - (n_series - 1) / 2) * width
            colour = BAR if n_series == 1 else SERIES[number % len(SERIES)]
            style = {"color": colour, "label": name, "hatch": HATCHES[number // len(SERIES) % len(HATCHES)]}
            spread = self.spreads.get(name)
            error = {"fmt": "none", "ecolor": INTERVAL, "elinewidth": 1.1, "capsize": 2.5}
            shown = np.nan_to_num(row)
            if lying:
                ax.barh(where, shown, height=0.92 * width, **style)
                if spread is not None:
                    ax.errorbar(shown, where, xerr=np.nan_to_num(spread), **error)
            else:
                ax.bar(where, shown, width=0.92 * width, **style)
                if spread is not None:
                    ax.errorbar(where, shown, yerr=np.nan_to_num(spread), **error)
        self._label(ax, places, lying)
        if n_series > 1:
            beside = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
            ax.legend(fontsize=LABEL_SIZE - 1, frameon=False, **beside)
        return self

    def _label(self, ax: Any, places: NDArray[Any], lying: bool) -> None:
        label_x, label_y = self.label_groups, self.label_values
        if lying:
            ax.set_yticks(places, labels=list(self.groups), fontsize=LABEL_SIZE)
            ax.set_ylim(len(places) - 0.5, -0.5)
            label_x, label_y = label_y, label_x
        else:
            ax.set_xticks(places, labels=list(self.groups), fontsize=LABEL_SIZE)
        ax.tick_params(axis="y" if lying else "x", length=0)
        if self.line is not None:
            (ax.axvline if lying else ax.axhline)(self.line, color=INK, linestyle="--", linewidth=1.1)
        _finish(ax, "x" if lying else "y", label_x, label_y, self.title)
