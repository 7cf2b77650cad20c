"""CumulativeDifferenceDisplay: plot of the cumulative sum of outcomes minus probabilities."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.plots.caption import write_caption
from calibrant.plots.cumulative_curve import CumulativeCurve, cumulative_curve
from calibrant.plots.display import PredictionDisplay, new_axes
from calibrant.plots.event_rows import EventKind
from calibrant.plots.style import DIAGONAL, INK, LABEL_SIZE, SERIES, TITLE_SIZE
from calibrant.wording import p_text

__all__ = ["CumulativeDifferenceDisplay"]

SCORE_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)

# 97.5 % quantile of the standard normal distribution.
TWO_SIDED = 1.959963984540054


class CumulativeDifferenceDisplay(PredictionDisplay):
    """Plot of cumulative differences between outcomes and probabilities, without bins :cite:`arrieta2022`.

    Read the slope: over any stretch of rows it is the mean of outcome minus probability. Where the curve falls, probabilities
    are too high; where it rises, they are too low; where it is flat, they are calibrated. The bar at the right end contains
    the end of the curve with a probability of 95 % under calibration. The shaded range from the lowest to the highest point
    is Kuiper's statistic.

    Parameters
    ----------
    curve : CumulativeCurve
        Data of the plot.
    name : str, default=""
        Title.

    Attributes
    ----------
    ax_, figure_
        Axes and figure, set by :meth:`plot`.

    Examples
    --------
    >>> display = CumulativeDifferenceDisplay.from_predictions([1] * 30 + [0] * 70, [0.2] * 100)
    >>> display.columns()["difference"].round(6)
    array([0. , 0.1])
    """

    def __init__(self, curve: CumulativeCurve, name: str = "") -> None:
        self.curve = curve
        self.name = name

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_proba: Any,
        *,
        sample_weight: Any = None,
        kind: EventKind = "auto",
        label: Any = None,
        name: str = "",
    ) -> Self:
        """Create the display from predictions and true classes; see :func:`~calibrant.plots.cumulative_curve`."""
        curve = cumulative_curve(y_true, y_proba, sample_weight=sample_weight, kind=kind, label=label)
        return cls(curve, name)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return one row per point of the curve."""
        return self.curve.columns()

    def plot(self, ax: Any = None) -> Self:
        """Plot on the given axes, or on a new figure, and return self."""
        self.ax_, self.figure_ = new_axes(ax, (5.6, 4.9))
        curve, axes = self.curve, self.ax_
        lowest, highest = float(curve.difference.min()), float(curve.difference.max())
        axes.axhspan(lowest, highest, color=SERIES[0], alpha=0.08, linewidth=0)
        axes.axhline(0, **DIAGONAL)
        axes.plot(curve.share, curve.difference, color=SERIES[0], linewidth=1.6, zorder=3)
        axes.errorbar(
            1, 0, yerr=TWO_SIDED * curve.sigma, color=INK, capsize=5, elinewidth=2, clip_on=False, zorder=4
        )
        bottom, top = min(lowest, -TWO_SIDED * curve.sigma), max(highest, TWO_SIDED * curve.sigma)
        margin = 0.06 * max(top - bottom, 1e-6)
        axes.set(xlim=(0, 1), ylim=(bottom - margin, top + margin))
        axes.set_xlabel("fraction of rows, from the lowest score to the highest", fontsize=LABEL_SIZE)
        axes.set_ylabel("cumulative outcomes minus scores", fontsize=LABEL_SIZE)
        axes.tick_params(labelsize=LABEL_SIZE)
        self._scores()
        title = f"{self.name or curve.event}: Kuiper {curve.kuiper:.3g}, {p_text(curve.p_value, digits=2)}"
        axes.set_title(title, fontsize=TITLE_SIZE)
        write_caption(
            axes,
            "Falling: scores too high; rising: too low; flat: calibrated. Bar at the right: 95 % range of the end for "
            "calibrated predictions. Shaded: Kuiper's statistic."
            + ("" if curve.caution is None else " Few rows: the p-value is rough."),
        )
        return self

    def _scores(self) -> None:
        """Show the scores on an axis above the plot."""
        upper = self.ax_.secondary_xaxis("top")
        scores = np.interp(SCORE_TICKS, self.curve.share, self.curve.score)
        upper.set_xticks(SCORE_TICKS, labels=[_score_text(score) for score in scores])
        upper.tick_params(labelsize=LABEL_SIZE - 1)
        what = "confidence" if self.curve.kind in ("confidence", "top-label") else "probability"
        upper.set_xlabel(f"{what} at this point", fontsize=LABEL_SIZE - 1)


def _score_text(score: float) -> str:
    """Return a score with three digits; a score below one is never shown as 1.

    >>> _score_text(0.25), _score_text(0.99999), _score_text(1.0), _score_text(1e-5)
    ('0.25', '>0.999', '1', '<0.001')
    """
    if 0 < score < 0.001:
        return "<0.001"
    return ">0.999" if 0.999 < score < 1 else f"{score:.3g}"
