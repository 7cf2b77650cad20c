"""Rows for the tests of the reductions to two classes."""

import numpy as np
from numpy.typing import NDArray


def some_rows(
    n_classes: int, n_rows: int = 600, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return over-confident and biased predictions, with labels of all classes."""
    generator = np.random.default_rng([seed, n_classes])
    probabilities = generator.dirichlet(np.full(n_classes, 0.5), n_rows)
    logits = 0.8 * np.log(probabilities + 1e-9) + np.linspace(-0.2, 0.2, n_classes)
    labels = (logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    labels[:n_classes] = np.arange(n_classes)
    return probabilities, labels


# Three rows on which temperatures against the rest, made to sum to one, are worse than no calibration.
WORSE_TOGETHER = np.array([[0.1, 0.1, 0.8], [0.3, 0.1, 0.6], [0.2, 0.3, 0.5]]), np.array([2, 0, 1])
