"""How many repairs decision calibration makes for losses of a user: gaps against chance, by loops and on fresh rows."""

from copy import copy

import numpy as np
import pytest

from calibrant import DecisionCalibration
from calibrant.calibrators.neighbourhood import decision as decision_stopping
from calibrant.calibrators.neighbourhood.decision import evidence
from calibrant.metrics import average_loss_gap, brier_score
from calibrant.synthetic import SyntheticTask, TemperatureMap, tasks

COSTS = np.array([[[3.3, 1.0, 2.0], [0.0, 8.0, 10.0]]])
MANY = np.random.default_rng(5).standard_normal((30, 2, 3))
TEN = np.random.default_rng(6).standard_normal((1, 3, 10))


def drawn(task, n_rows, seed):
    rows = task.sample(n_rows, random_state=seed)
    return rows.predictions.probabilities, rows.labels


def true_gap(task, fitted, losses, n_rows=40_000):
    """Mean over losses of the gap between expected and real mean loss, with true probabilities for labels."""
    rows, _ = drawn(task, n_rows, 10_000)
    given, truth = fitted.predict_proba(rows), task.true_probabilities(rows)
    gaps = []
    for matrix in losses:
        own = matrix[(given @ matrix.T).argmin(axis=1)]
        gaps.append(abs((own * (truth - given)).sum(axis=1).mean()))
    return np.mean(gaps)


def first_repairs(fitted, number):
    """Return the calibrator after so many of its repairs."""
    earlier = copy(fitted)
    earlier.partitions_, earlier.adjustments_ = fitted.partitions_[:number], fitted.adjustments_[:number]
    return earlier


def test_the_gap_of_what_is_given_out_vanishes_on_the_rows_of_the_fit():
    """Rows are seen as they will be given out: cropping them in the end opens no gap again."""
    X, y = drawn(SyntheticTask((0.5, 0.5, 0.5), TemperatureMap(3.0)), 3000, 0)
    gaps = {}
    for violation_of in ("clipped", "scores"):
        calibrator = DecisionCalibration(n_iterations=40, loss_matrices=COSTS, violation_of=violation_of)
        gaps[violation_of] = average_loss_gap(y, calibrator.fit(X, y).predict_proba(X), losses=COSTS)
    assert gaps["clipped"] < 1e-6
    assert gaps["scores"] > 5e-4


def test_evidence_is_that_of_loops_over_rows():
    """Gap: mean of real less expected loss. Chance: root of the summed squared residuals of a part, over n."""
    X, y = drawn(SyntheticTask(), 150, 0)
    gaps, variances, ratios = [], [], []
    for matrix in MANY:
        differences, sums, squares = [], np.zeros((2, 3)), np.zeros(2)
        for row, label in zip(X, y, strict=True):
            decision = int(np.argmin(matrix @ row))
            differences.append(matrix[decision, label] - matrix[decision] @ row)
            residual = np.eye(3)[label] - row
            sums[decision] += residual / 150
            squares[decision] += residual @ residual / 150**2
        gaps.append(np.mean(differences))
        variances.append(np.var(differences) / 150)
        ratios.append(sum(np.sqrt((total**2).sum()) for total in sums) / np.sqrt(squares).sum())
    found = evidence(X, np.eye(3)[y], np.full(150, 1 / 150), 150.0, MANY)
    assert found.gap == pytest.approx(np.sqrt(np.mean(np.square(gaps))), rel=1e-9)
    assert found.standard_error == pytest.approx(np.sqrt(np.mean(variances)), rel=1e-9)
    assert found.violation == pytest.approx(max(ratios), rel=1e-9)


