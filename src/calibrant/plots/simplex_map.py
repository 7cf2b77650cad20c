"""SimplexMap: a calibration map evaluated on grids of the simplex."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays import Matrix
from calibrant.calibrator import Calibrator
from calibrant.errors import ParameterError
from calibrant.options import check_share, check_whole, real_array
from calibrant.plots.simplex_points import arrow_points, triangle_cells
from calibrant.plots.three_classes import ThreeClasses
from calibrant.predictions import Predictions
from calibrant.synthetic import CalibrationMap, SyntheticTask
from calibrant.tabular import Tabular

__all__ = ["SimplexMap", "simplex_map"]


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

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return both grids in long format: arrows, then cells."""
        parts = np.repeat(["arrow", "cell"], [len(self.points), len(self.cells)])
        before = np.vstack([self.points, self.cell_points])
        after = np.vstack([self.images, self.cell_images])
        columns: dict[str, NDArray[Any]] = {"part": parts}
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


def _function(mapping: Any) -> tuple[Callable[[Matrix], Any], NDArray[Any]]:
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
