"""Number of labels that active calibration needs to reach a given log-loss, against labels of random rows.

From a pool of 5,000 rows the first 50 labels are random, the same for all rules. After each of the rounds at 50, 100, 150, ...
labels, the log-loss on other rows is compared with that of a fit to all labels of the pool: their difference is the excess.
Prints, as means of the seeds with 95 % intervals (t): the excess at each number of labels, and the expected one; the labels
at which it first falls below a target, by interpolation, and the difference from random rows, paired by seed; and for the
stopping rule the labels at the stop, with the expected and the true excess there. Runs that are in the file of ``--file`` are
not repeated. Usage::

    python benchmarks/active_calibration.py [--seeds 10] [--sets synthetic wide ...] [--file active_calibration.jsonl]
"""

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from baselines import FOLDER
from numpy.typing import NDArray
from scipy.stats import t as student

from calibrant import GaussianProcessCalibration, Predictions
from calibrant.active import ActiveCalibration
from calibrant.metrics import log_loss

Labelled = tuple[Predictions, NDArray[np.intp]]

SIZES = (50, 100, 150, 200, 300, 400, 600)
RULES = ("random", "entropy", "information", "excess-loss")
TARGETS = (0.02, 0.01, 0.005)
TOLERANCES = (0.01, 0.005)
POOL = 5000


def synthetic() -> Labelled:
    """Return rows of four classes for which one latent function is right."""
    generator = np.random.default_rng(0)
    z = generator.normal(0, 4, (25_000, 4))
    u = 0.4 * z + 0.02 * z**2
    return Predictions.from_logits(z), (u + generator.gumbel(size=u.shape)).argmax(axis=1)


def network(name: str) -> Callable[[], Labelled]:
    """Return a function that reads all rows of a network."""

    def read() -> Labelled:
        with np.load(FOLDER / f"{name}.npz") as arrays:
            if "probs" in arrays:
                return Predictions.from_probabilities(arrays["probs"].astype(np.float64)), arrays["y"].astype(
                    np.intp
                )
            logits = np.vstack([arrays["val_logits"], arrays["test_logits"]]).astype(np.float64)
            return Predictions.from_logits(logits), np.concatenate(
                [arrays["val_y"], arrays["test_y"]]
            ).astype(np.intp)

    return read


SETS: dict[str, Callable[[], Labelled]] = {
    "synthetic": synthetic,
    "wide": network("cifar_netcal/c10_wideresnet_16_4"),
    "lenet": network("cifar_netcal/c10_lenet_5"),
    "resnet110": network("kull_nn/c10_resnet110"),
}


def run(rows: Labelled, seed: int) -> dict[str, Any]:
    """Return the excess and the expected excess of every rule after every round, in nats."""
    predictions, labels = rows
    order = np.random.default_rng(seed).permutation(len(labels))
    pool, test = order[:POOL], order[POOL:]
    known, given, other = labels[pool], predictions.take(pool), predictions.take(test)

    def loss(calibrator: GaussianProcessCalibration) -> float:
        return float(log_loss(labels[test], calibrator.predict_proba(other)))

    best = loss(GaussianProcessCalibration().fit(given, known))
    found: dict[str, Any] = {"uncalibrated": float(log_loss(labels[test], other)) - best}
    for rule in RULES:
        active = ActiveCalibration(given, rule=rule, n_first=SIZES[0], tolerance=1e-9, random_state=seed)
        excess, expected = [], []
        for size in SIZES:
            asked = active.ask(size - len(active.rows_))
            expected.append(active.tell(asked, known[asked]).excess_log_loss)
            excess.append(np.nan if active.calibrator_ is None else loss(active.calibrator_) - best)
        found[rule] = {"excess": excess, "expected": expected}
    return found


def interval(values: NDArray[np.float64]) -> str:
    """Return mean and 95 % interval."""
    half = student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():.0f} [{values.mean() - half:.0f}, {values.mean() + half:.0f}]"


