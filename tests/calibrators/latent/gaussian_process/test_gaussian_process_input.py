"""Gaussian process calibration of odd rows, and parameters that it refuses."""

import numpy as np
import pytest
from monotone_rows import bent_problem

from calibrant import GaussianProcessCalibration, Predictions
from calibrant.errors import CalibrationWarning, LabelError, ParameterError


def test_one_row_is_refused():
    with pytest.raises(LabelError, match="at least two classes"):
        GaussianProcessCalibration().fit([[0.6, 0.4]], [0])


def test_labels_of_one_class_are_refused():
    with pytest.raises(LabelError, match="at least two classes"):
        GaussianProcessCalibration().fit([[0.6, 0.4], [0.7, 0.3]], [0, 0])


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("scores", ["log-probabilities", "given"])
def test_constant_logits_stay_uniform(monotone, scores):
    """Every class has the same latent value, whatever the function."""
    predictions = Predictions.from_logits(np.full((30, 3), 2.0))
    calibrator = GaussianProcessCalibration(monotone=monotone, scores=scores)
    calibrated = calibrator.fit(predictions, np.arange(30) % 3).predict_proba(predictions)
    np.testing.assert_allclose(calibrated, 1 / 3, rtol=1e-12)


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("size", [5e-324, 1e-310, 1e-160])
def test_logits_that_are_all_but_equal_stay_uniform(monotone, size):
    """Their distances have no inverse or no square that is a float."""
    logits, labels = bent_problem(30)
    predictions = Predictions.from_logits(size * np.round(logits))
    calibrator = GaussianProcessCalibration(monotone=monotone, scores="given")
    calibrated = calibrator.fit(predictions, labels).predict_proba(predictions)
    np.testing.assert_allclose(calibrated, 1 / 4, rtol=1e-12)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_two_classes_in_the_proportions_of_their_labels(covariance):
    """All rows say 90 %, three of four are right: nothing but 75 % fits; the prior holds on to some per cent."""
    fitted = GaussianProcessCalibration(covariance=covariance).fit([[0.9, 0.1]] * 400, [0, 0, 0, 1] * 100)
    assert fitted.predict_proba([[0.9, 0.1]])[0, 0] == pytest.approx(0.75, abs=0.01)


@pytest.mark.parametrize("scores", ["log-probabilities", "given"])
def test_rows_that_are_all_right_do_not_run_away(scores):
    logits = 3 * np.random.default_rng(0).normal(size=(200, 3))
    predictions = Predictions.from_logits(logits)
    fitted = GaussianProcessCalibration(scores=scores).fit(predictions, logits.argmax(axis=1))
    assert fitted.inference_.loss < 0.05
    assert np.abs(np.diff(fitted.latent(np.linspace(-5, 0, 50)).mean)).max() < 3
    assert np.isfinite(fitted.transform(Predictions.from_logits(1e4 * np.eye(3))).scores).all()


def test_two_rows_are_enough():
    for labels in ([0, 1], [1, 0]):
        fitted = GaussianProcessCalibration().fit([[0.7, 0.3], [0.3, 0.7]], labels)
        assert fitted.inference_.loss <= fitted.inference_.identity_loss


def test_logits_beyond_all_bounds_are_left_as_they_are_with_a_warning():
    logits, labels = bent_problem(50)
    with pytest.warns(CalibrationWarning, match="the identity is at least as good"):
        kept = GaussianProcessCalibration(scores="given").fit(Predictions.from_logits(1e13 * logits), labels)
    assert kept.identity_kept_
    assert kept.elbo_ == -np.inf


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_inducing": 0}, "n_inducing must be an integer of at least 1"),
        ({"covariance": "low rank"}, "covariance must be 'full' or 'diagonal'"),
        ({"prediction": "median"}, "prediction must be 'mean' or 'monte-carlo'"),
        ({"monotone": "yes"}, "monotone must be True or False"),
        ({"scores": "logits"}, "scores must be 'log-probabilities', 'given' or 'either'"),
        ({"n_samples": 0.5}, "n_samples must be an integer"),
        ({"max_iterations": 0}, "max_iterations must be an integer"),
        ({"random_state": "clock"}, "random_state must be"),
    ],
)
def test_parameters_without_meaning_are_refused(parameters, message):
    with pytest.raises(ParameterError, match=message):
        GaussianProcessCalibration(**parameters).fit([[0.6, 0.4], [0.4, 0.6]], [0, 1])


@pytest.mark.filterwarnings("ignore:.*no further progress:calibrant.errors.ConvergenceWarning")
def test_the_bound_is_never_positive_for_steep_rows():
    """No row has a likelihood above one; a function steeper than the grid is fine once seemed to explain rows better."""
    for seed in (5, 18):
        generator = np.random.default_rng(seed)
        logits = generator.normal(size=(30, 4))
        labels = (0.5 * logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
        labels[:4] = range(4)
        logits[::3] *= 100
        fitted = GaussianProcessCalibration().fit(Predictions.from_logits(logits), labels)
        assert fitted.elbo_ <= 0


def test_masked_classes_take_no_knots_of_an_increasing_function():
    """Which huge number masks a class makes no difference to the other classes."""
    generator = np.random.default_rng(0)
    logits = 3 * generator.normal(size=(60, 4))
    labels = (0.5 * logits[:, 1:] + generator.gumbel(size=(60, 3))).argmax(axis=1) + 1
    labels[0] = 0
    calibrated = []
    for masked in (-200.0, np.finfo(np.float64).min):
        logits[1:, 0] = masked
        given = Predictions.from_logits(logits)
        fitted = GaussianProcessCalibration(monotone=True).fit(given, labels)
        assert fitted.knots_[0] > -100
        calibrated.append(fitted.predict_proba(given))
    np.testing.assert_allclose(calibrated[0], calibrated[1], rtol=0, atol=1e-6)
