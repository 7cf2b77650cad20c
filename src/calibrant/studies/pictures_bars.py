"""BarsDisplay: means as bars in groups, and counts of what was chosen."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.plots.display import Display, new_axes
from calibrant.plots.style import BAR, FAINT, INK, INTERVAL, LABEL_SIZE, SERIES, TITLE_SIZE

__all__ = ["BarsDisplay"]

HATCHES = ("", "///", "...", "\\\\\\", "xxx", "+++", "ooo")
MOST_VERTICAL = 30
"""So many bars stand upright."""
LETTERS_ACROSS = 38
"""So many letters fit below the axis; if names need more, bars lie."""


class BarsDisplay(Display):
    """Bars of numbers by group, and by series within each group.

    Parameters
    ----------
    groups : sequence of str
        Names of the groups, in their order.
    values : mapping of str to array
        One number for every group, by series; NaN where there is none.
    spreads : mapping of str to array, optional
        Standard deviations.
    label_groups, label_values, title : str
        What is written.
    line : float, optional
        Where a dashed line is drawn, as at one for quotients.
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
        """Return one row for every bar."""
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
        # Upright, every name has its share of the width, which the longest must fit.
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
        self._finish(ax, places, lying)
        if n_series > 1:
            beside = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
            ax.legend(fontsize=LABEL_SIZE - 1, frameon=False, **beside)
        return self

    def _finish(self, ax: Any, places: NDArray[Any], lying: bool) -> None:
        if lying:
            ax.set_yticks(places, labels=list(self.groups), fontsize=LABEL_SIZE)
            ax.set_ylim(len(places) - 0.5, -0.5)
            ax.set_xlabel(self.label_values, fontsize=LABEL_SIZE)
            ax.set_ylabel(self.label_groups, fontsize=LABEL_SIZE)
        else:
            ax.set_xticks(places, labels=list(self.groups), fontsize=LABEL_SIZE)
            ax.set_ylabel(self.label_values, fontsize=LABEL_SIZE)
            ax.set_xlabel(self.label_groups, fontsize=LABEL_SIZE)
        ax.tick_params(axis="y" if lying else "x", length=0)
        ax.grid(axis="x" if lying else "y", color=FAINT, linewidth=0.5, alpha=0.6)
        ax.set_axisbelow(True)
        if self.line is not None:
            (ax.axvline if lying else ax.axhline)(self.line, color=INK, linestyle="--", linewidth=1.1)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        ax.set_title(self.title, fontsize=TITLE_SIZE, color=INK, wrap=True)
