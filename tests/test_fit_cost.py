"""What is said before a fit that is expected to take long or much memory."""

import logging

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from calibrant import (
    AutoCalibration,
    CalibratedClassifier,
    Chain,
    DecisionCalibration,
    DirichletCalibration,
    GaussianProcessCalibration,
    MatrixScaling,
    NearestNeighbourCalibration,
    OneVsRest,
    StructuredScaling,
    TemperatureScaling,
    WithIntervals,
)
from calibrant.fit_cost import FitCost, FitPart, JointCost, announce_cost

TEMPERATURE, GP = TemperatureScaling(), GaussianProcessCalibration()


def said(calibrator, n_rows, n_classes, caplog):
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="calibrant"):
        announce_cost(type(calibrator).__name__, calibrator.fit_cost, n_rows, n_classes)
    return caplog.text


@pytest.mark.parametrize(
    ("calibrator", "n_rows", "n_classes"),
    [
        (GP, 1_000_000, 10),
        (DirichletCalibration(), 25_000, 1000),
        (DirichletCalibration(penalty=None), 25_000, 1000),
        (NearestNeighbourCalibration(), 25_000, 1000),
        (StructuredScaling(), 25_000, 1000),
        (DecisionCalibration(), 1_000_000, 10),
        (NearestNeighbourCalibration(), 1_000_000, 10),
        (Chain([TEMPERATURE, GP]), 1_000_000, 10),
        (OneVsRest(GP), 1_000_000, 10),
        (WithIntervals(GP, method="bootstrap"), 5_000, 10),
        (AutoCalibration(), 20_000, 1000),
        (AutoCalibration(["temperature", "gp"]), 1_000_000, 10),
    ],
    ids=repr,
)
def test_long_fits_are_announced(calibrator, n_rows, n_classes, caplog):
    text = said(calibrator, n_rows, n_classes, caplog)
    assert f"{n_rows:,} rows of {n_classes:,} classes is expected to take about" in text
    assert "fit a random sample" in text


@pytest.mark.parametrize(
    ("calibrator", "n_rows", "n_classes"),
    [
        (TEMPERATURE, 10**9, 1000),
        (DirichletCalibration(), 5_000, 10),
        (StructuredScaling(), 1_000_000, 10),
        (StructuredScaling("vector"), 25_000, 1000),
        (Chain([TEMPERATURE, TEMPERATURE]), 10**9, 10),
        (Chain(["temperature"]), 10**9, 10),
        (OneVsRest("beta"), 10**9, 10),
        (AutoCalibration(), 1_000, 10),
    ],
    ids=repr,
)
def test_short_fits_are_not_nor_what_a_fit_will_refuse(calibrator, n_rows, n_classes, caplog):
    assert said(calibrator, n_rows, n_classes, caplog) == ""


def test_much_memory_is_said_beside_the_time(caplog):
    """A method that holds ten float64 copies of a million rows of ten classes takes 0.8 GB, and of two million 1.6 GB."""
    cost = FitCost(1e-3, copies=10.0)
    with caplog.at_level(logging.WARNING, logger="calibrant"):
        announce_cost("Method", cost, 1_000_000, 10)
        assert caplog.text == ""
        announce_cost("Method", JointCost([FitPart(cost), FitPart(None)]), 2_000_000, 10)
    assert "10 seconds of processor time and 1.6 GB of memory" in caplog.text


def test_a_search_for_strengths_takes_longer_than_a_fit():
    searched = MatrixScaling().fit_cost.of(10_000, 10)
    assert searched > 5 * MatrixScaling(reg_lambda=0.1, reg_mu=0.1).fit_cost.of(10_000, 10)


def test_a_penalised_fit_of_a_hundred_classes_is_not_announced(caplog):
    """``DirichletCalibration, auto`` takes about 2 s in benchmarks/logistic_family.py; its K^2 parameters are not its time."""
    assert said(DirichletCalibration(), 5_000, 100, caplog) == ""


def test_the_memory_of_decision_calibration_is_announced(caplog):
    """Every fold holds the scores and labels of its rows: thirty times the input."""
    assert "2.4 GB of memory" in said(DecisionCalibration(), 1_000_000, 10, caplog)


def test_parts_add_up():
    """Ten one-vs-rest fits of two classes; five folds of four fifths of the rows; never more rows than a sample has."""
    cost = FitCost(1.0, rows=2.0)
    assert JointCost([FitPart(cost, one_vs_rest=True)]).of(2000, 10) == pytest.approx(10 * 4 * 0.2)
    assert JointCost([FitPart(cost, 5, 0.8)]).of(2000, 10) == pytest.approx(5 * 1.6**2)
    assert JointCost([FitPart(cost, most_rows=3000)]).of(10**9, 10) == pytest.approx(9)
    assert JointCost([FitPart(cost, n_classes=2)]).of(1000, 10) == pytest.approx(0.2)


def test_fit_speaks_before_it_begins(caplog, monkeypatch):
    def fit(*_):
        assert "20 rows of 3 classes" in caplog.text

    monkeypatch.setattr("calibrant.fit_cost.LONG", 0.0)
    monkeypatch.setattr(DirichletCalibration, "_fit", fit)
    p = np.random.default_rng(0).dirichlet(np.ones(3), 20)
    with caplog.at_level(logging.WARNING, logger="calibrant"):
        DirichletCalibration().fit(p, np.arange(20) % 3)
    assert len(caplog.records) == 1


def test_a_long_comparison_with_all_calibration_rows_is_announced(caplog, monkeypatch):
    """A trillion pairs of rows take an hour; here every prediction is long."""
    p = np.random.default_rng(0).dirichlet(np.ones(3), 40)
    fitted = NearestNeighbourCalibration(n_neighbours=10, guard=False).fit(p, np.arange(40) % 3)
    means = fitted._fitted_means(10)
    assert 2000 < means.seconds_per_number * 1e12 < 10_000
    with caplog.at_level(logging.WARNING, logger="calibrant"):
        fitted.predict_proba(p)
        assert not caplog.records
        monkeypatch.setattr("calibrant.fit_cost.LONG", 0.0)
        fitted.predict_proba(p)
    assert "a prediction of 40 rows is expected to take about 10 seconds" in caplog.text


@pytest.mark.parametrize("ensemble", [True, False])
def test_a_classifier_says_what_its_calibrators_take(ensemble, caplog, monkeypatch):
    """Once for all folds, which together have all rows."""
    monkeypatch.setattr("calibrant.fit_cost.LONG", 0.0)
    generator = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = y[:, np.newaxis] + generator.normal(size=(60, 2))
    classifier = CalibratedClassifier(LogisticRegression(), method="gp", ensemble=ensemble, cv=3)
    with caplog.at_level(logging.WARNING, logger="calibrant"):
        classifier.fit(X, y)
    assert len(caplog.records) == 1
    assert "GaussianProcessCalibration: a fit to 60 rows of 2 classes" in caplog.text
