"""ClasswiseReliabilityDisplay: a grid of small reliability diagrams, the worst classes first."""

from textwrap import fill
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.binning import BinningScheme
from calibrant.metrics.bin_errors import Strategy
from calibrant.plots.caption import CAPTION_SIZE, write_caption
from calibrant.plots.classwise_reliability import ClasswiseReliability, PerClass, classwise_reliability
from calibrant.plots.display import PredictionDisplay
from calibrant.plots.isotonic_curve import Mode
from calibrant.plots.panels import panels
from calibrant.plots.reliability_curve import ReliabilityCurve
from calibrant.plots.reliability_drawing import draw_bars, draw_frame, draw_intervals, intervals_in_words
from calibrant.plots.style import INK, LABEL_SIZE
from calibrant.wording import counted

__all__ = ["ClasswiseReliabilityDisplay"]

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

    def columns(self) -> dict[str, NDArray[Any]]:
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
        shown = label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"
        star = " *" if self.reliability.beyond_noise[place] else ""
        panel.set_title(
            f"{shown}: {self.reliability.error[place]:.3f}{star}",
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
