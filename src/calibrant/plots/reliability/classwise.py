"""Classwise reliability: reliability curves of single classes, the worst first, and their plot."""

from dataclasses import dataclass
from textwrap import fill
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import AnyArray, IntArray, Vector
from calibrant.binning import BinningScheme
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.binned_metric import Strategy, chosen_partition, chosen_scheme
from calibrant.options import check_choice, check_whole
from calibrant.plots.display import PredictionDisplay, panels
from calibrant.plots.event_rows import EventRows
from calibrant.plots.reliability.curve import Mode, ReliabilityCurve, reliability_of
from calibrant.plots.reliability.diagram import draw_bars, draw_frame, draw_intervals, intervals_in_words
from calibrant.plots.style import CAPTION_SIZE, INK, LABEL_SIZE, write_caption
from calibrant.presentation.sentences import counted, shortened
from calibrant.shared_parameters import documented
from calibrant.tabular import Tabular

__all__ = ["ClasswiseReliability", "ClasswiseReliabilityDisplay", "classwise_reliability"]


PerClass = Literal["classwise", "top-label"]
"""``"classwise"``: the probability of every class, in all rows. ``"top-label"``: the confidence of the rows that predict the
class."""


# 95 % quantile of the standard normal distribution.
ONE_SIDED = 1.6448536269514722


@dataclass(frozen=True, eq=False)
class ClasswiseReliability(Tabular):
    """Reliability curves of the worst classes, and calibration errors of all classes.

    Attributes
    ----------
    kind : str
        ``"classwise"`` or ``"top-label"``.
    n_rows, n_classes : int
        Number of rows and classes.
    labels : ndarray of shape (C,)
        Classes with rows to evaluate, the worst first.
    count : ndarray of shape (C,)
        Number of evaluated rows: all, or those that predict the class.
    happened : ndarray of shape (C,)
        Number of these rows whose true class it is.
    error : ndarray of shape (C,)
        Binned calibration error.
    noise, noise_high : ndarray of shape (C,)
        Mean and 95 % quantile of this error for calibrated predictions, with normal bin means.
    curves : tuple of ReliabilityCurve
        Curves of the first classes, up to the requested number.
    """

    kind: str
    n_rows: int
    n_classes: int
    labels: AnyArray
    count: IntArray
    happened: IntArray
    error: Vector
    noise: Vector
    noise_high: Vector
    curves: tuple[ReliabilityCurve, ...]

    @property
    def beyond_noise(self) -> NDArray[np.bool_]:
        """Whether the error of a class is significant at the 5 % level, for each class separately, (C,)."""
        return self.error > self.noise_high

    def columns(self) -> dict[str, AnyArray]:
        """Return one row per class, the worst first."""
        names = ("count", "happened", "error", "noise", "noise_high")
        values = {name: getattr(self, name) for name in names}
        excess = self.error - self.noise
        return {"label": self.labels, **values, "excess": excess, "beyond_noise": self.beyond_noise}

    def __repr__(self) -> str:
        return (
            f"ClasswiseReliability({self.kind}, {int(self.beyond_noise.sum())} of "
            f"{counted(len(self.labels), 'class')} beyond noise, {counted(self.n_rows, 'row')})"
        )


