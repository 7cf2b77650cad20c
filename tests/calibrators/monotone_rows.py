"""Rows, fits and a second, dense implementation of latent processes, shared by their tests."""

from functools import cache

import numpy as np

from calibrant import GaussianProcessCalibration, Predictions


def some_rows(n_rows=200, n_classes=3, seed=0, scale=2.0, true_map=lambda z: z / 2):
    """Log-probabilities and labels that are right after ``true_map``."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(scale=scale, size=(n_rows, n_classes))
    scores = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    shares = naive_softmax(true_map(scores))
    labels = (shares.cumsum(axis=1) < generator.uniform(size=(n_rows, 1))).sum(axis=1).clip(max=n_classes - 1)
    return scores, labels


def naive_softmax(values):
    shares = np.exp(values - values.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def slope_at(z, knots, slopes):
    """Straight lines between knots, constant beyond them."""
    return np.interp(z, knots, slopes)


def naive_value(z, knots, slopes):
    """Integral of the slope from the last knot to z, by trapezia that are exact since all corners are on the grid."""
    low, high = min(z, knots[-1]), max(z, knots[-1])
    grid = np.concatenate([[low], knots[(knots > low) & (knots < high)], [high]])
    heights = slope_at(grid, knots, slopes)
    area = float(((heights[1:] + heights[:-1]) / 2 * np.diff(grid)).sum())
    return area if z > knots[-1] else -area


def naive_loss(scores, labels, weights, knots, slopes):
    total = 0.0
    for row, label, weight in zip(scores, labels, weights, strict=True):
        values = np.array([naive_value(z, knots, slopes) for z in row])
        total += weight * (np.log(np.exp(values).sum()) - values[label])
    return total


def kernel(first, second, variance, length_scale):
    return variance * np.exp(-((first[:, np.newaxis] - second) ** 2) / (2 * length_scale**2))


def dense_process(scores, labels, variance, length_scale, places):
    """Laplace approximation of a Gaussian process without bounds, all scores as its inputs.

    Newton's method on the latent values f of all nK scores and the wanted places, (K + W)^-1 by a plain inverse.
    Returns mean and covariance of g = z + f at the places.
    """
    n_rows, n_classes = scores.shape
    inputs = np.concatenate([scores.ravel(), places])
    prior = kernel(inputs, inputs, variance, length_scale) + 1e-9 * variance * np.eye(len(inputs))
    outcomes = np.eye(n_classes)[labels].ravel()
    latent = np.zeros(len(inputs))
    for _ in range(30):
        shares = naive_softmax(scores + latent[: scores.size].reshape(scores.shape))
        gradient = np.zeros(len(inputs))
        gradient[: scores.size] = outcomes - shares.ravel()
        curvature = np.zeros((len(inputs), len(inputs)))
        for row in range(n_rows):
            part = slice(row * n_classes, (row + 1) * n_classes)
            curvature[part, part] = np.diag(shares[row]) - np.outer(shares[row], shares[row])
        system = np.eye(len(inputs)) + prior @ curvature
        latent = np.linalg.solve(system, prior @ (curvature @ latent + gradient))
    covariance = np.linalg.solve(system, prior)
    return places + latent[scores.size :], covariance[scores.size :, scores.size :]


def bent_problem(n_rows=1500, n_classes=4, seed=0, bend=0.1):
    """Log-probabilities z whose honest version is z / 2 + bend z |z|, and labels that follow it: no temperature will do."""
    generator = np.random.default_rng(seed)
    logits = 2.5 * generator.normal(size=(n_rows, n_classes))
    logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    honest = 0.5 * logits - bend * logits**2
    labels = (honest + generator.gumbel(size=honest.shape)).argmax(axis=1)
    return logits, labels


@cache
def fitted_to_bent(n_rows=1500, seed=0, bend=0.1, **parameters):
    """Return a Gaussian process calibrator fitted to the bent problem, the same one at every call: not to be changed."""
    logits, labels = bent_problem(n_rows, seed=seed, bend=bend)
    return GaussianProcessCalibration(**parameters).fit(Predictions.from_logits(logits), labels)
