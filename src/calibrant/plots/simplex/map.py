"""Calibration maps of three classes: arrows over coloured calibration errors, one map or several side by side."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays import AnyArray, Matrix
from calibrant.calibrator import Calibrator
from calibrant.errors import ParameterError
from calibrant.options import check_share, check_whole, real_array
from calibrant.plots.display import Display, new_axes, panels
from calibrant.plots.simplex.triangle import (
    Palette,
    ThreeClasses,
    arrow_points,
    draw_arrows,
    draw_cells,
    draw_colour_key,
    draw_triangle,
    error_colours,
    triangle_cells,
)
from calibrant.plots.style import INK, TITLE_SIZE
from calibrant.predictions import Predictions
from calibrant.synthetic import CalibrationMap, SyntheticTask
from calibrant.tabular import Tabular

__all__ = ["SimplexMap", "SimplexMapComparisonDisplay", "SimplexMapDisplay", "simplex_map"]


# Rounding error of row sums; larger differences are errors of the map.
TOLERANCE = 1e-3


@dataclass(frozen=True, eq=False)
class SimplexMap(Tabular):
    """A calibration map evaluated on two grids.

    Attributes
    ----------
    points, images : ndarray of shape (m, 3)
        Start and end points of arrows: predictions p and c(p).
    cells : ndarray of shape (c, 3, 3)
        Corners of the coloured triangles, each a row of three probabilities.
    cell_images : ndarray of shape (c, 3)
        Images of their centres.
    names : tuple of str
        The three classes.
    """

    points: Matrix
    images: Matrix
    cells: Matrix
    cell_images: Matrix
    names: tuple[str, ...]

    @property
    def cell_points(self) -> Matrix:
        """Centres of the cells, (c, 3)."""
        return np.asarray(self.cells.mean(axis=1))

    @property
    def errors(self) -> Matrix:
        """Calibration error p - c(p) at the centre of every cell, (c, 3); rows sum to zero."""
        return self.cell_points - self.cell_images

    @property
    def mean_move(self) -> float:
        """Mean absolute change of a probability over the area of the simplex."""
        return float(np.abs(self.errors).mean())

    def columns(self) -> dict[str, AnyArray]:
        """Return both grids in long format: arrows, then cells."""
        parts = np.repeat(["arrow", "cell"], [len(self.points), len(self.cells)])
        before = np.vstack([self.points, self.cell_points])
        after = np.vstack([self.images, self.cell_images])
        columns: dict[str, AnyArray] = {"part": parts}
        for number, name in enumerate(self.names):
            columns[f"p_{name}"], columns[f"c_{name}"] = before[:, number], after[:, number]
        return columns


def simplex_map(
    mapping: Any, *, classes: Any = None, n_arrows: int = 10, n_cells: int = 60, others: float = 0.01
) -> SimplexMap:
    """Evaluate a calibration map on grids of the simplex.

    Parameters
    ----------
    mapping : Calibrator, SyntheticTask, CalibrationMap or callable
        A fitted calibrator, the true map of a synthetic task, or any function of rows of probabilities.
    classes : sequence of three labels, optional
        The three classes, in the order left, right, top; required if there are more than three.
    n_arrows : int, default=10
        Number of arrows s along a side; in total s (s + 1) / 2.
    n_cells : int, default=60
        Number of coloured cells along a side; in total its square.
    others : float, default=0.01
        With more than three classes, the total probability of the others, in equal parts. Results are conditional on the
        three classes.

    Notes
    -----
    No grid point has a zero probability. A calibrator fitted to raw logits gets log-probabilities as logits. The cost is that
    of the map for about 4,000 rows.

    Examples
    --------
    >>> from calibrant.synthetic import TemperatureMap
    >>> numbers = simplex_map(TemperatureMap(2.0), n_arrows=2)
    >>> numbers.points.round(2)[0], numbers.images.round(2)[0]
    (array([0.17, 0.17, 0.67]), array([0.25, 0.25, 0.5 ]))
    """
    check_whole("n_arrows", n_arrows)
    check_whole("n_cells", n_cells)
    check_share("others", others, 0.01)
    evaluate, known = _function(mapping)
    three = ThreeClasses.of(known, classes)
    points, cells = arrow_points(n_arrows), triangle_cells(n_cells)
    both = np.vstack([points, cells.mean(axis=1)])
    images = three.restricted(_checked(evaluate(three.embedded(both, others)), three.n_classes))
    return SimplexMap(points, images[: len(points)], cells, images[len(points) :], three.names)


def _function(mapping: Any) -> tuple[Callable[[Matrix], Any], AnyArray]:
    """Return a map as a function of rows of probabilities, with its class labels."""
    if isinstance(mapping, Calibrator):
        check_is_fitted(mapping)
        raw = mapping.traits.uses_raw_logits and mapping.space_ == "logits"

        def calibrated(rows: Matrix) -> Any:
            parsed = Predictions.from_logits(np.log(rows)) if raw else Predictions.from_probabilities(rows)
            return mapping.predict_proba(parsed)

        return calibrated, mapping.classes_
    if isinstance(mapping, SyntheticTask):
        return mapping.true_probabilities, np.arange(mapping.n_classes)
    if isinstance(mapping, CalibrationMap):
        return mapping, np.arange(mapping.n_classes or 3)
    if callable(mapping):
        return mapping, np.arange(3)
    raise ParameterError(
        "a map must be a fitted calibrator, a synthetic task or a function of rows of probabilities, "
        f"not a {type(mapping).__name__}."
    )


def _checked(images: Any, n_classes: int) -> Matrix:
    rows = real_array(images)
    # Written so that NaN is rejected too.
    if (
        rows is None
        or rows.ndim != 2
        or rows.shape[1] != n_classes
        or not (rows.min() >= -TOLERANCE and np.abs(rows.sum(axis=1) - 1).max() <= TOLERANCE)
    ):
        raise ParameterError(
            f"a map must return {n_classes} non-negative probabilities per row that sum to 1."
        )
    return rows


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
        mapping, classes, n_arrows, n_cells, others
            As in :func:`~calibrant.plots.simplex_map`.
        title : str, optional
            Title of the plot; by default the type of the map.
        """
        numbers = simplex_map(mapping, classes=classes, n_arrows=n_arrows, n_cells=n_cells, others=others)
        return cls(numbers, type(mapping).__name__ if title is None else title)

    def columns(self) -> dict[str, AnyArray]:
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


