"""Measured exponents of the costs of temperature scaling and Gaussian process calibration, beside Table 2 of Wenger (2020).

CPU seconds of one thread, smallest of several runs, for an evaluation of the objective with its gradient, for a fit, and for
predictions by the mean and by Monte Carlo, as the number of rows N, of classes K, of inducing points M and of draws Q grows.
An exponent is the slope between the logarithms at two sizes: N of 16,000 and 64,000, K of 80 and 320, M of 24 and 64, Q of
200 and 800. One size varies, the others are N = 4,000, K = 10, M = 10 and Q = 100. Usage::

    CALIBRANT_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/complexity.py [--repeats 3]
"""

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sizes import made_rows

from calibrant import Calibrator, GaussianProcessCalibration, TemperatureScaling
from calibrant.calibrators.latent.gaussian_process.fit import bound_of_rows
from calibrant.calibrators.latent.gaussian_process.latent_function import KernelParameters, latent_scores
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.objective.source import ArraySource

GRIDS = {
    "N": (16_000, 64_000),
    "K": (80, 320),
    "M": (24, 64),
    "Q": (200, 800),
}
DEFAULTS = {"N": 4000, "K": 10, "M": 10, "Q": 100}
PREDICTED = 2000
LEAST_SECONDS = 0.02


class Cost(NamedTuple):
    """What is measured: a function of the sizes that returns what to time, the sizes that matter, and the paper's formula."""

    name: str
    prepared: Callable[[dict[str, int]], Callable[[], Any]]
    sizes: str
    paper: str


def labelled(size: dict[str, int]) -> LabelledPredictions:
    predictions, labels = made_rows(size["N"], size["K"])
    return LabelledPredictions.parse(predictions, labels)


def temperature_objective(size: dict[str, int]) -> Callable[[], Any]:
    family = TemperatureScaling().family(size["K"])
    objective = family.objective(ArraySource(labelled(size)).features(family.features))
    return lambda: objective.data_expansion(np.array([0.7]))


def process_objective(full: bool) -> Callable[[dict[str, int]], Callable[[], Any]]:
    def prepared(size: dict[str, int]) -> Callable[[], Any]:
        data = labelled(size)
        scores = latent_scores(data.predictions, "log-probabilities")
        bound = bound_of_rows(scores, data.labels, np.ones(size["N"]), 1.0, size["M"], full=full)
        inducing = np.linspace(-20.0, 0.0, size["M"])
        kernel = KernelParameters(inducing, 1.0, max(20.0 / size["M"], 2.0), 0.0)
        return lambda: bound(-0.1 * inducing, kernel)

    return prepared


def fitting(method: Callable[[dict[str, int]], Calibrator]) -> Callable[[dict[str, int]], Callable[[], Any]]:
    def prepared(size: dict[str, int]) -> Callable[[], Any]:
        predictions, labels = made_rows(size["N"], size["K"])
        return lambda: method(size).fit(predictions, labels)

    return prepared


def predicting(
    method: Callable[[dict[str, int]], Calibrator],
) -> Callable[[dict[str, int]], Callable[[], Any]]:
    def prepared(size: dict[str, int]) -> Callable[[], Any]:
        predictions, labels = made_rows(PREDICTED, size["K"])
        fitted = method(size).fit(predictions.take(slice(1000)), labels[:1000])
        return lambda: fitted.predict_proba(predictions)

    return prepared


def process(**options: Any) -> Callable[[dict[str, int]], Calibrator]:
    def made(size: dict[str, int]) -> Calibrator:
        return GaussianProcessCalibration(size["M"], n_samples=size["Q"], **options)

    return made


def temperature(size: dict[str, int]) -> Calibrator:  # noqa: ARG001
    return TemperatureScaling()


MONTE_CARLO = {"prediction": "monte-carlo"}
COSTS = (
    Cost("temperature, objective", temperature_objective, "NK", "NK"),
    Cost("GP diagonal, objective", process_objective(full=False), "NKM", "NK + M^3"),
    Cost("GP full, objective", process_objective(full=True), "NKM", "NK^2 + M^3"),
    Cost("temperature, fit", fitting(temperature), "NK", ""),
    Cost("GP diagonal, fit", fitting(process(covariance="diagonal")), "NKM", ""),
    Cost("GP full, fit", fitting(process()), "NKM", ""),
    Cost("temperature, prediction", predicting(temperature), "K", "K"),
    Cost("GP mean, prediction", predicting(process()), "KM", "K^a M^2"),
    Cost(
        "GP diagonal Monte Carlo, prediction",
        predicting(process(covariance="diagonal", **MONTE_CARLO)),
        "KMQ",
        "K (M^2 + Q)",
    ),
    Cost("GP full Monte Carlo, prediction", predicting(process(**MONTE_CARLO)), "KMQ", "K^2 (M^2 + Q)"),
)


def seconds(run: Callable[[], Any], repeats: int) -> float:
    """Return the smallest mean CPU time of several runs."""
    run()  # what is loaded or stored at first use should not count
    best = np.inf
    for _ in range(repeats):
        start, n_runs = time.process_time(), 0
        while time.process_time() - start < LEAST_SECONDS:
            run()
            n_runs += 1
        best = min(best, (time.process_time() - start) / n_runs)
    return float(best)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| cost | Table 2 | ms | " + " | ".join(f"exponent of {name}" for name in GRIDS) + " |")
    print("|---|---|---:|" + "---:|" * len(GRIDS))
    for cost in COSTS:
        base = 1000 * seconds(cost.prepared(DEFAULTS), arguments.repeats)
        cells = [cost.name, cost.paper, f"{base:.2f}"]
        for name, grid in GRIDS.items():
            if name not in cost.sizes:
                cells.append("")
                continue
            times = [seconds(cost.prepared(DEFAULTS | {name: value}), arguments.repeats) for value in grid]
            cells.append(f"{np.log(times[1] / times[0]) / np.log(grid[1] / grid[0]):.2f}")
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
