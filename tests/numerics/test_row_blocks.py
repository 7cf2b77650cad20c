"""Row blocks cover every row once, and sums over them do not depend on threads."""

import threading
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from calibrant.numerics import row_blocks as module
from calibrant.numerics.row_blocks import (
    BLOCK_BYTES,
    BlockSums,
    n_threads_available,
    one_blas_thread,
    row_blocks,
)


@given(n_rows=st.integers(1, 10**6), n_columns=st.integers(1, 5000), itemsize=st.sampled_from([4, 8]))
def test_every_row_is_in_exactly_one_block_and_blocks_fit(n_rows, n_columns, itemsize):
    blocks = row_blocks(n_rows, n_columns, itemsize)
    assert blocks[0].start == 0
    assert blocks[-1].stop == n_rows
    assert all(left.stop == right.start for left, right in pairwise(blocks))
    for block in blocks:
        n_block_rows = block.stop - block.start
        assert n_block_rows >= 1
        assert n_block_rows == 1 or n_block_rows * n_columns * itemsize <= BLOCK_BYTES


def test_a_row_larger_than_a_block_is_a_block_of_its_own():
    assert row_blocks(2, BLOCK_BYTES) == [slice(0, 1), slice(1, 2)]


def test_the_environment_sets_the_number_of_threads(monkeypatch):
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", "3")
    assert n_threads_available() == 3


@pytest.mark.parametrize("value", ["", "0", "-2", "many", "1.5"])
def test_nonsense_in_the_environment_is_ignored(monkeypatch, value):
    monkeypatch.delenv("CALIBRANT_NUM_THREADS", raising=False)
    expected = n_threads_available()
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", value)
    assert n_threads_available() == expected >= 1


@pytest.mark.parametrize("n_threads", ["1", "2", "5"])
def test_sums_are_the_same_to_the_bit_for_any_number_of_threads(monkeypatch, n_threads):
    """Floating-point sums depend on their order, so blocks are always added from first to last."""
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", n_threads)
    monkeypatch.setattr(module, "ENTRIES_PER_THREAD", 100)
    values = np.random.default_rng(0).normal(size=(40_000, 8)) * 10.0 ** np.arange(8)
    expected = np.zeros(8)
    for rows in row_blocks(*values.shape):
        expected = expected + values[rows].sum(axis=0)
    with BlockSums.over(*values.shape) as sums:
        for _ in range(3):
            np.testing.assert_array_equal(sums(lambda rows: values[rows].sum(axis=0)), expected)


def test_work_is_shared_by_threads_when_there_is_enough_of_it(monkeypatch):
    """Three blocks that wait for each other can only finish if three threads are at work."""
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", "3")
    monkeypatch.setattr(module, "BLOCK_BYTES", 8)
    monkeypatch.setattr(module, "ENTRIES_PER_THREAD", 1)
    meeting = threading.Barrier(3, timeout=30)

    def contribution(rows):
        meeting.wait()
        return rows.start

    with BlockSums.over(3, 1) as sums:
        assert sums(contribution) == 0 + 1 + 2


def test_little_work_stays_in_the_calling_thread(monkeypatch):
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", "4")
    threads = set()

    def contribution(rows):
        threads.add(threading.get_ident())
        return rows.stop - rows.start

    with BlockSums.over(1000, 10) as sums:
        assert sums(contribution) == 1000
    assert threads == {threading.get_ident()}


def test_an_error_in_a_block_reaches_the_caller(monkeypatch):
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", "2")
    monkeypatch.setattr(module, "BLOCK_BYTES", 8)
    monkeypatch.setattr(module, "ENTRIES_PER_THREAD", 1)

    def contribution(rows):
        raise ZeroDivisionError("in a block")

    with BlockSums.over(4, 1) as sums, pytest.raises(ZeroDivisionError, match="in a block"):
        sums(contribution)


def test_blas_gets_its_threads_back(monkeypatch):
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", "2")
    monkeypatch.setattr(module, "BLOCK_BYTES", 8)
    monkeypatch.setattr(module, "ENTRIES_PER_THREAD", 1)

    def blas_threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before = blas_threads()
    with BlockSums.over(4, 1):
        assert set(blas_threads()) <= {1}
    assert blas_threads() == before


def test_the_limit_on_blas_is_lifted_by_the_last_one_out():
    """The first one in leaves before the second: the limit must outlive it, and go with the second."""

    def n_threads():
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    before = n_threads()
    first, second = one_blas_thread(), one_blas_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert set(n_threads()) <= {1}
    second.__exit__(None, None, None)
    assert n_threads() == before


def test_what_is_set_for_a_thread_holds_in_the_pool():
    n_rows, n_columns = 4000, 1000
    with np.errstate(divide="ignore"), BlockSums.over(n_rows, n_columns) as in_all_blocks:
        total = in_all_blocks(lambda rows: float((np.log(np.zeros(rows.stop - rows.start)) < 0).sum()))
    assert total == n_rows
