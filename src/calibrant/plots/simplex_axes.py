"""Axes for the simplex of three classes, with names, scales and coloured cells."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.plots.simplex_points import CORNERS, planar
from calibrant.plots.style import FAINT, INK, LABEL_SIZE

__all__ = ["TICK_SIZE", "bare", "draw_arrows", "draw_cells", "draw_triangle"]

TICKS = (0.2, 0.4, 0.6, 0.8)
TICK_SIZE = 8.5
# Tick values of a class are along the side on which it grows from 0 to 1; corner names are outside.
SIDES = ((2, 0), (0, 1), (1, 2))
SHIFTS = ((-0.035, 0.02), (0.0, -0.045), (0.035, 0.02))
NAMES = (
    ((-0.03, -0.075), "left"),
    ((1.03, -0.075), "right"),
    ((0.5, float(CORNERS[2, 1]) + 0.035), "center"),
)


def draw_triangle(ax: Any, names: Sequence[str], *, lines: bool = True, ticks: bool = True) -> None:
    """Draw the outline, the corner names, and lines of equal probability with their values."""
    outline = CORNERS[[0, 1, 2, 0]]
    ax.plot(*outline.T, color=INK, linewidth=1.1, zorder=3, clip_on=False)
    for (falling, growing), shift in zip(SIDES, SHIFTS, strict=True):
        opposite = 3 - falling - growing
        for value in TICKS:
            ends = np.zeros((2, 3))
            ends[:, growing] = value
            ends[0, falling] = ends[1, opposite] = 1 - value
            plane = planar(ends)
            if lines:
                ax.plot(*plane.T, color=FAINT, linewidth=0.6, zorder=0.5)
            if ticks:
                x, y = plane[0] + shift
                ax.text(x, y, f"{value:g}", fontsize=TICK_SIZE, color="#555555", ha="center", va="center")
    for name, ((x, y), side) in zip(names, NAMES, strict=True):
        below = y < 0
        ax.text(
            x,
            y,
            name,
            fontsize=LABEL_SIZE,
            color=INK,
            ha=side,
            va="top" if below else "bottom",
            weight="bold",
        )
    ax.set(xlim=(-0.07, 1.07), ylim=(-0.15, 0.95), aspect="equal")
    bare(ax)


def bare(ax: Any) -> None:
    """Remove frame and ticks; unlike with ``axis("off")``, the layout keeps space for the title."""
    ax.set_frame_on(False)
    ax.set_xticks([])
    ax.set_yticks([])


def draw_cells(ax: Any, cells: NDArray[np.float64], colours: NDArray[np.float64]) -> None:
    """Fill small triangles, (c, 3, 3), with colours (c, 3) or (c, 4)."""
    from matplotlib.collections import PolyCollection

    # Antialiasing would leave hairlines between neighbours.
    filled = PolyCollection(
        list(planar(cells)), facecolors=colours, edgecolors="none", antialiaseds=False, zorder=0
    )
    filled.set_rasterized(True)
    ax.add_collection(filled, autolim=False)


def draw_arrows(
    ax: Any,
    points: NDArray[np.float64],
    images: NDArray[np.float64],
    *,
    colour: str = INK,
    width: float = 0.006,
) -> Any:
    """Draw arrows between rows of three probabilities, in their true length; dots for fixed points."""
    start, end = planar(points), planar(images)
    still = np.linalg.norm(end - start, axis=1) < 1e-3
    ax.plot(*start[still].T, linestyle="none", marker=".", markersize=2.5, color=colour, zorder=2)
    return ax.quiver(
        *start[~still].T,
        *(end - start)[~still].T,
        angles="xy",
        scale_units="xy",
        scale=1,
        units="width",
        width=width,
        headwidth=4.5,
        headlength=5,
        headaxislength=4.5,
        minlength=0,
        facecolor=colour,
        edgecolor="white",  # visible on any colour
        linewidth=0.6,
        zorder=2,
    )
