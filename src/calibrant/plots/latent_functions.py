"""Latent functions: what calibrators make of one score, for those that treat all classes alike."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import ndtri

from calibrant.arrays import Matrix, Vector
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
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["LatentFunction", "ScoreAxis", "latent_function"]

ScoreAxis = Literal["log-probabilities", "logits"]
"""What latent functions are drawn over."""


# Rows in whose company a score is looked at, where that matters.
MOST_ROWS = 500

LINEAR = (Identity, TemperatureScaling, ParameterizedTemperatureScaling)


@dataclass(frozen=True, eq=False)
class LatentFunction:
    r"""A function g with :math:`\hat q \propto e^{g(z_k)}`, shifted so that it leaves the reference where it is.

    Attributes
    ----------
    name : str
        Which calibrator.
    values : ndarray of shape (m,)
        g at the scores; the mean over rows where g depends on the other scores of a row.
    low, high : ndarray of shape (m,)
        A band around it, equal to the values where there is neither doubt nor dependence.
    band : str
        What the band is, in words; empty if there is none.
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
    """Return the latent function of a fitted calibrator at scores.

    Gaussian processes come with their posterior; functions of log-probabilities *after* a temperature, and temperatures
    of single rows, depend on the company of a score, and are averaged over at most 500 of the given rows, with a band that
    holds the middle share ``level`` of them. Terms that single classes have of their own are left out.
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
    step = -(-predictions.n_rows // MOST_ROWS)
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
    """Refuse what has no latent function over these scores."""
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
            f"{name!r}, {what}, has no function of single scores that all classes share; temperature scaling, "
            "Gaussian processes, diagonal order-preserving and structured maps have."
        )
    if kind != axis:
        raise ParameterError(f"{name!r} is a function of {kind}, not of {axis}; pass scores={kind!r}.")


def _of_probabilities(calibrator: GaussianProcessCalibration) -> bool:
    return calibrator.scores_ == "given" and calibrator.space_ == "probabilities"


def _row_curves(calibrator: Any, places: Vector, rows: Predictions, axis: ScoreAxis) -> Matrix:
    """Return what becomes of scores in the company of every row, (r, m), up to a constant of the row."""
    if calibrator.present_columns_ is not None:  # the map knows the classes that had calibration rows
        rows = rows.restricted_to(calibrator.present_columns_)
    scores = rows.logits if axis == "logits" else rows.log_probabilities
    in_logits = Predictions(scores, Space.LOGITS, None, calibrator.floor_)
    return np.asarray(score_curves(calibrator._mapped, in_logits, places), dtype=np.float64)
