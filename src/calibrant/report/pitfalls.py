"""What a reader should know before believing a number; only what applies."""

import numpy as np

from calibrant.report.class_rows import noise_of_ece
from calibrant.report.contents import DataSummary, Pitfall, Recommendation
from calibrant.report.event_evidence import ENOUGH_SURPRISES
from calibrant.report.evidence import Evidence
from calibrant.report.plain import percent
from calibrant.report.rows import Rows
from calibrant.report.trial import Trial
from calibrant.wording import counted

__all__ = ["pitfalls"]

FEW_ROWS = 200
FEW_OF_A_CLASS = 20
MUCH_TIED = 0.05
SHOWN = 5

# An effective number of rows below this share of them means that few rows decide.
UNEVEN_WEIGHTS = 0.5

# Rows that are compared to find copies.
COMPARED_ROWS = 100_000
NEARLY_SURE = 0.999


def pitfalls(
    summary: DataSummary,
    rows: Rows,
    sample: Rows,
    evidence: Evidence,
    trial: Trial,
    advice: Recommendation,
) -> tuple[Pitfall, ...]:
    """Return all that apply, warnings first."""
    found = [
        *_zeros(summary),
        *_rows(summary, evidence),
        *_classes(summary, rows),
        *_ties(summary),
        *_weights(summary),
        *_copies(rows),
        *_methods(trial, advice),
        *_parts(summary, rows, sample),
        *_always(summary, rows),
    ]
    return tuple(sorted(found, key=lambda pitfall: pitfall.severity != "warning"))


def _warning(text: str) -> Pitfall:
    return Pitfall("warning", text)


def _note(text: str) -> Pitfall:
    return Pitfall("note", text)


def _zeros(summary: DataSummary) -> list[Pitfall]:
    if summary.n_refuted:
        rows = counted(summary.n_refuted, "row")
        return [
            _warning(
                f"{rows} had a true class of probability exactly zero, so the log-loss is infinite. Nothing was clipped in "
                "silence: where a finite log-loss is shown, its name says what zeros count as."
            )
        ]
    if summary.n_zeros:
        return [
            _note(
                f"{counted(summary.n_zeros, 'probability').replace('probabilitys', 'probabilities')} are exactly zero; a single "
                "row of such a class would make the log-loss infinite."
            )
        ]
    return []


def _rows(summary: DataSummary, evidence: Evidence) -> list[Pitfall]:
    found = []
    if summary.n_rows < FEW_ROWS:
        found.append(
            _warning(
                f"{counted(summary.n_rows, 'row')} say little about calibration: look at the intervals, and at the smallest "
                "error that could have been seen, before the estimates."
            )
        )
    elif evidence.main.surprises < ENOUGH_SURPRISES:
        found.append(
            _warning(
                f"Nearly all probabilities are close to 0 or 1: only {evidence.main.surprises:.2g} surprises are expected in "
                f"{summary.n_rows} rows, so that errors show in few rows only."
            )
        )
    return found


def _classes(summary: DataSummary, rows: Rows) -> list[Pitfall]:
    found = []
    counts = np.bincount(rows.data.labels, minlength=rows.n_classes)
    if summary.n_classes - len(summary.absent_classes) == 1:
        found.append(_warning("All rows have the same true class: nothing is known about the others."))
    elif summary.absent_classes:
        found.append(
            _warning(
                f"{counted(len(summary.absent_classes), 'class')} never occur{'s' if len(summary.absent_classes) == 1 else ''}: "
                f"{_listed(summary.absent_classes)}. Only that their probabilities are too high could be seen."
            )
        )
    rare = [name for name, count in zip(rows.class_names, counts, strict=True) if 0 < count < FEW_OF_A_CLASS]
    if rare and rows.n_classes > 1:
        found.append(
            _note(
                f"{counted(len(rare), 'class')} with fewer than {FEW_OF_A_CLASS} rows: {_listed(rare)}. Their lines in the "
                "table of classes are mostly noise, and averages over classes hide them."
            )
        )
    return found


def _ties(summary: DataSummary) -> list[Pitfall]:
    if summary.n_rows < 20 or summary.largest_tie < MUCH_TIED:
        return []
    return [
        _note(
            f"{percent(summary.largest_tie)} of the rows have the same confidence, and only {summary.n_distinct} different "
            "ones occur: bins of equal mass are uneven, and area under the curve counts ties as half."
        )
    ]


