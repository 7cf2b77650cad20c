"""ClassProbabilityBoxDisplay: box plots of class probabilities by true class."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from calibrant.arrays import AnyArray, IntArray, Matrix, Vector
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.plots.display import PredictionDisplay, new_axes
from calibrant.plots.simplex.triangle import class_columns
from calibrant.plots.style import FAINT, INK, LABEL_SIZE, SERIES, TITLE_SIZE
from calibrant.shared_parameters import documented

__all__ = ["BoxStatistics", "ClassProbabilityBoxDisplay"]


SHARES = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
# Factor of the notch for the median of a normal distribution (McGill, Tukey and Larsen 1978).
NOTCH = 1.57


def weighted_quantile(values: Matrix, shares: Vector, weights: Vector | None = None) -> Matrix:
    """Return weighted quantiles of every column, (q, c): the smallest value with at least that cumulative weight.

    If the cumulative weight is met exactly, the mean with the next value, as for the median of two.

    >>> weighted_quantile(np.array([[1.0], [3.0], [7.0]]), np.array([0.25, 0.5]))
    array([[1.], [3.]])
    >>> weighted_quantile(np.array([[1.0], [3.0]]), np.array([0.5]), np.array([2.0, 2.0]))
    array([[2.]])
    """
    order = np.argsort(values, axis=0, kind="stable")
    ordered = np.take_along_axis(values, order, axis=0)
    own = np.ones(len(values)) if weights is None else weights
    reached = np.cumsum(own[order], axis=0)
    reached /= reached[-1]
    found = np.empty((len(shares), values.shape[1]))
    for column in range(values.shape[1]):
        # Allow for rounding, so that a cumulative weight that is met exactly is not missed.
        low = np.searchsorted(reached[:, column], shares * (1 - 1e-12), side="left")
        high = np.searchsorted(reached[:, column], shares * (1 + 1e-12), side="right")
        last = len(values) - 1
        found[:, column] = (
            ordered[np.minimum(low, last), column] + ordered[np.minimum(high, last), column]
        ) / 2
    return found


@dataclass(frozen=True, eq=False)
class BoxStatistics:
    """Distribution of the probability of every class, by true class.

    The first axis is the true class, the second the class of the probability; NaN for true classes without rows.

    Attributes
    ----------
    low, lower_quartile, median, upper_quartile, high : ndarray of shape (T, C)
        Quantiles at 5, 25, 50, 75 and 95 %.
    notch : ndarray of shape (T, C)
        Half of the width of an approximate 95 % interval of the median.
    mean, deviation : ndarray of shape (T, C)
        Mean and standard deviation.
    count : ndarray of shape (T,)
        Number of rows of every true class.
    """

    low: Matrix
    lower_quartile: Matrix
    median: Matrix
    upper_quartile: Matrix
    high: Matrix
    notch: Matrix
    mean: Matrix
    deviation: Matrix
    count: IntArray

    @classmethod
    def of(cls, data: LabelledPredictions, columns: IntArray) -> Self:
        """Compute the statistics for some of the classes; the cost is a sort per column."""
        size = len(columns)
        quantiles, means = np.full((5, size, size), np.nan), np.full((2, size, size), np.nan)
        effective, count = np.zeros(size), np.zeros(size, dtype=np.intp)
        for place, column in enumerate(columns):
            rows = np.flatnonzero(data.labels == column)
            count[place] = len(rows)
            if len(rows) == 0:
                continue
            chosen = data.predictions.take(rows).probabilities[:, columns].astype(np.float64)
            weights = None if data.weights is None else data.weights[rows]
            effective[place] = len(rows) if weights is None else weights.sum() ** 2 / np.square(weights).sum()
            quantiles[:, place] = weighted_quantile(chosen, SHARES, weights)
            means[0, place] = np.average(chosen, axis=0, weights=weights)
            means[1, place] = np.sqrt(np.average((chosen - means[0, place]) ** 2, axis=0, weights=weights))
        notch = NOTCH * (quantiles[3] - quantiles[1]) / np.sqrt(np.maximum(effective, 1.0))[:, np.newaxis]
        low, lower_quartile, median, upper_quartile, high = quantiles
        mean, deviation = means
        return cls(low, lower_quartile, median, upper_quartile, high, notch, mean, deviation, count)


# Default classes: all up to the first number, else the second number of worst classes.
MAX_CLASSES, N_WORST = 10, 6
HATCHES = ("", "///", "...", "\\\\\\", "xxx", "+++", "ooo", "---", "***", "|||")


@dataclass(eq=False, repr=False)
class ClassProbabilityBoxDisplay(PredictionDisplay):
    """Box plots of the probability of every class, grouped by true class.

    In each group, the box of the true class should be the highest. Whiskers are the 5 % and 95 % quantiles, the notch is an
    approximate 95 % interval of the median, and the bar beside the box is the mean plus and minus one standard deviation;
    as in figure 3 of the supplement of :cite:`kull2019`.

    Parameters
    ----------
    statistics : BoxStatistics
        Data of the plot.
    names : tuple of str
        The classes.
    title : str
        Title of the plot.

    Examples
    --------
    >>> p = [[0.7, 0.2, 0.1], [0.5, 0.3, 0.2], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6]]
    >>> display = ClassProbabilityBoxDisplay.from_predictions([0, 0, 1, 2], p)
    >>> display.statistics.median[0].round(3), display.statistics.count
    (array([0.6 , 0.25, 0.15]), array([2, 1, 1]))
    """

    statistics: BoxStatistics
    names: tuple[str, ...]
    title: str = "Probabilities by true class"

    @classmethod
    @documented
    def from_predictions(
        cls,
        y_true: Any,
        y_proba: Any,
        *,
        sample_weight: Any = None,
        classes: Any = None,
        title: str | None = None,
    ) -> Self:
        """Create the display from predictions and true classes.

        Parameters
        ----------
        sample_weight : array of shape (n,), optional
            Sample weights; a weight of two equals a duplicated row.
        classes : sequence of labels, optional
            Classes to show. By default all classes up to ten, else the six with the lowest mean probability of the true
            class.
        title : str, optional
            Title of the plot.
        """
        data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
        columns = _worst(data) if classes is None else class_columns(data.classes, classes)
        names = tuple(str(label) for label in data.classes[columns].tolist())
        full_title = "Probabilities by true class" if title is None else title
        if classes is None and len(columns) < data.n_classes:
            full_title = f"{full_title}, the {len(columns)} worst of {data.n_classes} classes"
        return cls(BoxStatistics.of(data, columns), names, full_title)

    def columns(self) -> dict[str, AnyArray]:
        """Return one row per box: true class, class, quantiles, notch, mean and standard deviation."""
        size = len(self.names)
        columns: dict[str, AnyArray] = {
            "true_class": np.repeat(np.array(self.names), size),
            "class": np.tile(np.array(self.names), size),
            "count": np.repeat(self.statistics.count, size),
        }
        values = vars(self.statistics)
        return columns | {name: value.ravel() for name, value in values.items() if name != "count"}

    def plot(self, ax: Any = None) -> Self:
        size = len(self.names)
        self.ax_, self.figure_ = new_axes(ax, (float(np.clip(1.2 + 0.26 * size * (size + 1), 5.5, 15)), 4.2))
        from matplotlib.patches import Patch

        width = 0.8 / size
        places = np.arange(size)[:, np.newaxis] + (np.arange(size) - (size - 1) / 2) * width
        for number in range(size):
            self._draw_boxes(number, places[:, number], width)
        for edge in range(1, size):
            self.ax_.axvline(edge - 0.5, color=FAINT, linewidth=0.8)
        labels = [f"{name}\n{count}" for name, count in zip(self.names, self.statistics.count, strict=True)]
        self.ax_.set_xticks(range(size), labels=labels, fontsize=LABEL_SIZE - 0.5)
        self.ax_.tick_params(axis="x", length=0)
        self.ax_.set(xlim=(-0.5, size - 0.5), ylim=(-0.02, 1.02))
        self.ax_.set_xlabel("true class and number of rows", fontsize=LABEL_SIZE)
        self.ax_.set_ylabel("probability", fontsize=LABEL_SIZE)
        self.ax_.set_title(self.title, fontsize=TITLE_SIZE, color=INK)
        handles = [Patch(**_style(number), label=name) for number, name in enumerate(self.names)]
        self.ax_.legend(
            handles=handles,
            title="probability of",
            loc="upper left",
            bbox_to_anchor=(1.0, 1.0),
            frameon=False,
            fontsize=LABEL_SIZE - 1,
        )
        return self

    def _draw_boxes(self, number: int, places: Vector, width: float) -> None:
        """Draw the boxes of one class in all groups, with mean and standard deviation to their right."""
        one = self.statistics
        filled = np.flatnonzero(one.count)
        boxes = [
            {
                "whislo": one.low[group, number],
                "q1": one.lower_quartile[group, number],
                "med": one.median[group, number],
                "q3": one.upper_quartile[group, number],
                "whishi": one.high[group, number],
                # matplotlib folds a notch that exceeds the box.
                "cilo": max(
                    one.median[group, number] - one.notch[group, number], one.lower_quartile[group, number]
                ),
                "cihi": min(
                    one.median[group, number] + one.notch[group, number], one.upper_quartile[group, number]
                ),
            }
            for group in filled
        ]
        style = _style(number)
        self.ax_.bxp(
            boxes,
            positions=places[filled] - 0.1 * width,
            widths=0.62 * width,
            shownotches=True,
            showfliers=False,
            showcaps=False,
            patch_artist=True,
            manage_ticks=False,
            boxprops=style,
            medianprops={"color": INK, "linewidth": 1.6},
            whiskerprops={"color": style["edgecolor"], "linewidth": 1.0},
        )
        self.ax_.errorbar(
            places[filled] + 0.34 * width,
            one.mean[filled, number],
            yerr=one.deviation[filled, number],
            fmt="o",
            markersize=3,
            color=INK,
            elinewidth=1.0,
        )


def _style(number: int) -> dict[str, Any]:
    """Return colour and hatching of the boxes of one class; colours repeat after seven, hatchings after ten."""
    from matplotlib.colors import to_rgb

    colour = np.array(to_rgb(SERIES[number % len(SERIES)]))
    pale = tuple((colour + 1.5) / 2.5)
    return {
        "facecolor": pale,
        "edgecolor": tuple(colour),
        "hatch": HATCHES[number % len(HATCHES)],
        "linewidth": 1.0,
    }


def _worst(data: LabelledPredictions) -> IntArray:
    """Return all columns, or those with the lowest mean probability of the true class if there are many."""
    if data.n_classes <= MAX_CLASSES:
        return np.arange(data.n_classes)
    own = data.predictions.probabilities[np.arange(data.n_rows), data.labels].astype(np.float64)
    weights = np.ones(data.n_rows) if data.weights is None else data.weights
    totals = data.class_weights
    sums = np.bincount(data.labels, weights * own, minlength=data.n_classes)
    means = np.divide(sums, totals, out=np.full(data.n_classes, np.inf), where=totals > 0)
    return np.sort(np.argsort(means, kind="stable")[:N_WORST])
