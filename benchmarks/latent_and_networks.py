"""Networks, order-preserving maps, Gaussian processes and splines next to temperature scaling, on rows they have not seen.

Sets and halves are those of ``baselines.py``: every network of ``kull_nn`` with its own split, every network of
``cifar_pytorch_models`` and one wide residual network of ``cifar_netcal`` by a seeded permutation. Prints Markdown: for
each metric the value of the temperature and the differences of the others to it, for log-loss and Brier score (summed
over classes) with their standard errors over rows, in brackets; seconds of fits and predictions; how often each method is
better or worse; and figures of the authors' programs for the wide network next to ours. Methods that are not installed are
left out. Usage::

    python benchmarks/latent_and_networks.py [--methods pts iop gp ...] [--networks kull_nn/c10_resnet110 ...] [--quick]
"""

import argparse
import sys
import time
import warnings
from typing import NamedTuple

import numpy as np
from baselines import BINS, FOLDER, halves
from numpy.typing import NDArray

from calibrant import Calibrator, registry
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics import confidence_ece
from calibrant.metrics.row_losses import row_losses

WIDE_NETWORK = "cifar_netcal/c10_wideresnet_16_4"
FOLDERS = ("kull_nn", "cifar_pytorch_models")
BASELINE = "temperature"

# What is printed -> registry name and parameters.
METHODS = {
    "pts": ("pts", {}),
    "pts-log": ("pts", {"loss": "log"}),
    "iop-diagonal": ("iop-diagonal", {}),
    "iop-invariant": ("iop-invariant", {}),
    "iop": ("iop", {}),
    "gp": ("gp", {}),
    "gp-monotone": ("gp-monotone", {}),
    "spline": ("spline", {}),
    "spline-top-label": ("spline-top-label", {}),
    "spline-paper": ("spline-paper", {}),
}

QUICK_METHODS = ["pts", "iop-diagonal", "spline", "spline-top-label"]
QUICK_NETWORKS = ["kull_nn/c10_resnet110", WIDE_NETWORK]

# Log-loss, Brier score and confidence-ECE of the authors' programs on the wide network, the best of several runs or
# variants where there are several, by log-loss.
PROGRAMS = {
    "pts": ("100,000 steps, better of two seeds", 0.26063, 0.12618, 0.01051),
    "iop-diagonal": ("hidden layers of 10, gradients reset, stopped after 600 s", 0.26015, 0.12569, 0.01008),
    "iop-invariant": ("hidden layers of 10, 40 epochs", 0.26281, 0.12580, 0.02020),
    "iop": ("hidden layers of 2, 40 epochs", 0.25558, 0.12460, 0.01396),
    "gp": ("ln p as logits, mean approximation", 0.26019, 0.12563, 0.01149),
}

# Differences smaller than this are rounding of float32, however small their standard error.
ROUNDING = 1e-6


class Figures(NamedTuple):
    """One method on one network: losses of every test row, calibration error, seconds."""

    log_losses: NDArray[np.float64]
    brier_losses: NDArray[np.float64]
    ece: float
    fit_seconds: float
    predict_seconds: float


class Difference(NamedTuple):
    """Mean of paired differences and its standard error."""

    mean: float
    error: float

    @classmethod
    def of(cls, second: NDArray[np.float64], first: NDArray[np.float64]) -> "Difference":
        difference = second - first
        return cls(float(difference.mean()), float(difference.std(ddof=1) / np.sqrt(len(difference))))

    def __str__(self) -> str:
        return f"{self.mean:+.5f} ({self.error:.5f})"

    @property
    def sign(self) -> int:
        """1 or -1 where the mean is beyond two standard errors, else 0."""
        clear = abs(self.mean) > max(2 * self.error, ROUNDING)
        return int(np.sign(self.mean)) if clear else 0


def made(method: str) -> Calibrator:
    name, parameters = METHODS.get(method, (method, {}))
    return registry.make(name, **parameters)


def figures(network: str, method: str) -> Figures:
    calibration, calibration_labels, test, test_labels = halves(network)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        fitted = made(method).fit(calibration, calibration_labels)
        fit_seconds = time.perf_counter() - start
    start = time.perf_counter()
    calibrated = fitted.transform(test)
    calibrated.probabilities  # noqa: B018 - logits become probabilities when first asked for
    predict_seconds = time.perf_counter() - start
    data = LabelledPredictions.parse(calibrated, test_labels)
    return Figures(
        row_losses(data, "log"),
        row_losses(data, "brier"),
        float(confidence_ece(test_labels, calibrated, binning=BINS)),
        fit_seconds,
        predict_seconds,
    )


def print_table(title: str, header: list[str], rows: list[list[str]]) -> None:
    print(f"\n### {title}\n")
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def difference(results: dict[str, Figures], method: str, metric: str) -> Difference:
    return Difference.of(getattr(results[method], metric), getattr(results[BASELINE], metric))


