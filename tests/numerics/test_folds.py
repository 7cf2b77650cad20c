"""Folds by content: complete, balanced, and blind to the order and the repetition of rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.numerics.folds import folds_by_content


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


@given(order=st.permutations(range(14)), seed=st.integers(0, 5))
def test_the_order_of_rows_does_not_matter_with_ties_and_weights(order, seed):
    generator = np.random.default_rng(seed)
    key = np.round(generator.normal(size=14), 1)
    weights = generator.integers(1, 4, 14).astype(float)
    order = list(order)
    plain = folds_by_content((key,), weights, 3)
    moved = folds_by_content((key[order],), weights[order], 3)
    for fold, other in zip(plain, moved, strict=True):
        assert sorted(key[fold.test_rows]) == sorted(key[order][other.test_rows])


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


@given(scale=st.floats(1e-3, 1e3), seed=st.integers(0, 5))
def test_equal_weights_give_the_folds_of_no_weights(scale, seed):
    """No row is ever judged by a copy of itself, whatever its weight."""
    key = np.random.default_rng(seed).normal(size=40)
    for fold, other in zip(
        folds_by_content((key,), np.full(40, scale), 4), folds_by_content((key,), None, 4), strict=True
    ):
        np.testing.assert_array_equal(fold.test_rows, other.test_rows)
        assert not set(fold.test_rows) & set(fold.train_rows)


def test_a_group_heavier_than_half_a_fold_is_shared_by_all():
    """Half of 200 rows are alike: every fold holds out a fifth of their weight and learns from the rest."""
    key = np.concatenate([np.zeros(100), 1 + np.random.default_rng(0).uniform(size=100)])
    for weights, unit in ((None, 1.0), (np.full(200, 0.5), 0.5)):
        folds = folds_by_content((key,), weights, 5)
        total = np.zeros(200)
        for fold in folds:
            held_out = weight_per_row(fold.test_rows, fold.test_weights, 200)
            learnt = weight_per_row(fold.train_rows, fold.train_weights, 200)
            np.testing.assert_allclose(held_out[:100], unit / 5)
            np.testing.assert_allclose(learnt[:100], unit * 4 / 5)
            assert np.count_nonzero(held_out[100:]) == 20
            total += held_out
        np.testing.assert_allclose(total, unit)


def test_ties_of_the_first_key_are_broken_by_the_second():
    first, second = np.zeros(8), np.arange(8.0)[::-1]
    folds = folds_by_content((first, second), None, 2)
    again = folds_by_content((first[::-1], second[::-1]), None, 2)
    for fold, other in zip(folds, again, strict=True):
        assert set(second[fold.test_rows]) == set(second[::-1][other.test_rows])
