"""Maps of the triangle: what is known in closed form, permutations of classes, and many classes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError

from calibrant import DirichletCalibration, Identity, MatrixScaling, Predictions, TemperatureScaling, registry
from calibrant.calibrators.scaling.dirichlet import LinearParameters
from calibrant.errors import ParameterError, PredictionError
from calibrant.plots import (
    InterpretationPointsDisplay,
    SimplexMapComparisonDisplay,
    SimplexMapDisplay,
    simplex_map,
)
from calibrant.plots.simplex.triangle import INTENSITY, MIXTURES, error_colours
from calibrant.synthetic import IdentityMap, SyntheticTask, TemperatureMap, tasks
from data import load
from strategies import class_orders


def dirichlet(weights, intercept, classes=None):
    parameters = LinearParameters(np.asarray(weights, dtype=float), np.asarray(intercept, dtype=float))
    return DirichletCalibration.from_parameters(parameters, classes=classes)


# Values


@pytest.mark.parametrize(
    "mapping", [IdentityMap(), lambda rows: rows, SyntheticTask(calibration_map=IdentityMap())]
)
def test_the_identity_moves_nothing(mapping):
    numbers = simplex_map(mapping)
    assert_allclose(numbers.images, numbers.points, atol=1e-12)
    assert_allclose(numbers.errors, 0, atol=1e-12)
    assert numbers.mean_move == pytest.approx(0, abs=1e-12)


def test_a_calibrator_that_does_nothing_moves_nothing():
    p = np.random.default_rng(0).dirichlet(np.ones(3), 30)
    numbers = simplex_map(Identity().fit(p, np.arange(30) % 3))
    assert_allclose(numbers.images, numbers.points, atol=1e-7)


def test_a_temperature_takes_powers():
    """c(p) is proportional to p^(1 / T)."""
    numbers = simplex_map(TemperatureMap(2.0), n_arrows=5, n_cells=7)
    roots = np.sqrt(numbers.points)
    assert_allclose(numbers.images, roots / roots.sum(axis=1, keepdims=True))


def test_a_constant_map_ends_all_arrows_at_one_point():
    numbers = simplex_map(lambda rows: np.tile([0.5, 0.3, 0.2], (len(rows), 1)))
    assert_allclose(numbers.images, np.tile([0.5, 0.3, 0.2], (len(numbers.points), 1)))
    assert_allclose(numbers.errors, numbers.cell_points - [0.5, 0.3, 0.2])


@pytest.mark.parametrize("name", ["mixed", "regions", "rotated", "confused"])
def test_the_truth_of_a_task_is_its_map(name):
    task = tasks()[name]
    numbers = simplex_map(task)
    assert_allclose(numbers.cell_images, task.true_probabilities(numbers.cell_points))


def test_errors_sum_to_zero():
    assert_allclose(simplex_map(SyntheticTask()).errors.sum(axis=1), 0, atol=1e-12)


@given(order=class_orders(3))
def test_permuted_classes_give_the_permuted_map(order):
    """Seen in another order of corners, a map has the same points and images with their entries moved."""
    calibrator = dirichlet(
        [[0.8, 0.2, 0.0], [0.1, 0.7, 0.1], [0.0, -0.1, 0.9]], [0.2, 0.0, -0.3], ["a", "b", "c"]
    )
    plain = simplex_map(calibrator)
    turned = simplex_map(calibrator, classes=np.array(["a", "b", "c"])[order])
    assert turned.names == tuple(np.array(["a", "b", "c"])[order])
    expected = calibrator.predict_proba(turned.points[:, np.argsort(order)])[:, order]
    assert_allclose(turned.images, expected, atol=1e-12)
    assert_allclose(calibrator.predict_proba(plain.points), plain.images, atol=1e-12)


def test_of_many_classes_results_are_given_one_of_the_three():
    """A temperature acts on the three chosen classes alone as it would on all."""
    generator = np.random.default_rng(0)
    p = generator.dirichlet(np.full(6, 0.5), 200)
    fitted = TemperatureScaling().fit(p, np.where(np.arange(200) % 4, p.argmax(axis=1), p.argmin(axis=1)))
    numbers = simplex_map(fitted, classes=[5, 0, 3])
    powers = numbers.points**fitted.inverse_temperature_
    assert_allclose(numbers.images, powers / powers.sum(axis=1, keepdims=True), atol=1e-9)


def test_a_map_of_raw_logits_sees_log_probabilities():
    generator = np.random.default_rng(0)
    logits = Predictions.from_logits(generator.normal(size=(90, 3)))
    fitted = MatrixScaling(reg_lambda=0.1, reg_mu=0.1).fit(logits, np.arange(90) % 3)
    numbers = simplex_map(fitted)
    expected = fitted.predict_proba(Predictions.from_logits(np.log(numbers.points)))
    assert_allclose(numbers.images, expected)


def test_a_network_of_ten_classes_can_be_looked_at():
    data = load("kull_nn/c10_resnet110")
    fitted = TemperatureScaling().fit(Predictions.from_logits(data["val_logits"][:500]), data["val_y"][:500])
    numbers = simplex_map(fitted, classes=[3, 5, 2])
    assert fitted.temperature_ > 1
    assert (numbers.images.max(axis=1) < numbers.points.max(axis=1) + 1e-9).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["decision", "forest", "knn-kl", "kernel-dirichlet", "isotonic", "dirichlet"]
)
def test_methods_of_the_thesis_come_closer_to_the_truth_than_doing_nothing(name):
    """Figures 5, 7, 9, 10 and 12 of the thesis: 5,000 rows of a task whose map is known."""
    task = SyntheticTask()
    rows = task.sample(5000, random_state=0)
    fitted = registry.make(name).fit(rows.predictions, rows.labels)
    display = SimplexMapComparisonDisplay.from_maps(
        {"truth": task, "learnt": fitted, "nothing": IdentityMap()}
    )
    assert display.distance("learnt", "truth") < 0.7 * display.distance("nothing", "truth")


# Refusals


def test_an_unfitted_calibrator_is_refused():
    with pytest.raises(NotFittedError):
        simplex_map(TemperatureScaling())


@pytest.mark.parametrize("mapping", [None, 3, "temperature"])
def test_what_is_no_map_is_refused(mapping):
    with pytest.raises(ParameterError, match="a map must be a fitted calibrator"):
        simplex_map(mapping)


@pytest.mark.parametrize("wrong", [lambda p: p[:, :2], lambda p: 2 * p, lambda p: p * np.nan, len])
def test_a_function_that_returns_no_probabilities_is_refused(wrong):
    with pytest.raises(ParameterError, match="must return 3 non-negative probabilities"):
        simplex_map(wrong)


def test_a_task_of_two_classes_is_refused():
    with pytest.raises(PredictionError, match="three classes"):
        simplex_map(tasks()["two-classes"])


@pytest.mark.parametrize("options", [{"n_arrows": 0}, {"n_cells": 1.5}, {"others": 0.0}, {"others": 1.0}])
def test_grids_without_meaning_are_refused(options):
    with pytest.raises(ParameterError, match=next(iter(options))):
        simplex_map(IdentityMap(), **options)


# Colours


def test_no_error_is_grey():
    for palette in MIXTURES:
        assert_allclose(error_colours(np.zeros((1, 3)), palette), 0.5)


@given(error=st.floats(-0.07, 0.07))
def test_channels_follow_the_errors(error):
    """1/2 + 3.5 times the error of each class, as in the thesis."""
    colours = error_colours(np.array([[error, -error, 0.0]]))
    assert_allclose(colours, [[0.5 + INTENSITY * error, 0.5 - INTENSITY * error, 0.5]])


def test_colours_of_large_errors_stay_colours():
    colours = error_colours(np.array([[1.0, -1.0, 0.0]]))
    assert_allclose(colours, [[1, 0, 0.5]])


def test_safe_colours_tell_errors_apart_without_red_and_green():
    """By lightness and by blue less yellow alone, the two things that remain, all directions of error differ."""
    seen = np.array([[1 / 3, 1 / 3, 1 / 3], [-0.5, -0.5, 1.0]])  # of red, green and blue
    directions = np.array([[1, -1, 0], [1, 0, -1]]) / np.sqrt(2)
    sizes = np.linalg.svd(seen @ (directions @ MIXTURES["safe"]).T, compute_uv=False)
    assert sizes.min() > 0.2
    assert np.linalg.svd(seen @ (directions @ MIXTURES["rgb"]).T, compute_uv=False).min() < 1e-9


# Displays


def test_a_display_has_both_grids_in_its_table():
    display = SimplexMapDisplay.from_map(TemperatureMap(2.0), n_arrows=3, n_cells=4)
    columns = display.columns()
    assert columns["part"].tolist() == ["arrow"] * 6 + ["cell"] * 16
    assert_allclose(columns["c_1"][:6], display.numbers.images[:, 1])
    assert display.title == "TemperatureMap"


def test_maps_side_by_side_have_a_distance():
    """Naively: the mean over cells and classes of what two functions differ by."""
    display = SimplexMapComparisonDisplay.from_maps({"a": TemperatureMap(2.0), "b": TemperatureMap(0.5)})
    points = display.numbers["a"].cell_points
    naive = np.mean(
        [abs(x - y) for x, y in zip(TemperatureMap(2.0)(points), TemperatureMap(0.5)(points), strict=True)]
    )
    assert display.distance("a", "b") == pytest.approx(naive)
    assert display.distance("a", "a") == 0
    assert set(display.columns()["map"]) == {"a", "b"}


def test_maps_side_by_side_must_be_of_the_same_classes():
    named = dirichlet(np.eye(3), np.zeros(3), ["x", "y", "z"])
    with pytest.raises(ParameterError, match=r"same classes, but 'b' has x, y, z and the first one 0, 1, 2"):
        SimplexMapComparisonDisplay.from_maps({"a": IdentityMap(), "b": named})


def test_a_comparison_needs_maps_by_name():
    with pytest.raises(ParameterError, match="dictionary with at least one map"):
        SimplexMapComparisonDisplay.from_maps({})
    with pytest.raises(ParameterError, match="there is no map 'c'; the maps are 'a'"):
        SimplexMapComparisonDisplay.from_maps({"a": IdentityMap()}).distance("a", "c")


# Interpretation points


def test_the_identity_leaves_interpretation_points_where_they_are():
    display = InterpretationPointsDisplay.from_estimator(dirichlet(np.eye(3), np.zeros(3)))
    assert_allclose(display.images, display.points, atol=1e-12)


def test_the_image_of_the_centre_is_the_canonical_centre():
    calibrator = dirichlet([[2, 0, 0.5], [0, 1, 0], [0.2, 0, 1]], [0.1, 0.3, -0.2], ["a", "b", "c"])
    display = InterpretationPointsDisplay.from_estimator(calibrator, classes=["c", "a", "b"])
    matrix, center = calibrator.canonical()
    assert_allclose(display.images[-1], center[[2, 0, 1]])
    assert_allclose(display.center, center[[2, 0, 1]])
    assert_allclose(display.matrix, matrix[np.ix_([2, 0, 1], [2, 0, 1])])
    assert display.columns()["point"].tolist() == ["without c", "without a", "without b", "centre"]


def test_a_diagonal_map_takes_powers_of_interpretation_points():
    """(e, h, h) goes to (e^2, h^2, h^2) over its sum."""
    display = InterpretationPointsDisplay.from_estimator(dirichlet(2 * np.eye(3), np.zeros(3)), epsilon=0.1)
    squares = np.array([0.1, 0.45, 0.45]) ** 2
    assert_allclose(display.images[0], squares / squares.sum())


def test_interpretation_points_of_many_classes_are_given_one_of_three():
    display = InterpretationPointsDisplay.from_estimator(
        dirichlet(np.eye(5), np.zeros(5)), epsilon=0.2, classes=[4, 1, 0]
    )
    assert_allclose(display.points, [[1 / 3, 1 / 3, 1 / 3]] * 4)
    assert display.matrix is None


def test_interpretation_points_need_a_dirichlet_map_of_three_classes():
    with pytest.raises(ParameterError, match="DirichletCalibration, not a TemperatureScaling"):
        InterpretationPointsDisplay.from_estimator(TemperatureScaling())
    with pytest.raises(PredictionError, match="three classes"):
        InterpretationPointsDisplay.from_estimator(dirichlet(np.eye(2), np.zeros(2)))
