"""The triangle of three classes: choice of classes, coordinates, grids, axes and colours of calibration errors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from calibrant.arrays import AnyArray, Float64Array, IntArray, Matrix
from calibrant.errors import ParameterError, PredictionError
from calibrant.options import check_choice
from calibrant.plots.style import FAINT, INK, LABEL_SIZE
from calibrant.presentation.sentences import counted, shortened

__all__: list[str] = []


def class_columns(known: AnyArray, chosen: Any) -> IntArray:
    """Return the column numbers of chosen classes, given by their labels.

    >>> class_columns(np.array(["cat", "cow", "dog"]), ["dog", "cat"])
    array([2, 0])
    """
    wanted = np.asarray(chosen)
    labels = wanted.tolist() if wanted.ndim == 1 else [chosen]
    places = {label: column for column, label in enumerate(known.tolist())}
    absent = [label for label in labels if label not in places]
    if absent or len(set(labels)) != len(labels):
        shown = ", ".join(map(repr, known[:5].tolist())) + (", ..." if len(known) > 5 else "")
        reason = f"{absent[0]!r} is not one of {shown}" if absent else "some are duplicates"
        raise ParameterError(f"classes must be distinct labels of the predictions, but {reason}.")
    return np.array([places[label] for label in labels], dtype=np.intp)


@dataclass(frozen=True, eq=False)
class ThreeClasses:
    """Three of K columns, with conversions between rows of K probabilities and points of the simplex."""

    columns: IntArray  # (3,) column numbers: left, right, top
    names: tuple[str, ...]  # labels of the three
    n_classes: int

    @classmethod
    def of(cls, known: AnyArray, chosen: Any = None) -> Self:
        """Return the three chosen classes, or all if there are three."""
        if len(known) < 3:
            raise PredictionError(
                f"a triangle shows three classes, but these predictions have {counted(len(known), 'column')}; "
                "for two classes draw a reliability diagram."
            )
        if chosen is None:
            if len(known) > 3:
                raise PredictionError(
                    f"a triangle shows three classes, but these predictions have {len(known)}; "
                    f"choose three by classes=, such as classes={known[:3].tolist()!r}."
                )
            chosen = known
        columns = class_columns(known, chosen)
        if len(columns) != 3:
            raise ParameterError(f"classes must be three labels for a triangle, but are {len(columns)}.")
        return cls(columns, tuple(str(label) for label in known[columns].tolist()), len(known))

    def restricted(self, rows: Any) -> Matrix:
        """Return probabilities conditional on the three classes, (n, 3); uniform where all three are zero."""
        own = np.asarray(rows, dtype=np.float64)[:, self.columns]
        total = own.sum(axis=1, keepdims=True)
        given: Matrix = np.divide(own, total, out=np.full_like(own, 1 / 3), where=total > 0)
        return given

    def embedded(self, points: Matrix, others: Matrix | float) -> Matrix:
        """Return rows of K probabilities for points of the triangle, (m, K).

        ``others`` is the total probability of the other classes, in equal parts, or a row (K,) with their probabilities.
        """
        if np.ndim(others) == 1:
            rows = np.tile(np.asarray(others, dtype=np.float64), (len(points), 1))
        elif self.n_classes == 3:
            rows = np.zeros((len(points), 3))
        else:
            rows = np.full((len(points), self.n_classes), others / (self.n_classes - 3))
        rows[:, self.columns] = 0.0
        rows[:, self.columns] = points * (1 - rows.sum(axis=1, keepdims=True))
        return rows


CORNERS: Matrix = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
"""Corners of the three classes: left, right and top of an equilateral triangle with sides of length one."""


def planar(points: Any) -> Matrix:
    r"""Return the plane coordinates of rows of three probabilities, (..., 2).

    .. math:: x(p) = p_1 x_1 + p_2 x_2 + p_3 x_3

    with the corners :math:`x_k`; the height above the side opposite of corner k is the probability of class k. Distances
    are those of the simplex divided by :math:`\sqrt 2`.

    >>> planar([[0.0, 1.0, 0.0], [0.5, 0.5, 0.0], [1 / 3, 1 / 3, 1 / 3]]).round(3)
    array([[1.   , 0.   ], [0.5  , 0.   ], [0.5  , 0.289]])
    """
    plane: Matrix = np.asarray(points, dtype=np.float64) @ CORNERS
    return plane


def arrow_points(n_steps: int) -> Matrix:
    """Return the start points of arrows, inside the triangle, (s (s + 1) / 2, 3).

    >>> arrow_points(1)
    array([[0.33333333, 0.33333333, 0.33333333]])
    >>> len(arrow_points(10))
    55
    """
    points: Matrix = (3 * _integer_points(n_steps) + 1) / (3 * n_steps)
    return points


def triangle_cells(n_steps: int) -> Matrix:
    """Return the corners of the s^2 small triangles that tile the large one, (s^2, 3, 3): cell, corner, class.

    >>> triangle_cells(2).shape
    (4, 3, 3)
    >>> triangle_cells(2).mean(axis=(0, 1))
    array([0.33333333, 0.33333333, 0.33333333])
    """
    upward = _integer_points(n_steps)[:, np.newaxis] + np.eye(3)
    downward = _integer_points(n_steps - 1)[:, np.newaxis] + 1 - np.eye(3)
    cells: Matrix = np.concatenate([upward, downward]) / n_steps
    return cells


def _integer_points(n_steps: int) -> Matrix:
    """Return all rows of three non-negative integers that sum to the number of steps minus one."""
    first, second = np.indices((n_steps, n_steps)).reshape(2, -1)
    integers = np.stack([first, second, n_steps - 1 - first - second], axis=1)
    return integers[integers[:, 2] >= 0].astype(np.float64)


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


def draw_triangle(ax: Any, names: Sequence[str], *, lines: bool = True) -> None:
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
    hide_frame(ax)


def hide_frame(ax: Any) -> None:
    """Remove frame and ticks; unlike with ``axis("off")``, the layout keeps space for the title."""
    ax.set_frame_on(False)
    ax.set_xticks([])
    ax.set_yticks([])


def draw_cells(ax: Any, cells: Float64Array, colours: Float64Array) -> None:
    """Fill small triangles, (c, 3, 3), with colours (c, 3) or (c, 4)."""
    from matplotlib.collections import PolyCollection

    # Antialiasing would leave hairlines between neighbours.
    filled = PolyCollection(
        list(planar(cells)), facecolors=colours, edgecolors="none", antialiaseds=False, zorder=0
    )
    filled.set_rasterized(True)
    ax.add_collection(filled, autolim=False)


def draw_arrows(ax: Any, points: Float64Array, images: Float64Array, *, width: float = 0.006) -> Any:
    """Draw arrows between rows of three probabilities, in their true length; dots for fixed points."""
    start, end = planar(points), planar(images)
    still = np.linalg.norm(end - start, axis=1) < 1e-3
    ax.plot(*start[still].T, linestyle="none", marker=".", markersize=2.5, color=INK, zorder=2)
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
        facecolor=INK,
        edgecolor="white",  # visible on any colour
        linewidth=0.6,
        zorder=2,
    )


Palette = Literal["rgb", "safe"]
"""``"rgb"``: red, green and blue for the three classes; ``"safe"``: dark, blue and orange, safe for colour blindness."""

INTENSITY = 3.5
"""Change of a colour channel for an error of one."""

MIXTURES: dict[str, Float64Array] = {
    "rgb": np.eye(3),
    # Errors sum to zero, so they have two dimensions, like the colours seen with red-green colour blindness: dark to light,
    # and yellow to blue.
    "safe": np.array([[-0.6, -0.6, -0.6], [-0.35, 0.1, 0.5], [0.5, 0.25, -0.6]]),
}
MIDDLE = 0.5
KEY_SIZE = 8.5


def error_colours(
    errors: Float64Array, palette: Palette = "rgb", intensity: float = INTENSITY
) -> Float64Array:
    r"""Return a colour for every calibration error :math:`p - c(p)`, (c, 3); grey for zero.

    .. math:: (\tfrac12, \tfrac12, \tfrac12) + \lambda\, (p - c(p)) M

    with :math:`\lambda` = 3.5 and M = I for red, green and blue, as in :cite:`valk2022`, section 2.5.5; channels stay
    between 0 and 1.

    >>> error_colours(np.array([[0.0, 0.0, 0.0], [0.1, -0.1, 0.0]]))
    array([[0.5 , 0.5 , 0.5 ], [0.85, 0.15, 0.5 ]])
    """
    check_choice("palette", palette, MIXTURES)
    return np.clip(MIDDLE + intensity * errors @ MIXTURES[palette], 0.0, 1.0)


def draw_colour_key(ax: Any, names: Sequence[str], palette: Palette = "rgb") -> None:
    """Draw the key: a triangle of errors, grey in the middle, with the colour of a too high probability at each corner."""
    reach = MIDDLE / INTENSITY
    cells = triangle_cells(24)
    # At the corner of class k, its probability is too high by this error, and each of the others too low by half of it.
    errors = 1.5 * reach * (cells.mean(axis=1) - 1 / 3)
    draw_cells(ax, cells, error_colours(errors, palette))
    ax.plot(*CORNERS[[0, 1, 2, 0]].T, color=INK, linewidth=0.8)
    style: dict[str, Any] = {"fontsize": KEY_SIZE, "color": INK}
    words = [shortened(name, 10) for name in names]
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
    hide_frame(ax)
