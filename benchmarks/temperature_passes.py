"""Cost of a fit of temperature scaling in units of one exponential of the whole array, on one thread.

Usage: ``python benchmarks/temperature_passes.py``. Both are CPU seconds of the same run, the best of three.
"""

import os

os.environ["CALIBRANT_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import time
from collections.abc import Callable

import numpy as np

from calibrant import Predictions, TemperatureScaling

SHAPES = [(5_000, 10), (5_000, 100), (25_000, 1_000), (1_000_000, 10)]


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the CPU time of the fastest of three calls."""
    times = []
    for _ in range(3):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    generator = np.random.default_rng(0)
    print(f"{'rows x classes':>18s} {'fit, ms':>9s} {'exp, ms':>9s} {'ratio':>6s}")
    for n_rows, n_classes in SHAPES:
        logits = generator.normal(0.0, 2.0, (n_rows, n_classes))
        labels = (logits / 1.7 + generator.gumbel(size=logits.shape)).argmax(axis=1)
        given = Predictions.from_logits(logits)
        fit = cpu_seconds(lambda: TemperatureScaling().fit(given, labels))  # noqa: B023
        exp = cpu_seconds(lambda: np.exp(logits))  # noqa: B023
        shape = f"{n_rows:,} x {n_classes:,}"
        print(f"{shape:>18s} {1e3 * fit:9.1f} {1e3 * exp:9.1f} {fit / exp:6.1f}")


if __name__ == "__main__":
    main()
