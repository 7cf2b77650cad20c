"""Batch summary of a Gaussian process: the normal posterior of its inducing variables given earlier rows."""

from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from calibrant.arrays import Matrix, Vector
from calibrant.batches import Part, Summary
from calibrant.calibrators.latent.gaussian_process.fit import bound_of_rows, update_process
from calibrant.calibrators.latent.gaussian_process.increasing import slope_loss, update_monotone_process
from calibrant.calibrators.latent.gaussian_process.latent_function import WhitenedFeatures
from calibrant.calibrators.latent.gaussian_process.variational import NormalPrior
from calibrant.calibrators.quadratic_summary import QuadraticLoss, weight_of_row
from calibrant.calibrators.scaling.temperature_fit import start_temperature
from calibrant.labelled_predictions import LabelledPredictions

__all__ = ["ProcessSummary"]


# Logarithm of the Bayes factor against the kernel at which it is fitted again. A refit loses all rows but the sample, and
# samples are compared often.
MOST_EVIDENCE = 15.0


class ProcessSummary(Summary):
    r"""Batch summary of Gaussian process calibration: streaming variational inference :cite:`bui2017`.

    When the first rows are condensed, the kernel and the inducing points are fixed. From then on the likelihood of earlier
    rows is a normal factor of the whitened inducing variables v, whose information :math:`\Lambda` is the sum of their
    curvatures. The posterior is :math:`N(m, (I + \Lambda)^{-1})`. It is the prior of the next batch, whose likelihood is
    taken to the same order as in a fit. An increasing process has another such factor, of its slopes at the fixed knots.

    If the identity is kept, a sample of rows is stored instead, and refitted with every batch.
    """

    # A fit of the sample takes as long as dozens of updates.
    rows_between_checks = 500

    def condense(self, calibrator: Any, data: LabelledPredictions, n_rows: float, *, sampled: bool) -> None:
        if sampled:
            # A sample has the information of its own rows only.
            counted, unit = _equally_weighted(data), weight_of_row(data.total_weight, n_rows)
        else:
            counted = data.with_counting_weights()
            unit = data.total_weight / counted.total_weight
        slope = 1.0
        if calibrator._scores_of(counted.predictions).prior_is_identity:
            slope = start_temperature(counted) / calibrator.score_factor_
        state = {"total_weight": data.total_weight, "start_slope": slope}
        past = _Past.of(calibrator, counted, slope).scaled(unit)
        calibrator.memory_ = {"rows": float(n_rows)} | state | past.memory(n_rows)

    def update(self, calibrator: Any, data: LabelledPredictions, kept: float, n_rows: float) -> None:
        memory = calibrator.memory_
        total_weight = memory["total_weight"] * kept + data.total_weight
        unit = weight_of_row(total_weight, n_rows)
        weighted = replace(data, weights=_weights(data) / unit)
        past = (
            _Past.from_memory(memory)
            .scaled(kept / unit)
            .followed_by(calibrator, weighted, memory["start_slope"])
        )
        state = {"rows": float(n_rows), "total_weight": total_weight}
        calibrator.memory_ = memory | state | past.scaled(unit).memory(n_rows)
        calibrator.inference_.warn_unless_converged(type(calibrator).__name__)

    def n_approximate(self, calibrator: Any, n_classes: int) -> int:  # noqa: ARG002
        return int(calibrator.n_inducing)

    def condenses(self, calibrator: Any, data: LabelledPredictions) -> bool:  # noqa: ARG002
        return not calibrator.identity_kept_ and bool(np.isfinite(calibrator.elbo_))

    def fit_rows(self, calibrator: Any, data: LabelledPredictions, *, sampled: bool) -> None:
        super().fit_rows(calibrator, _equally_weighted(data) if sampled else data, sampled=sampled)

    def refitted(self, calibrator: Part, sample: LabelledPredictions) -> Part:
        """Return a copy with the posterior given the sample alone.

        The kernel stays unless the evidence of the sample rejects it. A kernel that is fitted to few rows often has a short
        length scale, and so a higher likelihood on these rows.
        """
        anew, same = super().refitted(calibrator, sample), copy(calibrator)
        nothing = _Past.from_memory(calibrator.memory_).scaled(0.0)
        nothing.followed_by(same, _equally_weighted(sample), calibrator.memory_["start_slope"])
        n_effective = sample.total_weight**2 / float(np.sum(_weights(sample) ** 2))
        evidence = (anew.elbo_ - same.elbo_) * n_effective / sample.n_rows
        return anew if evidence > MOST_EVIDENCE else same

    def degrees_of_freedom(self, calibrator: Any, n_approximate: int, n_rows: float) -> float:
        r"""Return the trace of :math:`\Lambda (I + \Lambda)^{-1}` for that many rows."""
        if "process" not in calibrator.memory_:
            return float(n_approximate)
        loss = _Past.from_memory(calibrator.memory_).process
        values = np.maximum(np.linalg.eigvalsh(loss.hessian), 0.0) * (n_rows / loss.weight)
        return float((values / (1.0 + values)).sum())


