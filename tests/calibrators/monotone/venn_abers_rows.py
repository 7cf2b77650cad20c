"""Rows for the tests of Venn-Abers calibration."""

import numpy as np
import pytest

both_forms = pytest.mark.parametrize("cv", [None, 4], ids=["inductive", "cross"])
both_losses = pytest.mark.parametrize("loss", ["log", "brier"])


def summing_to_one(X):
    """Put what rounding has left over on the largest entry of every row."""
    X[np.arange(len(X)), X.argmax(axis=1)] += 1 - X.sum(axis=1)
    return X


def some_rows(n_rows=120, n_classes=2, seed=0, decimals=2):
    """Scores with ties, and labels that follow them in part."""
    generator = np.random.default_rng([seed, n_classes])
    X = summing_to_one(generator.dirichlet(np.ones(n_classes), n_rows).round(decimals))
    labels = (0.5 * X.cumsum(axis=1) + 0.5 * np.arange(1, n_classes + 1) / n_classes) < generator.random(
        (n_rows, 1)
    )
    labels = labels.sum(axis=1).clip(max=n_classes - 1)
    labels[:n_classes] = np.arange(n_classes)
    return X, labels
