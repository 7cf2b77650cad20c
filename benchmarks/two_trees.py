"""CPU time of fits in two source trees, such as two commits: seconds of both, and their ratio.

Usage::

    mkdir ../old && git archive COMMIT | tar x -C ../old
    python benchmarks/two_trees.py ../old/src src [--sizes 5000x2 5000x10 5000x100] [--names platt,beta] [--predict]

Each tree has a process of its own with one thread. The two take turns, and the least CPU time of all turns counts, so that
other processes on the machine matter little; differences below two per cent are noise. Rows are logits of an over-confident
classifier in float64; a ratio above 1 says that the second tree is slower. ``--predict`` times ``predict_proba`` instead.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

NAMES = (
    "temperature",
    "bias-corrected-temperature",
    "vector",
    "platt",
    "beta",
    "quadratic",
    "piecewise-linear",
    "ets",
    "matrix-odir",
    "dirichlet-odir",
    "structured-vector",
    "structured-matrix",
    "shared-map",
    "shared-vector",
    "shared-matrix",
    "isotonic",
    "iop-diagonal",
    "scaling-binning",
)
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "CALIBRANT_NUM_THREADS")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path, nargs="?", help="folder that holds the package of one tree")
    parser.add_argument("new", type=Path, nargs="?", help="the same of the other tree")
    parser.add_argument("--sizes", nargs="+", default=["5000x2", "5000x10", "5000x100"])
    parser.add_argument("--names", default=",".join(NAMES))
    parser.add_argument("--seconds", type=float, default=10.0, help="CPU time spent on a line of the table")
    parser.add_argument("--repeats", type=int, default=60, help="turns at the most")
    parser.add_argument("--predict", action="store_true", help="time predictions instead of fits")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work()
        return
    if options.old is None or options.new is None:
        parser.error("pass two folders that hold the package calibrant")
    trees = [Worker(options.old), Worker(options.new)]
    print(f"{'method':28s} {'size':>12s} {'old ms':>10s} {'new ms':>10s} {'ratio':>6s}")
    for size in options.sizes:
        for name in options.names.split(","):
            least, spent = [float("inf")] * 2, 0.0
            for turn in range(options.repeats):
                # Who is first changes, since the second finds a warmer machine.
                for place in (0, 1) if turn % 2 else (1, 0):
                    taken = trees[place].seconds(name, size, options.predict)
                    least[place], spent = min(least[place], taken), spent + taken
                if turn > 0 and spent > options.seconds:
                    break
            old, new = (1000 * seconds for seconds in least)
            print(f"{name:28s} {size:>12s} {old:10.2f} {new:10.2f} {new / old:6.2f}", flush=True)
    for tree in trees:
        tree.end()


class Worker:
    """A process that fits with the package of one tree when it is told to."""

    def __init__(self, folder: Path) -> None:
        if not (folder / "calibrant" / "__init__.py").exists():
            raise SystemExit(f"{folder} holds no package calibrant; pass the folder src of a tree.")
        environment = {**os.environ, "PYTHONPATH": str(folder.resolve()), **dict.fromkeys(ONE_THREAD, "1")}
        command = [sys.executable, __file__, "--worker"]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def seconds(self, name: str, size: str, predict: bool) -> float:
        """Return the CPU time of one fit or prediction."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps([name, size, predict]), file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())

    def end(self) -> None:
        """Let the process end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def work() -> None:
    """Fit what every line of the standard input asks for, and answer with seconds."""
    import numpy as np

    from calibrant import Predictions, registry

    rows: dict[str, Any] = {}
    fitted: dict[tuple[str, str], Any] = {}
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        name, size, predict = json.loads(line)
        if size not in rows:
            n_rows, n_classes = map(int, size.split("x"))
            generator = np.random.default_rng(0)
            logits = 2.0 * generator.normal(size=(n_rows, n_classes))
            rows = {size: (logits, (logits / 1.6 + generator.gumbel(size=logits.shape)).argmax(axis=1))}
        logits, labels = rows[size]
        calibrator = registry.make(name)
        if predict and (name, size) not in fitted:
            fitted = {(name, size): calibrator.fit(Predictions.from_logits(logits), labels)}
        given = Predictions.from_logits(logits)
        start = time.process_time()
        if predict:
            fitted[name, size].predict_proba(given)
        else:
            calibrator.fit(given, labels)
        print(time.process_time() - start, flush=True)


if __name__ == "__main__":
    main()
