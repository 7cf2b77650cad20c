"""One increasing piecewise-linear function for all classes: optima, derivatives and invariances."""

from functools import cache
from itertools import pairwise
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from shared_map_rows import calibrated_logits, labelled, logit_problem, probabilities

from calibrant import Predictions, TemperatureScaling
from calibrant.calibrators.monotone.order_preserving import fit_shared_map
from calibrant.calibrators.monotone.order_preserving.tempered_scores import TemperedScores
from calibrant.calibrators.structured.shared_segments import LEAST_SLOPE, SharedSegments
from calibrant.calibrators.structured.structured_map import StructuredMap, structured_penalty
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.linear_segments import LinearSegments
from calibrant.objective import ArrayRows, CrossEntropy, Objective
from calibrant.solvers import Status
from data import load
from strategies import logit_matrices, probability_matrices

# What is minimised


def naive_objective(slopes, rows, knots, slope_penalty, difference_penalty):
    """The formula with plain loops, one score at a time."""

    def value_at(x):
        if x <= knots[0]:
            return slopes[0] * (x - knots[0])
        height = 0.0
        for slope, left, right in zip(slopes[1:], knots, [*knots[1:], np.inf], strict=True):
            height += slope * (min(x, right) - left)
            if x <= right:
                break
        return height

    total, weight = 0.0, 0.0
    for row, label, row_weight in zip(rows.scores, rows.labels, rows.weights, strict=True):
        mapped = [value_at(x) for x in row]
        total += row_weight * (log(sum(np.exp(u) for u in mapped)) - mapped[label])
        weight += row_weight
    total += slope_penalty * sum((slope - 1) ** 2 for slope in slopes)
    total += difference_penalty * sum((b - a) ** 2 for a, b in pairwise(slopes))
    return total / weight


def objective_of(rows, knots, slope_penalty, difference_penalty):
    """The mean loss of slopes between knots that all classes share, with its penalty."""
    logit_map = StructuredMap(rows.scores.shape[1], SharedSegments(LinearSegments(knots), None), None)
    penalty = structured_penalty(logit_map, 0.0, slope_penalty, difference_penalty)
    given_rows = ArrayRows(rows.scores, rows.labels, rows.weights)
    return Objective(CrossEntropy(), logit_map, given_rows, penalty.times(1 / rows.total_weight))


@pytest.fixture(scope="module")
def weighted_rows():
    logits, labels = logit_problem(n_rows=60, n_classes=3)
    weights = np.random.default_rng(1).uniform(0.5, 2, 60)
    return TemperedScores.of(labelled(logits, labels, weights), "log-probabilities")


@pytest.fixture(scope="module")
def weighted_objective(weighted_rows):
    return objective_of(weighted_rows, weighted_rows.quantiles(4), 0.7, 1.3)


def test_the_objective_is_that_of_plain_loops(weighted_objective, weighted_rows):
    slopes = np.array([0.5, 1.5, 1.1, 0.2])
    expected = naive_objective(slopes.tolist(), weighted_rows, weighted_rows.quantiles(4).tolist(), 0.7, 1.3)
    assert weighted_objective.second_order(slopes).value == pytest.approx(expected, rel=1e-12)
    assert weighted_objective.expand(slopes).value == pytest.approx(expected, rel=1e-12)


def test_gradient_and_hessian_agree_with_finite_differences(weighted_objective):
    slopes, step = np.array([0.5, 1.5, 1.1, 0.2]), 1e-6
    here = weighted_objective.second_order(slopes)
    ahead = [weighted_objective.second_order(slopes + step * unit) for unit in np.eye(4)]
    behind = [weighted_objective.second_order(slopes - step * unit) for unit in np.eye(4)]
    for one, other, gradient, row in zip(ahead, behind, here.gradient, here.hessian, strict=True):
        assert (one.value - other.value) / (2 * step) == pytest.approx(gradient, abs=1e-8)
        np.testing.assert_allclose((one.gradient - other.gradient) / (2 * step), row, atol=1e-8)