@documented
def classwise_reliability(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    kind: PerClass = "classwise",
    max_classes: int | None = 12,
    n_bins: int = 10,
    strategy: Strategy = "uniform",
    binning: BinningScheme | None = None,
    level: float = 0.95,
    mode: Mode = "confidence",
    random_state: int | np.random.Generator | None = 0,
) -> ClasswiseReliability:
    r"""Compute the reliability of every class, the worst classes first.

    Classes are sorted by their binned error minus its expected value under calibration,

    .. math::

        \sum_b \frac{W_b}{W} \, | \bar o_b - \bar s_b | - \sqrt{\frac{2}{\pi}} \sum_b \sigma_b, \qquad
        \sigma_b^2 = \frac{1}{W^2} \sum_{i \in b} w_i^2 s_i (1 - s_i) :

    The error alone would always put rare classes and small groups of rows first.

    Parameters
    ----------
    sample_weight : array of shape (n,), optional
        Sample weights; each row is one observation.
    kind : {"classwise", "top-label"}, default="classwise"
        The probability of every class in all rows :cite:`kull2019`, or the confidence of the rows that predict it
        :cite:`gupta2022`. The latter omits classes that are never predicted.
    max_classes : int or None, default=12
        Number of classes with curves; None for all. Errors are computed for all classes.
    n_bins : int, default=10
        Number of bins on [0, 1].
    strategy, binning, level, mode, random_state
        As for :func:`~calibrant.plots.reliability_curve`.

    Returns
    -------
    ClasswiseReliability
        With ``columns()`` and ``frame()``, one row per class. The cost is O(nK), and a sort of n numbers per curve.

    Examples
    --------
    >>> p = [[0.8, 0.1, 0.1]] * 100
    >>> found = classwise_reliability([0] * 60 + [1] * 30 + [2] * 10, p)
    >>> found.labels, found.error.round(6), found.beyond_noise
    (array([1, 0, 2]), array([0.2, 0.2, 0. ]), array([ True,  True, False]))
    """
    check_choice("kind", kind, get_args(PerClass))
    if max_classes is not None:
        check_whole("max_classes", max_classes)
    scheme = chosen_scheme(n_bins, strategy, binning)
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    if kind == "classwise":
        columns, every, choose = np.arange(data.n_classes), EventRows.every_class, EventRows.of_class
    else:
        columns = np.unique(data.predictions.predicted)
        every, choose = EventRows.every_predicted, EventRows.of_predicted
    found = [(rows.n_rows, int(rows.occurred.sum()), *_error_and_noise(rows, scheme)) for rows in every(data)]
    count, happened, error, mean, deviation = map(np.array, zip(*found, strict=True))
    # Rounding errors must not decide between ties.
    order = np.argsort(-(error - mean).round(12), kind="stable")
    shown = order if max_classes is None else order[:max_classes]
    return ClasswiseReliability(
        kind=kind,
        n_rows=data.n_rows,
        n_classes=data.n_classes,
        labels=data.classes[columns[order]],
        count=count[order],
        happened=happened[order],
        error=error[order],
        noise=mean[order],
        noise_high=(mean + ONE_SIDED * deviation)[order],
        curves=tuple(
            reliability_of(
                choose(data, int(columns[place])),
                scheme=scheme,
                level=level,
                mode=mode,
                n_resamples=0,
                random_state=random_state,
            )
            for place in shown
        ),
    )


def _error_and_noise(rows: EventRows, scheme: BinningScheme) -> tuple[float, float, float]:
    """Return the binned error, and its mean and standard deviation for calibrated predictions with normal bins."""
    partition = chosen_partition(scheme, rows.scores, rows.weights)
    bins = partition.bins(rows.scores, rows.occurred, rows.weights)
    scores = np.clip(rows.scores.astype(np.float64), 0.0, 1.0)
    masses = 1.0 if rows.weights is None else rows.weights / rows.data.total_weight
    scale = 1 / rows.n_rows if rows.weights is None else 1.0
    variance = np.bincount(
        partition.index(rows.scores), scores * (1 - scores) * (masses * scale) ** 2, bins.n_bins
    )
    # The absolute value of a standard normal variable has mean sqrt(2 / pi) and variance 1 - 2 / pi.
    mean = float(np.sqrt(2 / np.pi * variance).sum())
    return float(bins.share @ np.abs(bins.gap)), mean, float(np.sqrt((1 - 2 / np.pi) * variance.sum()))


# Longest label that fits into a title.
LONGEST_LABEL = 16

# In font sizes, below the panels.
LETTERS_PER_INCH = 14.5

# With more columns than this, panels omit text that would be too small to read.
COLUMNS_WITH_DETAIL = 6


