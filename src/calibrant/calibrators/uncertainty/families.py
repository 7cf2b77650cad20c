"""Which calibrators have a normal approximation, with how many parameters, and the family of a fitted one."""

from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrator import Calibrator
from calibrant.calibrators.reductions.binary_method import BinaryMethod
from calibrant.calibrators.reductions.one_vs_rest import OneVsRest
from calibrant.calibrators.scaling.affine import AffineScaling
from calibrant.calibrators.scaling.penalties import affine_penalty
from calibrant.calibrators.scaling.temperature import TemperatureScaling
from calibrant.calibrators.scaling.vector import VectorScaling
from calibrant.calibrators.shift.bias_corrected_temperature import BiasCorrectedTemperature
from calibrant.calibrators.structured.mixed_scores import mixed_scores
from calibrant.calibrators.structured.structured_penalty import StructuredPenalty
from calibrant.calibrators.structured.structured_scaling import StructuredScaling
from calibrant.calibrators.uncertainty.event_designs import event_design, n_event_parameters
from calibrant.calibrators.uncertainty.event_family import EventFamily, OneVsRestFamily
from calibrant.calibrators.uncertainty.family import Family, Matrix, Vector, without_direction
from calibrant.calibrators.uncertainty.softmax_family import SoftmaxFamily
from calibrant.objective import DiagonalMap, FullMap, ScalarMap
from calibrant.predictions import Predictions

__all__ = ["family_of", "n_parameters_of"]


@singledispatch
def n_parameters_of(calibrator: Calibrator, n_classes: int) -> int | None:  # noqa: ARG001
    """Return the number of parameters of a calibrator for K classes; None if it has no normal approximation.

    >>> n_parameters_of(VectorScaling(), 3), n_parameters_of(TemperatureScaling(loss="brier"), 3)
    (6, None)
    """
    return None


@singledispatch
def family_of(calibrator: Calibrator) -> Family:
    """Return the family of a fitted calibrator for which :func:`n_parameters_of` gave a number."""
    raise TypeError(f"{type(calibrator).__name__} has no normal approximation")


# Softmax of linear scores


@n_parameters_of.register
def _(calibrator: TemperatureScaling, n_classes: int) -> int | None:  # noqa: ARG001
    return 1 if calibrator.loss == "log" else None  # the Brier score is no likelihood


@family_of.register
def _(calibrator: TemperatureScaling) -> Family:
    theta = np.array([calibrator.inverse_temperature_])
    logit_map = ScalarMap(len(calibrator.classes_), bias=False)
    lower = np.array([calibrator.bounds[0]], dtype=np.float64)
    return SoftmaxFamily(logit_map, theta, lambda given: given.logits, lower)


@n_parameters_of.register
def _(calibrator: BiasCorrectedTemperature, n_classes: int) -> int | None:  # noqa: ARG001
    return 1 + n_classes


@family_of.register
def _(calibrator: BiasCorrectedTemperature) -> Family:
    theta = np.append(calibrator.inverse_temperature_, calibrator.intercept_)
    logit_map = ScalarMap(len(calibrator.intercept_), bias=True)
    return SoftmaxFamily(logit_map, theta, lambda given: given.logits, _unbounded(theta))


@n_parameters_of.register
def _(calibrator: VectorScaling, n_classes: int) -> int | None:
    return (1 + bool(calibrator.bias)) * n_classes


@family_of.register
def _(calibrator: VectorScaling) -> Family:
    logit_map = DiagonalMap(len(calibrator.weights_), calibrator.bias)
    intercept = calibrator.intercept_ if calibrator.bias else np.empty(0)
    theta = np.concatenate([calibrator.weights_, intercept])
    return SoftmaxFamily(logit_map, theta, lambda given: given.logits, _unbounded(theta))


@n_parameters_of.register
def _(calibrator: AffineScaling, n_classes: int) -> int | None:  # noqa: ARG001
    return n_classes * (n_classes + 1)


@family_of.register
def _(calibrator: AffineScaling) -> Family:
    n_classes = len(calibrator.intercept_)
    theta = np.hstack([calibrator.weights_, calibrator.intercept_[:, np.newaxis]]).ravel()
    logit_map = FullMap(n_classes, bias=True)
    penalty = affine_penalty(calibrator.penalty, n_classes, calibrator.reg_lambda_, calibrator.reg_mu_)

    def hessian(total_weight: float) -> Matrix:
        whole = np.diag(total_weight * penalty.curvature)
        to_temperature = calibrator.penalty == "l2" and calibrator.center == "temperature"
        return without_direction(whole, logit_map.identity()) if to_temperature else whole

    return SoftmaxFamily(logit_map, theta, calibrator._features, _unbounded(theta), hessian)


@n_parameters_of.register
def _(calibrator: StructuredScaling, n_classes: int) -> int | None:
    of_classes = {"vector": 2 * n_classes, "matrix": n_classes * (n_classes + 1)}
    shared = calibrator.n_segments + calibrator.row_knots if calibrator.shared_map else 0
    return int(shared) + of_classes.get(str(calibrator.class_terms), 0)  # fewer where scores are too equal


@family_of.register
def _(calibrator: StructuredScaling) -> Family:
    logit_map = calibrator.logit_map()
    theta = calibrator.solution_.theta

    def penalty(total_weight: float) -> StructuredPenalty:
        return StructuredPenalty.of(
            logit_map,
            total_weight,
            calibrator.strength,
            calibrator.slope_penalty,
            calibrator.difference_penalty,
        )

    def hessian(total_weight: float) -> Matrix:
        return without_direction(total_weight * penalty(total_weight).hessian(), logit_map.identity())

    def gradient(total_weight: float) -> Vector:
        return total_weight * penalty(total_weight).gradient(theta)

    def features(given: Predictions) -> NDArray[np.floating]:
        return mixed_scores(given, calibrator.inverse_temperature_, calibrator.uniform_share_)

    return SoftmaxFamily(logit_map, theta, features, logit_map.lower, hessian, gradient)


# One event, and each class against the rest


@n_parameters_of.register
def _(calibrator: BinaryMethod, n_classes: int) -> int | None:
    of_event = n_event_parameters(calibrator)
    return None if of_event is None else of_event * (1 if n_classes == 2 else n_classes)


@family_of.register
def _(calibrator: BinaryMethod) -> Family:
    one_vs_rest = vars(calibrator).get("one_vs_rest_")
    return EventFamily(event_design(calibrator)) if one_vs_rest is None else family_of(one_vs_rest)


@n_parameters_of.register
def _(calibrator: OneVsRest, n_classes: int) -> int | None:
    if n_classes == 2:
        return n_parameters_of(calibrator.base, n_classes)
    # Other ways to make rows sum to one have other derivatives.
    if calibrator.normalisation != "divide" or not isinstance(calibrator.base, BinaryMethod):
        return None
    return n_parameters_of(calibrator.base, n_classes)


@family_of.register
def _(calibrator: OneVsRest) -> Family:
    if len(calibrator.calibrators_) == 1:
        return family_of(calibrator.calibrators_[0])
    return OneVsRestFamily([event_design(of_class) for of_class in calibrator.calibrators_])


def _unbounded(theta: Vector) -> Vector:
    return np.full(len(theta), -np.inf)
