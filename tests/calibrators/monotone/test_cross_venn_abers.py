"""The cross form of Venn-Abers calibration: predictors on disjoint rows, merged by plain formulas, and their number."""

from math import prod

import numpy as np
import pytest
from venn_abers_rows import both_losses, some_rows

from calibrant import VennAbersCalibration
from calibrant.calibrators.monotone.venn_abers import _dealt_out
from calibrant.errors import ParameterError


@both_losses
def test_the_cross_form_merges_predictors_on_disjoint_rows(loss):
    """Inductive predictors on the rows of every fold, merged by the formulas in plain loops."""
    X, y = some_rows(150)
    folds = _dealt_out(X[:, 1], y == 1, None, 5)
    assert sorted(np.concatenate([rows for rows, _ in folds]).tolist()) == list(range(150))
    assert [len(rows) for rows, _ in folds] == [30] * 5
    parts = [VennAbersCalibration().fit(X[rows], y[rows]).predict_interval(X) for rows, _ in folds]
    calibrated = VennAbersCalibration(5, loss).fit(X, y).predict_proba(X)
    for row in range(150):
        p0 = [float(lower[row, 1]) for lower, _ in parts]
        p1 = [float(upper[row, 1]) for _, upper in parts]
        if loss == "log":
            event, other = prod(p1) ** (1 / 5), prod(1 - p for p in p0) ** (1 / 5)
            expected = event / (event + other)
        else:
            expected = sum(b + a * a / 2 - b * b / 2 for a, b in zip(p0, p1, strict=True)) / 5
        assert calibrated[row, 1] == pytest.approx(expected, abs=1e-12)


def test_ends_of_the_cross_form_are_mean_odds():
    """Where no predictor is certain: sigmoid of the mean logit; a certain one makes the end certain."""
    X, y = some_rows(400)
    parts = [
        VennAbersCalibration().fit(X[rows], y[rows]).predict_interval(X)
        for rows, _ in _dealt_out(X[:, 1], y == 1, None, 3)
    ]
    merged = VennAbersCalibration(3).fit(X, y).predict_interval(X)
    for end in (0, 1):
        values = np.array([part[end][:, 1] for part in parts])
        certain = ((values == 0) | (values == 1)).any(axis=0)
        assert 0 < certain.sum() < len(X)
        inside = values[:, ~certain]
        odds = np.exp(np.log(inside / (1 - inside)).mean(axis=0))
        np.testing.assert_allclose(merged[end][~certain, 1], odds / (1 + odds), rtol=0, atol=1e-12)
        np.testing.assert_array_equal(merged[end][certain, 1], float(end))


def test_a_tie_of_all_rows_is_dealt_out_by_what_happened():
    """Another outcome in one row may change the folds, but never the order of the rows."""
    scores, outcomes = np.full(60, 0.3), np.arange(60) < 25
    order = np.random.default_rng(0).permutation(60)
    shares = [outcomes[rows].sum() for rows, _ in _dealt_out(scores, outcomes, None, 4)]
    moved = [outcomes[order][rows].sum() for rows, _ in _dealt_out(scores[order], outcomes[order], None, 4)]
    assert shares == moved
    others = {
        tuple(
            (np.arange(60) < k)[rows].sum() - k / 4
            for rows, _ in _dealt_out(scores, np.arange(60) < k, None, 4)
        )
        for k in (12, 16, 20, 24, 28)
    }
    assert len(others) > 1


def test_ends_of_the_cross_form_for_squared_errors_are_means():
    X, y = some_rows(150)
    parts = [
        VennAbersCalibration().fit(X[rows], y[rows]).predict_interval(X)
        for rows, _ in _dealt_out(X[:, 1], y == 1, None, 3)
    ]
    merged = VennAbersCalibration(3, "brier").fit(X, y).predict_interval(X)
    for end in (0, 1):
        mean = sum(part[end] for part in parts) / 3
        np.testing.assert_allclose(merged[end], mean, rtol=0, atol=1e-12)


@both_losses
def test_the_cross_form_at_steps_and_right_beside_them(loss):
    """Merged once in the fit, or each predictor asked by itself: the same at every score and its neighbours."""
    X, y = some_rows(90, decimals=3)
    places = X[:, 1]
    near = np.concatenate([[0.0], places, places * (1 + 2.0**-35), places * (1 - 2.0**-35), [1.0]]).clip(0, 1)
    parts = [
        VennAbersCalibration().fit(X[rows], y[rows]).predict_interval(near)
        for rows, _ in _dealt_out(X[:, 1], y == 1, None, 4)
    ]
    lower, upper = (np.array([part[end][:, 1] for part in parts]) for end in (0, 1))
    if loss == "log":
        event, other = upper.prod(axis=0) ** (1 / 4), (1 - lower).prod(axis=0) ** (1 / 4)
        expected = event / (event + other)
    else:
        expected = (upper + lower**2 / 2 - upper**2 / 2).mean(axis=0)
    calibrated = VennAbersCalibration(4, loss).fit(X, y).predict_proba(near)[:, 1]
    np.testing.assert_allclose(calibrated, expected, rtol=0, atol=1e-14)


def test_as_many_folds_as_rows():
    """Each row is a predictor: below both they say 0 to 1/2 and 0 to 1, between them both say 0 to 1."""
    fitted = VennAbersCalibration(cv=2).fit([0.2, 0.8], [0, 1])
    root = 0.5**0.5
    assert fitted.predict_proba([0.1, 0.5, 0.9])[:, 1] == pytest.approx(
        [root / (root + 1), 1 / 2, 1 / (root + 1)]
    )


@pytest.mark.parametrize("cv", [31, 10**6, np.int64(31)])
@pytest.mark.parametrize("weights", [None, np.full(30, 7.0), np.linspace(0.5, 1.5, 30)])
def test_more_folds_than_rows_are_refused(cv, weights):
    """Equal weights of 7 and broken ones give each row to one fold; neither makes more rows."""
    X, y = some_rows(30)
    with pytest.raises(
        ParameterError, match=f"cv must be at most the number of calibration rows, 30, not {cv};"
    ):
        VennAbersCalibration(cv=cv).fit(X, y, weights)


def test_weights_that_count_rows_allow_as_many_folds():
    """Thirty rows, half of them counted twice, are 45 and not 46."""
    X, y = some_rows(30)
    weights = np.repeat([1.0, 2.0], 15)
    repeated = np.repeat(np.arange(30), weights.astype(int))
    counted = VennAbersCalibration(cv=45).fit(X, y, weights)
    every = VennAbersCalibration(cv=45).fit(X[repeated], y[repeated])
    np.testing.assert_allclose(counted.predict_proba(X), every.predict_proba(X), rtol=0, atol=1e-12)
    with pytest.raises(ParameterError, match="cv must be at most the number of calibration rows"):
        VennAbersCalibration(cv=46).fit(X, y, weights)


@pytest.mark.parametrize("cv", [0, 1, -3, 2.5, "5", True])
def test_a_number_of_folds_without_meaning_is_refused(cv):
    with pytest.raises(ParameterError, match="cv must be None or a number of folds of at least 2"):
        VennAbersCalibration(cv=cv).fit([0.2, 0.8], [0, 1])
