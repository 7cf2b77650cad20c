"""Ensemble temperature scaling: closed forms, a plain second implementation, order, zeros and the edges."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from calibrant import EnsembleTemperatureScaling, Predictions, TemperatureScaling
from calibrant.errors import ConvergenceWarning, ParameterError
from calibrant.metrics import brier_score, log_loss
from data import load
from strategies import logit_matrices, probability_matrices, problems

METRICS = {"brier": partial(brier_score, scale_by_half=False), "log": log_loss}
both_losses = pytest.mark.parametrize("loss", METRICS)


def some_logits(n_rows=400, n_classes=4, seed=0, scale=3.0):
    """Over-confident logits, and labels of which one in ten is noise."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(scale=scale, size=(n_rows, n_classes))
    labels = (logits / 2 + generator.gumbel(size=logits.shape)).argmax(axis=1)
    noise = generator.uniform(size=n_rows) < 0.1
    labels[noise] = generator.integers(n_classes, size=noise.sum())
    return logits, labels


def naive_mixture(logits, temperature, weights):
    """One row and one class at a time."""
    result = []
    for row in np.asarray(logits, dtype=np.float64):
        hot = [np.exp((entry - row.max()) / temperature) for entry in row]
        plain = [np.exp(entry - row.max()) for entry in row]
        result.append(
            [
                weights[0] * a / sum(hot) + weights[1] * b / sum(plain) + weights[2] / len(row)
                for a, b in zip(hot, plain, strict=True)
            ]
        )
    return np.array(result)


def naive_loss(probabilities, labels, loss):
    if loss == "log":
        return -np.mean([np.log(row[label]) for row, label in zip(probabilities, labels, strict=True)])
    truth = np.eye(probabilities.shape[1])[labels]
    return np.mean([((row - one) ** 2).sum() for row, one in zip(probabilities, truth, strict=True)])


def every_label_of_every_row(probabilities, true):
    """Rows and labels with weights, so that frequencies are exactly the true probabilities."""
    n_rows, n_classes = probabilities.shape
    return np.repeat(probabilities, n_classes, axis=0), np.tile(np.arange(n_classes), n_rows), true.ravel()


# What is fitted


@both_losses
def test_honest_predictions_with_noise_in_the_labels(loss):
    """If the truth is 0.7 p + 0.3 / K, these are the weights: both losses are proper, the mixture contains it."""
    p = np.random.default_rng(1).dirichlet(np.full(3, 0.3), 50)
    fitted = EnsembleTemperatureScaling(loss=loss).fit(*every_label_of_every_row(p, 0.7 * p + 0.1))
    np.testing.assert_allclose(fitted.weights_, [0, 0.7, 0.3], atol=1e-7)
    np.testing.assert_allclose(fitted.predict_proba(p), 0.7 * p + 0.1, atol=1e-7)


@both_losses
def test_a_pure_temperature_is_found_and_left_alone(loss):
    logits = np.random.default_rng(2).normal(scale=3, size=(50, 4))
    p = Predictions.from_logits(logits).probabilities
    true = Predictions.from_logits(logits / 2.5).probabilities
    fitted = EnsembleTemperatureScaling(loss=loss).fit(*every_label_of_every_row(p, true))
    assert fitted.temperature_ == pytest.approx(2.5, rel=1e-7)
    np.testing.assert_allclose(fitted.weights_, [1, 0, 0], atol=1e-6)


@both_losses
def test_calibrated_predictions_stay_as_they_are(loss):
    p = np.random.default_rng(3).dirichlet(np.ones(3), 50)
    fitted = EnsembleTemperatureScaling(loss=loss).fit(*every_label_of_every_row(p, p))
    assert fitted.weights_[2] <= 1e-6
    np.testing.assert_allclose(fitted.predict_proba(p), p, atol=1e-7)


@both_losses
def test_the_temperature_is_that_of_temperature_scaling(loss):
    logits, labels = some_logits()
    given = Predictions.from_logits(logits)
    fitted = EnsembleTemperatureScaling(loss=loss).fit(given, labels)
    assert fitted.temperature_ == TemperatureScaling(loss=loss).fit(given, labels).temperature_
    assert fitted.inverse_temperature_ == 1 / fitted.temperature_
    np.testing.assert_array_equal(fitted.solution_.theta, [fitted.inverse_temperature_, *fitted.weights_])


@both_losses
@pytest.mark.parametrize("seed", range(3))
def test_no_weights_are_better_and_the_map_is_the_formula(loss, seed):
    logits, labels = some_logits(n_rows=150, seed=seed)
    given = Predictions.from_logits(logits)
    fitted = EnsembleTemperatureScaling(loss=loss).fit(given, labels)
    mixed = naive_mixture(logits, fitted.temperature_, fitted.weights_)
    np.testing.assert_allclose(fitted.predict_proba(given), mixed, rtol=1e-12)
    assert fitted.solution_.loss == pytest.approx(naive_loss(mixed, labels, loss), rel=1e-12)
    best = minimize(
        lambda w: naive_loss(naive_mixture(logits, fitted.temperature_, w), labels, loss),
        [0.8, 0.1, 0.1],
        bounds=[(1e-9, 1)] * 3,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-10},
    )
    assert fitted.solution_.loss <= best.fun + 1e-10
    assert fitted.solution_.loss == pytest.approx(best.fun, abs=1e-6)


