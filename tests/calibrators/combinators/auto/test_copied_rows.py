"""Which calibration rows are held out together: copies are, equal rows of a coarse classifier are not."""

import numpy as np
from sklearn.model_selection import StratifiedKFold

from calibrant import IsotonicCalibration, LabelledPredictions
from calibrant.calibrators.combinators.auto.folds import row_groups, stratified_folds
from calibrant.metrics import log_loss


def coarse_rows(n_rows: int = 1000, seed: int = 0):
    """Return calibrated scores of a tree with six leaves, and labels."""
    generator = np.random.default_rng(seed)
    p = generator.choice([0.05, 0.2, 0.4, 0.6, 0.8, 0.95], n_rows)
    return p, (generator.random(n_rows) < p).astype(int)


def held_out_loss(p, y, splits):
    held_out = np.empty(len(p))
    for train, test in splits:
        held_out[test] = IsotonicCalibration().fit(p[train], y[train]).predict_proba(p[test])[:, 1]
    return log_loss(y, held_out)


def test_copies_are_one_unit():
    generator = np.random.default_rng(0)
    p, y = np.repeat(generator.random(50), 3), np.repeat(generator.integers(0, 2, 50), 3)
    group_of_row = row_groups(LabelledPredictions.parse(p, y), 5).group_of_row
    assert len(np.unique(group_of_row)) == 50
    assert (group_of_row.reshape(50, 3) == group_of_row[::3, None]).all()


def test_equal_scores_with_different_labels_are_rows_of_their_own():
    p, y = coarse_rows()
    assert len(np.unique(row_groups(LabelledPredictions.parse(p, y), 5).group_of_row)) == 1000


def test_rounded_scores_are_rows_of_their_own():
    generator = np.random.default_rng(1)
    p = generator.uniform(0.02, 0.98, 1000).round(2)
    y = (generator.random(1000) < p).astype(int)
    assert len(np.unique(row_groups(LabelledPredictions.parse(p, y), 5).group_of_row)) == 1000


def test_a_single_accident_among_many_copies_does_not_part_them():
    generator = np.random.default_rng(2)
    p, y = np.repeat(generator.random(200), 2), np.repeat(generator.integers(0, 2, 200), 2)
    y[0] = 1 - y[1]
    group_of_row = row_groups(LabelledPredictions.parse(p, y), 5).group_of_row
    assert len(np.unique(group_of_row)) == 201


def test_folds_of_a_coarse_classifier_judge_as_those_of_scikit_learn_do():
    """With all mistakes at one score held out together, the loss of an isotonic map was half as large again."""
    p, y = coarse_rows()
    folds = stratified_folds(5, LabelledPredictions.parse(p, y))
    ours = held_out_loss(p, y, [(fold.train_rows, fold.test_rows) for fold in folds])
    theirs = [
        held_out_loss(p, y, StratifiedKFold(5, shuffle=True, random_state=seed).split(p, y))
        for seed in range(3)
    ]
    assert abs(ours - np.mean(theirs)) < 0.01
