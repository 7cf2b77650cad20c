"""Latent functions: the map that a calibrator applies to one score, if all classes share it, and its plot."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays import AnyArray, FloatArray, IntArray, Matrix, Vector
from calibrant.calibrator import Calibrator
from calibrant.calibrators.combinators.identity import Identity
from calibrant.calibrators.latent.gaussian_process import GaussianProcessCalibration
from calibrant.calibrators.monotone.order_preserving import IntraOrderPreserving
from calibrant.calibrators.parametric import ParametricCalibrator
from calibrant.calibrators.scaling.parameterized_temperature import ParameterizedTemperatureScaling
from calibrant.calibrators.scaling.temperature import TemperatureScaling
from calibrant.calibrators.structured.structured_scaling import StructuredScaling
from calibrant.errors import ParameterError
from calibrant.graph.apply import score_curves
from calibrant.options import check_choice, check_level, check_whole, is_number
from calibrant.plots.display import Display, panels
from calibrant.plots.style import BAR, DIAGONAL, INK, LABEL_SIZE, SERIES, TITLE_SIZE
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["LatentFunction", "LatentFunctionDisplay"]


ScoreAxis = Literal["log-probabilities", "logits"]
"""Scores on the horizontal axis of latent functions."""


# Largest number of rows over which a function that depends on the other scores of a row is averaged.
MAX_ROWS = 500

LINEAR = (Identity, TemperatureScaling, ParameterizedTemperatureScaling)


@dataclass(frozen=True, eq=False)
class LatentFunction:
    r"""Latent function g of a calibrator, :math:`\hat q \propto e^{g(z_k)}`, shifted to equal the identity at a reference.

    Attributes
    ----------
    name : str
        Name of the calibrator.
    values : ndarray of shape (m,)
        g at the scores; the mean over rows if g depends on the other scores of a row.
    low, high : ndarray of shape (m,)
        Band around g: of the posterior, or over rows; equal to ``values`` if there is neither.
    band : str
        Name of the band; empty if there is none.
    """

    name: str
    values: Vector
    low: Vector
    high: Vector
    band: str


def latent_function(
    name: str,
    calibrator: Any,
    scores: Vector,
    reference: float,
    predictions: Predictions,
    *,
    axis: ScoreAxis = "log-probabilities",
    level: float = 0.95,
) -> LatentFunction:
    """Return the latent function of a fitted calibrator at some scores.

    The band of a Gaussian process is its posterior. Functions of log-probabilities *after* a temperature, and temperatures
    of single rows, depend on the other scores of a row. They are averaged over at most 500 of the given rows, and the band
    is the central ``level`` of them. Class-specific terms are left out.
    """
    _check(name, calibrator, axis)
    places = np.append(scores, reference)
    if isinstance(calibrator, GaussianProcessCalibration):
        at = np.exp(places) if _of_probabilities(calibrator) else places
        mean, deviation = calibrator.latent(at[:-1], reference=float(at[-1]))
        reach = float(ndtri((1 + level) / 2)) * deviation
        values = mean + reference
        return LatentFunction(
            name, values, values - reach, values + reach, f"{100 * level:g} % of the posterior"
        )
    step = -(-predictions.n_rows // MAX_ROWS)
    curves = _row_curves(calibrator, places, predictions.take(slice(None, None, step)), axis)
    curves = curves[:, :-1] - curves[:, -1:] + reference
    tail = (1 - level) / 2
    low, high = np.quantile(curves, [tail, 1 - tail], axis=0)
    values = np.asarray(curves.mean(axis=0), dtype=np.float64)
    same = bool(np.ptp(curves, axis=0).max() < 1e-9)
    if same:
        low = high = values
    return LatentFunction(name, values, low, high, "" if same else f"{100 * level:g} % of rows")


def _check(name: str, calibrator: Any, axis: ScoreAxis) -> None:
    """Raise unless the calibrator applies one function of these scores to all classes."""
    kind = None
    if isinstance(calibrator, LINEAR):
        return
    if isinstance(calibrator, GaussianProcessCalibration):
        is_given = calibrator.scores_ == "given" and calibrator.space_ == "logits"
        kind = "logits" if is_given else "log-probabilities"
    elif isinstance(calibrator, IntraOrderPreserving) and calibrator.kind == "diagonal":
        is_raw = calibrator.inputs == "logits" and calibrator.space_ == "logits"
        kind = "logits" if is_raw else "log-probabilities"
    elif isinstance(calibrator, StructuredScaling):
        kind = "log-probabilities"
    elif isinstance(calibrator, ParametricCalibrator) and calibrator.traits.shares_parameters:
        return
    if kind is None:
        what = (
            type(calibrator).__name__
            if isinstance(calibrator, Calibrator)
            else f"a {type(calibrator).__name__}"
        )
        raise ParameterError(
            f"{name!r} ({what}) does not apply one function to the scores of all classes; use temperature scaling, a "
            "Gaussian process, or a diagonal order-preserving or structured map."
        )
    if kind != axis:
        raise ParameterError(f"{name!r} is a function of {kind}, not of {axis}; pass scores={kind!r}.")


def _of_probabilities(calibrator: GaussianProcessCalibration) -> bool:
    return calibrator.scores_ == "given" and calibrator.space_ == "probabilities"


def _row_curves(calibrator: Any, places: Vector, rows: Predictions, axis: ScoreAxis) -> Matrix:
    """Return the mapped scores with the other scores of each row, (r, m), up to a constant of the row."""
    if calibrator.present_columns_ is not None:  # the map is only for classes with calibration rows
        rows = rows.restricted_to(calibrator.present_columns_)
    scores = rows.logits if axis == "logits" else rows.log_probabilities
    in_logits = Predictions(scores, Space.LOGITS, None, calibrator.floor_)
    return np.asarray(score_curves(calibrator._mapped, in_logits, places), dtype=np.float64)


LINES = ("-", (0, (5, 1.2)), (0, (6, 1.5, 1, 1.5)), (0, (1, 0.8)), (0, (3, 1, 1, 1, 1, 1)))
N_BINS = 60
LOW_QUANTILE = 0.005  # fraction of scores left of the plot
MAX_SCORES = 2_000_000


@dataclass(eq=False, repr=False)
class LatentFunctionDisplay(Display):
    r"""Plot of latent functions g of :math:`\hat q = \mathrm{softmax}(g(z_1), \dots, g(z_K))` over the observed scores.

    The dashed line is the identity map; flatter functions are less confident. Adding a constant to g changes no probability,
    so all functions are shifted to agree at a reference, by default the median of the largest score per row. Bands are the
    posterior of a Gaussian process, or quantiles over rows if g depends on the other scores of a row. As in figure 4 of
    :cite:`wenger2020`.

    Parameters
    ----------
    scores : ndarray of shape (m,)
        Points at which the functions are evaluated.
    functions : tuple of LatentFunction
        One per calibrator.
    reference : float
        Score at which all agree.
    axis : {"log-probabilities", "logits"}
        Type of the scores.
    edges : ndarray of shape (B + 1,)
        Bins of the histogram of scores.
    largest, others : ndarray of shape (B,)
        Numbers of scores per bin that are the largest of their row, and that are not.

    Attributes
    ----------
    axes_ : list
        Axes of functions and histogram, set by :meth:`plot`; ``ax_`` is the first.
    figure_
        The figure.

    Examples
    --------
    >>> from calibrant import TemperatureScaling
    >>> p, y = [[0.9, 0.1]] * 4, [0, 0, 0, 1]
    >>> display = LatentFunctionDisplay.from_estimator(TemperatureScaling().fit(p, y), p)
    >>> slope = np.diff(display.functions[0].values) / np.diff(display.scores)
    >>> slope.min().round(6), slope.max().round(6)
    (np.float64(0.5), np.float64(0.5))
    """

    scores: Vector
    functions: tuple[LatentFunction, ...]
    reference: float
    axis: ScoreAxis
    edges: Vector
    largest: IntArray
    others: IntArray

    @classmethod
    def from_estimator(
        cls,
        estimators: Any,
        X: Any,
        *,
        scores: ScoreAxis = "log-probabilities",
        reference: float | None = None,
        level: float = 0.95,
        n_points: int = 200,
    ) -> Self:
        """Create the display from one fitted calibrator, or from a dict of several.

        Parameters
        ----------
        estimators : Calibrator or dict of str to Calibrator
            Temperature scaling, parameterised or not, Gaussian processes, diagonal order-preserving and structured maps.
        X : array, frame or Predictions
            Predictions, for the range and the histogram of scores.
        scores : {"log-probabilities", "logits"}, default="log-probabilities"
            Type of scores; logits for calibrators that use raw logits.
        reference : float, optional
            Score at which the functions agree.
        level : float, default=0.95
            Level of the bands.
        n_points : int, default=200
            Number of points per curve.
        """
        check_choice("scores", scores, ("log-probabilities", "logits"))
        check_level(level)
        check_whole("n_points", n_points, 2)
        named = estimators if isinstance(estimators, Mapping) else {type(estimators).__name__: estimators}
        if not named:
            raise ParameterError("estimators must be a fitted calibrator, or a dictionary with at least one.")
        for calibrator in named.values():
            check_is_fitted(calibrator)
        predictions = Predictions.parse(X)
        values = _thinned(predictions.logits if scores == "logits" else predictions.log_probabilities)
        tops = values.max(axis=1)
        if reference is None:
            reference = float(np.median(tops))
        elif not is_number(reference) or not np.isfinite(reference):
            raise ParameterError(f"reference must be one finite number or None, not {reference!r}.")
        low, high = float(np.quantile(values, LOW_QUANTILE)), float(tops.max())
        if scores == "log-probabilities":
            high = min(high, 0.0)  # rounding error of a softmax in float32
        if high - low < 1e-6:
            low, high = low - 0.5, high + (0.5 if scores == "logits" else 0.0)
        places = np.linspace(low, high, n_points)
        functions = tuple(
            latent_function(str(name), calibrator, places, reference, predictions, axis=scores, level=level)
            for name, calibrator in named.items()
        )
        edges = np.linspace(low, high, N_BINS + 1)
        everything = np.histogram(values, edges)[0]
        largest = np.histogram(tops, edges)[0]
        return cls(places, functions, float(reference), scores, edges, largest, everything - largest)

    def columns(self) -> dict[str, AnyArray]:
        """Return all functions in long format: name, score, value and band."""
        values = {
            key: np.concatenate([getattr(function, attribute) for function in self.functions])
            for key, attribute in (("value", "values"), ("low", "low"), ("high", "high"))
        }
        names = np.repeat([function.name for function in self.functions], len(self.scores))
        return {"name": names, "score": np.tile(self.scores, len(self.functions)), **values}

    def plot(self, ax: Any = None) -> Self:
        """Plot in place of the given axes, on two axes, or on a new figure, and return self."""
        self.axes_, self.figure_ = panels(ax, (5.6, 5.4), heights=(3.2, 1.0))
        self.ax_ = main = self.axes_[0]
        below = self.axes_[1]
        main.plot(self.scores, self.scores, label="identity map", **DIAGONAL)
        for number, function in enumerate(self.functions):
            colour = SERIES[number % len(SERIES)]
            label = f"{function.name} (band: {function.band})" if function.band else function.name
            main.plot(
                self.scores,
                function.values,
                color=colour,
                linestyle=LINES[number % len(LINES)],
                linewidth=2.0,
                label=label,
            )
            if function.band:
                main.fill_between(
                    self.scores, function.low, function.high, color=colour, alpha=0.22, linewidth=0
                )
        main.plot(self.reference, self.reference, marker="o", markersize=5, color=INK, zorder=5)
        main.set_ylabel("latent value g", fontsize=LABEL_SIZE)
        main.set_title("Latent functions, shifted to agree at the dot", fontsize=TITLE_SIZE, color=INK)
        main.legend(frameon=False, fontsize=LABEL_SIZE - 1, handlelength=3.2)
        main.tick_params(labelbottom=False)
        self._draw_histogram(below)
        for axes in (main, below):
            axes.set_xlim(self.edges[0], self.edges[-1])
        return self

    def _draw_histogram(self, ax: Any) -> None:
        widths, left = np.diff(self.edges), self.edges[:-1]
        style: dict[str, Any] = {"align": "edge", "linewidth": 0}
        ax.bar(left, self.others, widths, color=BAR, label="other classes", **style)
        ax.bar(left, self.largest, widths, bottom=self.others, color=INK, label="predicted class", **style)
        highest = max(1, int((self.largest + self.others).max()))
        ax.set_yscale("log")
        ax.set_ylim(0.5, 50.0 * highest)  # space for the legend
        powers = range(0, int(np.log10(highest)) + 1, -(-int(np.log10(highest) + 1) // 4))
        ax.set_yticks([10**power for power in powers])
        ax.minorticks_off()
        what = "log-probability" if self.axis == "log-probabilities" else "logit"
        ax.set_xlabel(f"{what} z", fontsize=LABEL_SIZE)
        ax.set_ylabel("scores", fontsize=LABEL_SIZE)
        ax.legend(frameon=False, fontsize=LABEL_SIZE - 1.5, loc="upper left", ncols=2)


def _thinned(values: FloatArray) -> Vector:
    """Return all scores, or those of every second, third, ... row for many rows."""
    return values[:: -(-values.size // MAX_SCORES)].astype(np.float64)