@both_losses
@settings(max_examples=25)
@given(problem=problems())
@pytest.mark.filterwarnings("ignore::calibrant.errors.ConvergenceWarning")
def test_neither_the_identity_nor_temperature_scaling_is_better_on_the_calibration_rows(loss, problem):
    """Zeros included: the given probabilities are one of the parts as they are, in float32 to its rounding."""
    p, y = problem
    fitted = EnsembleTemperatureScaling(loss=loss).fit(p, y)
    rounding = 1e-9 if p.dtype == np.float64 else 1e-6
    own = METRICS[loss](y, fitted.transform(p))
    alone = METRICS[loss](y, TemperatureScaling(loss=loss).fit(p, y).transform(p))
    assert own <= alone + rounding
    assert own == pytest.approx(fitted.solution_.loss, abs=rounding)
    assert fitted.solution_.loss <= fitted.solution_.identity_loss + rounding
    if loss == "brier":
        assert own <= METRICS[loss](y, p) + rounding


@both_losses
def test_float32_gives_the_map_of_float64(loss):
    logits, labels = some_logits(n_rows=3000)
    single = Predictions.from_logits(logits.astype(np.float32))
    fitted = EnsembleTemperatureScaling(loss=loss).fit(single, labels)
    calibrated = fitted.predict_proba(single)
    expected = EnsembleTemperatureScaling(loss=loss).fit(Predictions.from_logits(logits), labels)
    assert calibrated.dtype == np.float32
    np.testing.assert_allclose(calibrated, expected.predict_proba(Predictions.from_logits(logits)), atol=2e-6)


def test_many_classes_are_mixed_in_blocks():
    logits, labels = some_logits(n_rows=3000, n_classes=200)
    fitted = EnsembleTemperatureScaling().fit(Predictions.from_logits(logits), labels)
    calibrated = fitted.predict_proba(Predictions.from_logits(logits))
    np.testing.assert_allclose(
        calibrated[-5:], naive_mixture(logits[-5:], fitted.temperature_, fitted.weights_), rtol=1e-12
    )


# Order


@pytest.fixture(scope="module")
def with_all_parts():
    """A fit in which no weight is zero, so that each part is rounded and added."""
    logits, labels = some_logits(n_rows=5000, n_classes=100, seed=0)
    return EnsembleTemperatureScaling(loss="log").fit(Predictions.from_logits(logits), labels)


def in_other_number_of_classes(fitted, n_classes):
    """The same map for another K: what is fitted is shared by all classes."""
    other = EnsembleTemperatureScaling()
    other.__dict__.update(vars(fitted), classes_=np.arange(n_classes))
    return other


@settings(max_examples=150)
@given(scores=logit_matrices() | logit_matrices(bound=3e3).map(lambda z: z / 1e4))
def test_the_arg_max_of_logits_is_kept(with_all_parts, scores):
    given = Predictions.from_logits(scores)
    fitted = in_other_number_of_classes(with_all_parts, scores.shape[1])
    np.testing.assert_array_equal(fitted.predict_proba(given).argmax(axis=1), scores.argmax(axis=1))
    np.testing.assert_array_equal(fitted.predict(given), scores.argmax(axis=1))


@settings(max_examples=100)
@given(p=probability_matrices())
def test_the_arg_max_of_probabilities_is_kept(with_all_parts, p):
    fitted = in_other_number_of_classes(with_all_parts, p.shape[1])
    np.testing.assert_array_equal(fitted.predict_proba(p).argmax(axis=1), p.argmax(axis=1))


@settings(max_examples=50)
@given(
    lead=st.integers(1, 3),
    place=st.integers(1, 4),
    weights=st.tuples(*[st.integers(0, 3)] * 3).filter(any),
    temperature=st.sampled_from([0.3, 1.0, 2.0, 50.0]),
)
def test_a_lead_of_a_rounding_error_is_kept_in_float32(with_all_parts, lead, place, weights, temperature):
    """The leader is ahead by one to three of the smallest steps, and comes after the column it leads."""
    row = np.full(5, 0.2, dtype=np.float32)
    for _ in range(lead):
        row[place] = np.nextafter(row[place], np.float32(1))
    fitted = in_other_number_of_classes(with_all_parts, 5)
    fitted.weights_ = np.array(weights) / sum(weights)
    fitted.inverse_temperature_ = 1 / temperature
    calibrated = fitted.predict_proba(row[np.newaxis])
    assert calibrated.argmax() == place
    assert calibrated.sum() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@both_losses
