"""A proper score taken apart: what recalibration could remove, and what it could not."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy
from scipy.stats import norm as normal

from calibrant.binning import BinningScheme
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.bin_errors import Strategy, chosen_partition, chosen_scheme
from calibrant.metrics.recalibrated import (
    EventKind,
    Recalibrator,
    check_event_kind,
    check_folds,
    check_level,
    check_recalibrator,
    cross_folds,
    default_recalibrator,
    event_problems,
    recalibrated,
    recalibrator_name,
    standard_error_of_mean,
)
from calibrant.metrics.row_losses import Loss, check_loss, row_losses
from calibrant.numerics.isotonic import isotonic_fit

__all__ = ["Decomposition", "decompose"]

Method = Literal["auto", "isotonic", "bins", "recalibration"]
Vector = NDArray[np.float64]

LOSS_NAMES = {"brier": "Brier score", "log": "log-loss", "spherical": "spherical loss"}
SUBJECT = {
    "confidence": "whether the predicted class is right",
    "classwise": "each class, averaged over classes",
    "positive": "the positive class",
    "full": "all classes together",
}


@dataclass(frozen=True)
class Decomposition:
    """The parts of a proper score.

    ``score = calibration + refinement = calibration - discrimination + uncertainty``.

    Attributes
    ----------
    score : float
        Mean loss of the predictions.
    calibration : float
        The part that recalibration removes, also called miscalibration or reliability; infinite where the score
        is.
    refinement : float
        Loss after recalibration.
    discrimination : float
        How much less that is than the uncertainty; also called resolution.
    uncertainty : float
        Loss of predicting the base rates of these rows, always the same.
    within_bins : float or None
        For ``method="bins"``: the part of ``calibration`` due to scores that differ within a bin; the rest is the
        classical reliability term.
    standard_error : float or None
        For ``method="recalibration"``: standard error of ``calibration``.
    loss, kind, method : str
        What was decomposed, and how.
    recalibrated_by : str
        What recalibration means here, in words.
    n_rows : int
        Number of rows.

    Examples
    --------
    >>> parts = Decomposition(0.21, 0.02, 0.19, 0.05, 0.24, None, None, "brier", "positive", "isotonic",
    ...                       "isotonic regression on the same rows", 400)
    >>> print(parts)
    Brier score of the positive class: 0.21 = calibration 0.02 + refinement 0.19 = calibration 0.02 -
    discrimination 0.05 + uncertainty 0.24; isotonic regression on the same rows removes 9.52 % of it (400 rows).
    """

    score: float
    calibration: float
    refinement: float
    discrimination: float
    uncertainty: float
    within_bins: float | None
    standard_error: float | None
    loss: Loss
    kind: EventKind
    method: str
    recalibrated_by: str
    n_rows: int

    @property
    def share(self) -> float:
        """Share of the score that recalibration removes; 1 if the score is infinite, 0 if it is zero."""
        if self.score == 0:
            return 0.0
        return self.calibration / self.score if np.isfinite(self.score) else 1.0

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return a normal confidence interval of ``calibration``; for ``method="recalibration"`` only.

        It is about the loss that *this* recalibration removes. Since that is no more than could be removed, the
        lower end holds for the true calibration part as well, the upper end does not.
        """
        check_level(level)
        if self.standard_error is None:
            raise ParameterError(
                "only a decomposition by method='recalibration' has an interval; for others, resample the rows."
            )
        if np.isinf(self.standard_error):
            return -np.inf, np.inf
        margin = float(normal.ppf((1 + level) / 2)) * self.standard_error
        return self.calibration - margin, self.calibration + margin

    def __str__(self) -> str:
        inside = "" if self.within_bins is None else f"; {self.within_bins:.4g} of it arises within bins"
        error = "" if self.standard_error is None else f" (standard error {self.standard_error:.2g})"
        return (
            f"{LOSS_NAMES[self.loss]} of {SUBJECT[self.kind]}: {self.score:.4g} = calibration "
            f"{self.calibration:.4g}{error} + refinement {self.refinement:.4g} = calibration "
            f"{self.calibration:.4g} - discrimination {self.discrimination:.4g} + uncertainty "
            f"{self.uncertainty:.4g}; {self.recalibrated_by} removes {100 * self.share:.3g} % of it{inside} "
            f"({self.n_rows} rows)."
        )


