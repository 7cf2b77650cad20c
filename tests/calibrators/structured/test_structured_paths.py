"""Paths of strengths of structured scaling, down to none."""

import numpy as np
import pytest
from scipy.special import softmax
from structured_rows import every_name, made, problem

from calibrant import StructuredScaling
from calibrant.errors import MissingClassWarning, ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.solvers import Status
from calibrant.synthetic import tasks


@every_name
def test_a_path_is_what_fits_of_their_own_give(name):
    X, y = problem(400, 4)
    strengths = [1.0, 30.0, 0.03, 1.0]
    path = made(name).fit_path(X, y, strengths)
    for strength, fitted in zip(strengths, path, strict=True):
        alone = made(name, strength=strength).fit(X, y)
        assert fitted.get_params() == alone.get_params()
        assert vars(fitted).keys() == vars(alone).keys()
        assert fitted.solution_.value == pytest.approx(alone.solution_.value, abs=1e-9)
        np.testing.assert_allclose(fitted.predict_proba(X), alone.predict_proba(X), rtol=0, atol=2e-5)


def test_a_path_leaves_the_original_unfitted_and_warns_once():
    X, y = problem(200, 4)
    kept = y != 2
    original = made("shared-vector")
    with pytest.warns(MissingClassWarning) as record:
        path = original.fit_path(X[kept], y[kept], [1.0, 2.0, 3.0])
    assert len(record) == 1
    assert vars(original).keys() == original.get_params().keys()
    for fitted in path:
        np.testing.assert_array_equal(fitted.predict_proba(X)[:, 2], X[:, 2])


def test_a_path_refuses_strengths_that_have_no_meaning():
    X, y = problem(50, 3)
    with pytest.raises(ParameterError, match="strength must be a number of at least 0"):
        made("shared-vector").fit_path(X, y, [1.0, -1.0])
    with pytest.raises(ParameterError, match="strengths must be given"):
        made("shared-vector").fit_path(X, y)
    assert made("shared-vector").fit_path(X, y, []) == []


def test_a_path_takes_weights_and_data_that_are_parsed_already():
    X, y = problem(200, 4)
    weights = np.arange(200) % 3
    (fitted,) = made("shared-vector").fit_path(X, y, [2.0], sample_weight=weights)
    expected = made("shared-vector", strength=2.0).fit(X, y, weights).predict_proba(X)
    np.testing.assert_array_equal(fitted.predict_proba(X), expected)
    data = LabelledPredictions.parse(X, y, weights)
    for path in (
        made("shared-vector").fit_path_labelled(data, [2.0]),
        made("shared-vector").fit_path(data, [2.0]),
    ):
        np.testing.assert_array_equal(path[0].predict_proba(X), expected)


def test_a_path_of_parsed_data_need_not_warn_of_absent_classes():
    X, y = problem(200, 4)
    data = LabelledPredictions.parse(X[y != 2], y[y != 2])
    (fitted,) = made("shared-vector").fit_path_labelled(data, [1.0], warn_of_absent=False)
    assert fitted.present_columns_ is not None


def many_classes(seed):
    """Two hundred rows of thirty classes with labels that have nothing to do with them: some are separable."""
    generator = np.random.default_rng(seed)
    scale = generator.choice([1, 2, 4])
    p = softmax(scale * generator.normal(size=(200, 30)), axis=1)
    return p, generator.integers(30, size=200)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["structured-vector", "shared-vector"])
@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrationWarning")
def test_a_path_down_to_nothing_says_what_fits_of_their_own_say(name, dtype):
    """Also in float32, whose Hessian products would lead uphill where the function is nearly flat."""
    for seed in (6, 17):
        X, y = many_classes(seed)
        X = X.astype(dtype)
        strengths = [30.0, 1.0, 0.1, 1e-3, 0.0]
        for strength, fitted in zip(strengths, made(name).fit_path(X, y, strengths), strict=True):
            alone = made(name, strength=strength).fit(X, y)
            assert fitted.solution_.status is alone.solution_.status
            assert fitted.solution_.value == pytest.approx(alone.solution_.value, abs=2e-8)
            assert fitted.solution_.status is Status.CONVERGED or strength == 0


@pytest.mark.parametrize("class_terms", [None, "vector", "matrix"])
def test_a_path_of_the_next_fold_has_the_losses_of_a_separate_fit(class_terms):
    rows = tasks()["mixed"].sample(400, 0)
    data = LabelledPredictions.parse(rows.predictions, rows.labels)
    first, second = data.take(np.arange(300)), data.take(np.arange(100, 400))
    strengths = [10.0, 0.1]
    _, nearby = StructuredScaling(class_terms).fit_trial_path(first, strengths)
    path, _ = StructuredScaling(class_terms).fit_trial_path(second, strengths, nearby)
    for near, exact in zip(
        path, StructuredScaling(class_terms).fit_path_labelled(second, strengths), strict=True
    ):
        assert near.solution_.value == pytest.approx(exact.solution_.value, abs=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_a_path_of_other_parameters_is_no_start():
    rows = tasks()["mixed"].sample(300, 0)
    data = LabelledPredictions.parse(rows.predictions, rows.labels)
    two = data.take(np.flatnonzero(data.labels != 2))
    _, nearby = StructuredScaling().fit_trial_path(two, [1.0])
    [near], _ = StructuredScaling().fit_trial_path(data, [1.0], nearby)
    [alone], _ = StructuredScaling().fit_trial_path(data, [1.0])
    np.testing.assert_array_equal(near.weights_, alone.weights_)
