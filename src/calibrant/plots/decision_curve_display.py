"""DecisionCurveDisplay: net benefit against the probability threshold."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.intervals import DecisionCurve, decision_curve
from calibrant.plots.display import PredictionDisplay, new_axes
from calibrant.plots.style import DIAGONAL, FAINT, LABEL_SIZE, SERIES, legend_above, write_caption
from calibrant.tabular import stacked_columns

__all__ = ["DecisionCurveDisplay"]


class DecisionCurveDisplay(PredictionDisplay):
    """Decision curves of one or several models, with those of acting on all rows and on none :cite:`vickers2006`.

    A model is useful at a threshold where its curve is above both others. Shaded are the confidence intervals.

    Parameters
    ----------
    curves : mapping of str to DecisionCurve
        Data of the plot by the name of the model; all with the same rows.
    name : str, default=""
        Title.

    Attributes
    ----------
    ax_, figure_
        Axes and figure, set by :meth:`plot`.

    Examples
    --------
    >>> display = DecisionCurveDisplay.from_predictions([1, 1, 0, 0], [0.9, 0.3, 0.4, 0.1], thresholds=[0.2, 0.5])
    >>> display.columns()["net_benefit"]
    array([0.4375, 0.25  ])
    """

    def __init__(self, curves: Mapping[str, DecisionCurve], name: str = "") -> None:
        self.curves = dict(curves)
        self.name = name

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_proba: Any,
        *,
        thresholds: Any = None,
        sample_weight: Any = None,
        level: float = 0.95,
        name: str = "",
    ) -> Self:
        """Create the display from true classes and predictions, or a dict of predictions by the name of the model.

        The options are those of :func:`~calibrant.intervals.decision_curve`.
        """
        models = y_proba if isinstance(y_proba, dict) else {"model": y_proba}
        curves = {
            model: decision_curve(y_true, p, thresholds=thresholds, sample_weight=sample_weight, level=level)
            for model, p in models.items()
        }
        return cls(curves, name)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return one row per threshold, and per model if there are several."""
        return stacked_columns("model", self.curves)

    def plot(self, ax: Any = None) -> Self:
        """Plot on the given axes, or on a new figure, and return self."""
        self.ax_, self.figure_ = new_axes(ax, (5.6, 4.6))
        axes = self.ax_
        for number, (model, curve) in enumerate(self.curves.items()):
            colour = SERIES[number % len(SERIES)]
            axes.fill_between(curve.threshold, curve.low, curve.high, color=colour, alpha=0.12, linewidth=0)
            axes.plot(curve.threshold, curve.net_benefit, color=colour, linewidth=1.8, label=model)
        first = next(iter(self.curves.values()))
        axes.plot(first.threshold, first.treat_all, color=FAINT, linewidth=1.6, label="act on all rows")
        axes.axhline(0, **DIAGONAL, label="act on no row")
        highest = max(float(curve.high.max()) for curve in self.curves.values())
        # Acting on all rows falls without bound towards a threshold of one.
        axes.set_ylim(-0.25 * max(highest, first.prevalence), 1.05 * max(highest, first.prevalence))
        axes.set_xlim(0, float(np.max(first.threshold)))
        axes.set_xlabel("probability threshold", fontsize=LABEL_SIZE)
        axes.set_ylabel("net benefit (true positives per row)", fontsize=LABEL_SIZE)
        axes.tick_params(labelsize=LABEL_SIZE)
        legend_above(axes, axes.get_legend_handles_labels()[0], self.name)
        write_caption(
            axes,
            "Higher is better. At a threshold t, one true positive outweighs (1 - t) / t false ones. "
            f"Shaded: {100 * first.level:g} % intervals.",
        )
        return self
