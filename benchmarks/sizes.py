"""Seconds that networks, order-preserving maps, Gaussian processes and splines take at several sizes, next to temperature.

Rows are made up: logits of a classifier that is too sure of itself, float32, whose labels are drawn from an honest softmax.
Sizes are rows x classes; after each fit as many rows as the second number are predicted. One process, as many threads as
``CALIBRANT_NUM_THREADS`` says. Usage::

    CALIBRANT_NUM_THREADS=1 python benchmarks/sizes.py [--sizes 1000x10 ...] [--methods gp ...] [--predict 10000]
"""

import argparse
import time
import warnings

import numpy as np

from calibrant import Predictions, registry

SIZES = ["1000x10", "5000x10", "5000x100", "1000x1000"]
METHODS = ["temperature", "pts", "iop-diagonal", "iop-invariant", "iop", "gp", "gp-monotone", "spline"]
OVERCONFIDENCE = 1.8
ACCURACY = 4.0  # how many logits the true class is ahead, on average


def made_rows(n_rows: int, n_classes: int, seed: int = 0) -> tuple[Predictions, np.ndarray]:
    """Return logits and labels."""
    generator = np.random.default_rng(seed)
    honest = generator.normal(size=(n_rows, n_classes), scale=1.5)
    favoured = generator.integers(n_classes, size=n_rows)
    honest[np.arange(n_rows), favoured] += ACCURACY + np.log(n_classes)
    labels = (honest + generator.gumbel(size=honest.shape)).argmax(axis=1)
    labels[:n_classes] = np.arange(n_classes)[:n_rows]
    return Predictions.from_logits((OVERCONFIDENCE * honest).astype(np.float32)), labels


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", default=SIZES)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--predict", type=int, default=10_000)
    arguments = parser.parse_args()
    print(f"Seconds to fit, and to predict {arguments.predict:,} rows\n")
    print("| method | " + " | ".join(size.replace("x", " x ") for size in arguments.sizes) + " |")
    print("|---|" + "---|" * len(arguments.sizes))
    sizes = [tuple(int(number) for number in size.split("x")) for size in arguments.sizes]
    problems = [(made_rows(*size), made_rows(arguments.predict, size[1], seed=1)[0].scores) for size in sizes]
    registry.make("temperature").fit(*made_rows(100, 3))  # what is loaded at first use should not count
    for method in arguments.methods:
        cells = []
        for (calibration, labels), new in problems:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                start = time.perf_counter()
                fitted = registry.make(method).fit(calibration, labels)
                fit_seconds = time.perf_counter() - start
            start = time.perf_counter()
            fitted.predict_proba(Predictions.from_logits(new))
            cells.append(f"{fit_seconds:.2f} / {time.perf_counter() - start:.2f}")
        print(f"| `{method}` | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
