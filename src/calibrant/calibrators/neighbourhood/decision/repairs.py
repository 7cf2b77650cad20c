"""Repairs of decision calibration: partitions with the largest violation, and their corrections."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from calibrant.arrays import Matrix, Vector
from calibrant.calibrators.neighbourhood.points import Crop, Points, cropped
from calibrant.errors import ParameterError
from calibrant.numerics.rounding import argmin_within_rounding
from calibrant.numerics.row_blocks import BlockSums
from calibrant.options import real_array
from calibrant.solvers import quasi_newton

__all__ = [
    "Adjustment",
    "Plan",
    "Repair",
    "Repairs",
    "SearchEffort",
    "View",
    "Violation",
    "ViolationOf",
    "adjustments",
    "best_decisions",
    "mean_gap",
    "parsed_losses",
    "partitions_to_start_from",
    "repaired",
    "soft_parts",
    "worst_loss",
    "worst_partition",
]


Adjustment = Literal["ratio", "least-squares"]
"""``"ratio"``: the mean residual of each part; ``"least-squares"``: what lowers the squared error most."""


# Squared relative difference of memberships below which parts are indistinguishable.
INDISTINCT = 1e-4


def adjustments(parts: Matrix, residuals: Matrix, shares: Vector, adjustment: Adjustment) -> Matrix:
    r"""Return the correction of every part, (k, K).

    .. math:: a_i = \frac{\sum_j \omega_j b_{ij} (y_j - f_j)}{\sum_j \omega_j b_{ij}} \qquad\text{or}\qquad
              A = (B^\top \Omega B)^{+} B^\top \Omega (Y - F)

    Both are equal for hard partitions. For soft ones the first is a weighted mean with smaller corrections, and the
    second the least-squares solution. Neither raises the squared error: the first adds
    :math:`B D^{-1} B^\top \Omega` times the residuals, a matrix with eigenvalues between 0 and 1.

    Parameters
    ----------
    parts : ndarray of shape (k, n)
        Memberships b, which sum to one for every row.
    residuals : ndarray of shape (n, K)
        :math:`\omega_j (y_j - f_j)`.
    shares : ndarray of shape (n,)
        Share :math:`\omega` of each row in the total weight.
    adjustment : {"ratio", "least-squares"}
        The kind of correction. The pseudo-inverse truncates directions in which memberships hardly differ.

    Examples
    --------
    Two rows in each of two parts; in the first, the event was predicted with 0.9 and observed in one of two rows.

    >>> parts = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]])
    >>> missing = np.array([[0.1, -0.1], [-0.9, 0.9], [0.0, 0.0], [0.0, 0.0]])
    >>> adjustments(parts, missing / 4, np.full(4, 0.25), "ratio").round(12)
    array([[-0.4,  0.4], [ 0. ,  0. ]])
    """
    sums: Matrix = parts @ residuals
    if adjustment == "least-squares":
        products = (parts * shares) @ parts.T
        found: Matrix = np.linalg.pinv(products, rcond=INDISTINCT, hermitian=True) @ sums
        return found
    sizes = (parts @ shares)[:, np.newaxis]
    return np.divide(sums, sizes, out=np.zeros_like(sums), where=sizes > 0)


def parsed_losses(losses: Any, n_classes: int) -> NDArray[np.float64]:
    """Return loss matrices of shape (m, n_decisions, K), from several or from a single one.

    >>> parsed_losses([[0, 10], [1, 1]], 2).shape
    (1, 2, 2)
    """
    if hasattr(losses, "to_numpy"):
        # Its names would be ignored, whatever the order of the classes, and a file could not hold it.
        raise ParameterError(
            f"loss_matrices must be an array or lists, not a {type(losses).__name__}; bring its columns into the order of "
            "the classes and give its to_numpy()."
        )
    matrices = real_array(losses)
    if matrices is not None and matrices.ndim == 2:
        matrices = matrices[np.newaxis]
    if matrices is None or matrices.ndim != 3 or matrices.size == 0 or not np.isfinite(matrices).all():
        raise ParameterError(
            "loss_matrices must be finite numbers of shape (n_decisions, n_classes), one for each decision and class, "
            "or several such tables."
        )
    if matrices.shape[2] != n_classes:
        raise ParameterError(
            f"loss_matrices are for {matrices.shape[2]} classes, but there are {n_classes}; "
            "give every decision a loss for every class."
        )
    if (matrices == matrices[:, :1]).all(axis=(1, 2)).any():
        raise ParameterError(
            "loss_matrices must have at least two different decisions, one per row; with a single one, or with equal "
            "ones, there is nothing to decide."
        )
    return matrices


def best_decisions(scores: Matrix, losses: Matrix) -> Matrix:
    """Return ones where a decision has the least expected loss, the first of equals, and zeros elsewhere, (D, n).

    >>> best_decisions(np.array([[0.95, 0.05], [0.5, 0.5]]), np.array([[0.0, 10.0], [1.0, 1.0]]))
    array([[1., 0.], [0., 1.]])
    """
    expected = losses @ scores.T
    chosen = argmin_within_rounding(expected, float(np.abs(losses).max()), axis=0)
    parts = np.zeros_like(expected)
    parts[chosen, np.arange(len(scores))] = 1
    return parts


def worst_loss(scores: Matrix, residuals: Matrix, matrices: NDArray[np.float64]) -> tuple[Matrix, float]:
    """Return the loss whose best decisions have the largest violation, (D, K), and that violation.

    The violation bounds the gap between expected and observed loss for all losses with the same decisions whose rows have a
    norm of at most one.
    """
    violations = [
        float(np.linalg.norm(best_decisions(scores, losses) @ residuals, axis=1).sum()) for losses in matrices
    ]
    worst = int(np.argmax(violations))
    return matrices[worst], violations[worst]


def mean_gap(scores: Matrix, residuals: Matrix, matrices: NDArray[np.float64]) -> float:
    r"""Return the mean over losses of the absolute gap between observed and expected loss of the best decisions.

    .. math:: \frac{1}{m} \sum_{l=1}^m \Bigl| \sum_j \omega_j \, L_{l, \delta_l(f_j)} \cdot (y_j - f_j) \Bigr|

    Parameters
    ----------
    scores : ndarray of shape (n, K)
        Predictions f.
    residuals : ndarray of shape (n, K)
        :math:`\omega_j (y_j - f_j)`.
    matrices : ndarray of shape (m, D, K)
        Losses L.

    Examples
    --------
    An error is expected in one row of ten, and found in one of four. Errors cost 1.

    >>> round(mean_gap(np.array([[0.9, 0.1]]), np.array([[-0.15, 0.15]]), 1 - np.eye(2)[np.newaxis]), 12)
    0.15
    """
    gaps = [abs(float((losses * (best_decisions(scores, losses) @ residuals)).sum())) for losses in matrices]
    return float(np.mean(gaps))


class SearchEffort(NamedTuple):
    """Effort of the search for the partition with the largest violation.

    Attributes
    ----------
    n_searches : int
        Searches, from the most promising starts.
    precision : float
        Relative gain of a step below which a search ends; the next repair corrects the remainder.
    max_steps : int
        Largest number of steps of a search; longer searches hardly gain.
    """

    n_searches: int = 2
    precision: float = 1e-6
    max_steps: int = 50


def soft_parts(scores: Matrix, partition: Matrix) -> Matrix:
    r"""Return the membership of every row in every part, (k, n): the softmax of ``partition`` (k, K) times the row.

    >>> soft_parts(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([[4.0, -4.0], [0.0, 0.0]])).round(3)
    array([[0.982, 0.5  ], [0.018, 0.5  ]])
    """
    parts: Matrix = partition @ scores.T
    parts -= parts.max(axis=0)
    np.exp(parts, out=parts)
    parts /= parts.sum(axis=0)
    return parts


def _first_parts(scores: Matrix, weights: Matrix) -> Matrix:
    """Return the memberships in all parts but the last, (k - 1, n), whose own weights are zero."""
    parts: Matrix = weights @ scores.T
    if len(parts) == 1:
        np.negative(parts, out=parts)
        with np.errstate(over="ignore"):  # one divided by infinity is the zero it should be
            np.exp(parts, out=parts)
        parts += 1
        return np.divide(1, parts, out=parts)
    largest = np.maximum(parts.max(axis=0), 0)
    parts -= largest
    np.exp(parts, out=parts)
    parts /= parts.sum(axis=0) + np.exp(-largest)
    return parts


@dataclass(frozen=True, eq=False)
class Violation:
    r"""Violation of calibration in the parts of a soft partition, and its gradient.

    .. math:: v(W) = \sum_{i=1}^k \Bigl\| \sum_j \omega_j (y_j - f_j) \, b_{ij} \Bigr\|_2, \qquad
              b_{\cdot j} = \mathrm{softmax}(W f_j)

    with shares :math:`\omega` of the rows in their total weight. A constant added to all rows of W has no effect, so the
    last row is zero, and only the others (k - 1, K) are free.

    Attributes
    ----------
    scores : ndarray of shape (n, K)
        Predictions f; they need not lie on the simplex.
    residuals : ndarray of shape (n, K)
        :math:`\omega_j (y_j - f_j)`.
    in_all_blocks : BlockSums
        Passes over all rows.

    Notes
    -----
    Value and gradient together cost two passes of O(n K k) and, besides the rows, memory O(n k).
    """

    scores: Matrix
    residuals: Matrix
    in_all_blocks: BlockSums

    @cached_property
    def total(self) -> Vector:
        """Sum of all residuals, (K,)."""
        return np.asarray(self.residuals.sum(axis=0))

    def value_and_gradient(self, weights: Matrix) -> tuple[float, Matrix]:
        """Return the violation for weights (k - 1, K) of all parts but the last, and its gradient.

        A part without violation has no direction in which it grows first; it adds nothing to the gradient.
        """
        parts = np.empty((len(weights), len(self.scores)))

        def mean_residuals(rows: slice) -> Matrix:
            of_block = parts[:, rows] = _first_parts(self.scores[rows], weights)
            means: Matrix = of_block @ self.residuals[rows]
            return means

        means = self._with_last(self.in_all_blocks(mean_residuals))
        norms = np.sqrt(np.einsum("ik,ik->i", means, means))[:, np.newaxis]
        units = np.divide(means, norms, out=np.zeros_like(means), where=norms > 0)
        directions = units[:-1] - units[-1]

        def gradient(rows: slice) -> Matrix:
            slopes = directions @ self.residuals[rows].T
            own = parts[:, rows]
            slopes -= np.einsum("ij,ij->j", own, slopes)
            slopes *= own
            of_block: Matrix = slopes @ self.scores[rows]
            return of_block

        return float(norms.sum()), self.in_all_blocks(gradient)

    def value(self, weights: Matrix) -> float:
        """Return the violation alone."""

        def mean_residuals(rows: slice) -> Matrix:
            means: Matrix = _first_parts(self.scores[rows], weights) @ self.residuals[rows]
            return means

        means = self._with_last(self.in_all_blocks(mean_residuals))
        return float(np.linalg.norm(means, axis=1).sum())

    def _with_last(self, means: Matrix) -> Matrix:
        return np.vstack([means, self.total - means.sum(axis=0)])


def worst_partition(
    violation: Violation, starts: Sequence[Matrix], steepness: float, effort: SearchEffort
) -> tuple[Matrix, float]:
    """Search for the partition (k, K) with the largest violation, and return both.

    Parameters
    ----------
    violation : Violation
    starts : sequence of ndarrays of shape (k - 1, K)
        Starts: the weights of all parts but the last.
    steepness : float
        Bound on the weights. Without it partitions become hard and over-fit single rows.
    effort : SearchEffort
        Number of searches, from the starts with the largest violations, and their stopping rules.
    """
    promises = np.array([violation.value(start) for start in starts])
    order = np.argsort(-promises, kind="stable")
    best, unit = starts[order[0]], float(promises[order[0]])
    largest = unit
    bounds = [(-steepness, steepness)] * best.size

    def shortfall(theta: Vector) -> tuple[float, Vector]:
        value, gradient = violation.value_and_gradient(theta.reshape(best.shape))
        return -value / unit, gradient.ravel() / -unit

    for number in order[: effort.n_searches] if unit > 0 else []:
        found = quasi_newton(
            shortfall,
            starts[number].ravel(),
            bounds=bounds,
            tolerance=effort.precision,
            max_iterations=effort.max_steps,
        )
        if -found.value * unit > largest:
            best, largest = found.theta.reshape(best.shape), -found.value * unit
    return np.vstack([best, np.zeros_like(best[:1])]), largest


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
    r"""Return promising partitions with half of the allowed steepness: weights of all parts but the last.

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


