"""Rows for tests of one increasing function for all classes, and what it makes of them."""

import numpy as np

from calibrant import LabelledPredictions, Predictions
from calibrant.graph.apply import evaluated


def logit_problem(n_rows=400, n_classes=4, seed=0, dtype=np.float64):
    """Over-confident logits whose labels come from the softmax of a concave function of them."""
    generator = np.random.default_rng(seed)
    logits = generator.gumbel(size=(n_rows, n_classes)) * 3
    logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    honest = np.where(logits > -2, 0.5 * logits, -1 + 1.2 * (logits + 2))
    labels = (honest + generator.gumbel(size=honest.shape)).argmax(axis=1)
    return logits.astype(dtype), labels


def labelled(logits, labels, weights=None):
    return LabelledPredictions.parse(Predictions.from_logits(logits), labels, weights)


def calibrated_logits(fitted, predictions):
    return evaluated(fitted.traced, predictions)


def probabilities(fitted, logits):
    calibrated = calibrated_logits(fitted, Predictions.from_logits(logits))
    return Predictions.from_logits(calibrated).probabilities
