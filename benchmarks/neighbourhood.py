"""Neighbourhood methods and decision calibration on the networks of a published thesis, next to its tables.

Fits on the 5,000 calibration rows of DenseNet-40 and ResNet-110 (CIFAR-10, ``kull_nn``), alone and after temperature
scaling, and prints Markdown: for every metric of the thesis its figure, ours with the default settings, and the range
over other folds for the choice of the size (ten, shuffled by seeds 0 to 2), both ways to crop, both orientations of the
Dirichlet kernel, both ways to grow trees and two seeds of them, in which the guard against harm is switched off.
Metrics are those of the thesis, see ``calibrant.conventions``. The thesis chose the iterations of decision calibration
by the Brier score of test rows, which is printed beside ours. With ``--speed`` prints seconds and peak memory instead,
for 10 and for 100 classes; with ``--repairs`` the test Brier score of decision calibration after so many repairs, next to
that of the published program. Usage::

    python benchmarks/neighbourhood.py [--methods knn-kl decision ...] [--speed | --repairs]
"""

import argparse
import resource
import sys
import time
import warnings
from collections.abc import Iterator

import numpy as np
from baselines import FOLDER, halves
from sklearn.base import clone
from sklearn.model_selection import KFold

from calibrant import Calibrator, TemperatureScaling, registry
from calibrant.conventions import convention
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics import accuracy, average_loss_gap, brier_score

NETWORKS = {"DenseNet-40": "kull_nn/c10_densenet40", "ResNet-110": "kull_nn/c10_resnet110"}
HUNDRED_CLASSES = "kull_nn/c100_convnet"
WIDE_NETWORK = "cifar_netcal/c10_wideresnet_16_4"

# Repairs -> test Brier score of the published program, 50 epochs for each partition.
PROGRAM = {1: 0.12473, 5: 0.12103, 10: 0.11951, 20: 0.11782, 100: 0.11650}
ADJUSTMENTS = ["ratio", "least-squares"]

VALK = convention("valk2022")
METRICS = {
    "confidence ECE %": VALK.confidence_ece,
    "classwise ECE %": VALK.classwise_ece,
    "Brier": VALK.brier_score,
    "log-loss": VALK.log_loss,
    "accuracy": accuracy,
    "loss gap": average_loss_gap,
}
DIGITS = {
    "confidence ECE %": 2,
    "classwise ECE %": 2,
    "Brier": 3,
    "log-loss": 3,
    "accuracy": 3,
    "loss gap": 4,
}

# Figures of the thesis in the order of METRICS: Tables 11 to 16 and, for decision calibration, 5 to 10; those of
# methods alone are in Table 4, for the first network.
THESIS = {
    ("DenseNet-40", "uncalibrated"): (5.49, 0.44, 0.127, 0.428, 0.924, 0.0295),
    ("DenseNet-40", "temperature"): (0.92, 0.25, 0.110, 0.225, 0.924, 0.0063),
    ("DenseNet-40", "forest"): (3.201, 0.436, 0.120, 0.292, 0.924, 0.011),
    ("DenseNet-40", "knn-kl"): (3.342, 0.393, 0.118, 0.298, 0.924, 0.016),
    ("DenseNet-40", "kernel-dirichlet"): (3.381, 0.461, 0.124, 0.293, 0.924, 0.015),
    ("DenseNet-40", "temperature+knn-kl"): (0.52, 0.24, 0.110, 0.229, 0.925, 0.0046),
    ("DenseNet-40", "temperature+knn-euclidean"): (0.72, 0.24, 0.110, 0.228, 0.925, 0.0046),
    ("DenseNet-40", "temperature+forest"): (0.92, 0.25, 0.110, 0.227, 0.924, 0.0040),
    ("DenseNet-40", "temperature+kernel-rbf"): (0.80, 0.26, 0.110, 0.229, 0.925, 0.0040),
    ("DenseNet-40", "temperature+kernel-dirichlet"): (0.82, 0.23, 0.110, 0.225, 0.926, 0.0054),
    ("DenseNet-40", "temperature+decision"): (1.20, 0.30, 0.110, 0.264, 0.925, 0.0051),
    ("ResNet-110", "uncalibrated"): (4.75, 0.36, 0.110, 0.358, 0.936, 0.0259),
    ("ResNet-110", "temperature"): (0.94, 0.22, 0.098, 0.209, 0.936, 0.0056),
    ("ResNet-110", "temperature+knn-kl"): (0.84, 0.17, 0.097, 0.205, 0.936, 0.0035),
    ("ResNet-110", "temperature+knn-euclidean"): (0.88, 0.18, 0.097, 0.206, 0.936, 0.0033),
    ("ResNet-110", "temperature+forest"): (0.90, 0.19, 0.097, 0.207, 0.936, 0.0035),
    ("ResNet-110", "temperature+kernel-rbf"): (1.14, 0.22, 0.097, 0.208, 0.936, 0.0032),
    ("ResNet-110", "temperature+kernel-dirichlet"): (0.92, 0.18, 0.097, 0.206, 0.936, 0.0034),
    ("ResNet-110", "temperature+decision"): (0.94, 0.23, 0.097, 0.232, 0.936, 0.0042),
}

