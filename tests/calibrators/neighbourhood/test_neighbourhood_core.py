"""What neighbourhood methods share: crops, points, distances, sizes to choose from, guards, folds, judged rows."""

import pickle
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import clone
from sklearn.model_selection import KFold

from calibrant import NearestNeighbourCalibration, registry
from calibrant.calibrators.neighbourhood import neighbourhood, points
from calibrant.calibrators.neighbourhood.held_out_losses import (
    PointLosses,
    better_floor,
    point_folds,
    uncalibrated_losses,
)
from calibrant.calibrators.neighbourhood.neighbourhood import candidate_sizes
from calibrant.calibrators.neighbourhood.points import (
    KullbackLeibler,
    Points,
    SquaredEuclidean,
    check_crop,
    cropped,
    rows_in_a_block,
    settled_epsilon,
)
from calibrant.errors import CalibrationWarning, ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.row_blocks import even_blocks
from strategies import probability_matrices, problems

MATRICES = hnp.arrays(np.float64, (4, 3), elements=st.floats(-1, 2))


def some_rows(n_rows, n_classes=3, seed=0):
    generator = np.random.default_rng([seed, n_rows])
    probabilities = generator.dirichlet(np.full(n_classes, 0.7), n_rows)
    labels = (probabilities.cumsum(axis=1) ** 2 < generator.uniform(size=(n_rows, 1))).sum(axis=1)
    return probabilities, labels.clip(max=n_classes - 1)


# Crops


@settings(max_examples=30)
@given(scores=MATRICES, crop=st.sampled_from(["clip", "outside"]), epsilon=st.sampled_from([1e-4, 0.05]))
def test_cropping_is_the_loop_of_the_algorithm(scores, crop, epsilon):
    expected = []
    for row in scores:
        inside = []
        for entry in row:
            low, high = (epsilon, 1 - epsilon) if crop == "clip" else (0, 1)
            inside.append(epsilon if entry < low else 1 - epsilon if entry > high else entry)
        total = sum(inside)
        if total == 0:  # corrected rows sum to one, so they never come to this
            return
        expected.append([entry / total for entry in inside])
    if expected:
        np.testing.assert_allclose(cropped(scores, crop, epsilon), expected, rtol=1e-14)


def test_the_milder_crop_leaves_small_entries_alone():
    scores = np.array([[0.99999, 0.00001, 0.0]])
    np.testing.assert_array_equal(cropped(scores, "outside", 1e-4), scores)
    assert cropped(scores, "clip", 1e-4).min() == pytest.approx(1e-4 / (1 - 1e-4 + 2e-4))


def test_cropping_does_not_change_its_input():
    scores = np.array([[1.5, -0.5]])
    cropped(scores, "clip", 0.01)
    np.testing.assert_array_equal(scores, [[1.5, -0.5]])


def test_epsilon_of_the_literature_and_between():
    """1e-4 for ten classes, 1e-6 for a hundred, and the power law through both."""
    assert settled_epsilon("auto", 2) == settled_epsilon("auto", 10) == 1e-4
    assert settled_epsilon("auto", 100) == pytest.approx(1e-6)
    assert settled_epsilon("auto", 1000) == pytest.approx(1e-8)
    assert settled_epsilon(0.02, 100) == 0.02


@pytest.mark.parametrize("epsilon", [0, 0.5, -1e-4, "small", None, np.nan, True])
def test_bad_epsilons_are_refused(epsilon):
    with pytest.raises(ParameterError, match="epsilon must be 'auto' or lie strictly between 0 and"):
        check_crop("clip", epsilon)


def test_an_unknown_crop_is_refused():
    with pytest.raises(ParameterError, match="crop must be 'clip' or 'outside', not 'fold'"):
        check_crop("fold", 1e-4)


# Points


@settings(max_examples=30)
@given(problem=problems(), weights=st.sampled_from([None, [1.0, 2.0, 0.5]]))
def test_points_are_the_groups_of_equal_rows(problem, weights):
    X, y = problem
    sample_weight = None if weights is None else np.resize(weights, len(y))
    points = Points.of(LabelledPredictions.parse(X, y, sample_weight))
    of_rows = np.ones(len(y)) if sample_weight is None else sample_weight
    assert points.n_points == len(np.unique(X, axis=0))
    for point, error, weight, label in zip(
        points.probabilities, points.errors, points.weights, points.labels(), strict=True
    ):
        same = (point == X).all(axis=1)
        assert weight == pytest.approx(of_rows[same].sum())
        mean = np.average(np.eye(X.shape[1])[y[same]], axis=0, weights=of_rows[same])
        np.testing.assert_allclose(error, point - mean, atol=1e-6)
        np.testing.assert_allclose(label, mean, atol=1e-6)