@settings(max_examples=8)
@given(seed=st.integers(0, 1000), strength=st.sampled_from([0.1, 1.0, 10.0]), n_segments=st.integers(1, 8))
def test_the_fit_is_the_optimum_that_another_solver_finds(seed, strength, n_segments):
    data = labelled(*logit_problem(n_rows=150, seed=seed))
    fitted = fit_shared_map(data, n_segments, slope_penalty=strength, difference_penalty=strength)
    rows = TemperedScores.of(data, "log-probabilities")
    objective = objective_of(rows, fitted.knots, strength, strength)
    expected = minimize(
        lambda slopes: objective.second_order(slopes)[:2],
        np.ones(len(fitted.slopes)),
        jac=True,
        method="L-BFGS-B",
        bounds=[(LEAST_SLOPE, None)] * len(fitted.slopes),
        options={"ftol": 1e-14, "gtol": 1e-9},
    )
    assert fitted.solution.status is Status.CONVERGED
    assert fitted.solution.value <= expected.fun + 1e-10
    np.testing.assert_allclose(fitted.slopes, expected.x, atol=1e-3)
    assert fitted.solution.value == pytest.approx(objective.second_order(fitted.slopes).value, rel=1e-12)
    assert fitted.solution.loss == pytest.approx(
        data.log_loss(Predictions.from_logits(calibrated_logits(fitted, data.predictions))), rel=1e-9
    )


# Closed forms


def test_one_segment_is_temperature_scaling():
    """A slope in the place of a temperature that is the best already: it stays at one."""
    logits, labels = logit_problem()
    fitted = fit_shared_map(labelled(logits, labels), n_segments=1)
    np.testing.assert_allclose(fitted.slopes, [1.0], atol=1e-6)
    assert len(fitted.knots) == 0
    expected = TemperatureScaling().fit(Predictions.from_logits(logits), labels)
    np.testing.assert_allclose(
        probabilities(fitted, logits), expected.predict_proba(Predictions.from_logits(logits)), atol=1e-6
    )


def test_a_strong_penalty_is_temperature_scaling():
    logits, labels = logit_problem()
    fitted = fit_shared_map(labelled(logits, labels), slope_penalty=1e9)
    np.testing.assert_allclose(fitted.slopes, 1.0, atol=1e-6)


def test_two_groups_of_rows_get_their_frequencies_without_a_penalty():
    """Two classes: 90 % of which 7 in 10 are right, and 60 % of which 13 in 20 are.

    One function can fulfil phi(log 0.9) - phi(log 0.1) = logit 0.7 and phi(log 0.6) - phi(log 0.4) = logit 0.65, and
    be increasing, as log 0.1 < log 0.4 < log 0.6 < log 0.9 and 0.7 > 0.65.
    """
    p = [[0.9, 0.1]] * 20 + [[0.6, 0.4]] * 20
    y = [0] * 14 + [1] * 6 + [0] * 13 + [1] * 7
    data = LabelledPredictions.parse(p, y)
    fitted = fit_shared_map(data, slope_penalty=0.0, difference_penalty=1e-9)
    calibrated = Predictions.from_logits(calibrated_logits(fitted, data.predictions)).probabilities
    np.testing.assert_allclose(calibrated[[0, 20], 0], [0.7, 0.65], atol=1e-6)


def test_a_concave_truth_is_found_from_many_rows():
    """Labels come from a function of the logits with slope 1.2 below -2 and 0.5 above.

    The segment with the bend cannot follow it, and its right neighbour makes up for that; the others are right.
    """
    logits, labels = logit_problem(n_rows=40_000)
    fitted = fit_shared_map(labelled(logits, labels), inputs="logits")
    slopes, knots = fitted.slopes * fitted.inverse_temperature, fitted.knots / fitted.inverse_temperature
    bend = int(knots.searchsorted(-2))
    assert 0 < bend < 4
    np.testing.assert_allclose(slopes[:bend], 1.2, atol=0.1)
    np.testing.assert_allclose(slopes[bend + 2 :], 0.5, atol=0.1)


# Never worse


@settings(max_examples=25)
@given(
    p=probability_matrices(n_rows=8, n_classes=3), labels=st.lists(st.integers(0, 2), min_size=8, max_size=8)
)
def test_the_loss_is_never_above_that_of_temperature_scaling_or_of_doing_nothing(p, labels):
    data = LabelledPredictions.parse(p, np.array(labels))
    fitted = fit_shared_map(data)
    slack = 1 + 1e-5 if p.dtype == np.float32 else 1 + 1e-9
    assert fitted.solution.loss <= fitted.solution.identity_loss * slack
    calibrated = Predictions.from_logits(calibrated_logits(fitted, data.predictions))
    assert np.isfinite(calibrated.scores).all()
    assert data.log_loss(calibrated) <= fitted.solution.identity_loss * slack + 1e-6
    assert (fitted.slopes >= LEAST_SLOPE).all()


