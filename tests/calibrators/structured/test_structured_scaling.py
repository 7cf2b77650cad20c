"""Structured scaling: closed forms, order, weights, small and unusual data."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax
from structured_rows import NAMES, every_name, made, problem

from calibrant import Predictions, StructuredScaling, TemperatureScaling
from calibrant.calibrators.structured import structured_rows as structured_fit
from calibrant.errors import CalibrationWarning, MissingClassWarning, ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.solvers import Status

may_keep_identity = pytest.mark.filterwarnings("ignore:.*identity:calibrant.errors.CalibrationWarning")


def log_loss(calibrator, X, y):
    return LabelledPredictions.parse(X, y).log_loss(calibrator.transform(X))


# What is fitted


@every_name
def test_infinite_prices_leave_temperature_scaling_with_a_little_of_the_uniform(name):
    X, y = problem(300, 3)
    fitted = made(name, strength=1e9, slope_penalty=1e9).fit(X, y)
    tempered = TemperatureScaling().fit(X, y).predict_proba(X)
    np.testing.assert_allclose(fitted.predict_proba(X), 300 / 301 * tempered + 1 / 301 / 3, rtol=0, atol=1e-6)
    assert fitted.uniform_share_ == pytest.approx(1 / 301)


@every_name
def test_infinite_prices_without_mixing_leave_temperature_scaling(name):
    X, y = problem(300, 3)
    fitted = made(name, strength=1e9, slope_penalty=1e9, mixing=0).fit(X, y)
    expected = TemperatureScaling().fit(X, y)
    assert fitted.temperature_ == pytest.approx(expected.temperature_)
    np.testing.assert_allclose(fitted.predict_proba(X), expected.predict_proba(X), rtol=0, atol=1e-6)


def test_without_a_price_the_vector_predicts_the_shares_of_the_classes():
    """The derivative in the intercepts is the difference between mean prediction and frequency."""
    X, y = problem(500, 4)
    fitted = made("structured-vector", strength=0).fit(X, y)
    np.testing.assert_allclose(fitted.predict_proba(X).mean(axis=0), np.bincount(y) / 500, atol=1e-5)


def test_the_price_of_intercepts_in_closed_form():
    """Uniform rows of two classes: x is constant, so v_k x and b_k act alike and share the work.

    With c = log 2, u_k = (-c v_k + b_k) and r = v, b in proportion -c to 1 at equal prices, the difference of scores is
    d = (1 + c^2) (b_1 - b_0), b_1 = -b_0, and the penalty 2 K (1 + c^2) b_1^2 / n = K d^2 / (2 n (1 + c^2)) is to be
    balanced against the loss, whose derivative is sigmoid(d) - f for the frequency f of the second class.
    """
    n_rows, frequency, c = 60, 0.75, np.log(2)
    y = np.arange(n_rows) % 4 > 0
    fitted = made("structured-vector").fit(np.full(n_rows, 0.5), y)
    p = fitted.predict_proba(np.full(1, 0.5))[0, 1]
    d = np.log(p / (1 - p))
    assert p - frequency + 2 * d / (n_rows * (1 + c**2)) == pytest.approx(0, abs=1e-6)
    assert fitted.intercept_.sum() == pytest.approx(0, abs=1e-8)


@every_name
def test_attributes_have_the_shapes_that_were_promised(name):
    X, y = problem(400, 5)
    fitted = made(name).fit(X, y)
    shared = fitted.shared_map
    assert fitted.slopes_.shape == ((6,) if shared else (1,))
    assert fitted.knots_.shape == ((5,) if shared else (0,))
    assert fitted.row_knots_.shape == fitted.row_slopes_.shape == ((4,) if shared else (0,))
    expected = {None: None, "vector": (5,), "matrix": (5, 5)}[fitted.class_terms]
    assert (None if fitted.weights_ is None else fitted.weights_.shape) == expected
    assert (None if fitted.intercept_ is None else fitted.intercept_.shape) == (expected and (5,))
    assert fitted.temperature_ * fitted.inverse_temperature_ == pytest.approx(1)
    assert fitted.solution_.converged
    assert fitted.solution_.loss == pytest.approx(log_loss(fitted, X, y), rel=1e-12)


def test_the_map_by_its_formula_from_the_attributes():
    """Row by row from knots, slopes, row slopes, weights and intercepts, as a reader of the docstring would do it."""
    X, y = problem(600, 3)
    fitted = StructuredScaling().fit(X, y)
    q = softmax(np.log(X) / fitted.temperature_, axis=1)
    x = np.log((1 - fitted.uniform_share_) * q + fitted.uniform_share_ / 3)
    mean = x.mean(axis=1)
    lengths = np.diff(fitted.knots_)
    at_knots = np.concatenate([[0.0], np.cumsum(fitted.slopes_[1:-1] * lengths)])
    phi = np.interp(x, fitted.knots_, at_knots)
    phi += fitted.slopes_[0] * np.minimum(x - fitted.knots_[0], 0)
    phi += fitted.slopes_[-1] * np.maximum(x - fitted.knots_[-1], 0)
    tau = np.interp(mean, fitted.row_knots_, fitted.row_slopes_)
    scores = phi + tau[:, np.newaxis] * x + x @ fitted.weights_.T + fitted.intercept_
    np.testing.assert_allclose(fitted.predict_proba(X), softmax(scores, axis=1), rtol=0, atol=1e-12)


def test_one_segment_and_no_row_knots_make_the_shared_map_a_line():
    X, y = problem(300, 3)
    fitted = made("shared-map", n_segments=1, row_knots=0).fit(X, y)
    assert fitted.knots_.shape == (0,)
    assert fitted.slopes_ == pytest.approx(
        1, abs=0.02
    )  # the temperature is fitted already, mixing moves it a little


@every_name
def test_more_parameters_and_lower_prices_never_cost_value(name):
    X, y = problem(500, 4)
    values = [made(name, strength=strength).fit(X, y).solution_.loss for strength in (100.0, 1.0, 0.01)]
    assert values[0] >= values[1] - 1e-9 >= values[2] - 2e-9


def test_the_shared_map_helps_where_sure_and_unsure_rows_differ():
    X, y = problem(4000, 10)
    sure = X.max(axis=1) > 0.9
    flipped = sure & (np.random.default_rng(1).uniform(size=len(y)) < 0.2)
    y = np.where(flipped, (y + 1) % 10, y)
    temperature = TemperatureScaling().fit(X, y).solution_.loss
    assert made("shared-map").fit(X, y).solution_.loss < temperature - 0.02


# Order


@settings(max_examples=15)
@given(seed=st.integers(0, 1000), n_classes=st.integers(2, 8), strange=st.booleans())
def test_the_shared_map_keeps_the_order_of_every_row(seed, n_classes, strange):
    """Also of labels that contradict the predictions; but for rounding in the middle, exactly at the top."""
    X, y = problem(120, n_classes, seed)
    y = np.random.default_rng(seed).permutation(y) if strange else y
    fitted = made("shared-map").fit(X, np.concatenate([y[:-2], [0, 1]]))
    fresh, _ = problem(200, n_classes, seed + 1, sharpness=4.0)
    calibrated = fitted.predict_proba(fresh)
    order = np.argsort(fresh, axis=1)
    assert (np.diff(np.take_along_axis(calibrated, order, axis=1), axis=1) >= -1e-14).all()
    np.testing.assert_array_equal(calibrated.argmax(axis=1), fresh.argmax(axis=1))


def test_narrow_leads_of_float32_stay():
    """Rounding in the map makes ties of neighbours among numbers, and the first of equals would be predicted."""
    X, y = problem(300, 4)
    fitted = made("shared-map").fit(X, y)
    logits = np.random.default_rng(1).normal(size=(2000, 4)).astype(np.float32)
    logits[:, 3] = logits.max(axis=1)
    logits[:, 0] = np.nextafter(logits[:, 3], np.float32(-np.inf))
    given = Predictions.from_logits(logits)
    np.testing.assert_array_equal(fitted.transform(given).predicted, given.predicted)


def test_class_terms_may_change_the_order():
    X, y = problem(2000, 3)
    y = np.where(y == 0, np.where(np.arange(2000) % 4 > 0, 1, 0), y)
    assert (made("structured-vector").fit(X, y).predict(X) != X.argmax(axis=1)).any()


def test_traits_tell_the_two_apart():
    for name in NAMES:
        traits = made(name).traits
        assert traits.contains_identity
        assert traits.keeps_argmax == traits.shares_parameters == (name == "shared-map")


# Weights, spaces and float types


@every_name
def test_weights_are_repeated_rows(name):
    X, y = problem(200, 3)
    counts = np.random.default_rng(3).integers(1, 4, 200)
    weighted = made(name).fit(X, y, counts).predict_proba(X)
    repeated = made(name).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts)).predict_proba(X)
    np.testing.assert_allclose(weighted, repeated, rtol=0, atol=1e-6)


@every_name
def test_logits_and_probabilities_give_one_map(name):
    X, y = problem(300, 4)
    logits = Predictions.from_logits(np.log(X) + np.linspace(-50, 50, 300)[:, np.newaxis])
    np.testing.assert_allclose(
        made(name).fit(logits, y).predict_proba(X),
        made(name).fit(X, y).predict_proba(logits),
        rtol=0,
        atol=1e-8,
    )


@every_name
def test_float32_is_float64_to_its_accuracy(name):
    X, y = problem(400, 4)
    double, single = made(name).fit(X, y), made(name).fit(X.astype(np.float32), y)
    calibrated = single.predict_proba(X.astype(np.float32))
    assert calibrated.dtype == np.float32
    np.testing.assert_allclose(calibrated, double.predict_proba(X), rtol=0, atol=2e-5)


@pytest.mark.parametrize("name", ["shared-map", "shared-vector", "structured-matrix"])
def test_many_entries_in_float32_end_where_float64_does(name, monkeypatch):
    """A sample finds the start and float32 is kept; the value is that of float64 to a few parts in a million."""
    X, y = problem(2000, 12)
    expected = made(name).fit(X, y)
    monkeypatch.setattr(structured_fit, "MANY_ENTRIES", 1000)
    monkeypatch.setattr(structured_fit, "SAMPLE_ENTRIES", 4000)
    found = made(name).fit(X.astype(np.float32), y)
    assert found.solution_.value == pytest.approx(expected.solution_.value, abs=3e-6)
    np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), rtol=0, atol=3e-3)


@pytest.mark.parametrize("name", ["shared-map", "shared-vector"])
def test_many_entries_give_the_same_knots_in_any_order(name, monkeypatch):
    """Rows of the first class are sure, all others are not; sorted by class, and every class by its surest row."""
    X, y = problem(2000, 12)
    X[y == 0] = softmax(3 * np.log(X[y == 0]), axis=1)
    monkeypatch.setattr(structured_fit, "KNOT_ENTRIES", 1000)
    monkeypatch.setattr(structured_fit, "MANY_ENTRIES", 1000)
    monkeypatch.setattr(structured_fit, "SAMPLE_ENTRIES", 4000)
    order = np.lexsort((X.max(axis=1), y))
    given, by_class = made(name).fit(X, y), made(name).fit(X[order], y[order])
    np.testing.assert_allclose(by_class.knots_, given.knots_, rtol=1e-7)
    np.testing.assert_allclose(by_class.predict_proba(X), given.predict_proba(X), rtol=0, atol=1e-6)
    # And a twelfth of the rows is enough for the knots of all.
    monkeypatch.setattr(structured_fit, "KNOT_ENTRIES", 10**6)
    np.testing.assert_allclose(given.knots_, made(name).fit(X, y).knots_, rtol=0, atol=0.1)


# Small and unusual data


@every_name
@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_thirty_rows(name, n_classes):
    X, y = problem(30, n_classes)
    y[:n_classes] = np.arange(n_classes)
    fresh, _ = problem(500, n_classes, 1, sharpness=6.0)
    fitted = made(name).fit(X, y)
    assert np.isfinite(fitted.transform(fresh).log_probabilities).all()
    assert fitted.solution_.loss <= fitted.solution_.identity_loss


@may_keep_identity
@every_name
def test_two_rows(name):
    fitted = made(name).fit([[0.6, 0.4], [0.4, 0.6]], [0, 1])
    assert np.isfinite(fitted.predict_proba([[0.5, 0.5], [1.0, 0.0]])).all()


@every_name
def test_a_class_without_rows(name):
    X, y = problem(200, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingClassWarning)
        fitted = made(name).fit(X[y != 2], y[y != 2])
    calibrated = fitted.predict_proba(X)
    np.testing.assert_allclose(calibrated.sum(axis=1), 1)
    assert (calibrated[:, 2] > 0).all()


@every_name
def test_predictions_that_are_all_right_are_not_made_worse(name):
    """Nearly certain and right: a share of the uniform would cost, so that the rows stay as they came."""
    X = np.full((60, 3), 1e-9)
    y = np.arange(60) % 3
    X[np.arange(60), y] = 1 - 2e-9
    with pytest.warns(CalibrationWarning, match="StructuredScaling: the identity is at least as good"):
        fitted = made(name).fit(X, y)
    assert fitted.solution_.status is Status.IDENTITY
    assert fitted.uniform_share_ == 0
    np.testing.assert_allclose(fitted.predict_proba(X), X, rtol=1e-9)


@may_keep_identity
@every_name
@pytest.mark.filterwarnings("ignore::calibrant.errors.MissingClassWarning")
def test_huge_logits_and_an_absent_class_are_not_made_worse(name):
    """Both classes seen are at the floor in every row: 1 : 1 between them is right, and more than the fit can know."""
    generator = np.random.default_rng(0)
    for _ in range(20):
        logits = Predictions.from_logits(1e30 * generator.normal(size=(4, 3)))
        data = LabelledPredictions.parse(logits, [0, 1, 1, 0])
        fitted = made(name).fit_labelled(data)
        assert data.log_loss(fitted.transform(logits)) <= data.log_loss(logits.without_zeros())


@every_name
def test_unsure_predictions_that_are_all_right_become_surer(name):
    X, _ = problem(200, 3)
    fitted = made(name).fit(X, X.argmax(axis=1))
    assert fitted.solution_.loss < LabelledPredictions.parse(X, X.argmax(axis=1)).log_loss()
    assert np.isfinite(fitted.transform(X).log_probabilities).all()


@every_name
def test_constant_rows(name):
    X, y = np.tile([0.5, 0.3, 0.2], (60, 1)), np.arange(60) % 3
    calibrated = made(name).fit(X, y).predict_proba(X)
    assert np.isfinite(calibrated).all()
    assert np.ptp(calibrated, axis=0).max() < 1e-12


@every_name
def test_exact_zeros_and_ones(name):
    X, y = problem(300, 3)
    X[::2] = np.eye(3)[np.where(np.arange(150) % 5 > 0, y[::2], (y[::2] + 1) % 3)]
    fitted = made(name).fit(X, y)
    corners = fitted.transform(np.eye(3)).log_probabilities
    assert np.isfinite(corners).all()
    assert fitted.solution_.loss <= fitted.solution_.identity_loss


@every_name
def test_a_row_far_outside_is_mapped_within_limits(name):
    """Mixing keeps every feature above log(1 / (K (n + 1)))."""
    X, y = problem(200, 3)
    fitted = made(name).fit(X, y)
    far = fitted.transform(Predictions.from_logits([[0.0, -1e4, -1e8]])).scores
    assert np.isfinite(far).all()
    near = fitted.transform(Predictions.from_logits([[0.0, -1e3, -1e3]])).scores
    np.testing.assert_allclose(far, near, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["shared-map", "structured-vector", "shared-vector", "structured-matrix"])
def test_many_classes(name):
    n_classes = 1000 if name != "structured-matrix" else 120
    X, y = problem(400, n_classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingClassWarning)
        fitted = made(name).fit(X.astype(np.float32), y)
    assert fitted.solution_.converged
    assert np.isfinite(fitted.transform(X).logits).all()
    assert log_loss(fitted, X, y) < LabelledPredictions.parse(X, y).log_loss()


def test_penalised_terms_of_a_hundred_classes_reach_the_optimum():
    """The gradient of the whole objective vanishes, also where the Hessian is never formed."""
    X, y = problem(1500, 60)
    fitted = made("structured-matrix").fit(X, y)
    x = log_softmax(np.log(X) / fitted.temperature_, axis=1)
    x = np.log((1 - fitted.uniform_share_) * np.exp(x) + fitted.uniform_share_ / 60)
    p = softmax(x + x @ fitted.weights_.T + fitted.intercept_, axis=1)
    p[np.arange(1500), y] -= 1
    prices = np.full((60, 60), 60 * 59.0)
    np.fill_diagonal(prices, 60.0)
    np.testing.assert_allclose(p.T @ x + 2 * prices * fitted.weights_, 0, atol=0.02)
    np.testing.assert_allclose(p.sum(axis=0) + 2 * 60 * fitted.intercept_, 0, atol=0.02)


# Parameters


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"class_terms": "diagonal"}, "class_terms must be 'vector', 'matrix' or None"),
        ({"class_terms": None, "shared_map": False}, "class_terms=None leaves nothing to fit"),
        ({"shared_map": "no"}, "shared_map must be True or False"),
        ({"strength": -1}, "strength must be a number of at least 0"),
        ({"n_segments": 0}, "n_segments must be an integer of at least 1"),
        ({"row_knots": 1}, "row_knots must be an integer of at least 2"),
        ({"slope_penalty": np.inf}, "slope_penalty must be a number of at least 0"),
        ({"difference_penalty": "1"}, "difference_penalty must be a number of at least 0"),
        ({"mixing": None}, "mixing must be a number of at least 0"),
    ],
)
def test_parameters_without_meaning_are_refused(parameters, message):
    with pytest.raises(ParameterError, match=message):
        StructuredScaling(**parameters).fit(*problem(20, 3))
