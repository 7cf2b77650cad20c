"""Estimators of the class prior of unlabelled rows: maximum likelihood and confusion matrices."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Matrix, Vector
from calibrant.calibrators.shift.label_shift.diagnostics import Directions
from calibrant.numerics.reductions import row_maxima
from calibrant.numerics.row_blocks import BlockSums
from calibrant.solvers import Solution, least_squares_weights, likeliest_weights

__all__ = [
    "ConfusionPrior",
    "LikelihoodPrior",
    "PriorEstimate",
    "ProfilePaths",
    "mean_ratios",
    "prior_from_solution",
]


SHOWN = 30  # how many classes a table lists


@dataclass(frozen=True, eq=False, repr=False)
class PriorEstimate:
    """Shares of the classes among target rows, estimated without their labels.

    Arrays are in the order of the classes; ``print`` gives a table with the most common class first.

    Attributes
    ----------
    classes : ndarray of shape (K,)
        Label of every class.
    prior : ndarray of shape (K,)
        Estimated shares; they sum to one.
    lower, upper : ndarray of shape (K,)
        Limits of a confidence interval for each share on its own.
    source_prior : ndarray of shape (K,)
        Shares that the calibrated predictions stand for.
    level : float
        Confidence of the intervals.
    method : str
        How the shares were estimated.
    n_rows : int
        Target rows.
    total_weight : float
        How many rows they count for: the sum of their weights.
    indistinct : list of list
        Labels of classes that the predictions cannot tell apart: of each such group, only the sum can be relied on.
    p_value : float
        Probability of predictions that are as far from those implied by the shares, if the target is the source with
        other shares of the classes; small if something else has changed. NaN where it was not computed.
    """

    classes: NDArray[Any]
    prior: Vector
    lower: Vector
    upper: Vector
    source_prior: Vector
    level: float
    method: str
    n_rows: int
    total_weight: float
    indistinct: list[list[Any]]
    p_value: float

    @property
    def ratio(self) -> Vector:
        """Share in the target over share in the source, (K,): what each class's probability is multiplied by."""
        return np.asarray(self.prior / self.source_prior)

    @property
    def identifiable(self) -> bool:
        """Whether labelled source rows show that predictions tell all classes apart."""
        return not self.indistinct

    def __repr__(self) -> str:
        return f"PriorEstimate({len(self.classes)} classes, {self.n_rows} rows, {self.method})"

    def __str__(self) -> str:
        lines = [f"{'class':>12s} {'source':>8s} {'target':>8s}   {self.level:.4g} interval"]
        lines += [
            f"{self.classes[place].item()!s:>12s} {self.source_prior[place]:8.4f} {self.prior[place]:8.4f}   "
            f"{self.lower[place]:.4f} to {self.upper[place]:.4f}"
            for place in np.argsort(-self.prior, kind="stable")[:SHOWN].tolist()
        ]
        if len(self.classes) > SHOWN:
            lines.append(f"{'...':>12s} {len(self.classes) - SHOWN} more")
        return "\n".join(lines)


ROUNDING = 1e-12  # shares below which are zero


def prior_from_solution(solution: Solution) -> NDArray[np.float64]:
    """Return weights on the simplex as shares, (K,), and warn if the solver stopped before its end.

    >>> from calibrant.solvers import least_squares_weights
    >>> prior_from_solution(least_squares_weights(np.eye(2), np.array([0.75, 0.25]))).round(9)
    array([0.75, 0.25])
    """
    solution.warn_unless_converged("LabelShift.estimate")
    shares = np.where(solution.theta > ROUNDING, solution.theta, 0.0)
    return np.asarray(shares / shares.sum())


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
        self.prior = prior_from_solution(likeliest_weights(ratios, row_weights))
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