@cache
def fitted_to_three_classes(inputs):
    return fit_shared_map(labelled(*logit_problem(n_classes=3, n_rows=100)), inputs=inputs)


@given(logits=logit_matrices(n_rows=6, n_classes=3), inputs=st.sampled_from(["log-probabilities", "logits"]))
def test_the_order_of_scores_is_kept_but_for_rounding(logits, inputs):
    fitted = fitted_to_three_classes(inputs)
    calibrated = calibrated_logits(fitted, Predictions.from_logits(logits))
    assert calibrated.dtype == logits.dtype
    order = logits.argsort(axis=1)
    steps = np.diff(np.take_along_axis(calibrated, order, axis=1), axis=1)
    scale = np.abs(calibrated).max(axis=1, keepdims=True) + np.ptp(logits, axis=1, keepdims=True) + 1
    assert (steps >= -16 * np.finfo(logits.dtype).eps * scale * fitted.slopes.max()).all()


# What must not matter


@pytest.mark.parametrize("inputs", ["log-probabilities", "logits"])
def test_a_weight_of_two_equals_a_repeated_row(inputs):
    logits, labels = logit_problem()
    weights = np.where(np.arange(len(labels)) % 3 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(len(labels)), weights.astype(int))
    weighted = fit_shared_map(labelled(logits, labels, weights), inputs=inputs)
    repeated = fit_shared_map(labelled(logits[twice], labels[twice]), inputs=inputs)
    np.testing.assert_allclose(probabilities(weighted, logits), probabilities(repeated, logits), atol=1e-8)


def test_neither_the_order_of_rows_nor_that_of_classes_matters():
    logits, labels = logit_problem()
    expected = probabilities(fit_shared_map(labelled(logits, labels)), logits)
    rows = np.random.default_rng(3).permutation(len(labels))
    shuffled = fit_shared_map(labelled(logits[rows], labels[rows]))
    np.testing.assert_allclose(probabilities(shuffled, logits), expected, atol=1e-9)
    order = np.array([2, 0, 3, 1])
    renamed = fit_shared_map(labelled(logits[:, order], np.argsort(order)[labels]))
    np.testing.assert_allclose(probabilities(renamed, logits), expected, atol=1e-9)


def test_float32_and_float64_give_the_same_map():
    logits, labels = logit_problem(dtype=np.float32)
    single, double = (
        fit_shared_map(labelled(logits, labels)),
        fit_shared_map(labelled(logits.astype(float), labels)),
    )
    assert probabilities(single, logits).dtype == np.float32
    np.testing.assert_allclose(
        probabilities(single, logits), probabilities(double, logits.astype(float)), atol=1e-5
    )


@pytest.mark.parametrize("factor", [1e-4, 1e-2, 1e2, 1e4])
def test_the_size_of_logits_does_not_matter(factor):
    logits, labels = logit_problem()
    expected = probabilities(fit_shared_map(labelled(logits, labels)), logits)
    scaled = fit_shared_map(labelled(factor * logits, labels))
    np.testing.assert_allclose(probabilities(scaled, factor * logits), expected, atol=1e-6)


def test_a_shift_of_a_row_matters_to_raw_logits_alone():
    logits, labels = logit_problem()
    shifted = logits + np.random.default_rng(0).normal(scale=3, size=(len(labels), 1))
    same, other = (
        [probabilities(fit_shared_map(labelled(z, labels), inputs=inputs), z) for z in (logits, shifted)]
        for inputs in ("log-probabilities", "logits")
    )
    np.testing.assert_allclose(*same, atol=1e-9)
    assert np.abs(other[0] - other[1]).max() > 0.01


def test_the_input_is_not_written_to():
    logits, labels = logit_problem()
    data = labelled(logits, labels)
    before = logits.copy()
    calibrated_logits(fit_shared_map(data), data.predictions)
    np.testing.assert_array_equal(logits, before)


# Hard rows


def test_rows_that_are_all_right_do_not_make_slopes_infinite():
    logits = np.random.default_rng(0).normal(size=(50, 3)) * 5
    fitted = fit_shared_map(labelled(logits, logits.argmax(axis=1)))
    assert fitted.solution.status is Status.CONVERGED
    assert fitted.slopes.max() < 100
    assert fitted.solution.loss <= fitted.solution.identity_loss


