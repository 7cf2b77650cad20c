"""Decomposition of a proper score into calibration, refinement, discrimination and uncertainty."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from scipy.special import xlogy
from scipy.stats import norm as normal

from calibrant.arrays import Vector
from calibrant.binning import BinningScheme
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.binned_metric import NumberOfBins, Strategy, chosen_partition, chosen_scheme
from calibrant.metrics.cross_fitting import (
    EVENT_NAMES,
    EventKind,
    Mixture,
    Recalibrator,
    check_event_kind,
    check_folds,
    check_recalibrator,
    cross_folds,
    event_problems,
    recalibrated,
    recalibrator_for,
    recalibrator_name,
)
from calibrant.metrics.row_losses import Loss, check_loss, row_losses
from calibrant.numerics.isotonic import isotonic_fit
from calibrant.numerics.reductions import standard_error_of_mean
from calibrant.options import check_choice, check_level
from calibrant.presentation.sentences import counted
from calibrant.shared_parameters import documented

__all__ = ["Decomposition", "decompose"]


LOSS_NAMES = {"brier": "Brier score", "log": "log-loss", "spherical": "spherical loss"}


@dataclass(frozen=True)
class Decomposition:
    """Decomposition of a proper score into calibration, refinement, discrimination and uncertainty.

    ``score = calibration + refinement = calibration - discrimination + uncertainty``.

    Attributes
    ----------
    score : float
        Mean loss of the predictions. The log-loss is infinite if a true class had probability zero.
    calibration : float
        The part that recalibration removes, also called miscalibration or reliability. Negative if recalibration
        increased the loss. Infinite if only the score is infinite, minus infinity if only ``refinement`` is, and
        NaN if both are.
    refinement : float
        Loss after recalibration.
    discrimination : float
        Uncertainty minus refinement; also called resolution.
    uncertainty : float
        Loss of always predicting the base rates of these rows.
    within_bins : float or None
        For ``method="bins"``: the part of ``calibration`` due to score differences within a bin; the rest is the
        classical reliability term. NaN if the losses of the scores and of their bins are both infinite.
    standard_error : float or None
        For ``method="recalibration"``: standard error of ``calibration``, computed as if rows were independent. The
        dependence between folds makes it about a fifth too small for calibrated predictions. Infinite if
        ``calibration`` is not finite, or if there is only one row.
    loss, kind, method : str
        What was decomposed, and how.
    recalibrated_by : str
        The recalibration method in words.
    n_rows : int
        Number of rows.
    n_refuted, n_refuted_after : int
        Number of rows with an infinite loss, before and after recalibration, because a true class had
        probability zero.

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
    n_refuted: int = 0
    n_refuted_after: int = 0

    @property
    def share(self) -> float:
        """Fraction of the score that recalibration removes; 0 if the score is 0, NaN if a part is not finite."""
        if not np.isfinite([self.score, self.calibration]).all():
            return float("nan")
        return self.calibration / self.score if self.score else 0.0

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return a normal confidence interval of ``calibration``; for ``method="recalibration"`` only.

        It covers the loss that *this* recalibration removes. Since that is at most what could be removed, the lower
        end is also valid for the true calibration part; the upper end is not.
        """
        check_level(level)
        if self.standard_error is None:
            raise ParameterError(
                "only a decomposition by method='recalibration' has an interval; for other methods, bootstrap the rows."
            )
        if np.isinf(self.standard_error):
            return -np.inf, np.inf
        margin = float(normal.ppf((1 + level) / 2)) * self.standard_error
        return self.calibration - margin, self.calibration + margin

    def __str__(self) -> str:
        rows = counted(self.n_rows, "row")
        text = self._infinite() if self.n_refuted or self.n_refuted_after else self._sum()
        return f"{LOSS_NAMES[self.loss]} of {EVENT_NAMES[self.kind]}: {text} ({rows})."

    @property
    def _by(self) -> str:
        return f"{'recalibration by ' if self.method == 'recalibration' else ''}{self.recalibrated_by}"

    def _sum(self) -> str:
        error = self.standard_error
        deviation = "" if error is None or np.isinf(error) else f" (standard error {error:.2g})"
        if self.method == "recalibration" and self.n_rows == 1:
            finding = "one row cannot be cross-fitted, so calibration was not estimated"
        elif self.calibration < 0:
            finding = f"no removable loss found: {self._by} increased it by {-self.calibration:.4g}"
        else:
            finding = f"{self.recalibrated_by} removes {100 * self.share:.3g} % of it"
        inside = "" if self.within_bins is None else f"; {self.within_bins:.4g} of it arises within bins"
        return (
            f"{self.score:.4g} = calibration {self.calibration:.4g}{deviation} + refinement {self.refinement:.4g} "
            f"= calibration {self.calibration:.4g} - discrimination {self.discrimination:.4g} + uncertainty "
            f"{self.uncertainty:.4g}; {finding}{inside}"
        )

    def _infinite(self) -> str:
        advice = "for a finite value clip the zeros to a floor, or use another loss"
        if not self.n_refuted:
            return (
                f"{self.score:.4g}; no removable loss found: {self._by} gives an infinite loss, since "
                f"{self._zeros(self.n_refuted_after)}; use a recalibrator without zeros, or another loss"
            )
        before = f"infinite, since {self._zeros(self.n_refuted)}"
        if self.n_refuted_after:
            return f"{before}; after {self._by}, {self._zeros(self.n_refuted_after)}; calibration is undefined; {advice}"
        return (
            f"{before}; {self._by} leaves refinement {self.refinement:.4g} = uncertainty {self.uncertainty:.4g} - "
            f"discrimination {self.discrimination:.4g}, so calibration is infinite; {advice}"
        )

    def _zeros(self, number: int) -> str:
        truth = "the true class" if self.kind in ("full", "positive") else "the observed outcome"
        verb = "has" if number == 1 else "have"
        return f"{counted(number, 'row')} {verb} probability zero for {truth}"


Method = Literal["auto", "isotonic", "bins", "recalibration"]

# Relative tolerance for means of the same numbers summed in another order.
ROUNDING = 1e-13


@documented
def decompose(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    loss: Loss = "brier",
    method: Method = "auto",
    kind: EventKind | Literal["auto"] = "auto",
    n_bins: NumberOfBins = 15,
    strategy: Strategy = "quantile",
    binning: BinningScheme | None = None,
    recalibrator: Recalibrator = "auto",
    n_folds: int = 5,
) -> Decomposition:
    r"""Decompose a proper score into calibration and refinement (reliability, resolution, uncertainty).

    With predictions f, recalibrated predictions g, base rates r and
    :math:`S(p) = \frac1W \sum_i w_i \, \ell(p_i, y_i)`, :math:`W = \sum_i w_i`,

    .. math::

        S(f) = \underbrace{S(f) - S(g)}_{\text{calibration}} + \underbrace{S(g)}_{\text{refinement}}, \qquad
        S(g) = \underbrace{S(r)}_{\text{uncertainty}} - \underbrace{\bigl(S(r) - S(g)\bigr)}_{\text{discrimination}} .

    Parameters
    ----------
    sample_weight : array of shape (n,), optional
        Weights of the rows. For isotonic regression and bins a weight of two is a duplicated row. For
        recalibration weights are importances, only their ratios matter, and no row is split between folds.
    loss : {"brier", "log", "spherical"}, default="brier"
        Loss to decompose. For ``kind="full"`` and ``"positive"`` the score equals
        :func:`~calibrant.metrics.brier_score`, :func:`~calibrant.metrics.log_loss` or
        :func:`~calibrant.metrics.spherical_loss`.
    method : {"auto", "isotonic", "bins", "recalibration"}, default="auto"
        How the recalibrated predictions g are computed.

        - ``"isotonic"``: isotonic regression of the outcome of an event on its score, on the same rows
          (CORP, :cite:`dimitriadis2021`). Has no tuning parameter.
        - ``"bins"``: the mean outcome of the bin of the score :cite:`murphy1973`.
        - ``"recalibration"``: a calibrator fitted on the other folds (cross-fitting) :cite:`berta2025`, for any
          number of classes, with a standard error.

        ``"auto"`` is recalibration for ``kind="full"`` and isotonic otherwise.
    kind : {"auto", "confidence", "classwise", "positive", "full"}, default="auto"
        Which probabilities are scored: the confidence in the predicted class; each class against the others,
        averaged over classes; the second class of two; or all probabilities, for recalibration only. ``"auto"`` is
        ``"positive"`` for two classes. For more classes it is ``"full"``, or ``"confidence"`` if the method takes
        events only.
    n_bins, strategy, binning
        Bins for ``method="bins"``, as for :func:`~calibrant.metrics.confidence_ece`; by default of equal mass.
    recalibrator : str or Calibrator, default="auto"
        For ``method="recalibration"``: a registry name, or a calibrator, which is cloned before fitting. ``"auto"`` is
        ``"dirichlet-l2"`` up to 20 classes, ``"dirichlet"`` if there are more than :math:`1000 K^2` rows, and
        ``"temperature"`` for more classes. These minimise the log-loss. For other losses ``"auto"`` is a mixture of
        that calibrator, a temperature fitted by the Brier score, and the base rates, with weights chosen by inner
        cross-validation on the training folds. An event is a two-class problem, and may use ``"isotonic"``.
    n_folds : int, default=5
        Number of folds for ``method="recalibration"``; no more than there are rows.

    Returns
    -------
    Decomposition

    Notes
    -----
    **In-sample or out-of-sample.** Isotonic regression and bins are fitted to the rows they are evaluated on.
    Their calibration part is never negative (isotonic) and biased upwards, so it is positive even under perfect
    calibration. Recalibration on other folds is a *lower bound* in expectation, whatever the calibrator, since
    no map beats the true frequencies; the estimate may be slightly negative.

    **Within bins.** Murphy's terms add up only if all scores of a bin are equal. Otherwise averaging a bin changes
    the score, by the variance and covariance within bins :cite:`stephenson2008`. The calibration part here
    includes that change, so the sum is exact. ``within_bins`` is its size; it is negative where score
    differences within bins were informative. ``calibration - within_bins`` is Murphy's reliability,
    for the Brier score the square of ``confidence_ece(norm=2)``.

    **Which recalibrator.** On four networks of :cite:`kull2019` (5,000 and 10,000 rows) with 10 classes,
    ``"dirichlet-l2"`` removed 0.155, 0.210 and 0.197 nats per row, temperature scaling 0.149, 0.206 and 0.197, vector
    scaling 0.153, 0.208 and 0.195, unpenalised Dirichlet calibration 0.152, 0.208 and 0.184. With 100 classes
    temperature scaling removed 0.699 in a fraction of a second, ``"dirichlet-l2"`` the same in twelve seconds, and
    vector scaling 0.673. If you try several and keep the best, make that choice on other rows.

    A calibrator fitted by log-loss need not lower the Brier score. With 3,000 rows of five saturated logits and
    20 % random labels, ``"dirichlet-l2"`` *raised* it by 0.083. The mixture lowers it by 0.034, out of the 0.035
    that the true frequencies would remove. On the networks above, whose errors are of another kind, the two differ
    by less than 0.001.

    **Infinite log-loss.** If a true class had probability zero, the log-loss is infinite. ``calibration`` is then
    infinite if recalibration leaves a finite loss, and NaN otherwise. The zero may be a rounded one: clip it to a
    floor before, or use another loss.

    Isotonic regression and bins cost a sort of n numbers for each event and O(n) memory. Recalibration costs
    ``n_folds`` fits (a mixture two to six times as many) and memory for a copy of the rows.

    Examples
    --------
    At 90 % three of four events occur, and at 40 % one of four:

    >>> parts = decompose([1, 1, 1, 0, 0, 0, 0, 1], [0.9] * 4 + [0.4] * 4)
    >>> round(parts.calibration, 6), round(parts.refinement, 6)      # (0.15 ** 2 + 0.15 ** 2) / 2, 3 / 16
    (0.0225, 0.1875)
    >>> parts.discrimination, parts.uncertainty
    (0.0625, 0.25)
    """
    check_loss(loss)
    check_choice("method", method, get_args(Method))
    if kind != "auto":
        check_event_kind(kind)
    if kind == "full" and method in ("isotonic", "bins"):
        raise ParameterError(
            f"method={method!r} is for single events; for kind='full', use method='recalibration'."
        )
    scheme = chosen_scheme(n_bins, strategy, binning)
    check_folds(n_folds)
    check_recalibrator(recalibrator, events=kind != "full")
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    kind = _chosen_kind(kind, method, data.n_classes)
    method = ("recalibration" if kind == "full" else "isotonic") if method == "auto" else method
    problems = event_problems(data, kind)
    if method == "isotonic":
        parts = (_isotonic_parts(problem, loss) for problem in problems)
        return _assembled(parts, loss, kind, method, "isotonic regression on the same rows", data.n_rows)
    if method == "bins":
        parts = (_bin_parts(problem, loss, scheme) for problem in problems)
        return _assembled(
            parts, loss, kind, method, "the mean outcome of each bin of the same rows", data.n_rows
        )
    return _by_recalibration(data, problems, loss, kind, recalibrator, n_folds)


@dataclass(frozen=True)
class _Parts:
    losses: Vector
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
    losses = row_losses(problem, loss)
    score = _mean(losses, problem.weights)
    # The identity is one of the candidate functions of the fit, so only rounding can beat it.
    return _Parts(losses, score, min(refinement, score), _uncertainty(problem, loss))


def _bin_parts(problem: LabelledPredictions, loss: Loss, scheme: BinningScheme) -> _Parts:
    scores = problem.predictions.probabilities[:, 1]
    bins = chosen_partition(scheme, scores, problem.weights).bins(scores, problem.labels, problem.weights)
    outcome = np.column_stack([1 - bins.mean_outcome, bins.mean_outcome])
    predicted = np.column_stack([1 - bins.mean_score, bins.mean_score])
    losses = row_losses(problem, loss)
    score = _mean(losses, problem.weights)
    of_means = float(bins.share @ _expected(outcome, predicted, loss))
    refinement = float(bins.share @ _expected(outcome, outcome, loss))
    return _Parts(losses, score, refinement, _uncertainty(problem, loss), _difference(score, of_means))


def _assembled(
    parts: Iterable[_Parts], loss: Loss, kind: EventKind, method: str, recalibrated_by: str, n_rows: int
) -> Decomposition:
    """Return the decomposition averaged over events."""
    refuted = np.zeros(n_rows, dtype=np.bool_)
    figures = []
    for part in parts:
        refuted |= np.isinf(part.losses)
        figures.append((part.score, part.refinement, part.uncertainty, part.within_bins))
    score, refinement, uncertainty = (
        float(np.mean(column)) for column in list(zip(*figures, strict=True))[:3]
    )
    inside = [within for *_, within in figures if within is not None]
    return Decomposition(
        score=score,
        calibration=_difference(score, refinement),
        refinement=refinement,
        discrimination=_difference(uncertainty, refinement),
        uncertainty=uncertainty,
        within_bins=float(np.mean(inside)) if inside else None,
        standard_error=None,
        loss=loss,
        kind=kind,
        method=method,
        recalibrated_by=recalibrated_by,
        n_rows=n_rows,
        n_refuted=int(refuted.sum()),
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
    losses_before, losses_after = np.zeros(data.n_rows), np.zeros(data.n_rows)
    uncertainty = 0.0
    chosen: Recalibrator | Mixture = recalibrator
    folds = cross_folds(data, n_folds)
    for problem in problems:
        if isinstance(recalibrator, str) and recalibrator == "auto":
            chosen = recalibrator_for(problem, loss)
        losses_before += row_losses(problem, loss) / n_problems
        for rows, predictions in recalibrated(problem, chosen, folds):
            held_out = LabelledPredictions(predictions, problem.labels[rows], problem.classes)
            losses_after[rows] += row_losses(held_out, loss) / n_problems
        uncertainty += _uncertainty(problem, loss) / n_problems
    score, refinement = _mean(losses_before, data.weights), _mean(losses_after, data.weights)
    with np.errstate(invalid="ignore"):  # infinity minus infinity has no standard error
        error = standard_error_of_mean(losses_before - losses_after, data.weights)
    return Decomposition(
        score=score,
        calibration=_difference(score, refinement),
        refinement=refinement,
        discrimination=_difference(uncertainty, refinement),
        uncertainty=uncertainty,
        within_bins=None,
        standard_error=error,
        loss=loss,
        kind=kind,
        method="recalibration",
        recalibrated_by=f"{recalibrator_name(chosen)} cross-fitted with {len(folds)} folds"
        if len(folds) > 1
        else "nothing, since one row cannot be cross-fitted",
        n_rows=data.n_rows,
        n_refuted=int(np.isinf(losses_before).sum()),
        n_refuted_after=int(np.isinf(losses_after).sum()),
    )


def _difference(minuend: float, subtrahend: float) -> float:
    """Return the difference of two losses: zero if it is only rounding, NaN if both are infinite."""
    if np.isinf(minuend) and np.isinf(subtrahend):
        return float("nan")
    difference = minuend - subtrahend
    small = np.isfinite(difference) and abs(difference) <= ROUNDING * max(abs(minuend), abs(subtrahend))
    return 0.0 if small else difference


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
