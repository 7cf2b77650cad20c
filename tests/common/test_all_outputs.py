"""Every calibrator gives probabilities, whatever valid predictions come in."""

import numpy as np
import pytest
from methods import (
    NAMES,
    ROUNDING,
    assert_on_simplex,
    fitted,
    make,
    n_classes_of,
    on_grain,
    problem,
    settled,
    traits,
)
from sklearn.exceptions import NotFittedError

from calibrant import Predictions
from calibrant.errors import LabelError, PredictionError

CASES = [
    (name, n_classes)
    for name in NAMES
    for n_classes in (2, 3, 10)
    if n_classes == 2 or not traits(name).binary_only
]
every_method = pytest.mark.parametrize("name", NAMES)


@pytest.mark.parametrize(("name", "n_classes"), CASES)
def test_rows_sum_to_one_and_are_finite(name, n_classes):
    fresh = problem(n_classes, n_rows=50, seed=1).probabilities
    calibrated = fitted(name, n_classes).predict_proba(fresh)
    assert_on_simplex(calibrated, fresh.shape)
    assert calibrated.dtype == np.float64


@every_method
def test_as_the_registry_makes_it_with_parameters_chosen_from_the_data(name):
    X, y = problem(n_classes_of(name), n_rows=200)
    assert_on_simplex(make(name).fit(X, y).predict_proba(X), X.shape)


@pytest.mark.parametrize(("name", "n_classes"), CASES)
def test_predict_gives_the_label_of_the_largest_probability(name, n_classes):
    X, _ = problem(n_classes)
    calibrator = fitted(name, n_classes)
    expected = calibrator.classes_[calibrator.predict_proba(X).argmax(axis=1)]
    np.testing.assert_array_equal(calibrator.predict(X), expected)


@every_method
def test_one_row_is_mapped_as_it_is_among_others(name):
    X, _ = problem(n_classes_of(name))
    calibrator = fitted(name, n_classes_of(name))
    together = calibrator.predict_proba(X[:5])
    alone = np.vstack([calibrator.predict_proba(X[row : row + 1]) for row in range(5)])
    np.testing.assert_allclose(alone, together, rtol=0, atol=ROUNDING)


@every_method
def test_equal_rows_get_equal_probabilities(name):
    """Heavily tied rows: a map of the row alone cannot tell equals apart, wherever they stand."""
    X, _ = problem(n_classes_of(name))
    tied = np.tile(X[:3], (40, 1))
    calibrated = fitted(name, n_classes_of(name)).predict_proba(tied)
    np.testing.assert_allclose(calibrated, np.tile(calibrated[:3], (40, 1)), rtol=0, atol=ROUNDING)


@every_method
def test_fit_on_one_row_is_refused(name):
    X, y = problem(n_classes_of(name))
    with pytest.raises(LabelError, match="at least two classes"):
        settled(name).fit(X[:1], y[:1])


@every_method
def test_fit_on_heavily_tied_rows(name):
    """Three different rows, each repeated with changing labels."""
    X, _ = problem(n_classes_of(name))
    tied = np.tile(X[:3], (40, 1))
    labels = np.arange(len(tied)) // 3 % n_classes_of(name)
    assert_on_simplex(settled(name).fit(tied, labels).predict_proba(X), X.shape)


@every_method
def test_fit_on_rows_that_are_all_the_same(name):
    n_classes = n_classes_of(name)
    X = on_grain(np.tile(np.arange(1.0, n_classes + 1) / np.arange(1.0, n_classes + 1).sum(), (60, 1)))
    labels = np.minimum(np.arange(60) % (n_classes + 1), n_classes - 1)
    assert_on_simplex(settled(name).fit(X, labels).predict_proba(X), X.shape)


@every_method
@pytest.mark.filterwarnings("ignore::calibrant.errors.ConvergenceWarning")
def test_fit_on_uniform_rows(name):
    """Predictions that say nothing: every logit is zero after centring, and a method may well say so."""
    n_classes = n_classes_of(name)
    X = np.full((60, n_classes), 1 / n_classes)
    assert_on_simplex(settled(name).fit(X, np.arange(60) % n_classes).predict_proba(X), X.shape)


