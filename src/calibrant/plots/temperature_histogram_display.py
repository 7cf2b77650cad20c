"""TemperatureHistogramDisplay: histogram of the temperatures of single rows."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays import AnyArray, Vector
from calibrant.calibrators.scaling.parameterized_temperature import ParameterizedTemperatureScaling
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.options import check_whole
from calibrant.plots.class_probability_boxes import weighted_quantile
from calibrant.plots.display import Display, new_axes
from calibrant.plots.style import INK, LABEL_SIZE, SERIES, TITLE_SIZE
from calibrant.predictions import Predictions

__all__ = ["TemperatureHistogramDisplay"]


@dataclass(eq=False, repr=False)
class TemperatureHistogramDisplay(Display):
    """Histogram of the temperatures of single rows in parameterised temperature scaling.

    With true classes, correctly and wrongly classified rows have separate histograms, each normalised: the higher the
    temperature, the more the confidence of a row is reduced. The dashed line is the single temperature that is best for all
    rows, the dotted one is 1, the identity map; as in figure 2 of :cite:`tomani2022`.

    Parameters
    ----------
    edges : ndarray of shape (B + 1,)
        Bin edges, equidistant on a logarithmic scale.
    counts : dict of str to ndarray of shape (B,)
        Weight of the rows in every bin: ``"right"`` and ``"wrong"``, or ``"all"``.
    medians : dict of str to float
        Median temperature of each group; NaN for an empty group.
    single : float
        The single temperature that is best for all rows.

    Examples
    --------
    >>> p = [[0.9, 0.1]] * 20 + [[0.6, 0.4]] * 20
    >>> y = [0] * 15 + [1] * 5 + [0] * 12 + [1] * 8
    >>> fitted = ParameterizedTemperatureScaling(hidden=(), weight_decay=0).fit(p, y)
    >>> display = TemperatureHistogramDisplay.from_estimator(fitted, p, y)
    >>> {group: float(count.sum()) for group, count in display.counts.items()}
    {'right': 27.0, 'wrong': 13.0}
    """

    edges: Vector
    counts: dict[str, Vector]
    medians: dict[str, float]
    single: float

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any = None, *, sample_weight: Any = None, n_bins: int = 40
    ) -> Self:
        """Create the display from a fitted :class:`~calibrant.ParameterizedTemperatureScaling`.

        Parameters
        ----------
        estimator : ParameterizedTemperatureScaling
            The fitted calibrator.
        X : array, frame or Predictions
            Predictions before calibration.
        y : array of shape (n,), optional
            True classes, to separate correctly from wrongly classified rows.
        sample_weight : array of shape (n,), optional
            Weights of the rows; only with ``y``.
        n_bins : int, default=40
            Number of bins.
        """
        if not isinstance(estimator, ParameterizedTemperatureScaling):
            raise ParameterError(
                "temperatures of rows need a fitted ParameterizedTemperatureScaling, "
                f"not a {type(estimator).__name__}."
            )
        check_is_fitted(estimator)
        check_whole("n_bins", n_bins)
        if y is None:
            if sample_weight is not None:
                raise ParameterError("sample_weight needs true classes as well; pass y.")
            temperatures = estimator.temperatures(Predictions.parse(X))
            groups = {"all": np.ones(len(temperatures), dtype=bool)}
            weights = np.ones(len(temperatures))
        else:
            data = LabelledPredictions.parse(X, y, sample_weight)
            temperatures = estimator.temperatures(data.predictions)
            right = data.predictions.predicted == data.labels
            groups = {"right": right, "wrong": ~right}
            weights = np.ones(data.n_rows) if data.weights is None else data.weights
        low, high = float(temperatures.min()), float(temperatures.max())
        if high < 1.02 * low:
            low, high = low / 1.1, high * 1.1
        edges = np.geomspace(low, high, n_bins + 1)
        # Rounding errors of the outer edges must not lose a row.
        inside = np.clip(temperatures, edges[0], edges[-1])
        counts = {
            name: np.histogram(inside[rows], edges, weights=weights[rows])[0] for name, rows in groups.items()
        }
        medians = {
            name: _median(temperatures[rows], weights[rows]) if rows.any() else float("nan")
            for name, rows in groups.items()
        }
        return cls(edges, counts, medians, float(estimator.temperature_))

    def columns(self) -> dict[str, AnyArray]:
        """Return one row per bin: its edges and the weight of each group."""
        return {
            "low": self.edges[:-1],
            "high": self.edges[1:],
            **{f"count_{name}": count for name, count in self.counts.items()},
        }

    def plot(self, ax: Any = None) -> Self:
        self.ax_, self.figure_ = new_axes(ax, (5.6, 4.0))
        for number, (name, count) in enumerate(self.counts.items()):
            total = float(count.sum())
            if total == 0:
                continue
            label = (
                f"{'all rows' if name == 'all' else name}: {total:.6g} rows, median {self.medians[name]:.3g}"
            )
            colour = SERIES[number]
            self.ax_.stairs(
                count / total,
                self.edges,
                fill=True,
                facecolor=(colour, 0.0 if number else 0.4),
                edgecolor=colour,
                hatch="////" if number else None,
                linewidth=1.6,
                label=label,
            )
        self.ax_.axvline(
            self.single,
            color=INK,
            linestyle="--",
            linewidth=1.4,
            label=f"single temperature: {self.single:.3g}",
        )
        if self.edges[0] <= 1.0 <= self.edges[-1]:
            self.ax_.axvline(1.0, color=INK, linestyle=":", linewidth=1.4, label="identity map: 1")
        self._scale()
        self.ax_.set_xlabel("temperature", fontsize=LABEL_SIZE)
        self.ax_.set_ylabel("fraction of rows", fontsize=LABEL_SIZE)
        self.ax_.set_ylim(bottom=0)
        self.ax_.set_title("Temperatures of single rows", fontsize=TITLE_SIZE, color=INK)
        self.ax_.legend(frameon=False, fontsize=LABEL_SIZE - 1)
        return self

    def _scale(self) -> None:
        """Set a logarithmic scale with ticks at round temperatures."""
        from matplotlib.ticker import MaxNLocator

        self.ax_.set_xscale("log")
        low, high = self.edges[0], self.edges[-1]
        if high / low < 3:
            ticks = np.asarray(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high))
        else:
            powers = np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
            ticks = np.outer(10.0**powers, (1, 1.5, 2, 3, 5, 7) if high / low < 30 else (1, 2, 5)).ravel()
        chosen = [tick for tick in ticks if low <= tick <= high]
        self.ax_.set_xticks(chosen, labels=[f"{tick:.3g}" for tick in chosen])
        self.ax_.minorticks_off()


def _median(values: Vector, weights: Vector) -> float:
    return float(weighted_quantile(values[:, np.newaxis], np.array([0.5]), weights)[0, 0])
