"""InterpretationPointsDisplay: the images of four interpretation points under a Dirichlet map."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays import AnyArray, Matrix
from calibrant.calibrators.scaling.dirichlet import DirichletCalibration
from calibrant.errors import ParameterError
from calibrant.plots.display import Display, new_axes
from calibrant.plots.simplex.map import SimplexMap, simplex_map
from calibrant.plots.simplex.triangle import (
    Palette,
    ThreeClasses,
    draw_arrows,
    draw_cells,
    draw_colour_key,
    draw_triangle,
    error_colours,
    planar,
)
from calibrant.plots.style import INK, LABEL_SIZE, TITLE_SIZE

__all__ = ["InterpretationPointsDisplay"]


@dataclass(eq=False, repr=False)
class InterpretationPointsDisplay(Display):
    r"""Plot of four points of the simplex and their images under a Dirichlet map.

    The points are the centre and, for each class, a point at which it has probability epsilon and the others are equally
    likely, as in figure 2a of :cite:`kull2019`. The image of the centre is c of the canonical parameters, and column j of A
    determines the image of the point without class j. With more than three classes choose three; points and images are then
    conditional on these classes.

    Parameters
    ----------
    points, images : ndarray of shape (4, 3)
        Points without the first, second and third class, then the centre; and their images.
    background : SimplexMap
        The map in the background.
    matrix : ndarray of shape (3, 3) or None
        A of the canonical parameters; None if the map has more classes.
    center : ndarray of shape (3,) or None
        c of the canonical parameters, likewise.
    epsilon : float
        Probability of the excluded class.

    Examples
    --------
    >>> from calibrant.calibrators.scaling.dirichlet import LinearParameters
    >>> squares = DirichletCalibration.from_parameters(LinearParameters(2 * np.eye(3), np.zeros(3)))
    >>> display = InterpretationPointsDisplay.from_estimator(squares, epsilon=0.2)
    >>> display.points[0], display.images[0].round(3)
    (array([0.2, 0.4, 0.4]), array([0.111, 0.444, 0.444]))
    """

    points: Matrix
    images: Matrix
    background: SimplexMap
    matrix: Matrix | None
    center: Matrix | None
    epsilon: float

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        epsilon: float = 0.01,
        limit: bool = False,
        classes: Any = None,
        n_cells: int = 60,
        others: float = 0.01,
    ) -> Self:
        """Create the display from a fitted :class:`~calibrant.DirichletCalibration`.

        Parameters
        ----------
        estimator : DirichletCalibration
            The fitted calibrator.
        epsilon : float, default=0.01
            Probability of the excluded class.
        limit : bool, default=False
            Whether to use the paper's formula for small epsilon instead of exact images.
        classes : sequence of three labels, optional
            The three classes, in the order left, right, top; required if there are more than three.
        n_cells, others
            For the background colours, as in :class:`~calibrant.plots.SimplexMapDisplay`.
        """
        if not isinstance(estimator, DirichletCalibration):
            raise ParameterError(
                f"interpretation points need a fitted DirichletCalibration, not a {type(estimator).__name__}."
            )
        check_is_fitted(estimator)
        if estimator.present_columns_ is not None:
            raise ParameterError(
                "some classes had no calibration rows, so the map is only for the others; fit it to rows of all classes."
            )
        three = ThreeClasses.of(estimator.classes_, classes)
        points, images = estimator.interpretation_points(epsilon, limit=limit)
        chosen = np.append(three.columns, -1)
        matrix = center = None
        if three.n_classes == 3:
            canonical = estimator.canonical()
            matrix, center = (
                canonical.matrix[np.ix_(three.columns, three.columns)],
                canonical.center[three.columns],
            )
        return cls(
            three.restricted(points[chosen]),
            three.restricted(images[chosen]),
            simplex_map(estimator, classes=classes, n_cells=n_cells, others=others),
            matrix,
            center,
            epsilon,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The three classes."""
        return self.background.names

    def columns(self) -> dict[str, AnyArray]:
        """Return the points and their images."""
        columns: dict[str, AnyArray] = {
            "point": np.array([*(f"without {name}" for name in self.names), "centre"])
        }
        for number, name in enumerate(self.names):
            columns[f"p_{name}"], columns[f"c_{name}"] = self.points[:, number], self.images[:, number]
        return columns

    def plot(self, ax: Any = None, *, palette: Palette = "rgb") -> Self:
        self.ax_, self.figure_ = new_axes(ax, (5.4, 5.2))
        draw_triangle(self.ax_, self.names, lines=False)
        draw_cells(self.ax_, self.background.cells, error_colours(self.background.errors, palette))
        draw_arrows(self.ax_, self.points, self.images, width=0.008)
        style: dict[str, Any] = {"linestyle": "none", "zorder": 5}
        self.ax_.plot(
            *planar(self.points).T, marker="o", markersize=8, color=INK, markeredgecolor="white", **style
        )
        self.ax_.plot(
            *planar(self.images).T, marker="s", markersize=5, color="white", markeredgecolor=INK, **style
        )
        self._write_parameters()
        draw_colour_key(self.ax_.inset_axes((0.74, 0.6, 0.3, 0.42)), self.names, palette)
        self.ax_.set_title(
            f"Interpretation points (dots) and their images (squares), ε = {self.epsilon:g}",
            fontsize=TITLE_SIZE - 1,
            color=INK,
        )
        return self

    def _write_parameters(self) -> None:
        """Write A and c into the empty corner, one row per class."""
        if self.matrix is None or self.center is None:
            return
        lines = [
            "  ".join(f"{entry:5.2f}" for entry in row) + f" │ {share:4.2f}"
            for row, share in zip(self.matrix, self.center, strict=True)
        ]
        self.ax_.text(
            -0.05,
            0.92,
            "\n".join(["A".center(19) + "   c", *lines]),
            family="monospace",
            fontsize=LABEL_SIZE - 1.5,
            color=INK,
            va="top",
            linespacing=1.4,
        )
