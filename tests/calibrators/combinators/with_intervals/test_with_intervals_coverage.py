"""Intervals for every probability hold the truth as often as they say, where the truth is known."""

import numpy as np
import pytest
from interval_rows import coverage

import calibrant
from calibrant import (
    BetaCalibration,
    DirichletCalibration,
    GaussianProcessCalibration,
    PlattScaling,
    TemperatureScaling,
    VectorScaling,
    WithIntervals,
)
from calibrant.synthetic import LogLinearMap, SyntheticTask, TemperatureMap, tasks

# Coverage. All pairs of one calibration set are right or wrong together if the map has one parameter: of m sets, each of
# 95 %, the mean has a deviation of sqrt(0.0475 / m), 2.4 % for 80, and less for more parameters.


@pytest.mark.parametrize(
    "n_rows", [100, pytest.param(500, marks=pytest.mark.slow), pytest.param(5000, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    ("task", "calibrator"),
    [
        ("over-confident", TemperatureScaling()),
        ("asymmetric", VectorScaling()),
        ("log-linear", DirichletCalibration(None)),
        ("two-classes", PlattScaling()),
        ("two-classes", BetaCalibration()),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_intervals_hold_the_truth_as_often_as_they_say_if_the_family_is_right(task, calibrator, n_rows):
    assert coverage(tasks()[task], WithIntervals(calibrator), n_rows, 80) == pytest.approx(0.95, abs=0.06)


def test_intervals_of_a_wrong_family_hold_its_best_map_and_not_the_truth():
    """Regions with jumps: the sandwich holds the best temperature, the model's interval is too narrow for it."""
    task = tasks()["regions"]
    many = task.sample(50_000, random_state=10**7)
    best = TemperatureScaling().fit(many.predictions, many.labels)
    robust = coverage(task, WithIntervals(TemperatureScaling()), 500, 60, best)
    model = coverage(task, WithIntervals(TemperatureScaling(), covariance="model"), 500, 60, best)
    assert robust > 0.88
    assert model < robust - 0.03
    assert coverage(task, WithIntervals(TemperatureScaling()), 500, 10) < 0.6


@pytest.mark.slow
def test_the_bootstrap_holds_the_truth_too():
    fitted = WithIntervals(TemperatureScaling(), method="bootstrap", n_draws=100)
    assert coverage(tasks()["over-confident"], fitted, 200, 60) == pytest.approx(0.94, abs=0.07)


def test_a_gaussian_process_holds_the_truth_of_a_shared_map():
    """A little less often than it says, since the parameters of its kernel count as known."""
    assert coverage(tasks()["over-confident"], GaussianProcessCalibration(), 500, 6) > 0.8


@pytest.mark.parametrize("name", ["structured-vector", "shared-vector"])
def test_penalised_maps_hold_what_they_are_pulled_away_from(name):
    """Intercepts of 1.5 where the penalty pulls to none: without its bias in the variance, only 0.57 and 0.74 hold it."""
    slopes = tuple(tuple(row) for row in 0.7 * np.eye(3))
    task = SyntheticTask((1.0, 1.0, 1.0), LogLinearMap(slopes, (-1.5, 0.0, 1.5)))
    assert coverage(task, WithIntervals(name, "laplace"), 200, 20) > 0.84


@pytest.mark.parametrize(
    "name", ["shared-map", "structured-vector", "shared-matrix", "quadratic", "piecewise-linear"]
)
def test_penalised_maps_hold_a_temperature(name):
    """Temperature scaling costs no penalty, so nothing pulls them from the truth."""
    task = (
        SyntheticTask((0.5, 0.5), TemperatureMap(1.5)) if name in ("quadratic", "piecewise-linear") else None
    )
    wrapped = WithIntervals(calibrant.registry.make(name), "laplace")
    assert coverage(task or tasks()["over-confident"], wrapped, 300, 20) > 0.88
