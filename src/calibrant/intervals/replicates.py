"""Values of a statistic in many resamples, the same for any number of threads."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from calibrant.intervals.statistic import Statistic
from calibrant.numerics.row_blocks import one_blas_thread
from calibrant.numerics.row_resampling import RowResampling

__all__ = ["replicates"]

# Each chunk has random numbers of its own; their number must not depend on the threads.
RESAMPLES_PER_CHUNK = 20


def replicates(
    make_statistic: Callable[[], Statistic],
    resampling: RowResampling,
    n_resamples: int,
    generator: np.random.Generator,
    n_threads: int = 1,
) -> NDArray[np.float64]:
    """Return the statistic of ``n_resamples`` resamples, (B,), in an order that is always the same.

    Every thread makes a statistic of its own, since one may keep notes between calls.
    """
    starts = range(0, n_resamples, RESAMPLES_PER_CHUNK)
    generators = generator.spawn(len(starts))
    values = np.empty(n_resamples)

    def fill(first_chunk: int, step: int) -> None:
        statistic = make_statistic()
        for chunk in range(first_chunk, len(starts), step):
            for resample in range(starts[chunk], min(starts[chunk] + RESAMPLES_PER_CHUNK, n_resamples)):
                values[resample] = statistic(resampling.counts(generators[chunk]))

    n_threads = min(n_threads, len(starts))
    if n_threads == 1:
        fill(0, 1)
    else:
        with one_blas_thread(), ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(fill, range(n_threads), repeat(n_threads)))
    return values