ViolationOf = Literal["clipped", "scores"]
"""Predictions that are partitioned and repaired: clipped to [0, 1], or unclipped."""


# Blocks of fewer rows cost more in Python than in arithmetic.
ROWS_AT_LEAST = 8192

# Mean residuals of this size are rounding.
ROUNDING = 1e-12


class View(NamedTuple):
    """Transformation of the scores before they are partitioned and compared with labels.

    For given losses it is the output, or their gap could not vanish, since normalisation changes it. For all losses together
    it is that of the published program.
    """

    hard: bool
    of: ViolationOf
    crop: Crop
    epsilon: float

    def __call__(self, scores: Matrix) -> Matrix:
        """Return the transformed scores (n, K)."""
        if self.of == "scores":
            return scores
        return cropped(scores, self.crop, self.epsilon) if self.hard else np.clip(scores, 0, 1)


class Plan(NamedTuple):
    """Settings of repairs; ``losses`` (m, D, K) are given losses, or None for all losses with this number of decisions."""

    n_decisions: int
    losses: NDArray[np.float64] | None
    adjustment: Adjustment
    view: View
    steepness: float
    effort: SearchEffort
    tolerance: float
    seed: int


class Repair(NamedTuple):
    """One repair: the weights of its parts (k, K), their corrections (k, K), and the violation before it."""

    partition: Matrix
    adjustment: Matrix
    violation: float