def _weights(summary: DataSummary) -> list[Pitfall]:
    if not summary.weighted or summary.effective_rows >= UNEVEN_WEIGHTS * summary.n_rows:
        return []
    return [
        _warning(
            f"The weights are uneven: {summary.n_rows} rows count as {summary.effective_rows:.0f}, and intervals may be "
            "too short."
        )
    ]


def _copies(rows: Rows) -> list[Pitfall]:
    """Return a warning where whole rows of probabilities occur again and no groups say that rows belong together."""
    if rows.groups is not None or rows.n_rows < 20:
        return []
    # Probabilities that are rounded to 0 and 1 repeat by themselves.
    unsure = np.flatnonzero(rows.confidence < NEARLY_SURE)[:COMPARED_ROWS]
    if len(unsure) < 20:
        return []
    scores = rows.predictions.scores[unsure]
    mixture = np.random.default_rng(0).uniform(1, 2, (rows.n_classes, 2))
    keys = scores.astype(np.float64) @ mixture
    distinct = len(np.unique(keys, axis=0))
    copies = (len(scores) - distinct) / rows.n_rows
    # Coarse scores, as those of trees, repeat by themselves.
    if copies < 0.01 or distinct < 0.5 * len(scores):
        return []
    return [
        _warning(
            f"{percent(copies)} of the rows repeat the probabilities of another one. If they come from the same case or person, "
            "pass groups=; otherwise intervals and p-values are too sure, and a row may be judged by its own copy."
        )
    ]


def _methods(trial: Trial, advice: Recommendation) -> list[Pitfall]:
    found = []
    if advice.action == "calibrate" and advice.changed_decisions:
        found.append(
            _note(
                f"{advice.method} changes {percent(advice.changed_decisions, 2)} of the predicted classes. If decisions must "
                "stay, choose a method that keeps them, such as temperature."
            )
        )
    if trial.comparison is not None:
        measured = [
            row for row in advice.methods if row.confidence_ece is not None and row.log_loss is not None
        ]
        if len(measured) > 2:
            by_ece = min(measured, key=lambda row: row.confidence_ece or 0.0)
            by_loss = min(measured, key=lambda row: row.log_loss or 0.0)
            if by_ece.name != by_loss.name:
                found.append(
                    _note(
                        f"By ECE {by_ece.name} would come first, by log-loss {by_loss.name}. ECE sees neither sharpness nor "
                        "single rows; do not choose by it."
                    )
                )
    return found


def _parts(summary: DataSummary, rows: Rows, sample: Rows) -> list[Pitfall]:
    found = []
    if rows.n_rows < summary.n_rows:
        found.append(
            _note(
                f"Beyond the summary of the data, numbers are of {rows.n_rows} rows drawn at random from {summary.n_rows}, to "
                "keep time and memory within bounds."
            )
        )
    if sample.n_rows < rows.n_rows:
        found.append(
            _note(
                f"Methods were tried, and calibration errors, decompositions and pictures of single classes computed, on "
                f"{sample.n_rows} rows drawn at random."
            )
        )
    return found


def _always(summary: DataSummary, rows: Rows) -> list[Pitfall]:
    found = [
        _note(
            "These rows must not be those that the classifier, or a calibrator already in use, was fitted to; otherwise "
            "everything here looks better than it is."
        )
    ]
    if rows.n_classes == 2:
        found.append(
            _note(
                "The Brier score is halved for two classes (0 to 1), as in scikit-learn; others give twice as much."
            )
        )
    else:
        noise = float(np.mean(noise_of_ece(rows)))
        found.append(
            _note(
                f"Binned errors are positive by noise alone: with {counted(rows.n_rows, 'row')}, calibrated predictions would "
                f"have a classwise ECE of about {noise:.2g}. The error of the predicted class says nothing about "
                "the other classes."
            )
        )
    if summary.n_groups is not None:
        found.append(
            _note(
                f"Intervals and the tests that count take whole groups ({summary.n_groups}) as independent; tests marked as "
                "shown only, slopes and lower bounds take rows as independent and may be too sure."
            )
        )
    return found


def _listed(names: tuple[str, ...] | list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more"
