"""Rows drawn with replacement follow the multinomial law, also by strata and by groups."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.numerics import row_resampling
from calibrant.numerics.row_resampling import RowResampling


def drawn(resampling, n_resamples, seed=0):
    generator = np.random.default_rng(seed)
    return np.array([resampling.counts(generator) for _ in range(n_resamples)])


def codes(draw_from, n_rows, seed=0):
    numbers = np.random.default_rng(seed).integers(0, draw_from, n_rows)
    return np.unique(numbers, return_inverse=True)[1]


@given(n_rows=st.integers(1, 60), seed=st.integers(0, 5))
def test_as_many_rows_are_drawn_as_there_are(n_rows, seed):
    counts = RowResampling(n_rows).counts(np.random.default_rng(seed))
    assert counts.shape == (n_rows,)
    assert counts.min() >= 0
    assert counts.sum() == n_rows


@given(n_rows=st.integers(1, 60), n_strata=st.integers(1, 6), seed=st.integers(0, 5))
def test_strata_keep_their_sizes(n_rows, n_strata, seed):
    strata = codes(n_strata, n_rows, seed)
    counts = RowResampling(n_rows, strata=strata).counts(np.random.default_rng(seed))
    assert np.array_equal(np.bincount(strata, counts), np.bincount(strata))


@given(n_rows=st.integers(1, 60), n_groups=st.integers(1, 20), seed=st.integers(0, 5))
def test_rows_of_a_group_are_drawn_together(n_rows, n_groups, seed):
    groups = codes(n_groups, n_rows, seed)
    counts = RowResampling(n_rows, groups=groups).counts(np.random.default_rng(seed))
    per_group = [set(counts[groups == group].tolist()) for group in range(groups.max() + 1)]
    assert all(len(values) == 1 for values in per_group)
    assert sum(values.pop() for values in per_group) == len(per_group)


@pytest.mark.parametrize("block", [2**16, 4])
def test_counts_have_the_moments_of_the_multinomial_law(monkeypatch, block):
    """Mean 1, variance 1 - 1/n, covariance -1/n; also when the draws go by blocks of units."""
    monkeypatch.setattr(row_resampling, "UNITS_PER_BLOCK", block)
    n_rows, n_resamples = 10, 10_000
    counts = drawn(RowResampling(n_rows), n_resamples)
    expected = np.eye(n_rows) - 1 / n_rows
    # The fourth moment of a count is about 4, so an entry is off by about sqrt(4 / resamples) = 0.02.
    assert counts.mean(axis=0) == pytest.approx(np.ones(n_rows), abs=5 / np.sqrt(n_resamples))
    assert np.cov(counts.T) == pytest.approx(expected, abs=5 * np.sqrt(4 / n_resamples))
    assert (counts.sum(axis=1) == n_rows).all()


def test_counts_within_a_stratum_have_the_moments_of_the_multinomial_law():
    strata = np.array([0, 1, 0, 1, 1, 2, 0, 1])
    counts = drawn(RowResampling(8, strata=strata), 10_000)
    together = strata[:, np.newaxis] == strata
    expected = np.eye(8) - together / np.bincount(strata)[strata]
    assert counts.mean(axis=0) == pytest.approx(np.ones(8), abs=0.05)
    assert np.cov(counts.T) == pytest.approx(expected, abs=0.1)
    assert (counts[:, 5] == 1).all()


def test_many_units_are_counted_in_blocks_without_gaps():
    n_rows = 3 * row_resampling.UNITS_PER_BLOCK + 17
    counts = RowResampling(n_rows).counts(np.random.default_rng(0))
    assert counts.sum() == n_rows
    # A row is left out with probability 1/e; the share varies by sqrt((1/e - 2/e^2) / n).
    assert np.mean(counts == 0) == pytest.approx(np.exp(-1), abs=5 * np.sqrt(0.1 / n_rows))
    assert counts[-17:].sum() > 0


def test_few_units_are_blocks_of_their_own():
    blocks = RowResampling(7).blocks(np.random.default_rng(0), 10)
    assert sorted(blocks.block_of_row.tolist()) == list(range(7))
    assert blocks.stratum.tolist() == [0] * 7


@pytest.mark.parametrize("n_rows", [11, 25, 99])
def test_many_units_are_dealt_into_blocks_of_nearly_equal_size(n_rows):
    blocks = RowResampling(n_rows).blocks(np.random.default_rng(0), 10)
    sizes = np.bincount(blocks.block_of_row)
    assert len(sizes) == len(blocks.stratum) == 10
    assert sizes.max() - sizes.min() <= 1


def test_blocks_do_not_follow_the_order_of_the_rows():
    blocks = RowResampling(10_000).blocks(np.random.default_rng(0), 10)
    positions = np.bincount(blocks.block_of_row, np.arange(10_000)) / 1000
    assert positions == pytest.approx(np.full(10, 5000), abs=5 * 10_000 / np.sqrt(12 * 1000))


def test_groups_go_whole_into_blocks():
    groups = codes(40, 200)
    blocks = RowResampling(200, groups=groups).blocks(np.random.default_rng(0), 8)
    assert all(len(set(blocks.block_of_row[groups == group])) == 1 for group in range(groups.max() + 1))
    assert set(blocks.block_of_row) == set(range(8))


def test_blocks_stay_inside_their_stratum_and_a_single_row_is_in_none():
    strata = np.array([2, 0, 0, 1, 0, 2, 0, 0, 2, 0])
    blocks = RowResampling(10, strata=strata).blocks(np.random.default_rng(0), 5)
    assert blocks.block_of_row[3] == -1
    for block, stratum in enumerate(blocks.stratum):
        assert set(strata[blocks.block_of_row == block]) == {stratum}
    assert np.bincount(blocks.stratum).tolist() == [3, 0, 2]