@pytest.mark.parametrize(
    "logits", [np.zeros((6, 3)), np.tile([1.0, 0.0, -2.0], (6, 1)), np.full((6, 2), 7.0)]
)
def test_constant_logits(logits):
    """Equal classes stay equal; equal rows may move towards the frequencies."""
    labels = np.arange(6) % logits.shape[1]
    fitted = fit_shared_map(labelled(logits, labels))
    calibrated = probabilities(fitted, logits)
    assert fitted.solution.converged
    assert np.isfinite(calibrated).all()
    assert (np.ptp(calibrated, axis=1) == 0).all() == (np.ptp(logits, axis=1) == 0).all()


def test_one_row():
    """No more than a start: the single right row makes the slopes a little larger."""
    fitted = fit_shared_map(labelled(np.array([[1.0, 0.0, -1.0]]), [0]))
    assert fitted.solution.converged
    assert (fitted.slopes >= 1 - 1e-6).all()
    assert np.isfinite(probabilities(fitted, np.array([[50.0, 0.0, -50.0]]))).all()


def test_certain_and_saturated_probabilities():
    """Zeros count as the floor, and ones hold no information for knots."""
    p = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0], [0.5, 0.5, 0]] * 4, dtype=np.float32)
    data = LabelledPredictions.parse(p, [0, 1, 2, 1, 0] * 4)
    fitted = fit_shared_map(data)
    calibrated = Predictions.from_logits(calibrated_logits(fitted, data.predictions))
    assert np.isfinite(data.log_loss(calibrated))
    assert data.log_loss(calibrated) <= fitted.solution.identity_loss


def test_scores_far_from_all_calibration_rows_are_mapped_by_the_last_slopes():
    logits, labels = logit_problem()
    fitted = fit_shared_map(labelled(logits, labels))
    far = np.array([[0.0, -1e3, -2e3, -3e3]])
    mapped = calibrated_logits(fitted, Predictions.from_logits(far))
    np.testing.assert_allclose(
        np.diff(mapped[0, 1:]), -1e3 * fitted.inverse_temperature * fitted.slopes[0], rtol=1e-9
    )


@pytest.mark.parametrize("n_classes", [2, 1000])
def test_two_classes_and_a_thousand(n_classes):
    logits, labels = logit_problem(n_rows=300, n_classes=n_classes)
    data = labelled(logits, labels)
    fitted = fit_shared_map(data)
    assert fitted.solution.status is Status.CONVERGED
    scaled = data.log_loss(Predictions.from_logits(fitted.inverse_temperature * logits))
    assert data.log_loss(Predictions.from_logits(calibrated_logits(fitted, data.predictions))) <= scaled


# Published networks


@pytest.mark.parametrize(
    ("network", "temperature_scaling", "noise"),
    [("c10_resnet110", 0.20926, 0.0), ("c10_densenet40", 0.22509, 2e-4), ("c10_convnet", 0.19497, 3e-4)],
)
def test_test_rows_of_published_networks(network, temperature_scaling, noise):
    """Never above temperature scaling by more than a small part of the standard error, which is 0.005 to 0.007."""
    arrays = load(f"kull_nn/{network}")
    fitted = fit_shared_map(labelled(arrays["val_logits"], arrays["val_y"]))
    test = labelled(arrays["test_logits"], arrays["test_y"])
    assert (
        test.log_loss(Predictions.from_logits(calibrated_logits(fitted, test.predictions)))
        <= temperature_scaling + noise
    )


def test_a_network_that_one_temperature_does_not_fit():
    """On VGG-16 the function bends strongly: a tenth of the log-loss of temperature scaling is saved, and Brier too."""
    arrays = load("cifar_pytorch_models/c10_vgg16_bn")
    order = np.random.default_rng(0).permutation(10_000)
    calibration, test = (labelled(arrays["logits"][half], arrays["y"][half]) for half in np.split(order, 2))
    fitted = fit_shared_map(calibration)
    calibrated = Predictions.from_logits(calibrated_logits(fitted, test.predictions))
    scaled = TemperatureScaling().fit_labelled(calibration).transform(test.predictions)
    assert test.log_loss(calibrated) < 0.92 * test.log_loss(scaled)
    assert test.squared_error(calibrated) < 0.96 * test.squared_error(scaled)
