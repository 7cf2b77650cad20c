"""Intervals for classes without rows, hard rows, many classes and real predictions."""

import numpy as np
import pytest
from interval_rows import rows_of
from numpy.testing import assert_allclose, assert_array_equal

import calibrant
from calibrant import (
    Predictions,
    StructuredScaling,
    TemperatureScaling,
    VectorScaling,
    WithIntervals,
)
from calibrant.errors import ConvergenceWarning, MissingClassWarning
from data import load


def test_a_class_without_rows_keeps_its_probability_as_a_point():
    p, y = rows_of(90, 4)
    y[y == 2] = 0
    fitted = WithIntervals(VectorScaling(), n_draws=20)
    with pytest.warns(MissingClassWarning):
        fitted.fit(p, y)
    lower, upper = fitted.predict_interval(p)
    q = fitted.predict_proba(p)
    assert_array_equal(lower[:, 2], upper[:, 2])
    assert (lower <= q).all()
    assert (q <= upper).all()
    assert (upper[:, [0, 1, 3]] <= 1 - p[:, [2]] + 1e-12).all()
    assert_allclose(fitted.draws(p).sum(axis=2), 1)


def test_rows_that_are_all_right_leave_the_temperature_open():
    p = np.tile([[0.9, 0.1], [0.2, 0.8]], (20, 1))
    with pytest.warns(ConvergenceWarning):
        fitted = WithIntervals(TemperatureScaling()).fit(p, np.tile([0, 1], 20))
    lower, upper = fitted.predict_interval(p[:1])
    assert np.isfinite([lower, upper]).all()
    assert upper[0, 0] - lower[0, 0] > 0.4


@pytest.mark.parametrize(
    "name", ["temperature", "vector", "platt", "beta", "shared-matrix", "dirichlet", "gp"]
)
@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrationWarning")
def test_hard_rows_have_finite_intervals(name):
    """Exact zeros and ones, constant rows, two rows, rows far beyond the calibration rows."""
    certain = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.2, 0.8]] * 5)
    sets = [
        (certain, np.array([0, 1, 1, 2, 1, 1, 0, 2, 0, 1] * 2)),
        (np.full((12, 3), 1 / 3), np.arange(12) % 3),
        (np.array([[0.7, 0.2, 0.1], [0.2, 0.7, 0.1]]), np.array([0, 1])),
        (rows_of(30, 3)[0].astype(np.float32), rows_of(30, 3)[1]),
    ]
    far = np.array([[1.0, 0.0, 0.0], [1e-30, 1 - 2e-30, 1e-30], [1 / 3, 1 / 3, 1 / 3]])
    for p, y in sets:
        method = "own" if name == "gp" else "laplace"
        fitted = WithIntervals(calibrant.registry.make(name), method).fit(p, y)
        lower, upper = fitted.predict_interval(far)
        assert np.isfinite([lower, upper]).all()
        assert (lower <= upper).all()


def test_logits_and_many_classes():
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(300, 200)) * 2
    y = (logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    y[:200] = np.arange(200)
    X = Predictions.from_logits(logits)
    for calibrator in (TemperatureScaling(), StructuredScaling("vector", shared_map=False)):
        lower, upper = WithIntervals(calibrator, "laplace").fit(X, y).predict_interval(X)
        assert (lower < upper).all()
        assert (upper - lower).max() < 0.6


def test_real_predictions_have_narrow_intervals_that_agree_between_ways():
    """CIFAR-10: the temperature of 5,000 rows is known to a few per cent, and both ways say so."""
    rows = load("cifar_netcal/c10_wideresnet_16_4")
    p, y = rows["probs"].astype(float), rows["y"]
    order = np.random.default_rng(0).permutation(10_000)
    calibration, test = order[:5000], order[5000:]
    laplace = WithIntervals(TemperatureScaling()).fit(p[calibration], y[calibration])
    refitted = WithIntervals(TemperatureScaling(), method="bootstrap", n_draws=60).fit(
        p[calibration], y[calibration]
    )
    widths = [np.subtract(*fitted.predict_interval(p[test])[::-1]).mean() for fitted in (laplace, refitted)]
    assert widths[0] < 0.01
    assert widths[0] == pytest.approx(widths[1], rel=0.3)
    other = TemperatureScaling().fit(p[test], y[test]).predict_proba(p[test])
    lower, upper = (
        WithIntervals(TemperatureScaling(), level=0.999)
        .fit(p[calibration], y[calibration])
        .predict_interval(p[test])
    )
    assert ((lower <= other) & (other <= upper)).mean() > 0.99