def test_the_arg_max_of_real_rows_is_kept(loss, dtype):
    """A quarter of the rows hold a probability that float32 rounds to one."""
    arrays = load("cifar_netcal/c10_wideresnet_16_4")
    p = arrays["probs"].astype(dtype)
    calibrated = EnsembleTemperatureScaling(loss=loss).fit(p[:2000], arrays["y"][:2000]).predict_proba(p)
    np.testing.assert_array_equal(calibrated.argmax(axis=1), p.argmax(axis=1))


@pytest.mark.parametrize("network", ["c10_resnet110", "c100_convnet"])
def test_the_arg_max_of_real_logits_is_kept(network):
    arrays = load(f"kull_nn/{network}")
    fitted = EnsembleTemperatureScaling().fit(Predictions.from_logits(arrays["val_logits"]), arrays["val_y"])
    given = Predictions.from_logits(arrays["test_logits"])
    calibrated = fitted.predict_proba(given)
    assert calibrated.dtype == given.scores.dtype
    np.testing.assert_array_equal(calibrated.argmax(axis=1), given.scores.argmax(axis=1))
    assert log_loss(arrays["test_y"], calibrated) < log_loss(arrays["test_y"], given)


# Zeros


def test_should_the_given_probabilities_be_best_alone_nothing_becomes_impossible():
    """Sure rows that are right, and a row whose error is one that neither other part mends.

    At the given p and with r = p - truth the slope towards a part c is 2 (c - p) r, zero in the sure rows. In
    the last row r = (0.01, -0.04, 0.03), so the slope is positive towards the uniform part and towards
    a temperature below one, which the sure rows ask for since zeros count as 0.1 in their logarithms.
    """
    p = np.vstack([np.eye(3), [0.5, 0.3, 0.2]])
    truth = np.vstack([np.eye(3), [0.49, 0.34, 0.17]])
    fitted = EnsembleTemperatureScaling().fit(*every_label_of_every_row(p, truth))
    assert fitted.temperature_ < 1
    np.testing.assert_array_equal(fitted.weights_, [0, 1 - 1e-10, 1e-10])
    calibrated = fitted.predict_proba(p)
    np.testing.assert_allclose(calibrated, p, atol=1e-9)
    assert calibrated.min() == pytest.approx(1e-10 / 3)


def test_a_zero_that_did_happen_costs_the_given_probabilities_their_place():
    """With log-loss their part alone would be infinite; the identity's loss is that of the floor."""
    p = np.tile([[1.0, 0.0], [0.0, 1.0], [0.6, 0.4], [0.4, 0.6]], (10, 1))
    y = np.tile([0, 1, 0, 1], 10)
    y[:2] = [1, 0]
    fitted = EnsembleTemperatureScaling(loss="log").fit(p, y)
    assert np.isfinite(fitted.solution_.identity_loss)
    assert fitted.solution_.loss < fitted.solution_.identity_loss
    assert np.isfinite(np.log(fitted.predict_proba(p))).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_probability_underflows_to_zero_without_a_uniform_part(dtype):
    """Logits 2 000 apart at T = 1/2: the exponential is zero in either type."""
    logits, labels = some_logits(n_rows=200)
    fitted = EnsembleTemperatureScaling().fit(Predictions.from_logits(logits.astype(dtype)), labels)
    fitted.weights_ = np.array([0.5, 0.5, 0.0])
    fitted.inverse_temperature_ = 2.0
    calibrated = fitted.predict_proba(Predictions.from_logits(np.array([[0, -2e3, 1, 2]], dtype=dtype)))
    assert calibrated.min() == np.finfo(dtype).tiny
    assert calibrated.sum() == pytest.approx(1, abs=1e-6)


def test_logits_near_the_largest_number_do_not_overflow(with_all_parts):
    extreme = np.array([[3e38, -3e38, 0.0]], dtype=np.float32) / 3
    fitted = in_other_number_of_classes(with_all_parts, 3)
    calibrated = fitted.predict_proba(Predictions.from_logits(extreme))
    assert np.isfinite(calibrated).all()
    assert calibrated.argmax() == 0


# Edges


def test_rows_that_are_all_right_send_the_temperature_to_the_edge_and_warn():
    with pytest.warns(ConvergenceWarning, match="EnsembleTemperatureScaling: .*edge of the allowed range"):
        fitted = EnsembleTemperatureScaling(loss="log").fit([[0.6, 0.4], [0.4, 0.6]], [0, 1])
    assert fitted.predict_proba([[0.6, 0.4]])[0, 0] > 1 - 1e-9
    assert fitted.predict_proba([[0.6, 0.4]])[0, 1] > 0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"loss": "mse"}, "loss must be 'log' or 'brier'"),
        ({"bounds": (2.0, 3.0)}, "positive numbers around 1"),
    ],
)
def test_parameters_without_meaning_are_refused(parameters, message):
    with pytest.raises(ParameterError, match=message):
        EnsembleTemperatureScaling(**parameters).fit([[0.6, 0.4], [0.4, 0.6]], [0, 1])