def test_points_do_not_depend_on_the_order_of_rows():
    X, y = some_rows(50)
    X[25:] = X[:25]
    order = np.random.default_rng(1).permutation(50)
    first, second = (Points.of(LabelledPredictions.parse(X[o], y[o])) for o in (np.arange(50), order))
    np.testing.assert_array_equal(first.probabilities, second.probabilities)
    np.testing.assert_array_equal(first.errors, second.errors)
    np.testing.assert_array_equal(first.weights, second.weights)


# Distances


@settings(max_examples=30)
@given(rows=probability_matrices(3, 4), points=probability_matrices(5, 4))
def test_distances_are_those_of_a_loop(rows, points):
    rows, points = rows.astype(np.float64), points.astype(np.float64)
    euclidean, divergence = SquaredEuclidean(points).of(rows), KullbackLeibler(points).of(rows)
    order = KullbackLeibler(points).ordering(rows)
    for i, row in enumerate(rows):
        for j, point in enumerate(points):
            assert euclidean[i, j] == pytest.approx(sum((row - point) ** 2), abs=1e-14)
            terms = [
                0 if a == 0 else np.inf if b == 0 else a * (np.log(a) - np.log(b))
                for a, b in zip(row, point, strict=True)
            ]
            assert order[i, j] == pytest.approx(sum(terms), abs=1e-13)
            assert divergence[i, j] == max(order[i, j], 0)


def test_the_distance_of_equal_rows_is_zero():
    points, _ = some_rows(200, 10)
    np.testing.assert_array_equal(np.diag(SquaredEuclidean(points).of(points)), 0)
    assert np.diag(KullbackLeibler(points).of(points)).max() < 1e-14


def test_rows_whose_sums_are_rounded_keep_the_order_of_the_formula():
    """Rows in float32 sum to one up to rounding: a divergence below zero counts as zero, but still orders points."""
    row, point = np.array([[0.5, 0.5]]), np.array([[0.5, 0.5 + 1e-7]])
    assert KullbackLeibler(point).ordering(row)[0, 0] == pytest.approx(-1e-7, rel=1e-4)
    assert KullbackLeibler(point).of(row)[0, 0] == 0


def test_blocks_hold_about_a_million_distances():
    assert rows_in_a_block(1) == 2**20
    assert rows_in_a_block(5000) == 209
    assert rows_in_a_block(10**9) == 4


@settings(max_examples=40)
@given(n_rows=st.integers(0, 300), block_rows=st.integers(1, 50))
def test_blocks_cover_all_rows_once(n_rows, block_rows):
    blocks = even_blocks(n_rows, block_rows, 2)
    assert sum(block.stop - block.start for block in blocks) == n_rows
    assert all(0 < block.stop - block.start <= block_rows for block in blocks)
    assert all(first.stop == second.start for first, second in pairwise(blocks))


# Sizes


def test_sizes_are_sorted_and_different():
    def accept(size):
        assert size > 0

    assert candidate_sizes("n_neighbours", np.array([64, 32, 64]), [1], accept) == [32, 64]
    assert candidate_sizes("n_neighbours", (3,), [1], accept) == [3]
    assert candidate_sizes("n_neighbours", 7, [1], accept) == [7]
    assert type(candidate_sizes("n_neighbours", np.array([64, 32]), [1], accept)[0]) is int


# Guards


def test_a_map_that_does_harm_on_its_own_rows_is_not_used():
    """Two groups of rows, both calibrated exactly as groups; the mean label of all of them is far worse than doing nothing."""
    X = [[0.9, 0.1]] * 10 + [[0.1, 0.9]] * 10
    y = [0] * 9 + [1] + [1] * 9 + [0]
    calibrator = NearestNeighbourCalibration(n_neighbours=20, assumption="equal-labels")
    with pytest.warns(CalibrationWarning, match="the identity is at least as good on the calibration rows"):
        calibrator.fit(X, y)
    assert calibrator.identity_kept_
    np.testing.assert_array_equal(calibrator.predict_proba([[0.7, 0.3]]), [[0.7, 0.3]])


