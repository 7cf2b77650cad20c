"""Affine scaling: base of matrix scaling and Dirichlet calibration, with cross-validated penalty strengths."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays import FloatArray, Vector
from calibrant.calibrators.inner_folds import rows_of_folds
from calibrant.calibrators.parametric import ParametricCalibrator
from calibrant.calibrators.scaling.penalty_search import FoldFits, Strengths, best_of_grid, climb
from calibrant.calibrators.scaling.temperature_fit import start_temperature
from calibrant.errors import ParameterError
from calibrant.fit_cost import FitCost
from calibrant.graph import TracedPredictions
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.simplex import log_softmax
from calibrant.objective import (
    ArrayRows,
    Block,
    Family,
    FullMap,
    Objective,
    QuadraticPenalty,
    RowSource,
)
from calibrant.objective.family import Features
from calibrant.options import check_choice, is_number, is_whole
from calibrant.solvers import Solution, Status, newton_cg
from calibrant.solvers.newton_cg import TOLERANCE

__all__ = [
    "AffineScaling",
    "Fixed",
    "PenaltyName",
    "Strength",
    "StrengthSearch",
    "affine_penalty",
    "check_penalty",
    "natural_strengths",
    "parse_strengths",
]

Given = tuple[float | None, float | None]
Strength = float | Sequence[float] | Literal["auto"] | None


@dataclass(frozen=True)
class Fixed:
    """Given strengths, without a search."""

    reg_lambda: float
    reg_mu: float

    @property
    def given(self) -> Given:
        """Return both strengths."""
        return self.reg_lambda, self.reg_mu


class StrengthSearch(ABC):
    """A search for regularisation strengths by cross-validation."""

    @property
    @abstractmethod
    def given(self) -> Given:
        """Return the given ones among the two strengths."""

    @abstractmethod
    def choose(self, fits: FoldFits, natural: Strengths) -> Strengths:
        """Return the best (lambda, mu); ``natural`` is the default start."""


@dataclass(frozen=True)
class Grid(StrengthSearch):
    """Grid search over all pairs of two lists, or over equal values if ``mus`` is None."""

    lambdas: list[float]
    mus: list[float] | None

    @property
    def given(self) -> Given:
        """Return the lists of length one."""
        mus = self.lambdas if self.mus is None else self.mus
        return (
            self.lambdas[0] if len(self.lambdas) == 1 else None,
            mus[0] if len(mus) == 1 else None,
        )

    def choose(self, fits: FoldFits, natural: Strengths) -> Strengths:  # noqa: ARG002 (the grid says it all)
        return best_of_grid(fits, self.lambdas, self.mus)


@dataclass(frozen=True)
class Walk(StrengthSearch):
    """Search over powers of ten around natural values; numbers are fixed, and ``tied`` keeps both strengths equal."""

    reg_lambda: float | None
    reg_mu: float | None
    tied: bool

    @property
    def given(self) -> Given:
        """Return the fixed strength, if any."""
        return self.reg_lambda, self.reg_mu

    def choose(self, fits: FoldFits, natural: Strengths) -> Strengths:
        if self.tied:
            return climb(fits, (natural[0], natural[0]), [(1, 1), (-1, -1)])
        reg_lambda = natural[0] if self.reg_lambda is None else self.reg_lambda
        reg_mu = natural[1] if self.reg_mu is None else self.reg_mu
        moves = [(1, 0), (-1, 0)] if self.reg_lambda is None else []
        moves += [(0, 1), (0, -1)] if self.reg_mu is None else []
        return climb(fits, (reg_lambda, reg_mu), moves)


def parse_strengths(reg_lambda: Strength, reg_mu: Strength) -> Fixed | StrengthSearch:
    """Parse ``reg_lambda`` and ``reg_mu``; ``reg_mu=None`` ties it to ``reg_lambda``.

    >>> parse_strengths(0.1, None)
    Fixed(reg_lambda=0.1, reg_mu=0.1)
    >>> parse_strengths([1.0, 10.0], 0.5)
    Grid(lambdas=[1.0, 10.0], mus=[0.5])
    """
    lambdas = _numbers("reg_lambda", reg_lambda)
    mus = None if reg_mu is None else _numbers("reg_mu", reg_mu)
    if lambdas is None or (mus is None and reg_mu is not None):
        if _is_grid(reg_lambda) or _is_grid(reg_mu):
            raise ParameterError(
                "reg_lambda and reg_mu must be both grids, or 'auto' and a number; not 'auto' and a grid."
            )
        return Walk(
            None if lambdas is None else lambdas[0], None if mus is None else mus[0], tied=reg_mu is None
        )
    if _is_grid(reg_lambda) or _is_grid(reg_mu):
        return Grid(lambdas, mus)
    return Fixed(lambdas[0], lambdas[0] if mus is None else mus[0])


def _is_grid(value: Strength) -> bool:
    return value is not None and not isinstance(value, str) and np.ndim(value) > 0


def _numbers(name: str, value: Strength) -> list[float] | None:
    """Return the numbers of a strength as a list, or None for "auto"."""
    if isinstance(value, str) and value == "auto":
        return None
    try:
        numbers = np.atleast_1d(np.asarray(value, dtype=np.float64))
    except (TypeError, ValueError):
        numbers = np.array([np.nan])
    if numbers.ndim != 1 or len(numbers) == 0 or not (np.isfinite(numbers) & (numbers >= 0)).all():
        raise ParameterError(
            f"{name} must be a non-negative number, a sequence of such numbers or 'auto', not {value!r}."
        )
    return [float(number) for number in numbers]


PenaltyName = Literal["odir", "l2"] | None


def check_penalty(name: Any) -> None:
    """Raise an error unless this names a penalty."""
    if name not in ("odir", "l2", None):
        raise ParameterError(f"penalty must be 'odir', 'l2' or None, not {name!r}.")


def affine_penalty(
    name: PenaltyName, n_classes: int, reg_lambda: float, reg_mu: float, center: float = 1.0
) -> QuadraticPenalty:
    r"""Return the penalty on the matrix [W | b], row by row.

    * ``"odir"``: :math:`\frac{\lambda}{K(K-1)} \sum_{i \ne j} w_{ij}^2 + \frac{\mu}{K} \sum_j b_j^2`
      :cite:`kull2019`; the diagonal of W is free.
    * ``"l2"``: :math:`\lambda \lVert W - C \rVert^2 + \mu \lVert b \rVert^2` with C = ``center`` times the identity.
    """
    check_penalty(name)
    strengths = np.zeros((n_classes, n_classes + 1))
    middle = center * np.eye(n_classes, n_classes + 1)
    if name == "odir":
        strengths[:, :n_classes] = reg_lambda / (n_classes * (n_classes - 1))
        np.fill_diagonal(strengths, 0.0)
        strengths[:, n_classes] = reg_mu / n_classes
    elif name == "l2":
        strengths[:, :n_classes] = reg_lambda
        strengths[:, n_classes] = reg_mu
    return QuadraticPenalty(strengths.ravel(), middle.ravel())


def natural_strengths(name: PenaltyName, n_classes: int, total_weight: float) -> tuple[float, float]:
    r"""Return :math:`\lambda, \mu` with which the sum of squares of m parameters has weight m / n, the start of a search.

    For K = 10 and n = 5000 ODIR's natural :math:`\lambda` is 1.6, for K = 100 it is 20,000, the order of magnitude
    that cross-validation chooses.
    """
    n_weights = n_classes * (n_classes - 1)
    if name == "odir":
        return n_weights**2 / total_weight, n_classes**2 / total_weight
    return n_weights / total_weight, n_classes / total_weight


# Of the fits of several folds, the worst status is reported.
SEVERITY = (
    Status.IDENTITY,
    Status.CONVERGED,
    Status.OUT_OF_PRECISION,
    Status.AT_BOUND,
    Status.SEPARATED,
    Status.RUNNING_AWAY,
    Status.OUT_OF_ITERATIONS,
)


COST_WITHOUT_PENALTY = FitCost(0.007, classes=2.0)
COST_OF_FIT = FitCost(0.005, classes=1.4)
COST_OF_SEARCH = FitCost(0.05, classes=1.4)


class AffineScaling(ParametricCalibrator):
    """softmax(W x + b) with a penalty whose strength can be selected by cross-validation; abstract."""

    @property
    def fit_cost(self) -> FitCost:  # type: ignore[override]
        """Cost of a fit; a search for regularisation strengths fits every fold several times."""
        if self.penalty is None:
            return COST_WITHOUT_PENALTY
        is_known = is_number(self.reg_lambda) and (self.reg_mu is None or is_number(self.reg_mu))
        return COST_OF_FIT if is_known else COST_OF_SEARCH

    def __init__(
        self,
        penalty: PenaltyName = "odir",
        reg_lambda: Strength = "auto",
        reg_mu: Strength = "auto",
        cv: Any = 5,
        average_folds: bool = True,
        center: Literal["temperature", "identity", "zero"] = "temperature",
    ) -> None:
        self.penalty = penalty
        self.reg_lambda = reg_lambda
        self.reg_mu = reg_mu
        self.cv = cv
        self.average_folds = average_folds
        self.center = center

    @property
    @abstractmethod
    def _features(self) -> Features:
        """The features x, (n, K)."""

    def zeroed(self) -> Self:
        """Return a copy whose off-diagonal weights are zero, without refitting (MS-ODIR-zero).

        The difference shows the effect of the off-diagonal weights :cite:`kull2019`; all averaged models are changed. The
        copy has no ``solution_`` and no ``search_``, since it was not fitted.
        """
        check_is_fitted(self)
        twin = clone(self)
        vars(twin).update(vars(self))
        del twin.solution_, twin.search_  # they describe the fitted map
        each = np.eye(self.fold_weights_.shape[1], dtype=bool)
        twin._set_maps(np.where(each, self.fold_weights_, 0.0), self.fold_intercepts_.copy())
        return twin  # type: ignore[no-any-return]

    def _check_parameters(self) -> None:
        check_choice("center", self.center, ("temperature", "identity", "zero"))
        check_penalty(self.penalty)
        self._plan()

    def family(self, n_classes: int) -> Family:
        """Return the affine maps with the penalty of the fit, whose centre is not fixed."""
        return self._family(affine_penalty(self.penalty, n_classes, self.reg_lambda_, self.reg_mu_))

    def _family(self, penalty: QuadraticPenalty, in_rows: QuadraticPenalty | None = None) -> Family:
        n_classes = int(np.sqrt(len(penalty.strengths)))  # K (K + 1) parameters
        logit_map = FullMap(n_classes, bias=True)
        # A penalty towards temperature scaling has no information on the temperature, which was fitted to the same rows.
        is_free = self.penalty == "l2" and self.center == "temperature"
        return Family(
            self._features,
            logit_map,
            penalty=penalty,
            penalty_in_rows=in_rows,
            free_direction=logit_map.identity() if is_free else None,
        )

    @property
    def _theta(self) -> Vector:
        return np.hstack([self.weights_, self.intercept_[:, np.newaxis]]).ravel()

    def _n_parameters(self, n_classes: int) -> int:
        return n_classes * (n_classes + 1)

    def _fit_source(self, source: RowSource) -> None:
        self._check_parameters()
        plan, n_classes = self._plan(), source.n_classes
        logit_map = FullMap(n_classes, bias=True)
        rows = source.features(self._features)
        inverse_temperature = start_temperature(rows)
        start = inverse_temperature * logit_map.identity()
        center = self._center(inverse_temperature)

        def penalty(reg_lambda: float, reg_mu: float) -> QuadraticPenalty:
            return affine_penalty(self.penalty, n_classes, reg_lambda, reg_mu, center)

        if isinstance(plan, Fixed):
            self.reg_lambda_, self.reg_mu_ = plan.reg_lambda, plan.reg_mu
            self.search_ = {}
            objective = self._family(penalty(self.reg_lambda_, self.reg_mu_)).objective(rows)
            solutions = [newton_cg(objective, start)]
        else:
            folds = rows_of_folds(self.cv, source, rows)
            fits = FoldFits(rows, folds, logit_map, penalty, start, complementary=is_whole(self.cv, 2))
            # Weights with a mean below 1 do not reduce the number of rows.
            total_weight = max(source.total_weight, float(source.n_rows))
            natural = natural_strengths(self.penalty, n_classes, total_weight)
            strengths = plan.choose(fits, natural)
            self.reg_lambda_, self.reg_mu_ = strengths
            self.search_ = _table(fits)
            objective = self._family(penalty(*strengths)).objective(rows)
            if self.average_folds:
                solutions = fits.solutions(strengths, TOLERANCE)
            else:
                solutions = [newton_cg(objective, fits.mean_theta(strengths), curvature=fits.curvature)]
        self._set_matrices(np.stack([logit_map.matrix(solution.theta) for solution in solutions]))
        self.solution_ = solutions[0] if len(solutions) == 1 else self._averaged(objective, solutions)
        # ODIR does not penalise the diagonal, which may diverge on a fold where a class is never misclassified. If folds are
        # averaged, held-out rows have already evaluated such a fit.
        judged = self.average_folds and not isinstance(plan, Fixed)
        if not (judged and self.solution_.status is Status.RUNNING_AWAY):
            self.solution_.warn_unless_converged(type(self).__name__)

    def _plan(self) -> Fixed | StrengthSearch:
        return Fixed(0.0, 0.0) if self.penalty is None else parse_strengths(self.reg_lambda, self.reg_mu)

    def _center(self, inverse_temperature: float) -> float:
        return {"temperature": inverse_temperature, "identity": 1.0, "zero": 0.0}[self.center]

    # Batches: selected strengths keep their weight relative to the rows of the selection; given strengths are per row.

    def _batch_state(self, data: LabelledPredictions, n_fitted: float) -> dict[str, Any]:
        return {
            "reg_lambda": self.reg_lambda_ * n_fitted,
            "reg_mu": self.reg_mu_ * n_fitted,
            "center": self._center(start_temperature(data)),
        }

    def _batch_family(self, n_classes: int) -> Family:
        memory = self.memory_

        def penalty(reg_lambda: float | None, reg_mu: float | None) -> QuadraticPenalty:
            return affine_penalty(self.penalty, n_classes, reg_lambda or 0.0, reg_mu or 0.0, memory["center"])

        per_row = self._plan().given
        in_rows = (
            None if given is not None else memory[name]
            for given, name in zip(per_row, ("reg_lambda", "reg_mu"), strict=True)
        )
        return self._family(penalty(*per_row), penalty(*in_rows))

    def _optimum(self, family: Family, data: LabelledPredictions) -> Vector:
        penalty = affine_penalty(
            self.penalty,
            data.n_classes,
            self.reg_lambda_,
            self.reg_mu_,
            self._center(start_temperature(data)),
        )
        rows = ArrayRows(family.features(data.predictions), data.labels, data.weights)
        # If models of folds were averaged, the optimum for all rows is still unknown.
        return newton_cg(self._family(penalty).objective(rows), self.solution_.theta).theta

    def _batch_strengths(self, multiple: float, total_weight: float) -> dict[str, float]:
        """Return the strengths per row after batches."""
        given = dict(zip(("reg_lambda", "reg_mu"), self._plan().given, strict=True))
        return {
            name: self.memory_[name] * multiple / total_weight if number is None else number
            for name, number in given.items()
        }

    def _use_batch(self, solution: Solution, data: LabelledPredictions) -> None:  # noqa: ARG002
        n_classes, memory = len(self.classes_), self.memory_
        weight = memory["total_weight"]
        strengths = self._batch_strengths(memory["surplus"] * min(1.0, weight / memory["rows"]), weight)
        self.reg_lambda_, self.reg_mu_ = strengths["reg_lambda"], strengths["reg_mu"]
        self.solution_ = solution
        self._set_matrices(solution.theta.reshape(1, n_classes, n_classes + 1))

    def _with_batch_strengths(self, sample: LabelledPredictions) -> Self:
        twin: Self = clone(self)
        if self.penalty is not None:
            twin.set_params(**self._batch_strengths(1.0, float(sample.n_rows)))
        return twin

    def _traced(self, given: TracedPredictions) -> TracedPredictions:
        x = self._features.formula(given)
        scores = [
            x.dense(weights.T, intercept)
            for weights, intercept in zip(self.fold_weights_, self.fold_intercepts_, strict=True)
        ]
        if len(scores) == 1:
            return given.with_logits(scores[0])
        first, *others = (each.softmax() for each in scores)
        return given.with_probabilities(first.mixed(others, np.full(len(scores), 1 / len(scores))))

    def _scores(self, features: FloatArray, fold: int) -> FloatArray:
        kind = features.dtype
        scores: FloatArray = features @ self.fold_weights_[fold].T.astype(kind)
        scores += self.fold_intercepts_[fold].astype(kind)
        return scores

    def _set_matrices(self, matrices: Vector) -> None:
        """Set the maps from [W | b] of each, (F, K, K + 1)."""
        matrices = matrices.astype(np.float64)
        self._set_maps(matrices[:, :, :-1].copy(), matrices[:, :, -1].copy())

    def _set_maps(self, weights: Vector, intercepts: Vector) -> None:
        self.fold_weights_ = weights
        self.fold_intercepts_ = intercepts
        self.weights_ = weights.mean(axis=0)
        self.intercept_ = intercepts.mean(axis=0)

    def _averaged(self, objective: Objective, solutions: list[Solution]) -> Solution:
        """Compute the training loss of the averaged map; fall back to the identity if that is worse."""
        folds = range(len(solutions))

        def block_loss(block: Block) -> float:
            each = np.arange(len(block.labels))
            own = [
                log_softmax(self._scores(block.features, fold))[each, block.labels].astype(np.float64)
                for fold in folds
            ]
            losses = np.log(len(solutions)) - logsumexp(own, axis=0)
            return float(block.weighted(losses).sum())

        loss = objective.summed(block_loss) / objective.total_weight
        identity = objective.expand(objective.map.identity())
        status = max((solution.status for solution in solutions), key=SEVERITY.index)
        theta = np.mean([solution.theta for solution in solutions], axis=0)
        if loss > identity.data_loss:
            theta, loss, status = identity.theta, identity.data_loss, Status.IDENTITY
            self._set_matrices(objective.map.matrix(theta)[np.newaxis])  # type: ignore[attr-defined]
        return Solution(
            theta=theta,
            value=loss + objective.penalty.value(theta),
            loss=loss,
            identity_loss=identity.data_loss,
            decrement=max(solution.decrement for solution in solutions),
            n_iterations=sum(solution.n_iterations for solution in solutions),
            n_evaluations=sum(solution.n_evaluations for solution in solutions),
            status=status,
        )


def _standard_errors(per_fold: Vector) -> Vector:
    """Return the standard error of the mean of each row; NaN for a single fold."""
    n_folds = per_fold.shape[1]
    if n_folds < 2:
        return np.full(len(per_fold), np.nan)
    return np.asarray(per_fold.std(axis=1, ddof=1) / np.sqrt(n_folds))


def _table(fits: FoldFits) -> dict[str, Vector]:
    """Return the results of a search as columns: lambda, mu, held-out loss and its standard error over folds."""
    tried = list(fits.losses)
    per_fold = np.array([fits.losses[strengths] for strengths in tried])
    return {
        "reg_lambda": np.array([strengths[0] for strengths in tried]),
        "reg_mu": np.array([strengths[1] for strengths in tried]),
        "loss": np.array([fits.loss(strengths) for strengths in tried]),
        "standard_error": _standard_errors(per_fold),
    }