def repaired(scores: Matrix, partition: Matrix, adjustment: Matrix, view: View) -> None:
    """Add the corrections of their parts to the scores (n, K), in place.

    With hard parts the partition holds losses, and the part of a row is the decision with the least expected one.
    """
    seen = view(scores)
    parts = best_decisions(seen, partition) if view.hard else soft_parts(seen, partition)
    scores += parts.T @ adjustment


class Repairs:
    """Calibration points on which repairs are found, one at a time.

    Algorithm 1 of :cite:`valk2022`, which is the one of :cite:`zhao2021`.
    """

    def __init__(self, points: Points, plan: Plan) -> None:
        self.plan = plan
        self.scores = points.probabilities.astype(np.float64)
        self.labels = points.labels()
        self.n_rows = float(points.weights.sum())
        self.shares = points.weights / self.n_rows
        self.generator = np.random.default_rng(plan.seed)

    def next(self) -> Repair | None:
        """Find the partition with the largest violation and repair it; None if it does not exceed the tolerance."""
        plan = self.plan
        seen = plan.view(self.scores)
        residuals = self.labels - seen
        residuals *= self.shares[:, np.newaxis]
        if plan.losses is None:
            partition, violation = self._searched(seen, residuals)
            parts = soft_parts(seen, partition)
        else:
            partition, violation = worst_loss(seen, residuals, plan.losses)
            parts = best_decisions(seen, partition)
        if violation <= max(plan.tolerance, ROUNDING):
            return None
        adjustment = adjustments(parts, residuals, self.shares, plan.adjustment)
        self.scores += parts.T @ adjustment
        return Repair(partition, adjustment, violation)

    def _searched(self, seen: Matrix, residuals: Matrix) -> tuple[Matrix, float]:
        plan = self.plan
        starts = partitions_to_start_from(
            seen,
            residuals,
            self.shares,
            plan.n_decisions,
            plan.steepness,
            plan.effort.n_searches,
            self.generator,
        )
        with BlockSums.over(len(seen), seen.shape[1], min_rows=ROWS_AT_LEAST) as in_all_blocks:
            violation = Violation(seen, residuals, in_all_blocks)
            return worst_partition(violation, starts, plan.steepness, plan.effort)
