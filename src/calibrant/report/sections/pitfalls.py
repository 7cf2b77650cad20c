"""Section "Pitfalls": caveats that apply to these data."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from calibrant.intervals import clopper_pearson
from calibrant.labelled_predictions import shift_warning
from calibrant.presentation.document import Bullets, OnPage, Paragraph, Section
from calibrant.presentation.markup import element
from calibrant.presentation.sentences import counted, listed, quoted
from calibrant.presentation.values import percent, significant
from calibrant.remedies import GIVE_GROUPS
from calibrant.report.contents import DataSummary, Pitfall, Recommendation
from calibrant.report.evaluation_set import EvaluationSet
from calibrant.report.event_evidence import SMALLEST_VARIANCE
from calibrant.report.evidence import Evidence
from calibrant.report.method_selection import MethodSelection
from calibrant.report.sections import Assessment, section_at
from calibrant.report.sections.classes import noise_of_ece
from calibrant.space import Space, log_odds_look_like_probabilities

__all__ = ["pitfalls"]

FEW_ROWS = 200
FEW_OF_A_CLASS = 20
MUCH_TIED = 0.05
SHOWN = 5

# If the effective sample size is below this fraction of the rows, few rows dominate.
UNEVEN_WEIGHTS = 0.5

# Limit of the rows that are searched for duplicates.
COMPARED_ROWS = 100_000
NEARLY_CERTAIN = 0.999

# Coarse scores are detected on this number of rows, as multiples of 1 / m up to this m.
GRID_ROWS, FINEST_GRID = 500, 1000

# With a lower fraction of distinct rows, scores are coarse rather than duplicated.
FEW_COPIES = 0.1


@section_at(170)
def pitfalls_section(assessment: Assessment) -> Section | None:
    """Return the section with all caveats, warnings first."""
    if not assessment.pitfalls:
        return None
    items, lines = [], []
    for pitfall in sorted(assessment.pitfalls, key=lambda pitfall: pitfall.severity != "warning"):
        is_warning = pitfall.severity == "warning"
        sign = element("span", "⚠" if is_warning else "ℹ", aria_hidden="true")
        opening = element("strong", sign, " Warning:" if is_warning else " Note:")
        items.append(element("li", opening, f" {pitfall.text}", class_="warning" if is_warning else "remark"))
        lines.append(Paragraph(pitfall.text, opening="Warning:" if is_warning else ""))
    bullets = element("ul", *items, class_="pitfalls")
    return Section("pitfalls", "Pitfalls", (OnPage(bullets, (Bullets(tuple(lines)),)),))


def pitfalls(
    summary: DataSummary,
    rows: EvaluationSet,
    sample: EvaluationSet,
    evidence: Evidence,
    selection: MethodSelection,
    advice: Recommendation,
    level: float,
) -> tuple[Pitfall, ...]:
    """Return all pitfalls that apply, warnings first."""
    found = [
        *_mistaken_input(rows),
        *_zeros(summary, rows, evidence),
        *_few_rows(summary, evidence),
        *_no_mistakes(summary, rows, level),
        *_classes(summary, rows),
        *_ties(summary),
        *_weights(summary),
        *_duplicates(rows),
        *_methods(selection, advice),
        *_samples(summary, rows, sample, selection),
        *_general(summary, rows),
    ]
    return tuple(sorted(found, key=lambda pitfall: pitfall.severity != "warning"))


def _warning(text: str) -> Pitfall:
    return Pitfall("warning", text)


def _note(text: str) -> Pitfall:
    return Pitfall("note", text)


def _mistaken_input(rows: EvaluationSet) -> Iterator[Pitfall]:
    if shift := rows.data.shift_of_labels:
        text = shift_warning(rows.n_classes, shift)
        yield _warning(f"{text[0].upper()}{text[1:]}")
    given = rows.predictions
    if given.space is Space.LOGITS and log_odds_look_like_probabilities(given.scores):
        yield _warning("All log-odds are between 0 and 1, like probabilities; check that they are log-odds.")


def _zeros(summary: DataSummary, rows: EvaluationSet, evidence: Evidence) -> Iterator[Pitfall]:
    if summary.n_refuted:
        affected = counted(summary.n_refuted, "row")
        floor = f"{rows.predictions.floor:.2g}"
        slope = (
            ""
            if evidence.line is None
            else " The definition of the slope states its convention for zeros and ones."
        )
        yield _warning(
            f"The true class of {affected} had probability exactly zero, so the log-loss is infinite. For finite log-losses "
            f"and for the comparison of methods, zeros are raised to the floor {floor} and rows renormalised.{slope}"
        )
    elif summary.n_zeros:
        verb = "probability is" if summary.n_zeros == 1 else "probabilities are"
        yield _note(
            f"{summary.n_zeros} {verb} exactly zero. A single row whose true class has probability zero makes the log-loss "
            "infinite."
        )


def _few_rows(summary: DataSummary, evidence: Evidence) -> Iterator[Pitfall]:
    total_variance = evidence.main.total_variance
    if summary.n_rows < FEW_ROWS:
        yield _warning(
            f"The sample is small ({counted(summary.n_rows, 'row')}). Read the intervals and the smallest detectable error "
            "before the estimates."
        )
    elif total_variance == 0:
        yield _warning(
            "All probabilities are exactly 0 or 1. A calibrator can estimate uncertainty only from the misclassified rows."
        )
    elif total_variance < SMALLEST_VARIANCE:
        yield _warning(
            f"Nearly all probabilities are close to 0 or 1: the sum of p (1 - p) over {counted(summary.n_rows, 'row')} is "
            f"only {total_variance:.2g}, so few rows carry information on calibration."
        )


def _no_mistakes(summary: DataSummary, rows: EvaluationSet, level: float) -> Iterator[Pitfall]:
    """Return a warning if no row is misclassified, with an upper confidence bound on the error rate."""
    if not rows.hits.all():
        return
    units = summary.n_groups if summary.n_groups is not None else int(summary.effective_rows)
    if units < 1:
        return
    # A one-sided bound is the upper end of a two-sided interval with twice the error probability.
    _, most = clopper_pearson(0, units, max(2 * level - 1, 0.01))
    among = counted(rows.n_rows, "row") if rows.groups is None else f"{rows.n_rows} rows of {units} groups"
    yield _warning(
        f"No mistakes among {among}, so these data give no upper bound on calibrated confidences. The upper "
        f"{100 * level:g} % confidence bound on the error rate is {percent(float(most), 2)}: do not rely on confidences "
        f"above {percent(1 - float(most), 2)}."
    )


def _classes(summary: DataSummary, rows: EvaluationSet) -> Iterator[Pitfall]:
    counts = np.bincount(rows.data.labels, minlength=rows.n_classes)
    if summary.n_classes - len(summary.absent_classes) == 1:
        yield _warning("All rows have the same true class; the other classes cannot be assessed.")
    elif summary.absent_classes:
        never, whose = ("occurs", "its") if len(summary.absent_classes) == 1 else ("occur", "their")
        yield _warning(
            f"{counted(len(summary.absent_classes), 'class')} never {never}: {_names(summary.absent_classes)}. The tests can "
            f"only detect that {whose} probabilities are too high."
        )
    rare = [name for name, count in zip(rows.class_names, counts, strict=True) if 0 < count < FEW_OF_A_CLASS]
    if rare and rows.n_classes > 1:
        have, whose = ("has", "Its") if len(rare) == 1 else ("have", "Their")
        yield _note(
            f"{counted(len(rare), 'class')} {have} fewer than {FEW_OF_A_CLASS} rows: {_names(rare)}. {whose} estimates in "
            "the table of classes are mostly noise, which averages over classes hide."
        )


def _names(labels: Sequence[str]) -> str:
    return listed([*map(quoted, labels)])


def _ties(summary: DataSummary) -> Iterator[Pitfall]:
    if summary.n_rows < 20 or summary.largest_tie < MUCH_TIED:
        return
    ties = (
        "All rows have the same confidence"
        if summary.n_distinct == 1
        else f"{percent(summary.largest_tie)} of the rows have the same confidence, out of {summary.n_distinct} distinct values"
    )
    yield _note(
        f"{ties}. Equal-mass bins are therefore uneven, and the area under the ROC curve counts ties as one half."
    )


def _weights(summary: DataSummary) -> Iterator[Pitfall]:
    if not summary.weighted or summary.effective_rows >= UNEVEN_WEIGHTS * summary.n_rows:
        return
    yield _warning(
        f"The weights are uneven: the effective sample size of {summary.n_rows} rows is {summary.effective_rows:.0f}, and "
        "intervals may be too narrow."
    )


def _duplicates(rows: EvaluationSet) -> Iterator[Pitfall]:
    """Return a warning if rows of probabilities are duplicated and no groups are given."""
    if rows.groups is not None or rows.n_rows < 20:
        return
    # Probabilities rounded to 0 and 1 are naturally duplicated.
    n_compared = min(rows.n_rows, COMPARED_ROWS)
    uncertain = np.flatnonzero(rows.confidence[:n_compared] < NEARLY_CERTAIN)
    if len(uncertain) < 20:
        return
    scores = rows.predictions.scores[uncertain]
    mixture = np.random.default_rng(0).uniform(1, 2, (rows.n_classes, 2))
    keys = scores.astype(np.float64) @ mixture
    _, times = np.unique(keys, axis=0, return_counts=True)
    copies = (len(scores) - len(times)) / n_compared
    # Coarse scores, such as those of trees or with few decimals, are naturally duplicated too.
    if copies < 0.01 or len(times) < FEW_COPIES * len(scores) or is_on_a_grid(scores):
        return
    yield _warning(
        f"{percent(copies)} of the rows duplicate the probabilities of another row. If they come from the same case or "
        f"person, {GIVE_GROUPS}; otherwise intervals are too narrow, p-values too small, and copies of a row can be in both "
        "the training and the test fold."
    )


def is_on_a_grid(scores: NDArray[np.floating]) -> bool:
    """Return whether all scores are multiples of a fraction 1 / m, like votes and rounded numbers.

    >>> is_on_a_grid(np.array([0.25, 0.5, 0.12])), is_on_a_grid(np.array([0.2512, 0.4999, 0.1234567]))
    (True, False)
    """
    values = np.unique(scores[:GRID_ROWS].astype(np.float64))
    rounding = 8 * float(np.finfo(scores.dtype).eps)
    multiples = values * np.arange(1, FINEST_GRID + 1)[:, np.newaxis]
    is_multiple = np.abs(multiples - np.round(multiples)) <= rounding * np.maximum(multiples, 1)
    return bool(is_multiple.all(axis=1).any())


def _methods(selection: MethodSelection, advice: Recommendation) -> Iterator[Pitfall]:
    if advice.action == "calibrate" and advice.changed_decisions:
        yield _note(
            f"{advice.method} changes {percent(advice.changed_decisions, 2)} of the predicted classes. If decisions must not "
            "change, choose an arg-max-preserving method, such as temperature."
        )
    if selection.comparison is not None:
        measured = [
            row for row in advice.methods if row.confidence_ece is not None and row.log_loss is not None
        ]
        if len(measured) > 2:
            by_ece = min(measured, key=lambda row: row.confidence_ece or 0.0)
            by_loss = min(measured, key=lambda row: row.log_loss or 0.0)
            if by_ece.name != by_loss.name:
                yield _note(
                    f"{by_ece.name} has the lowest ECE, {by_loss.name} the lowest log-loss. Do not select methods by ECE, "
                    "which ignores sharpness and averages over rows."
                )


def _samples(
    summary: DataSummary, rows: EvaluationSet, sample: EvaluationSet, selection: MethodSelection
) -> Iterator[Pitfall]:
    if rows.n_rows < summary.n_rows:
        yield _note(
            f"To limit time and memory, all numbers except the data summary are from a random sample of {rows.n_rows} of "
            f"{summary.n_rows} rows."
        )
    if sample.n_rows < rows.n_rows:
        yield _note(
            "Calibration errors, decompositions and plots of single classes are from a random sample of "
            f"{sample.n_rows} rows."
        )
    if selection.rows.n_rows < rows.n_rows:
        yield _note(
            f"Methods were compared on a random sample of {selection.rows.n_rows} of {rows.n_rows} rows."
        )


def _general(summary: DataSummary, rows: EvaluationSet) -> Iterator[Pitfall]:
    yield _note(
        "Use held-out rows. If the classifier, or a calibrator already in use, was fitted to these rows, all results are "
        "too optimistic."
    )
    if rows.n_classes == 2:
        yield _note(
            "The Brier score of two classes is halved (0 to 1), as in scikit-learn; other software may report twice this "
            "value."
        )
    else:
        noise = float(np.mean(noise_of_ece(rows)))
        alone = (
            f"Binned errors are positive even under calibration: with {counted(rows.n_rows, 'row')}, calibrated predictions have "
            f"a classwise ECE of about {significant(noise, 2)}. "
            if noise > 0
            else ""
        )
        yield _note(f"{alone}The error of the predicted class says nothing about the other classes.")
    if summary.n_groups is not None:
        yield _note(
            f"Intervals of scores and gains, and the tests used for the verdict, treat the {summary.n_groups} groups as "
            "independent. The other tests, slopes, lower bounds, removable losses, and the intervals, bands and p-values of "
            "plots assume independent rows: their intervals may be too narrow and their p-values too small."
        )