def test_a_choice_that_does_harm_on_rows_held_out_is_not_used():
    """Every row comes with all its labels in the predicted proportions: neighbours can only add noise."""
    counts = np.array([row for row in np.ndindex(9, 9, 9) if sum(row) == 8 and min(row) > 0])
    X = np.repeat(counts / 8, 8, axis=0)
    y = np.concatenate([np.repeat(np.arange(3), row) for row in counts])
    calibrator = NearestNeighbourCalibration()
    with pytest.warns(
        CalibrationWarning,
        match=r"no size has a significant held-out gain: .* the uncalibrated predictions .* the identity is kept",
    ):
        calibrator.fit(X, y)
    assert calibrator.identity_kept_
    np.testing.assert_array_equal(calibrator.predict_proba(X), X)


def test_the_identity_gives_out_predictions_as_they_came_but_for_zeros():
    """All right already: whatever is taken from the ones does harm, and a zero stays as small as it may be."""
    X = np.array([[1.0, 0.0]] * 10 + [[0.0, 1.0]] * 10)
    calibrator = NearestNeighbourCalibration("euclidean", 20, assumption="equal-labels")
    with pytest.warns(CalibrationWarning, match="n_neighbours=20: the identity is at least as good"):
        calibrator.fit(X, [0] * 10 + [1] * 10)
    assert calibrator.floor_of_zeros_ == calibrator.epsilon_ == 1e-4
    np.testing.assert_allclose(calibrator.predict_proba(X), np.abs(X - 1e-4 / (1 + 1e-4)), rtol=1e-9)
    tiny = [[1 - 1e-9, 1e-9]]
    np.testing.assert_array_equal(calibrator.predict_proba(tiny), tiny)


def test_zeros_that_are_often_refuted_count_as_the_floor():
    data = LabelledPredictions.parse([[1.0, 0.0]] * 10 + [[0.5, 0.5]], [0] * 7 + [1, 1, 1, 1])
    points = Points.of(data)
    assert better_floor(points, 0.25, 1e-4) == 0.25
    rare = LabelledPredictions.parse([[1.0, 0.0]] * 10 + [[0.5, 0.5]], [0] * 10 + [1])
    assert better_floor(Points.of(rare), 0.25, 1e-4) == 1e-4


def test_without_guard_a_correction_is_made_all_the_same():
    X = [[0.9, 0.1]] * 10 + [[0.1, 0.9]] * 10
    y = [0] * 9 + [1] + [1] * 9 + [0]
    free = NearestNeighbourCalibration(n_neighbours=20, assumption="equal-labels", guard=False).fit(X, y)
    assert not free.identity_kept_
    np.testing.assert_allclose(free.predict_proba([[0.7, 0.3]]), [[0.5, 0.5]])


def test_zeros_are_read_in_the_way_that_is_better_for_doing_nothing():
    """Ten sure rows, all right, and one unsure: a floor of 1/4 makes the sure ones unsure, a crop leaves them sure."""
    data = LabelledPredictions.parse([[1.0, 0.0]] * 10 + [[0.5, 0.5]], [0] * 10 + [1])
    assert data.predictions.floor == 0.25
    losses = uncalibrated_losses(Points.of(data), data.predictions.floor, "clip", 1e-4)
    assert losses.mean_log == pytest.approx((10 * -np.log(1 - 1e-4) + np.log(2)) / 11, rel=1e-9)


def test_a_refuted_zero_counts_as_the_floor_if_that_is_better():
    """One of ten sure rows is wrong, which costs log(5) with the floor, and log(1e4) cropped."""
    data = LabelledPredictions.parse([[1.0, 0.0]] * 10 + [[0.5, 0.5]], [0] * 9 + [1, 1])
    losses = uncalibrated_losses(Points.of(data), data.predictions.floor, "clip", 1e-4)
    assert losses.mean_log == pytest.approx((9 * -np.log(0.8) + np.log(5) + np.log(2)) / 11, rel=1e-9)


