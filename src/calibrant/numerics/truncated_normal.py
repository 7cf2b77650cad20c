"""Truncated multivariate normal distribution: draws with all entries above a bound."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from calibrant.arrays import Matrix, Vector

__all__ = ["TruncatedNormal"]


CIRCLE = 2 * np.pi
TRAVEL = np.pi / 2  # after a quarter of a turn nothing but a bound remembers where it began
N_TRAVELS = 10
N_CHAINS = 250  # for moments: deviations are then good to two or three per cent
MAX_BOUNCES = 200  # enough, unless a distribution is pressed flat against most of its walls
TOUCHING = 1e-12  # distance from a wall, in standard deviations, that counts as none


class TruncatedNormal(NamedTuple):
    r"""The distribution :math:`N(\mu, R R^\top)` given that no entry is below a bound.

    Draws are ends of Markov chains by the exact Hamiltonian method of :cite:`pakman2014`. In
    coordinates w with :math:`x = \mu + R w`, a particle gets a standard normal velocity v, follows
    :math:`w \cos t + v \sin t` for a quarter of a turn and bounces off the walls :math:`x_j = \text{bound}`. When it
    meets a wall follows in closed form, so there is no step size and no rejection, and strong correlation
    is no obstacle, as it would be for one entry at a time. Entries whose centre lies beyond the bound are pressed
    against it and bounce without getting far; so after each travel they are drawn anew, one after the other given all
    the rest. A bounce of n chains costs :math:`O(n m^2)`, an entry drawn anew :math:`O(nm)`.

    Attributes
    ----------
    centre : ndarray of shape (m,)
        :math:`\mu`, which may lie beyond the bound.
    covariance : ndarray of shape (m, m)
        :math:`R R^\top`.
    least : float
        The bound.
    inside : ndarray of shape (m,)
        Where chains begin, above the bound.

    Examples
    --------
    >>> half = TruncatedNormal(np.zeros(1), np.eye(1), 0.0, np.ones(1))
    >>> draws = half.draws(np.random.default_rng(0), 10_000)
    >>> bool(draws.min() >= 0), round(float(draws.mean()), 1), round(float(np.sqrt(2 / np.pi)), 1)
    (True, 0.8, 0.8)
    """

    centre: Vector
    covariance: Matrix
    least: float
    inside: Vector

    def draws(self, generator: np.random.Generator, n_draws: int) -> Matrix:
        """Return independent draws (n, m), each the end of a chain of its own."""
        *_, last = self._states(generator, n_draws)
        return last

    def moments(self, generator: np.random.Generator) -> tuple[Vector, Matrix]:
        """Return mean (m,) and covariance (m, m), from the later halves of some chains."""
        sample = np.concatenate(list(self._states(generator, N_CHAINS))[N_TRAVELS // 2 :])
        return sample.mean(axis=0), np.cov(sample, rowvar=False)

    def _states(self, generator: np.random.Generator, n_chains: int) -> Iterator[Matrix]:
        values, vectors = np.linalg.eigh(self.covariance)
        # Directions without variance have no length in w either; rounding may have made some negative.
        values = np.maximum(values, values[-1] * np.finfo(np.float64).eps)
        walls = vectors * np.sqrt(values)
        precision = (vectors / values) @ vectors.T
        pressed = np.flatnonzero(self.centre < self.least)
        offset = np.tile(self.inside - self.centre, (n_chains, 1))
        for _ in range(N_TRAVELS):
            place = offset @ (vectors / np.sqrt(values))
            _travel(place, generator.standard_normal(place.shape), walls, self.centre - self.least)
            # Rounding may have led a hair beyond a wall.
            offset = np.maximum(place @ walls.T, self.least - self.centre)
            for entry in pressed.tolist():
                uniform = generator.uniform(size=n_chains)
                offset[:, entry] = _redrawn(
                    offset, entry, precision[entry], self.least - self.centre, uniform
                )
            yield np.maximum(self.centre + offset, self.least)


def _redrawn(offset: Matrix, entry: int, precision: Vector, wall: Vector, uniform: Vector) -> Vector:
    """Return one entry of every row given the others: a normal variable above its wall."""
    deviation = 1 / np.sqrt(precision[entry])
    mean = offset[:, entry] - (offset @ precision) * deviation**2
    outside = log_ndtr((mean - wall[entry]) / deviation)  # of the part above the wall, on a logarithmic scale
    drawn: Vector = np.maximum(mean - deviation * ndtri_exp(np.log1p(-uniform) + outside), wall[entry])
    return drawn


def _travel(place: Matrix, speed: Matrix, walls: Matrix, distances: Vector) -> None:
    """Move every row of ``place`` along its ellipse, within walls . place + distances >= 0; in place."""
    squares = np.einsum("ji,ji->j", walls, walls)
    moving, left = np.arange(len(place)), np.full(len(place), TRAVEL)
    w, v = place.copy(), speed
    for _ in range(MAX_BOUNCES):
        along, across = w @ walls.T, v @ walls.T
        radius = np.hypot(along, across)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = -distances / radius
        # Of the two times at which a wall is met, the one at which the particle goes outwards.
        time = (np.arctan2(across, along) + np.arccos(np.clip(ratio, -1, 1))) % CIRCLE
        time[radius <= np.abs(distances)] = np.inf
        # On the wall but for rounding and going outwards: it would be found one turn later.
        time[(along + distances <= TOUCHING * np.sqrt(squares)) & (across < 0)] = 0.0
        wall = time.argmin(axis=1)
        step = np.minimum(time[np.arange(len(w)), wall], left)
        cosine, sine = np.cos(step)[:, np.newaxis], np.sin(step)[:, np.newaxis]
        w, v = w * cosine + v * sine, v * cosine - w * sine
        left = left - step
        arrived = left <= 0
        place[moving[arrived]] = w[arrived]
        if arrived.all():
            return
        w, v, left, moving, wall = (array[~arrived] for array in (w, v, left, moving, wall))
        normal = walls[wall]
        v -= (2 * np.einsum("ij,ij->i", v, normal) / squares[wall])[:, np.newaxis] * normal
    # Caught in a corner: where it is, it is inside.
    place[moving] = w
