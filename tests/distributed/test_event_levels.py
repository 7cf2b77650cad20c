"""Counts at every score: exact for few scores, else those of scores that are rounded by a stated amount."""

from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from calibrant import BayesianBinning, IsotonicCalibration, Predictions, VennAbersCalibration
from calibrant.distributed import fitting as event_levels
from calibrant.distributed.fitting import ClassLevels
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.rounding import cell_width


def events(n_rows, n_levels=None, seed=0):
    """Log-odds and events that happen a little less often than predicted; of a few levels if asked for."""
    generator = np.random.default_rng(seed)
    log_odds = generator.normal(0, 2, n_rows)
    if n_levels:
        log_odds = np.round(log_odds * n_levels / 8) * 8 / n_levels
    happened = generator.random(n_rows) < expit(0.8 * log_odds - 0.3)
    return log_odds, happened.astype(np.intp)


def labelled(log_odds, outcomes, weights=None, *, logits=False):
    if logits:
        given = Predictions.from_logits(np.stack([np.zeros_like(log_odds), log_odds], axis=1))
    else:
        given = Predictions.from_probabilities(np.stack([expit(-log_odds), expit(log_odds)], axis=1))
    return LabelledPredictions.parse(given, outcomes, weights)


@given(seed=st.integers(0, 1000), n_parts=st.integers(1, 6), limit=st.sampled_from([5, 40, 10_000]))
def test_what_becomes_of_rows_does_not_depend_on_how_they_are_divided(seed, n_parts, limit):
    log_odds, outcomes = events(300, 60, seed)
    data = labelled(log_odds, outcomes)
    part_of_row = np.random.default_rng(seed).integers(0, n_parts, 300)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_levels, "EXACT_LEVELS", limit)
        whole = ClassLevels.of(data).levels[0]
        parts = [ClassLevels.of(data.take(part_of_row == part)) for part in np.unique(part_of_row)]
        merged = reduce(add, parts[::-1]).levels[0]
    assert whole.rounded == (limit < len(np.unique(log_odds)))
    np.testing.assert_array_equal(merged.scores, whole.scores)
    np.testing.assert_array_equal(merged.weights, whole.weights)


@pytest.mark.parametrize("logits", [False, True])
def test_few_scores_are_kept_as_they_are(logits):
    log_odds, outcomes = events(2000, 40)
    weights = np.random.default_rng(1).gamma(2.0, 1.0, 2000)
    data = labelled(log_odds, outcomes, weights, logits=logits)
    rows = ClassLevels.of(data).levels[0].rows()
    assert not ClassLevels.of(data).levels[0].rounded
    assert rows.n_rows <= 2 * len(np.unique(log_odds))
    assert rows.class_weights == pytest.approx(data.class_weights)
    for method in (IsotonicCalibration(), VennAbersCalibration(), BayesianBinning()):
        expected = method.fit_labelled(data).predict_proba(data.predictions)
        fitted = type(method)().fit_labelled(rows)
        assert fitted.predict_proba(data.predictions) == pytest.approx(expected, abs=1e-9)


def test_many_scores_are_rounded_as_stated(monkeypatch):
    """The map is that of rows whose log-odds are rounded to the nearest multiple of 1/1024: a fit of those rows."""
    monkeypatch.setattr(event_levels, "EXACT_LEVELS", 100)
    log_odds, outcomes = events(20_000)
    width = cell_width(2)
    assert width == 1 / 1024
    rounded = np.round(log_odds / width) * width
    assert np.abs(rounded - log_odds).max() <= width / 2
    grid = np.linspace(-6, 6, 1001)
    points = np.stack([expit(-grid), expit(grid)], axis=1)
    levels = ClassLevels.of(labelled(log_odds, outcomes)).levels[0]
    assert levels.rounded
    for method in (IsotonicCalibration(), IsotonicCalibration(ties="centered"), VennAbersCalibration()):
        found = method.fit_labelled(levels.rows()).predict_proba(points)
        naive = method.fit_labelled(labelled(rounded, outcomes)).predict_proba(points)
        assert found == pytest.approx(naive, abs=1e-9)


def test_rounding_costs_little_against_the_exact_map(monkeypatch):
    """The log-loss of new rows changes by less than a twentieth of its own standard error."""
    monkeypatch.setattr(event_levels, "EXACT_LEVELS", 100)
    data, test = labelled(*events(50_000)), labelled(*events(50_000, seed=1))
    sketched = IsotonicCalibration().fit_labelled(ClassLevels.of(data).levels[0].rows())
    exact = IsotonicCalibration().fit_labelled(data)
    losses = [test.log_loss(fitted.transform(test.predictions)) for fitted in (sketched, exact)]
    of_rows = test.row_losses("log", exact.transform(test.predictions))
    assert abs(losses[0] - losses[1]) < of_rows.std() / np.sqrt(test.n_rows) / 20
    difference = np.abs(sketched.predict_proba(test.predictions) - exact.predict_proba(test.predictions))
    assert difference.mean() < 1e-3


def test_more_classes_share_the_same_number_of_cells():
    assert cell_width(16) == 1 / 1024
    assert cell_width(17) == 2 / 1024
    assert event_levels.exact_levels(1000) * 1000 <= event_levels.EXACT_LEVELS_OF_ALL


def test_certain_predictions_keep_their_zeros():
    data = LabelledPredictions.parse([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], [0, 1, 1])
    rows = ClassLevels.of(data).levels[0].rows()
    assert sorted(rows.predictions.scores[:, 1].tolist()) == [0.0, 0.5, 1.0]
