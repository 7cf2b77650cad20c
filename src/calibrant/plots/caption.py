"""Captions and legends of plots: a sentence below the axes, a legend above them."""

from collections.abc import Sequence
from textwrap import fill
from typing import Any

from calibrant.plots.style import INK, TITLE_SIZE

__all__ = ["CAPTION_SIZE", "legend_above", "thousands", "write_caption"]

CAPTION_SIZE = 8.5
LEGEND_SIZE = 9.0

# Average width of a character relative to the font size.
LETTER_WIDTH = 0.5

# Space for ticks and axis label, in points.
BELOW_THE_LABEL = 36


def write_caption(ax: Any, text: str, below: float = BELOW_THE_LABEL) -> Any:
    """Write a sentence a given number of points below the axes, wrapped to their width."""
    inches = ax.get_position().width * ax.figure.get_figwidth()
    letters = max(int(inches * 72 / (CAPTION_SIZE * LETTER_WIDTH)), 24)
    return ax.annotate(
        fill(text, letters),
        (0, 0),
        (0, -below),
        xycoords="axes fraction",
        textcoords="offset points",
        va="top",
        fontsize=CAPTION_SIZE,
        color=INK,
        annotation_clip=False,
    )


def legend_above(ax: Any, handles: Sequence[Any], title: str = "", n_columns: int = 2) -> None:
    """Place a legend above the axes, where it hides nothing, and a title above the legend."""
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


def thousands(value: float) -> str:
    """Return an integer with thousands separators.

    >>> thousands(12345.0)
    '12,345'
    """
    return f"{value:,.0f}"