def decompose(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    loss: Loss = "brier",
    method: Method = "auto",
    kind: EventKind | Literal["auto"] = "auto",
    n_bins: int = 15,
    strategy: Strategy = "quantile",
    binning: BinningScheme | None = None,
    recalibrator: Recalibrator = "auto",
    n_folds: int = 5,
) -> Decomposition:
    r"""Split a proper score into what recalibration could remove and what it could not.

    With f the predictions, g what recalibration makes of them, r the base rates and
    :math:`S(p) = \frac1W \sum_i w_i \, \ell(p_i, y_i)`, :math:`W = \sum_i w_i`,

    .. math::

        S(f) = \underbrace{S(f) - S(g)}_{\text{calibration}} + \underbrace{S(g)}_{\text{refinement}}, \qquad
        S(g) = \underbrace{S(r)}_{\text{uncertainty}} - \underbrace{\bigl(S(r) - S(g)\bigr)}_{\text{discrimination}} .

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two.
    sample_weight : array of shape (n,), optional
        Weights of the rows. For isotonic regression and bins a weight of two is a row given twice; for
        recalibration weights say how much each row matters, only ratios count, and no row is split between folds.
    loss : {"brier", "log", "spherical"}, default="brier"
        Which loss. For ``kind="full"`` and ``"positive"`` the score is that of
        :func:`~calibrant.metrics.brier_score`, :func:`~calibrant.metrics.log_loss` or
        :func:`~calibrant.metrics.spherical_loss`.
    method : {"auto", "isotonic", "bins", "recalibration"}, default="auto"
        Where g comes from.

        - ``"isotonic"``: the best non-decreasing function of the score of an event, fitted to the same rows
          (CORP, :cite:`dimitriadis2021`). Has nothing to be tuned.
        - ``"bins"``: the mean outcome of the bin of the score :cite:`murphy1973`.
        - ``"recalibration"``: a calibrator fitted on the other folds :cite:`berta2025`, for any number of
          classes, with a standard error.

        ``"auto"`` is recalibration for ``kind="full"`` and isotonic otherwise.
    kind : {"auto", "confidence", "classwise", "positive", "full"}, default="auto"
        The score of the event that the predicted class is right; of each class against the others, averaged
        over classes; of the second class of two; or of all probabilities, by recalibration only. ``"auto"`` is
        ``"positive"`` for two classes and ``"full"`` for more, or ``"confidence"`` if the method takes events
        only.
    n_bins, strategy, binning
        Bins for ``method="bins"``, as for :func:`~calibrant.metrics.confidence_ece`; by default of equal mass.
    recalibrator : str or Calibrator, default="auto"
        For ``method="recalibration"``: a registry name, or a calibrator of which clones are fitted. ``"auto"`` is
        ``"dirichlet-l2"`` up to 20 classes, ``"dirichlet"`` if there are more than :math:`1000 K^2` rows, and
        ``"temperature"`` for more classes. An event is a problem of two classes, and may take ``"isotonic"``.
    n_folds : int, default=5
        Number of folds for ``method="recalibration"``.

    Returns
    -------
    Decomposition

    Notes
    -----
    **In-sample or out.** Isotonic regression and bins are fitted to the rows they are judged by: their
    calibration part is never negative (isotonic) and biased upwards, so it is above zero for perfect
    calibration too. Recalibration on other folds is a *lower bound* in expectation, whatever the calibrator,
    since no map can beat the true frequencies; it may come out slightly negative.

    **Within bins.** Murphy's terms add up only if all scores of a bin are equal. Otherwise averaging a bin changes
    the score, by the variance and covariance within bins :cite:`stephenson2008`. The calibration part here
    includes that change, so that the sum is exact; ``within_bins`` says how much it is, negative where
    differences inside bins carried information. ``calibration - within_bins`` is Murphy's reliability,
    for the Brier score the square of ``confidence_ece(norm=2)``.

    **Which recalibrator.** On four networks of :cite:`kull2019` (5,000 and 10,000 rows) with 10 classes,
    ``"dirichlet-l2"`` removed 0.155, 0.210 and 0.197 nats per row, temperature scaling 0.149, 0.206 and 0.197, vector
    scaling 0.153, 0.208 and 0.195, unpenalised Dirichlet calibration 0.152, 0.208 and 0.184. With 100 classes
    temperature scaling removed 0.699 in a fraction of a second, ``"dirichlet-l2"`` as much in twelve, vector
    scaling 0.673. Trying several and keeping the best is a choice that must be made on other rows.

    Isotonic regression and bins cost a sort of n numbers for each event and O(n) memory; recalibration
    ``n_folds`` fits and memory for a copy of the rows.

    Examples
    --------
    Three of four happen at 90 %, and one of four at 40 %:

    >>> parts = decompose([1, 1, 1, 0, 0, 0, 0, 1], [0.9] * 4 + [0.4] * 4)
    >>> round(parts.calibration, 6), round(parts.refinement, 6)      # (0.15 ** 2 + 0.15 ** 2) / 2, 3 / 16
    (0.0225, 0.1875)
    >>> parts.discrimination, parts.uncertainty
    (0.0625, 0.25)
    """
    check_loss(loss)
    if method not in get_args(Method):
        raise ParameterError(f"method must be 'auto', 'isotonic', 'bins' or 'recalibration', not {method!r}.")
    if kind != "auto":
        check_event_kind(kind)
    if kind == "full" and method in ("isotonic", "bins"):
        raise ParameterError(
            f"method={method!r} takes events only; for kind='full', use method='recalibration'."
        )
    scheme = chosen_scheme(n_bins, strategy, binning)
    check_folds(n_folds)
    check_recalibrator(recalibrator, events=kind != "full")
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    kind = _chosen_kind(kind, method, data.n_classes)
    method = ("recalibration" if kind == "full" else "isotonic") if method == "auto" else method
    problems = event_problems(data, kind)
    if method == "isotonic":
        parts = [_isotonic_parts(problem, loss) for problem in problems]
        return _assembled(parts, loss, kind, method, "isotonic regression on the same rows", data.n_rows)
    if method == "bins":
        parts = [_bin_parts(problem, loss, scheme) for problem in problems]
        return _assembled(
            parts, loss, kind, method, "the mean outcome of each bin of the same rows", data.n_rows
        )
    return _by_recalibration(data, problems, loss, kind, recalibrator, n_folds)