def test_violations_of_calibrated_predictions_are_those_of_chance():
    """In the mean of their squares, for a loss with one decision that is always best: exactly so."""
    task, always = tasks()["calibrated"], np.array([[[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]])
    squares = []
    for seed in range(200):
        X, y = drawn(task, 100, seed)
        squares.append(evidence(X, np.eye(3)[y], np.full(100, 0.01), 100.0, always).violation ** 2)
    assert np.mean(squares) == pytest.approx(1.0, abs=4 * np.std(squares) / np.sqrt(200))


def test_the_search_tells_the_gaps_of_what_every_number_of_repairs_gives():
    X, y = drawn(SyntheticTask(), 2000, 0)
    fitted = DecisionCalibration(loss_matrices=MANY).fit(X, y)
    search = fitted.search_
    assert search["n_iterations"].tolist() == list(range(fitted.n_iterations_ + 1))
    for number in range(1, fitted.n_iterations_ + 1):
        given = DecisionCalibration(n_iterations=number, loss_matrices=MANY).fit(X, y).predict_proba(X)
        gaps = [average_loss_gap(y, given, losses=[matrix]) for matrix in MANY]
        assert search["gap"][number] == pytest.approx(np.sqrt(np.mean(np.square(gaps))), rel=1e-6)


@pytest.mark.parametrize("losses", [COSTS, MANY])
def test_repairs_end_with_the_first_that_leaves_half_a_standard_error_and_no_violation(losses):
    X, y = drawn(SyntheticTask(), 3000, 1)
    fitted = DecisionCalibration(loss_matrices=losses).fit(X, y)
    search = fitted.search_
    done = (search["gap"] <= 0.5 * search["standard_error"]) & (search["violation"] <= 1)
    assert fitted.n_iterations_ == np.argmax(done) >= 1
    again = DecisionCalibration(n_iterations=fitted.n_iterations_, loss_matrices=losses).fit(X, y)
    np.testing.assert_array_equal(fitted.predict_proba(X), again.predict_proba(X))


@pytest.mark.parametrize(
    ("name", "losses", "n_rows"),
    [
        ("mixed", COSTS, 4000),
        ("over-confident", COSTS, 1000),
        ("over-confident", COSTS, 4000),
        ("mixed", MANY[:10], 1000),
        ("ten-classes", TEN, 1000),
    ],
)
def test_the_gap_on_fresh_rows_is_near_that_of_the_best_number_of_repairs(name, losses, n_rows):
    """In the mean of some samples: less than half a standard error above the best number for all of them, and far
    below the gap before. Standard errors are what no rule can do without.
    """
    task, numbers = tasks()[name], [1, 2, 4, 8, 20]
    chosen, fixed, errors = [], [], []
    for seed in range(3):
        X, y = drawn(task, n_rows, seed)
        fitted = DecisionCalibration(loss_matrices=losses).fit(X, y)
        chosen.append(true_gap(task, fitted, losses, 5000))
        errors.append(fitted.search_["standard_error"][-1])
        longest = DecisionCalibration(n_iterations=max(numbers), loss_matrices=losses).fit(X, y)
        fixed.append([true_gap(task, first_repairs(longest, n), losses, 5000) for n in numbers])
    assert np.mean(chosen) < np.mean(fixed, axis=0).min() + 0.5 * np.mean(errors)
    untouched = DecisionCalibration(loss_matrices=losses, tolerance=10.0).fit(X, y)
    assert untouched.identity_kept_
    assert np.mean(chosen) < 0.6 * true_gap(task, untouched, losses, 5000)


def test_losses_of_calibrated_predictions_are_mostly_left_alone():
    task = tasks()["calibrated"]
    fits = [DecisionCalibration(loss_matrices=COSTS).fit(*drawn(task, 500, seed)) for seed in range(20)]
    assert sum(fitted.identity_kept_ for fitted in fits) >= 18
    assert np.mean([true_gap(task, fitted, COSTS, 5000) for fitted in fits]) < 0.005


def test_one_repair_is_not_enough_for_the_default_task():
    """The Brier score held out sees little of the cost that is left after the first."""
    task = SyntheticTask()
    X, y = drawn(task, 5000, 0)
    fitted = DecisionCalibration(loss_matrices=COSTS[0]).fit(X, y)
    once = DecisionCalibration(n_iterations=1, loss_matrices=COSTS[0]).fit(X, y)
    assert fitted.n_iterations_ > 1
    assert true_gap(task, fitted, COSTS) < 0.6 * true_gap(task, once, COSTS)
    assert brier_score(y, fitted.predict_proba(X)) < brier_score(y, X)


@pytest.mark.parametrize("losses", [COSTS, MANY])
def test_a_weight_of_two_is_a_repeated_row_and_a_weight_of_zero_none(losses):
    X, y = drawn(SyntheticTask(), 600, 2)
    weights = (np.arange(600) % 3).astype(float)
    weighted = DecisionCalibration(loss_matrices=losses).fit(X, y, weights)
    rows = np.random.default_rng(0).permutation(np.repeat(np.arange(600), weights.astype(int)))
    repeated = DecisionCalibration(loss_matrices=losses).fit(X[rows], y[rows])
    assert weighted.n_iterations_ == repeated.n_iterations_ > 0
    for key, values in weighted.search_.items():
        np.testing.assert_allclose(values, repeated.search_[key], rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=0, atol=1e-7)


def test_the_unit_of_losses_does_not_matter():
    X, y = drawn(SyntheticTask(), 1000, 3)
    euros = DecisionCalibration(loss_matrices=COSTS).fit(X, y)
    cents = DecisionCalibration(loss_matrices=100 * COSTS).fit(X, y)
    np.testing.assert_allclose(cents.search_["gap"], 100 * euros.search_["gap"], rtol=1e-9)
    np.testing.assert_allclose(cents.predict_proba(X), euros.predict_proba(X), rtol=0, atol=1e-12)


def test_where_repairs_do_not_get_there_the_least_gap_is_taken(monkeypatch):
    X, y = drawn(SyntheticTask(), 300, 0)
    monkeypatch.setattr(decision_stopping, "WELL_REPAIRED", 0.0)
    fitted = DecisionCalibration(loss_matrices=MANY).fit(X, y)
    assert fitted.n_iterations_ == fitted.search_["gap"].argmin() > 0
    assert len(fitted.search_["gap"]) > fitted.n_iterations_ + 1


@pytest.mark.parametrize("labels", [[0, 1], [1, 0]])
def test_two_rows(labels, recwarn):
    fitted = DecisionCalibration(loss_matrices=[[0, 10], [1, 1]]).fit([[0.6, 0.4], [0.3, 0.7]], labels)
    given = fitted.predict_proba([[0.5, 0.5], [1.0, 0.0]])
    assert (given >= 0).all()
    np.testing.assert_allclose(given.sum(axis=1), 1.0)


def test_rows_that_are_certain_and_right_are_left_alone():
    fitted = DecisionCalibration(loss_matrices=COSTS).fit(np.eye(3)[np.arange(30) % 3], np.arange(30) % 3)
    assert fitted.identity_kept_
