"""Predictions whose calibration is known by construction, for tests of the report."""

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def drawn(n_rows: int, n_classes: int, seed: int = 0, spread: float = 1.5) -> tuple[NDArray[np.intp], Matrix]:
    """Return labels drawn from probabilities, and the probabilities: calibrated."""
    generator = np.random.default_rng(seed)
    scores = spread * generator.normal(size=(n_rows, n_classes))
    probabilities = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    places = probabilities.cumsum(axis=1)
    labels = (generator.random((n_rows, 1)) > places).sum(axis=1)
    return np.minimum(labels, n_classes - 1), probabilities


def powered(probabilities: Matrix, power: float) -> Matrix:
    """Return over-confident predictions for a power above one, under-confident ones for one below."""
    changed = probabilities**power
    return changed / changed.sum(axis=1, keepdims=True)
