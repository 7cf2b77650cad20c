"""Cross-validated search for regularisation strengths, with warm starts from neighbouring strengths."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from calibrant.arrays import Matrix, Vector
from calibrant.objective import CrossEntropy, Expansion, FeatureRows, FullMap, Objective, QuadraticPenalty
from calibrant.objective.curvature import Curvature, DenseCurvature
from calibrant.solvers import Solution, Status
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
    complementary : bool
        Whether every row is a test row of one fold and a training row of all others.
    losses : dict
        Held-out log-loss per fold for every evaluated (lambda, mu), (F,).
    """

    rows: FeatureRows
    folds: Sequence[tuple[FeatureRows, FeatureRows]]
    logit_map: FullMap
    penalty: Callable[[float, float], QuadraticPenalty]
    start: Vector
    complementary: bool = False
    curvature: Curvature | None = None
    losses: dict[Strengths, Vector] = field(default_factory=dict)
    _thetas: dict[Strengths, list[Vector]] = field(default_factory=dict)
    _ends: dict[Strengths, list[Expansion]] = field(default_factory=dict)
    _common: Vector | None = None
    _reference: list[Expansion] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._train = [self._objective(train, exact=False) for train, _ in self.folds]
        self._test = [self._objective(test) for _, test in self.folds]
        self._shares = np.array([objective.total_weight for objective in self._test])
        self._shares /= self._shares.sum()

    def loss(self, strengths: Strengths) -> float:
        """Return the mean held-out log-loss over all rows; folds are fitted once."""
        if strengths not in self.losses:
            thetas = self._from_reference(strengths)
            ends = [] if thetas else self._fitted(strengths)
            self._thetas[strengths] = thetas or [end.theta for end in ends]
            self.losses[strengths] = np.array(
                [
                    objective.data_loss(theta)
                    for objective, theta in zip(self._test, self._thetas[strengths], strict=True)
                ]
            )
            # A result holds a softmax as large as the rows: keep only possible starts of further fits.
            if ends:
                self._ends[strengths] = ends
            self._ends = {kept: self._ends[kept] for kept in (self.best(), strengths) if kept in self._ends}
        return float(self._shares @ self.losses[strengths])

    def solutions(self, strengths: Strengths, tolerance: float) -> list[Solution]:
        """Return the exact fits of all folds at evaluated strengths."""
        solutions = []
        for fold, theta in enumerate(self._thetas[strengths]):
            hessian = self._reference[fold].hessian if self._reference else None
            solution = self._solution(fold, theta, strengths, tolerance, hessian)
            if hessian is not None and solution.status is not Status.CONVERGED:
                solution = self._solution(fold, solution.theta, strengths, tolerance)
            solutions.append(solution)
        return solutions

    def _solution(
        self, fold: int, theta: Vector, strengths: Strengths, tolerance: float, hessian: Matrix | None = None
    ) -> Solution:
        """Return the exact fit of a fold from a start, by Newton steps or with a given Hessian of the data loss."""
        penalty = self.penalty(*strengths)
        objective = self._train[fold].with_penalty(penalty, exact=True, hessian=hessian)
        curvature = self.curvature if hessian is None else None
        with objective.open():
            return newton_steps(objective, objective.expand(theta), tolerance=tolerance, curvature=curvature)[
                0
            ]

    def mean_theta(self, strengths: Strengths) -> Vector:
        """Return the mean parameters of the folds at evaluated strengths, a start for a fit to all rows."""
        return np.asarray(np.mean(self._thetas[strengths], axis=0))

    def _from_reference(self, strengths: Strengths) -> list[Vector]:
        """Return one Newton step of every fold from the common place, if all gain little; else nothing.

        Then rows need not be read: gradients and Hessians of all folds at the common place are known.
        """
        if not self._thetas:
            self._set_reference(strengths)
        penalty = self.penalty(*strengths)
        thetas = []
        for at, objective in zip(self._reference, self._train, strict=False):
            start = at.with_penalty_of(objective.with_penalty(penalty))
            step = start.curvature().solver(penalty)(-start.gradient)
            if not -float(start.gradient @ step) / 2 <= SEARCH_TOLERANCE:
                return []
            thetas.append(start.theta + step)
        return thetas

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
            assert self._common is not None
            return [objective.expand(self._common) for objective in self._train]

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

    def _set_reference(self, strengths: Strengths) -> None:
        """Fit all rows, which is close to the fit of every fold, and so is its curvature."""
        whole = self._objective(self.rows).with_penalty(self.penalty(*strengths))
        with whole.open():
            _, end, _ = newton_steps(whole, whole.expand(self.start), tolerance=SEARCH_TOLERANCE)
            self.curvature = end.curvature()
        self._common = end.theta
        # P parameters of n rows are P / 2n nats from where all rows would put them.
        is_close = self.logit_map.n_parameters <= 2 * SEARCH_TOLERANCE * self.rows.n_rows
        if is_close and self.complementary and isinstance(self.curvature, DenseCurvature):
            self._reference = self._expansions(end.theta)

    def _expansions(self, theta: Vector) -> list[Expansion]:
        """Return expansions of the training losses of all folds with Hessians, from one pass over the test rows."""
        sums = []
        for objective in self._test:
            at = objective.data_expansion(theta)
            sums.append([objective.total_weight * np.asarray(part) for part in at])
        totals = [np.sum(parts, axis=0) for parts in zip(*sums, strict=True)]
        expansions = []
        for objective, own in zip(self._train, sums, strict=True):
            loss, gradient, hessian = (
                (total - part) / objective.total_weight for total, part in zip(totals, own, strict=True)
            )
            expansions.append(Expansion(objective, theta, float(loss), float(loss), gradient, None, hessian))
        return expansions

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
