"""What matrix scaling and Dirichlet calibration share: an affine map of K features before the softmax."""

from abc import abstractmethod
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from calibrant.calibrators.inner_folds import folds_of
from calibrant.calibrators.scaling.partial_softmax import PartialSoftmax
from calibrant.calibrators.scaling.penalties import (
    PenaltyName,
    affine_penalty,
    check_penalty,
    natural_strengths,
)
from calibrant.calibrators.scaling.penalty_search import FoldFits
from calibrant.calibrators.scaling.strengths import Fixed, Strength, StrengthSearch, parse_strengths
from calibrant.calibrators.scaling.temperature_fit import start_temperature
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.simplex import log_softmax, softmax
from calibrant.objective import CrossEntropy, FullMap, Objective, QuadraticPenalty
from calibrant.options import check_choice
from calibrant.predictions import Predictions
from calibrant.solvers import Solution, Status, newton_cg
from calibrant.solvers.newton_cg import TOLERANCE
from calibrant.space import Space

__all__ = ["AffineScaling"]

FloatArray = NDArray[np.floating]
Vector = NDArray[np.float64]

# Of the fits of several folds, the worst counts.
SEVERITY = (
    Status.IDENTITY,
    Status.CONVERGED,
    Status.OUT_OF_PRECISION,
    Status.AT_BOUND,
    Status.SEPARATED,
    Status.RUNNING_AWAY,
    Status.OUT_OF_ITERATIONS,
)


