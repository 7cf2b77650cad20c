"""Folds by content: complete, balanced, and blind to the order and the repetition of rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.numerics.folds import content_order, content_seed, folds_by_content


def weight_per_row(rows, weights, n_rows):
    total = np.zeros(n_rows)
    np.add.at(total, rows, 1.0 if weights is None else weights)
    return total


@given(n_rows=st.integers(4, 60), n_folds=st.integers(2, 4), seed=st.integers(0, 9))
def test_every_row_is_held_out_once_and_otherwise_learnt_from(n_rows, n_folds, seed):
    keys = (np.random.default_rng(seed).normal(size=n_rows),)
    folds = folds_by_content(keys, None, n_folds)
    held_out = sum(weight_per_row(fold.test_rows, None, n_rows) for fold in folds)
    np.testing.assert_array_equal(held_out, np.ones(n_rows))
    for fold in folds:
        assert set(fold.train_rows) == set(range(n_rows)) - set(fold.test_rows)
    sizes = [len(fold.test_rows) for fold in folds]
    assert max(sizes) - min(sizes) <= 1


@given(seed=st.integers(0, 20), scale=st.sampled_from([0.01, 0.3, 1.0, 7.5]))
def test_weights_are_dealt_out_completely_and_evenly(seed, scale):
    generator = np.random.default_rng(seed)
    weights = generator.uniform(0.1, 3, 30) * scale
    folds = folds_by_content((generator.normal(size=30),), weights, 3)
    held_out = sum(weight_per_row(fold.test_rows, fold.test_weights, 30) for fold in folds)
    np.testing.assert_allclose(held_out, weights, rtol=1e-12)
    for fold in folds:
        both = weight_per_row(fold.train_rows, fold.train_weights, 30)
        both += weight_per_row(fold.test_rows, fold.test_weights, 30)
        np.testing.assert_allclose(both, weights, rtol=1e-12)
        assert fold.test_weights.sum() == pytest.approx(weights.sum() / 3, rel=0.2)


@given(order=st.permutations(range(14)), seed=st.integers(0, 5), whole=st.booleans())
def test_the_order_of_rows_does_not_matter(order, seed, whole):
    generator = np.random.default_rng(seed)
    key = np.round(generator.normal(size=14), 1)
    weights = (
        generator.integers(1, 4, 14).astype(float) if whole else generator.uniform(0.5, 2, 14).round(1) + 0.01
    )
    order = list(order)
    plain = folds_by_content((key,), weights, 3)
    moved = folds_by_content((key[order],), weights[order], 3)
    for fold, other in zip(plain, moved, strict=True):
        ours = sorted(zip(key[fold.test_rows], fold.test_weights, strict=True))
        theirs = sorted(zip(key[order][other.test_rows], other.test_weights, strict=True))
        assert [pair[0] for pair in _merged(ours)] == [pair[0] for pair in _merged(theirs)]
        np.testing.assert_allclose([pair[1] for pair in _merged(ours)], [pair[1] for pair in _merged(theirs)])


def _merged(pairs):
    """Add up the weights of equal keys, since equal rows may change places."""
    total = {}
    for key, weight in pairs:
        total[key] = total.get(key, 0.0) + weight
    return sorted(total.items())


@given(counts=st.lists(st.integers(1, 4), min_size=6, max_size=12))
def test_an_integer_weight_is_a_repeated_row(counts):
    """The weight of a key in a fold is the number of its copies there."""
    key = np.arange(len(counts), dtype=float)
    repeated = np.repeat(key, counts)
    weighted = folds_by_content((key,), np.array(counts, dtype=float), 3)
    for fold, other in zip(weighted, folds_by_content((repeated,), None, 3), strict=True):
        expected = np.bincount(repeated[other.test_rows].astype(int), minlength=len(key))
        found = weight_per_row(fold.test_rows, fold.test_weights, len(key))
        np.testing.assert_allclose(found, expected, atol=1e-12)


@given(scale=st.floats(1e-3, 1e3) | st.integers(1, 50).map(float), seed=st.integers(0, 5))
def test_equal_weights_give_folds_of_whole_rows(scale, seed):
    """What all weights have in common says nothing; no row is judged by a part of itself."""
    key = np.random.default_rng(seed).normal(size=40)
    for fold in folds_by_content((key,), np.full(40, scale), 4):
        assert not set(fold.test_rows) & set(fold.train_rows)
        assert len(fold.test_rows) == 10


@given(seed=st.integers(0, 20))
def test_weights_that_are_no_counts_keep_rows_whole(seed):
    generator = np.random.default_rng(seed)
    for fold in folds_by_content((generator.normal(size=30),), generator.uniform(0.5, 3, 30), 3):
        assert not set(fold.test_rows) & set(fold.train_rows)


def test_ties_of_the_first_key_are_broken_by_the_second():
    first, second = np.zeros(8), np.arange(8.0)[::-1]
    folds = folds_by_content((first, second), None, 2)
    again = folds_by_content((first[::-1], second[::-1]), None, 2)
    for fold, other in zip(folds, again, strict=True):
        assert set(second[fold.test_rows]) == set(second[::-1][other.test_rows])


def test_another_seed_gives_other_folds_of_the_same_sizes():
    keys = (np.arange(60.0),)
    first, second = (folds_by_content(keys, None, 3, seed) for seed in (0, 1))
    assert [len(fold.test_rows) for fold in first] == [len(fold.test_rows) for fold in second] == [20] * 3
    assert any(not np.array_equal(a.test_rows, b.test_rows) for a, b in zip(first, second, strict=True))


def test_a_seed_of_content_changes_with_every_value_and_its_place():
    values = np.zeros(50, dtype=bool)
    seeds = {content_seed(np.roll(values | (np.arange(50) == 0), k)) for k in range(50)}
    assert len(seeds) == 50
    assert content_seed(values) == content_seed(values.copy())


@given(seed=st.integers(0, 1000), n_rows=st.integers(0, 40), levels=st.integers(1, 30))
def test_rows_are_ordered_as_by_a_lexical_sort(seed, n_rows, levels):
    keys = np.random.default_rng(seed).integers(0, levels, (3, n_rows)).astype(float)
    np.testing.assert_array_equal(content_order(iter(keys)), np.lexsort(keys[::-1]))


def test_a_key_is_not_asked_for_without_ties():
    def keys():
        yield np.array([2.0, 1.0, 2.0])
        yield np.array([2.0, 1.0, 1.0])
        raise AssertionError("no ties are left")

    assert content_order(keys()).tolist() == [1, 2, 0]
