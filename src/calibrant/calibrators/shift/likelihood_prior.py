"""Class shares of unlabelled rows by maximum likelihood: what the steps of Saerens and others converge to."""

import numpy as np

from calibrant.arrays import Matrix, Vector
from calibrant.calibrators.shift.shares_found import shares_found
from calibrant.calibrators.shift.simplex_directions import Directions
from calibrant.numerics.reductions import row_maxima
from calibrant.numerics.row_blocks import BlockSums
from calibrant.solvers import likeliest_weights

__all__ = ["LikelihoodPrior", "ProfilePaths", "mean_ratios"]


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


class LikelihoodPrior:
    r"""The shares that make calibrated predictions of unlabelled rows most likely.

    .. math:: \hat\pi = \arg\max_\pi \sum_i w_i \log \sum_k \pi_k \frac{q_{ik}}{\pi^0_k}

    Concave, hence one maximum, found by :func:`likeliest_weights`. With :math:`r_{ik} = (q_{ik} / \pi^0_k) / \sum_j
    \hat\pi_j q_{ij} / \pi^0_j` the mean of r is one for every class with a share, and the information of a row
    is :math:`r_i r_i^\top`, which is also the square of its score: no further correction for the target rows is due.

    Parameters
    ----------
    probabilities : ndarray of shape (n, K)
        Calibrated predictions q of the target rows.
    row_weights : ndarray of shape (n,) or None
        How many rows each counts for.
    source_prior : ndarray of shape (K,)
        Shares that the predictions are calibrated for, all positive.

    Attributes
    ----------
    prior : ndarray of shape (K,)
    directions : Directions
        How the estimate reacts to a change of the mean of r.
    """

    def __init__(self, probabilities: Matrix, row_weights: Vector | None, source_prior: Vector) -> None:
        ratios = probabilities / source_prior
        ratios /= row_maxima(ratios)[:, np.newaxis]  # a factor of a row changes nothing
        self.ratios = ratios
        self.row_weights = row_weights
        self.n_rows = float(len(ratios) if row_weights is None else row_weights.sum())
        self.prior = shares_found(likeliest_weights(ratios, row_weights))
        scores, information = self._moments()
        self.directions = Directions.around(self.prior, information, scores)

    def rows(self, block: slice) -> Matrix:
        """Return the scores r of some rows."""
        part = self.ratios[block]
        return np.asarray(part / (part @ self.prior)[:, np.newaxis])

    def limits(self, quantiles: Vector, source_variances: Vector) -> tuple[Vector, Vector]:
        """Return limits where twice the log-likelihood has fallen by the squared quantile.

        A variance from elsewhere makes the fall that is allowed larger, in the ratio of the variances
        :cite:`royall2003`.
        """
        variances = self.target_variances
        inflation = 1 + source_variances / variances
        paths = ProfilePaths(self.ratios, self.row_weights, self.prior, self.directions.vectors)
        widths = quantiles * np.sqrt(variances + source_variances)
        return paths.limits(quantiles**2 * inflation, widths)

    @property
    def target_variances(self) -> Vector:
        """Variances of the shares from the target rows alone."""
        return np.asarray(1 / (self.n_rows * self.directions.curvatures))

    def _moments(self) -> tuple[Vector, Matrix]:
        size = len(self.prior)

        def block(rows: slice) -> Vector:
            scores = self.rows(rows)
            counted = scores if self.row_weights is None else scores * self.row_weights[rows, np.newaxis]
            return np.concatenate([counted.sum(axis=0), (counted.T @ scores).ravel()])

        with BlockSums.over(*self.ratios.shape) as sums:
            total = sums(block) / self.n_rows
        return total[:size], total[size:].reshape(size, size)


def mean_ratios(
    probabilities: Matrix, row_weights: Vector | None, source_prior: Vector, prior: Vector
) -> Vector:
    """Return the mean of r, (K,), for predictions and shares of the source as another fit would have them."""
    ratios = probabilities / source_prior
    ratios /= (ratios @ prior)[:, np.newaxis]
    return np.asarray(np.average(ratios, axis=0, weights=row_weights))
