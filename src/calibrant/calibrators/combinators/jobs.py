"""The same work for many parts, on several jobs if they are wanted."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from joblib import effective_n_jobs
from sklearn.utils.parallel import Parallel, delayed

__all__ = ["for_all"]

Part = TypeVar("Part")
Result = TypeVar("Result")


def for_all(work: Callable[[Part], Result], parts: Sequence[Part], n_jobs: int | None) -> list[Result]:
    """Return what the work gives for every part, in their order.

    For one job a plain loop: scikit-learn's helper changes the filters of warnings of the whole process, which is
    not safe when users fit in several threads.

    >>> for_all(abs, [-1, 2], n_jobs=None)
    [1, 2]
    """
    if effective_n_jobs(n_jobs) == 1:
        return [work(part) for part in parts]
    done: list[Result] = Parallel(n_jobs=n_jobs)(delayed(work)(part) for part in parts)
    return done
