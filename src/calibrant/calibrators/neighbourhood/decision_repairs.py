"""Repairs: predictions that are repaired where they are worst, one partition after another."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.neighbourhood.crop import Crop, cropped
from calibrant.calibrators.neighbourhood.decision_adjustment import Adjustment, adjustments
from calibrant.calibrators.neighbourhood.decision_losses import best_decisions, worst_loss
from calibrant.calibrators.neighbourhood.decision_partition import (
    Thoroughness,
    Violation,
    soft_parts,
    worst_partition,
)
from calibrant.calibrators.neighbourhood.decision_starts import partitions_to_start_from
from calibrant.calibrators.neighbourhood.points import Points
from calibrant.numerics.row_blocks import BlockSums

__all__ = ["Plan", "Repair", "Repairs", "Thoroughness", "View", "ViolationOf", "repaired"]

ViolationOf = Literal["clipped", "scores"]
"""Which predictions are partitioned and repaired: brought back to [0, 1], or as they are after the repairs so far."""

Matrix = NDArray[np.float64]

# Blocks of fewer rows cost more in Python than in arithmetic.
ROWS_AT_LEAST = 8192

# Mean residuals of this size are rounding.
ROUNDING = 1e-12


class View(NamedTuple):
    """As what scores are seen, when they are parted and compared with labels.

    For losses of a user that is what will be given out, or their gap could not vanish: to divide rows by their sums
    moves it. For all losses together it is what the published program sees.
    """

    hard: bool
    of: ViolationOf
    crop: Crop
    epsilon: float

    def __call__(self, scores: Matrix) -> Matrix:
        """Return the scores (n, K) as they are seen."""
        if self.of == "scores":
            return scores
        return cropped(scores, self.crop, self.epsilon) if self.hard else np.clip(scores, 0, 1)


class Plan(NamedTuple):
    """How to repair; ``losses`` (m, D, K) of the user, or None for all losses with so many decisions."""

    n_decisions: int
    losses: NDArray[np.float64] | None
    adjustment: Adjustment
    view: View
    steepness: float
    thoroughness: Thoroughness
    tolerance: float
    seed: int


class Repair(NamedTuple):
    """One repair: the weights of its parts (k, K), what to add in each (k, K), and the violation it found."""

    partition: Matrix
    adjustment: Matrix
    violation: float


def repaired(scores: Matrix, partition: Matrix, adjustment: Matrix, view: View) -> None:
    """Add to the scores (n, K), in place, what belongs to their parts.

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
        """Find the worst partition and repair it, or return None if nothing is left above the tolerance."""
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
            plan.thoroughness.n_searches,
            self.generator,
        )
        with BlockSums.over(len(seen), seen.shape[1], min_rows=ROWS_AT_LEAST) as in_all_blocks:
            violation = Violation(seen, residuals, in_all_blocks)
            return worst_partition(violation, starts, plan.steepness, plan.thoroughness)
