"""Progress of a bootstrap, and how it stops: by an interrupt, by an error, by the user's own function."""

import os
import signal
import threading
import time

import numpy as np
import pytest

from calibrant.intervals import bootstrap
from calibrant.intervals.resampling import replicates
from calibrant.metrics import brier_score
from calibrant.numerics.row_resampling import RowResampling


@pytest.fixture(params=["1", "2", "5"])
def threads(request, monkeypatch):
    """One thread, or several however few rows there are."""
    monkeypatch.setattr("calibrant.intervals.resampling.ROWS_FOR_THREADS", 10)
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", request.param)
    return int(request.param)


def problem(n_rows=200):
    generator = np.random.default_rng(0)
    p = generator.random(n_rows)
    return (generator.random(n_rows) < p).astype(int), p


@pytest.mark.parametrize("n_resamples", [40, 250, 2000])
def test_it_is_told_about_a_hundred_times_by_the_calling_thread(threads, n_resamples):
    seen, callers = [], set()

    def progress(done, total):
        seen.append((done, total))
        callers.add(threading.current_thread())

    y, p = problem()
    watched = bootstrap(brier_score, y, p, n_resamples=n_resamples, progress=progress)
    step = max(1, n_resamples // 100)
    assert seen == [(done, n_resamples) for done in range(step, n_resamples + 1, step)]
    assert callers == {threading.current_thread()}
    assert watched == bootstrap(brier_score, y, p, n_resamples=n_resamples)


def test_the_last_resample_is_told_also_where_steps_do_not_meet_it(threads):
    y, p = problem()
    seen = []
    bootstrap(brier_score, y, p, n_resamples=205, progress=lambda done, _: seen.append(done))
    assert seen[-2:] == [204, 205]


class SlowStatistic:
    """A mean that takes two milliseconds and counts its calls."""

    def __init__(self, fails_at=None):
        self.calls = 0
        self.fails_at = fails_at
        self.lock = threading.Lock()

    def __call__(self, counts):
        with self.lock:
            self.calls += 1
            number = self.calls
        time.sleep(0.002)
        if number == self.fails_at:
            raise ArithmeticError("enough")
        return float(counts.mean())


def run(statistic, n_threads, progress=None):
    """Ten seconds of work for two threads."""
    return replicates(
        lambda: statistic, RowResampling(50), 10_000, np.random.default_rng(0), n_threads, progress
    )


@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_what_progress_raises_stops_all_threads(n_threads):
    def stop(done, _):
        raise KeyboardInterrupt

    statistic = SlowStatistic()
    with pytest.raises(KeyboardInterrupt):
        run(statistic, n_threads, stop)
    calls = statistic.calls
    assert calls < 1000
    time.sleep(0.02)
    assert statistic.calls == calls  # nothing goes on in the background


@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_an_error_in_one_thread_stops_the_others(n_threads):
    statistic = SlowStatistic(fails_at=50)
    with pytest.raises(ArithmeticError, match="enough"):
        run(statistic, n_threads)
    assert statistic.calls < 500


@pytest.mark.skipif(os.name != "posix", reason="sends a signal to this process")
@pytest.mark.parametrize("n_threads", [1, 2])
def test_an_interrupt_stops_it_at_once(n_threads):
    statistic = SlowStatistic()
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    started = time.perf_counter()
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run(statistic, n_threads)
    finally:
        timer.cancel()
        timer.join()
    assert time.perf_counter() - started < 8  # of ten seconds of work
    calls = statistic.calls
    time.sleep(0.02)
    assert statistic.calls == calls
