"""Batch summary of a parametric method: a quadratic approximation of the loss of earlier rows."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from calibrant.arrays import Matrix, Vector
from calibrant.batches import Part, Summary
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.objective import ConvexExpansion, EventMap, Family, Objective, QuadraticPenalty
from calibrant.solvers import Solution, Status, bounded_newton, bracketed_newton

__all__ = ["QuadraticLoss", "QuadraticSummary", "weight_of_row"]

# With more parameters the Hessian would be larger than a sample of the rows, and slower.
MOST_PARAMETERS = 1200

# Largest sample: this number of rows, or of entries, but at least three rows per class.
MOST_ROWS, MOST_ENTRIES = 10_000, 2**20

# Share of the mean curvature that keeps flat directions from making the equations singular: of a sum over rows, and of
# the effective degrees of freedom.
RIDGE, RIDGE_OF_FREEDOM = 1e-10, 1e-9

# A smaller curvature counts as zero: all rows are correct with certainty, and no parameter matters.
NOTHING = 1e-200


@dataclass(frozen=True)
class QuadraticLoss:
    r"""Second-order expansion of the summed loss of all rows so far around their estimate.

    .. math:: Q(\theta) = L + g^\top (\theta - \hat\theta) + \tfrac12 (\theta - \hat\theta)^\top H
              (\theta - \hat\theta)

    The exact loss of a new batch is added to Q, the sum is minimised, and its expansion around the new minimum is
    the next Q. This is the iterated extended Kalman filter for logistic regression, or a sequence of Laplace
    approximations. The error is of third order in ever smaller steps: up to a logarithm, the difference from a fit of all n
    rows decreases like 1 / n, and the statistical error like one over the square root of n.

    Attributes
    ----------
    theta : ndarray of shape (P,)
        Estimate around which the loss is expanded.
    loss, gradient, hessian : float, (P,), (P, P)
        L, g and H. The gradient is zero unless the estimate lies on a bound or is a fall-back.
    weight : float
        Total weight of the rows.
    """

    theta: Vector
    loss: float
    gradient: Vector
    hessian: Matrix
    weight: float

    @classmethod
    def of(cls, objective: Objective, theta: Vector) -> Self:
        """Return the expansion of the loss of some rows around an estimate."""
        at = _summed(objective, theta)
        return cls(theta, at.value, at.gradient, _convex(at.hessian), objective.total_weight)

    @classmethod
    def from_memory(cls, memory: dict[str, Any]) -> Self:
        """Return what :meth:`memory` stored."""
        return cls(
            memory["theta"], memory["loss"], memory["gradient"], memory["hessian"], memory["total_weight"]
        )

    def memory(self, n_rows: float) -> dict[str, Any]:
        """Return plain arrays and numbers that a file can hold."""
        return {
            "rows": float(n_rows),
            "theta": self.theta,
            "loss": self.loss,
            "gradient": self.gradient,
            "hessian": self.hessian,
            "total_weight": self.weight,
        }

    def faded(self, kept: float) -> "QuadraticLoss":
        """Return the expansion with all weights multiplied by ``kept``."""
        return QuadraticLoss(
            self.theta, self.loss * kept, self.gradient * kept, self.hessian * kept, self.weight * kept
        )

    def at(self, theta: Vector) -> ConvexExpansion:
        """Return value, gradient and Hessian of Q."""
        step = theta - self.theta
        bent = self.hessian @ step
        return ConvexExpansion(
            self.loss + float((self.gradient + bent / 2) @ step), self.gradient + bent, self.hessian
        )

    def updated(
        self, family: Family, batch: Objective, penalty: QuadraticPenalty
    ) -> tuple[Solution, "QuadraticLoss"]:
        """Return the minimum of Q, the loss of a batch and a penalty on their sum, and the next Q, without the penalty."""
        total = self.weight + batch.total_weight

        def summed(theta: Vector) -> ConvexExpansion:
            old, new = self.at(theta), _summed(batch, theta)
            return ConvexExpansion(
                old.value + new.value, old.gradient + new.gradient, old.hessian + new.hessian
            )

        def mean(theta: Vector) -> ConvexExpansion:
            at = summed(theta)
            return ConvexExpansion(
                (at.value + penalty.value(theta)) / total,
                (at.gradient + penalty.gradient(theta)) / total,
                (at.hessian + penalty.hessian()) / total,
            )

        with batch.open():
            if family.upper < np.inf:
                solution = _bracketed(mean, float(self.theta[0]), float(family.lower()[0]), family.upper)
            else:
                solution = bounded_newton(mean, self.theta, family.lower())
            at = summed(solution.theta)
        return solution, QuadraticLoss(
            solution.theta, float(at.value), at.gradient, _convex(at.hessian), total
        )


class QuadraticSummary(Summary):
    """Batch summary of calibrators with a family: a :class:`QuadraticLoss` instead of earlier rows.

    While some class has no rows, if the identity is kept, or with very many parameters, a sample of rows is kept instead,
    and refitted with every batch.

    A penalty that counts in rows neither decays nor grows with the rows. After a fit to a sample that represents many more
    rows it is scaled up with their weight, since the sample has only the information of its own rows, and scaled down as
    they decay.

    Parameters
    ----------
    needs_all_classes : bool
        Whether a class without rows, or a fit that kept the identity, is a reason to keep rows instead.
    """

    def __init__(self, needs_all_classes: bool = True) -> None:
        self.needs_all_classes = needs_all_classes

    def condense(self, calibrator: Any, data: LabelledPredictions, n_rows: float, *, sampled: bool) -> None:
        weight = data.total_weight
        n_fitted = float(data.n_rows) if sampled else data.with_counting_weights().total_weight
        surplus = weight / (weight_of_row(weight, n_rows) * n_fitted)
        family = calibrator.family(data.n_classes)
        state = calibrator._batch_state(data, n_fitted)
        objective = _batch_objective(calibrator, family, data, state)
        loss = QuadraticLoss.of(objective, calibrator._optimum(family, data))
        calibrator.memory_ = loss.memory(n_rows) | {"surplus": max(1.0, surplus)} | state

    def update(self, calibrator: Any, data: LabelledPredictions, kept: float, n_rows: float) -> None:
        past = calibrator.memory_
        loss = QuadraticLoss.from_memory(past).faded(kept)
        surplus = max(1.0, past.get("surplus", 1.0) * kept)
        total = loss.weight + data.total_weight
        family = calibrator._batch_family(data.n_classes)
        state = calibrator._faded_state(past, data, kept)
        penalty = family.summed_penalty(total, surplus * weight_of_row(total, n_rows))
        solution, loss = loss.updated(family, _batch_objective(calibrator, family, data, state), penalty)
        calibrator.memory_ = past | loss.memory(n_rows) | {"surplus": surplus} | state
        calibrator._use_batch(solution, data)
        solution.warn_unless_converged(type(calibrator).__name__)

    def n_approximate(self, calibrator: Any, n_classes: int) -> int:
        # The comparison is one of likelihoods, which the Brier score does not maximise.
        n_parameters = calibrator._n_parameters(n_classes)
        return 0 if n_parameters is None else int(n_parameters)

    def condenses(self, calibrator: Any, data: LabelledPredictions) -> bool:
        if not self.needs_all_classes:
            return True
        few = (calibrator._n_parameters(data.n_classes) or 0) <= MOST_PARAMETERS
        return few and bool(data.class_weights.all()) and calibrator.solution_.status is not Status.IDENTITY

    def most_rows(self, n_classes: int) -> int:
        return max(3 * n_classes, min(MOST_ROWS, MOST_ENTRIES // n_classes))

    def fit_rows(self, calibrator: Any, data: LabelledPredictions, *, sampled: bool) -> None:
        if sampled and data.weights is not None and calibrator._is_penalised:
            # Each row counts once, regardless of the rows that it represents, or it would weaken the penalty.
            data = replace(data, weights=data.weights / data.weights.mean())
        super().fit_rows(calibrator, data, sampled=sampled)

    def refitted(self, calibrator: Part, sample: LabelledPredictions) -> Part:
        """Return a copy that is fitted to the sample alone, with the penalty per row of the map.

        With the stronger penalty of a refit, a map far from the optimum would seem closer to it.
        """
        fitted: Part = calibrator._with_batch_strengths(sample)
        memory = vars(calibrator).get("memory_", {})
        is_summarised = "total_weight" in memory  # not one-vs-rest
        if is_summarised and sample.weights is not None and calibrator._is_penalised:
            sample = replace(sample, weights=sample.weights * (_counted_rows(memory) / sample.total_weight))
        self.fit_rows(fitted, sample, sampled=not is_summarised)
        return fitted

    def degrees_of_freedom(self, calibrator: Any, n_approximate: int, n_rows: float) -> float:
        r"""Return the trace of :math:`H (H + \Lambda)^{-1}` for the Hessians of the rows of :meth:`refitted` and the penalty."""
        memory = calibrator.memory_
        if n_approximate > MOST_PARAMETERS or "hessian" not in memory:
            return float(n_approximate)
        n_rows = max(n_rows, _counted_rows(memory))
        hessian = memory["hessian"] * (n_rows / memory["total_weight"])
        family = calibrator._batch_family(len(calibrator.classes_))
        held = hessian + family.summed_penalty(n_rows).hessian()
        size = float(np.trace(held)) / len(held)
        if size < NOTHING:
            return 0.0
        held.flat[:: len(held) + 1] += RIDGE_OF_FREEDOM * size
        return max(0.0, float(np.trace(np.linalg.solve(held / size, hessian / size))))


def _batch_objective(
    calibrator: Any, family: Family, data: LabelledPredictions, state: dict[str, Any]
) -> Objective:
    return family.without_penalty().objective(calibrator._batch_rows(family, data, state))


def _summed(objective: Objective, theta: Vector) -> ConvexExpansion:
    """Return the loss of rows as a sum, with a little curvature where the softmax is flat."""
    at, total = objective.data_expansion(theta), objective.total_weight
    hessian = at.hessian * total
    if len(theta) > 1 and not isinstance(objective.map, EventMap):
        hessian.flat[:: len(hessian) + 1] += RIDGE * np.trace(hessian) / len(hessian)
    return ConvexExpansion(at.value * total, at.gradient * total, hessian)


def _convex(hessian: Matrix) -> Matrix:
    """Return the Hessian, without curvature where a single parameter bends down, as the Brier score can have it."""
    return np.zeros((1, 1)) if hessian.shape == (1, 1) and hessian[0, 0] < 0 else hessian


def _bracketed(mean: Any, start: float, lower: float, upper: float) -> Solution:
    """Minimise a function of one parameter between two bounds."""

    def derivatives(place: float) -> tuple[float, float, float]:
        at = mean(np.array([place]))
        return at.value, float(at.gradient[0]), float(at.hessian[0, 0])

    return bracketed_newton(derivatives, start, (lower, upper)).solution()


def _counted_rows(memory: dict[str, Any]) -> float:
    """Return the number of rows whose fit has the penalty per row of the map."""
    weight = memory["total_weight"]
    return float(weight / (memory.get("surplus", 1.0) * weight_of_row(weight, memory["rows"])))


def weight_of_row(total_weight: float, n_rows: float) -> float:
    """Return what a row weighs, one at most: larger weights count rows, smaller ones do not make them fewer."""
    return min(1.0, total_weight / n_rows)
