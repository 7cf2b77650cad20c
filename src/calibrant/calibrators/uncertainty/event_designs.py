"""Maps of one event whose log-odds are a sum of columns times parameters."""

from functools import singledispatch

import numpy as np

from calibrant.calibrator import Calibrator
from calibrant.calibrators.monotone.piecewise_linear import LEAST_SLOPE as LEAST_OF_PIECES
from calibrant.calibrators.monotone.piecewise_linear import PiecewiseLinearCalibration, _origin, _tempered
from calibrant.calibrators.reductions.event_scores import EventScores
from calibrant.calibrators.scaling.beta import FAMILIES, LOG_TWO, BetaCalibration
from calibrant.calibrators.scaling.platt import PlattScaling
from calibrant.calibrators.scaling.quadratic import LARGEST, NARROW, QuadraticScaling
from calibrant.calibrators.scaling.quadratic import LEAST_SLOPE as LEAST_OF_PARABOLA
from calibrant.calibrators.uncertainty.event_family import EventDesign
from calibrant.calibrators.uncertainty.family import Matrix
from calibrant.numerics.linear_segments import LinearSegments

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
    raise NotImplementedError(f"{type(calibrator).__name__} has no normal approximation")


@n_event_parameters.register
def _(calibrator: PlattScaling) -> int | None:  # noqa: ARG001
    return 2


@event_design.register
def _(calibrator: PlattScaling) -> EventDesign:
    theta = np.array([calibrator.slope_, calibrator.intercept_])

    def columns(scores: EventScores) -> Matrix:
        return np.column_stack([calibrator._score(scores), np.ones(scores.n_rows)])

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
    segments = LinearSegments(calibrator.knots_)
    size = len(calibrator.slopes_)
    theta = np.append(calibrator.intercept_, calibrator.slopes_)
    lower = np.append(-np.inf, np.full(size, LEAST_OF_PIECES))
    differences = np.diff(np.eye(size), axis=0)
    strengths = np.zeros((size + 1, size + 1))
    strengths[0, 0] = calibrator.intercept_penalty
    strengths[1:, 1:] = calibrator.slope_penalty * np.eye(size)
    strengths[1:, 1:] += calibrator.difference_penalty * differences.T @ differences
    unchanged = np.append(_origin(calibrator.knots_), np.ones(size))

    def columns(scores: EventScores) -> Matrix:
        x = _tempered(scores.log_odds, 1 / calibrator.temperature_, calibrator.mixing_)
        return np.column_stack([np.ones(scores.n_rows), *segments.features(x)])

    return EventDesign.of(columns, theta, lower, 2 * strengths, unchanged, free=unchanged)


@n_event_parameters.register
def _(calibrator: QuadraticScaling) -> int | None:  # noqa: ARG001
    return 3


@event_design.register
def _(calibrator: QuadraticScaling) -> EventDesign:
    """Return the parabola in its intercept and the slopes at both ends, which are what has bounds."""
    low, high = calibrator.lowest_, calibrator.highest_
    steepness = 1 / calibrator.temperature_
    slope, bend = calibrator.slope_, calibrator.curvature_
    least = LEAST_OF_PARABOLA * steepness
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
