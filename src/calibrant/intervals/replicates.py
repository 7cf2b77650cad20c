"""Values of a statistic in many resamples, independent of the number of threads."""

from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from queue import Empty, SimpleQueue
from threading import Event

import numpy as np
from numpy.typing import NDArray

from calibrant.intervals.options import Progress
from calibrant.intervals.statistic import Statistic
from calibrant.numerics.row_blocks import one_blas_thread
from calibrant.numerics.row_resampling import RowResampling

__all__ = ["replicates"]

Done = Generator[None, None, None]
"""Yields whenever one more resample is completed."""

# Each chunk has its own random generator; the number of chunks must not depend on the threads.
RESAMPLES_PER_CHUNK = 20

# Some systems deliver an interrupt only between waits of the main thread.
SECONDS_PER_WAIT = 0.1


def replicates(
    make_statistic: Callable[[], Statistic],
    resampling: RowResampling,
    n_resamples: int,
    generator: np.random.Generator,
    n_threads: int = 1,
    progress: Progress | None = None,
) -> NDArray[np.float64]:
    """Return the statistic of ``n_resamples`` resamples, (B,), in a reproducible order.

    Every thread creates its own statistic, since a statistic may cache data between calls. ``progress`` is called by
    the calling thread only. If that thread is interrupted, or anything fails, the others stop after their current
    resample.
    """
    starts = range(0, n_resamples, RESAMPLES_PER_CHUNK)
    generators = generator.spawn(len(starts))
    values = np.empty(n_resamples)

    def fill(first_chunk: int, step: int) -> Done:
        statistic = make_statistic()
        for chunk in range(first_chunk, len(starts), step):
            for resample in range(starts[chunk], min(starts[chunk] + RESAMPLES_PER_CHUNK, n_resamples)):
                values[resample] = statistic(resampling.counts(generators[chunk]))
                yield

    n_threads = min(n_threads, len(starts))
    step = max(1, n_resamples // 100)
    with closing(fill(0, 1) if n_threads == 1 else _in_threads(fill, n_threads)) as resamples:
        for done, _ in enumerate(resamples, start=1):
            if progress is not None and (done % step == 0 or done == n_resamples):
                progress(done, n_resamples)
    return values


def _in_threads(fill: Callable[[int, int], Done], n_threads: int) -> Done:
    """Distribute the work over threads and yield once per completed resample."""
    finished: SimpleQueue[Future[None] | None] = SimpleQueue()
    stopped = Event()

    def work(first_chunk: int) -> None:
        for _ in fill(first_chunk, n_threads):
            finished.put(None)
            if stopped.is_set():
                return

    with one_blas_thread(), ThreadPoolExecutor(n_threads) as pool:
        try:
            for first_chunk in range(n_threads):
                pool.submit(work, first_chunk).add_done_callback(finished.put)
            n_working = n_threads
            while n_working:
                try:
                    entry = finished.get(timeout=SECONDS_PER_WAIT)
                except Empty:
                    continue
                if entry is None:
                    yield
                else:
                    entry.result()  # re-raises an exception of that thread
                    n_working -= 1
        finally:
            stopped.set()  # leaving the pool waits for its threads
