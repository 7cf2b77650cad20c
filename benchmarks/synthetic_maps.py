"""True errors of calibration methods on synthetic tasks whose calibration map is known, by integration.

The first table is in the manner of Table 1 of Valk (2022): 5,000 rows of a task of three classes with predictions from
Dirichlet(1/2, 1/2, 1/2), true errors instead of estimated ones, the options of the thesis but for IOP, whose network without
a penalty does harm when fitted to the end: here the penalty is chosen by folds. Their map was learnt from five million images
that are not public; the tasks here are those of ``calibrant.synthetic.tasks()``, by default the mixed one, and ``learnt``, a
forest fitted to the logits of ``kull_nn/c10_resnet110.npz`` in the folder named by ``CALIBRANT_DATA``. "conf" and "class"
condition on the scalar as the definitions do; the columns marked "point" compare row by row. The second table lets the number
of rows grow. Means over seeds of the drawn rows. Usage::

    python benchmarks/synthetic_maps.py [--tasks mixed waves learnt] [--rows 500 2000 8000 32000] [--seeds 3]
"""

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from calibrant import (
    Calibrator,
    DecisionCalibration,
    DirichletCalibration,
    IntraOrderPreserving,
    KernelCalibration,
    NearestNeighbourCalibration,
    RandomCalibrationForest,
    TemperatureScaling,
)
from calibrant.synthetic import ScrambledSobol, SyntheticTask, TrueErrors, learnt_map, tasks, true_errors

FOLDER = Path(os.environ.get("CALIBRANT_DATA", Path(__file__).parents[2] / "shared" / "data"))
COLUMNS = {
    "conf": "confidence",
    "class": "classwise",
    "conf point": "pointwise_confidence",
    "class point": "pointwise_classwise",
    "Brier": "brier_score",
    "log-loss": "log_loss",
    "accuracy": "accuracy",
    "loss gap": "loss_gap",
}
METHODS: dict[str, Callable[[], Calibrator]] = {
    "TS": TemperatureScaling,
    "DIR": lambda: DirichletCalibration(penalty=None),
    "IOP": lambda: IntraOrderPreserving("full"),
    "DEC": lambda: DecisionCalibration(n_iterations=10),
    "forest": lambda: RandomCalibrationForest(n_trees=100, n_bins=32),
    "KNN": lambda: NearestNeighbourCalibration(metric="euclidean", n_neighbours=512),
    "kernel": lambda: KernelCalibration(kernel="dirichlet", bandwidth=0.1),
}


def made(name: str) -> SyntheticTask:
    """Return a task by its name."""
    if name != "learnt":
        return tasks()[name]
    path = FOLDER / "kull_nn" / "c10_resnet110.npz"
    if not path.exists():
        sys.exit(f"there is no file {path}; set CALIBRANT_DATA to the folder that holds kull_nn.")
    with np.load(path, allow_pickle=False) as arrays:
        logits = np.vstack([arrays["val_logits"], arrays["test_logits"]])
        labels = np.concatenate([arrays["val_y"], arrays["test_y"]])
    # Fewer bins than for millions of rows, and a temperature well below the network's best: something is left to calibrate.
    return SyntheticTask((0.5, 0.5, 0.5), learnt_map(logits, labels, temperature=1.7, n_bins=64, n_trees=100))


def mean_errors(
    task: SyntheticTask, method: str, n_rows: int, n_seeds: int, rule: ScrambledSobol
) -> tuple[dict[str, float], float]:
    """Return the mean of each error over samples, and the mean seconds of a fit."""
    found: list[TrueErrors] = []
    seconds = 0.0
    for seed in range(n_seeds):
        rows = task.sample(n_rows, random_state=seed)
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = METHODS[method]().fit(rows.predictions, rows.labels)
        seconds += time.perf_counter() - start
        found.append(true_errors(task, fitted, rule=rule))
    return {
        name: float(np.mean([getattr(one, name) for one in found])) for name in COLUMNS.values()
    }, seconds / n_seeds


def print_row(name: str, errors: dict[str, float], seconds: float | None = None) -> None:
    figures = "".join(f"{errors[column]:12.4f}" for column in COLUMNS.values())
    print(f"  {name:10s}{figures}{'' if seconds is None else f'{seconds:9.2f}'}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", nargs="+", default=["mixed", "learnt"], choices=[*tasks(), "learnt"])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--rows", nargs="*", type=int, default=[500, 2000, 8000, 32000])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=2**14)
    arguments = parser.parse_args()
    rule = ScrambledSobol(arguments.nodes)
    for name in arguments.tasks:
        task = made(name)
        print(f"\n{name}: true errors with 5,000 rows, mean of {arguments.seeds} samples")
        print(f"  {'method':10s}" + "".join(f"{column:>12s}" for column in COLUMNS) + f"{'fit s':>9s}")
        print_row("uncal", true_errors(task, rule=rule).to_dict())
        for method in arguments.methods:
            print_row(method, *mean_errors(task, method, 5000, arguments.seeds, rule))
        print_row("cal", true_errors(task, task.calibration_map, rule=rule).to_dict())
        if not arguments.rows:
            continue
        print(f"\n{name}: excess log-loss (x 1000) and pointwise classwise error (x 1000) as rows grow")
        print(f"  {'method':10s}" + "".join(f"{n_rows:>18,d}" for n_rows in arguments.rows))
        best = true_errors(task, task.calibration_map, rule=rule).log_loss
        for method in arguments.methods:
            line = f"  {method:10s}"
            for n_rows in arguments.rows:
                errors, _ = mean_errors(task, method, n_rows, arguments.seeds, rule)
                line += (
                    f"{1000 * (errors['log_loss'] - best):10.2f}{1000 * errors['pointwise_classwise']:8.2f}"
                )
            print(line, flush=True)


if __name__ == "__main__":
    main()