def print_losses(results: dict[str, dict[str, Figures]], methods: list[str], title: str, metric: str) -> None:
    rows = [
        [network, f"{getattr(of_network[BASELINE], metric).mean():.5f}"]
        + [str(difference(of_network, method, metric)) for method in methods]
        for network, of_network in results.items()
    ]
    header = ["network", BASELINE, *methods]
    print_table(f"{title}: temperature scaling, and differences to it (standard error)", header, rows)


def print_calibration_errors(results: dict[str, dict[str, Figures]], methods: list[str]) -> None:
    rows = [
        [network, f"{of_network[BASELINE].ece:.5f}"]
        + [f"{of_network[method].ece - of_network[BASELINE].ece:+.5f}" for method in methods]
        for network, of_network in results.items()
    ]
    print_table(
        "Confidence-ECE, 15 bins: temperature scaling, and differences to it",
        ["network", BASELINE, *methods],
        rows,
    )


def print_seconds(results: dict[str, dict[str, Figures]], methods: list[str]) -> None:
    rows = [
        [network]
        + [
            f"{of_network[method].fit_seconds:.3f} / {of_network[method].predict_seconds:.3f}"
            for method in [BASELINE, *methods]
        ]
        for network, of_network in results.items()
    ]
    print_table("Seconds to fit and to predict", ["network", BASELINE, *methods], rows)


def print_summary(results: dict[str, dict[str, Figures]], methods: list[str]) -> None:
    rows = []
    for method in methods:
        row = [method]
        for metric in ("log_losses", "brier_losses"):
            found = [difference(of_network, method, metric) for of_network in results.values()]
            signs = [each.sign for each in found]
            mean = np.mean([each.mean for each in found])
            row += [f"{mean:+.5f}", f"{signs.count(-1)} / {signs.count(0)} / {signs.count(1)}"]
        ece = np.mean([of_network[method].ece - of_network[BASELINE].ece for of_network in results.values()])
        rows.append(
            [*row, f"{ece:+.5f}", f"{max(each[method].fit_seconds for each in results.values()):.2f}"]
        )
    counts = "better / level / worse"
    header = ["method", "log-loss", counts, "Brier", counts, "confidence-ECE", "longest fit, s"]
    title = (
        f"Mean differences to temperature scaling over {len(results)} networks; beyond two standard errors"
    )
    print_table(title, header, rows)


def print_programs(of_network: dict[str, Figures], methods: list[str]) -> None:
    rows = []
    for method in methods:
        if method in PROGRAMS:
            variant, *theirs = PROGRAMS[method]
            found = of_network[method]
            ours = (found.log_losses.mean(), found.brier_losses.mean(), found.ece)
            pairs = [f"{our:.5f} ({their:.5f})" for our, their in zip(ours, theirs, strict=True)]
            rows.append([method, *pairs, f"{found.fit_seconds:.2f}", variant])
    header = ["method", "log-loss", "Brier", "confidence-ECE", "fit, s", "their variant"]
    print_table(f"{WIDE_NETWORK}: ours, and the authors' program in brackets", header, rows)


def main() -> None:
    found = [
        f"{folder}/{path.stem}" for folder in FOLDERS for path in sorted((FOLDER / folder).glob("*.npz"))
    ]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--methods", nargs="+", help="those of the list above, or any registry name, also several joined by +"
    )
    parser.add_argument("--networks", nargs="+", help="files below the data folder, without .npz")
    parser.add_argument("--quick", action="store_true", help="two networks and the fastest methods")
    arguments = parser.parse_args()
    wanted = arguments.methods or (QUICK_METHODS if arguments.quick else list(METHODS))
    networks = arguments.networks or (QUICK_NETWORKS if arguments.quick else [*found, WIDE_NETWORK])
    known = set(registry.calibrators())
    methods = [
        method
        for method in dict.fromkeys(wanted)
        if method != BASELINE and set(METHODS.get(method, (method, {}))[0].split("+")) <= known
    ]
    missing = [method for method in wanted if method not in methods and method != BASELINE]
    if missing:
        print(f"left out, since the registry does not have them: {', '.join(missing)}", file=sys.stderr)
    results: dict[str, dict[str, Figures]] = {}
    for network in networks:
        results[network] = {}
        for method in [BASELINE, *methods]:
            results[network][method] = figures(network, method)
            seconds = results[network][method].fit_seconds
            print(f"{network} {method}: fitted in {seconds:.2f} s", file=sys.stderr, flush=True)
    print_losses(results, methods, "Log-loss", "log_losses")
    print_losses(results, methods, "Brier score", "brier_losses")
    print_calibration_errors(results, methods)
    print_seconds(results, methods)
    print_summary(results, methods)
    if WIDE_NETWORK in results and any(method in PROGRAMS for method in methods):
        print_programs(results[WIDE_NETWORK], methods)


if __name__ == "__main__":
    main()