@dataclass(frozen=True)
class _Parts:
    score: float
    refinement: float
    uncertainty: float
    within_bins: float | None = None


def _chosen_kind(kind: EventKind | Literal["auto"], method: Method, n_classes: int) -> EventKind:
    if kind != "auto":
        return kind
    if n_classes == 2:
        return "positive"
    return "full" if method in ("auto", "recalibration") else "confidence"


def _isotonic_parts(problem: LabelledPredictions, loss: Loss) -> _Parts:
    fit = isotonic_fit(problem.predictions.probabilities[:, 1], problem.labels, problem.weights)
    best = np.column_stack([1 - fit.value, fit.value])
    refinement = float(np.average(_expected(best, best, loss), weights=fit.weight))
    score = _mean(row_losses(problem, loss), problem.weights)
    # The scores themselves are one of the functions that the fit is chosen from; only rounding can beat it.
    return _Parts(score, min(refinement, score), _uncertainty(problem, loss))


def _bin_parts(problem: LabelledPredictions, loss: Loss, scheme: BinningScheme) -> _Parts:
    scores = problem.predictions.probabilities[:, 1]
    bins = chosen_partition(scheme, scores, problem.weights).bins(scores, problem.labels, problem.weights)
    outcome = np.column_stack([1 - bins.mean_outcome, bins.mean_outcome])
    predicted = np.column_stack([1 - bins.mean_score, bins.mean_score])
    score = _mean(row_losses(problem, loss), problem.weights)
    of_means = float(bins.share @ _expected(outcome, predicted, loss))
    refinement = float(bins.share @ _expected(outcome, outcome, loss))
    inside = 0.0 if score == of_means else score - of_means  # both may be infinite
    return _Parts(score, refinement, _uncertainty(problem, loss), inside)


