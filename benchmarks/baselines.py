"""Scores of every method on rows that it has not seen, for classifier outputs of the literature.

Reads ``.npz`` files from the folder named by ``CALIBRANT_DATA``, by default ``shared/data`` next to the repository. Sets
with a split of their own (``val_logits, val_y, test_logits, test_y``) are used as they are; of those without (``probs``
or ``logits`` with ``y``), a seeded permutation gives the first half to calibration and the second to testing. Log-loss is
not clipped, Brier is the sum over classes, both ECEs have 15 bins of equal width. Usage::

    python benchmarks/baselines.py [--sets cifar_netcal/c10_wideresnet_16_4 ...] [--methods temperature isotonic ...]
"""

import argparse
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calibrant import Predictions, registry
from calibrant.binning import EqualWidth
from calibrant.metrics import accuracy, brier_score, classwise_ece, confidence_ece, log_loss

FOLDER = Path(os.environ.get("CALIBRANT_DATA", Path(__file__).parents[2] / "shared" / "data"))
SETS = ["cifar_netcal/c10_wideresnet_16_4", "kull_nn/c10_resnet110", "kull_nn/c100_convnet"]
BINS = EqualWidth(15, closed="right")


def halves(name: str) -> tuple[Predictions, NDArray[np.intp], Predictions, NDArray[np.intp]]:
    """Return calibration and test rows of a set."""
    path = FOLDER / f"{name}.npz"
    if not path.exists():
        sys.exit(f"there is no file {path}; set CALIBRANT_DATA to the folder that holds {name}.npz.")
    with np.load(path, allow_pickle=False) as arrays:
        kind = "logits" if any(key.endswith("logits") for key in arrays.files) else "probs"
        given = Predictions.from_logits if kind == "logits" else Predictions.from_probabilities
        if "val_y" in arrays.files:
            return (
                given(arrays[f"val_{kind}"]),
                arrays["val_y"],
                given(arrays[f"test_{kind}"]),
                arrays["test_y"],
            )
        predictions, labels = given(arrays[kind].astype(np.float64)), arrays["y"]
    order = np.random.default_rng(0).permutation(len(labels))
    first, second = order[: len(order) // 2], order[len(order) // 2 :]
    return predictions.take(first), labels[first], predictions.take(second), labels[second]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--methods", nargs="+", default=registry.calibrators())
    arguments = parser.parse_args()
    for name in arguments.sets:
        calibration, calibration_labels, test, test_labels = halves(name)
        print(
            f"\n{name}: {calibration.n_rows:,} calibration and {test.n_rows:,} test rows, {test.n_classes} classes"
        )
        print(
            f"  {'method':20s}{'log-loss':>9s}{'Brier':>9s}{'conf-ECE':>10s}{'class-ECE':>11s}{'accuracy':>10s}{'fit s':>9s}"
        )
        for method in arguments.methods:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                start = time.perf_counter()
                fitted = registry.make(method).fit(calibration, calibration_labels)
                seconds = time.perf_counter() - start
            p = fitted.transform(test)
            print(
                f"  {method:20s}{log_loss(test_labels, p):9.5f}{brier_score(test_labels, p):9.5f}"
                f"{confidence_ece(test_labels, p, binning=BINS):10.5f}"
                f"{classwise_ece(test_labels, p, binning=BINS):11.6f}{accuracy(test_labels, p):10.4f}{seconds:9.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
