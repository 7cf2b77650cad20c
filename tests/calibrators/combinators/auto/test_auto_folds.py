"""The folds of the automatic choice: classes in their shares, and what belongs together on one side."""

from dataclasses import replace

import numpy as np

from calibrant import AutoCalibration, TemperatureScaling
from calibrant.calibrators.combinators.auto import folds as folds_module
from calibrant.calibrators.combinators.auto.folds import stratified_folds, trial_rows
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.synthetic import tasks


def sample(name="mixed", n_rows=400, seed=0):
    drawn = tasks()[name].sample(n_rows, seed)
    return drawn.predictions, drawn.labels


def test_whole_weights_do_not_put_a_row_on_both_sides_of_a_fold():
    X, y = sample("calibrated", 100)
    weights = np.random.default_rng(0).integers(5, 60, 100).astype(float)
    for fold in stratified_folds(5, LabelledPredictions.parse(X, y, weights)):
        assert not set(fold.train_rows) & set(fold.test_rows)
        np.testing.assert_array_equal(fold.test_weights, weights[fold.test_rows])


def test_coarse_classifiers_are_held_out_row_by_row():
    """Three different rows only: each fold still has all of them on either side."""
    scores = np.eye(3)[np.arange(90) % 3] * 0.7 + 0.1
    labels = np.where(np.arange(90) < 70, np.arange(90) % 3, 0)
    for fold in stratified_folds(5, LabelledPredictions.parse(scores, labels)):
        assert len(np.unique(scores[fold.test_rows], axis=0)) == 3
        assert len(fold.test_rows) == 18


def test_rows_of_one_group_are_on_one_side_of_every_fold():
    X, y = sample("mixed", 300)
    groups = np.random.default_rng(0).integers(0, 40, 300)
    folds = stratified_folds(5, replace(LabelledPredictions.parse(X, y), groups=groups))
    assert sorted(np.concatenate([fold.test_rows for fold in folds])) == list(range(300))
    for fold in folds:
        assert not set(groups[fold.train_rows]) & set(groups[fold.test_rows])


def test_folds_hold_out_every_class_in_its_share():
    labels = np.repeat([0, 1, 2], [50, 20, 5])
    scores = np.random.default_rng(0).dirichlet([1, 1, 1], 75)
    folds = stratified_folds(5, LabelledPredictions.parse(scores, labels))
    for fold in folds:
        np.testing.assert_array_equal(np.bincount(labels[fold.test_rows]), [10, 4, 1])


def test_folds_of_rare_classes_are_of_one_size():
    """One row of each of ten classes: every fold holds out two."""
    data = LabelledPredictions.parse(np.random.default_rng(0).dirichlet(np.ones(10), 10), np.arange(10))
    assert [len(fold.test_rows) for fold in stratified_folds(5, data)] == [2] * 5


def test_many_rows_are_tried_on_a_sample_and_fitted_as_a_whole(monkeypatch):
    monkeypatch.setattr(folds_module, "TRIAL_ROWS", 100)
    monkeypatch.setattr(folds_module, "TRIAL_ENTRIES", 300)
    X, y = sample("over-confident", 1000)
    data = LabelledPredictions.parse(X, y)
    tried_on = trial_rows(data)
    assert 90 <= tried_on.n_rows <= 110
    fitted = AutoCalibration(["temperature"]).fit(X, y)
    assert f"{tried_on.n_rows} rows in 5 folds" in fitted.explanation_
    whole = TemperatureScaling().fit(X, y)
    assert fitted.calibrators_[-1].temperature_ == whole.temperature_
    groups = np.arange(1000) // 2
    assert trial_rows(replace(data, groups=groups)).groups.shape == (100,)
