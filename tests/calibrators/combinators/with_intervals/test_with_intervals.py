"""Intervals for every probability: what surrounds the prediction, draws and predictive means."""

import numpy as np
import pytest
from interval_rows import rows_of
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logit

import calibrant
from calibrant import (
    BetaCalibration,
    Chain,
    DirichletCalibration,
    EnsembleTemperatureScaling,
    GaussianProcessCalibration,
    IsotonicCalibration,
    MatrixScaling,
    PlattScaling,
    StructuredScaling,
    TemperatureScaling,
    VectorScaling,
    VennAbersCalibration,
    WithIntervals,
)
from calibrant.metrics import log_loss
from calibrant.synthetic import tasks


def every_kind():
    return [
        WithIntervals(TemperatureScaling()),
        WithIntervals(VectorScaling()),
        WithIntervals(MatrixScaling("l2", reg_lambda=0.01, reg_mu=0.01), "laplace"),
        WithIntervals(StructuredScaling(), "laplace"),
        WithIntervals(PlattScaling()),
        WithIntervals(BetaCalibration(), predictive=True),
        WithIntervals(TemperatureScaling(), predictive=True),
        WithIntervals(IsotonicCalibration(), "bootstrap", n_draws=20),
        WithIntervals(EnsembleTemperatureScaling(), n_draws=20, predictive=True),
        WithIntervals(Chain([TemperatureScaling(), VectorScaling()]), n_draws=20),
        WithIntervals(GaussianProcessCalibration(), "own"),
        WithIntervals(GaussianProcessCalibration(monotone=True), "own"),
        WithIntervals(GaussianProcessCalibration(covariance="diagonal"), "own"),
        WithIntervals(VennAbersCalibration()),
    ]


kinds = pytest.mark.parametrize(
    "calibrator", every_kind(), ids=lambda c: f"{type(c.calibrator).__name__}-{c.predictive}"
)


@kinds
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_intervals_surround_the_prediction_in_its_float_type(calibrator, n_classes, kind):
    p, y = rows_of(150, n_classes)
    p = p.astype(kind)
    before = p.copy()
    fitted = calibrator.fit(p, y)
    q = fitted.predict_proba(p)
    lower, upper = fitted.predict_interval(p)
    assert lower.shape == upper.shape == q.shape == (150, n_classes)
    assert lower.dtype == upper.dtype == q.dtype == kind
    if fitted.method_ != "own" or n_classes == 2:  # Venn-Abers: separate statements, see there
        assert (lower <= q).all()
        assert (q <= upper).all()
    assert (lower >= 0).all()
    assert (upper <= 1).all()
    assert (lower < upper).mean() > 0.95
    assert_allclose(q.sum(axis=1), 1, rtol=1e-5)
    assert_array_equal(p, before)


@kinds
def test_what_is_loaded_gives_the_same_intervals(calibrator, tmp_path):
    p, y = rows_of(100, 3)
    fitted = calibrator.fit(p, y)
    fitted.save(tmp_path / "fitted.npz")
    loaded = calibrant.load(tmp_path / "fitted.npz")
    assert_array_equal(loaded.predict_interval(p), fitted.predict_interval(p))
    assert_array_equal(loaded.predict_proba(p), fitted.predict_proba(p))


def test_the_prediction_is_that_of_the_calibrator_alone():
    p, y = rows_of(200, 3)
    for calibrator in (TemperatureScaling(), PlattScaling(), IsotonicCalibration()):
        wrapped = WithIntervals(calibrator, n_draws=20)
        assert wrapped.traits == calibrator.traits
        assert_array_equal(wrapped.fit(p, y).predict_proba(p), calibrator.fit(p, y).predict_proba(p))


def test_intervals_grow_with_the_level_and_shrink_with_rows():
    p, y = rows_of(400, 3)
    fitted = WithIntervals(VectorScaling(), level=0.5).fit(p, y)
    widths = [
        np.subtract(*fitted.predict_interval(p, level)[::-1]).mean() for level in (None, 0.5, 0.9, 0.99)
    ]
    assert widths[0] == widths[1] < widths[2] < widths[3]
    four = WithIntervals(VectorScaling()).fit(np.tile(p, (4, 1)), np.tile(y, 4)).predict_interval(p)
    once = WithIntervals(VectorScaling()).fit(p, y).predict_interval(p)
    reach = [logit(upper) - logit(lower) for lower, upper in (once, four)]
    assert_allclose(reach[0] / reach[1], 2, rtol=0.02)  # but for n / (n - d)