class AffineScaling(PartialSoftmax):
    """softmax(W x + b) with a penalty whose strength can be chosen by cross-validation; abstract."""

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

    @abstractmethod
    def _features(self, predictions: Predictions) -> FloatArray:
        """Return x, (n, K)."""

    def zeroed(self) -> Self:
        """Return a copy whose off-diagonal weights are zero, without refitting (MS-ODIR-zero).

        Shows how much of the map lives off the diagonal :cite:`kull2019`; every averaged model is treated. The copy
        has no ``solution_`` and no ``search_``, since no fit led to it.
        """
        check_is_fitted(self)
        twin = clone(self)
        vars(twin).update(vars(self))
        del twin.solution_, twin.search_  # they speak of the map as it was fitted
        each = np.eye(self.fold_weights_.shape[1], dtype=bool)
        twin._set_maps(np.where(each, self.fold_weights_, 0.0), self.fold_intercepts_.copy())
        return twin  # type: ignore[no-any-return]

    def _check_parameters(self) -> None:
        check_choice("center", self.center, ("temperature", "identity", "zero"))
        check_penalty(self.penalty)
        self._plan()

    def _fit(self, data: LabelledPredictions) -> None:
        self._check_parameters()
        plan = self._plan()
        logit_map = FullMap(data.n_classes, bias=True)
        inverse_temperature = start_temperature(data)
        start = inverse_temperature * logit_map.identity()
        center = self._center(inverse_temperature)

        def penalty(reg_lambda: float, reg_mu: float) -> QuadraticPenalty:
            return affine_penalty(self.penalty, data.n_classes, reg_lambda, reg_mu, center)

        objective = self._batch_objective(data)
        if isinstance(plan, Fixed):
            self.reg_lambda_, self.reg_mu_ = plan.reg_lambda, plan.reg_mu
            self.search_ = {}
            objective = objective.with_penalty(penalty(self.reg_lambda_, self.reg_mu_))
            solutions = [newton_cg(objective, start)]
        else:
            fits = FoldFits(
                self._features(data.predictions), data, folds_of(self.cv, data), logit_map, penalty, start
            )
            # Weights below one on average do not make the rows fewer.
            natural = natural_strengths(
                self.penalty, data.n_classes, max(data.total_weight, float(data.n_rows))
            )
            strengths = plan.choose(fits, natural)
            self.reg_lambda_, self.reg_mu_ = strengths
            self.search_ = _table(fits)
            objective = objective.with_penalty(penalty(*strengths))
            if self.average_folds:
                solutions = fits.solutions(strengths, TOLERANCE)
            else:
                solutions = [newton_cg(objective, fits.mean_theta(strengths), curvature=fits.curvature)]
        self._set_matrices(np.stack([logit_map.matrix(solution.theta) for solution in solutions]))
        self.solution_ = solutions[0] if len(solutions) == 1 else self._averaged(objective, solutions)
        # ODIR leaves the diagonal free, which may run away on a fold where a class is never mistaken; where folds
        # are averaged, rows that were held out have judged that already.
        judged = self.average_folds and not isinstance(plan, Fixed)
        if not (judged and self.solution_.status is Status.RUNNING_AWAY):
            self.solution_.warn_unless_converged(type(self).__name__)

    def _plan(self) -> Fixed | StrengthSearch:
        return Fixed(0.0, 0.0) if self.penalty is None else parse_strengths(self.reg_lambda, self.reg_mu)

    def _center(self, inverse_temperature: float) -> float:
        return {"temperature": inverse_temperature, "identity": 1.0, "zero": 0.0}[self.center]

    def _batch_objective(self, data: LabelledPredictions) -> Objective:
        logit_map = FullMap(data.n_classes, bias=True)
        return Objective(
            CrossEntropy(), logit_map, self._features(data.predictions), data.labels, data.weights
        )

    def _n_parameters(self, n_classes: int) -> int:
        return n_classes * (n_classes + 1)

    def _fitted_parameters(self, data: LabelledPredictions) -> Vector:
        penalty = affine_penalty(
            self.penalty,
            data.n_classes,
            self.reg_lambda_,
            self.reg_mu_,
            self._center(start_temperature(data)),
        )
        # The optimum of all rows, where models of folds were averaged; else it is there already.
        solution = newton_cg(self._batch_objective(data).with_penalty(penalty), self.solution_.theta)
        return solution.theta

    def _prices(self, data: LabelledPredictions, n_fitted: float) -> dict[str, Any]:
        return {
            "reg_lambda": self.reg_lambda_ * n_fitted,
            "reg_mu": self.reg_mu_ * n_fitted,
            "center": self._center(start_temperature(data)),
        }

    def _penalty(self, multiple: float, total_weight: float) -> QuadraticPenalty:
        strengths = self._strengths(multiple, total_weight)
        return affine_penalty(self.penalty, len(self.classes_), *strengths, center=self.memory_["center"])

    def _strengths(self, multiple: float, total_weight: float) -> tuple[float, float]:
        """Return the strengths for a sum of losses: a number that was given for each row, else worth its rows."""
        given = self._plan().given
        reg_lambda, reg_mu = self.memory_["reg_lambda"], self.memory_["reg_mu"]
        return (
            reg_lambda * multiple if given[0] is None else given[0] * total_weight,
            reg_mu * multiple if given[1] is None else given[1] * total_weight,
        )

    def _use_parameters(self, solution: Solution) -> None:
        n_classes, memory = len(self.classes_), self.memory_
        weight = memory["total_weight"]
        reg_lambda, reg_mu = self._strengths(memory["surplus"] * min(1.0, weight / memory["rows"]), weight)
        self.reg_lambda_, self.reg_mu_ = reg_lambda / weight, reg_mu / weight
        self.solution_ = solution
        self._set_matrices(solution.theta.reshape(1, n_classes, n_classes + 1))

    def _fitted_anew(self, sample: LabelledPredictions) -> Self:
        """Return a copy that is fitted to the sample alone, with the strengths that are known."""
        fitted: Self = clone(self)
        if self.penalty is not None:
            reg_lambda, reg_mu = self._strengths(1.0, float(sample.n_rows))
            fitted.set_params(reg_lambda=reg_lambda / sample.n_rows, reg_mu=reg_mu / sample.n_rows)
        fitted._fit_rows(sample, sampled=True)
        return fitted

    def _transform(self, predictions: Predictions) -> Predictions:
        if self._waits:
            return predictions.without_zeros()
        features = self._features(predictions)
        if len(self.fold_weights_) == 1:
            return Predictions(self._scores(features, 0), Space.LOGITS, predictions.classes)
        probabilities = softmax(self._scores(features, 0))
        for fold in range(1, len(self.fold_weights_)):
            probabilities += softmax(self._scores(features, fold))
        probabilities /= len(self.fold_weights_)
        return Predictions(probabilities, Space.PROBABILITIES, predictions.classes)

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
        """Judge the averaged map on all rows; fall back to the identity if it does harm there."""
        rows = np.arange(len(objective.labels))
        own = [
            log_softmax(self._scores(objective.features, fold))[rows, objective.labels].astype(np.float64)
            for fold in range(len(solutions))
        ]
        losses = np.log(len(solutions)) - logsumexp(own, axis=0)
        loss = float(np.average(losses, weights=objective.weights))
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
    """Return the standard error of the mean of each row; NaN where one fold says nothing about it."""
    n_folds = per_fold.shape[1]
    if n_folds < 2:
        return np.full(len(per_fold), np.nan)
    return np.asarray(per_fold.std(axis=1, ddof=1) / np.sqrt(n_folds))


def _table(fits: FoldFits) -> dict[str, Vector]:
    """Return what was tried as columns: lambda, mu, held-out loss and its standard error over folds."""
    tried = list(fits.losses)
    per_fold = np.array([fits.losses[strengths] for strengths in tried])
    return {
        "reg_lambda": np.array([strengths[0] for strengths in tried]),
        "reg_mu": np.array([strengths[1] for strengths in tried]),
        "loss": np.array([fits.loss(strengths) for strengths in tried]),
        "standard_error": _standard_errors(per_fold),
    }