def _assembled(
    parts: list[_Parts], loss: Loss, kind: EventKind, method: str, recalibrated_by: str, n_rows: int
) -> Decomposition:
    """Return the decomposition whose parts are the means over events."""
    score, refinement, uncertainty = (
        float(np.mean([getattr(part, name) for part in parts]))
        for name in ("score", "refinement", "uncertainty")
    )
    inside = [part.within_bins for part in parts if part.within_bins is not None]
    return Decomposition(
        score=score,
        calibration=score - refinement,
        refinement=refinement,
        discrimination=uncertainty - refinement,
        uncertainty=uncertainty,
        within_bins=float(np.mean(inside)) if inside else None,
        standard_error=None,
        loss=loss,
        kind=kind,
        method=method,
        recalibrated_by=recalibrated_by,
        n_rows=n_rows,
    )


def _by_recalibration(
    data: LabelledPredictions,
    problems: Iterator[LabelledPredictions],
    loss: Loss,
    kind: EventKind,
    recalibrator: Recalibrator,
    n_folds: int,
) -> Decomposition:
    n_problems = data.n_classes if kind == "classwise" else 1
    lost, left = np.zeros(data.n_rows), np.zeros(data.n_rows)
    uncertainty, chosen = 0.0, recalibrator
    folds = cross_folds(data, n_folds)
    for problem in problems:
        if isinstance(recalibrator, str) and recalibrator == "auto":
            chosen = default_recalibrator(problem)
        lost += row_losses(problem, loss) / n_problems
        for rows, predictions in recalibrated(problem, chosen, folds):
            judged = LabelledPredictions(predictions, problem.labels[rows], problem.classes)
            left[rows] += row_losses(judged, loss) / n_problems
        uncertainty += _uncertainty(problem, loss) / n_problems
    # Where both are infinite, recalibration removes nothing.
    removed = np.subtract(lost, left, out=np.zeros_like(lost), where=lost != left)
    refinement = _mean(left, data.weights)
    return Decomposition(
        score=_mean(lost, data.weights),
        calibration=_mean(removed, data.weights),
        refinement=refinement,
        discrimination=uncertainty - refinement,
        uncertainty=uncertainty,
        within_bins=None,
        standard_error=standard_error_of_mean(removed, data.weights),
        loss=loss,
        kind=kind,
        method="recalibration",
        recalibrated_by=f"{recalibrator_name(chosen)} fitted on the others of {n_folds} folds",
        n_rows=data.n_rows,
    )


def _uncertainty(problem: LabelledPredictions, loss: Loss) -> float:
    rates = problem.class_weights / problem.total_weight
    return float(_expected(rates, rates, loss))


def _expected(frequencies: Vector, probabilities: Vector, loss: Loss) -> Vector:
    """Return the mean loss of ``probabilities`` if classes occur with these ``frequencies``, both (..., K)."""
    if loss == "log":
        return np.asarray(-xlogy(frequencies, probabilities).sum(axis=-1))
    squares = np.square(probabilities).sum(axis=-1)
    product = (frequencies * probabilities).sum(axis=-1)
    if loss == "spherical":
        return np.asarray(1 - product / np.sqrt(squares))
    distances = 1 - 2 * product + squares
    return np.asarray(distances / 2 if probabilities.shape[-1] == 2 else distances)


def _mean(values: Vector, weights: Vector | None) -> float:
    return float(np.average(values, weights=weights))
