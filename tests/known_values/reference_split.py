"""The split and the figures of the tables that published programs are compared by.

Each program calibrated networks of netcal's examples on the first half of a seeded permutation of their 10,000 rows and
was judged on the second.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from data import load

N_BINS = 15


class Halves(NamedTuple):
    """Probabilities in float64, which sum to one only to the accuracy of float32, and labels."""

    calibration: NDArray[np.float64]
    labels: NDArray[np.integer]
    test: NDArray[np.float64]
    test_labels: NDArray[np.integer]


def halves_of(network: str) -> Halves:
    """Return rows for calibration and for testing; arrays are read-only."""
    arrays = load(f"cifar_netcal/{network}")
    probabilities, labels = arrays["probs"].astype(np.float64), arrays["y"]
    first, last = np.split(np.random.default_rng(0).permutation(10_000), 2)
    halves = Halves(probabilities[first], labels[first], probabilities[last], labels[last])
    for array in halves:
        array.flags.writeable = False
    return halves


class Figures(NamedTuple):
    """One row of a table; the Brier score is summed over classes, the class-wise error is their mean."""

    log_loss: float
    clipped_log_loss: float  # with no probability of a true class below 1e-15
    brier_score: float
    confidence_ece: float
    classwise_ece: float
    accuracy: float

    def printed(self) -> tuple[str, str, str, str, str]:
        """Return the five columns, the clipped log-loss in brackets where it differs."""
        loss, clipped = f"{self.log_loss:.5f}", f"{self.clipped_log_loss:.5f}"
        return (
            loss if loss == clipped else f"{loss} ({clipped})",
            f"{self.brier_score:.5f}",
            f"{self.confidence_ece:.5f}",
            f"{self.classwise_ece:.6f}",
            f"{self.accuracy:.4f}",
        )


def figures(rows: NDArray[np.float64], labels: NDArray[np.integer]) -> Figures:
    """Return the figures by their formulas: rows of some programs do not sum to one, which metrics refuse."""
    outcomes = np.eye(rows.shape[1], dtype=bool)[labels]
    with np.errstate(divide="ignore"):
        log_loss = -np.log(rows[outcomes]).mean()
    right = rows.argmax(axis=1) == labels
    return Figures(
        log_loss,
        -np.log(np.maximum(rows[outcomes], 1e-15)).mean(),
        ((rows - outcomes) ** 2).sum(axis=1).mean(),
        binned_error(rows.max(axis=1), right),
        float(np.mean([binned_error(*column) for column in zip(rows.T, outcomes.T, strict=True)])),
        right.mean(),
    )


def binned_error(scores: NDArray[np.float64], outcomes: NDArray[np.bool_]) -> float:
    """Return the expected calibration error in bins of equal width, closed on the right.

    Bin numbers are found by multiplication: smoothed frequencies often lie on an edge, to the last bit or next to it.
    """
    index = (
        np.ceil(N_BINS * scores).clip(1, N_BINS).astype(int)
    )  # zero, and what exceeds one, in the nearest bin
    return float(np.abs(np.bincount(index, scores - outcomes)).sum() / len(scores))