@pytest.mark.parametrize("name", [name for name in NAMES if not traits(name).binary_only])
@pytest.mark.parametrize("constant", [0.25, 0.0])
def test_fit_on_a_constant_column(name, constant):
    X, y = problem(3)
    others = X[:, 1:] / X[:, 1:].sum(axis=1, keepdims=True)
    X = np.column_stack([np.full(len(X), constant), (1 - constant) * others])
    assert_on_simplex(settled(name).fit(X, y).predict_proba(X), X.shape)


@every_method
def test_probabilities_of_exactly_zero_and_one(name):
    """Two rows in three are certain, a quarter of those wrongly; zeros count as the floor in logarithms."""
    n_classes = n_classes_of(name)
    X, y = (array.copy() for array in problem(n_classes))
    certain = np.arange(len(X)) % 3 > 0
    predicted = np.where(np.arange(len(X)) % 4 > 0, y, (y + 1) % n_classes)
    X[certain] = np.eye(n_classes)[predicted[certain]]
    calibrator = settled(name).fit(X, y)
    assert_on_simplex(calibrator.predict_proba(X), X.shape)
    assert_on_simplex(calibrator.predict_proba(np.eye(n_classes)), (n_classes, n_classes))


@every_method
def test_zeros_and_ones_at_prediction_only(name):
    n_classes = n_classes_of(name)
    assert_on_simplex(fitted(name, n_classes).predict_proba(np.eye(n_classes)), (n_classes, n_classes))


@every_method
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_saturated_softmax(name, dtype):
    """Logits times thirty: in float32 most rows hold a one, zeros and numbers below the normal range."""
    n_classes = n_classes_of(name)
    X, y = problem(n_classes)
    logits = 30 * np.log(X).astype(dtype)
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    saturated = exponentials / exponentials.sum(axis=1, keepdims=True)
    assert (saturated == 1).any()
    assert saturated[saturated > 0].min() < 1e-30
    assert saturated.dtype == dtype
    calibrated = settled(name).fit(saturated, y).predict_proba(saturated)
    assert_on_simplex(calibrated, X.shape)
    assert calibrated.dtype == dtype


@every_method
def test_predicting_before_fitting_is_refused(name):
    X, _ = problem(n_classes_of(name))
    for method in ("predict_proba", "predict", "transform"):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            getattr(make(name), method)(X)


@every_method
def test_transformed_scores_can_only_be_read(name):
    """Those of a method whose map is a graph, of one that compares rows with points, and of a mean over maps alike."""
    X, _ = problem(n_classes_of(name))
    given = X.copy()
    transformed = fitted(name, n_classes_of(name)).transform(given)
    for scores in (transformed.scores, transformed.probabilities):
        assert not scores.flags.writeable
    assert given.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        transformed.scores[0, 0] = 0.5


@every_method
def test_another_number_of_classes_than_in_fit_is_refused(name):
    n_classes = n_classes_of(name)
    with pytest.raises(PredictionError, match=f"fitted on {n_classes} classes.*{n_classes + 1} columns"):
        fitted(name, n_classes).predict_proba(problem(n_classes + 1).probabilities)


@every_method
def test_a_single_row_as_a_flat_array_is_refused_with_advice(name):
    if n_classes_of(name) == 2:
        return  # two numbers are two rows of the positive class
    X, _ = problem(3)
    with pytest.raises(PredictionError, match=r"for a single row pass X\[None, :\]"):
        fitted(name, 3).predict_proba(X[0])


@every_method
def test_output_belongs_to_the_caller(name):
    """Writing to the result changes neither the input nor what the calibrator gives next time."""
    X = problem(n_classes_of(name)).probabilities.copy()
    calibrator = fitted(name, n_classes_of(name))
    first = calibrator.predict_proba(X)
    kept = first.copy()
    first[:] = 0.0
    np.testing.assert_array_equal(calibrator.predict_proba(X), kept)
    assert not np.shares_memory(first, X)


@every_method
def test_logits_of_any_size_give_probabilities(name):
    """A map fitted on usual logits, applied to ones whose exponential overflows."""
    n_classes = n_classes_of(name)
    X, y = problem(n_classes)
    calibrator = settled(name).fit(Predictions.from_logits(np.log(X)), y)
    extreme = np.vstack([1e4 * np.eye(n_classes), -1e4 * np.eye(n_classes), np.full((1, n_classes), 1e4)])
    calibrated = calibrator.predict_proba(Predictions.from_logits(extreme))
    assert_on_simplex(calibrated, extreme.shape)
