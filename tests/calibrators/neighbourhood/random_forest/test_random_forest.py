"""Random calibration forest: plain loops, closed forms, the choice of the number of bins, and limits on memory."""

import tracemalloc
import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from sklearn.model_selection import KFold

import calibrant
from calibrant import Predictions, RandomCalibrationForest
from calibrant.calibrators.neighbourhood import random_forest as tree_means
from calibrant.calibrators.neighbourhood.random_forest.trees import LeafSums
from calibrant.errors import CalibrationWarning, ParameterError
from calibrant.numerics import row_blocks


@cache
def some_rows(n_rows=300, n_classes=3, seed=0):
    """Return over-confident predictions, of which some are equal, and labels."""
    generator = np.random.default_rng(seed)
    honest = generator.dirichlet(np.full(n_classes, 0.8), n_rows)
    honest[: n_rows // 10] = honest[0]
    labels = (honest.cumsum(axis=1) < generator.random((n_rows, 1))).sum(axis=1).clip(max=n_classes - 1)
    sharp = honest**1.8
    sharp /= sharp.sum(axis=1, keepdims=True)
    return sharp, labels


def naive_forest(fitted, calibration, labels, weights, rows):
    """Route every row through every tree by hand and average over the calibration rows that end in the same leaf."""
    n_classes = calibration.shape[1]
    errors = calibration - np.eye(n_classes)[labels]
    targets = errors if fitted.assumption == "equal-errors" else np.eye(n_classes)[labels]
    starts = np.cumsum(fitted.n_splits_) - fitted.n_splits_

    def leaf(row, tree):
        split = 0 if fitted.n_splits_[tree] else -1
        while split >= 0:
            place = starts[tree] + split
            right = row[fitted.split_classes_[place]] >= fitted.thresholds_[place]
            split = int(fitted.children_[place][int(right)])
        return split

    result = []
    for row in rows:
        mean = np.zeros(n_classes)
        for tree in range(fitted.n_trees):
            own = leaf(row, tree)
            same = [i for i in range(len(labels)) if leaf(calibration[i], tree) == own]
            mean += sum(weights[i] * targets[i] for i in same) / sum(weights[i] for i in same)
        mean /= fitted.n_trees
        moved = row - mean if fitted.assumption == "equal-errors" else mean
        epsilon = fitted.epsilon_
        if fitted.crop == "clip":
            moved = np.clip(moved, epsilon, 1 - epsilon)
        else:
            moved = np.array([epsilon if q < 0 else 1 - epsilon if q > 1 else q for q in moved])
        result.append(moved / moved.sum())
    return np.array(result)


@pytest.mark.parametrize("growth", ["bins", "depth"])
@pytest.mark.parametrize(
    ("assumption", "crop"), [("equal-errors", "clip"), ("equal-errors", "outside"), ("equal-labels", "clip")]
)
def test_the_forest_is_that_of_plain_loops(growth, assumption, crop):
    calibration, labels = some_rows(60)
    weights = np.random.default_rng(5).uniform(1, 3, 60)
    rows = some_rows(40, seed=9)[0]
    options = {"growth": growth, "assumption": assumption, "crop": crop, "epsilon": 0.01, "guard": False}
    fitted = RandomCalibrationForest(6, 16, **options).fit(calibration, labels, weights)
    expected = naive_forest(fitted, calibration, labels, weights, rows)
    np.testing.assert_allclose(fitted.predict_proba(rows), expected, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(fitted.predict_proba(rows[:1]), expected[:1], rtol=1e-11, atol=1e-13)


def test_many_rows_in_few_bins_are_kept_as_sums():
    """Four bins of three sums each take less memory than the bins of 2,000 rows."""
    calibration, labels = some_rows(2000, 2)
    fitted = RandomCalibrationForest(8, 4).fit(calibration, labels)
    assert fitted.bins_ is None
    assert fitted.bin_sums_.shape == (8 * 4, 3)
    expected = naive_forest(fitted, calibration, labels, np.ones(2000), calibration[:3])
    np.testing.assert_allclose(fitted.predict_proba(calibration[:3]), expected, rtol=1e-11)


def test_blocks_of_trees_and_of_rows_do_not_matter(monkeypatch):
    calibration, labels = some_rows()
    whole = RandomCalibrationForest(20, [4, 32], cv=3).fit(calibration, labels)
    for name, size in {"PAIRS_GROWN": 900, "PAIRS_ROUTED": 700, "SUMS": 100, "BLOCK_ENTRIES": 33}.items():
        monkeypatch.setattr(tree_means, name, size)
    pieces = RandomCalibrationForest(20, [4, 32], cv=3).fit(calibration, labels)
    np.testing.assert_array_equal(pieces.thresholds_, whole.thresholds_)
    np.testing.assert_allclose(pieces.search_["loss"], whole.search_["loss"], rtol=1e-12)
    np.testing.assert_allclose(
        pieces.predict_proba(calibration), whole.predict_proba(calibration), rtol=1e-11
    )


def test_one_bin_moves_all_rows_alike():
    """The second class gets 0.5 on average and is right in three of four rows, an error of -0.25."""
    fitted = RandomCalibrationForest(3, 1).fit([[0.1, 0.9]] * 2 + [[0.9, 0.1]] * 2, [1, 1, 0, 1])
    np.testing.assert_allclose(fitted.predict_proba([[0.6, 0.4]]), [[0.6 - 0.25, 0.4 + 0.25]], rtol=1e-12)


def test_as_many_bins_as_predictions_give_the_frequencies():
    """Each of three predictions is a bin: its labels' frequencies, none of which is outside [epsilon, 1 - epsilon]."""
    p = [[0.9, 0.1]] * 4 + [[0.5, 0.5]] * 4 + [[0.2, 0.8]] * 4
    y = [0, 0, 0, 1, 0, 1, 1, 1, 0, 0, 1, 1]
    fitted = RandomCalibrationForest(10, 64).fit(p, y)
    np.testing.assert_array_equal(fitted.n_splits_, 2)
    np.testing.assert_allclose(fitted.predict_proba(p[::4])[:, 0], [0.75, 0.25, 0.5], rtol=1e-12)


def test_between_two_predictions_the_share_of_trees_decides():
    """Predictions 0.2 and 0.8 with errors of 0.2 - 0.5 and 0.8 - 0.5; a threshold uniform between them is below 0.35 in
    a quarter of the trees, whose rows at 0.35 then go with 0.8: 0.35 + 0.3 * 3/4 - 0.3 * 1/4 = 0.5 on average.
    """
    p = [0.2, 0.2, 0.8, 0.8]
    fitted = RandomCalibrationForest(4000, 2).fit(p, [0, 1, 0, 1])
    assert fitted.predict_proba([0.35])[0, 1] == pytest.approx(0.5, abs=4 * 0.6 * np.sqrt(3 / 16 / 4000))


def test_bins_of_a_few_rows_are_left_out_where_larger_ones_are_clearly_worse():
    """A list of all numbers shows that they would have been worse still, and leads to the same choice."""
    generator = np.random.default_rng(1)
    p = generator.random(800)
    labels = (generator.random(800) < p).astype(int)
    options = {"n_trees": 10, "cv": 4, "guard": False}
    automatic = RandomCalibrationForest(**options).fit(p, labels)
    complete = RandomCalibrationForest(n_bins=[2**power for power in range(1, 13)], **options).fit(p, labels)
    n_tried = len(automatic.search_["n_bins"])
    assert automatic.search_["n_bins"].tolist() == [2, 4, 8, 16, 32, 64, 128]
    np.testing.assert_allclose(automatic.search_["loss"], complete.search_["loss"][:n_tried], rtol=1e-12)
    assert complete.search_["loss"][n_tried:].min() > automatic.search_["loss"].max()
    assert automatic.n_bins_ == complete.n_bins_


@pytest.mark.parametrize("growth", ["bins", "depth"])
def test_all_numbers_of_bins_are_judged_as_if_each_were_alone(growth):
    calibration, labels = some_rows(150)
    splits = list(KFold(3).split(calibration))
    sizes = [2, 8, 32]
    chosen = RandomCalibrationForest(15, sizes, growth=growth, cv=splits, guard=False)
    chosen.fit(calibration, labels)
    for size, loss in zip(sizes, chosen.search_["loss"], strict=True):
        losses = []
        for train, test in splits:
            fitted = RandomCalibrationForest(15, size, growth=growth, guard=False).fit(
                calibration[train], labels[train]
            )
            hit = fitted.predict_proba(calibration[test])[np.arange(len(test)), labels[test]]
            losses.extend(-np.log(hit))
        assert loss == pytest.approx(np.mean(losses), rel=1e-10)


def test_a_weight_of_two_is_a_repeated_row_to_the_last_digit_of_the_trees():
    calibration, labels = some_rows(100)
    weighted = RandomCalibrationForest(10, 32).fit(calibration, labels, np.where(np.arange(100) < 50, 2, 1))
    repeated = RandomCalibrationForest(10, 32).fit(
        np.vstack([calibration, calibration[:50]]), np.append(labels, labels[:50])
    )
    np.testing.assert_array_equal(weighted.thresholds_, repeated.thresholds_)
    np.testing.assert_array_equal(weighted.bins_, repeated.bins_)


def test_a_larger_forest_begins_with_the_trees_of_a_smaller_one():
    calibration, labels = some_rows(100)
    few, many = (RandomCalibrationForest(n, 16).fit(calibration, labels) for n in (4, 9))
    np.testing.assert_array_equal(many.thresholds_[: len(few.thresholds_)], few.thresholds_)
    other = RandomCalibrationForest(4, 16, random_state=1).fit(calibration, labels)
    assert not np.isin(other.thresholds_, few.thresholds_).any()


def test_more_trees_depend_less_on_the_seed():
    calibration, labels = some_rows()

    def spread(n_trees):
        maps = [
            RandomCalibrationForest(n_trees, 16, random_state=seed)
            .fit(calibration, labels)
            .predict_proba(calibration)
            for seed in range(5)
        ]
        return np.std(maps, axis=0).mean()

    assert spread(64) < spread(4) / 2  # a quarter, by the square root of sixteen


def test_a_generator_and_no_seed_at_all_give_different_forests_each_time():
    calibration, labels = some_rows(80)
    generator = np.random.default_rng(0)
    for source in (generator, None):
        first, second = (
            RandomCalibrationForest(3, 8, random_state=source).fit(calibration, labels).thresholds_
            for _ in range(2)
        )
        assert not np.array_equal(first, second)


def test_saved_forests_are_small(tmp_path):
    """Twenty trees of 255 splits with 8 + 1 + 2 * 2 bytes each, and the bins of 2,000 rows in one byte each.

    The graph has the splits again, and ten means of 8 bytes for each of 256 bins.
    """
    calibration, labels = some_rows(2000, 10)
    fitted = RandomCalibrationForest(20, 256).fit(calibration, labels)
    fitted.save(tmp_path / "forest.npz")
    points = 2 * fitted.points_.nbytes + fitted.point_weights_.nbytes
    splits = 20 * 255 * (8 + 1 + 2 * 2)
    trees, graph = splits + 20 * 2000, splits + 20 * 256 * 10 * 8
    assert (tmp_path / "forest.npz").stat().st_size < points + trees + graph + 20_000
    loaded = calibrant.load(tmp_path / "forest.npz")
    np.testing.assert_array_equal(loaded.predict_proba(calibration), fitted.predict_proba(calibration))


def test_rows_beyond_all_calibration_rows_are_corrected_as_those_at_the_edge():
    """Calibration rows from 0.3 to 0.7 whose frequency is 0.1 lower: so far out, all trees give the same correction."""
    p = np.tile(np.linspace(0.3, 0.7, 9), 10)
    frequency = p - 0.1
    y = (np.repeat(np.arange(10), 9) < 10 * frequency - 1e-9).astype(int)
    fitted = RandomCalibrationForest(30, 4).fit(p, y)
    far, edge = fitted.predict_proba([0.99, 0.7])[:, 1]
    assert far - edge == pytest.approx(0.29, abs=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_rows_of_many_classes_with_exact_zeros(dtype):
    """Almost all classes are constant in almost all nodes; those that are not must be found."""
    generator = np.random.default_rng(0)
    rows = np.zeros((200, 300), dtype=dtype)
    for row in rows:
        row[generator.choice(300, 2, replace=False)] = [0.75, 0.25]
    labels = np.where(generator.random(200) < 0.6, rows.argmax(axis=1), rows.argsort(axis=1)[:, -2])
    labels[:100] = np.minimum(labels[:100], 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = RandomCalibrationForest(10, 64).fit(rows, labels)
    assert (fitted.n_splits_ == 63).all()
    assert np.isfinite(np.log(fitted.predict_proba(rows))).all()


def test_sure_rows_that_are_all_right_do_no_harm():
    fitted = RandomCalibrationForest(10, 8).fit([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]], [0, 1, 0])
    calibrated = fitted.predict_proba([[0.9, 0.1], [0.5, 0.5]])
    assert np.isfinite(np.log(calibrated)).all()
    assert calibrated[0, 0] > 0.9


def test_harm_is_undone_with_a_warning():
    """The mean error of 450 rows of 0.05, of which 0.04 are right, and 40 of 0.5, of which 0.9 are, is -0.023.

    With one bin all are raised by that much. It helps the few by 0.035 nats each and costs the many 0.008.
    """
    p, y = [0.05] * 450 + [0.5] * 40, [1] * 18 + [0] * 432 + [1] * 36 + [0] * 4
    with pytest.warns(CalibrationWarning, match="identity is at least as good"):
        fitted = RandomCalibrationForest(5, 1).fit(p, y)
    assert fitted.identity_kept_
    np.testing.assert_array_equal(fitted.predict_proba([[0.3, 0.7]]), [[0.3, 0.7]])


def test_weights_are_repeated_rows_also_where_folds_choose():
    """The same 200 rows with a weight of three, and three times: equal folds, choice and trees, and losses up to rounding."""
    calibration, labels = some_rows(200)
    weighted = RandomCalibrationForest(5).fit(calibration, labels, np.full(200, 3))
    repeated = RandomCalibrationForest(5).fit(np.tile(calibration, (3, 1)), np.tile(labels, 3))
    assert weighted.n_bins_ == repeated.n_bins_
    for name, found in weighted.search_.items():
        np.testing.assert_allclose(found, repeated.search_[name], rtol=1e-12)
    np.testing.assert_array_equal(weighted.thresholds_, repeated.thresholds_)
    np.testing.assert_allclose(
        weighted.predict_proba(calibration), repeated.predict_proba(calibration), rtol=1e-12
    )


def test_all_parameters_may_be_given_by_position():
    forest = RandomCalibrationForest(5, 16, "depth", "equal-labels", "outside", 0.01, 3)
    assert forest.get_params()["growth"] == "depth"
    assert forest.get_params()["cv"] == 3


def some_means(n_bins=64, growth="bins", n_trees=20):
    calibration, labels = some_rows()
    points = np.unique(calibration, axis=0)
    targets = points - np.eye(3)[labels[: len(points)]]
    return tree_means.grown_means(points, targets, np.ones(len(points)), range(n_trees), n_bins, growth)


@pytest.mark.parametrize("growth", ["bins", "depth"])
def test_numbers_of_bins_may_come_in_any_order_or_alone(growth):
    """Of trees grown to 64 bins, the means for 8 are those of trees grown to 8, whatever else is asked for."""
    rows = some_rows(40, seed=9)[0]
    means = some_means(64, growth)
    alone = {size: next(some_means(size, growth).means(rows, [size])) for size in (2, 8, 64)}
    for sizes in ([8], [64, 2, 8], [8, 8, 2], [64, 64], [8.0, 64.0]):
        found = list(means.means(rows, sizes))
        assert len(found) == len(sizes)
        for size, mean in zip(sizes, found, strict=True):
            np.testing.assert_allclose(mean, alone[size], rtol=1e-11, atol=1e-14)
    for few in ([8, 64], [64, 64]):  # few enough to look into their own bins alone, where that can be
        for size, mean in zip(few, means.means(rows[:1], few), strict=True):
            np.testing.assert_allclose(mean, alone[size][:1], rtol=1e-11, atol=1e-14)


def test_numbers_of_bins_the_trees_do_not_have_are_refused():
    rows = some_rows(5)[0]
    means = some_means(64)
    with pytest.raises(ValueError, match="sizes must be from 1 to 64 for these trees, not 65"):
        list(means.means(rows, [2, 65]))
    whole = replace(means, trees=replace(means.trees, stages=None))
    np.testing.assert_allclose(next(whole.means(rows, [64])), next(means.means(rows, [64])), rtol=1e-12)
    with pytest.raises(ValueError, match="sizes must be from 64 to 64 for these trees, not 8"):
        list(whole.means(rows, [8]))


@pytest.mark.parametrize("n_bins", [4, 64])
def test_means_do_not_depend_on_the_number_of_threads(n_bins, monkeypatch):
    """Bit for bit; each piece of work counts as large enough for threads."""
    monkeypatch.setattr(row_blocks, "NUMBERS_PER_PIECE", 1)
    rows = some_rows(50, seed=9)[0]
    found = []
    for n_threads in ("1", "2", "3"):
        monkeypatch.setenv("CALIBRANT_NUM_THREADS", n_threads)
        found.append(np.array(list(some_means(n_bins).means(rows, [2, 3, n_bins]))))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_sums_of_a_tree_are_made_once_for_all_rows(monkeypatch):
    """Threads share out trees and not rows, so that no tree is summed twice, however many threads there are."""
    monkeypatch.setattr(row_blocks, "NUMBERS_PER_PIECE", 1)
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", "3")
    calibration, labels = some_rows()
    fitted = RandomCalibrationForest(20, 64, guard=False).fit(calibration, labels)
    summed = []
    between = LeafSums.between
    monkeypatch.setattr(
        LeafSums, "between", lambda self, *edges: summed.extend(range(*edges)) or between(self, *edges)
    )
    fitted.predict_proba(calibration)
    assert sorted(summed) == list(range(20))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_trees": 0}, "n_trees must be an integer of at least 1"),
        ({"n_bins": 0}, "n_bins must be an integer of at least 1"),
        ({"n_bins": 2.5}, "n_bins must be an integer of at least 1"),
        ({"n_bins": "many"}, "n_bins must be a number, a list of numbers or 'auto'"),
        ({"n_bins": 24, "growth": "depth"}, "n_bins must be a power of two for growth='depth', not 24"),
        ({"growth": "wild"}, "growth must be 'bins' or 'depth'"),
        ({"random_state": "seed"}, "random_state"),
    ],
)
def test_parameters_without_meaning_are_refused(parameters, message):
    with pytest.raises(ParameterError, match=message):
        RandomCalibrationForest(**parameters).fit([[0.6, 0.4], [0.4, 0.6]], [0, 1])


@pytest.mark.slow
@pytest.mark.parametrize(("n_rows", "n_classes", "n_bins"), [(100_000, 3, 512), (5000, 100, 4096)])
def test_memory_stays_below_a_gigabyte(n_rows, n_classes, n_bins):
    calibration, labels = some_rows(n_rows, n_classes)
    tracemalloc.start()
    fitted = RandomCalibrationForest(250, n_bins, guard=False).fit(Predictions.parse(calibration), labels)
    fitted.predict_proba(calibration[:10_000])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6e8


def test_a_forest_whose_guard_keeps_the_identity_can_be_saved(tmp_path, monkeypatch):
    monkeypatch.setattr(RandomCalibrationForest, "_harm", lambda *args: "harm.")  # noqa: ARG005
    p = np.random.default_rng(0).dirichlet(np.ones(3), 60)
    with pytest.warns(CalibrationWarning, match="harm"):
        fitted = RandomCalibrationForest(3, 4, random_state=0).fit(p, p.argmax(axis=1))
    fitted.save(tmp_path / "calibrator.npz")
    np.testing.assert_array_equal(
        calibrant.load(tmp_path / "calibrator.npz").predict_proba(p), fitted.predict_proba(p)
    )