def test_losses_of_points_are_those_of_their_rows():
    X, y = some_rows(60)
    rows = np.repeat(np.arange(30), 2)
    data = LabelledPredictions.parse(X[rows], y)
    points = Points.of(data)
    losses = PointLosses.of(points.labels(), points.weights, points.probabilities)
    assert losses.mean_log == pytest.approx(data.log_loss(), rel=1e-12)
    assert np.average(losses.brier, weights=losses.weights) == pytest.approx(data.squared_error(), rel=1e-12)


def test_a_gain_is_measured_with_points_as_units():
    """Two rows said twice each tell no more about the error than said once."""
    X = np.array([[0.9, 0.1], [0.4, 0.6]])
    flat = np.full((2, 2), 0.5)
    once, twice = (
        PointLosses.of(np.array([[1.0, 0.0]] * 2), np.full(2, weight), flat).excess(
            PointLosses.of(np.array([[1.0, 0.0]] * 2), np.full(2, weight), X)
        )
        for weight in (1.0, 2.0)
    )
    assert once == twice
    gains = np.log(2) + np.log([0.9, 0.4])
    assert once[0] == pytest.approx((gains.mean(), abs(gains[0] - gains[1]) / 2))


def test_the_two_assumptions_differ():
    X, y = some_rows(200)
    by_errors = NearestNeighbourCalibration(n_neighbours=40).fit(X, y)
    by_labels = NearestNeighbourCalibration(n_neighbours=40, assumption="equal-labels").fit(X, y)
    assert np.abs(by_errors.predict_proba(X) - by_labels.predict_proba(X)).max() > 0.02


def test_an_unknown_assumption_is_refused():
    with pytest.raises(ParameterError, match="assumption must be 'equal-errors' or 'equal-labels'"):
        NearestNeighbourCalibration(assumption="none").fit([[0.9, 0.1], [0.2, 0.8]], [0, 1])


# Folds


def test_folds_as_a_splitter_and_as_its_splits_are_the_same():
    X, y = some_rows(300)
    splitter = KFold(5, shuffle=True, random_state=0)
    by_splitter = NearestNeighbourCalibration(cv=splitter).fit(X, y)
    by_splits = NearestNeighbourCalibration(cv=list(splitter.split(X))).fit(X, y)
    by_number = NearestNeighbourCalibration(cv=5).fit(X, y)
    np.testing.assert_array_equal(by_splitter.search_["loss"], by_splits.search_["loss"])
    assert (by_number.search_["loss"] != by_splits.search_["loss"]).all()
    np.testing.assert_allclose(by_number.search_["loss"], by_splits.search_["loss"], atol=0.05)


@pytest.mark.parametrize("cv", [1, 0, -3, "ten", True, None])
def test_fewer_than_two_folds_are_refused(cv):
    X, y = some_rows(50)
    with pytest.raises(ParameterError, match="cv must be a whole number of at least 2"):
        NearestNeighbourCalibration(cv=cv).fit(X, y)


def test_a_single_size_needs_no_folds():
    X, y = some_rows(100)
    assert NearestNeighbourCalibration(n_neighbours=[30]).fit(X, y).search_ == {}


def test_no_row_is_judged_by_a_copy_of_itself():
    """Labels are noise: whoever finds a copy of a row among its nearest neighbours knows its label."""
    generator = np.random.default_rng(0)
    X = generator.dirichlet([2.0, 2.0, 2.0], 300)
    y = np.array([generator.choice(3, p=row) for row in X])
    weights = generator.integers(1, 4, 300).astype(float)
    copies = np.repeat(np.arange(300), weights.astype(int))
    for rows in [(X, y, weights), (X[copies], y[copies])]:
        method = NearestNeighbourCalibration(n_neighbours=[2, 8, 64], guard=False).fit(*rows)
        assert method.search_["excess"][0] > 0.1  # two neighbours, mostly copies if they were there
        assert method.n_neighbours_ == 64


@pytest.mark.parametrize("name", ["knn-kl", "knn-euclidean", "kernel-dirichlet", "kernel-rbf"])
def test_a_choice_takes_a_weight_of_two_for_a_row_given_twice(name):
    X, y = some_rows(150)
    weights = np.where(np.arange(150) % 3 == 0, 2.0, 1.0)
    copies = np.repeat(np.arange(150), weights.astype(int))
    weighted = registry.make(name, guard=False).fit(X, y, weights)
    repeated = registry.make(name, guard=False).fit(X[copies], y[copies])
    for column, values in weighted.search_.items():
        np.testing.assert_allclose(repeated.search_[column], values, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-12)