class ClasswiseReliabilityDisplay(PredictionDisplay):
    """Grid of reliability diagrams, one per class, the worst first.

    Titles show the class and its calibration error. A star marks errors that are significant at the 5 % level, for each
    class separately: of a hundred calibrated classes about five have a star.

    Parameters
    ----------
    reliability : ClasswiseReliability
        Data of the plot.

    Attributes
    ----------
    axes_ : list
        The panels, after :meth:`plot`.
    ax_, figure_
        The first of them, and the figure.

    Examples
    --------
    >>> y, p = [0] * 60 + [1] * 30 + [2] * 10, [[0.8, 0.1, 0.1]] * 100
    >>> display = ClasswiseReliabilityDisplay.from_predictions(y, p)
    >>> display.columns()["label"].tolist(), display.columns()["beyond_noise"].tolist()
    ([1, 0, 2], [True, True, False])
    """

    axes_: list[Any]

    def __init__(self, reliability: ClasswiseReliability) -> None:
        self.reliability = reliability

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_proba: Any,
        *,
        sample_weight: Any = None,
        kind: PerClass = "classwise",
        max_classes: int | None = 12,
        n_bins: int = 10,
        strategy: Strategy = "uniform",
        binning: BinningScheme | None = None,
        level: float = 0.95,
        mode: Mode = "confidence",
        random_state: int | np.random.Generator | None = 0,
    ) -> Self:
        """Create the display from predictions and true classes; see :func:`~calibrant.plots.classwise_reliability`."""
        return cls(
            classwise_reliability(
                y_true,
                y_proba,
                sample_weight=sample_weight,
                kind=kind,
                max_classes=max_classes,
                n_bins=n_bins,
                strategy=strategy,
                binning=binning,
                level=level,
                mode=mode,
                random_state=random_state,
            )
        )

    def columns(self) -> dict[str, AnyArray]:
        """Return one row per class, the worst first, including classes without a panel."""
        return self.reliability.columns()

    def plot(self, ax: Any = None) -> Self:
        """Plot in place of the given axes, or in a new figure, and return self."""
        curves = self.reliability.curves
        n_columns = min(_n_columns(len(curves)), len(curves))
        n_lines = -(-len(curves) // n_columns)
        side = 2.0 if n_columns <= COLUMNS_WITH_DETAIL else 1.45
        width = max(side * n_columns + 0.5, 5.0)
        words = fill(self._sentences(), int((width - 0.5) * LETTERS_PER_INCH))
        height = (side + 0.22) * n_lines + 0.55 + 0.165 * (words.count("\n") + 1)
        axes, self.figure_ = panels(ax, (width, height), widths=[1.0] * n_columns, heights=[1.0] * n_lines)
        for place, panel in enumerate(axes):
            if place >= len(curves):
                panel.remove()
                continue
            self._panel(panel, place, curves[place], detailed=n_columns <= COLUMNS_WITH_DETAIL)
            # The lowest panel of a column may not be in the last row of the grid.
            panel.tick_params(labelbottom=place + n_columns >= len(curves), labelleft=place % n_columns == 0)
        self.axes_, self.ax_ = axes[: len(curves)], axes[0]
        across = (
            "probability of the class" if self.reliability.kind == "classwise" else "confidence in the class"
        )
        up = "frequency of the class" if self.reliability.kind == "classwise" else "accuracy"
        if ax is None:
            self.figure_.supylabel(up, fontsize=LABEL_SIZE, color=INK)
            self.figure_.supxlabel(f"{across}\n\n{words}", fontsize=LABEL_SIZE - 1, color=INK)
        else:
            axes[0].set_ylabel(up, fontsize=CAPTION_SIZE)
            corner = axes[(n_lines - 1) * n_columns]
            corner.set_xlabel(across, fontsize=CAPTION_SIZE)
            write_caption(ax if hasattr(ax, "get_figure") else corner, self._sentences())
        return self

    def _panel(self, panel: Any, place: int, curve: ReliabilityCurve, detailed: bool) -> None:
        line_width = 0.8 if detailed else 0.5
        draw_frame(panel, label_size=LABEL_SIZE - 2)
        panel.set_xticks([0, 0.5, 1], labels=["0", ".5", "1"])
        panel.set_yticks([0, 0.5, 1], labels=["0", ".5", "1"])
        draw_bars(panel, curve, line_width=line_width)
        draw_intervals(panel, curve, line_width=line_width, small=detailed)
        label = str(self.reliability.labels[place])
        star = " *" if self.reliability.beyond_noise[place] else ""
        panel.set_title(
            f"{shortened(label, LONGEST_LABEL)}: {self.reliability.error[place]:.3f}{star}",
            fontsize=LABEL_SIZE - (1 if detailed else 2),
            color=INK,
            pad=3,
        )

    def _sentences(self) -> str:
        """Return the caption on the panels and the intervals."""
        curves = self.reliability.curves
        n_classes = len(self.reliability.labels)
        which = "all" if len(curves) == n_classes else f"the worst {len(curves)} of"
        left_out = self.reliability.n_classes - n_classes
        unseen = f" ({left_out} are never predicted)" if left_out else ""
        small = next((curve for curve in curves if curve.small.any()), curves[0])
        return (
            f"Shown: {which} {counted(n_classes, 'class')}{unseen} with their calibration error, worst first; "
            "* significant at the 5 % level. Hatched // orange: predictions too high, \\\\ green: too low. "
            f"{intervals_in_words(small, isotonic=False)}"
        )


def _n_columns(n_panels: int) -> int:
    """Return the number of columns of the grid.

    >>> [_n_columns(number) for number in (3, 12, 13, 30, 100)]
    [4, 4, 5, 7, 10]
    """
    return 4 if n_panels <= 12 else min(int(np.ceil(np.sqrt(1.3 * n_panels))), 10)
