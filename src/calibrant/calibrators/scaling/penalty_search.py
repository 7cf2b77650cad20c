"""Cross-validated search for regularisation strengths, with warm starts from neighbouring strengths."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from calibrant.arrays import Vector
from calibrant.objective import CrossEntropy, Expansion, FeatureRows, FullMap, Objective, QuadraticPenalty
from calibrant.objective.curvature import Curvature
from calibrant.solvers import Solution
from calibrant.solvers.newton_cg import newton_steps

__all__ = ["FoldFits", "best_of_grid", "climb"]

Strengths = tuple[float, float]

# Held-out losses differ in the fourth digit at best. After a step that gains this many nats, a fit is about the square of
# that from its optimum.
SEARCH_TOLERANCE = 1e-4

# A gain below this many nats is a plateau, which ends the search.
WORTHWHILE = 2e-5


@dataclass
class FoldFits:
    """The fits of all folds at several penalty strengths.

    Attributes
    ----------
    rows : FeatureRows
        All rows.
    folds : sequence of pairs
        Training rows and test rows.
    losses : dict
        Held-out log-loss per fold for every evaluated (lambda, mu), (F,).
    """

    rows: FeatureRows
    folds: Sequence[tuple[FeatureRows, FeatureRows]]
    logit_map: FullMap
    penalty: Callable[[float, float], QuadraticPenalty]
    start: Vector
    curvature: Curvature | None = None
    losses: dict[Strengths, Vector] = field(default_factory=dict)
    _thetas: dict[Strengths, list[Vector]] = field(default_factory=dict)
    _ends: dict[Strengths, list[Expansion]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._train = [self._objective(train, exact=False) for train, _ in self.folds]
        self._test = [self._objective(test) for _, test in self.folds]
        self._shares = np.array([objective.total_weight for objective in self._test])
        self._shares /= self._shares.sum()

    def loss(self, strengths: Strengths) -> float:
        """Return the mean held-out log-loss over all rows; folds are fitted once."""
        if strengths not in self.losses:
            ends = self._fitted(strengths)
            self._thetas[strengths] = [end.theta for end in ends]
            self.losses[strengths] = np.array(
                [objective.data_loss(end.theta) for objective, end in zip(self._test, ends, strict=True)]
            )
            # A result holds a softmax as large as the rows: keep only possible starts of further fits.
            self._ends[strengths] = ends
            self._ends = {kept: self._ends[kept] for kept in (self.best(), strengths) if kept in self._ends}
        return float(self._shares @ self.losses[strengths])

    def solutions(self, strengths: Strengths, tolerance: float) -> list[Solution]:
        """Return the exact fits of all folds at evaluated strengths."""
        solutions = []
        for rough, theta in zip(self._train, self._thetas[strengths], strict=True):
            objective = rough.with_penalty(self.penalty(*strengths), exact=True)
            with objective.open():
                solution, _, _ = newton_steps(
                    objective, objective.expand(theta), tolerance=tolerance, curvature=self.curvature
                )
                solutions.append(solution)
        return solutions

    def mean_theta(self, strengths: Strengths) -> Vector:
        """Return the mean parameters of the folds at evaluated strengths, a start for a fit to all rows."""
        return np.asarray(np.mean(self._thetas[strengths], axis=0))

    def _fitted(self, strengths: Strengths) -> list[Expansion]:
        """Return the fits of all folds, to the accuracy of a comparison."""
        penalty = self.penalty(*strengths)
        starts = self._nearest(strengths)
        fitted = []
        for objective, start in zip(self._train, starts, strict=True):
            penalised = objective.with_penalty(penalty)
            with penalised.open():
                _, end, _ = newton_steps(
                    penalised,
                    start.with_penalty_of(penalised),
                    tolerance=SEARCH_TOLERANCE,
                    curvature=self.curvature,
                )
            fitted.append(end)
        return fitted

    def _nearest(self, strengths: Strengths) -> list[Expansion]:
        """Return the fits of all folds at the nearest evaluated strengths, or a first start for each."""
        if not self._thetas:
            # The fit to all rows is close to that of every fold, and so is its curvature.
            whole = self._objective(self.rows).with_penalty(self.penalty(*strengths))
            with whole.open():
                _, end, _ = newton_steps(whole, whole.expand(self.start), tolerance=SEARCH_TOLERANCE)
                self.curvature = end.curvature()
            return [objective.expand(end.theta) for objective in self._train]

        def decades(other: Strengths) -> float:
            apart = sum(
                abs(np.log10(max(a, 1e-300)) - np.log10(max(b, 1e-300)))
                for a, b in zip(strengths, other, strict=True)
            )
            # Among equally near points of the lattice take the first, not one that rounding selects.
            return round(float(apart), 6)

        nearest = min(self._thetas, key=decades)
        if nearest in self._ends:
            return self._ends[nearest]
        return [
            objective.expand(theta)
            for objective, theta in zip(self._train, self._thetas[nearest], strict=True)
        ]

    def best(self) -> Strengths:
        """Return the strengths with the lowest held-out loss; the stronger penalty if equal."""
        return min(self.losses, key=lambda strengths: (self.loss(strengths), -strengths[0], -strengths[1]))

    def _objective(self, rows: FeatureRows, exact: bool = True) -> Objective:
        return Objective(CrossEntropy(), self.logit_map, rows, exact=exact)


def best_of_grid(fits: FoldFits, lambdas: Iterable[float], mus: Iterable[float] | None) -> Strengths:
    """Evaluate every pair (or equal values if ``mus`` is None), strong penalties first."""
    for reg_lambda in sorted(lambdas, reverse=True):
        for reg_mu in sorted(mus, reverse=True) if mus is not None else [reg_lambda]:
            fits.loss((reg_lambda, reg_mu))
    return fits.best()


def climb(
    fits: FoldFits, natural: Strengths, moves: Sequence[tuple[int, int]], decades: int = 6
) -> Strengths:
    """Descend on the lattice of powers of ten around ``natural`` until no neighbour is better.

    Coordinate-wise, strong penalties first, so weak penalties, which are slow to fit and over-fit, are evaluated only if
    they are promising. ``moves`` lists the allowed steps, in powers of ten for lambda and mu; at most ``decades`` of them
    are taken in either direction.
    """

    def strengths(position: tuple[int, int]) -> Strengths:
        return natural[0] * 10.0 ** position[0], natural[1] * 10.0 ** position[1]

    position = (1, 0) if (1, 0) in moves else (0, 0)
    best = fits.loss(strengths(position))
    improved = True
    while improved:
        improved = False
        for move in moves:
            while True:
                candidate = (position[0] + move[0], position[1] + move[1])
                if max(abs(candidate[0]), abs(candidate[1])) > decades:
                    break
                loss = fits.loss(strengths(candidate))
                # This form of the condition also ends the descent at NaN, or at a loss too large to resolve small gains.
                if not loss < best - max(WORTHWHILE, 1e-9 * abs(best)):
                    break
                position, best, improved = candidate, loss, True
    return strengths(position)
