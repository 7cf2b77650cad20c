"""Calibration maps learnt from rows: grouping of classes, and the forest on published logits."""

import numpy as np
import pytest

from calibrant import Predictions, TemperatureScaling
from calibrant.calibrators.neighbourhood.random_forest import RandomCalibrationForest
from calibrant.errors import ParameterError
from calibrant.synthetic import LearntMap, ScrambledSobol, SyntheticTask, learnt_map, true_errors
from data import load

GROUPS = ((0, 1, 2, 3), (4, 5, 6), (7, 8, 9))


def rows_of_ten(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    labels = generator.integers(10, size=n_rows)
    return generator.normal(0, 2, (n_rows, 10)) + 4 * np.eye(10)[labels], labels


def test_classes_are_joined_before_the_forest_sees_them():
    logits, labels = rows_of_ten(600)
    scaled = np.exp(logits / 2.3)
    probabilities = scaled / scaled.sum(axis=1, keepdims=True)
    grouped = np.column_stack([probabilities[:, list(group)].sum(axis=1) for group in GROUPS])
    joined = np.array([next(g for g, group in enumerate(GROUPS) if label in group) for label in labels])
    forest = RandomCalibrationForest(n_trees=4, n_bins=16, random_state=3).fit(grouped, joined)
    truth = learnt_map(logits, labels, n_trees=4, n_bins=16, random_state=3)
    rows = np.random.default_rng(1).dirichlet([0.5] * 3, 100)
    assert truth.n_classes == 3
    assert truth(rows) == pytest.approx(forest.predict_proba(rows), abs=1e-9)


def test_without_groups_classes_stay():
    logits, labels = rows_of_ten(400)
    truth = learnt_map(logits, labels, groups=None, temperature=1.0, n_bins=4, n_trees=2)
    assert truth.n_classes == 10
    assert truth(np.eye(10)).sum(axis=1) == pytest.approx(1.0)


def test_the_forest_is_the_truth_even_where_it_does_harm():
    """Predictions that are certain and right: a calibrator would leave them alone, and say so in a warning."""
    labels = np.tile(np.arange(3), 20)
    truth = learnt_map(50.0 * np.eye(3)[labels], labels, groups=None, n_bins=4, n_trees=2)
    assert not truth.calibrator.identity_kept_
    assert truth(np.eye(3)).min() > 0


def test_predictions_of_either_kind_are_taken():
    logits, labels = rows_of_ten(400)
    predictions = Predictions.from_logits(logits)
    rows = np.random.default_rng(1).dirichlet([0.5] * 3, 50)
    expected = learnt_map(logits, labels, n_bins=8, n_trees=2)(rows)
    for given in (predictions, Predictions.from_probabilities(predictions.probabilities)):
        assert learnt_map(given, labels, n_bins=8, n_trees=2)(rows) == pytest.approx(expected, abs=1e-9)


def test_a_fitted_calibrator_is_a_map():
    rows = SyntheticTask().sample(300)
    fitted = TemperatureScaling().fit(rows.predictions, rows.labels)
    task = SyntheticTask((0.5,) * 3, LearntMap(fitted))
    assert true_errors(task, fitted, rule=ScrambledSobol(2**9)).excess_log_loss == pytest.approx(
        0.0, abs=1e-12
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: LearntMap(TemperatureScaling()),
        lambda: LearntMap(np.sqrt),
        lambda: learnt_map(*rows_of_ten(20), temperature=0),
        lambda: learnt_map(*rows_of_ten(20), groups=[[0, 1, 2], [3, 4]]),
        lambda: learnt_map(*rows_of_ten(20), groups=[range(10)]),
        lambda: learnt_map(*rows_of_ten(20), groups=[range(6), range(5, 10)]),
    ],
)
def test_what_has_no_meaning_is_refused(make):
    with pytest.raises(ParameterError):
        make()


@pytest.mark.slow
def test_a_map_of_published_logits_leaves_over_confidence():
    """The network's own best temperature is about 2.4; at 1.6 its grouped predictions stay over-confident."""
    arrays = load("kull_nn/c10_resnet110")
    logits = np.vstack([arrays["val_logits"], arrays["test_logits"]])
    labels = np.concatenate([arrays["val_y"], arrays["test_y"]])
    truth = learnt_map(logits, labels, temperature=1.6, n_bins=128, n_trees=50)
    task = SyntheticTask((0.5,) * 3, truth)
    found = true_errors(task, rule=ScrambledSobol(2**13))
    assert 0.02 < found.confidence < 0.3
    rows = task.sample(5000)
    fitted = TemperatureScaling().fit(rows.predictions, rows.labels)
    assert true_errors(task, fitted, rule=ScrambledSobol(2**13)).confidence < found.confidence
