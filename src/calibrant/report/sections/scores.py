"""Sections "Scores" and "Calibration errors": estimates before and after calibration, with paired differences."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, isinf
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from calibrant.arrays import Vector
from calibrant.errors import CalibrationWarning
from calibrant.intervals import bootstrap, loss_difference
from calibrant.intervals.few_units import why_no_mean_loss
from calibrant.metrics import (
    LowerBound,
    calibration_error_lower_bound,
    classwise_ece,
    confidence_ece,
    debiased_ece,
    kuiper_calibration_error,
    smooth_ece,
)
from calibrant.metrics.events import Kind
from calibrant.metrics.row_losses import Loss, row_losses
from calibrant.presentation.document import Paragraph, Section
from calibrant.presentation.sentences import class_named, counted, sentence
from calibrant.presentation.table import Cell, Column, Table, Tag
from calibrant.presentation.values import Value
from calibrant.report.contents import Estimate, ScoreRow
from calibrant.report.evaluation_set import (
    EvaluationSet,
    estimate_of,
    mean_estimate,
    plain_float,
    proportion_estimate,
    random_rows,
)
from calibrant.report.method_selection import baseline_of, has_infinite_loss
from calibrant.report.sections import Assessment, section_at

__all__ = [
    "INFINITE",
    "area_estimate",
    "capped_bound",
    "definitions_of",
    "difference_cell",
    "error_rows",
    "estimate_cell",
    "lower_bound",
    "metric_title",
    "notes_of",
    "roc_area",
    "score_rows",
    "scores_section",
    "stages_of",
]

INFINITE = (
    "A log-loss is infinite if the true class of at least one row had probability exactly zero; the data summary counts these "
    "rows."
)

# Names of metrics for which replacing underscores is not enough.
TITLES = {
    "log_loss": "log-loss",
    "brier_score": "Brier score",
    "roc_auc": "area under the ROC curve",
    "confidence_ece": "confidence ECE",
    "confidence": "confidence ECE",
    "classwise": "classwise ECE",
    "classwise_ece": "classwise ECE",
}

TAGS = {
    "better": Tag("better", "better", "✓"),
    "worse": Tag("worse", "worse", "✗"),
    "open": Tag("open", "may be noise", "≈"),
    "same": Tag("same", "no change", "="),
}

LOSS_WORDS: dict[Loss, str] = {
    "log": "mean of -log of the probability of the true class, in nats",
    "brier": "mean squared distance between the probabilities and the one-hot outcome",
}

POOLED = (
    "after calibration it pools rows from the calibrators of several folds, which lowers it slightly; intervals of the "
    "difference ignore this effect, so none is given"
)

# With more probabilities than this, the area under the ROC curve is that of a sample.
AREA_NUMBERS = 5_000_000

N_RESAMPLES = 200

Metric = Callable[..., float]


@section_at(40)
def scores_section(assessment: Assessment) -> Section | None:
    """Return the section on proper scores, accuracy and the area under the ROC curve."""
    if not assessment.scores:
        return None
    before, after = stages_of(assessment)
    level = f"{100 * assessment.scores[0].before.level:g} %"
    lead = (
        f"Below each number is its {level} interval. Differences are paired by row, so they can be significant even if the "
        "intervals of the two columns overlap."
    )
    caption = "Scores" if after is None else f"Before and after {after}"
    table = _score_table("scores", caption, assessment.scores, before, after)
    title = "Scores" if after is None else "Scores before and after"
    return Section("scores", title, (Paragraph(lead, "lead"), table), is_half=True)


@section_at(50)
def errors_section(assessment: Assessment) -> Section | None:
    """Return the section on calibration errors."""
    if not assessment.errors:
        return None
    lead = (
        "There is no single calibration error. Quote lower bounds, and compare debiased errors. Binned errors are biased upwards "
        "by noise; they are shown because they are widely reported."
    )
    table = _score_table("errors", "Calibration errors", assessment.errors, *stages_of(assessment))
    return Section("errors", "Calibration errors", (Paragraph(lead, "lead"), table), is_half=True)


def stages_of(assessment: Assessment) -> tuple[str, str | None]:
    """Return the methods before and after calibration; the second is None if nothing was evaluated after calibration."""
    before = assessment.curves[0].method if assessment.curves else "uncalibrated"
    if not any(row.after for row in (*assessment.scores, *assessment.errors)):
        return before, None
    recommended = assessment.recommendation.method
    others = (curve.method for curve in assessment.curves if curve.method != before)
    return before, recommended if recommended != before else next(others, "calibration")


def _score_table(name: str, caption: str, rows: Sequence[ScoreRow], before: str, after: str | None) -> Table:
    columns = [Column("Score", is_numeric=False), Column("Before", hint=before)]
    if after is not None:
        columns += [Column("After", hint=after), Column("Difference", hint="after − before")]
    body = []
    for row in rows:
        better = "higher is better" if row.before.higher_is_better else "lower is better"
        cells = [Cell(metric_title(row.before.name), (better,)), estimate_cell(row.before)]
        if after is not None:
            cells += [estimate_cell(row.after), difference_cell(row.difference)]
        body.append(tuple(cells))
    estimates = [estimate for row in rows for estimate in (row.before, row.after) if estimate is not None]
    return Table(
        name,
        caption,
        tuple(columns),
        tuple(body),
        definitions=definitions_of([row.before for row in rows]),
        notes=notes_of(estimates),
    )


def estimate_cell(estimate: Estimate | None, *, signed: bool = False) -> Cell:
    """Return the cell of an estimate with its interval."""
    if estimate is None:
        return Cell(Value(None))
    value = Value(estimate.value, signed=signed, tiny=False)
    return Cell(value, (estimate.interval(signed=signed),))


def difference_cell(estimate: Estimate | None) -> Cell:
    """Return the cell of a difference, with a tag that says whether its interval excludes zero."""
    if estimate is None:
        return Cell(Value(None))
    value = Value(estimate.value, signed=True)
    return Cell(value, (estimate.interval(signed=True),), TAGS.get(estimate.direction))


def definitions_of(estimates: Sequence[Estimate]) -> tuple[tuple[str, str], ...]:
    """Return the definitions of all estimates that have one."""
    return tuple(
        (metric_title(estimate.name), sentence(estimate.definition))
        for estimate in estimates
        if estimate.definition
    )


def notes_of(estimates: Sequence[Estimate]) -> tuple[str, ...]:
    """Return the distinct notes of all estimates, and the meaning of infinity if it occurs."""
    notes = [
        f"{metric_title(estimate.name)}: {sentence(estimate.note)}" for estimate in estimates if estimate.note
    ]
    infinite = [INFINITE] if any(estimate.is_infinite for estimate in estimates) else []
    return tuple(dict.fromkeys([*notes, *infinite]))


def metric_title(name: str) -> str:
    """Return the name of a metric in words, capitalised.

    >>> metric_title("log_loss"), metric_title("top_label_ece"), metric_title("Accuracy")
    ('Log-loss', 'Top label ece', 'Accuracy')
    """
    words = TITLES.get(name, name.replace("_", " "))
    return words[:1].upper() + words[1:]


def score_rows(
    rows: EvaluationSet, after: EvaluationSet | None, level: float, random_state: int
) -> tuple[ScoreRow, ...]:
    """Return log-loss, Brier score, accuracy and area under the ROC curve, if defined.

    If a true class had probability zero, the log-loss is infinite. Then a second row has the log-loss with zeros raised to
    the floor, which is the baseline of the gain.
    """
    found = [_loss(rows, after, "log", "", level)]
    if has_infinite_loss(rows):
        raised = rows.with_predictions(baseline_of(rows))
        raised_after = None if after is None else after.with_predictions(baseline_of(after))
        treatment = f"; zeros raised to {rows.predictions.floor:.3g} and rows renormalised"
        found.append(_loss(raised, raised_after, "log", treatment, level))
    found += [_loss(rows, after, "brier", "", level), _accuracy(rows, after, level)]
    area = _area(rows, after, level, random_state)
    if area is not None:
        found.append(area)
    return tuple(found)


def _both(
    of: Callable[[Any], Estimate], before: Any, after: Any, difference: Estimate | None = None
) -> ScoreRow:
    """Return an estimate before and, if there are such rows, after calibration."""
    return ScoreRow(of(before), None if after is None else of(after), difference)


def _loss(rows: EvaluationSet, after: EvaluationSet | None, loss: Loss, zeros: str, level: float) -> ScoreRow:
    name = {"log": "log-loss", "brier": "Brier score"}[loss]
    definition = LOSS_WORDS[loss]
    if loss == "brier":
        definition += ", from 0 to 1 (halved for two classes)" if rows.n_classes == 2 else ", from 0 to 2"
    if zeros:
        name, definition = f"{name}, zeros raised to the floor", definition + zeros

    def of(subset: EvaluationSet) -> Estimate:
        found = mean_estimate(name, row_losses(subset.data, loss), subset, level, definition)
        reason = None if found.low is None else why_no_mean_loss(subset.data, loss)
        return found if reason is None else replace(found, low=None, high=None, note=reason)

    difference = None
    if after is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)  # the note says the same
            interval = loss_difference(
                rows.labels,
                rows.predictions,
                after.predictions,
                loss=loss,
                sample_weight=rows.weights,
                groups=rows.groups,
                level=level,
            )
        difference = estimate_of(f"difference of {name}", interval, "after minus before, paired by row")
        if isinf(interval.estimate):  # an infinite difference needs no interval
            difference = replace(difference, low=None, high=None)
    return _both(of, rows, after, difference)


def _accuracy(rows: EvaluationSet, after: EvaluationSet | None, level: float) -> ScoreRow:
    definition = "fraction of rows whose predicted class is correct"
    before = proportion_estimate("accuracy", rows.hits, rows, level, definition)
    if after is None:
        return ScoreRow(before, None, None)
    difference = mean_estimate(
        "difference of accuracy",
        after.hits.astype(float) - rows.hits,
        rows,
        level,
        "after minus before, paired by row",
        higher_is_better=True,
    )
    return ScoreRow(before, proportion_estimate("accuracy", after.hits, after, level, definition), difference)


def _area(
    rows: EvaluationSet, after: EvaluationSet | None, level: float, random_state: int
) -> ScoreRow | None:
    chosen = random_rows(rows, rows.n_rows, AREA_NUMBERS, random_state)
    subset, subset_after = rows.take(chosen), None if after is None else after.take(chosen)
    area = roc_area(subset)
    if area is None:
        return None
    definition = (
        f"probability that a random row of {class_named(rows.class_names[1])} gets a higher score than one of the other class"
        if rows.n_classes == 2
        else "mean over classes of the one-vs-rest area under the ROC curve"
    )
    if chosen is not None:
        definition += f"; on a random sample of {subset.n_rows} rows"
    before = area_estimate("AUROC", area, None, subset, level, definition)
    later = None if subset_after is None else roc_area(subset_after)
    if subset_after is None or later is None:
        return ScoreRow(before, None, None)
    pooled = replace(area_estimate("AUROC", later, None, subset_after, level, definition), note=POOLED)
    difference = area_estimate("difference of AUROC", later, area, subset, level, "after minus before")
    return ScoreRow(before, pooled, replace(difference, low=None, high=None, note=POOLED))


@dataclass(frozen=True, eq=False)
class RocArea:
    """Area under the ROC curve with its influence function."""

    value: float  # for the second class of two, or the mean over classes that occur, each one vs rest
    influence: Vector  # (n,) of mean zero; the sum of squares is DeLong's variance


def roc_area(rows: EvaluationSet) -> RocArea | None:
    r"""Return the area under the ROC curve; None if only one class occurs.

    For a class with rows i and other rows j of weights w, scores s and :math:`\psi(a, b) = [b < a] + [a = b] / 2`,

    .. math:: A = \sum_{ij} \frac{w_i w_j}{W_1 W_0} \psi(s_i, s_j), \qquad
        h_i = \frac{w_i}{W_1} \Bigl(\sum_j \frac{w_j}{W_0} \psi(s_i, s_j) - A\Bigr), \quad
        h_j = \frac{w_j}{W_0} \Bigl(\sum_i \frac{w_i}{W_1} \psi(s_i, s_j) - A\Bigr) .

    Costs one sort per class.
    """
    if rows.n_present < 2:
        return None
    weights = np.ones(rows.n_rows) if rows.weights is None else rows.weights
    present = np.flatnonzero(np.bincount(rows.data.labels, minlength=rows.n_classes))
    chosen = [1] if rows.n_classes == 2 else present.tolist()
    value, influence = 0.0, np.zeros(rows.n_rows)
    for column in chosen:
        scores = np.ascontiguousarray(rows.predictions.probabilities[:, column])
        area, class_influence = _one_class(scores, rows.data.labels == column, weights)
        value += area / len(chosen)
        influence += class_influence / len(chosen)
    return RocArea(value, influence)


def _one_class(
    scores: NDArray[np.floating], positive: NDArray[np.bool_], weights: Vector
) -> tuple[float, Vector]:
    _, place = np.unique(scores, return_inverse=True)
    place = place.reshape(-1)
    of_positive = np.bincount(place, weights * positive)
    of_negative = np.bincount(place, weights * ~positive)
    total_positive, total_negative = float(of_positive.sum()), float(of_negative.sum())
    negative_below = (np.cumsum(of_negative) - of_negative / 2) / total_negative
    positive_above = 1 - (np.cumsum(of_positive) - of_positive / 2) / total_positive
    area = float(of_positive @ negative_below) / total_positive
    influence = np.where(
        positive,
        (negative_below[place] - area) / total_positive,
        (positive_above[place] - area) / total_negative,
    )
    return area, weights * influence


def area_estimate(
    name: str, area: RocArea, minus: RocArea | None, rows: EvaluationSet, level: float, definition: str
) -> Estimate:
    """Return an area, or the difference of two areas on the same rows, with a t interval over rows or groups."""
    value = area.value - (0.0 if minus is None else minus.value)
    influence = area.influence - (0.0 if minus is None else minus.influence)
    sums = influence if rows.groups is None else np.bincount(rows.groups, influence)
    low = high = None
    if len(sums) > 1:
        error = float(np.sqrt(len(sums) / (len(sums) - 1) * (sums @ sums)))
        margin = float(stdtrit(len(sums) - 1, (1 + level) / 2)) * error
        least, most = (0.0, 1.0) if minus is None else (-1.0, 1.0)
        low, high = max(value - margin, least), min(value + margin, most)
    by = "DeLong interval" if rows.groups is None else "DeLong interval clustered by group"
    return Estimate(name, value, low, high, level, f"{definition}; {by}", higher_is_better=True)


def lower_bound(rows: EvaluationSet, level: float) -> LowerBound | None:
    """Return the lower confidence bound on the L1 error of the main event; None for a single row."""
    if rows.n_rows < 2:
        return None
    return calibration_error_lower_bound(
        rows.labels, rows.predictions, sample_weight=rows.weights, kind=_kind(rows), level=level
    )


def capped_bound(bound: LowerBound) -> float:
    """Return the lower confidence bound, at most the estimate, which is from other folds and can be smaller."""
    return max(0.0, min(bound.limit, bound.estimate))


def error_rows(
    rows: EvaluationSet,
    after: EvaluationSet | None,
    bound: LowerBound | None,
    level: float,
    random_state: int,
) -> tuple[ScoreRow, ...]:
    """Return the errors of the main event and of all classes, before and after on the same rows."""
    found = []
    if bound is not None:
        found += _bounds(rows, bound, None if after is None else lower_bound(after, level))
    kind = _kind(rows)
    found.append(_debiased(rows, after, kind, level, random_state))
    about = "positive class" if kind == "positive" else "predicted class"
    smooth = f"error of the probability {_about(rows)}; kernel smoothing instead of bins, automatic bandwidth"
    found.append(_plain(rows, after, f"smooth ECE, {about}", partial(smooth_ece, kind=kind), smooth, level))
    sums = "largest absolute sum of residuals over any interval of scores, divided by the number of rows"
    biased = "15 equal-width bins, as in most papers; biased upwards by noise, so do not compare between sample sizes"
    for name, metric, definition in (
        (f"Kuiper error, {about}", partial(kuiper_calibration_error, kind=kind), sums),
        ("ECE of the predicted class", confidence_ece, biased),
        ("classwise ECE", classwise_ece, f"mean over classes; {biased}"),
    ):
        found.append(_compared(rows, after, name, metric, definition, level))
    return tuple(found)


def _kind(rows: EvaluationSet) -> Kind:
    return "positive" if rows.n_classes == 2 else "confidence"


def _about(rows: EvaluationSet) -> str:
    return f"of {class_named(rows.class_names[1])}" if rows.n_classes == 2 else "of the predicted class"


def _bounds(rows: EvaluationSet, bound: LowerBound, after: LowerBound | None) -> list[ScoreRow]:
    about = f"mean absolute error of the probability {_about(rows)}"

    def limit_row(of: LowerBound) -> Estimate:
        definition = (
            f"one-sided lower confidence bound on the {about}; each fold is compared with a recalibration fitted on earlier "
            "folds"
        )
        return Estimate(
            f"L1 error, {100 * of.level:g} % lower bound",
            capped_bound(of),
            level=of.level,
            definition=definition,
        )

    def estimate_row(of: LowerBound) -> Estimate:
        definition = (
            f"{about}, a lower bound in expectation; {of.recalibrator} recalibration fitted on other folds"
        )
        return _not_negative(
            Estimate(
                "L1 error, cross-fitted", plain_float(of.estimate), level=of.level, definition=definition
            )
        )

    def component_row(name: str, of: LowerBound) -> Estimate:
        definition = f"component of the cross-fitted L1 error from {meaning[name]}"
        value = plain_float(getattr(of, name.replace("-", "")))
        return _not_negative(Estimate(name, value, level=of.level, definition=definition))

    meaning = {
        "over-confidence": "rows whose probability is too extreme",
        "under-confidence": "rows whose probability is not extreme enough",
    }
    found = [_both(row, bound, after) for row in (limit_row, estimate_row)]
    return found + [_both(partial(component_row, name), bound, after) for name in meaning]


def _not_negative(estimate: Estimate) -> Estimate:
    """Return the estimate of a non-negative quantity; a negative one is set to zero, with a note."""
    if estimate.value is None or estimate.value >= 0:
        return estimate
    return replace(
        estimate, value=0.0, note=f"the estimate is negative ({estimate.value:.4f}) and shown as 0"
    )


def _debiased(
    rows: EvaluationSet, after: EvaluationSet | None, kind: Kind, level: float, random_state: int
) -> ScoreRow:
    metric = partial(debiased_ece, kind=kind, n_bins="cube_root")

    def of(subset: EvaluationSet) -> Estimate:
        value = metric(subset.labels, subset.predictions, sample_weight=subset.weights)
        ends: tuple[float | None, float | None] = (None, None)
        if subset.n_rows > 1:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CalibrationWarning)
                square = bootstrap(
                    partial(metric, signed=True),
                    subset.labels,
                    subset.predictions,
                    **_options(subset, level, random_state),
                )
            ends = (_root(square.low), _root(square.high))
        return Estimate(
            f"debiased ECE (L2, {counted(ceil(round(rows.n_rows ** (1 / 3), 9)), 'bin')})",
            plain_float(value),
            *ends,
            level=level,
            definition=f"root mean square gap of the probability {_about(rows)} with its noise subtracted; cube root of n "
            "equal-mass bins; interval: square roots of the bootstrap interval of the squared error",
        )

    return _both(of, rows, after)


def _root(square: float) -> float | None:
    return plain_float(np.sqrt(max(square, 0.0))) if not np.isnan(square) else None


def _plain(
    rows: EvaluationSet, after: EvaluationSet | None, name: str, metric: Metric, definition: str, level: float
) -> ScoreRow:
    def of(subset: EvaluationSet) -> Estimate:
        value = metric(subset.labels, subset.predictions, sample_weight=subset.weights)
        return Estimate(name, plain_float(value), level=level, definition=definition)

    return _both(of, rows, after)


def _compared(
    rows: EvaluationSet, after: EvaluationSet | None, name: str, metric: Metric, definition: str, level: float
) -> ScoreRow:
    """Return an error that is positive by noise alone, with its difference: neither has an interval."""
    found = _plain(rows, after, name, metric, definition, level)
    if found.after is None or found.before.value is None or found.after.value is None:
        return found
    difference = Estimate(
        f"difference of {name}",
        found.after.value - found.before.value,
        level=level,
        definition="after minus before",
        note="no interval, since this error is positive by noise alone, which resamples repeat",
    )
    return ScoreRow(found.before, found.after, difference)


def _options(rows: EvaluationSet, level: float, random_state: int) -> dict[str, Any]:
    return {
        "sample_weight": rows.weights,
        "groups": rows.groups,
        "level": level,
        "n_resamples": N_RESAMPLES,
        "random_state": random_state,
    }
