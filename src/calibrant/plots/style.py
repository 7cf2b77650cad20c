"""Style of all plots: colours safe for colour blindness, sizes, legends and captions."""

from collections.abc import Sequence
from textwrap import fill
from typing import Any

__all__: list[str] = []


# Okabe and Ito (2008), without black, which is used for diagonals and intervals.
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Colours of several models on the same axes, in their order."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""Markers that go with the colours, for prints in black and white."""

BAR = "#9dbfdc"
OVER: dict[str, Any] = {"edgecolor": "#d55e00", "facecolor": "#f5cdb0", "hatch": "//"}
"""Style of gaps where predictions are too high."""
UNDER: dict[str, Any] = {"edgecolor": "#009e73", "facecolor": "#8ccfb9", "hatch": "\\\\"}
"""Style of gaps where predictions are too low."""

INK = "#222222"
INTERVAL = "#222222"
FAINT = "#b8b8b8"
DIAGONAL: dict[str, Any] = {"color": "#222222", "linestyle": "--", "linewidth": 1.1}

TITLE_SIZE = 11
LABEL_SIZE = 10


def look(number: int) -> tuple[str, str]:
    """Return colour and marker of one of several models; after seven they repeat in other combinations.

    >>> look(0), look(7)
    (('#0072b2', 'o'), ('#0072b2', 's'))
    """
    return SERIES[number % len(SERIES)], MARKERS[(number + number // len(SERIES)) % len(MARKERS)]


CAPTION_SIZE = 8.5
LEGEND_SIZE = 9.0

# Average width of a character relative to the font size.
LETTER_WIDTH = 0.5

# Space for ticks and axis label, in points.
BELOW_THE_LABEL = 36


def write_caption(ax: Any, text: str) -> Any:
    """Write a sentence below the axes, wrapped to their width."""
    inches = ax.get_position().width * ax.figure.get_figwidth()
    letters = max(int(inches * 72 / (CAPTION_SIZE * LETTER_WIDTH)), 24)
    return ax.annotate(
        fill(text, letters),
        (0, 0),
        (0, -BELOW_THE_LABEL),
        xycoords="axes fraction",
        textcoords="offset points",
        va="top",
        fontsize=CAPTION_SIZE,
        color=INK,
        annotation_clip=False,
    )


def label_axes(ax: Any, x: str, y: str = "") -> None:
    """Name the axes, in the same size as the ticks."""
    ax.set_xlabel(x, fontsize=LABEL_SIZE)
    if y:
        ax.set_ylabel(y, fontsize=LABEL_SIZE)
    ax.tick_params(labelsize=LABEL_SIZE)


def legend_above(ax: Any, handles: Sequence[Any], title: str = "", n_columns: int = 2) -> None:
    """Place a legend above the axes, where it covers no data, and a title above the legend."""
    ax.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(-0.02, 1.0),
        ncols=n_columns,
        frameon=False,
        fontsize=LEGEND_SIZE,
        borderaxespad=0.2,
        columnspacing=1.2,
        handlelength=1.8,
        labelspacing=0.35,
    )
    if title:
        n_lines = -(-len(handles) // n_columns)
        ax.set_title(title, fontsize=TITLE_SIZE, pad=10 + 1.4 * LEGEND_SIZE * n_lines)
