"""KernelWeightsDisplay: weights of kernel calibration around one prediction."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays import AnyArray, Matrix, Vector
from calibrant.calibrators.neighbourhood.kernel import KernelCalibration, SimplexKernel, kernel_values
from calibrant.errors import ParameterError
from calibrant.options import check_choice, check_whole
from calibrant.plots.display import Display, new_axes
from calibrant.plots.simplex.triangle import ThreeClasses, draw_cells, draw_triangle, planar, triangle_cells
from calibrant.plots.style import INK, LABEL_SIZE, SERIES, TITLE_SIZE
from calibrant.predictions import Predictions

__all__ = ["KernelWeightsDisplay"]


# Largest number of calibration rows that are drawn, those with the largest weights.
MAX_ROWS = 1000


@dataclass(eq=False, repr=False)
class KernelWeightsDisplay(Display):
    r"""Plot of the kernel weights of kernel calibration on the simplex, around one prediction.

    .. math:: \frac{K(\hat p, q)}{\max_{q'} K(\hat p, q')}

    for all q; as in figure 11 of :cite:`valk2022`. For a fitted calibrator the calibration rows are shown too, with areas
    proportional to their weights :math:`w_i K(\hat p, \hat p_i)`, which sum to one, and their effective sample size
    :math:`1 / \sum_i w_i^2`.

    Parameters
    ----------
    cells : ndarray of shape (c, 3, 3)
        Corners of small triangles, each a row of three probabilities.
    values : ndarray of shape (c,)
        Kernel at the centre of each, relative to the largest.
    point : ndarray of shape (3,)
        The prediction at the centre of the kernel, conditional on the three classes.
    rows : ndarray of shape (u, 3)
        Calibration rows; none without a fitted calibrator.
    weights : ndarray of shape (u,)
        Their weights.
    names : tuple of str
        The three classes.
    title : str
        Title of the plot.

    Examples
    --------
    >>> display = KernelWeightsDisplay.from_kernel([0.75, 0.2, 0.05], kernel="rbf", bandwidth=30.0)
    >>> float(display.values.max()), display.effective_rows
    (1.0, 0.0)
    """

    cells: Matrix
    values: Vector
    point: Vector
    rows: Matrix
    weights: Vector
    names: tuple[str, ...]
    title: str = "Kernel weights"

    @classmethod
    def from_kernel(
        cls,
        point: Any,
        *,
        kernel: SimplexKernel = "dirichlet",
        bandwidth: float = 0.1,
        centre: str = "prediction",
        classes: Any = None,
        n_cells: int = 80,
    ) -> Self:
        r"""Create the display from a kernel and one prediction, without a fitted calibrator.

        Parameters
        ----------
        point : array of shape (K,)
            The prediction; with more than three classes, the other probabilities are fixed.
        kernel : {"dirichlet", "rbf"}, default="dirichlet"
            Type of kernel.
        bandwidth : float, default=0.1
            h of the Dirichlet kernel, :math:`\gamma` of the other.
        centre : {"prediction", "calibration"}, default="prediction"
            Whether the mode of the Dirichlet kernel is at the point, or at each of the other predictions.
        classes : sequence of three column numbers, optional
            The three classes, in the order left, right, top; required if there are more than three.
        n_cells : int, default=80
            Number of cells along a side; in total its square.
        """
        row = _one_row(point)
        three = ThreeClasses.of(np.arange(row.shape[1]), classes)
        nothing = np.empty((0, row.shape[1]))
        return cls._around(row, three, kernel, bandwidth, centre, n_cells, nothing, np.empty(0))

    @classmethod
    def from_estimator(cls, estimator: Any, point: Any, *, classes: Any = None, n_cells: int = 80) -> Self:
        """Create the display from a fitted :class:`~calibrant.KernelCalibration`, with its calibration rows."""
        if not isinstance(estimator, KernelCalibration):
            raise ParameterError(
                f"kernel weights need a fitted KernelCalibration, not a {type(estimator).__name__}."
            )
        check_is_fitted(estimator)
        row = _one_row(point)
        if row.shape[1] != len(estimator.classes_):
            raise ParameterError(
                f"point must have one probability for each of {len(estimator.classes_)} classes, not {row.shape[1]}."
            )
        if estimator.present_columns_ is not None:
            raise ParameterError(
                "some classes had no calibration rows, so the kernel is only for the others; fit it to rows of all classes."
            )
        three = ThreeClasses.of(estimator.classes_, classes)
        return cls._around(
            row,
            three,
            estimator.kernel,
            estimator.bandwidth_,
            estimator.centre,
            n_cells,
            estimator.points_.astype(np.float64),
            estimator.point_weights_,
        )

    @classmethod
    def _around(
        cls,
        row: Matrix,
        three: ThreeClasses,
        kernel: SimplexKernel,
        bandwidth: float,
        centre: str,
        n_cells: int,
        rows: Matrix,
        row_weights: Vector,
    ) -> Self:
        check_choice("centre", centre, ("prediction", "calibration"))
        check_whole("n_cells", n_cells)
        cells = triangle_cells(n_cells)
        everywhere = three.embedded(cells.mean(axis=1), row[0])

        def relative(others: Matrix) -> Vector:
            """Return the kernel relative to its largest value; computed from logarithms, so that it is never zero."""
            first, second = (row, others) if centre == "prediction" or kernel == "rbf" else (others, row)
            logarithms = kernel_values(first, second, kernel, bandwidth, logarithms=True).ravel()
            highest = logarithms.max()
            return np.exp(logarithms - highest) if np.isfinite(highest) else np.zeros(len(others))

        weights = row_weights * relative(rows) if len(rows) else np.empty(0)
        total = weights.sum()
        title = f"{'Dirichlet kernel, h' if kernel == 'dirichlet' else 'RBF kernel, γ'} = {bandwidth:g}"
        return cls(
            cells,
            relative(everywhere),
            three.restricted(row)[0],
            three.restricted(rows),
            weights / total if total > 0 else weights,
            three.names,
            title,
        )

    @property
    def effective_rows(self) -> float:
        """Effective sample size of the weighted calibration rows; zero without any."""
        squares = float(np.square(self.weights).sum())
        return 1 / squares if squares > 0 else 0.0

    def columns(self) -> dict[str, AnyArray]:
        """Return the centres of cells with the kernel, then calibration rows with their weights."""
        places = np.vstack([self.cells.mean(axis=1), self.rows])
        parts = np.repeat(["cell", "row"], [len(self.cells), len(self.rows)])
        named = {f"p_{name}": places[:, number] for number, name in enumerate(self.names)}
        return {"part": parts, **named, "weight": np.concatenate([self.values, self.weights])}

    def plot(self, ax: Any = None) -> Self:
        self.ax_, self.figure_ = new_axes(ax, (5.9, 5.0))
        from matplotlib import colormaps
        from matplotlib.cm import ScalarMappable

        colours = colormaps["YlGnBu"]
        draw_triangle(self.ax_, self.names, lines=False)
        draw_cells(self.ax_, self.cells, colours(self.values))
        title = self.title
        if len(self.rows):
            heaviest = np.argsort(self.weights, kind="stable")[-MAX_ROWS:]
            areas = 9 * self.weights[heaviest] / max(float(self.weights.max()), np.finfo(np.float64).tiny)
            x, y = planar(self.rows[heaviest]).T
            self.ax_.scatter(x, y, np.maximum(areas, 0.5), color=INK, alpha=0.75, linewidth=0)
            title = (
                f"{title}\n{len(self.rows)} calibration rows, effective sample size {self.effective_rows:.0f}"
            )
        self.ax_.plot(
            *planar(self.point), marker="X", markersize=11, color=SERIES[1], markeredgecolor="white", zorder=4
        )
        bar = self.figure_.colorbar(
            ScalarMappable(cmap=colours), ax=self.ax_, shrink=0.6, label="weight, relative to the largest"
        )
        bar.ax.tick_params(labelsize=LABEL_SIZE - 1)
        self.ax_.set_title(title, fontsize=TITLE_SIZE, color=INK)
        return self


def _one_row(point: Any) -> Matrix:
    """Return one prediction as a matrix with one row."""
    row = np.asarray(point.probabilities if isinstance(point, Predictions) else point)
    row = row[np.newaxis] if row.ndim == 1 else row
    if row.ndim != 2 or len(row) != 1 or row.shape[1] < 2:
        raise ParameterError(
            f"point must be one prediction, such as [0.75, 0.2, 0.05], not of shape {row.shape}."
        )
    return Predictions.from_probabilities(row).probabilities.astype(np.float64)
