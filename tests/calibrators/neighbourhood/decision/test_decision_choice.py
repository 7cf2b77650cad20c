"""How many repairs decision calibration makes, judged by rows held out, and whether any of them are kept."""

import numpy as np
import pytest
from over_confident_rows import over_confident

from calibrant import DecisionCalibration
from calibrant.calibrators.neighbourhood.decision import search as search_module
from calibrant.calibrators.neighbourhood.decision.repairs import SearchEffort
from calibrant.errors import CalibrationWarning
from calibrant.metrics import brier_score, cost_gap
from calibrant.synthetic import tasks


def test_the_number_of_repairs_is_the_smallest_within_a_standard_error_of_the_lowest_loss_held_out():
    X, y = over_confident(sharpness=4.0)
    fitted = DecisionCalibration().fit(X, y)
    search = fitted.search_
    assert search["n_iterations"].tolist() == list(range(len(search["loss"])))
    lowest = int(search["loss"].argmin())
    assert search["standard_error"][lowest] == 0
    above = search["loss"] - search["loss"][lowest]
    assert 0 < fitted.n_iterations_ < lowest
    assert above[fitted.n_iterations_] <= search["standard_error"][fitted.n_iterations_]
    assert (above > search["standard_error"])[: fitted.n_iterations_].all()
    again = DecisionCalibration(n_iterations=fitted.n_iterations_).fit(X, y)
    np.testing.assert_array_equal(fitted.predict_proba(X), again.predict_proba(X))
    assert again.search_ == {}


def test_few_rows_are_hardly_harmed():
    """In the mean over ten samples of 100 rows; to take the lowest loss held out costs more than a percent."""
    task = tasks()["over-confident"]
    fresh = task.sample(4000, random_state=999)
    before = brier_score(fresh.labels, fresh.predictions)
    changes = []
    for seed in range(10):
        rows = task.sample(100, random_state=seed)
        fitted = DecisionCalibration().fit(rows.predictions, rows.labels)
        changes.append(brier_score(fresh.labels, fitted.transform(fresh.predictions)) / before - 1)
    assert np.mean(changes) < 0.005


@pytest.mark.parametrize("loss", ["brier", "log"])
def test_losses_held_out_are_those_of_fits_to_the_other_rows(loss, monkeypatch):
    monkeypatch.setattr(search_module, "IN_FOLDS", SearchEffort(n_searches=1))
    X, y = over_confident(120, 3)
    splits = [(np.arange(120) % 3 != fold, np.arange(120) % 3 == fold) for fold in range(3)]
    splits = [(np.flatnonzero(train), np.flatnonzero(test)) for train, test in splits]
    search = DecisionCalibration(loss=loss, restarts=0, cv=splits).fit(X, y).search_
    lowest = int(search["loss"].argmin())
    losses = {2: [], lowest: []}
    for train, test in splits:
        for number, of_number in losses.items():
            once = DecisionCalibration(n_iterations=number, restarts=0, guard=False) if number else None
            given = once.fit(X[train], y[train]).predict_proba(X[test]) if once else X[test]
            for p, label in zip(given, y[test], strict=True):
                of_number.append(-np.log(p[label]) if loss == "log" else ((p - np.eye(3)[label]) ** 2).sum())
    assert search["loss"][2] == pytest.approx(np.mean(losses[2]), rel=1e-9)
    above = np.subtract(losses[2], losses[lowest])
    expected = np.std(above, ddof=1) / np.sqrt(120)
    assert search["standard_error"][2] == pytest.approx(expected, rel=1e-6, abs=1e-12)
    # Left alone, rows may be cropped or not, whichever is better in each fold.
    inside = np.clip(X, 1e-4, 1 - 1e-4)
    nothing = 0.0
    for _, test in splits:
        of_readings = []
        for p in (X[test], inside[test] / inside[test].sum(axis=1, keepdims=True)):
            logarithms, squares = (
                -np.log(p[np.arange(40), y[test]]),
                ((p - np.eye(3)[y[test]]) ** 2).sum(axis=1),
            )
            of_readings.append(np.mean(logarithms if loss == "log" else squares))
        nothing += min(of_readings) / 3
    assert search["loss"][0] == pytest.approx(nothing, rel=1e-9)


def test_calibrated_rows_are_left_alone():
    """Labels are drawn from the predictions, a few rows: no repair helps rows held out, and none is made."""
    generator = np.random.default_rng(1)
    X = generator.dirichlet(np.ones(3), 60)
    y = (np.log(X) + generator.gumbel(size=X.shape)).argmax(axis=1)
    fitted = DecisionCalibration().fit(X, y)
    assert fitted.n_iterations_ == 0
    assert fitted.identity_kept_
    assert fitted.partitions_.shape == (0, 2, 3)
    np.testing.assert_array_equal(fitted.predict_proba(X), X)


def test_copies_of_rows_tell_nothing_about_rows_held_out():
    """Every row four times, with its label: folds that parted copies would reward learning labels by heart."""
    generator = np.random.default_rng(1)
    X = generator.dirichlet(np.ones(3), 60)
    y = (np.log(X) + generator.gumbel(size=X.shape)).argmax(axis=1)
    once = DecisionCalibration().fit(X, y)
    copies = DecisionCalibration().fit(np.repeat(X, 4, axis=0), np.repeat(y, 4))
    assert copies.n_iterations_ == 0
    np.testing.assert_allclose(copies.search_["loss"], once.search_["loss"], rtol=1e-6)
    np.testing.assert_allclose(copies.search_["standard_error"], once.search_["standard_error"], rtol=1e-4)


