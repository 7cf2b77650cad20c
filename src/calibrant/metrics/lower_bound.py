"""A calibration error without bins that, in expectation, is never too large."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.bin_errors import Norm, check_norm
from calibrant.metrics.cross_folds import cross_folds
from calibrant.metrics.declaration import MetricTraits, metric
from calibrant.metrics.lower_bound_result import LowerBound
from calibrant.metrics.recalibrated import (
    EventKind,
    Recalibrator,
    check_event_kind,
    check_folds,
    check_recalibrator,
    default_recalibrator,
    event_problems,
    recalibrated,
    recalibrator_name,
)
from calibrant.numerics.row_blocks import row_blocks
from calibrant.numerics.weighted_means import standard_error_of_mean
from calibrant.options import check_level

__all__ = ["LowerBound", "calibration_error_lower_bound", "lp_calibration_error"]

Vector = NDArray[np.float64]

# A probability that recalibration moves by less than this share of itself has not been moved: float32 cannot tell,
# and a direction made of rounding would be a coin toss.
UNMOVED = 1e-6


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
    r"""Calibration error by cross-fitting, with a limit below which it is not.

    The calibration error is :math:`E \lVert C - f \rVert_p` with the predictions f and the true frequencies
    :math:`C = E[Y \mid f]`, which nobody knows. With g a recalibration of f that was learnt on the *other* folds
    and the direction :math:`u_i` in which it moves row i,

    .. math::

        \widehat{\mathrm{CE}} = \frac{1}{W} \sum_i w_i \langle u_i, y_i - f_i \rangle, \qquad
        \langle u_i, g_i - f_i \rangle = \lVert g_i - f_i \rVert_p, \qquad \lVert u_i \rVert_q = 1, \qquad
        \tfrac1p + \tfrac1q = 1,

    y one-hot and :math:`W = \sum_i w_i` :cite:`berta2026`. For an event with probability f and outcome y this is
    the mean of :math:`\mathrm{sign}(g_i - f_i) (y_i - f_i)`. Since g has not seen row i, the expectation is
    :math:`E \langle u, C - f \rangle \le E \lVert C - f \rVert_p`, *whatever* g is; the better g, the closer.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two.
    sample_weight : array of shape (n,), optional
        How much each row matters; only ratios count. Rows are independent observations, also for the standard
        error, and none is split between folds: a weight of two is *not* a row given twice, since copies of a
        row in different folds would let it be judged by itself.
    norm : 1, 2, other number of at least 1, or "max", default=1
        p: norm of the error of a row across classes, for ``kind="full"``. For two classes the errors of both
        are equal, and norm 1 gives twice the error of the positive class.
    kind : {"confidence", "classwise", "positive", "full"}, default="confidence"
        The predicted class by its confidence; every class by its probability, the mean of all; the second
        class of two; or all probabilities of a row at once (canonical calibration), the strictest.
    recalibrator : str or Calibrator, default="auto"
        What g is: a registry name, or a calibrator, of which clones are fitted. An event is a problem of two
        classes. ``"auto"`` is isotonic regression for events; for ``kind="full"`` Dirichlet calibration up to
        20 classes and temperature scaling for more, see :func:`~calibrant.metrics.decompose`.
    n_folds : int, default=5
        Number of folds; no more than there are rows.
    level : float, default=0.95
        Confidence of the limit.

    Returns
    -------
    LowerBound
        Estimate, standard error, a one-sided confidence limit, and for ``"confidence"`` and ``"positive"`` the
        parts due to over- and underconfidence.

    Notes
    -----
    Not biased upwards like a binned error, which is positive for perfect calibration too; rather downwards, and
    around zero for perfect calibration. *Overconfidence* collects the rows that g moves down
    (``"confidence"``) or towards one half (``"positive"``), underconfidence the others; each bounds its own
    part of the true error from below.

    **The limit** is not the estimate less a multiple of its standard error. Two folds, each judged by a map that
    learnt from the other, agree more often than chance has it, so that the estimate varies up to half as much
    again as its standard error says, and such a limit would be above zero for calibrated samples too often.
    Instead the folds are taken one after another, each judged by a map learnt on those *before* it, and the first
    not at all; these terms :math:`t_i` are martingale differences, and
    :math:`\bar t - q\,\mathrm{se}(t)`, or zero if that is larger, is a limit that holds its level. The standard error
    is the observed one, but at least that of true predictions, so that a few dozen rows which happen all to be right
    prove nothing, and q is the quantile of Student's t with one less than the effective number of rows.

    Isotonic regression finds any non-decreasing map, but of a few hundred rows it reaches only a part of the true
    error. Maps with few parameters need fewer rows, but find only what they can express: ``recalibrator="dirichlet"``
    is, for an event, beta calibration with three parameters.
    Take it for some hundred rows. Choosing the largest of several afterwards would spoil the bound.

    The mean *square* of the error has a bound as well: the calibration part of
    :func:`~calibrant.metrics.decompose` with ``method="recalibration"`` and ``loss="brier"``.

    For events costs sorts of n numbers, O(n) memory; otherwise ``n_folds`` fits and a copy of the rows.

    Examples
    --------
    Rows at 90 %, of which three in four are right:

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
    forward, promised, _ = _terms(data, norm, kind, chosen, folds, earlier_only=True)
    later = np.sort(np.concatenate([*folds[1:], np.empty(0, np.intp)]))
    weights = None if data.weights is None else data.weights[later]
    return LowerBound(
        estimate=estimate,
        standard_error=standard_error_of_mean(terms, data.weights),
        limit=_limit(forward[later], promised[later], weights, float(level)),
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
    r"""Calibration error by cross-fitting, without bins and never too large in expectation.

    .. math::

        \frac{1}{W} \sum_i w_i \langle u_i, y_i - f_i \rangle, \qquad
        \langle u_i, g_i - f_i \rangle = \lVert g_i - f_i \rVert_p

    with g a recalibration of the predictions f fitted on the other folds :cite:`berta2026`: the estimate of
    :func:`~calibrant.metrics.calibration_error_lower_bound`, which says more, has the same options, and gives
    its standard error and a confidence limit too.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two.
    sample_weight : array of shape (n,), optional
        How much each row matters; only ratios count.
    norm : 1, 2, other number of at least 1, or "max", default=1
        Norm of the error of a row across classes, for ``kind="full"``.
    kind : {"confidence", "classwise", "positive", "full"}, default="confidence"
        Which probabilities are meant.
    recalibrator : str or Calibrator, default="auto"
        What is fitted on the other folds.
    n_folds : int, default=5
        Number of folds; no more than there are rows.

    Returns
    -------
    float
        At most 1, or 2 for ``kind="full"``; lower is better. Around zero, so perhaps slightly *negative*, for
        calibrated predictions. Costs sorts of n numbers and O(n) memory for events; otherwise ``n_folds`` fits.

    Examples
    --------
    Rows at 90 %, of which three in four are right:

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
            f"norm={norm!r} is a norm across classes and needs kind='full'; for the mean square of the error of "
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
    folds: list[NDArray[np.intp]],
    *,
    earlier_only: bool = False,
) -> tuple[Vector, Vector, NDArray[np.bool_] | None]:
    """Return the term of every row, its variance, and whether its probability was moved outward.

    The variance is what it is if the predictions are true; the last is None where it has no meaning. With
    ``earlier_only``, rows of the first fold have no term of their own, but zero.
    """
    terms, outward = np.zeros(data.n_rows), np.zeros(data.n_rows, dtype=np.bool_)
    # Expectations of u_y and of its square under the predictions, with u the dual vector.
    mean, square = np.zeros(data.n_rows), np.zeros(data.n_rows)
    n_problems = data.n_classes if kind == "classwise" else 1
    for problem in event_problems(data, kind):
        for rows, forecast, recast, labels in _blocks(problem, recalibrator, folds, earlier_only):
            if kind == "full":
                dual = _dual(forecast, recast, norm)
                mean[rows] = np.einsum("ik,ik->i", forecast, dual)
                square[rows] = np.einsum("ik,ik,ik->i", forecast, dual, dual)
                terms[rows] = dual[np.arange(len(labels)), labels] - mean[rows]
                continue
            forecast, recast = forecast[:, 1], recast[:, 1]
            direction = _direction(forecast, recast) / n_problems
            mean[rows] += forecast * direction
            square[rows] += forecast * direction * direction
            terms[rows] += direction * (labels - forecast)
            middle = 0.0 if kind == "confidence" else 0.5
            outward[rows] = direction * np.where(forecast < middle, -1, 1) > 0
    variances = np.maximum(square - mean * mean, 0.0)
    return terms, variances, outward if kind in ("confidence", "positive") else None


def _blocks(
    problem: LabelledPredictions,
    recalibrator: Recalibrator,
    folds: list[NDArray[np.intp]],
    earlier_only: bool,
) -> Iterator[tuple[NDArray[np.intp], Vector, Vector, NDArray[np.intp]]]:
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


def _direction(forecast: Vector, recast: Vector) -> Vector:
    """Return -1, 0 or 1: which way recalibration moves every probability."""
    moved = recast - forecast
    return np.where(np.abs(moved) > UNMOVED * forecast, np.sign(moved), 0.0)


def _dual(forecast: Vector, recast: Vector, norm: Norm) -> Vector:
    """Return the dual vectors of ``recast - forecast``, (n, K)."""
    direction = _direction(forecast, recast)
    size = np.abs(recast - forecast) * np.abs(direction)
    if norm == "max":
        dual = np.zeros_like(direction)
        largest = size.argmax(axis=1)[:, np.newaxis]
        np.put_along_axis(dual, largest, np.take_along_axis(direction, largest, axis=1), axis=1)
        return dual
    power = float(norm)
    # Relative to the largest, so that no power under- or overflows.
    greatest = size.max(axis=1, keepdims=True)
    relative = np.divide(size, greatest, out=np.zeros_like(size), where=greatest > 0)
    length = np.power(relative, power).sum(axis=1, keepdims=True)
    length[length == 0] = 1
    return np.asarray(direction * np.power(relative, power - 1) / length ** ((power - 1) / power))


def _limit(terms: Vector, promised: Vector, weights: Vector | None, level: float) -> float:
    """Return a lower confidence limit of the mean, at least zero; zero if nothing is known of the spread.

    The error is the observed one, but not less than that of true predictions: where hardly any row is wrong, all
    terms are nearly the same, and their spread says nothing of what one wrong row would change.
    """
    error = standard_error_of_mean(terms, weights)
    if np.isinf(error):
        return 0.0
    shares = np.full(len(terms), 1 / len(terms)) if weights is None else weights / weights.sum()
    error = max(error, float(np.sqrt((shares * shares) @ promised)))
    effective = float(1 / (shares @ shares))
    return max(0.0, _mean(terms, weights) - float(stdtrit(max(effective - 1, 1e-9), level)) * error)


def _mean(terms: Vector, weights: Vector | None) -> float:
    return float(np.average(terms, weights=weights))
