"""Limits of the weights of a mixture from its likelihood, along the path on which the other weights give way."""

import numpy as np
from numpy.typing import NDArray

from calibrant.numerics.row_blocks import BlockSums

__all__ = ["ProfilePaths"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

MAX_DOUBLINGS = 60
MAX_STEPS = 40
ACCURACY = (
    1e-3  # of the square root of the fall, so that limits are right to about a thousandth of a standard error
)


class ProfilePaths:
    r"""For each weight k, a path through the simplex on which that weight is t and the others give way.

    From the estimate along the direction of least curvature until another weight would become negative, then straight
    to the corner where the weight is one, or to where it is zero and the others keep their ratios. The likelihood
    along the path is exact; it is below the profile likelihood by what the bend of the true path would gain, which is of
    third order in the distance.

    Parameters
    ----------
    likelihoods : ndarray of shape (n, K)
        Likelihood of each row in each component.
    row_weights : ndarray of shape (n,) or None
    weights : ndarray of shape (K,)
        The estimate.
    vectors : ndarray of shape (K, K)
        Row k: the direction of weight k, see :class:`Directions`.
    """

    def __init__(
        self, likelihoods: Matrix, row_weights: Vector | None, weights: Vector, vectors: Matrix
    ) -> None:
        self.likelihoods = likelihoods
        self.row_weights = row_weights
        self.weights = weights
        self.mixture = likelihoods @ weights
        self.moves = likelihoods @ vectors.T
        with np.errstate(divide="ignore", invalid="ignore"):
            rooms = np.where(vectors < 0, -weights / vectors, np.inf).min(axis=1)
            falls = np.where(vectors > 0, weights / vectors, np.inf).min(axis=1)
        self.bend_above = np.minimum(weights + np.maximum(rooms, 0), 1.0)
        self.bend_below = np.maximum(weights - np.maximum(falls, 0), 0.0)

    def falls(self, places: Vector) -> Vector:
        """Return twice the fall of the log-likelihood at weight k = ``places[k]``, (K,)."""
        of_mixture, of_moves, of_own = self._coefficients(places)
        smallest = np.finfo(np.float64).tiny

        def block(rows: slice) -> Vector:
            mixture = self.mixture[rows, np.newaxis]
            changed = of_mixture * mixture + of_moves * self.moves[rows] + of_own * self.likelihoods[rows]
            gains = np.log(np.maximum(changed, smallest) / mixture)
            if self.row_weights is not None:
                gains *= self.row_weights[rows, np.newaxis]
            return np.asarray(gains.sum(axis=0))

        with BlockSums.over(*self.likelihoods.shape) as sums:
            return np.maximum(-2 * sums(block), 0.0)

    def limits(self, allowed: Vector, widths: Vector) -> tuple[Vector, Vector]:
        """Return where the fall reaches ``allowed[k]`` on either side; ``widths`` are first guesses of how far."""
        return self._limit(allowed, widths, -1.0), self._limit(allowed, widths, 1.0)

    def _limit(self, allowed: Vector, widths: Vector, side: float) -> Vector:
        """Find limits on one side of all weights at a time by false position on the root of the fall."""
        ends = np.full_like(self.weights, 1.0 if side > 0 else 0.0)
        wanted = np.sqrt(allowed)
        room = np.abs(ends - self.weights)
        inner, outer = np.zeros_like(room), np.minimum(np.maximum(widths, 1e-12), room)
        at_inner, at_outer = -wanted, self._excess(outer, side, wanted)
        for _ in range(MAX_DOUBLINGS):
            grow = (at_outer < 0) & (outer < room)
            if not grow.any():
                break
            inner, at_inner = np.where(grow, outer, inner), np.where(grow, at_outer, at_inner)
            outer = np.where(grow, np.minimum(2 * outer, room), outer)
            at_outer = np.where(grow, self._excess(outer, side, wanted), at_outer)
        found = outer  # the end, where even that is not far enough
        is_open = at_outer > 0
        for _ in range(MAX_STEPS):
            if not is_open.any():
                break
            share = np.divide(at_inner, at_inner - at_outer, out=np.full_like(wanted, 0.5), where=is_open)
            place = inner + np.clip(share, 1e-3, 1 - 1e-3) * (outer - inner)
            excess = self._excess(np.where(is_open, place, 0.0), side, wanted)
            found = np.where(is_open, place, found)
            # The Illinois rule: an end that stays counts half, lest the other one creeps.
            below = excess < 0
            at_outer = np.where(below, at_outer / 2, excess)
            at_inner = np.where(below, excess, at_inner / 2)
            inner, outer = np.where(below, place, inner), np.where(below, outer, place)
            is_open = is_open & (np.abs(excess) > ACCURACY * wanted)
        return self.weights + side * found

    def _excess(self, distances: Vector, side: float, wanted: Vector) -> Vector:
        return np.asarray(np.sqrt(self.falls(self.weights + side * distances)) - wanted)

    def _coefficients(self, places: Vector) -> tuple[Vector, Vector, Vector]:
        """Return what the path is made of: of the estimated mixture, of the direction, and of the component itself."""
        straight = np.clip(places, self.bend_below, self.bend_above)
        above = np.maximum(places - self.bend_above, 0) / np.maximum(1 - self.bend_above, 1e-300)
        below = np.maximum(self.bend_below - places, 0) / np.maximum(self.bend_below, 1e-300)
        others = np.maximum(1 - self.bend_below, 1e-300)
        of_mixture = np.where(below > 0, 1 - below + below / others, 1 - above)
        of_own = np.where(below > 0, -below * self.bend_below / others, above)
        return of_mixture, of_mixture * (straight - self.weights), of_own
