"""Heat maps of weights and the change of the confusion matrix."""

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose
from sklearn.metrics import confusion_matrix

from calibrant import (
    DirichletCalibration,
    LabelledPredictions,
    MatrixScaling,
    Predictions,
    TemperatureScaling,
    VectorScaling,
)
from calibrant.calibrators.scaling.dirichlet import LinearParameters
from calibrant.errors import MissingClassWarning, ParameterError
from calibrant.plots import ConfusionChange, LinearMapDisplay
from calibrant.plots.linear_map import colour_limit, thinned
from data import load
from strategies import problems

P = np.array([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.3, 0.6, 0.1], [0.5, 0.2, 0.3]] * 20)
Y = np.array([0, 1, 1, 0, 2] * 20)
SPREAD = np.random.default_rng(0).permutation(Y)  # so that no class is told apart for sure


def dirichlet(weights, intercept, classes=None):
    parameters = LinearParameters(np.asarray(weights, dtype=float), np.asarray(intercept, dtype=float))
    return DirichletCalibration.from_parameters(parameters, classes=classes)


@pytest.fixture(scope="module")
def fitted():
    return DirichletCalibration(reg_lambda=0.1, reg_mu=0.01).fit(P, Y)


# Confusion matrices


def test_the_identity_changes_no_prediction():
    display = LinearMapDisplay.from_estimator(dirichlet(np.eye(3), np.zeros(3)), P, Y)
    assert_allclose(display.confusion.change, 0)
    assert display.confusion.accuracy[0] == display.confusion.accuracy[1]


def test_counts_are_those_of_scikit_learn(fitted):
    confusion = LinearMapDisplay.from_estimator(fitted, P, Y).confusion
    assert_allclose(confusion.before, confusion_matrix(Y, P.argmax(axis=1)))
    assert_allclose(confusion.after, confusion_matrix(Y, fitted.predict_proba(P).argmax(axis=1)))


@given(problem=problems())
def test_changes_of_a_row_sum_to_zero(problem):
    """True classes stay what they are."""
    data = LabelledPredictions.parse(*problem)
    turned = Predictions.from_probabilities(np.roll(problem.probabilities, 1, axis=1))
    change = ConfusionChange.of(data, turned)
    assert_allclose(change.change.sum(axis=1), 0)
    assert change.before.sum() == pytest.approx(data.n_rows)
    assert change.accuracy[0] == pytest.approx(
        np.mean(problem.probabilities.argmax(axis=1) == problem.labels)
    )


def test_a_weight_of_two_is_a_row_given_twice(fitted):
    weights = 1 + np.arange(len(Y)) % 2
    weighted = LinearMapDisplay.from_estimator(fitted, P, Y, sample_weight=weights).confusion
    repeated = LinearMapDisplay.from_estimator(
        fitted, np.repeat(P, weights, axis=0), np.repeat(Y, weights)
    ).confusion
    assert_allclose(weighted.change, repeated.change)


def test_intercepts_move_rows_to_their_class():
    """With b = (0, 0, 10) every row becomes class 2."""
    display = LinearMapDisplay.from_estimator(dirichlet(np.eye(3), [0, 0, 10]), P, Y)
    assert_allclose(display.confusion.after[:, 2], [40, 40, 20])


# Weights


def test_a_dirichlet_map_is_shown_in_its_canonical_form(fitted):
    display = LinearMapDisplay.from_estimator(fitted)
    assert display.form == "canonical"
    assert_allclose(display.weights.min(axis=0), 0, atol=1e-12)
    assert display.intercept.sum() == pytest.approx(1)
    assert display.confusion is None


def test_the_linear_form_has_the_fitted_numbers(fitted):
    display = LinearMapDisplay.from_estimator(fitted, form="linear")
    assert_allclose(display.weights, fitted.weights_)
    assert_allclose(display.intercept, fitted.intercept_)


def test_matrix_and_vector_maps_are_linear():
    matrix = MatrixScaling(reg_lambda=0.1, reg_mu=0.1).fit(P, Y)
    assert_allclose(LinearMapDisplay.from_estimator(matrix).weights, matrix.weights_)
    vector = VectorScaling().fit(P, SPREAD)
    assert_allclose(LinearMapDisplay.from_estimator(vector).weights, np.diag(vector.weights_))


def test_two_classes_have_a_heat_map_too():
    display = LinearMapDisplay.from_estimator(dirichlet(np.eye(2), np.zeros(2)), [[0.3, 0.7]], [1])
    assert display.weights.shape == (2, 2)


def test_the_table_has_a_line_for_every_pair():
    calibrator = dirichlet([[2, 0, 1], [0, 1, 0], [0, 0, 3]], [0, 1, 2], ["a", "b", "c"])
    display = LinearMapDisplay.from_estimator(calibrator, P, np.array(["a", "b", "c"])[Y], form="linear")
    columns = display.columns()
    at = np.flatnonzero((columns["row"] == "a") & (columns["column"] == "c"))
    assert columns["weight"][at] == [1]
    assert columns["intercept_of_row"][at] == [0]
    assert columns["change"].sum() == 0
    assert {len(values) for values in columns.values()} == {9}


def test_classes_without_rows_are_no_part_of_the_map():
    p = np.column_stack([P * 0.9, np.full(len(P), 0.1)])
    with pytest.warns(MissingClassWarning):
        calibrator = DirichletCalibration(reg_lambda=0.1, reg_mu=0.01).fit(p, Y)
    display = LinearMapDisplay.from_estimator(calibrator, p, Y)
    assert display.names == ("0", "1", "2")
    assert display.all_names == ("0", "1", "2", "3")
    assert np.isnan(display.columns()["weight"]).sum() == 7


def test_many_classes_of_a_real_network():
    data = load("kull_nn/c100_convnet")
    predictions = Predictions.from_logits(data["test_logits"])
    display = LinearMapDisplay.from_estimator(
        dirichlet(np.eye(100), np.zeros(100)), predictions, data["test_y"]
    )
    assert display.confusion.accuracy == pytest.approx((0.7388, 0.7388))


# Colours and names


def test_colours_end_at_the_largest_weight_off_the_diagonal():
    assert colour_limit(np.array([[5.0, -0.3], [0.2, 4.0]])) == 0.3
    assert colour_limit(np.diag([2.0, 3.0])) == 3
    assert colour_limit(np.zeros((2, 2))) == 1


@pytest.mark.parametrize(("count", "shown"), [(3, 3), (20, 20), (21, 11), (100, 20), (1000, 20)])
def test_names_are_thinned_to_what_can_be_read(count, shown):
    assert len(thinned([""] * count)) == shown


# Refusals


def test_what_has_no_matrix_is_refused():
    with pytest.raises(ParameterError, match="not a TemperatureScaling"):
        LinearMapDisplay.from_estimator(TemperatureScaling())


def test_rows_need_labels(fitted):
    with pytest.raises(ParameterError, match="pass both X and y"):
        LinearMapDisplay.from_estimator(fitted, P)


def test_forms_without_meaning_are_refused(fitted):
    with pytest.raises(ParameterError, match="form must be 'linear' or 'canonical'"):
        LinearMapDisplay.from_estimator(fitted, form="generative")
    with pytest.raises(ParameterError, match="only Dirichlet maps"):
        LinearMapDisplay.from_estimator(VectorScaling().fit(P, SPREAD), form="canonical")
