"""How often tests reject calibrated predictions, and how often intervals contain the truth, by simulation.

Usage::

    python benchmarks/levels_and_coverage.py [--simulations 400]
"""

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from calibrant.hypothesis_tests import (
    calibration_slope_intercept,
    cumulative_test,
    hosmer_lemeshow_test,
    spiegelhalter_test,
)
from calibrant.intervals import bootstrap, loss_difference
from calibrant.metrics import brier_score, calibration_error_lower_bound, confidence_ece, debiased_ece

Rows = tuple[Any, Any]
SCORES: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "uniform": lambda generator, n: generator.random(n),
    "ten scores": lambda generator, n: generator.choice((np.arange(10) + 0.5) / 10, n),
    "rare, Beta(.3, 10)": lambda generator, n: generator.beta(0.3, 10, n),
    "sure, Beta(50, .25)": lambda generator, n: generator.beta(50, 0.25, n),
}


def calibrated(generator: np.random.Generator, name: str, n_rows: int) -> Rows:
    p = SCORES[name](generator, n_rows)
    return (generator.random(n_rows) < p).astype(int), p


def levels(n_simulations: int) -> None:
    print(
        "\nshare of calibrated samples that a test rejects at the 5 % level (a limit above zero for the bound)"
    )
    found: dict[str, Callable[[Any, Any], bool]] = {
        "Kuiper": lambda y, p: cumulative_test(y, p).p_value < 0.05,
        "Kuiper, uncorrected": lambda y, p: cumulative_test(y, p, continuity_correction=False).p_value < 0.05,
        "KS": lambda y, p: cumulative_test(y, p, statistic="ks").p_value < 0.05,
        "Spiegelhalter": lambda y, p: spiegelhalter_test(y, p).p_value < 0.05,
        "Hosmer-Lemeshow": lambda y, p: hosmer_lemeshow_test(y, p).p_value < 0.05,
        "lower bound": lambda y, p: calibration_error_lower_bound(y, p, kind="positive").limit > 0,
    }
    print(f"  {'scores':22s} {'rows':>5s} " + " ".join(f"{name:>19s}" for name in found))
    for scores in SCORES:
        for n_rows in (50, 200, 1000):
            generator = np.random.default_rng(n_rows)
            counts = dict.fromkeys(found, 0)
            for _ in range(n_simulations):
                y, p = calibrated(generator, scores, n_rows)
                for name, rejects in found.items():
                    counts[name] += bool(rejects(y, p))
            shares = " ".join(f"{100 * count / n_simulations:17.1f} %" for count in counts.values())
            print(f"  {scores:22s} {n_rows:5d} {shares}", flush=True)


def coverage_of_errors(n_simulations: int) -> None:
    print("\nshare of 95 % bootstrap intervals that contain the true error; 500 rows, shifted by the error")
    print(
        f"  {'true error':>10s} {'plug-in, percentile':>20s} {'plug-in, basic':>20s} {'debiased square':>20s}"
    )
    for error in (0.0, 0.02, 0.05, 0.15):
        generator = np.random.default_rng(int(1000 * error))
        counts = np.zeros(3)
        for _ in range(n_simulations):
            p = generator.uniform(0.5 + error, 1, 500)
            y = (generator.random(500) < p - error).astype(int)
            rows = y, np.column_stack([1 - p, p])
            plain = {"n_resamples": 400}
            counts += [
                error in bootstrap(confidence_ece, *rows, **plain),
                error in bootstrap(confidence_ece, *rows, method="basic", **plain),
                error**2 in bootstrap(partial(debiased_ece, signed=True), *rows, **plain),
            ]
        shares = " ".join(f"{100 * count / n_simulations:18.1f} %" for count in counts)
        print(f"  {error:10.2f} {shares}", flush=True)


def coverage_of_means(n_simulations: int) -> None:
    print("\nshare of 95 % intervals that contain the truth (Brier scores of uniform predictions)")
    grid = (np.arange(100_000) + 0.5) / 100_000
    truth = float((grid * (1 - grid)).mean())
    sharper = grid**2 / (grid**2 + (1 - grid) ** 2)
    gain = float((grid * (1 - sharper) ** 2 + (1 - grid) * sharper**2).mean()) - truth
    for n_rows in (40, 200, 1000):
        generator = np.random.default_rng(n_rows)
        counts = np.zeros(5)
        for _ in range(n_simulations):
            y, p = calibrated(generator, "uniform", n_rows)
            q = p**2 / (p**2 + (1 - p) ** 2)
            heavy = generator.lognormal(0, 1.5, n_rows)
            slope = calibration_slope_intercept(y, p).slope
            counts += [
                truth in bootstrap(brier_score, y, p, n_resamples=400),
                truth in bootstrap(brier_score, y, p, method="bca", n_resamples=400),
                gain in loss_difference(y, p, q, loss="brier"),
                gain in loss_difference(y, p, q, loss="brier", sample_weight=heavy),
                slope.low <= 1 <= slope.high,
            ]
        names = ("percentile", "BCa", "loss_difference", "with log-normal weights", "calibration slope")
        shares = ", ".join(
            f"{name} {100 * count / n_simulations:.1f} %" for name, count in zip(names, counts, strict=True)
        )
        print(f"  {n_rows:5d} rows: {shares}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--simulations", type=int, default=400)
    n_simulations = parser.parse_args().simulations
    warnings.simplefilter("ignore")
    print(
        f"{n_simulations} simulations each; two standard errors at 5 % are {200 * (0.0475 / n_simulations) ** 0.5:.1f} %"
    )
    levels(n_simulations)
    coverage_of_means(n_simulations)
    coverage_of_errors(n_simulations)


if __name__ == "__main__":
    main()
