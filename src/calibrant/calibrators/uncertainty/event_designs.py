"""Maps of one event whose log-odds are a sum of columns times parameters."""

from functools import singledispatch

import numpy as np

from calibrant.calibrator import Calibrator
from calibrant.calibrators.monotone.piecewise_linear import PiecewiseLinearCalibration
from calibrant.calibrators.monotone.segment_maps import SegmentMaps, mixed_log_odds
from calibrant.calibrators.reductions.event_scores import EventScores
from calibrant.calibrators.scaling.beta import FAMILIES, LOG_TWO, BetaCalibration
from calibrant.calibrators.scaling.platt import PlattScaling
from calibrant.calibrators.scaling.quadratic import LARGEST, LEAST_SLOPE, NARROW, QuadraticScaling
from calibrant.calibrators.uncertainty.event_family import EventDesign
from calibrant.calibrators.uncertainty.family import Matrix

__all__ = ["event_design", "n_event_parameters"]


@singledispatch
def n_event_parameters(calibrator: Calibrator) -> int | None:  # noqa: ARG001
    """Return the number of parameters of the map of one event; None if its log-odds are no such sum.

    >>> n_event_parameters(PlattScaling()), n_event_parameters(BetaCalibration("ab"))
    (2, 2)
    """
    return None


@singledispatch
def event_design(calibrator: Calibrator) -> EventDesign:
    """Return columns and parameters of a calibrator fitted to two classes."""
    raise TypeError(f"{type(calibrator).__name__} has no normal approximation")


@n_event_parameters.register
def _(calibrator: PlattScaling) -> int | None:  # noqa: ARG001
    return 2


@event_design.register
def _(calibrator: PlattScaling) -> EventDesign:
    theta = np.array([calibrator.slope_, calibrator.intercept_])

    def columns(scores: EventScores) -> Matrix:
        score = scores.log_odds if calibrator.feature == "log-odds" else scores.probability
        return np.column_stack([score, np.ones(scores.n_rows)])

    return EventDesign.of(columns, theta, np.full(2, -np.inf))


@n_event_parameters.register
def _(calibrator: BetaCalibration) -> int | None:
    family = FAMILIES.get(calibrator.parameters)
    return None if family is None else 1 + (not family.one_power) + family.free_midpoint


@event_design.register
def _(calibrator: BetaCalibration) -> EventDesign:
    family = FAMILIES[calibrator.parameters]
    powers = [calibrator.a_] if family.one_power else [calibrator.a_, calibrator.b_]
    theta = np.array([*powers, calibrator.c_] if family.free_midpoint else powers)
    lower = np.full(len(theta), -np.inf)
    lower[: len(powers)] = 0.0
    shift = 0.0 if family.free_midpoint else LOG_TWO

    def columns(scores: EventScores) -> Matrix:
        if family.one_power:
            parts = [scores.log_odds]
        else:
            parts = [scores.log_probability + shift, -(scores.log_complement + shift)]
        return np.column_stack([*parts, np.ones(scores.n_rows)] if family.free_midpoint else parts)

    return EventDesign.of(columns, theta, lower)


@n_event_parameters.register
def _(calibrator: PiecewiseLinearCalibration) -> int | None:
    return 1 + int(calibrator.n_segments)


@event_design.register
def _(calibrator: PiecewiseLinearCalibration) -> EventDesign:
    maps = SegmentMaps(calibrator.knots_)
    theta = np.append(calibrator.intercept_, calibrator.slopes_)
    strengths = maps.strengths(
        calibrator.intercept_penalty, calibrator.slope_penalty, calibrator.difference_penalty
    )

    def columns(scores: EventScores) -> Matrix:
        x = mixed_log_odds(scores.log_odds, 1 / calibrator.temperature_, calibrator.mixing_)
        return maps.columns(x).T

    return EventDesign.of(columns, theta, maps.lower, 2 * strengths, maps.unchanged, free=maps.unchanged)


@n_event_parameters.register
def _(calibrator: QuadraticScaling) -> int | None:  # noqa: ARG001
    return 3


@event_design.register
def _(calibrator: QuadraticScaling) -> EventDesign:
    """Return the parabola in its intercept and the slopes at both ends, which are what has bounds."""
    low, high = calibrator.lowest_, calibrator.highest_
    steepness = 1 / calibrator.temperature_
    slope, bend = calibrator.slope_, calibrator.curvature_
    least = LEAST_SLOPE * steepness
    if not np.isfinite(low):
        coefficients, theta, lower = (
            np.eye(3),
            np.array([calibrator.intercept_, slope, bend]),
            np.full(3, -np.inf),
        )
    elif (high - low) * steepness <= NARROW:
        coefficients = np.eye(3, 2)
        theta, lower = np.array([calibrator.intercept_, slope]), np.array([-np.inf, least])
    else:
        reach = high - low
        coefficients = np.array(
            [[1.0, 0.0, 0.0], [0.0, high / reach, -low / reach], [0.0, -0.5 / reach, 0.5 / reach]]
        )
        theta = np.array([calibrator.intercept_, slope + 2 * bend * low, slope + 2 * bend * high])
        lower = np.array([-np.inf, least, least])
    penalised = coefficients / steepness ** np.arange(3)[:, np.newaxis]
    line = np.linalg.pinv(coefficients) @ np.array([0.0, steepness, 0.0])

    def columns(scores: EventScores) -> Matrix:
        log_odds = np.clip(scores.log_odds, -LARGEST, LARGEST)
        inside = np.clip(log_odds, low, high)
        powers = np.stack([np.ones_like(inside), log_odds, inside * (2 * log_odds - inside)])
        return np.asarray(powers.T @ coefficients)

    penalty = 2 * calibrator.ridge * penalised.T @ penalised
    return EventDesign.of(columns, theta, lower, penalty, line, free=line if calibrator.temperature else None)