METHODS = ["knn-kl", "knn-euclidean", "forest", "kernel-rbf", "kernel-dirichlet", "decision"]

# The parameter for the size of a neighbourhood.
SIZES = {"knn": "n_neighbours", "forest": "n_bins", "kernel": "bandwidth", "decision": "n_iterations"}

FOLD_SEEDS = range(3)
MOST_DECISIONS = 100


def labelled(file: str) -> tuple[LabelledPredictions, LabelledPredictions]:
    """Return calibration and test rows."""
    first, first_labels, second, second_labels = halves(file)
    return LabelledPredictions.parse(first, first_labels), LabelledPredictions.parse(second, second_labels)


def size_name(method: str) -> str:
    """Return what the size is called."""
    return SIZES[method.split("-")[0]]


def variants(method: str) -> Iterator[dict[str, object]]:
    """Yield the settings that the thesis leaves open or that differ between its text and its program."""
    others: list[dict[str, object]] = [{}]
    if method == "kernel-dirichlet":
        others = [{"centre": "prediction"}, {"centre": "calibration"}]
    if method == "forest":
        others = [{"random_state": 0}, {"random_state": 1}, {"growth": "depth"}]
    if method == "decision":
        others = [{"adjustment": "ratio"}, {"adjustment": "least-squares"}]
    for crop in ("clip", "outside"):
        for other in others:
            yield {"crop": crop, **other}


def figures(fitted: Calibrator, test: LabelledPredictions) -> np.ndarray:
    """Return all metrics on test rows."""
    p = fitted.predict_proba(test.predictions)
    return np.array([metric(test.labels, p) for metric in METRICS.values()])


def range_of(method: str, train: LabelledPredictions, test: LabelledPredictions) -> tuple[np.ndarray, list]:
    """Return all metrics for all variants and the sizes that any of the folds choose."""
    name, table, sizes = size_name(method), [], set()
    for variant in variants(method):
        base = registry.make(method, guard=False, **variant)
        chosen = set()
        for seed in FOLD_SEEDS:
            folds = KFold(10, shuffle=True, random_state=seed)
            chosen.add(getattr(clone(base).set_params(cv=folds).fit_labelled(train), f"{name}_"))
        table += [
            figures(clone(base).set_params(**{name: size}).fit_labelled(train), test)
            for size in chosen
            if size
        ]
        sizes |= chosen
    return np.array(table), sorted(sizes)


def by_test_rows(train: LabelledPredictions, test: LabelledPredictions) -> tuple[np.ndarray, int]:
    """Return the metrics of decision calibration at the iteration with the lowest Brier score of test rows."""
    tries = [1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, MOST_DECISIONS]
    table = [
        figures(
            registry.make("decision", n_iterations=number, adjustment="least-squares").fit_labelled(train),
            test,
        )
        for number in tries
    ]
    best = int(np.argmin([row[2] for row in table]))
    return table[best], tries[best]


def print_row(network: str, name: str, what: str, values: np.ndarray | tuple[float, ...]) -> None:
    """Print one line of the table."""
    cells = [f"{value:.{digits}f}" for value, digits in zip(values, DIGITS.values(), strict=True)]
    print(f"| {network} | {name} | {what} | " + " | ".join(cells) + " |", flush=True)


