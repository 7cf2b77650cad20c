"""Cross-fitted calibration error without bins, and a one-sided lower confidence bound on the true error."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from calibrant.arrays import IntArray, Vector
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.binned_metric import Norm, check_norm
from calibrant.metrics.cross_fitting import (
    EVENT_NAMES,
    EventKind,
    Recalibrator,
    check_event_kind,
    check_folds,
    check_recalibrator,
    cross_folds,
    default_recalibrator,
    event_problems,
    recalibrated,
    recalibrator_name,
)
from calibrant.metrics.declaration import MetricTraits, metric
from calibrant.numerics.reductions import standard_error_of_mean
from calibrant.numerics.row_blocks import row_blocks
from calibrant.options import check_level
from calibrant.presentation.sentences import counted
from calibrant.shared_parameters import documented

__all__ = ["LowerBound", "calibration_error_lower_bound", "lp_calibration_error"]


@dataclass(frozen=True)
class LowerBound:
    """Lower confidence bound on the calibration error, with its estimate.

    Attributes
    ----------
    estimate : float
        Estimate of the calibration error, in expectation at most the true one; it may be slightly negative
        if predictions are calibrated.
    standard_error : float
        Standard error of the estimate, computed as if the terms of the rows were independent; see the notes of
        :func:`~calibrant.metrics.calibration_error_lower_bound`.
    limit : float
        One-sided lower confidence bound on the true calibration error, at least 0.
    level : float
        Confidence level of ``limit``.
    overconfidence, underconfidence : float or None
        The parts of the estimate from rows whose probability is too extreme and not extreme enough; they add
        up to it. None for ``kind="classwise"`` and ``"full"``.
    kind : str
        Which probabilities were assessed.
    norm : float or "max"
        Norm across classes, for ``kind="full"``.
    recalibrator : str
        Calibrator that was fitted on the other folds.
    n_folds : int
        Number of folds, at most the number of rows; one row cannot be cross-fitted.
    n_rows : int
        Number of rows.

    Examples
    --------
    >>> bound = LowerBound(0.03, 0.01, 0.0136, 0.95, 0.04, -0.01, "confidence", 1, "isotonic", 5, 900)
    >>> print(bound)
    Calibration error of the predicted class: at least 0.0136 with 95 % confidence (one-sided bound from sequential
    folds); estimate 0.03, the sum of overconfidence 0.04 and underconfidence -0.01; standard error 0.01 (mean absolute
    gap to isotonic recalibration, cross-fitted with 5 folds; 900 rows).
    """

    estimate: float
    standard_error: float
    limit: float
    level: float
    overconfidence: float | None
    underconfidence: float | None
    kind: EventKind
    norm: Norm
    recalibrator: str
    n_folds: int
    n_rows: int

    def __str__(self) -> str:
        split = ""
        if self.overconfidence is not None:
            split = f", the sum of overconfidence {self.overconfidence:.4g} and underconfidence {self.underconfidence:.4g}"
        gap = (
            "absolute gap"
            if self.kind != "full"
            else f"L{'-max' if self.norm == 'max' else self.norm} distance"
        )
        rows = counted(self.n_rows, "row")
        if self.n_folds < 2:
            return f"Calibration error of {EVENT_NAMES[self.kind]}: not estimated, since {rows} cannot be cross-fitted."
        return (
            f"Calibration error of {EVENT_NAMES[self.kind]}: at least {self.limit:.4g} with {100 * self.level:.4g} % "
            f"confidence (one-sided bound from sequential folds); estimate {self.estimate:.4g}{split}; standard error "
            f"{self.standard_error:.4g} (mean {gap} to {self.recalibrator} recalibration, cross-fitted with "
            f"{self.n_folds} folds; {rows})."
        )


# Relative change below which recalibration counts as having no effect on a probability: float32 cannot resolve it, and
# its direction would only be rounding.
UNMOVED = 1e-6


@documented
def calibration_error_lower_bound(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    norm: Norm = 1,
    kind: EventKind = "confidence",
    recalibrator: Recalibrator = "auto",
    n_folds: int = 5,
    level: float = 0.95,
) -> LowerBound:
    r"""One-sided lower confidence bound on the calibration error, with a cross-fitted estimate.

    The calibration error is :math:`E \lVert C - f \rVert_p` with the predictions f and the unknown true frequencies
    :math:`C = E[Y \mid f]`. Let g be a recalibration of f fitted on the *other* folds, and :math:`u_i` the dual vector
    of the direction in which it moves row i. The estimate is

    .. math::

        \widehat{\mathrm{CE}} = \frac{1}{W} \sum_i w_i \langle u_i, y_i - f_i \rangle, \qquad
        \langle u_i, g_i - f_i \rangle = \lVert g_i - f_i \rVert_p, \qquad \lVert u_i \rVert_q = 1, \qquad
        \tfrac1p + \tfrac1q = 1,

    with y one-hot and :math:`W = \sum_i w_i` :cite:`berta2026`. For an event with probability f and outcome y this is
    the mean of :math:`\mathrm{sign}(g_i - f_i) (y_i - f_i)`. Since g was not fitted to row i, the expectation is
    :math:`E \langle u, C - f \rangle \le E \lVert C - f \rVert_p` for *any* g; a better g gives a larger value.

    Parameters
    ----------
    sample_weight : array of shape (n,), optional
        Importance of each row; only ratios matter. Rows are independent observations, also for the standard error,
        and none is split between folds. A weight of two is *not* a duplicated row: copies of a row in different folds
        would let it be evaluated by a map fitted to itself.
    norm : 1, 2, other number of at least 1, or "max", default=1
        p: norm of the error of a row across classes, for ``kind="full"``. With two classes the errors of both
        are equal, so norm 1 gives twice the error of the positive class.
    kind : {"confidence", "classwise", "positive", "full"}, default="confidence"
        The predicted class by its confidence; every class by its probability (mean over classes); the second
        class of two; or all probabilities of a row jointly (canonical calibration), the strictest.
    recalibrator : str or Calibrator, default="auto"
        How g is fitted: a registry name, or a calibrator, which is cloned. An event is a two-class problem.
        ``"auto"`` is isotonic regression for events. For ``kind="full"`` it is Dirichlet calibration up to 20 classes
        and temperature scaling for more, see :func:`~calibrant.metrics.decompose`.
    n_folds : int, default=5
        Number of folds; at most the number of rows.
    level : float, default=0.95
        Confidence level of the bound.

    Returns
    -------
    LowerBound
        Estimate, standard error, one-sided confidence bound, and for ``"confidence"`` and ``"positive"`` the
        parts due to over- and underconfidence.

    Notes
    -----
    A binned error is biased upwards and positive even under perfect calibration. This estimate is biased downwards, and
    around zero under perfect calibration. *Overconfidence* collects the rows that g moves down (``"confidence"``) or
    towards one half (``"positive"``), underconfidence the others; each is a lower bound on its own part of the true
    error in expectation.

    **The bound** is not the estimate minus a multiple of its standard error. Two folds, each evaluated by a map fitted to
    the other, are positively dependent: the estimate varies up to one and a half times as much as its standard error says,
    and such a bound would exceed zero for calibrated samples too often. Instead, folds are processed in sequence. Each is
    evaluated by a map fitted to the folds *before* it, and the first is not evaluated. The terms :math:`t_i` are then
    martingale differences, and :math:`\bar t - q\,\mathrm{se}(t)`, or zero if that is larger, is a bound that keeps
    its level. The standard error is the observed one, but at least that under the predicted probabilities, so that a few
    dozen rows that are all correct by chance do not suffice. q is the quantile of Student's t with one less than the
    effective sample size as degrees of freedom.

    Isotonic regression finds any non-decreasing map, but with a few hundred rows it captures only a part of the true
    error. Maps with few parameters need fewer rows but find only what they can express. For a few hundred rows use
    ``recalibrator="dirichlet"``, which for an event is beta calibration with three parameters. Choosing the largest of
    several bounds afterwards would invalidate it.

    A bound for the mean *squared* error is the calibration part of
    :func:`~calibrant.metrics.decompose` with ``method="recalibration"`` and ``loss="brier"``.

    Costs sorts of n numbers and O(n) memory for events; otherwise ``n_folds`` fits and a copy of the rows.

    Examples
    --------
    Three in four rows are correct at a confidence of 90 %:

    >>> y = np.tile([0, 0, 0, 1], 100)
    >>> bound = calibration_error_lower_bound(y, [[0.9, 0.1]] * 400)
    >>> round(bound.estimate, 6), bound.limit > 0.1
    (0.15, True)
    >>> round(bound.overconfidence, 6), round(bound.underconfidence, 6)
    (0.15, 0.0)
    """
    _check(norm, kind, recalibrator, n_folds)
    check_level(level)
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    chosen = _chosen(recalibrator, kind, data)
    folds = cross_folds(data, n_folds)
    terms, _, outward = _terms(data, norm, kind, chosen, folds)
    estimate = _mean(terms, data.weights)
    forward, variances, _ = _terms(data, norm, kind, chosen, folds, earlier_only=True)
    later = np.sort(np.concatenate([*folds[1:], np.empty(0, np.intp)]))
    weights = None if data.weights is None else data.weights[later]
    return LowerBound(
        estimate=estimate,
        standard_error=standard_error_of_mean(terms, data.weights),
        limit=_limit(forward[later], variances[later], weights, float(level)),
        level=float(level),
        overconfidence=None if outward is None else _mean(np.where(outward, 0.0, terms), data.weights),
        underconfidence=None if outward is None else _mean(np.where(outward, terms, 0.0), data.weights),
        kind=kind,
        norm=norm,
        recalibrator=recalibrator_name(chosen),
        n_folds=len(folds),
        n_rows=data.n_rows,
    )


@metric(MetricTraits(weights_are_counts=False))
def lp_calibration_error(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    norm: Norm = 1,
    kind: EventKind = "confidence",
    recalibrator: Recalibrator = "auto",
    n_folds: int = 5,
) -> float:
    r"""Cross-fitted L_p calibration error: distance to a recalibration fitted on other folds, a lower bound in expectation.

    .. math::

        \frac{1}{W} \sum_i w_i \langle u_i, y_i - f_i \rangle, \qquad
        \langle u_i, g_i - f_i \rangle = \lVert g_i - f_i \rVert_p

    with g a recalibration of the predictions f fitted on the other folds :cite:`berta2026`. This is the estimate of
    :func:`~calibrant.metrics.calibration_error_lower_bound`, which has the same options, explains them, and also
    returns a standard error and a confidence bound.

    Parameters
    ----------
    sample_weight : array of shape (n,), optional
        Importance of each row; only ratios matter.
    norm, kind, recalibrator, n_folds
        As for :func:`~calibrant.metrics.calibration_error_lower_bound`.

    Returns
    -------
    float
        At most 1, or 2 for ``kind="full"``; lower is better. Around zero, so possibly slightly *negative*, for
        calibrated predictions. Costs sorts of n numbers and O(n) memory for events; otherwise ``n_folds`` fits.

    Examples
    --------
    Three in four rows are correct at a confidence of 90 %:

    >>> y = np.tile([0, 0, 0, 1], 100)
    >>> round(lp_calibration_error(y, [[0.9, 0.1]] * 400), 6)
    0.15
    """
    _check(norm, kind, recalibrator, n_folds)
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    terms, _, _ = _terms(data, norm, kind, _chosen(recalibrator, kind, data), cross_folds(data, n_folds))
    return _mean(terms, data.weights)


def _check(norm: Norm, kind: EventKind, recalibrator: Recalibrator, n_folds: int) -> None:
    check_norm(norm)
    check_event_kind(kind)
    check_folds(n_folds)
    check_recalibrator(recalibrator, events=kind != "full")
    if kind != "full" and norm != 1:
        raise ParameterError(
            f"norm={norm!r} is a norm across classes and needs kind='full'; for the mean squared error of "
            "an event, use decompose with method='recalibration' and loss='brier'."
        )


def _chosen(recalibrator: Recalibrator, kind: EventKind, data: LabelledPredictions) -> Recalibrator:
    if isinstance(recalibrator, str) and recalibrator == "auto":
        return default_recalibrator(data) if kind == "full" else "isotonic"
    return recalibrator


def _terms(
    data: LabelledPredictions,
    norm: Norm,
    kind: EventKind,
    recalibrator: Recalibrator,
    folds: list[IntArray],
    *,
    earlier_only: bool = False,
) -> tuple[Vector, Vector, NDArray[np.bool_] | None]:
    """Return the term of every row, its variance, and whether its probability was moved outwards.

    The variance is the one under the predicted probabilities; the last is None if it is undefined. With
    ``earlier_only``, rows of the first fold have the term zero.
    """
    terms, outward = np.zeros(data.n_rows), np.zeros(data.n_rows, dtype=np.bool_)
    # Expectations of u_y and of its square under the predictions, with u the dual vector.
    mean, square = np.zeros(data.n_rows), np.zeros(data.n_rows)
    n_problems = data.n_classes if kind == "classwise" else 1
    for problem in event_problems(data, kind):
        for rows, before, after, labels in _blocks(problem, recalibrator, folds, earlier_only):
            if kind == "full":
                dual = _dual(before, after, norm)
                mean[rows] = np.einsum("ik,ik->i", before, dual)
                square[rows] = np.einsum("ik,ik,ik->i", before, dual, dual)
                terms[rows] = dual[np.arange(len(labels)), labels] - mean[rows]
                continue
            before, after = before[:, 1], after[:, 1]
            direction = _direction(before, after) / n_problems
            mean[rows] += before * direction
            square[rows] += before * direction * direction
            terms[rows] += direction * (labels - before)
            middle = 0.0 if kind == "confidence" else 0.5
            outward[rows] = direction * np.where(before < middle, -1, 1) > 0
    variances = np.maximum(square - mean * mean, 0.0)
    return terms, variances, outward if kind in ("confidence", "positive") else None


def _blocks(
    problem: LabelledPredictions, recalibrator: Recalibrator, folds: list[IntArray], earlier_only: bool
) -> Iterator[tuple[IntArray, Vector, Vector, IntArray]]:
    """Yield row numbers, probabilities before and after recalibration in float64, and labels, in blocks."""
    before = problem.predictions.probabilities
    for rows, after in recalibrated(problem, recalibrator, folds, earlier_only=earlier_only):
        probabilities = after.probabilities
        for block in row_blocks(len(rows), problem.n_classes):
            some = rows[block]
            yield (
                some,
                before[some].astype(np.float64),
                probabilities[block].astype(np.float64),
                problem.labels[some],
            )


def _direction(before: Vector, after: Vector) -> Vector:
    """Return -1, 0 or 1: the direction in which recalibration moves every probability."""
    moved = after - before
    return np.where(np.abs(moved) > UNMOVED * before, np.sign(moved), 0.0)


def _dual(before: Vector, after: Vector, norm: Norm) -> Vector:
    """Return the dual vectors of ``after - before``, (n, K)."""
    direction = _direction(before, after)
    size = np.abs(after - before) * np.abs(direction)
    if norm == "max":
        dual = np.zeros_like(direction)
        largest = size.argmax(axis=1)[:, np.newaxis]
        np.put_along_axis(dual, largest, np.take_along_axis(direction, largest, axis=1), axis=1)
        return dual
    power = float(norm)
    # Relative to the largest, so that no power underflows or overflows.
    greatest = size.max(axis=1, keepdims=True)
    relative = np.divide(size, greatest, out=np.zeros_like(size), where=greatest > 0)
    length = np.power(relative, power).sum(axis=1, keepdims=True)
    length[length == 0] = 1
    return np.asarray(direction * np.power(relative, power - 1) / length ** ((power - 1) / power))


def _limit(terms: Vector, variances: Vector, weights: Vector | None, level: float) -> float:
    """Return a lower confidence bound on the mean, at least zero; zero if the spread is unknown.

    The standard error is the observed one, but at least that under the predicted probabilities. If hardly any row is
    wrong, all terms are nearly equal, and their spread does not show the effect of one more wrong row.
    """
    error = standard_error_of_mean(terms, weights)
    if np.isinf(error):
        return 0.0
    shares = np.full(len(terms), 1 / len(terms)) if weights is None else weights / weights.sum()
    error = max(error, float(np.sqrt((shares * shares) @ variances)))
    effective = float(1 / (shares @ shares))
    return max(0.0, _mean(terms, weights) - float(stdtrit(max(effective - 1, 1e-9), level)) * error)


def _mean(terms: Vector, weights: Vector | None) -> float:
    return float(np.average(terms, weights=weights))
