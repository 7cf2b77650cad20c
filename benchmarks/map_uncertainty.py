"""How often intervals hold the true probability, how wide they are, and what they cost.

Rows come from synthetic tasks whose true probabilities are known. For each map, task and number of calibration rows the
first table has the share of all (row, class) pairs, over many calibration sets, whose interval of nominal 95 % holds
the truth, and the share whose interval holds the *best map of the family*, fitted to very many rows. The two are the same
where the family is right; where it is wrong only the second can be near 95 %. In the task "shifted" the family is right, but
penalties pull away from the truth. Venn-Abers predictors have no level and are there to show it. The second table has the
seconds of processor time at 5,000 rows of 10 classes, with the fit alone beside it. Both are markdown. Usage::

    python benchmarks/map_uncertainty.py [--repeats 100] [--refits 100] [--rows 100 500 5000] [--skip-cost]

``--refits 0`` leaves out the bootstrap, which takes most of the time.
"""

import argparse
import time
import warnings
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from calibrant import Calibrator, Predictions, WithIntervals, registry
from calibrant.synthetic import LogLinearMap, SyntheticTask, tasks

Matrix = NDArray[np.floating]

# Classes that are shifted by 1.5, which a penalty on intercepts pulls away from.
SHIFTED = SyntheticTask(
    (1.0, 1.0, 1.0), LogLinearMap(((0.7, 0.0, 0.0), (0.0, 0.7, 0.0), (0.0, 0.0, 0.7)), (-1.5, 0.0, 1.5))
)
TASKS = {**tasks(), "shifted": SHIFTED}

# (task, registry name, parameters, whether the truth belongs to the family)
CASES = [
    ("over-confident", "temperature", {}, True),
    ("over-confident", "bias-corrected-temperature", {}, True),
    ("asymmetric", "vector", {}, True),
    ("log-linear", "dirichlet", {}, True),
    ("log-linear", "dirichlet-odir", {"reg_lambda": 0.01, "reg_mu": 0.01}, True),
    ("log-linear", "structured-matrix", {}, True),
    ("over-confident", "shared-matrix", {}, True),
    ("over-confident", "shared-map", {}, True),
    ("over-confident", "gp", {}, True),
    ("shifted", "vector", {}, True),
    ("shifted", "structured-vector", {}, True),
    ("shifted", "shared-vector", {}, True),
    ("two-classes", "platt", {}, True),
    ("two-classes", "beta", {}, True),
    ("two-classes", "quadratic", {}, True),
    ("two-classes", "piecewise-linear", {}, True),
    ("mixed", "temperature", {}, False),
    ("mixed", "vector", {}, False),
    ("mixed", "dirichlet", {}, False),
    ("mixed", "beta", {}, False),
    ("mixed", "venn-abers", {}, False),
    ("regions", "temperature", {}, False),
    ("ten-classes", "temperature", {}, False),
]

WAYS = [("sandwich", {}), ("model", {"covariance": "model"}), ("bootstrap", {"method": "bootstrap"})]
MANY_ROWS = 200_000
TEST_ROWS = 300
LARGE = 5000  # rows from which on there are fewer repeats
COST = [
    *(
        "temperature",
        "bias-corrected-temperature",
        "vector",
        "platt",
        "beta",
        "quadratic",
        "piecewise-linear",
    ),
    *("shared-map", "structured-vector", "shared-vector", "structured-matrix", "shared-matrix"),
    *("dirichlet", "gp", "gp-monotone", "venn-abers"),
]


def ways_for(name: str) -> list[tuple[str, dict[str, object]]]:
    if name in ("gp", "venn-abers"):
        return [("own", {})]
    return WAYS


def best_map(task: SyntheticTask, calibrator: Calibrator) -> Matrix:
    """Return the probabilities of the test rows by the best map of the family."""
    many = task.sample(MANY_ROWS, random_state=10**6)
    return clone(calibrator).fit(many.predictions, many.labels).predict_proba(test_rows(task))


def test_rows(task: SyntheticTask) -> Predictions:
    return task.sample(TEST_ROWS, random_state=10**6 + 1).predictions


def coverage(
    task: SyntheticTask,
    calibrator: Calibrator,
    best: Matrix,
    n_rows: int,
    n_repeats: int,
    options: dict[str, object],
) -> tuple[float, float, float]:
    """Return the shares of intervals that hold the truth and the best map, and the mean width."""
    test = test_rows(task)
    truth = task.true_probabilities(test)
    sums = np.zeros(3)
    for repeat in range(n_repeats):
        rows = task.sample(n_rows, random_state=repeat)
        fitted = WithIntervals(clone(calibrator), **options).fit(rows.predictions, rows.labels)
        lower, upper = fitted.predict_interval(test)
        sums += [((lower <= p) & (p <= upper)).mean() for p in (truth, best)] + [(upper - lower).mean()]
    held_truth, held_best, width = sums / n_repeats
    return float(held_truth), float(held_best), float(width)


def coverage_rows(n_repeats: int, n_refits: int, sizes: list[int]) -> Iterator[str]:
    yield from heading("task", "map", "family", "rows", "way", "truth", "best", "width")
    for task, name, parameters, is_right in CASES:
        best = best_map(TASKS[task], registry.make(name, **parameters))
        for n_rows in sizes:
            for way, options in ways_for(name):
                if way == "bootstrap" and (n_rows >= LARGE or n_refits == 0):
                    continue  # as with fewer rows, and the slowest by far
                chosen = {**options, "n_draws": n_refits} if way == "bootstrap" else options
                calibrator = registry.make(name, **parameters)
                repeats = max(20, n_repeats // 4) if way == "bootstrap" or n_rows >= LARGE else n_repeats
                found = coverage(TASKS[task], calibrator, best, n_rows, repeats, chosen)
                family = "right" if is_right else "wrong"
                yield (
                    f"| {task} | {name} | {family} | {n_rows} | {way} "
                    f"| {found[0]:.3f} | {found[1]:.3f} | {found[2]:.4f} |"
                )


def cost_rows() -> Iterator[str]:
    task = tasks()["ten-classes"]
    rows, test = task.sample(5000, random_state=0), task.sample(5000, random_state=1).predictions
    yield from heading("map", "way", "fit", "with intervals", "ends of 5,000 rows")
    for name in COST:
        calibrator = registry.make(name)
        start = time.process_time()
        clone(calibrator).fit(rows.predictions, rows.labels)
        alone = time.process_time() - start
        start = time.process_time()
        fitted = WithIntervals(calibrator).fit(rows.predictions, rows.labels)
        together = time.process_time() - start
        start = time.process_time()
        fitted.predict_interval(Predictions.parse(test))
        interval = time.process_time() - start
        yield f"| {name} | {fitted.method_} | {alone:.3f} | {together:.3f} | {interval:.3f} |"


def heading(*columns: str) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|" + "---|" * len(columns)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--refits", type=int, default=100)
    parser.add_argument("--rows", type=int, nargs="+", default=[100, 500, 5000])
    parser.add_argument("--skip-cost", action="store_true")
    arguments = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for line in coverage_rows(arguments.repeats, arguments.refits, arguments.rows):
            print(line, flush=True)
        if not arguments.skip_cost:
            print()
            for line in cost_rows():
                print(line, flush=True)


if __name__ == "__main__":
    main()