def print_tables(methods: list[str]) -> None:
    """Print the thesis's figures and ours."""
    print(f"| network | method | source | {' | '.join(METRICS)} |")
    print("|" + "---|" * (3 + len(METRICS)))
    for network, file in NETWORKS.items():
        train, test = labelled(file)
        temperature = TemperatureScaling().fit_labelled(train)
        scaled_train, scaled_test = (
            LabelledPredictions(temperature.transform(rows.predictions), rows.labels, rows.classes)
            for rows in (train, test)
        )
        for name in ["uncalibrated", "temperature"]:
            print_row(network, name, "thesis", THESIS[network, name])
            print_row(network, name, "calibrant", figures(registry.make(name).fit_labelled(train), test))
        for prefix, own_train, own_test in [("", train, test), ("temperature+", scaled_train, scaled_test)]:
            for method in methods:
                name = prefix + method
                if (network, name) in THESIS:
                    print_row(network, name, "thesis", THESIS[network, name])
                fitted = registry.make(method).fit_labelled(own_train)
                size = getattr(fitted, f"{size_name(method)}_")
                note = ", identity" if fitted.identity_kept_ else ""
                print_row(network, name, f"calibrant ({size:g}{note})", figures(fitted, own_test))
                if not prefix:
                    continue  # the tables of methods alone are for orientation
                spread, sizes = range_of(method, own_train, own_test)
                if len(spread):
                    shown = ", ".join(f"{size:g}" for size in sizes)
                    print_row(network, name, f"lowest (sizes {shown})", spread.min(axis=0))
                    print_row(network, name, "highest", spread.max(axis=0))
                if method == "decision":
                    values, number = by_test_rows(own_train, own_test)
                    print_row(network, name, f"calibrant, by test rows ({number})", values)


def print_speed(methods: list[str]) -> None:
    """Print seconds of fits that choose the size, of predictions, and the memory that all took so far."""
    print("| method | rows x classes | size | fit s | predict 10,000 rows s | peak memory MB |")
    print("|---|---|---|---|---|---|")
    for file in [*NETWORKS.values(), HUNDRED_CLASSES]:
        train, test = labelled(file)
        temperature = TemperatureScaling().fit_labelled(train)
        own = LabelledPredictions(temperature.transform(train.predictions), train.labels, train.classes)
        rows = temperature.transform(test.predictions).take(slice(0, 10_000))
        for method in methods:
            start = time.perf_counter()
            fitted = registry.make(method, guard=False).fit_labelled(own)
            middle = time.perf_counter()
            size = getattr(fitted, f"{size_name(method)}_")
            fitted.predict_proba(rows)
            end = time.perf_counter()
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(
                f"| {method} | {own.n_rows} x {own.n_classes} | {size:g} | {middle - start:.2f} | {end - middle:.2f} | "
                f"{memory:.0f} |",
                flush=True,
            )


def print_repairs() -> None:
    """Print the Brier score after several numbers of repairs, on the wide network after temperature scaling."""
    train, test = labelled(WIDE_NETWORK)
    scaling = TemperatureScaling().fit_labelled(train)
    own = LabelledPredictions(scaling.transform(train.predictions), train.labels, train.classes)
    rows = scaling.transform(test.predictions)
    print("| repairs | program | " + " | ".join(ADJUSTMENTS) + " |")
    print("|---|---|" + "---|" * len(ADJUSTMENTS))
    for number, program in PROGRAM.items():
        scores = []
        for adjustment in ADJUSTMENTS:
            fitted = registry.make("decision", n_iterations=number, adjustment=adjustment).fit_labelled(own)
            scores.append(f"{brier_score(test.labels, fitted.predict_proba(rows)):.5f}")
        print(f"| {number} | {program:.5f} | " + " | ".join(scores) + " |", flush=True)


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--methods", nargs="+", default=METHODS)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--speed", action="store_true")
    what.add_argument("--repairs", action="store_true")
    options = parser.parse_args()
    if not FOLDER.is_dir():
        sys.exit(f"no data in {FOLDER}; set CALIBRANT_DATA to the folder that holds it.")
    # A size that does harm is a result here, not a surprise.
    warnings.simplefilter("ignore")
    if options.speed:
        print_speed(options.methods)
    elif options.repairs:
        print_repairs()
    else:
        print_tables(options.methods)


if __name__ == "__main__":
    main()
