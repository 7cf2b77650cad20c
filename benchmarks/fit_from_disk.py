"""Fits of a memory map of 5,000,000 x 10 logits: seconds, passes over the rows and peak memory of every family.

Usage: ``python benchmarks/fit_from_disk.py [--rows 5000000] [--names temperature,vector]``. Every fit runs in a process of
its own. Memory is the peak of anonymous memory (RssAnon, Linux) beyond that of the interpreter with the library imported;
pages of the memory map belong to the file cache of the system.
"""

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

NAMES = [
    "temperature",
    "bias-corrected-temperature",
    "vector",
    "matrix",
    "dirichlet",
    "shared-map",
    "shared-vector",
    "shared-matrix",
    "structured-vector",
    "structured-matrix",
    "platt",
    "beta",
    "quadratic",
    "piecewise-linear",
]
N_CLASSES = 10


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--names", default=",".join(NAMES))
    parser.add_argument("--one", nargs=2, metavar=("NAME", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        fit_one(options.one[0], Path(options.one[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        write_rows(Path(folder), options.rows)
        print(f"{options.rows:,} x {N_CLASSES}, float64")
        print(f"{'method':28s} {'CPU seconds':>12s} {'passes':>7s} {'peak MB':>8s}")
        for name in options.names.split(","):
            command = [sys.executable, __file__, "--one", name, folder]
            print(
                subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip(), flush=True
            )


def write_rows(folder: Path, n_rows: int) -> None:
    """Write logits and labels of an over-confident classifier, batch by batch."""
    generator = np.random.default_rng(0)
    shape = (n_rows, N_CLASSES)
    scores = np.lib.format.open_memmap(folder / "logits.npy", "w+", np.float64, shape)
    labels = np.lib.format.open_memmap(folder / "labels.npy", "w+", np.int64, (n_rows,))
    for start in range(0, n_rows, 100_000):
        rows = slice(start, min(start + 100_000, n_rows))
        logits = generator.normal(0.0, 2.0, (rows.stop - rows.start, N_CLASSES))
        noise = generator.gumbel(size=logits.shape)
        scores[rows], labels[rows] = logits, (logits / 1.6 + noise).argmax(axis=1)


def fit_one(name: str, folder: Path) -> None:
    """Fit one method and print a row of the table."""
    from calibrant import registry
    from calibrant.objective import RowSource

    parameters = {}
    calibrator = registry.make(name, **parameters)
    before, peaks, done = anonymous_mb(), [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            peaks[0] = max(peaks[0], anonymous_mb())

    threading.Thread(target=watch, daemon=True).start()
    scores = np.load(folder / "logits.npy", mmap_mode="r")
    labels = np.load(folder / "labels.npy", mmap_mode="r")
    source = RowSource.from_arrays(scores, labels, space="logits")
    read, n_passes = source._read, [0]

    def counted():  # type: ignore[no-untyped-def]
        n_passes[0] += 1
        return read()

    source._read = counted
    start = time.process_time()
    calibrator.fit_rows(source)
    seconds = time.process_time() - start
    done.set()
    print(f"{name:28s} {seconds:12.1f} {n_passes[0]:7d} {peaks[0] - before:8.0f}")


def anonymous_mb() -> float:
    """Return the anonymous resident memory of this process, in megabytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line for line in lines if line.startswith("RssAnon")).split()[1]) / 1024


if __name__ == "__main__":
    main()
