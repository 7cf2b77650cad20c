"""Heat maps of class-by-class matrices, readable for a few classes and for a hundred."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from calibrant.arrays import Matrix
from calibrant.plots.style import INK, LABEL_SIZE

__all__ = ["colour_limit", "draw_heat_map", "thinned"]

# Purple and orange are safe for colour blindness; white is zero.
COLOURS = "PuOr_r"

NUMBER_SIZE, LEAST_SIZE = 9.0, 6.5
"""Font size of numbers in cells in points, and the smallest that is shown."""

MOST_NAMES = 20
WIDTH_OF_A_DIGIT = 0.62  # of the size of the font


def colour_limit(matrix: Matrix, spare_diagonal: bool = True) -> float:
    """Return the end of the colour scale: the largest off-diagonal entry, or the largest of all if those are zero."""
    off = matrix
    if spare_diagonal and matrix.shape[0] == matrix.shape[1]:
        off = matrix[~np.eye(len(matrix), dtype=bool)]
    largest = float(np.abs(off).max(initial=0.0)) or float(np.abs(matrix).max(initial=0.0))
    return largest or 1.0


def thinned(names: Sequence[str], most: int = MOST_NAMES) -> list[int]:
    """Return the indices of the names to show: all, or every second, fifth, tenth, ...

    >>> thinned([str(k) for k in range(100)])
    [0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95]
    """
    step, factors = 1, [2, 2.5, 2]
    while -(-len(names) // step) > most:
        step = round(step * factors[0])
        factors = factors[1:] + factors[:1]
    return list(range(0, len(names), step))


def draw_heat_map(
    ax: Any, matrix: Matrix, rows: Sequence[str], columns: Sequence[str], *, limit: float, digits: int = 2
) -> Any:
    """Draw a matrix with a diverging colour map, and with numbers in the cells if they fit; return the image."""
    image = ax.imshow(matrix, cmap=COLOURS, vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
    for axis, names, angle in ((ax.xaxis, columns, 90), (ax.yaxis, rows, 0)):
        places = thinned(names)
        short = [names[place] if len(names[place]) <= 12 else f"{names[place][:11]}…" for place in places]
        turned = angle if max(map(len, short)) > 3 else 0
        axis.set_ticks(places, labels=short, rotation=turned, fontsize=LABEL_SIZE - 1.5)
        axis.set_tick_params(length=0 if len(places) == len(names) else 2)
    if min(matrix.shape) <= MOST_NAMES:
        ax.set_xticks(np.arange(0.5, matrix.shape[1] - 1), minor=True)
        ax.set_yticks(np.arange(0.5, matrix.shape[0] - 1), minor=True)
        ax.grid(which="minor", color="white", linewidth=0.8)
        ax.tick_params(which="minor", length=0)
    _write_numbers(ax, matrix, limit, digits)
    return image


def _write_numbers(ax: Any, matrix: Matrix, limit: float, digits: int) -> None:
    """Write the numbers into the cells, unless the largest does not fit at a readable size."""
    box, figure = ax.get_position(), ax.figure
    inches = (
        figure.get_size_inches() if hasattr(figure, "get_size_inches") else figure.figure.get_size_inches()
    )
    # The layout is not final yet; names and titles will take some of the space.
    width = 0.8 * 72 * box.width * inches[0] / matrix.shape[1]
    height = 0.8 * 72 * box.height * inches[1] / matrix.shape[0]
    if 0.8 * height < LEAST_SIZE:
        return
    texts = [[_number(entry, digits) for entry in row] for row in matrix]
    longest = max(1, *(len(text) for row in texts for text in row))
    size = min(NUMBER_SIZE, 0.92 * width / (WIDTH_OF_A_DIGIT * longest), 0.8 * height)
    if size < LEAST_SIZE:
        return
    for (row, column), entry in np.ndenumerate(matrix):
        text = texts[row][column]
        if text:
            dark = abs(entry) > 0.6 * limit
            ax.text(
                column, row, text, ha="center", va="center", fontsize=size, color="white" if dark else INK
            )


def _number(entry: float, digits: int) -> str:
    """Return a number without a leading zero; an empty text for NaN."""
    if np.isnan(entry):
        return ""
    text = f"{entry:.{digits}f}"
    if float(text) == 0:
        return "0"
    return text.replace("0.", ".", 1) if abs(float(text)) < 1 else text
