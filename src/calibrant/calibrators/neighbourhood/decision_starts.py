"""Partitions from which to search for the worst one: along informed directions, and at random."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

__all__ = ["partitions_to_start_from"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

# Directions of each informed kind.
N_DIRECTIONS = 4


def partitions_to_start_from(
    scores: Matrix,
    residuals: Matrix,
    shares: Vector,
    n_decisions: int,
    steepness: float,
    n_searches: int,
    generator: np.random.Generator,
) -> list[Matrix]:
    r"""Return partitions that are worth a look, each half as steep as allowed: weights of all parts but the last.

    A soft partition with a gentle slope u has mean residuals :math:`R^\top b \approx \bar r / 2 + C^\top u / 4` with the
    covariance C of scores and residuals. So the informed directions are those in which C is largest, its first left
    singular vectors, and the classes whose scores have the largest covariance; rows are parted along each about their
    mean. Random partitions are drawn in the basis of the former, so that none of them depends on the order of the
    rows or classes.

    Parameters
    ----------
    scores, residuals : ndarray of shape (n, K)
        As in :class:`Violation`.
    shares : ndarray of shape (n,)
        Share of each row in the total weight.
    n_decisions : int
        Parts, k.
    steepness : float
        Limit on the size of any weight.
    n_searches : int
        Searches to come: at least as many random partitions are among the starts.
    generator : Generator
        Source of their numbers.
    """
    n_classes = scores.shape[1]
    mean = shares @ scores
    covariance = scores.T @ residuals - np.outer(mean, residuals.sum(axis=0))
    squares = covariance @ covariance.T
    wanted = [max(0, n_classes - max(N_DIRECTIONS, n_searches)), n_classes - 1]
    vectors: Matrix = eigh(squares, subset_by_index=wanted)[1].T[::-1]
    # The sign of an eigenvector means nothing, and is left to chance otherwise.
    vectors = vectors * np.where((vectors**3).sum(axis=1) < 0, -1.0, 1.0)[:, np.newaxis]
    columns = np.argsort(-np.diag(squares), kind="stable")[:N_DIRECTIONS]
    informed = [*vectors[:N_DIRECTIONS], *(np.eye(1, n_classes, column)[0] for column in columns)]
    slopes = np.linspace(-0.5, 0.5, n_decisions)
    starts = []
    for direction in informed:
        spread = np.sqrt(shares @ (scores @ direction - mean @ direction) ** 2)
        # Neighbouring parts meet at these places along the direction: the mean, or around it.
        places = mean @ direction + spread * (np.arange(n_decisions - 1) - (n_decisions - 2) / 2)
        offsets = np.concatenate([[0.0], -np.cumsum(np.diff(slopes) * places)])
        # Rows sum to one, so that a number added to all weights is an offset.
        starts.append(np.outer(slopes, direction) + (offsets - offsets.mean())[:, np.newaxis])
    for _ in range(max(N_DIRECTIONS, n_searches)):
        drawn = generator.standard_normal((n_decisions, len(vectors))) @ vectors
        starts.append(drawn - (drawn @ mean)[:, np.newaxis])
    relative = [start[:-1] - start[-1] for start in starts]
    return [start * (steepness / 2 / max(float(np.abs(start).max()), 1e-300)) for start in relative]
