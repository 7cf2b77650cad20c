"""Where inducing points are worth most."""

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.latent.process_kernel import squared_exponential

__all__ = ["placed_inducing_points"]

Vector = NDArray[np.float64]

# Where the points so far leave less than this share of the variance, another one would only repeat them.
REDUNDANT = 1e-7

# Places without any information count this much of the best one, so that none is left without a neighbour.
LEAST_INFORMATION = 1e-6


def placed_inducing_points(
    places: Vector, information: Vector, length_scale: float, n_inducing: int
) -> Vector:
    """Return at most so many of the places, in their order, for a squared exponential kernel of this length scale.

    One after the other, each where the variance that the points so far leave unexplained, times the information that
    the rows have about this place, is largest :cite:`burt2020`. There are fewer where the kernel is so smooth
    that more would only repeat them. O(G M^2) for G places.

    >>> placed_inducing_points(np.linspace(0, 1, 11), np.ones(11), length_scale=0.3, n_inducing=3)
    array([0. , 0.5, 1. ])
    """
    worth = np.maximum(information, LEAST_INFORMATION * max(float(information.max()), np.finfo(float).tiny))
    unexplained = np.ones(len(places))
    explained = np.empty((0, len(places)))
    chosen: list[int] = []
    for _ in range(n_inducing):
        best = int(np.argmax(unexplained * worth))
        if unexplained[best] <= REDUNDANT:
            break
        chosen.append(best)
        column = squared_exponential(places, places[[best]], 1.0, length_scale)[:, 0]
        column -= explained[:, best] @ explained
        column /= np.sqrt(unexplained[best])
        explained = np.vstack([explained, column])
        unexplained = np.maximum(unexplained - column * column, 0.0)
        unexplained[best] = 0.0
    placed: Vector = places[np.sort(chosen)]
    return placed
