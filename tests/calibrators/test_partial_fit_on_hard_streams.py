"""Learning batch by batch where rows do not come in a random order, and where users change their minds."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from sklearn.base import clone

import calibrant
from calibrant import (
    BetaCalibration,
    HistogramBinning,
    PlattScaling,
    Predictions,
    TemperatureScaling,
    VectorScaling,
)
from calibrant.calibrators.partial_fitting import PartialFitting
from calibrant.calibrators.remembered_rows import most_rows, thinned
from calibrant.errors import CalibrationWarning, MissingClassWarning, ParameterError
from calibrant.labelled_predictions import LabelledPredictions

EVERY = [
    TemperatureScaling(),
    VectorScaling(),
    PlattScaling(),
    BetaCalibration(),
    HistogramBinning(),
    HistogramBinning("quantile"),
]
every_method = pytest.mark.parametrize("method", EVERY, ids=str)


def class_rows(n_rows, n_classes=4, seed=0):
    generator = np.random.default_rng(seed)
    z = generator.normal(0, 2, (n_rows, n_classes))
    u = 0.6 * z + np.linspace(-0.5, 0.5, n_classes)
    return softmax(z, axis=1), (u + generator.gumbel(size=u.shape)).argmax(axis=1)


def log_loss(p, y):
    return -np.log(p[np.arange(len(y)), y]).mean()


@every_method
@pytest.mark.parametrize("batch", [200, 70])
def test_a_class_that_comes_last_does_less_harm_than_calibration_does_good(method, batch):
    """After every batch the map is no worse than none on the rows so far, and in the end close to one fit."""
    X, y = class_rows(8000 if batch == 200 else 4000)
    order = np.argsort(y == 3, kind="stable")
    X, y = X[order], y[order]
    part = clone(method)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingClassWarning)
        for start in range(0, len(y), batch):
            part.partial_fit(X[start : start + batch], y[start : start + batch])
            rows = slice(0, start + batch)
            assert log_loss(part.predict_proba(X[rows]), y[rows]) < 1.02 * log_loss(X[rows], y[rows])
    wanted = log_loss(clone(method).fit(X, y).predict_proba(X), y)
    assert log_loss(part.predict_proba(X), y) < 1.04 * wanted


@every_method
def test_a_class_keeps_its_share_until_it_comes(method):
    X, y = class_rows(3000)
    X, y = X[y != 2], y[y != 2]
    with pytest.warns(MissingClassWarning):
        part = clone(method).partial_fit(X, y)
    part.partial_fit(X[:100], y[:100])
    if not isinstance(method, TemperatureScaling):
        # Of methods for two classes, only up to the sum of the others.
        atol = 1e-12 if isinstance(method, VectorScaling) else 0.3
        assert_allclose(part.predict_proba(X)[:, 2], X[:, 2], atol=atol)


def test_the_sample_is_bounded_and_stands_for_all_rows():
    """A class of five rows in ten thousand keeps them; each class has its total weight, and means are those of all."""
    X, y = class_rows(10_000)
    y[(y == 2)] = 1
    y[:5] = 2
    data = LabelledPredictions.parse(X, y, np.random.default_rng(0).uniform(0.5, 2, 10_000))
    sample = thinned(data)
    assert sample.n_rows < most_rows(4) == 1000
    assert_allclose(sample.class_weights, data.class_weights)
    assert_array_equal(np.flatnonzero(sample.labels == 2), range(5))
    means = [np.average(rows.predictions.scores, axis=0, weights=rows.weights) for rows in (data, sample)]
    assert_allclose(means[1], means[0], atol=0.03)
    assert_array_equal(thinned(data).labels, sample.labels)
    part = VectorScaling()
    for start in range(0, 10_000, 250):
        part.partial_fit(X[start : start + 250], y[start : start + 250])
        assert len(part.memory_.get("sample", part.memory_)["labels"]) <= 1000
    assert part.memory_["sample"]["weights"].sum() == pytest.approx(10_000)


@pytest.mark.parametrize("method", EVERY[:4], ids=str)
def test_rows_in_random_order_do_not_make_it_begin_again(method, monkeypatch):
    found = []
    ask = PartialFitting._is_refuted
    monkeypatch.setattr(PartialFitting, "_is_refuted", lambda *args: found.append(ask(*args)) or found[-1])
    for seed, n_classes in ((0, 2), (1, 4), (2, 12)):
        X, y = class_rows(4000, n_classes, seed)
        part = clone(method)
        for start in range(0, 4000, 200):
            part.partial_fit(X[start : start + 200], y[start : start + 200], half_life=1500)
    assert len(found) > 30
    assert not any(found)


@pytest.mark.parametrize(
    ("method", "change"),
    [
        (BetaCalibration(), {"parameters": "am"}),
        (HistogramBinning(), {"n_bins": 7}),
        (PlattScaling(), {"smoothed_targets": True}),
        (TemperatureScaling(), {"bounds": (0.1, 10.0)}),
        (VectorScaling(), {"bias": False}),
    ],
    ids=str,
)
@pytest.mark.parametrize("n_rows", [300, 1500])
def test_parameters_stay_the_same_over_batches(method, change, n_rows, tmp_path):
    X, y = class_rows(n_rows, 2)
    part = clone(method).partial_fit(X, y)
    before = part.predict_proba(X)
    first = part.get_params()
    part.save(tmp_path / "map.npz")
    for fitted in (part, calibrant.load(tmp_path / "map.npz")):
        fitted.set_params(**change)
        with pytest.raises(ParameterError, match=f"{next(iter(change))} was .* set it back"):
            fitted.partial_fit(X, y)
        fitted.set_params(**first)
        assert_array_equal(fitted.predict_proba(X), before)
        fitted.partial_fit(X, y)


def test_a_warning_is_given_when_its_cause_arises_and_not_with_every_batch():
    """Three classes that the scores tell apart: no fit exists, and each row would say so again."""
    generator = np.random.default_rng(0)
    y = generator.integers(0, 3, 200)
    p = softmax(
        4.0 * np.eye(3)[y] * (np.arange(200) < 150)[:, None] + generator.normal(0, 1, (200, 3)), axis=1
    )
    part = PlattScaling()
    with warnings.catch_warnings(record=True, action="always") as seen:
        for row in range(200):
            part.partial_fit(p[row : row + 1], y[row : row + 1])
    assert 1 <= sum(issubclass(warning.category, CalibrationWarning) for warning in seen) <= 6


def test_logits_that_come_in_batches_with_a_late_class():
    generator = np.random.default_rng(0)
    z = generator.normal(0, 3, (4000, 3))
    y = (0.5 * z + generator.gumbel(size=z.shape)).argmax(axis=1)
    order = np.argsort(y == 0, kind="stable")
    z, y = z[order], y[order]
    part = VectorScaling()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingClassWarning)
        for start in range(0, 4000, 400):
            part.partial_fit(Predictions.from_logits(z[start : start + 400]), y[start : start + 400])
    full = VectorScaling().fit(Predictions.from_logits(z), y)
    assert_allclose(part.weights_, full.weights_, atol=0.15)
