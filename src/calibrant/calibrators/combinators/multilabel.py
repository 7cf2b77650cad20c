"""MultilabelCalibration: calibrate the probabilities of several labels that do not exclude each other."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays import Cube, Float64Array, FloatArray, Matrix, Vector
from calibrant.calibrator import Calibrator
from calibrant.calibrators.combinators.identity import Identity
from calibrant.calibrators.monotone.piecewise_linear import PiecewiseLinearCalibration, SegmentMaps
from calibrant.errors import LabelError, MissingClassWarning, ParameterError, PredictionError
from calibrant.graph import Event, Value
from calibrant.graph.apply import evaluated_columns
from calibrant.graph.curves import Piecewise
from calibrant.label_matrix import LabelOutcomes, LabelScores, parse_labelled
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import gathered, warn_user
from calibrant.numerics.folds import content_seed, folds_by_content
from calibrant.numerics.reductions import column_sums
from calibrant.numerics.row_blocks import in_threads
from calibrant.objective import ArrayRows, Family, LogitMap, MultilabelLoss, QuadraticPenalty, logits
from calibrant.objective.curvature import Solver, dense_solver
from calibrant.options import check_choice, check_not_negative, check_whole
from calibrant.solvers import Solution, newton_steps

__all__ = ["MultilabelCalibration"]

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
        np.concatenate([np.zeros(label_map.n_shared), of_labels]), label_map.identity(), of_curve
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


SHARED = "shared"

SHOWN = 10  # labels that a warning lists


class MultilabelCalibration(BaseEstimator):  # type: ignore[misc]
    r"""Calibrate the probabilities of several labels that do not exclude each other, such as tags of an image.

    ``method="shared"`` fits one map to all labels, in which every label has a slope and a shift of its own:

    .. math:: \hat q_l = \sigma(u_l), \qquad u_l = \varphi(x_l) + v_l (x_l - c) + d_l,

    with the increasing piecewise-linear curve :math:`\varphi` of :class:`~calibrant.PiecewiseLinearCalibration` and its tempered
    log-odds x. All parameters jointly minimise the log-loss over all known outcomes, plus the penalty of
    :math:`\varphi` and :math:`\lambda \sum_l (4 v_l^2 + d_l^2)`. Labels with few rows borrow from the others: cross-validation
    chooses :math:`\lambda`. Any other method is fitted to each label separately, as a loop over binary fits.

    Parameters
    ----------
    method : str or Calibrator, default="shared"
        ``"shared"``, a name from :func:`calibrant.registry.calibrators`, or an unfitted calibrator that is cloned for each label.
    strength : float or "auto", default="auto"
        Regularisation strength :math:`\lambda` of ``"shared"``; ``"auto"`` for cross-validation.
    cv : int, default=5
        Number of folds that choose the strength.
    space : {"probabilities", "logits"}, default="probabilities"
        What the scores are: probabilities of each label, or their log-odds, such as outputs of a network before the sigmoid.

    Attributes
    ----------
    calibrators_ : list of Calibrator
        The fitted map of every label, a calibrator for two classes; it can be exported and plotted like any other.
    names_ : list of str or None
        Names of the labels, from a data frame.
    strength_ : float or None
        The chosen strength of ``"shared"``.
    strengths_, cv_losses_ : ndarray of shape (S,) or None
        Strengths that were compared, and their cross-validated log-loss per outcome.

    Notes
    -----
    *Missing outcomes* are NaN. They do not count, so labels may have different numbers of rows.

    *Labels with a single outcome* keep their probabilities if maps are separate, with a warning. The shared map covers them.

    *Order.* The shared curve is increasing, a separate slope :math:`v_l` may make the map of a label decrease if its rows
    are inverted.

    Costs L binary fits, on several threads for large data; ``"shared"`` one Newton fit of about 2L + 8 parameters in
    O(nL) per step, times the number of folds and strengths; at most 131,072 scores take part in the choice.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> z = generator.normal(-1, 2, (300, 3))                         # log-odds of three labels
    >>> Y = generator.random(z.shape) < 1 / (1 + np.exp(-0.5 * z))    # over-confident
    >>> fitted = MultilabelCalibration(space="logits").fit(z, Y)
    >>> fitted.predict_proba([[0.0, 4.0, -4.0]]).shape
    (1, 3)
    >>> separate = MultilabelCalibration(method="platt", space="logits").fit(z, Y)
    >>> [round(calibrator.slope_, 1) for calibrator in separate.calibrators_]
    [0.6, 0.5, 0.5]
    """

    calibrators_: list[Calibrator]
    names_: list[str] | None
    strength_: float | None
    strengths_: Float64Array | None
    cv_losses_: Float64Array | None

    def __init__(
        self,
        method: str | Calibrator = SHARED,
        strength: float | str = "auto",
        cv: int = 5,
        space: str = "probabilities",
    ) -> None:
        self.method = method
        self.strength = strength
        self.cv = cv
        self.space = space

    def fit(self, X: Any, Y: Any, sample_weight: Any = None) -> Self:
        """Fit the maps of all labels.

        Parameters
        ----------
        X : array or frame of shape (n, L), or list of L arrays (n, 2)
            Scores of the labels.
        Y : array, frame or sparse matrix of shape (n, L)
            Outcomes: 1 if the row has the label, 0 if not, NaN if the outcome is missing.
        sample_weight : array of shape (n,), optional
            A weight of two is equivalent to including the row twice.
        """
        self._check_parameters()
        scores, outcomes = parse_labelled(X, Y, sample_weight, self.space)
        return self.fit_parsed(scores, outcomes)

    def fit_parsed(self, scores: LabelScores, outcomes: LabelOutcomes) -> Self:
        """Fit to parsed scores and outcomes."""
        known, ones = outcomes.totals()
        if not ((ones > 0) & (ones < known)).any() and not 0 < ones.sum() < known.sum():
            raise LabelError("no label has both outcomes, 0 and 1; rows with both are needed to calibrate.")
        self.strength_ = self.strengths_ = self.cv_losses_ = None
        if isinstance(self.method, str) and self.method == SHARED:
            found = fit_shared(scores, outcomes, self.strength, self.cv, PiecewiseLinearCalibration())
            self.calibrators_, self.strength_ = found.calibrators, found.strength
            if len(found.strengths):
                self.strengths_, self.cv_losses_ = found.strengths, found.losses
        else:
            self.calibrators_ = self._separate(scores, outcomes)
        self.names_ = None if scores.names is None else list(scores.names)
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the calibrated probability of every label, (n, L), in the float type of the scores."""
        scores = self._parsed(X)
        columns = np.empty(scores.scores.shape, scores.scores.dtype)
        for label, calibrator in enumerate(self.calibrators_):
            columns[:, label] = calibrator.predict_proba(scores.of_label(label))[:, 1]
        return columns

    def predict(self, X: Any, threshold: float = 0.5) -> NDArray[np.intp]:
        """Return 1 for labels whose calibrated probability exceeds the threshold, else 0, (n, L)."""
        return (self.predict_proba(X) > threshold).astype(np.intp)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted maps of all labels to one file, without pickle."""
        from calibrant.persistence import save_labels

        save_labels(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read the fitted maps that :meth:`save` wrote."""
        from calibrant.persistence import load_labels

        return load_labels(cls, path)

    def _check_parameters(self) -> None:
        check_choice("space", self.space, ("probabilities", "logits"))
        check_whole("cv", self.cv, least=2)
        if self.strength != "auto":
            check_not_negative("strength", self.strength, "or 'auto'")
        if not isinstance(self.method, str | Calibrator):
            raise ParameterError(
                f"method must be 'shared', a registry name or an unfitted Calibrator, not {self.method!r}."
            )

    def _parsed(self, X: Any) -> LabelScores:
        check_is_fitted(self)
        scores = LabelScores.parse(X, self.space)
        if scores.n_labels != len(self.calibrators_):
            raise PredictionError(
                f"there are {scores.n_labels} labels, but {len(self.calibrators_)} in fit; pass the same columns."
            )
        if self.names_ is not None and scores.names is not None and list(scores.names) != self.names_:
            raise PredictionError(
                f"labels are {list(scores.names)[:SHOWN]}, but were {self.names_[:SHOWN]} in fit; pass the same columns in the "
                "same order."
            )
        return scores

    def _separate(self, scores: LabelScores, outcomes: LabelOutcomes) -> list[Calibrator]:
        from calibrant.registry import unfitted

        base = unfitted(self.method)
        with gathered(scores.n_labels, "label"):
            calibrators = in_threads(
                partial(_fitted, base, scores, outcomes), range(scores.n_labels), scores.n_rows
            )
        alone = [label for label, calibrator in enumerate(calibrators) if calibrator is None]
        if alone:
            shown = ", ".join(scores.name(label) for label in alone[:SHOWN])
            more = f" and {len(alone) - SHOWN} more" if len(alone) > SHOWN else ""
            warn_user(
                f"label {shown}{more} has a single outcome in the calibration set; such labels keep their probabilities.",
                MissingClassWarning,
            )
        return [
            _unchanged(scores, label) if calibrator is None else calibrator
            for label, calibrator in enumerate(calibrators)
        ]


def _fitted(base: Calibrator, scores: LabelScores, outcomes: LabelOutcomes, label: int) -> Calibrator | None:
    """Return the map of one label; None if it has a single outcome."""
    rows, known, weights = outcomes.of_label(label)
    counted = known if weights is None else known[weights > 0]
    if len(np.unique(counted)) < 2:
        return None
    fitted: Calibrator = clone(base).fit(scores.of_label(label, rows), known, weights)
    return fitted


def _unchanged(scores: LabelScores, label: int) -> Calibrator:
    """Return the fitted identity map of one label."""
    identity = Identity()
    identity._set_inputs(
        LabelledPredictions(scores.of_label(label), np.zeros(scores.n_rows, np.intp), np.arange(2))
    )
    return identity