def crossing(values: NDArray[np.float64], target: float) -> float:
    """Return the number of labels at which a curve first falls below the target; the last number if it never does."""
    below = np.flatnonzero(values <= target)
    if not len(below):
        return float(SIZES[-1])
    first = int(below[0])
    if first == 0:
        return float(SIZES[0])
    share = (values[first - 1] - target) / (values[first - 1] - values[first])
    return float(np.exp((1 - share) * np.log(SIZES[first - 1]) + share * np.log(SIZES[first])))


def report(name: str, results: list[dict[str, Any]]) -> None:
    """Print the tables of one set."""
    excess = {rule: np.array([each[rule]["excess"] for each in results]) for rule in RULES}
    expected = {rule: np.array([each[rule]["expected"] for each in results]) for rule in RULES}
    uncalibrated = 1000 * np.mean([each["uncalibrated"] for each in results])
    print(
        f"\n{name}: excess log-loss in 1/1000 nats ({len(results)} seeds); uncalibrated {uncalibrated:.0f}\n"
    )
    print("| rule | " + " | ".join(f"{size} labels" for size in SIZES) + " |")
    print("|---|" + "---:|" * len(SIZES))
    for rule in RULES:
        print(
            f"| {rule} | " + " | ".join(f"{1000 * value:.1f}" for value in excess[rule].mean(axis=0)) + " |"
        )
        print(
            "| expected | "
            + " | ".join(f"{1000 * value:.1f}" for value in expected[rule].mean(axis=0))
            + " |"
        )
    print("\n| rule | " + " | ".join(f"labels to {1000 * target:g}" for target in TARGETS), end=" | ")
    print(" | ".join(f"minus random, {1000 * target:g}" for target in TARGETS) + " | not reached |")
    print("|---|" + "---:|" * (2 * len(TARGETS) + 1))
    reached = {
        rule: np.array([[crossing(curve, target) for target in TARGETS] for curve in excess[rule]])
        for rule in RULES
    }
    for rule in RULES:
        cells = [interval(column) for column in reached[rule].T]
        cells += [
            "" if rule == "random" else interval(column) for column in (reached[rule] - reached["random"]).T
        ]
        missed = ", ".join(str(int((excess[rule].min(axis=1) > target).sum())) for target in TARGETS)
        print(f"| {rule} | " + " | ".join(cells) + f" | {missed} |")
    print(
        "\n| rule | tolerance | labels at the stop | expected excess | true excess |\n|---|---:|---:|---:|---:|"
    )
    for rule in RULES:
        for tolerance in TOLERANCES:
            stops = [np.flatnonzero(curve <= tolerance) for curve in expected[rule]]
            places = np.array([stop[0] if len(stop) else len(SIZES) - 1 for stop in stops])
            seeds = np.arange(len(places))
            labels = np.array(SIZES, dtype=np.float64)[places]
            values = [1000 * each[rule][seeds, places].mean() for each in (expected, excess)]
            print(
                f"| {rule} | {1000 * tolerance:g} | {interval(labels)} | {values[0]:.1f} | {values[1]:.1f} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--file", type=Path, help="JSON lines of finished runs, to continue from")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    done: dict[tuple[str, int], dict[str, Any]] = {}
    if arguments.file is not None and arguments.file.exists():
        for line in arguments.file.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            done[entry["set"], entry["seed"]] = entry["found"]
    for name in arguments.sets:
        rows = SETS[name]()
        for seed in range(arguments.seeds):
            if (name, seed) in done:
                continue
            done[name, seed] = run(rows, seed)
            if arguments.file is not None:
                with arguments.file.open("a", encoding="utf-8") as file:
                    print(json.dumps({"set": name, "seed": seed, "found": done[name, seed]}), file=file)
        report(name, [done[name, seed] for seed in range(arguments.seeds)])


if __name__ == "__main__":
    main()
