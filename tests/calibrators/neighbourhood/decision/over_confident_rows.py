"""Rows of a classifier that is too sure of itself."""

import numpy as np


def over_confident(n_rows=400, n_classes=4, seed=0, sharpness=2.0):
    """Labels are drawn from q, and q to some power is predicted, with some classes favoured."""
    generator = np.random.default_rng([seed, n_classes])
    truth = generator.dirichlet(np.full(n_classes, 0.8), n_rows)
    predicted = truth**sharpness * np.linspace(0.6, 1.4, n_classes) + 1e-6
    predicted /= predicted.sum(axis=1, keepdims=True)
    labels = (np.log(truth) + generator.gumbel(size=truth.shape)).argmax(axis=1)
    labels[:n_classes] = np.arange(n_classes)
    return predicted, labels
