"""Independent pieces of work, on several threads where there is enough of it."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from typing import TypeVar

from calibrant.numerics.row_blocks import n_threads_available, one_blas_thread, one_thread

__all__ = ["NUMBERS_PER_PIECE", "in_threads"]

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
