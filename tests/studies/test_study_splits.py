"""Splits of studies: rows are divided whole, by seed and repeat alone."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.errors import RecipeError, StudyDataError
from calibrant.studies.specifications import SplitSpec
from calibrant.studies.splits import Split, divided_rows, outer_fold, split_seed, splits_of


@st.composite
def label_vectors(draw: st.DrawFn) -> np.ndarray:
    """Labels of two to five classes, some of them rare, the first with at least twenty rows."""
    counts = [draw(st.integers(20, 60)), *draw(st.lists(st.integers(1, 30), min_size=1, max_size=4))]
    order = np.random.default_rng(draw(st.integers(0, 99))).permutation(sum(counts))
    return np.repeat(np.arange(len(counts)), counts)[order]


SEEDS = st.integers(0, 2**31)


@given(labels=label_vectors(), seed=SEEDS, repeat=st.integers(0, 5), folds=st.integers(2, 5))
def test_outer_folds_are_disjoint_and_exhaustive(labels, seed, repeat, folds):
    spec = SplitSpec("folds", folds=folds, inner=3)
    tested = []
    for fold in range(folds):
        rows = outer_fold(labels, spec, Split("folds", repeat, fold), seed)
        assert not set(rows.test) & set(rows.training)
        assert len(rows.test) + len(rows.training) == len(labels)
        tested.extend(rows.test.tolist())
    assert sorted(tested) == list(range(len(labels)))


@given(labels=label_vectors(), seed=SEEDS, inner=st.integers(2, 4))
def test_inner_folds_divide_the_training_rows(labels, seed, inner):
    rows = outer_fold(labels, SplitSpec("folds", folds=4, inner=inner), Split("folds", 0, 2), seed)
    calibrated = np.concatenate([part.calibration for part in rows.inner])
    assert sorted(calibrated) == sorted(rows.training)
    for part in rows.inner:
        assert sorted(np.concatenate([part.training, part.calibration])) == sorted(rows.training)
        assert not set(part.training) & set(rows.test)


@given(labels=label_vectors(), seed=SEEDS)
def test_folds_are_stratified(labels, seed):
    """Of every class, folds get numbers of rows that differ by one at most."""
    spec = SplitSpec("folds", folds=4)
    counts = [
        np.bincount(
            labels[outer_fold(labels, spec, Split("folds", 0, fold), seed).test], minlength=labels.max() + 1
        )
        for fold in range(4)
    ]
    assert np.ptp(counts, axis=0).max() <= 1


@given(labels=label_vectors(), seed=SEEDS, repeat=st.integers(0, 3))
def test_fewer_repeats_are_a_part_of_more(labels, seed, repeat):
    few, many = SplitSpec("folds", repeats=repeat + 1), SplitSpec("folds", repeats=9)
    assert set(splits_of(few)) <= set(splits_of(many))
    split = Split("folds", repeat, 1)
    one, other = outer_fold(labels, few, split, seed), outer_fold(labels, many, split, seed)
    assert np.array_equal(one.test, other.test)
    for a, b in zip(one.inner, other.inner, strict=True):
        assert np.array_equal(a.calibration, b.calibration)


def test_repeats_and_seeds_differ():
    labels = np.repeat([0, 1], 50)
    spec = SplitSpec("folds")
    tests = [
        outer_fold(labels, spec, Split("folds", repeat), seed).test.tolist()
        for repeat in (0, 1)
        for seed in (0, 1)
    ]
    assert len({tuple(rows) for rows in tests}) == 4
    seeds = [split_seed(seed, Split("folds", r, f)) for seed in (0, 1) for r in (0, 1) for f in (0, 1)]
    assert len(set(seeds)) == 8


def test_the_seed_of_a_unit_does_not_depend_on_the_number_of_rows():
    assert split_seed(3, Split("given", 2, 0, 100)) == split_seed(3, Split("given", 2, 0, 200))


@given(
    labels=label_vectors(),
    seed=SEEDS,
    stratified=st.booleans(),
    sizes=st.lists(st.integers(1, 10), min_size=2, max_size=3, unique=True),
)
def test_calibration_rows_are_nested_and_test_rows_stay(labels, seed, stratified, sizes):
    spec = SplitSpec("random", calibration_rows=tuple(sorted(sizes)), stratified=stratified)
    found = [divided_rows(labels, spec, split, seed) for split in splits_of(spec)]
    for (few, test), (more, same) in pairwise(found):
        assert set(few) < set(more)
        assert np.array_equal(test, same)
    calibration, test = found[-1]
    assert sorted([*calibration, *test]) == list(range(len(labels)))


@given(labels=label_vectors(), seed=SEEDS)
def test_a_stratified_beginning_has_the_shares_of_the_whole(labels, seed):
    """Every class has its share of the first half, give or take one row."""
    spec = SplitSpec("random", stratified=True)
    calibration, _ = divided_rows(labels, spec, Split("random"), seed)
    expected = np.bincount(labels) * len(calibration) / len(labels)
    # Random offsets let the number of all rows before a place differ by the number of classes.
    n_classes = len(expected)
    assert np.abs(np.bincount(labels[calibration], minlength=n_classes) - expected).max() <= n_classes


def test_given_rows_stay_whole_unless_fewer_are_asked_for():
    labels, test_labels = np.repeat([0, 1], 50), np.repeat([0, 1], 30)
    spec = SplitSpec("given", calibration_rows=(40,))
    calibration, test = divided_rows(labels, SplitSpec("given"), Split("given"), 0, test_labels)
    assert np.array_equal(calibration, np.arange(100))
    assert np.array_equal(test, np.arange(60))
    first, _ = divided_rows(labels, spec, Split("given", 0, 0, 40), 0, test_labels)
    second, _ = divided_rows(labels, spec, Split("given", 1, 0, 40), 0, test_labels)
    assert len(set(first)) == 40
    assert set(first) != set(second)
    _, some = divided_rows(labels, SplitSpec("given", test_rows=10), Split("given"), 0, test_labels)
    assert len(set(some)) == 10


def test_a_share_is_a_share():
    labels = np.zeros(200, dtype=np.intp)
    rows, test = divided_rows(
        labels, SplitSpec("random", calibration_rows=(0.25,)), Split("random", 0, 0, 0.25), 0
    )
    assert (len(rows), len(test)) == (50, 150)


@pytest.mark.parametrize(
    "spec",
    [
        SplitSpec("random", calibration_rows=(100,)),
        SplitSpec("random", calibration_rows=(50,), test_rows=60),
        SplitSpec("given", calibration_rows=(101,)),
        SplitSpec("given", test_rows=101),
    ],
)
def test_more_rows_than_there_are(spec):
    labels = np.zeros(100, dtype=np.intp)
    with pytest.raises(StudyDataError, match="but there are 100"):
        divided_rows(labels, spec, splits_of(spec)[0], 0, labels if spec.kind == "given" else None)


def test_more_folds_than_rows_of_any_class():
    with pytest.raises(StudyDataError, match="the largest has 3"):
        outer_fold(np.repeat([0, 1], 3), SplitSpec("folds", folds=5), Split("folds"), 0)


def test_an_unknown_kind():
    with pytest.raises(RecipeError, match="not 'bootstrap'"):
        splits_of(SplitSpec("bootstrap"))


def test_labels_of_splits():
    assert Split("random", 2).labels() == {"repeat": 2}
    assert [
        split.calibration_rows for split in splits_of(SplitSpec("random", calibration_rows=(10.0, 0.5)))
    ] == [
        10,
        0.5,
    ]
