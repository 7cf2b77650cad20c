"""Colours of calibration errors on the simplex, and their key."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.options import check_choice
from calibrant.plots.simplex_axes import bare, draw_cells
from calibrant.plots.simplex_points import CORNERS, triangle_cells
from calibrant.plots.style import INK

__all__ = ["INTENSITY", "Palette", "draw_colour_key", "error_colours"]

Palette = Literal["rgb", "safe"]
"""``"rgb"``: red, green and blue for the three classes; ``"safe"``: dark, blue and orange, safe for colour blindness."""

INTENSITY = 3.5
"""Change of a colour channel for an error of one."""

MIXTURES: dict[str, NDArray[np.float64]] = {
    "rgb": np.eye(3),
    # Errors sum to zero, so they have two dimensions, like the colours seen with red-green colour blindness: dark to light,
    # and yellow to blue.
    "safe": np.array([[-0.6, -0.6, -0.6], [-0.35, 0.1, 0.5], [0.5, 0.25, -0.6]]),
}
MIDDLE = 0.5
KEY_SIZE = 8.5


def error_colours(
    errors: NDArray[np.float64], palette: Palette = "rgb", intensity: float = INTENSITY
) -> NDArray[np.float64]:
    r"""Return a colour for every calibration error :math:`p - c(p)`, (c, 3); grey for zero.

    .. math:: (\tfrac12, \tfrac12, \tfrac12) + \lambda\, (p - c(p)) M

    with :math:`\lambda` = 3.5 and M = I for red, green and blue, as in :cite:`valk2022`, section 2.5.5; channels stay
    between 0 and 1.

    >>> error_colours(np.array([[0.0, 0.0, 0.0], [0.1, -0.1, 0.0]]))
    array([[0.5 , 0.5 , 0.5 ], [0.85, 0.15, 0.5 ]])
    """
    check_choice("palette", palette, MIXTURES)
    return np.clip(MIDDLE + intensity * errors @ MIXTURES[palette], 0.0, 1.0)


def draw_colour_key(
    ax: Any, names: Sequence[str], palette: Palette = "rgb", intensity: float = INTENSITY
) -> None:
    """Draw the key: a triangle of errors, grey in the middle, with the colour of a too high probability at each corner."""
    reach = MIDDLE / intensity
    cells = triangle_cells(24)
    # At the corner of class k, its probability is too high by this error, and each of the others too low by half of it.
    errors = 1.5 * reach * (cells.mean(axis=1) - 1 / 3)
    draw_cells(ax, cells, error_colours(errors, palette, intensity))
    ax.plot(*CORNERS[[0, 1, 2, 0]].T, color=INK, linewidth=0.8)
    style: dict[str, Any] = {"fontsize": KEY_SIZE, "color": INK}
    words = [_shortened(name) for name in names]
    ax.text(0.0, -0.06, words[0], ha="center", va="top", **style)
    ax.text(1.0, -0.06, words[1], ha="center", va="top", **style)
    ax.text(0.5, CORNERS[2, 1] + 0.05, words[2], ha="center", va="bottom", **style)
    ax.text(
        0.5,
        -0.34,
        f"probability too high\n(corner: {100 * reach:.0f} points);\ngrey: calibrated",
        ha="center",
        va="top",
        **style,
    )
    ax.set(xlim=(-0.25, 1.25), ylim=(-1.0, 1.1), aspect="equal")
    bare(ax)


def _shortened(name: str, most: int = 10) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
