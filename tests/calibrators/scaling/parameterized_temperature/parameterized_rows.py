"""Rows for the tests of parameterized temperature scaling."""

import numpy as np

from calibrant import Predictions
from calibrant.metrics import brier_score, log_loss

LOSSES = ["log", "brier"]


def rows_of_two_kinds(n_rows=1000, n_classes=4, seed=0):
    """Logits of which those with a large lead are three times too large, and the others as they should be."""
    generator = np.random.default_rng(seed)
    honest = generator.normal(scale=1.5, size=(n_rows, n_classes))
    labels = (honest + generator.gumbel(size=honest.shape)).argmax(axis=1)
    first_two = np.sort(honest, axis=1)[:, :-3:-1]
    bold = first_two[:, 0] - first_two[:, 1] > 1.5
    return np.where(bold[:, np.newaxis], 3 * honest, honest), labels, bold


def own_loss(calibrator, X, y):
    metric = log_loss if calibrator.loss == "log" else brier_score
    return metric(y, calibrator.predict_proba(X))


def logits_of(array):
    return Predictions.from_logits(array)