class SimplexMapComparisonDisplay(Display):
    """Plot of calibration maps of the same three classes side by side, such as the true map and a fitted calibrator.

    Parameters
    ----------
    numbers : dict of str to SimplexMap
        Maps by name, in the order of the plots.

    Attributes
    ----------
    axes_ : list
        One axes per map and one for the colour key, set by :meth:`plot`; ``ax_`` is the first.
    figure_
        The figure.

    Examples
    --------
    >>> from calibrant.synthetic import IdentityMap, TemperatureMap
    >>> display = SimplexMapComparisonDisplay.from_maps({"truth": TemperatureMap(2.0), "identity": IdentityMap()})
    >>> round(display.distance("truth", "identity"), 3)
    0.083
    """

    def __init__(self, numbers: Mapping[str, SimplexMap]) -> None:
        self.numbers = dict(numbers)

    @classmethod
    def from_maps(
        cls,
        maps: Mapping[str, Any],
        *,
        classes: Any = None,
        n_arrows: int = 10,
        n_cells: int = 60,
        others: float = 0.01,
    ) -> Self:
        """Create the display from a dict of maps: fitted calibrators, synthetic tasks or functions.

        The other parameters are those of :meth:`~calibrant.plots.SimplexMapDisplay.from_map`.
        """
        if not isinstance(maps, Mapping) or not maps:
            raise ParameterError("maps must be a dictionary with at least one map.")
        numbers = {
            str(name): simplex_map(
                mapping, classes=classes, n_arrows=n_arrows, n_cells=n_cells, others=others
            )
            for name, mapping in maps.items()
        }
        named = [one.names for one in numbers.values()]
        different = [name for name, names in zip(numbers, named, strict=True) if names != named[0]]
        if different:
            raise ParameterError(
                f"maps must have the same classes, but {different[0]!r} has {', '.join(numbers[different[0]].names)} "
                f"and the first one {', '.join(named[0])}."
            )
        return cls(numbers)

    def distance(self, first: str, second: str) -> float:
        """Return the mean absolute difference of two maps, over the area of the simplex and the classes."""
        for name in (first, second):
            if name not in self.numbers:
                raise ParameterError(
                    f"there is no map {name!r}; the maps are {', '.join(map(repr, self.numbers))}."
                )
        return float(np.abs(self.numbers[first].cell_images - self.numbers[second].cell_images).mean())

    def columns(self) -> dict[str, AnyArray]:
        """Return p and c(p) of all maps in long format, with the name of the map."""
        parts = {name: one.columns() for name, one in self.numbers.items()}
        sizes = [len(part["part"]) for part in parts.values()]
        joined = {
            key: np.concatenate([part[key] for part in parts.values()]) for key in next(iter(parts.values()))
        }
        return {"map": np.repeat(list(parts), sizes), **joined}

    def plot(
        self, ax: Any = None, *, arrows: bool = True, colours: bool = True, palette: Palette = "rgb"
    ) -> Self:
        """Plot in place of the given axes, on one axes per map and one for the key, or on a new figure."""
        n_maps = len(self.numbers)
        widths = [1.0] * n_maps + [0.3]
        self.axes_, self.figure_ = panels(ax, (4.4 * n_maps + 1.4, 4.9), widths=widths)
        self.ax_ = self.axes_[0]
        for axes, (name, numbers) in zip(self.axes_[:-1], self.numbers.items(), strict=True):
            SimplexMapDisplay(numbers, name).plot(
                axes, arrows=arrows, colours=colours, palette=palette, key=False
            )
        names = next(iter(self.numbers.values())).names
        if colours:
            draw_colour_key(self.axes_[-1], names, palette)
        else:
            self.axes_[-1].set_axis_off()
        return self
