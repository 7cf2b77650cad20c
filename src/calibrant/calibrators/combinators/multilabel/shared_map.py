"""Map of several labels and its fit: one curve that all share, with a penalised slope and shift of every label."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from calibrant.arrays import Cube, Float64Array, FloatArray, Matrix, Vector
from calibrant.calibrator import Calibrator
from calibrant.calibrators.monotone.piecewise_linear import PiecewiseLinearCalibration, SegmentMaps
from calibrant.graph import Event, Value
from calibrant.graph.apply import evaluated_columns
from calibrant.graph.curves import Piecewise
from calibrant.label_matrix import LabelOutcomes, LabelScores
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.folds import content_seed, folds_by_content
from calibrant.numerics.reductions import column_sums
from calibrant.objective import ArrayRows, Family, LogitMap, MultilabelLoss, QuadraticPenalty, logits
from calibrant.objective.curvature import Solver, dense_solver
from calibrant.solvers import Solution, newton_steps

__all__ = ["LabelMap", "SharedFit", "fit_shared", "label_penalty"]

RIDGE = 1e-12
"""Added to the curvature of a label, relative to that of all, where no outcome of the label is known."""

SLOPE_PENALTY = 4.0
"""Penalty of a slope relative to that of a shift: log-odds spread by about two, so that both cost the same for one effect."""


@dataclass(frozen=True, eq=False)
class ArrowCurvature:
    r"""Hessian of the loss of several labels, which is an arrow: labels meet only through the shared curve.

    .. math:: \begin{pmatrix} A & B_1 & \cdots & B_L \\ B_1^\top & C_1 & & \\ \vdots & & \ddots & \\ B_L^\top & & & C_L
              \end{pmatrix}

    Its inverse costs O(L m^2) through the Schur complement :math:`A - \sum_l B_l C_l^{-1} B_l^\top`.
    """

    shared: Matrix  # (Q, Q); A
    mixed: Cube  # (L, Q, 2); B
    own: Cube  # (L, 2, 2); C

    @classmethod
    def of_block(
        cls, label_map: "LabelMap", bends: FloatArray, weighted: FloatArray, features: FloatArray
    ) -> Self:
        """Return the sums for one block of rows; ``weighted`` are second derivatives times row weights, (n, L)."""
        del bends
        columns = label_map.shared_features(features)
        own = np.stack([features - label_map.middle, np.ones_like(features)])
        heavy = columns * weighted
        size = len(columns)
        return cls(
            heavy.reshape(size, -1) @ columns.reshape(size, -1).T,
            np.einsum("anl,bnl->lab", heavy, own),
            np.einsum("anl,bnl->lab", own * weighted, own),
        )

    @staticmethod
    def work_per_row(label_map: "LabelMap") -> int:
        """Return about how many multiplications a row takes."""
        return label_map.n_classes * (label_map.n_shared + 2) ** 2

    def __add__(self, other: Self) -> Self:
        return type(self)(self.shared + other.shared, self.mixed + other.mixed, self.own + other.own)

    def averaged(self, total_weight: float) -> Self:
        """Return the curvature of the mean loss from that of the sum."""
        return type(self)(self.shared / total_weight, self.mixed / total_weight, self.own / total_weight)

    def solver(self, penalty: QuadraticPenalty) -> Solver:
        """Return the inverse of the Hessian of mean loss plus penalty."""
        size, n_labels = len(self.shared), len(self.own)
        own = self.own.copy()
        least = RIDGE * (float(np.abs(self.own).mean()) + 1e-300)
        of_labels = penalty.strengths[size:].reshape(2, n_labels)
        for k in range(2):
            own[:, k, k] += 2 * of_labels[k] + least
        inverse = np.linalg.inv(own)
        solved = np.einsum("lab,lqb->laq", inverse, self.mixed)  # C^-1 B^T, (L, 2, Q)
        complement = self.shared + penalty.hessian(size) - np.einsum("lqa,lar->qr", self.mixed, solved)
        of_shared = dense_solver((complement + complement.T) / 2)

        def solve(residual: Vector) -> Vector:
            shared, rest = residual[:size], residual[size:].reshape(2, n_labels).T
            step = of_shared(shared - np.einsum("laq,la->q", solved, rest))
            of_each = np.einsum("lab,lb->la", inverse, rest) - solved @ step
            return np.concatenate([step, of_each.T.ravel()])

        return solve


class LabelMap(LogitMap):
    r"""Log-odds :math:`u_l = b + \sum_j s_j\, g_j(x_l) + v_l (x_l - c) + d_l` of L labels from their scores :math:`x_l`.

    :math:`\theta` holds b and the slopes s that all labels share, as in
    :class:`~calibrant.calibrators.monotone.piecewise_linear.SegmentMaps`, then the slopes v and the shifts d of the labels,
    which are measured at the middle c of the knots.

    Parameters
    ----------
    n_labels : int
        Number of labels, L.
    maps : SegmentMaps
        The shared curve.

    Examples
    --------
    >>> label_map = LabelMap(2, SegmentMaps(np.array([-1.0])))
    >>> label_map.forward(np.array([-1.0, 1.0, 2.0, 0.0, 0.5, 0.0, 0.25]), np.array([[-2.0, 0.0]]))
    array([[-2.  ,  1.75]])
    """

    curvature_type: ClassVar[type[Any] | None] = ArrowCurvature

    def __init__(self, n_labels: int, maps: SegmentMaps) -> None:
        super().__init__(n_labels, bias=True)
        self.maps = maps
        self.n_shared = 1 + maps.n_slopes
        self.middle = maps.middle

    @property
    def n_parameters(self) -> int:
        return self.n_shared + 2 * self.n_classes

    def identity(self) -> Vector:
        return np.concatenate([self.maps.unchanged, np.zeros(2 * self.n_classes)])

    def lower(self) -> Vector:
        return np.concatenate([self.maps.lower, np.full(2 * self.n_classes, -np.inf)])

    def of_label(self, theta: Vector, label: int) -> Vector:
        """Return the map of one label in the parameters of the shared curve: value at the first knot, and slopes."""
        shared, slopes, shifts = self._parts(theta)
        own: Vector = shared.astype(np.float64)
        own[1:] += slopes[label]
        first = self.maps.knots[0] if len(self.maps.knots) else 0.0
        own[0] += shifts[label] + slopes[label] * (first - self.middle)
        return own

    def shared_features(self, features: FloatArray) -> FloatArray:
        """Return what every shared parameter is multiplied by, (Q, n, L)."""
        columns = np.empty((self.n_shared, *features.shape), features.dtype)
        columns[0] = 1.0
        columns[1:] = self.maps.segments.features(features)
        return columns

    def traced(self, theta: Vector, x: Value) -> Value:
        shared, slopes, shifts = self._parts(theta)
        curve = x.then(Piecewise.sloped(self.maps.knots, shared[1:].astype(np.float64)))
        return curve + x.affine(slopes, shifts - slopes * self.middle + shared[0])

    def forward(self, theta: FloatArray, features: FloatArray, *prepared: Any) -> FloatArray:  # noqa: ARG002
        shared, slopes, shifts = self._parts(theta)
        scores = self.maps.segments.values(shared[1:], features)
        scores += (features - self.middle) * slopes
        scores += shifts + shared[0]
        return scores

    def adjoint(self, cotangent: FloatArray, features: FloatArray, *prepared: Any) -> Vector:  # noqa: ARG002
        own = np.einsum("nl,nl->l", cotangent, features - self.middle)
        shifts = column_sums(cotangent)
        of_slopes = self.maps.segments.adjoint(cotangent, features)
        return np.concatenate([[shifts.sum()], of_slopes, own, shifts]).astype(np.float64)

    def _parts(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        return (
            theta[: self.n_shared],
            theta[self.n_shared : self.n_shared + self.n_classes],
            theta[self.n_shared + self.n_classes :],
        )


def label_penalty(label_map: LabelMap, of_curve: Matrix, strength: float) -> QuadraticPenalty:
    """Return the penalty on the sum of losses: of the shared curve as given, of slopes and shifts of labels by strength."""
    of_labels = np.repeat([SLOPE_PENALTY * strength, strength], label_map.n_classes)
    return QuadraticPenalty(
        np.concatenate([np.zeros(label_map.n_shared), of_labels]),
        label_map.identity(),
        of_curve,
    )


STRENGTHS = (1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1)
"""Strengths that cross-validation compares in this order, from labels that are all alike to labels on their own."""

SEARCH_ENTRIES = 2**17
"""Scores that the search for a strength uses at most: the strength does not depend on the number of rows."""

TOLERANCE, SEARCH_TOLERANCE = 1e-9, 1e-5  # nats


@dataclass(frozen=True, eq=False)
class SharedFit:
    """The fitted map of several labels."""

    calibrators: list[Calibrator]  # The map of every label
    strength: float  # Penalty of slopes and shifts of the labels
    # (S,): strengths that were compared, and their cross-validated log-loss per outcome; empty if the
    # strength was given
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