def test_one_prediction_leaves_nothing_to_hold_out():
    X = np.tile([0.6, 0.3, 0.1], (20, 1))
    fitted = DecisionCalibration().fit(X, [0] * 8 + [1] * 8 + [2] * 4)
    assert fitted.identity_kept_
    assert fitted.search_ == {}


def test_repairs_end_at_the_tolerance():
    X, y = over_confident()
    full = DecisionCalibration(n_iterations=12).fit(X, y)
    limit = float(np.sort(full.violations_)[6])
    fitted = DecisionCalibration(n_iterations=12, tolerance=limit).fit(X, y)
    expected = int(np.argmax(full.violations_ <= limit))
    assert fitted.n_iterations_ == expected < 12
    assert fitted.violations_.min() > limit


def test_the_choice_ends_when_repairs_gain_little(monkeypatch):
    X, y = over_confident()
    monkeypatch.setattr(search_module, "WORTH_WHILE", 0.5)
    fitted = DecisionCalibration().fit(X, y)
    assert len(fitted.search_["loss"]) == search_module.PATIENCE + 1
    monkeypatch.setattr(search_module, "WORTH_WHILE", -1.0)
    monkeypatch.setattr(search_module, "MOST_ITERATIONS", 8)
    assert len(DecisionCalibration().fit(X, y).search_["loss"]) == 9


def test_harm_is_noticed_and_undone():
    """All rows are right; a floor of 0.3 for three classes takes from the true class."""
    X = np.eye(3)[np.arange(30) % 3] * 0.94 + 0.02
    with pytest.warns(CalibrationWarning, match="DecisionCalibration: the identity is at least as good"):
        fitted = DecisionCalibration(n_iterations=1, epsilon=0.3).fit(X, np.arange(30) % 3)
    assert fitted.identity_kept_
    assert fitted.n_iterations_ == len(fitted.partitions_) == len(fitted.violations_) == 0
    np.testing.assert_array_equal(fitted.predict_proba(X), X)
    unguarded = DecisionCalibration(n_iterations=1, epsilon=0.3, guard=False).fit(X, np.arange(30) % 3)
    assert not unguarded.identity_kept_
    assert unguarded.n_iterations_ == 1
    assert brier_score(np.arange(30) % 3, unguarded.predict_proba(X)) > brier_score(np.arange(30) % 3, X)


def test_with_own_losses_it_is_their_gap_that_must_not_rise():
    """Rows are right and 0.96 is promised, so that costs fall short of what was expected.

    A floor of 0.3 spoils the Brier score, but rows become (0.4, 0.3, 0.3), or the like, for which the repair of the
    scores leaves no gap. A floor of 0.1 opens the gap further.
    """
    X, y = np.eye(3)[np.arange(30) % 3] * 0.94 + 0.02, np.arange(30) % 3
    losses = [[3.3, 1.0, 2.0], [0.0, 8.0, 10.0]]
    options = {"n_iterations": 1, "loss_matrices": losses, "violation_of": "scores"}
    kept = DecisionCalibration(epsilon=0.3, **options).fit(X, y)
    assert kept.n_iterations_ == 1
    assert cost_gap(y, kept.predict_proba(X), costs=losses) < 1e-9 < cost_gap(y, X, costs=losses)
    assert brier_score(y, kept.predict_proba(X)) > brier_score(y, X)
    with pytest.warns(CalibrationWarning, match="the identity is at least as good"):
        fitted = DecisionCalibration(epsilon=0.1, **options).fit(X, y)
    assert fitted.identity_kept_
    assert fitted.n_iterations_ == len(fitted.partitions_) == 0
    unguarded = DecisionCalibration(epsilon=0.1, guard=False, **options).fit(X, y)
    assert cost_gap(y, unguarded.predict_proba(X), costs=losses) > cost_gap(y, X, costs=losses)


@pytest.mark.parametrize("loss", ["brier", "log"])
@pytest.mark.parametrize("n_iterations", ["auto", 3])
def test_certain_rows_that_are_right_come_back_as_they_are_but_for_zeros(loss, n_iterations):
    """A zero may be refuted some day, so it becomes epsilon: 1 and 0 are 1 and 1e-4, over their sum."""
    X = np.eye(3)[np.arange(30) % 3]
    fitted = DecisionCalibration(n_iterations=n_iterations, loss=loss).fit(X, np.arange(30) % 3)
    assert fitted.identity_kept_
    np.testing.assert_allclose(fitted.predict_proba(X), np.where(X == 1, 1, 1e-4) / (1 + 2e-4), rtol=1e-12)


@pytest.mark.parametrize("loss", ["brier", "log"])
def test_what_cropping_alone_gains_is_no_gain(loss):
    """Certain rows, of which two in a hundred are wrong: no fold can learn more than what epsilon does."""
    predicted = np.arange(300) % 3
    labels = np.where(np.arange(300) % 50 == 0, (predicted + 1) % 3, predicted)
    fitted = DecisionCalibration(loss=loss).fit(np.eye(3)[predicted], labels)
    assert fitted.n_iterations_ == 0
