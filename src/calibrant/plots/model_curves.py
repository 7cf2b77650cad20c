"""Risk-coverage curves and decision curves of one or several models on the same axes."""

from collections.abc import Callable, Mapping
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibrant.intervals import DecisionCurve, decision_curve
from calibrant.metrics import RiskCoverageCurve, risk_coverage_curve
from calibrant.plots.display import PredictionDisplay, new_axes
from calibrant.plots.style import DIAGONAL, FAINT, SERIES, label_axes, legend_above, write_caption
from calibrant.tabular import Tabular, stacked_columns

__all__ = ["DecisionCurveDisplay", "RiskCoverageDisplay"]

ModelCurve = TypeVar("ModelCurve", bound=Tabular)


class ModelCurvesDisplay(PredictionDisplay, Generic[ModelCurve]):
    """Curves by the name of the model."""

    def __init__(self, curves: Mapping[str, ModelCurve], name: str = "") -> None:
        self.curves = dict(curves)
        self.name = name

    @classmethod
    def _of_models(cls, y_proba: Any, curve_of: Callable[[Any], ModelCurve], name: str) -> Self:
        """Create the display from predictions of one model, or from a dict of them."""
        models = y_proba if isinstance(y_proba, dict) else {"model": y_proba}
        return cls({model: curve_of(predictions) for model, predictions in models.items()}, name)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return one row per threshold, and per model if there are several."""
        return stacked_columns("model", self.curves)


class RiskCoverageDisplay(ModelCurvesDisplay[RiskCoverageCurve]):
    """Risk-coverage curves of one or several models :cite:`geifman2019`.

    Rows are accepted from the most to the least confident. The dashed line is the error rate of all rows, which a ranking
    without information has at every coverage.

    Parameters
    ----------
    curves : mapping of str to RiskCoverageCurve
        Data of the plot by the name of the model.
    name : str, default=""
        Title.

    Examples
    --------
    >>> p = [[0.9, 0.1], [0.2, 0.8], [0.3, 0.7], [0.6, 0.4]]
    >>> RiskCoverageDisplay.from_predictions([0, 1, 0, 1], p).columns()["coverage"]
    array([0.25, 0.5 , 0.75, 1.  ])
    """

    @classmethod
    def from_predictions(
        cls, y_true: Any, y_proba: Any, *, sample_weight: Any = None, name: str = ""
    ) -> Self:
        """Create the display from true classes and predictions, or a dict of predictions by the name of the model."""
        return cls._of_models(
            y_proba, lambda p: risk_coverage_curve(y_true, p, sample_weight=sample_weight), name
        )

    def plot(self, ax: Any = None) -> Self:
        self.ax_, self.figure_ = new_axes(ax, (5.4, 4.6))
        axes = self.ax_
        for number, (model, curve) in enumerate(self.curves.items()):
            label = f"{model}: AURC {curve.aurc:.3g}, excess {curve.excess_aurc:.2g}"
            axes.plot(
                np.concatenate([[0.0], curve.coverage]),
                np.concatenate([curve.risk[:1], curve.risk]),
                color=SERIES[number % len(SERIES)],
                linewidth=1.6,
                drawstyle="steps-pre",
                label=label,
            )
        overall = float(next(iter(self.curves.values())).risk[-1])
        axes.axhline(overall, **DIAGONAL)
        axes.set(xlim=(0, 1))
        axes.set_ylim(bottom=0)
        label_axes(axes, "coverage (fraction of rows accepted)", "risk (error rate of accepted rows)")
        legend_above(axes, axes.get_legend_handles_labels()[0], self.name, n_columns=1)
        write_caption(
            axes,
            "Lower is better. The most confident rows are accepted first. Dashed: error rate of all rows.",
        )
        return self


class DecisionCurveDisplay(ModelCurvesDisplay[DecisionCurve]):
    """Decision curves of one or several models, with those of acting on all rows and on none :cite:`vickers2006`.

    A model is useful at a threshold where its curve is above both others. Shaded are the confidence intervals.

    Parameters
    ----------
    curves : mapping of str to DecisionCurve
        Data of the plot by the name of the model; all with the same rows.
    name : str, default=""
        Title.

    Examples
    --------
    >>> display = DecisionCurveDisplay.from_predictions([1, 1, 0, 0], [0.9, 0.3, 0.4, 0.1], thresholds=[0.2, 0.5])
    >>> display.columns()["net_benefit"]
    array([0.4375, 0.25  ])
    """

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
        options = {"thresholds": thresholds, "sample_weight": sample_weight, "level": level}
        return cls._of_models(y_proba, lambda p: decision_curve(y_true, p, **options), name)

    def plot(self, ax: Any = None) -> Self:
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
        label_axes(axes, "probability threshold", "net benefit (true positives per row)")
        legend_above(axes, axes.get_legend_handles_labels()[0], self.name)
        write_caption(
            axes,
            "Higher is better. At a threshold t, one true positive outweighs (1 - t) / t false ones. "
            f"Shaded: {100 * first.level:g} % intervals.",
        )
        return self
