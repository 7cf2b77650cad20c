"""Processor time of a report, its memory beside the data, and the size of its page, by rows and classes.

Prints Markdown. Each size runs in a process of its own; the data are over-confident float32 logits. Usage::

    python benchmarks/report_sizes.py [2000x3 1000000x10 50000x1000 1000000x1000]
"""

import resource
import subprocess
import sys
import time

import numpy as np

from calibrant import Predictions, assess

SIZES = ("2000x3", "1000000x10", "50000x1000", "1000000x1000")
BLOCK_ROWS = 10_000


def drawn(n_rows: int, n_classes: int) -> tuple[Predictions, np.ndarray]:
    """Return logits whose true temperature is 1.5, and labels, made block by block."""
    generator = np.random.default_rng(0)
    logits = np.empty((n_rows, n_classes), dtype=np.float32)
    labels = np.empty(n_rows, dtype=np.intp)
    for start in range(0, n_rows, BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        block = generator.standard_normal(logits[rows].shape, dtype=np.float32) * 2
        # Few classes stand out in a row, as with a network.
        block[np.arange(len(block)), generator.integers(0, n_classes, len(block))] += 6
        logits[rows] = block
        labels[rows] = (block / 1.5 + generator.gumbel(size=block.shape)).argmax(axis=1)
    return Predictions.from_logits(logits), labels


def measure(size: str) -> None:
    n_rows, n_classes = map(int, size.split("x"))
    predictions, labels = drawn(n_rows, n_classes)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    assessment = assess(labels, predictions)
    processor = time.process_time() - start
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    page = len(assessment.to_html().encode())
    print(
        f"| {n_rows:,} | {n_classes:,} | {processor:.0f} s | {more / 2**20:.1f} GB | {page / 1e6:.2f} MB |",
        flush=True,
    )


def main() -> None:
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2])
        return
    print("| rows | classes | CPU time | memory in addition to the data | page |")
    print("|---|---|---|---|---|", flush=True)
    for size in sys.argv[1:] or SIZES:
        subprocess.run([sys.executable, __file__, "--measure", size], check=True)


if __name__ == "__main__":
    main()
