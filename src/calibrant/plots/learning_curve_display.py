"""LearningCurveDisplay: plot of the loss on held-out rows by size of the calibration set."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrator import Calibrator
from calibrant.errors import ParameterError
from calibrant.metrics.proper import log_loss
from calibrant.plots.caption import legend_above, thousands, write_caption
from calibrant.plots.display import PredictionDisplay, new_axes
from calibrant.plots.learning_curve import LearningCurve, learning_curve
from calibrant.plots.style import DIAGONAL, LABEL_SIZE, look
from calibrant.tabular import stacked_columns

__all__ = ["LearningCurveDisplay"]

# Factor by which the curve is extrapolated.
FURTHER = 4

# The axis ends this many gains above the uncalibrated loss.
HIGHEST = 1.0


class LearningCurveDisplay(PredictionDisplay):
    """Learning curves: loss on held-out rows by size of the calibration set, for one or several methods.

    Similar to figures 3b and 3c of :cite:`tomani2022`. Bars are intervals of the paired difference to the uncalibrated
    predictions: the gain is significant if the bar is below the dashed line. The dotted extrapolation is a + b / n.

    Parameters
    ----------
    curves : dict of str to LearningCurve
        Name of the method -> curve.

    Attributes
    ----------
    ax_, figure_
        Axes and figure, set by :meth:`plot`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(0.05, 0.95, 300)
    >>> y = (rng.random(300) < p).astype(int)
    >>> display = LearningCurveDisplay.from_predictions(y, p, method=["temperature", "beta"], sizes=(60, 240))
    >>> display.columns()["method"].tolist()
    ['temperature', 'temperature', 'beta', 'beta']
    """

    def __init__(self, curves: Mapping[str, LearningCurve]) -> None:
        if not curves:
            raise ParameterError("there is no curve to plot; pass at least one method.")
        self.curves = dict(curves)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_proba: Any,
        *,
        method: str | Calibrator | Sequence[str | Calibrator] = "auto",
        sizes: Sequence[int] | None = None,
        cv: Any = 5,
        sample_weight: Any = None,
        groups: Any = None,
        metric: Callable[..., float] = log_loss,
        level: float = 0.95,
        random_state: int | np.random.Generator | None = 0,
        progress: Callable[[int, int, str], object] | None = None,
    ) -> Self:
        """Create the display from predictions and true classes; see :func:`~calibrant.plots.learning_curve`.

        ``method`` may be a list of methods.
        """
        methods = [method] if isinstance(method, str | Calibrator) else list(method)
        curves = [
            learning_curve(
                y_true,
                y_proba,
                method=one,
                sizes=sizes,
                cv=cv,
                sample_weight=sample_weight,
                groups=groups,
                metric=metric,
                level=level,
                random_state=random_state,
                progress=progress,
            )
            for one in methods
        ]
        return cls({curve.method: curve for curve in curves})

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return one row per size of the calibration set; for several methods with a column ``method``."""
        return stacked_columns("method", self.curves)

    def plot(self, ax: Any = None) -> Self:
        """Plot on the given axes, or on a new figure, and return self."""
        self.ax_, self.figure_ = new_axes(ax, (5.6, 4.6))
        axes, first = self.ax_, next(iter(self.curves.values()))
        several = len(self.curves) > 1
        for number, (name, curve) in enumerate(self.curves.items()):
            colour, marker = look(number)
            # Shift the bars of several methods, so that they do not overlap.
            x = curve.sizes * 1.03 ** (number - (len(self.curves) - 1) / 2)
            axes.plot(
                x, curve.loss, color=colour, marker=marker, markersize=5, linewidth=1.6, label=name, zorder=4
            )
            axes.errorbar(
                x,
                (curve.low + curve.high) / 2,
                yerr=(curve.high - curve.low) / 2,
                fmt="none",
                ecolor=colour,
                elinewidth=1.0,
                capsize=3,
                alpha=0.7 if several else 1.0,
                zorder=3,
            )
            self._continuation(curve, colour)
        off = self._limit_height()
        axes.axhline(first.uncalibrated, label="uncalibrated", **DIAGONAL)
        axes.set_xscale("log")
        ticks = np.unique(np.concatenate([curve.sizes for curve in self.curves.values()]))
        ticks = np.append(ticks[-6:], FURTHER * ticks[-1])
        axes.set_xticks(ticks, labels=[thousands(tick) for tick in ticks])
        axes.minorticks_off()
        axes.set_xlabel("size of the calibration set", fontsize=LABEL_SIZE)
        axes.set_ylabel(f"{first.metric.partition('(')[0]} on held-out rows", fontsize=LABEL_SIZE)
        axes.tick_params(labelsize=LABEL_SIZE)
        legend_above(axes, axes.get_legend_handles_labels()[0], n_columns=3 if several else 2)
        write_caption(
            axes,
            f"Bars: {100 * first.level:g} % intervals of the loss; rows are the same at all points, so that differences "
            "along a curve are surer than the bars. Dotted: a + b / n, if it goes on like that."
            + (" Arrows: far above the picture." if off else ""),
        )
        return self

    def _limit_height(self) -> bool:
        """Limit the axis so that losses far above the uncalibrated one do not compress the others; return whether any are."""
        losses = np.concatenate([curve.loss for curve in self.curves.values()])
        finite = losses[np.isfinite(losses)]
        level = next(iter(self.curves.values())).uncalibrated
        if len(finite) == 0 or not np.isfinite(level):
            return False
        limit = level + HIGHEST * max(level - finite.min(), 0.1 * abs(level), 1e-6)
        if finite.max() <= limit:
            return False
        for number, curve in enumerate(self.curves.values()):
            above = curve.sizes[curve.loss > limit]
            self.ax_.plot(
                above,
                np.full(len(above), 0.98),
                "^",
                transform=self.ax_.get_xaxis_transform(),
                color=look(number)[0],
            )
        lows = np.concatenate([curve.low[np.isfinite(curve.low)] for curve in self.curves.values()])
        lowest = min(finite.min(), lows.min(initial=finite.min()))
        self.ax_.set_ylim(lowest - 0.05 * (limit - lowest), limit)
        return True

    def _continuation(self, curve: LearningCurve, colour: str) -> None:
        """Draw the extrapolation to more rows, if the points support it."""
        if not curve.trend.is_supported:
            return
        sizes = np.geomspace(curve.sizes[-1], FURTHER * curve.sizes[-1], 30)
        expected = [curve.expected(float(size)) for size in sizes]
        self.ax_.plot(sizes, [loss for loss, _ in expected], color=colour, linestyle=":", linewidth=1.4)
