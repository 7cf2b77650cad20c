"""LinearMapDisplay: heat map of the weights of a matrix map, with the change of the confusion matrix."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays import AnyArray, Matrix
from calibrant.calibrators.scaling.dirichlet import DirichletCalibration
from calibrant.calibrators.scaling.matrix import MatrixScaling
from calibrant.calibrators.scaling.vector import VectorScaling
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.options import check_choice
from calibrant.plots.display import Display, panels
from calibrant.plots.style import INK, LABEL_SIZE, TITLE_SIZE
from calibrant.predictions import Predictions
from calibrant.presentation.sentences import shortened

__all__ = ["ConfusionChange", "LinearMapDisplay"]


# Purple and orange are safe for colour blindness; white is zero.
COLOURS = "PuOr_r"

NUMBER_SIZE, MIN_NUMBER_SIZE = 9.0, 6.5
"""Font size of numbers in cells in points, and the smallest that is shown."""

MAX_NAMES = 20
WIDTH_OF_A_DIGIT = 0.62  # of the size of the font


def colour_limit(matrix: Matrix, spare_diagonal: bool = True) -> float:
    """Return the end of the colour scale: the largest off-diagonal entry, or the largest of all if those are zero."""
    off = matrix
    if spare_diagonal and matrix.shape[0] == matrix.shape[1]:
        off = matrix[~np.eye(len(matrix), dtype=bool)]
    largest = float(np.abs(off).max(initial=0.0)) or float(np.abs(matrix).max(initial=0.0))
    return largest or 1.0


def thinned(names: Sequence[str]) -> list[int]:
    """Return the indices of the names to show: all, or every second, fifth, tenth, ...

    >>> thinned([str(k) for k in range(100)])
    [0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95]
    """
    step, factors = 1, [2, 2.5, 2]
    while -(-len(names) // step) > MAX_NAMES:
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
        short = [shortened(names[place], 12) for place in places]
        turned = angle if max(map(len, short)) > 3 else 0
        axis.set_ticks(places, labels=short, rotation=turned, fontsize=LABEL_SIZE - 1.5)
        axis.set_tick_params(length=0 if len(places) == len(names) else 2)
    if min(matrix.shape) <= MAX_NAMES:
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
    if 0.8 * height < MIN_NUMBER_SIZE:
        return
    texts = [[_number(entry, digits) for entry in row] for row in matrix]
    longest = max(1, *(len(text) for row in texts for text in row))
    size = min(NUMBER_SIZE, 0.92 * width / (WIDTH_OF_A_DIGIT * longest), 0.8 * height)
    if size < MIN_NUMBER_SIZE:
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


@dataclass(frozen=True, eq=False)
class ConfusionChange:
    """Two confusion matrices of the same rows.

    Attributes
    ----------
    before, after : ndarray of shape (K, K)
        Weight of rows by true class (rows) and predicted class (columns).

    Examples
    --------
    >>> data = LabelledPredictions.parse([[0.6, 0.4], [0.3, 0.7]], [1, 1])
    >>> change = ConfusionChange.of(data, Predictions.from_probabilities([[0.4, 0.6], [0.2, 0.8]]))
    >>> change.change
    array([[ 0., 0.], [-1., 1.]])
    """

    before: Matrix
    after: Matrix

    @classmethod
    def of(cls, data: LabelledPredictions, calibrated: Predictions) -> Self:
        """Compute both confusion matrices from predictions before and after calibration."""
        return cls(_confusion(data, data.predictions.predicted), _confusion(data, calibrated.predicted))

    @property
    def change(self) -> Matrix:
        """Difference after minus before, (K, K); rows sum to zero, since true classes are the same."""
        return self.after - self.before

    @property
    def accuracy(self) -> tuple[float, float]:
        """Accuracy before and after calibration."""
        total = self.before.sum()
        return float(np.trace(self.before) / total), float(np.trace(self.after) / total)


def _confusion(data: LabelledPredictions, predicted: AnyArray) -> Matrix:
    size = data.n_classes
    counts = np.bincount(data.labels * size + predicted, data.weights, minlength=size * size)
    return counts.reshape(size, size).astype(np.float64)


Form = Literal["linear", "canonical"]


class LinearMapDisplay(Display):
    r"""Heat map of the matrix W and the intercepts b of :math:`\mathrm{softmax}(W x + b)`, or of the canonical A and c.

    If rows are given, a second heat map shows the change of the confusion matrix; as in figures 2b and 2c of
    :cite:`kull2019`. A positive :math:`w_{ij}` means that evidence for class j is evidence for class i. The colour scale ends
    at the largest off-diagonal weight; most of the diagonal is beyond it. Numbers are shown if they fit.

    Parameters
    ----------
    weights : ndarray of shape (K, K)
        W or A.
    intercept : ndarray of shape (K,)
        b or c.
    names : tuple of str
        Classes of the map.
    form : {"linear", "canonical"}
        Whether the parameters are W and b, or A and c.
    confusion : ConfusionChange or None
        Confusion matrices before and after.
    all_names : tuple of str, optional
        Classes of the confusion matrices, if some are not part of the map since they had no calibration rows.

    Attributes
    ----------
    axes_ : list
        Axes of weights, intercepts and, with rows, the change of the confusion matrix, set by :meth:`plot`; ``ax_`` is the
        first.
    figure_
        The figure.

    Examples
    --------
    >>> p = [[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.3, 0.6, 0.1], [0.5, 0.2, 0.3]] * 20
    >>> y = [0, 1, 1, 0, 2] * 20
    >>> fitted = DirichletCalibration(reg_lambda=0.1, reg_mu=0.01).fit(p, y)
    >>> display = LinearMapDisplay.from_estimator(fitted, p, y)
    >>> display.confusion.change
    array([[ 0., 0.,  0.], [ 0., 0.,  0.], [-20., 0., 20.]])
    """

    def __init__(
        self,
        weights: Matrix,
        intercept: Matrix,
        names: tuple[str, ...],
        form: Form = "linear",
        confusion: ConfusionChange | None = None,
        all_names: tuple[str, ...] | None = None,
    ) -> None:
        self.weights = weights
        self.intercept = intercept
        self.names = names
        self.form = form
        self.confusion = confusion
        self.all_names = names if all_names is None else all_names

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        y: Any = None,
        *,
        sample_weight: Any = None,
        form: Form | None = None,
    ) -> Self:
        """Create the display from a fitted calibrator, optionally with rows for the confusion matrices.

        Parameters
        ----------
        estimator : DirichletCalibration, MatrixScaling or VectorScaling
            The fitted calibrator; if models of folds are averaged, their mean is shown.
        X, y : optional
            Predictions before calibration and true classes.
        sample_weight : array of shape (n,), optional
            Weights of these rows.
        form : {"linear", "canonical"}, optional
            W and b, or the canonical A and c, which are unique; by default the latter for Dirichlet maps.
        """
        if not isinstance(estimator, DirichletCalibration | MatrixScaling | VectorScaling):
            raise ParameterError(
                "a heat map of weights needs a DirichletCalibration, MatrixScaling or VectorScaling, "
                f"not a {type(estimator).__name__}."
            )
        check_is_fitted(estimator)
        if (X is None) != (y is None):
            raise ParameterError(
                "the confusion matrix needs predictions and true classes; pass both X and y."
            )
        is_dirichlet = isinstance(estimator, DirichletCalibration)
        form = ("canonical" if is_dirichlet else "linear") if form is None else form
        check_choice("form", form, ("linear", "canonical"))
        if isinstance(estimator, DirichletCalibration) and form == "canonical":
            weights, intercept = estimator.canonical()
        elif form == "canonical":
            raise ParameterError("only Dirichlet maps have a canonical form; use form='linear'.")
        else:
            weights, intercept = estimator.weights_, estimator.intercept_
        weights = np.diag(weights) if weights.ndim == 1 else weights
        everything = tuple(str(label) for label in estimator.classes_.tolist())
        columns = estimator.present_columns_
        names = everything if columns is None else tuple(everything[column] for column in columns)
        confusion = None
        if X is not None:
            data = LabelledPredictions.parse(X, y, sample_weight)
            confusion = ConfusionChange.of(data, estimator.transform(data.predictions))
        return cls(weights, intercept, names, form, confusion, everything)

    def columns(self) -> dict[str, AnyArray]:
        """Return one row per pair of classes: the weight and, with rows, both counts and their difference.

        ``row`` is the class of the output or the true class, ``column`` the class of the input or the predicted class.
        """
        n_all = len(self.all_names)
        places = [self.all_names.index(name) for name in self.names]
        weights, intercept = np.full((n_all, n_all), np.nan), np.full(n_all, np.nan)
        weights[np.ix_(places, places)], intercept[places] = self.weights, self.intercept
        names = np.array(self.all_names)
        columns: dict[str, AnyArray] = {
            "row": np.repeat(names, n_all),
            "column": np.tile(names, n_all),
            "weight": weights.ravel(),
            "intercept_of_row": np.repeat(intercept, n_all),
        }
        if self.confusion is not None:
            columns["count_before"] = self.confusion.before.ravel()
            columns["count_after"] = self.confusion.after.ravel()
            columns["change"] = self.confusion.change.ravel()
        return columns

    def plot(self, ax: Any = None) -> Self:
        """Plot in place of the given axes, on two or three axes, or on a new figure; return self."""
        n_classes = len(self.all_names)
        side = float(np.clip(0.42 * n_classes, 3.6, 6.0))
        strip = float(np.clip(1.2 / n_classes, 0.07, 0.25))
        widths = [1.0, strip] if self.confusion is None else [1.0, strip, 1.0]
        size = (side * sum(widths) + 1.2 * (len(widths) - 1), side + 1.0)
        self.axes_, self.figure_ = panels(ax, size, widths=widths)
        self.ax_ = self.axes_[0]
        self._draw_weights()
        if self.confusion is not None:
            self._draw_change(self.axes_[2], self.confusion)
        return self

    def _draw_weights(self) -> None:
        main, strip = self.axes_[:2]
        canonical = self.form == "canonical"
        limit = colour_limit(self.weights)
        image = draw_heat_map(main, self.weights, self.names, self.names, limit=limit)
        below, above = bool(self.weights.min() < -limit), bool(self.weights.max() > limit)
        extend = {(True, True): "both", (True, False): "min", (False, True): "max"}.get(
            (below, above), "neither"
        )
        bar = self.figure_.colorbar(
            image, ax=main, location="bottom", shrink=0.8, pad=0.02, extend=extend, label="weight"
        )
        bar.ax.tick_params(labelsize=LABEL_SIZE - 1.5)
        if canonical:
            bar.ax.set_xlim(0, limit)  # no entry is negative
        main.set_xlabel("class of the input", fontsize=LABEL_SIZE)
        main.set_ylabel("class of the output", fontsize=LABEL_SIZE)
        symbol, offset = ("A", "c") if canonical else ("W", "b")
        main.set_title(f"Weights {symbol}", fontsize=TITLE_SIZE, color=INK)
        own = self.intercept[:, np.newaxis]
        draw_heat_map(strip, own, self.names, [""], limit=colour_limit(own, spare_diagonal=False))
        strip.set_yticks([])
        strip.set_title(offset, fontsize=TITLE_SIZE, color=INK)

    def _draw_change(self, ax: Any, confusion: ConfusionChange) -> None:
        change = confusion.change
        # Cells without a change are empty, so that changes stand out.
        shown = np.where(change == 0, np.nan, change)
        integers = bool((change == np.rint(change)).all())
        limit = colour_limit(change, spare_diagonal=False)
        image = draw_heat_map(
            ax, shown, self.all_names, self.all_names, limit=limit, digits=0 if integers else 1
        )
        bar = self.figure_.colorbar(image, ax=ax, location="bottom", shrink=0.8, pad=0.02, label="rows")
        bar.ax.tick_params(labelsize=LABEL_SIZE - 1.5)
        before, after = confusion.accuracy
        ax.set_xlabel("predicted class", fontsize=LABEL_SIZE)
        ax.set_ylabel("true class", fontsize=LABEL_SIZE)
        ax.set_title(
            f"Change of the confusion matrix\naccuracy {100 * before:.2f} % → {100 * after:.2f} %",
            fontsize=TITLE_SIZE,
            color=INK,
        )