def test_draws_have_the_spread_of_the_intervals():
    p, y = rows_of(400, 3)
    fitted = WithIntervals(VectorScaling(), n_draws=2000).fit(p, y)
    draws = fitted.draws(p[:20])
    assert draws.shape == (2000, 20, 3)
    assert_allclose(draws.sum(axis=2), 1)
    lower, upper = fitted.predict_interval(p[:20])
    found = np.quantile(logit(draws), [0.025, 0.975], axis=0)
    assert_allclose(found, logit([lower, upper]), atol=0.12 * (logit(upper) - logit(lower)).max())
    assert_array_equal(fitted.draws(p[:20], 3), draws[:3])
    one_vs_rest = WithIntervals(PlattScaling(), n_draws=2000).fit(p, y)
    lower, upper = one_vs_rest.predict_interval(p[:20])
    found = np.quantile(logit(one_vs_rest.draws(p[:20])), [0.025, 0.975], axis=0)
    assert_allclose(found, logit([lower, upper]), atol=0.12 * (logit(upper) - logit(lower)).max())


def test_predictive_means_are_those_of_the_draws():
    p, y = rows_of(60, 3)
    for calibrator in (TemperatureScaling(), BetaCalibration(), IsotonicCalibration()):
        fitted = WithIntervals(calibrator, predictive=True, n_draws=50).fit(p, y)
        assert_allclose(fitted.predict_proba(p), fitted.draws(p).mean(axis=0), atol=1e-12)


def test_predictive_means_protect_from_few_rows():
    """Vector scaling of 30 rows of three classes: the mean over plausible maps costs little and at times saves much."""
    task, gains = tasks()["asymmetric"], []
    test = task.sample(2000, random_state=10**6)
    for seed in range(12):
        rows = task.sample(30, random_state=seed)
        if len(np.unique(rows.labels)) < 3:
            continue
        losses = [
            log_loss(
                test.labels,
                WithIntervals(VectorScaling(), predictive=predictive)
                .fit(rows.predictions, rows.labels)
                .predict_proba(test.predictions),
            )
            for predictive in (False, True)
        ]
        gains.append(losses[0] - losses[1])
    assert np.mean(gains) > 0.02
    assert max(gains) > 0.1
    assert min(gains) > -0.05


def test_predictive_means_of_a_temperature_keep_the_predicted_class():
    p, y = rows_of(12, 3)
    fitted = WithIntervals(TemperatureScaling(), predictive=True).fit(p, y)
    assert fitted.traits.keeps_argmax
    assert not fitted.traits.contains_identity
    test = rows_of(500, 3, seed=3)[0]
    assert_array_equal(fitted.predict_proba(test).argmax(axis=1), test.argmax(axis=1))


def test_the_same_seed_gives_the_same_refits_whatever_the_threads(monkeypatch):
    p, y = rows_of(60, 3)
    first = WithIntervals(IsotonicCalibration(), "bootstrap", n_draws=20).fit(p, y).predict_interval(p)
    monkeypatch.setattr("calibrant.numerics.row_blocks.NUMBERS_PER_PIECE", 1)
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", "3")
    assert_array_equal(
        WithIntervals(IsotonicCalibration(), "bootstrap", n_draws=20).fit(p, y).predict_interval(p), first
    )
    other = (
        WithIntervals(IsotonicCalibration(), "bootstrap", n_draws=20, random_state=1)
        .fit(p, y)
        .predict_interval(p)
    )
    assert np.abs(np.subtract(other, first)).max() > 1e-3


def test_laplace_and_bootstrap_agree_with_many_rows():
    p, y = rows_of(800, 3)
    for calibrator in (TemperatureScaling(), PlattScaling()):
        widths = [
            np.subtract(
                *WithIntervals(calibrator, method=method, n_draws=100).fit(p, y).predict_interval(p)[::-1]
            )
            for method in ("laplace", "bootstrap")
        ]
        assert widths[0].mean() == pytest.approx(widths[1].mean(), rel=0.2)


def test_the_order_of_rows_and_of_classes_does_not_matter():
    p, y = rows_of(120, 3)
    rows, columns = np.random.default_rng(0).permutation(120), np.array([2, 0, 1])
    for calibrator in (
        VectorScaling(),
        DirichletCalibration("odir", reg_lambda=0.01, reg_mu=0.01),
        PlattScaling(),
    ):
        ends = WithIntervals(calibrator, "laplace").fit(p, y).predict_interval(p)
        shuffled = WithIntervals(calibrator, "laplace").fit(p[rows], y[rows]).predict_interval(p)
        renamed = (
            WithIntervals(calibrator, "laplace")
            .fit(p[:, columns], np.argsort(columns)[y])
            .predict_interval(p[:, columns])
        )
        assert_allclose(shuffled, ends, atol=1e-6)
        assert_allclose(renamed, np.asarray(ends)[:, :, columns], atol=1e-6)