class ConfusionPrior:
    r"""The shares whose implied predictions are nearest to those of the target rows.

    .. math:: \hat\pi = \arg\min_{\pi \ge 0,\, \sum_k \pi_k = 1}
              \lVert C \pi - \mu \rVert^2 + \rho \sum_k (\pi_k / \pi^0_k - 1)^2

    where column k of C is the mean prediction, or the frequency of each predicted class, among source rows of class k,
    and :math:`\mu` the same over the target rows.

    Parameters
    ----------
    predicted : ndarray of shape (n, K)
        Calibrated predictions of the target rows, or one for the predicted class and zero for the others.
    row_weights : ndarray of shape (n,) or None
    confusion : ndarray of shape (K, K)
        C.
    source_prior : ndarray of shape (K,)
    ridge : float
        :math:`\rho`.

    Attributes
    ----------
    prior : ndarray of shape (K,)
    directions : Directions
    """

    def __init__(
        self,
        predicted: Matrix,
        row_weights: Vector | None,
        confusion: Matrix,
        source_prior: Vector,
        ridge: float,
    ) -> None:
        self.predicted = predicted
        self.row_weights = row_weights
        self.confusion = confusion
        self.n_rows = float(len(predicted) if row_weights is None else row_weights.sum())
        self.mean = np.average(predicted, axis=0, weights=row_weights)
        strengths = ridge / source_prior**2
        gram = confusion.T @ confusion + np.diag(strengths)
        linear = confusion.T @ self.mean + strengths * source_prior
        self.prior = prior_from_solution(least_squares_weights(gram, linear))
        self.slopes = linear - gram @ self.prior
        self.directions = Directions.around(self.prior, gram, self.slopes)

    def rows(self, block: slice) -> Matrix:
        """Return the scores of some rows: what each adds to the slopes."""
        return np.asarray(self.predicted[block] @ self.confusion)

    @property
    def target_variances(self) -> Vector:
        """Variances of the shares from the target rows alone."""
        return self._spread() / self.n_rows

    def limits(self, quantiles: Vector, source_variances: Vector) -> tuple[Vector, Vector]:
        r"""Return the shares t with :math:`(t - \tilde t)^2` at most the squared quantile times the variance at t.

        As in Wilson's interval for a proportion, the variance is that which the share t would give, so that a class
        that is never predicted has an upper limit above zero.
        """
        vectors, curvatures = self.directions.vectors, self.directions.curvatures
        free = self.prior + vectors @ self.slopes / curvatures  # without the bound at zero
        # Which multiple of a row's prediction adds to share k, and how predictions change with that share.
        loads = (vectors @ self.confusion.T) / curvatures[:, np.newaxis]
        changes = vectors @ self.confusion.T
        implied = self.confusion @ self.prior
        squares, tilts = loads**2 @ implied, np.einsum("kj,kj->k", loads**2, changes)
        means, gains = loads @ implied, np.einsum("kj,kj->k", loads, changes)
        # If each row were a draw of one class the variance at t = prior + s would be
        # squares + tilts s - (means + gains s)^2; predictions between zero and one vary less.
        drawn = np.maximum(squares - means**2, 0.0)
        one_row = (loads**2).max(
            axis=1
        ) / self.n_rows  # so that no variance, seen or implied, is taken for less
        share = np.minimum((self._spread() + one_row) / (drawn + one_row), 1.0)
        scale = quantiles**2 * share / self.n_rows
        offset = self.prior - free
        quadratic = 1 + scale * gains**2
        linear = 2 * offset - scale * (tilts - 2 * means * gains)
        constant = offset**2 - scale * drawn - quantiles**2 * source_variances
        root = np.sqrt(np.maximum(linear**2 - 4 * quadratic * constant, 0.0))
        lower = self.prior + (-linear - root) / (2 * quadratic)
        upper = self.prior + (-linear + root) / (2 * quadratic)
        return np.clip(lower, 0.0, self.prior), np.clip(upper, self.prior, 1.0)

    def _spread(self) -> Vector:
        """Return the variance of what a row adds to each share."""
        loads = (self.directions.vectors @ self.confusion.T) / self.directions.curvatures[:, np.newaxis]
        weighted = (
            self.predicted if self.row_weights is None else self.predicted * self.row_weights[:, np.newaxis]
        )
        moments = weighted.T @ self.predicted / self.n_rows
        squares = np.einsum("kj,jl,kl->k", loads, moments, loads, optimize=True)
        return np.asarray(np.maximum(squares - (loads @ self.mean) ** 2, 0.0))
