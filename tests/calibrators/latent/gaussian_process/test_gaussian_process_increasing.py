"""Gaussian process calibration by an increasing function: order, the identity, files, and the latent function."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from monotone_rows import bent_problem, fitted_to_bent

import calibrant
from calibrant import GaussianProcessCalibration, Predictions
from calibrant.calibrators.latent import gaussian_process
from calibrant.errors import CalibrationWarning


@pytest.fixture(scope="module", params=["mean", "monte-carlo"])
def increasing(request):
    """Fitted to rows whose honest map falls at low scores."""
    return fitted_to_bent(800, bend=-0.1, monotone=True, prediction=request.param, n_samples=20)


def assert_same_order(calibrated, given):
    before = np.sign(given[:, :, np.newaxis] - given[:, np.newaxis])
    after = np.sign(calibrated[:, :, np.newaxis] - calibrated[:, np.newaxis])
    np.testing.assert_array_equal(after, before)


@settings(max_examples=6)
@given(data=st.data())
def test_the_order_of_every_row_is_kept_exactly(increasing, data):
    """Random rows, some with ties and scores a rounding error apart, in float32 and float64, also far outside."""
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    seed = data.draw(st.integers(0, 2**32 - 1))
    generator = np.random.default_rng(seed)
    rows = (generator.normal(size=(99, 4)) * generator.choice([0.01, 1, 10, 100], (99, 1))).astype(dtype)
    rows[::3, 1] = rows[::3, 0]
    rows[1::3, 2] = np.nextafter(rows[1::3, 3], dtype(np.inf))
    given = Predictions.from_logits(rows)
    for calibrated in (increasing.predict_proba(given), increasing.transform(given).scores):
        assert calibrated.dtype == dtype
        assert_same_order(calibrated, rows)


def fitted_in_vain(X, labels):
    """Fit an increasing function of which the identity is kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gaussian_process, "is_worse_than_identity", lambda *_: True)
        with pytest.warns(CalibrationWarning, match="the identity is at least as good"):
            kept = GaussianProcessCalibration(monotone=True).fit(X, labels)
    assert kept.identity_kept_
    return kept


@pytest.fixture(scope="module")
def idle():
    logits, labels = bent_problem(60)
    return fitted_in_vain(Predictions.from_logits(logits), labels)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "row",
    [
        [100.0, 0.0, -50.0, -51.0],  # all but one further below than the least float32 softmax
        [-50.0, 1000.0, 0.0, -51.0],
        [1e30, 0.0, -1e30, 0.0],  # with a tie
        [0.0, 1e30, -1e30, 1.0],
        [0.0, 1e-20, -1e-20, 0.0],  # that one softmax cannot tell apart
    ],
)
def test_the_order_is_kept_where_nothing_is_done(idle, row, dtype):
    """Logits beyond 1e12 lose their order to the bound, but not what is left of it."""
    given = Predictions.from_logits(np.array([row], dtype=dtype))
    for calibrated in (idle.predict_proba(given), idle.transform(given).scores):
        assert calibrated.dtype == dtype
        assert_same_order(calibrated, given.scores)
    assert idle.predict_proba(given).min() > 0


def test_the_order_of_probabilities_below_the_floor_is_kept_where_nothing_is_done():
    logits, labels = bent_problem(60)
    kept = fitted_in_vain(Predictions.from_logits(logits).probabilities, labels)
    given = np.array([[1e-300, 1.0, 0.0, 1e-299]])
    for calibrated in (kept.predict_proba(given), kept.transform(given).scores):
        assert_same_order(calibrated, given)
        assert calibrated.min() > 0
        assert calibrated.sum() == pytest.approx(1, rel=1e-15)


def test_the_latent_function_of_a_kept_identity_is_certain(idle):
    mean, deviation = idle.latent([-3.0, -1.0], reference=-1.0)
    np.testing.assert_array_equal(mean, [-2.0, 0.0])
    np.testing.assert_array_equal(deviation, 0.0)


def test_the_increasing_latent_function_increases_where_the_free_one_falls():
    z = np.append(np.linspace(-9, 0, 200), -1.0)
    free = fitted_to_bent(800, bend=-0.1).latent(z).mean
    bound = fitted_to_bent(800, bend=-0.1, monotone=True, prediction="mean", n_samples=20)
    assert (np.diff(free[:-1]) < 0).any()
    absolute, difference = bound.latent(z), bound.latent(z, reference=-1.0)
    assert (np.diff(absolute.mean[:-1]) > 0).all()
    assert bound.traits.keeps_argmax
    np.testing.assert_allclose(difference.mean, absolute.mean - absolute.mean[-1], rtol=0, atol=1e-12)
    assert (difference.standard_deviation < absolute.standard_deviation + 1e-9).all()


def test_the_latent_function_is_the_likeliest_one_that_predictions_are_made_with():
    bound = fitted_to_bent(800, bend=-0.1, monotone=True, prediction="mean", n_samples=20)
    predictions = Predictions.from_logits(bent_problem(20, seed=1)[0])
    latent = bound.latent(predictions.log_probabilities).mean
    expected = np.exp(latent) / np.exp(latent).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(bound.predict_proba(predictions), expected, rtol=0, atol=1e-12)
    steepness = np.diff(bound.latent(bound.knots_).mean) / np.diff(bound.knots_)
    np.testing.assert_allclose(steepness, (bound.slopes_[1:] + bound.slopes_[:-1]) / 2, rtol=1e-6, atol=1e-9)


def test_where_the_free_function_increases_both_agree():
    """Other knots and another approximation of the posterior: by some thousandths of a probability."""
    predictions = Predictions.from_logits(bent_problem(1500, bend=0.05, seed=7)[0])
    free, bound = (
        fitted_to_bent(1500, bend=0.05, seed=7, monotone=monotone).predict_proba(predictions)
        for monotone in (False, True)
    )
    assert np.abs(free - bound).max() < 0.03
    assert np.abs(free - bound).mean() < 0.003


def test_probabilities_as_given_become_log_probabilities_when_increasing():
    logits, labels = bent_problem(300)
    p = Predictions.from_logits(logits).probabilities
    as_given = GaussianProcessCalibration(monotone=True, scores="given").fit(p, labels)
    assert as_given.scores_ == "log-probabilities"


def test_an_increasing_function_survives_a_file(tmp_path):
    logits, labels = bent_problem(200)
    predictions = Predictions.from_logits(logits)
    calibrator = GaussianProcessCalibration(monotone=True).fit(predictions, labels)
    calibrator.save(tmp_path / "gp.npz")
    loaded = calibrant.load(tmp_path / "gp.npz")
    np.testing.assert_array_equal(loaded.predict_proba(predictions), calibrator.predict_proba(predictions))
    np.testing.assert_array_equal(loaded.latent(-1.0), calibrator.latent(-1.0))