@dataclass(frozen=True, eq=False)
class _Past:
    """Normal factors that stand for earlier rows.

    Attributes
    ----------
    process : QuadraticLoss
        Loss of the mean of the whitened inducing variables, around that of the posterior; so its gradient is -m.
    information : ndarray of shape (M, M)
        What the rows add to the precision of the inducing variables, with the curvature at the mean.
    averaged : ndarray of shape (M, M)
        The same with the averaged curvature, for deviations.
    slopes : QuadraticLoss or None
        Loss of the slopes of an increasing process.
    """

    process: QuadraticLoss
    information: Matrix
    averaged: Matrix
    slopes: QuadraticLoss | None

    @classmethod
    def of(cls, calibrator: Any, data: LabelledPredictions, slope: float) -> Self:
        """Return the factors of rows that were just fitted."""
        scores, weights = calibrator._scores_of(data.predictions), _weights(data)
        process, full = calibrator._process(), calibrator.covariance == "full"
        mean = process.mean
        bound = bound_of_rows(scores, data.labels, weights, slope, len(mean), full=full)
        features = WhitenedFeatures.at(bound.nodes, process.parameters).features
        hessian, information = (
            bound.curvature(features @ mean, features, full=whether) for whether in (True, full)
        )
        slopes = None
        if calibrator._setting("monotone"):
            slopes = slope_loss(calibrator._increasing_process(), scores.places, data.labels, weights)
        return cls(
            QuadraticLoss(mean, -calibrator.elbo_, -mean, hessian, float(weights.sum())),
            information,
            _information(process.factor @ process.factor.T),
            slopes,
        )

    @classmethod
    def from_memory(cls, memory: dict[str, Any]) -> Self:
        """Return what :meth:`memory` stored."""
        slopes = QuadraticLoss.from_memory(memory["slopes"]) if "slopes" in memory else None
        process = QuadraticLoss.from_memory(memory["process"])
        return cls(process, memory["information"], memory["averaged"], slopes)

    def memory(self, n_rows: float) -> dict[str, Any]:
        """Return plain arrays and numbers that a file can hold."""
        state = {
            "process": self.process.memory(n_rows),
            "information": self.information,
            "averaged": self.averaged,
        }
        return state if self.slopes is None else state | {"slopes": self.slopes.memory(n_rows)}

    def scaled(self, factor: float) -> "_Past":
        """Return the factors with all weights multiplied."""
        slopes = None if self.slopes is None else self.slopes.faded(factor)
        return _Past(self.process.faded(factor), self.information * factor, self.averaged * factor, slopes)

    def followed_by(self, calibrator: Any, data: LabelledPredictions, slope: float) -> "_Past":
        """Set the fitted attributes to the posterior given a batch as well, and return the factors of all rows."""
        data = replace(data, predictions=data.predictions.with_floor(calibrator.floor_))
        scores, weights = calibrator._scores_of(data.predictions), _weights(data)
        parameters = calibrator._process().parameters
        identity = np.eye(len(self.averaged))
        found = update_process(
            scores,
            data.labels,
            weights,
            slope,
            parameters,
            self._posterior(),
            identity + self.averaged,
            full=calibrator.covariance == "full",
            max_iterations=calibrator.max_iterations,
        )
        slopes = increasing = None
        if self.slopes is not None:
            increasing = update_monotone_process(
                calibrator._increasing_process(),
                self.slopes,
                scores.places,
                data.labels,
                weights,
                variance=parameters.variance,
                length_scale=parameters.length_scale,
            )
            slopes = slope_loss(increasing, scores.places, data.labels, weights, self.slopes)
        mean, hessian, precision = found.posterior
        process = QuadraticLoss(
            mean,
            self.process.loss - found.gain,
            -mean,
            hessian - identity,
            self.process.weight + float(weights.sum()),
        )
        calibrator._use_update(found, -process.loss, increasing, data)
        return _Past(process, precision - identity, _information(found.covariance), slopes)

    def _posterior(self) -> NormalPrior:
        """Return the posterior of the inducing variables, with a prior N(0, I)."""
        identity, loss = np.eye(len(self.averaged)), self.process
        hessian = identity + loss.hessian
        mean = np.linalg.solve(hessian, loss.hessian @ loss.theta - loss.gradient)
        return NormalPrior(mean.astype(np.float64, copy=False), hessian, identity + self.information)


def _information(covariance: Matrix) -> Matrix:
    """Return what rows add to the precision I of the prior."""
    added: Matrix = np.linalg.inv(covariance) - np.eye(len(covariance))
    return (added + added.T) / 2


def _equally_weighted(data: LabelledPredictions) -> LabelledPredictions:
    """Return a sample with weights of mean one, since each row has the information of one row."""
    return data if data.weights is None else replace(data, weights=data.weights / data.weights.mean())


def _weights(data: LabelledPredictions) -> Vector:
    return np.ones(data.n_rows) if data.weights is None else data.weights
