"""Fit and evaluate many rows in Parquet files: passes, processor time and peak memory of every step.

``python benchmarks/distributed.py --rows 5000000`` makes the rows batch by batch, runs every step in a process of its own, and
prints a table: processor seconds (all threads), as a multiple of reading the same columns once, and the peak memory of the
process. The last lines extrapolate to more rows in proportion, for one core.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from calibrant.distributed import evaluate, fit
from calibrant.distributed.engine import InProcess
from calibrant.registry import make

ROWS_OF_FILE, ROWS_OF_GROUP = 2**22, 2**18
ROLES = {"label": "y", "columns": "p_*", "space": "probabilities"}
STEPS = ["read", "temperature", "vector", "isotonic", "evaluate"]
LARGER = (1e9, 1e10)


def make_rows(folder: Path, n_rows: int, n_classes: int) -> None:
    """Write over-confident probabilities and labels, one row group at a time; files that are there stay."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(range(0, n_rows, ROWS_OF_FILE)):
        path = folder / f"part-{number:04d}.parquet"
        if path.exists():
            continue
        generator = np.random.default_rng(number)
        unfinished, writer = path.with_suffix(".unfinished"), None
        for first in range(start, min(start + ROWS_OF_FILE, n_rows), ROWS_OF_GROUP):
            size = min(ROWS_OF_GROUP, n_rows - first, start + ROWS_OF_FILE - first)
            logits = generator.normal(0.0, 2.0, (size, n_classes))
            labels = (logits / 1.6 + generator.gumbel(size=logits.shape)).argmax(axis=1)
            probabilities = np.exp(logits)
            probabilities /= probabilities.sum(axis=1, keepdims=True)
            columns = {f"p_{column}": probabilities[:, column] for column in range(n_classes)}
            table = pa.table({**columns, "y": labels.astype(np.int32)})
            writer = writer or pq.ParquetWriter(unfinished, table.schema)
            writer.write_table(table)
        if writer is not None:
            writer.close()
            unfinished.rename(path)


def step(name: str, folder: str) -> dict[str, float]:
    """Run one step in this process and return its cost."""
    partials, n_passes = InProcess.partials, 0

    def counted(self: InProcess, task: object) -> object:
        nonlocal n_passes
        n_passes += 1
        return partials(self, task)

    InProcess.partials = counted  # type: ignore[method-assign, assignment]
    began, at = time.process_time(), time.perf_counter()
    if name == "read":
        n_passes = 1
        for _ in ds.dataset(folder).to_batches(batch_size=2**17, batch_readahead=1, fragment_readahead=1):
            pass
    elif name == "evaluate":
        evaluate(folder, **ROLES)
    else:
        fit(make(name), folder, **ROLES)
    return {
        "passes": n_passes,
        "processor": time.process_time() - began,
        "elapsed": time.perf_counter() - at,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def measured(name: str, folder: Path) -> dict[str, float]:
    """Run one step in a process of its own."""
    command = [sys.executable, __file__, "--step", name, "--folder", str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(result.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--folder", type=Path, help="where the files are made, or are already")
    parser.add_argument("--steps", nargs="*", default=STEPS)
    parser.add_argument("--step", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        print(json.dumps(step(given.step, str(given.folder))))
        return
    folder = given.folder or Path(tempfile.gettempdir()) / f"calibrant-{given.rows}x{given.classes}"
    make_rows(folder, given.rows, given.classes)
    size = sum(path.stat().st_size for path in folder.glob("*.parquet"))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(f"{given.rows:,} x {given.classes} in {size / 1e6:,.0f} MB of Parquet; {cores} cores")
    print(
        f"{'step':<12} {'passes':>6} {'CPU s':>8} {'x read':>7} {'ns/row':>7} {'elapsed s':>9} {'peak MB':>8}"
    )
    floor = None
    for name in given.steps:
        cost = measured(name, folder)
        floor = cost["processor"] if name == "read" else floor
        ratio = f"{cost['processor'] / floor:.1f}" if floor else ""
        per_row = cost["processor"] / given.rows * 1e9
        print(
            f"{name:<12} {cost['passes']:>6.0f} {cost['processor']:>8.1f} {ratio:>7} {per_row:>7.0f} "
            f"{cost['elapsed']:>9.1f} {cost['memory']:>8.0f}",
            flush=True,
        )
        if name != "read":
            hours = [f"{per_row * rows / 1e9 / 3600:.2f} h for {rows:.0e} rows" for rows in LARGER]
            moved = cost["passes"] * size / given.rows
            print(
                f"{'':<12} extrapolated: {', '.join(hours)} on one core; {moved:,.0f} bytes read per row in all"
            )


if __name__ == "__main__":
    main()
