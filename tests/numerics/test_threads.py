"""Pieces of work in threads: the same results in the same order, threads only where they pay."""

import threading
import time

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from calibrant.numerics import row_blocks as module
from calibrant.numerics.row_blocks import NUMBERS_PER_PIECE, in_threads


@pytest.mark.parametrize("n_threads", ["1", "2", "7"])
@pytest.mark.parametrize("numbers", [1, NUMBERS_PER_PIECE])
def test_results_come_in_the_order_of_the_pieces(monkeypatch, n_threads, numbers):
    """The first pieces take the longest, so that they are the last to be ready."""
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", n_threads)

    def slow_at_first(piece):
        time.sleep(0.01 if piece < 2 else 0)
        return piece * piece

    assert in_threads(slow_at_first, range(9), numbers) == [piece * piece for piece in range(9)]


def test_enough_work_is_shared_by_threads(monkeypatch):
    """Three pieces that wait for each other can only finish if three threads are at work."""
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", "3")
    meeting = threading.Barrier(3, timeout=30)
    assert in_threads(lambda _: meeting.wait() >= 0, [0, 1, 2], NUMBERS_PER_PIECE) == [True] * 3


@pytest.mark.parametrize(
    ("n_threads", "n_pieces", "numbers"),
    [("4", 4, NUMBERS_PER_PIECE - 1), ("1", 4, NUMBERS_PER_PIECE), ("4", 1, NUMBERS_PER_PIECE)],
    ids=["little work", "one core", "one piece"],
)
def test_otherwise_all_is_done_in_the_calling_thread(monkeypatch, n_threads, n_pieces, numbers):
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", n_threads)
    monkeypatch.setattr(module, "ThreadPoolExecutor", None)  # whoever asks for it fails
    caller = threading.get_ident()
    seen = in_threads(lambda _: threading.get_ident(), range(n_pieces), numbers)
    assert seen == [caller] * n_pieces


@pytest.mark.parametrize("numbers", [1, NUMBERS_PER_PIECE])
def test_no_pieces_give_no_results(numbers):
    assert in_threads(lambda piece: piece, [], numbers) == []


@pytest.mark.parametrize("numbers", [1, NUMBERS_PER_PIECE])
def test_an_error_in_one_piece_reaches_the_caller(monkeypatch, numbers):
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", "2")

    def fails_on_three(piece):
        if piece == 3:
            raise ValueError("piece 3.")
        return piece

    with pytest.raises(ValueError, match=r"piece 3\."):
        in_threads(fails_on_three, range(6), numbers)


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_blas_does_not_multiply_the_threads(monkeypatch):
    """Inside the pieces each call of BLAS has one thread; afterwards it has as many as before."""
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", "2")
    with threadpool_limits(limits=2, user_api="blas"):
        inside = in_threads(lambda _: blas_threads(), range(2), NUMBERS_PER_PIECE)
        assert all(count == 1 for counts in inside for count in counts)
        assert set(blas_threads()) <= {2}
