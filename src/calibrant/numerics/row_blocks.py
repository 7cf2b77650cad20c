"""Rows in cache-sized blocks, sums over them in threads, and independent tasks in threads."""

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import Context, copy_context
from functools import cache
from itertools import pairwise
from typing import Protocol, Self, TypeVar

from threadpoolctl import ThreadpoolController

__all__ = [
    "NUMBERS_PER_PIECE",
    "BlockSums",
    "Mergeable",
    "SharedContext",
    "even_blocks",
    "in_threads",
    "n_threads_available",
    "one_blas_thread",
    "one_thread",
    "row_blocks",
]


class SharedContext:
    """Context shared by all threads: the first one that enters sets it up, the last one that leaves ends it.

    Parameters
    ----------
    make : callable
        Returns the context; called whenever a first one comes in.

    Examples
    --------
    >>> from contextlib import contextmanager
    >>> @contextmanager
    ... def light():
    ...     print("on")
    ...     yield
    ...     print("off")
    >>> room = SharedContext(light)
    >>> with room.entered(), room.entered():
    ...     print("two inside")
    on
    two inside
    off
    """

    def __init__(self, make: Callable[[], AbstractContextManager[object]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._n_inside = 0
        self._context: AbstractContextManager[object] | None = None

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Return a context of one thread; they may overlap in any order."""
        with self._lock:
            if self._n_inside == 0:
                self._context = self._make()
                self._context.__enter__()
            self._n_inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._n_inside -= 1
                if self._n_inside == 0 and self._context is not None:
                    self._context.__exit__(None, None, None)
                    self._context = None


# Half of a common second-level cache: a block and one or two temporaries of its size stay inside.
BLOCK_BYTES = 2**18

# Below this many entries a pass takes about a millisecond and handing it to threads costs more.
ENTRIES_PER_THREAD = 2**18


class Mergeable(Protocol):
    """A partial result that can be added to another of its kind, in any grouping."""

    def __add__(self, other: Self, /) -> Self:
        """Return the partial result for both sets of rows together."""
        ...


State = TypeVar("State", bound=Mergeable)


def row_blocks(n_rows: int, n_columns: int, itemsize: int = 8, min_rows: int = 1) -> list[slice]:
    """Return consecutive row slices of about :data:`BLOCK_BYTES` each, but of at least ``min_rows`` rows.

    >>> row_blocks(5, 2**15)
    [slice(0, 1, None), slice(1, 2, None), slice(2, 3, None), slice(3, 4, None), slice(4, 5, None)]
    """
    step = max(min_rows, BLOCK_BYTES // max(1, n_columns * itemsize))
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def even_blocks(n_rows: int, block_rows: int, n_threads: int = 1) -> list[slice]:
    """Return consecutive slices of about equal length, in equal number per thread.

    >>> even_blocks(10, 4)
    [slice(0, 3, None), slice(3, 6, None), slice(6, 10, None)]
    >>> even_blocks(10, 20, n_threads=2)
    [slice(0, 5, None), slice(5, 10, None)]
    """
    if n_rows == 0:
        return []
    n_blocks = -(-n_rows // block_rows)
    n_blocks = min(n_rows, -(-n_blocks // n_threads) * n_threads)
    edges = [n_rows * block // n_blocks for block in range(n_blocks + 1)]
    return [slice(start, stop) for start, stop in pairwise(edges)]


class _Nesting(threading.local):
    """Whether this thread is one of a pool already."""

    inside = False


_NESTING = _Nesting()


@contextmanager
def one_thread() -> Iterator[None]:
    """Return a context in which this thread opens no pools: two pools inside each other are slower than one."""
    before, _NESTING.inside = _NESTING.inside, True
    try:
        yield
    finally:
        _NESTING.inside = before


def n_threads_available() -> int:
    """Return the cores this process may use, or ``CALIBRANT_NUM_THREADS`` if that is set; one inside a pool."""
    if _NESTING.inside:
        return 1
    wanted = os.environ.get("CALIBRANT_NUM_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# Libraries with a BLAS of their own, besides numpy.
BRINGS_BLAS = frozenset({"scipy.linalg", "torch"})


def _limit() -> AbstractContextManager[object]:
    found: AbstractContextManager[object] = _libraries(BRINGS_BLAS.intersection(sys.modules)).limit(
        limits=1, user_api="blas"
    )
    return found


_LIMIT = SharedContext(_limit)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Return a context in which BLAS works with one thread, for calls that come from threads already.

    The limit holds for the whole process; contexts may overlap in any order.
    """
    with _LIMIT.entered():
        yield


@cache
def _libraries(loaded: frozenset[str]) -> ThreadpoolController:  # noqa: ARG001 (a new look when others came)
    # Finding the libraries takes milliseconds, as long as a pass over a million numbers.
    return ThreadpoolController()


class BlockSums:
    """Add up contributions of row blocks, in parallel where there is enough work.

    The sum is always taken in the order of the blocks, so the result does not depend on the number of
    threads or on which of them was first.
    """

    def __init__(self, blocks: Sequence[slice], pool: ThreadPoolExecutor | None) -> None:
        self._blocks = blocks
        self._pool = pool

    def __call__(self, contribution: Callable[[slice], State]) -> State:
        """Return the sum of ``contribution(rows)`` over all blocks."""
        if self._pool is None:
            parts: Iterator[State] = map(contribution, self._blocks)
        else:
            # What is set for this thread, such as how to treat overflow, holds in the pool; a context can be in one
            # thread at a time only.
            contexts = [copy_context() for _ in self._blocks]
            parts = self._pool.map(lambda rows, own: own.run(contribution, rows), self._blocks, contexts)
        total = next(parts)
        for part in parts:
            total = total + part
        return total

    @classmethod
    @contextmanager
    def over(cls, n_rows: int, n_columns: int, itemsize: int = 8, min_rows: int = 1) -> Iterator[Self]:
        """Open a pool for repeated passes over ``n_rows`` rows of ``n_columns`` entries, see :func:`row_blocks`.

        While it is open, BLAS works with one thread, since its calls come from the pool's own threads;
        two pools inside each other are slower than one.
        """
        blocks = row_blocks(n_rows, n_columns, itemsize, min_rows)
        n_threads = min(n_threads_available(), len(blocks), 1 + n_rows * n_columns // ENTRIES_PER_THREAD)
        if n_threads == 1:
            yield cls(blocks, None)
            return
        with one_blas_thread(), ThreadPoolExecutor(n_threads) as pool:
            yield cls(blocks, pool)


Piece = TypeVar("Piece")
Result = TypeVar("Result")

# A piece that handles fewer numbers than this takes well under a millisecond, most of it in Python itself,
# where threads only wait for each other.
NUMBERS_PER_PIECE = 2**16


def in_threads(function: Callable[[Piece], Result], pieces: Sequence[Piece], numbers: int) -> list[Result]:
    """Return ``function`` of every piece, in their order; ``numbers`` says how many each of them handles.

    >>> in_threads(lambda piece: piece * piece, [1, 2, 3], numbers=10)
    [1, 4, 9]
    """
    n_threads = min(n_threads_available(), len(pieces)) if numbers >= NUMBERS_PER_PIECE else 1
    if n_threads <= 1:
        return [function(piece) for piece in pieces]

    def alone(piece: Piece, context: Context) -> Result:
        with one_thread():
            return context.run(function, piece)

    # What is set for this thread holds in its helpers too; a context can be in one thread at a time only.
    contexts = [copy_context() for _ in pieces]
    with one_blas_thread(), ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(alone, pieces, contexts))