def test_folds_of_points_hold_each_point_out_once_and_do_not_depend_on_the_order_of_classes():
    X, y = some_rows(90)
    data = LabelledPredictions.parse(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    turned = LabelledPredictions.parse(np.repeat(X[:, ::-1], 2, axis=0), 2 - np.repeat(y, 2))
    folds, others = (point_folds(Points.of(rows), rows, 7) for rows in (data, turned))
    tested = np.vstack([fold.test().probabilities for fold in folds])
    assert len(np.unique(tested, axis=0)) == len(tested) == 90
    for fold, other in zip(folds, others, strict=True):
        train, test = fold.train(), fold.test()
        assert train.n_points + test.n_points == 90
        assert train.weights.sum() == fold.train_weight
        np.testing.assert_allclose(
            np.sort(test.probabilities[:, 0]), np.sort(other.test().probabilities[:, 2])
        )


def test_a_choice_by_folds_holds_one_fold_in_memory(monkeypatch):
    """All ten folds at once are 20 matrices of the shape of the input, predictions and errors, before anything is done."""
    X, y = some_rows(30_000, 10)
    monkeypatch.setattr(points, "BLOCK_ENTRIES", 2**16)
    monkeypatch.setattr(neighbourhood, "MOST_JUDGED", 100)
    calibrator = NearestNeighbourCalibration(n_neighbours=[4, 8], guard=False)
    tracemalloc.start()
    try:
        calibrator.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * X.nbytes


def test_a_single_prediction_cannot_be_chosen_by():
    with pytest.warns(CalibrationWarning, match="all calibration rows have the same prediction"):
        fitted = NearestNeighbourCalibration().fit([[0.6, 0.4]] * 8, [0, 1] * 4)
    np.testing.assert_array_equal(fitted.predict_proba([[0.6, 0.4]]), [[0.6, 0.4]])


# Judged points


def test_no_more_points_are_judged_than_needed(monkeypatch):
    """The losses are then those of the judged points, but all others are neighbours all the same."""
    X, y = some_rows(1000)
    every = NearestNeighbourCalibration(guard=False).fit(X, y)
    monkeypatch.setattr(neighbourhood, "MOST_JUDGED", 400)
    some = NearestNeighbourCalibration(guard=False).fit(X, y)
    assert (some.search_["loss"] != every.search_["loss"]).all()
    np.testing.assert_allclose(some.search_["loss"], every.search_["loss"], atol=0.08)
    np.testing.assert_array_equal(some.point_weights_, every.point_weights_)


def test_judged_points_depend_neither_on_the_order_of_rows_nor_on_how_they_are_repeated(monkeypatch):
    X, y = some_rows(500)
    weights = np.random.default_rng(1).integers(1, 4, 500).astype(float)
    copies = np.random.default_rng(2).permutation(np.repeat(np.arange(500), weights.astype(int)))
    monkeypatch.setattr(neighbourhood, "MOST_JUDGED", 100)
    method = NearestNeighbourCalibration(n_neighbours=[20, 80], guard=False)
    losses = clone(method).fit(X, y, weights).search_["loss"]
    np.testing.assert_allclose(clone(method).fit(X[copies], y[copies]).search_["loss"], losses, rtol=1e-9)


def test_every_fold_judges_something(monkeypatch):
    X, y = some_rows(200)
    monkeypatch.setattr(neighbourhood, "MOST_JUDGED", 20)
    fitted = NearestNeighbourCalibration(n_neighbours=[50, 100], cv=100, guard=False).fit(X, y)
    assert np.isfinite(fitted.search_["loss"]).all()


# What is made once


def test_neighbourhoods_are_made_once_for_every_fit(monkeypatch):
    X, y = some_rows(200)
    made = []
    make = NearestNeighbourCalibration._fitted_means
    monkeypatch.setattr(
        NearestNeighbourCalibration, "_fitted_means", lambda self, size: made.append(size) or make(self, size)
    )
    fitted = NearestNeighbourCalibration(n_neighbours=50).fit(X, y)
    first = fitted.predict_proba(X)
    fitted.predict_proba(X[:1])
    assert made == [50]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict_proba(X), first)
    assert (fitted.fit(X[::2], y[::2]).predict_proba(X) != first).any()
    assert len(made) == 3
