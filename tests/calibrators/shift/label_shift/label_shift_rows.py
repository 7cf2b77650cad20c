"""Rows of Gaussian classes whose posterior is known, for tests of label shift."""

import numpy as np

from calibrant import Predictions

METHODS = ["em", "confusion", "confusion-soft"]


def rows_of(shares, n_rows, seed, spread=1.5):
    """Return posterior probabilities under equal shares, and labels, of rows with these shares of the classes.

    Class k is a Gaussian of unit variance around ``spread`` times the k-th unit vector, so that the posterior is the softmax
    of spread times x, and calibrated as long as shares are equal.
    """
    generator = np.random.default_rng(seed)
    labels = generator.choice(len(shares), n_rows, p=shares)
    x = generator.normal(size=(n_rows, len(shares))) + spread * np.eye(len(shares))[labels]
    return Predictions.from_logits(spread * x).probabilities, labels


def equal(n_classes):
    return np.full(n_classes, 1 / n_classes)
