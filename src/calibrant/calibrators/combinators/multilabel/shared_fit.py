"""Fit of one map for several labels: a shared curve, and penalised slopes and shifts of the labels."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from calibrant.arrays import Float64Array, Vector
from calibrant.calibrator import Calibrator
from calibrant.calibrators.combinators.multilabel.label_map import LabelMap, label_penalty
from calibrant.calibrators.monotone.piecewise_linear import PiecewiseLinearCalibration, SegmentMaps
from calibrant.graph import Event, Value
from calibrant.graph.apply import evaluated_columns
from calibrant.label_matrix import LabelOutcomes, LabelScores
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.folds import content_seed, folds_by_content
from calibrant.objective import ArrayRows, Family, MultilabelLoss, logits
from calibrant.solvers import Solution, newton_steps

__all__ = ["SharedFit", "fit_shared"]

STRENGTHS = (1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1)
"""Strengths that cross-validation compares in this order, from labels that are all alike to labels on their own."""

SEARCH_ENTRIES = 2**17
"""Scores that the search for a strength uses at most: the strength does not depend on the number of rows."""

TOLERANCE, SEARCH_TOLERANCE = 1e-9, 1e-5  # nats


@dataclass(frozen=True, eq=False)
class SharedFit:
    """The fitted map of several labels.

    Attributes
    ----------
    calibrators : list of PiecewiseLinearCalibration
        The map of every label.
    strength : float
        Penalty of slopes and shifts of the labels.
    strengths, losses : ndarray of shape (S,)
        Strengths that were compared, and their cross-validated log-loss per outcome; empty if the strength was given.
    """

    calibrators: list[Calibrator]
    strength: float
    strengths: Float64Array
    losses: Float64Array


def fit_shared(
    scores: LabelScores,
    outcomes: LabelOutcomes,
    strength: float | str,
    cv: int,
    curve: PiecewiseLinearCalibration,
) -> SharedFit:
    """Fit one map to several labels; ``curve`` is the unfitted calibrator of the shared curve."""
    pooled = clone(curve).fit_labelled(_pooled(scores, outcomes))
    rows = _Rows.of(pooled, scores, outcomes)
    strengths, losses = np.empty(0), np.empty(0)
    if isinstance(strength, str):
        strengths, losses = _held_out_losses(rows, cv)
        strength = float(strengths[np.argmin(losses)])
    solution = rows.solved(strength, TOLERANCE)
    solution.warn_unless_converged("MultilabelCalibration")
    maps = rows.label_map
    calibrators = [
        _of_label(pooled, scores, label, replace(solution, theta=maps.of_label(solution.theta, label)))
        for label in range(scores.n_labels)
    ]
    return SharedFit(calibrators, float(strength), strengths, losses)


def _pooled(scores: LabelScores, outcomes: LabelOutcomes) -> LabelledPredictions:
    """Return all known outcomes of all labels as those of one event."""
    parts = [outcomes.of_label(label) for label in range(scores.n_labels)]
    column = np.concatenate([scores.scores[rows, label] for label, (rows, _, _) in enumerate(parts)])
    weights = None
    if outcomes.weights is not None:
        weights = np.concatenate([part for _, _, part in parts if part is not None])
    one = LabelScores(column[:, np.newaxis], scores.space)
    return LabelledPredictions.parse(
        one.of_label(0), np.concatenate([known for _, known, _ in parts]), weights
    )


@dataclass(frozen=True, eq=False)
class _Rows:
    """Tempered log-odds, outcomes and weights of rows, and the family of maps."""

    label_map: LabelMap
    of_curve: Float64Array
    start: Vector
    log_odds: Float64Array  # (n, L)
    outcomes: Float64Array  # (n, L)
    weights: Vector | None

    @classmethod
    def of(cls, pooled: PiecewiseLinearCalibration, scores: LabelScores, outcomes: LabelOutcomes) -> Self:
        maps = SegmentMaps(pooled.knots_)
        label_map = LabelMap(scores.n_labels, maps)

        def tempered(event: Event) -> list[Value]:
            return [pooled._tempered(event)]

        log_odds = np.empty(scores.scores.shape)
        for label in range(scores.n_labels):
            predictions = scores.of_label(label).with_floor(pooled.floor_)
            log_odds[:, label] = evaluated_columns(tempered, predictions)[:, 0]
        start = np.concatenate([pooled._theta, np.zeros(2 * scores.n_labels)])
        of_curve = maps.strengths(pooled.intercept_penalty, pooled.slope_penalty, pooled.difference_penalty)
        weights = outcomes.weights
        if weights is not None and weights.mean() < 1:
            weights = weights / weights.mean()  # relative weights do not reduce the number of rows
        return cls(label_map, of_curve, start, log_odds, outcomes.outcomes, weights)

    def take(self, chosen: NDArray[np.intp], weights: Vector | None = None) -> Self:
        """Return some of the rows."""
        if weights is None and self.weights is not None:
            weights = self.weights[chosen]
        return replace(self, log_odds=self.log_odds[chosen], outcomes=self.outcomes[chosen], weights=weights)

    def family(self, strength: float) -> Family:
        """Return the family of maps with the penalty of a strength."""
        penalty = label_penalty(self.label_map, self.of_curve, strength)
        return Family(logits, self.label_map, MultilabelLoss(), penalty_in_rows=penalty)

    def solved(self, strength: float, tolerance: float) -> Solution:
        """Return the optimum of one strength."""
        return next(self.path((strength,), tolerance))

    def path(self, strengths: tuple[float, ...], tolerance: float) -> Iterator[Solution]:
        """Yield the optima of several strengths, each started at the one before."""
        rows = ArrayRows(self.log_odds, self.outcomes, self.weights)
        expansion: Any = None
        for strength in strengths:
            family = self.family(strength)
            objective = family.objective(rows)
            with objective.open():
                at = (
                    objective.expand(self.start)
                    if expansion is None
                    else expansion.with_penalty_of(objective)
                )
                solution, expansion, _ = newton_steps(
                    objective, at, family.lower(), tolerance=tolerance, confirm_runaway=True
                )
            yield solution

    def losses(self, theta: Vector) -> float:
        """Return the sum of the log-loss over all known outcomes."""
        rows = ArrayRows(self.log_odds, self.outcomes, self.weights)
        return self.family(0.0).without_penalty().objective(rows).data_loss(theta) * rows.total_weight


def _held_out_losses(rows: _Rows, cv: int) -> tuple[Float64Array, Float64Array]:
    """Return strengths, the strongest first, and their cross-validated log-loss per outcome, until it rises twice."""
    some = max(1, SEARCH_ENTRIES // rows.log_odds.shape[1])
    seed = content_seed(rows.outcomes)
    if len(rows.log_odds) > some:
        order = np.lexsort(tuple(reversed(_keys(rows))))
        rows = rows.take(order[:: -(-len(order) // some)])
    folds = []
    for fold in folds_by_content(_keys(rows), rows.weights, min(cv, len(rows.log_odds)), seed):
        train = rows.take(fold.train_rows, fold.train_weights)
        folds.append((train.path(STRENGTHS, SEARCH_TOLERANCE), rows.take(fold.test_rows, fold.test_weights)))
    losses: list[float] = []
    for _ in STRENGTHS:
        losses.append(sum(test.losses(next(path).theta) for path, test in folds))
        if len(losses) - 1 >= int(np.argmin(losses)) + 2:
            break
    known = ~np.isnan(rows.outcomes)
    weights = np.ones(len(known)) if rows.weights is None else rows.weights
    total = float(weights @ known.sum(axis=1))
    return np.array(STRENGTHS[: len(losses)]), np.array(losses) / total


def _keys(rows: _Rows) -> list[Vector]:
    """Return numbers by which rows are sorted, so that their order does not matter."""
    return [rows.log_odds.sum(axis=1), np.nansum(rows.outcomes, axis=1)]


def _of_label(
    pooled: PiecewiseLinearCalibration, scores: LabelScores, label: int, solution: Solution
) -> PiecewiseLinearCalibration:
    """Return the map of one label as a fitted calibrator for two classes."""
    calibrator: PiecewiseLinearCalibration = clone(pooled)
    predictions = scores.of_label(label).with_floor(pooled.floor_)
    calibrator._set_inputs(
        LabelledPredictions(predictions, np.zeros(scores.n_rows, dtype=np.intp), np.arange(2))
    )
    calibrator.temperature_, calibrator.mixing_ = pooled.temperature_, pooled.mixing_
    calibrator.knots_ = pooled.knots_
    calibrator._use(solution)
    return calibrator
