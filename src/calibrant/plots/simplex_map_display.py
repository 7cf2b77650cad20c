"""SimplexMapDisplay: a calibration map of three classes as arrows over coloured calibration errors."""

from typing import Any, Self

from numpy.typing import NDArray

from calibrant.plots.display import Display, new_axes
from calibrant.plots.error_colours import Palette, draw_colour_key, error_colours
from calibrant.plots.simplex_axes import draw_arrows, draw_cells, draw_triangle
from calibrant.plots.simplex_map import SimplexMap, simplex_map
from calibrant.plots.style import INK, TITLE_SIZE

__all__ = ["SimplexMapDisplay"]


class SimplexMapDisplay(Display):
    r"""Plot of a calibration map of three classes: arrows from p to c(p), and colours for the error p - c(p).

    Arrows have their true length. Colours are grey plus 3.5 times the error, in red, green and blue for the three classes, as
    in figures 5, 7, 9, 10 and 12 of :cite:`valk2022`: in red regions the probability of the left class is too high. Colours
    show the same errors as the arrows; a small triangle is their key.

    Parameters
    ----------
    numbers : SimplexMap
        The map at the points of two grids.
    title : str
        Title of the plot.

    Attributes
    ----------
    ax_, figure_
        Axes and figure, set by :meth:`plot`.

    Examples
    --------
    >>> from calibrant.synthetic import IdentityMap
    >>> display = SimplexMapDisplay.from_map(IdentityMap())
    >>> round(float(abs(display.numbers.errors).max()), 9)
    0.0
    """

    def __init__(self, numbers: SimplexMap, title: str = "Calibration map") -> None:
        self.numbers = numbers
        self.title = title

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        classes: Any = None,
        n_arrows: int = 10,
        n_cells: int = 60,
        others: float = 0.01,
        title: str | None = None,
    ) -> Self:
        """Create the display from a fitted calibrator; see :meth:`from_map` for the parameters."""
        return cls.from_map(
            estimator, classes=classes, n_arrows=n_arrows, n_cells=n_cells, others=others, title=title
        )

    @classmethod
    def from_map(
        cls,
        mapping: Any,
        *,
        classes: Any = None,
        n_arrows: int = 10,
        n_cells: int = 60,
        others: float = 0.01,
        title: str | None = None,
    ) -> Self:
        """Create the display from any map.

        Parameters
        ----------
        mapping : Calibrator, SyntheticTask, CalibrationMap or callable
            A fitted calibrator, the true map of a synthetic task, or a function of rows of probabilities, (n, 3).
        classes : sequence of three labels, optional
            The three classes, in the order left, right, top; required if there are more than three.
        n_arrows, n_cells : int, default=10 and 60
            Number of arrows and coloured cells along a side.
        others : float, default=0.01
            With more than three classes, the total probability of the others, in equal parts; results are conditional on the
            three classes.
        title : str, optional
            Title of the plot; by default the type of the map.
        """
        numbers = simplex_map(mapping, classes=classes, n_arrows=n_arrows, n_cells=n_cells, others=others)
        return cls(numbers, type(mapping).__name__ if title is None else title)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return p and c(p) on both grids, arrows first."""
        return self.numbers.columns()

    def plot(
        self,
        ax: Any = None,
        *,
        arrows: bool = True,
        colours: bool = True,
        palette: Palette = "rgb",
        key: bool = True,
    ) -> Self:
        """Plot on the given axes, or on a new figure, and return self.

        Parameters
        ----------
        ax : axes, optional
            Axes to plot on.
        arrows, colours : bool, default=True
            Whether to draw arrows, and colours below them.
        palette : {"rgb", "safe"}, default="rgb"
            Red, green and blue; or dark, blue and orange, which are safe for red-green colour blindness.
        key : bool, default=True
            Whether to draw the colour key.
        """
        self.ax_, self.figure_ = new_axes(ax, (5.2, 5.0))
        numbers = self.numbers
        draw_triangle(self.ax_, numbers.names, lines=not colours)
        if colours:
            draw_cells(self.ax_, numbers.cells, error_colours(numbers.errors, palette))
            if key:
                draw_colour_key(self.ax_.inset_axes((0.74, 0.6, 0.3, 0.42)), numbers.names, palette)
        if arrows:
            draw_arrows(self.ax_, numbers.points, numbers.images)
        self.ax_.set_title(self.title, fontsize=TITLE_SIZE, color=INK)
        return self
