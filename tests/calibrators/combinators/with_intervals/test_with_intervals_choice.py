"""Which way to intervals a calibrator gets, by name or not, and what is refused."""

import numpy as np
import pytest
from interval_rows import rows_of
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit

import calibrant
from calibrant import (
    AutoCalibration,
    Chain,
    DirichletCalibration,
    EnsembleTemperatureScaling,
    GaussianProcessCalibration,
    IsotonicCalibration,
    OneVsRest,
    PlattScaling,
    TemperatureScaling,
    VectorScaling,
    VennAbersCalibration,
    WithIntervals,
)
from calibrant.errors import ParameterError


@pytest.mark.parametrize(
    ("calibrator", "method"),
    [
        (TemperatureScaling(), "laplace"),
        (TemperatureScaling(loss="brier"), "bootstrap"),
        (OneVsRest(PlattScaling()), "laplace"),
        (OneVsRest(PlattScaling(), "shift"), "bootstrap"),
        (OneVsRest(TemperatureScaling()), "bootstrap"),
        (EnsembleTemperatureScaling(), "bootstrap"),
        (Chain([TemperatureScaling()]), "bootstrap"),
        (GaussianProcessCalibration(), "own"),
        (VennAbersCalibration(), "own"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_calibrator_gets_the_best_way_there_is(calibrator, method):
    p, y = rows_of(60, 3)
    assert WithIntervals(calibrator, n_draws=20).fit(p, y).method_ == method


def test_a_calibrator_may_be_given_by_its_name():
    p, y = rows_of(80, 3)
    for name, calibrator in (("vector", VectorScaling()), ("temperature", TemperatureScaling())):
        named, given = WithIntervals(name).fit(p, y), WithIntervals(calibrator).fit(p, y)
        assert named.traits == given.traits
        assert_array_equal(named.predict_interval(p), given.predict_interval(p))
    composed = WithIntervals("temperature+vector", n_draws=20).fit(p, y)
    assert isinstance(composed.calibrator_, Chain)
    assert composed.method_ == "bootstrap"


def test_the_automatic_choice_keeps_its_components_and_their_weights(monkeypatch, tmp_path):
    """Only what it kept is refitted, on the same random weights as the component alone."""
    p, y = rows_of(150, 3)
    alone = AutoCalibration().fit(p, y)
    tried = []
    fit = AutoCalibration._fit
    monkeypatch.setattr(AutoCalibration, "_fit", lambda self, data: (tried.append(self), fit(self, data))[1])
    fitted = WithIntervals(AutoCalibration(), "bootstrap", n_draws=20).fit(p, y)
    assert len(tried) == 1
    assert_array_equal(fitted.predict_proba(p), alone.predict_proba(p))
    for refit in fitted.refits_:
        assert_array_equal(refit.weights_, alone.weights_)
        assert [repr(part) for part in refit.calibrators_] == [repr(part) for part in alone.calibrators_]
    lower, upper = fitted.predict_interval(p)
    assert (lower < upper).all()
    assert (lower <= alone.predict_proba(p)).all()
    only = AutoCalibration(["vector"], choice="single").fit(p, y)
    assert only.weights_ == 1
    assert_array_equal(
        WithIntervals(AutoCalibration(["vector"], choice="single"), n_draws=20).fit(p, y).draws(p),
        WithIntervals(only.calibrators_[0], method="bootstrap", n_draws=20).fit(p, y).draws(p),
    )
    fitted.save(tmp_path / "fitted.npz")
    assert_array_equal(calibrant.load(tmp_path / "fitted.npz").predict_interval(p), (lower, upper))


def test_venn_abers_predictors_have_no_level():
    p, y = rows_of(100, 2)
    fitted = WithIntervals(VennAbersCalibration()).fit(p, y)
    with pytest.raises(ParameterError, match="level must be None for VennAbersCalibration"):
        fitted.predict_interval(p, level=0.95)
    refitted = WithIntervals(VennAbersCalibration(), method="bootstrap", n_draws=20).fit(p, y)
    assert (np.less_equal(*refitted.predict_interval(p, level=0.8))).all()


def test_intervals_of_its_own_are_those_of_the_calibrator():
    p, y = rows_of(100, 3)
    gaussian = GaussianProcessCalibration().fit(p, y)
    wrapped = WithIntervals(GaussianProcessCalibration(), "own").fit(p, y)
    assert_array_equal(wrapped.predict_interval(p, 0.8), gaussian.predict_interval(p, 0.8))
    p, y = rows_of(100, 2)
    venn = VennAbersCalibration().fit(p, y)
    assert_array_equal(
        WithIntervals(VennAbersCalibration()).fit(p, y).predict_interval(p), venn.predict_interval(p)
    )


def test_a_gaussian_process_of_two_classes_has_the_interval_of_its_latent_function():
    """logit q = g(ln p) - g(ln (1 - p)), whose deviation ``latent`` gives with a reference."""
    p, y = rows_of(300, 2)
    for monotone in (False, True):
        fitted = GaussianProcessCalibration(monotone=monotone).fit(p, y)
        row = np.array([[0.3, 0.7]])
        mean, deviation = fitted.latent(np.log(0.7), reference=np.log(0.3))
        lower, upper = fitted.predict_interval(row)
        expected = expit(float(mean) + 1.959964 * float(deviation) * np.array([-1, 1]))
        assert_allclose([lower[0, 1], upper[0, 1]], expected, rtol=2e-3)


@pytest.mark.parametrize(
    ("calibrator", "words"),
    [
        (WithIntervals(3), "calibrator must be a registry name or a calibrator"),
        (WithIntervals("temprature"), "temprature"),
        (WithIntervals(TemperatureScaling(), method="mcmc"), "method must be"),
        (WithIntervals(TemperatureScaling(), method="own"), "TemperatureScaling has no intervals of its own"),
        (WithIntervals(TemperatureScaling(), covariance="robust"), "covariance must be"),
        (WithIntervals(TemperatureScaling(), level=95), "level must lie"),
        (WithIntervals(TemperatureScaling(), predictive="yes"), "predictive must be"),
        (WithIntervals(TemperatureScaling(), n_draws=5), "n_draws must be"),
        (WithIntervals(TemperatureScaling(), random_state="seed"), "random_state must be"),
        (WithIntervals(IsotonicCalibration(), method="laplace"), "has no Laplace approximation"),
        (WithIntervals(Chain([VectorScaling()]), method="laplace"), "has no Laplace approximation"),
        (WithIntervals(GaussianProcessCalibration(), predictive=True), "predictive must be False"),
    ],
)
def test_parameters_without_meaning_are_refused(calibrator, words):
    p, y = rows_of(30, 3)
    with pytest.raises(ParameterError, match=words):
        calibrator.fit(p, y)


def test_too_many_parameters_are_refused_before_the_fit():
    p, y = rows_of(200, 60)
    with pytest.raises(ParameterError, match="3660 parameters for 60 classes"):
        WithIntervals(DirichletCalibration(None)).fit(p, y)


def test_draws_that_are_not_there_are_refused():
    p, y = rows_of(60, 3)
    with pytest.raises(ParameterError, match="at most n_draws = 20"):
        WithIntervals(TemperatureScaling(), n_draws=20).fit(p, y).draws(p, 21)
    with pytest.raises(ParameterError, match="no draws"):
        WithIntervals(VennAbersCalibration()).fit(p, y).draws(p)
    with pytest.raises(ParameterError, match="level must lie"):
        WithIntervals(TemperatureScaling()).fit(p, y).predict_interval(p, 1.0)
