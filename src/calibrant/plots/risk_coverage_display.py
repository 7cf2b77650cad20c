"""RiskCoverageDisplay: error rate of the accepted rows against their fraction."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.metrics import RiskCoverageCurve, risk_coverage_curve
from calibrant.plots.display import PredictionDisplay, new_axes
from calibrant.plots.style import DIAGONAL, LABEL_SIZE, SERIES, legend_above, write_caption
from calibrant.tabular import stacked_columns

__all__ = ["RiskCoverageDisplay"]


class RiskCoverageDisplay(PredictionDisplay):
    """Risk-coverage curves of one or several models :cite:`geifman2019`.

    Rows are accepted from the most to the least confident. The dashed line is the error rate of all rows, which a ranking
    without information has at every coverage.

    Parameters
    ----------
    curves : mapping of str to RiskCoverageCurve
        Data of the plot by the name of the model.
    name : str, default=""
        Title.

    Attributes
    ----------
    ax_, figure_
        Axes and figure, set by :meth:`plot`.

    Examples
    --------
    >>> p = [[0.9, 0.1], [0.2, 0.8], [0.3, 0.7], [0.6, 0.4]]
    >>> RiskCoverageDisplay.from_predictions([0, 1, 0, 1], p).columns()["coverage"]
    array([0.25, 0.5 , 0.75, 1.  ])
    """

    def __init__(self, curves: Mapping[str, RiskCoverageCurve], name: str = "") -> None:
        self.curves = dict(curves)
        self.name = name

    @classmethod
    def from_predictions(
        cls, y_true: Any, y_proba: Any, *, sample_weight: Any = None, name: str = ""
    ) -> Self:
        """Create the display from true classes and predictions, or a dict of predictions by the name of the model."""
        models = y_proba if isinstance(y_proba, dict) else {"model": y_proba}
        curves = {
            model: risk_coverage_curve(y_true, p, sample_weight=sample_weight) for model, p in models.items()
        }
        return cls(curves, name)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return one row per threshold, and per model if there are several."""
        return stacked_columns("model", self.curves)

    def plot(self, ax: Any = None) -> Self:
        """Plot on the given axes, or on a new figure, and return self."""
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
        axes.set_xlabel("coverage (fraction of rows accepted)", fontsize=LABEL_SIZE)
        axes.set_ylabel("risk (error rate of accepted rows)", fontsize=LABEL_SIZE)
        axes.tick_params(labelsize=LABEL_SIZE)
        legend_above(axes, axes.get_legend_handles_labels()[0], self.name, n_columns=1)
        write_caption(
            axes,
            "Lower is better. The most confident rows are accepted first. Dashed: error rate of all rows.",
        )
        return self
