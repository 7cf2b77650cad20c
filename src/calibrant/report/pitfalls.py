"""What a reader should know before believing a number; only what applies."""

import numpy as np
from numpy.typing import NDArray

from calibrant.intervals import clopper_pearson
from calibrant.labelled_predictions import shift_warning
from calibrant.mistaken_space import log_odds_look_like_probabilities
from calibrant.report.class_rows import noise_of_ece
from calibrant.report.contents import DataSummary, Pitfall, Recommendation
from calibrant.report.event_evidence import ENOUGH_SURPRISES
from calibrant.report.evidence import Evidence
from calibrant.report.figures import figure
from calibrant.report.plain import percent, quoted
from calibrant.report.rows import Rows
from calibrant.report.trial import Trial
from calibrant.space import Space
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

# Rows, and finest fraction, by which coarse scores are known.
GRID_ROWS, FINEST_GRID = 500, 1000

# With fewer different rows than this share, scores are coarse rather than copied.
FEW_COPIES = 0.1


def pitfalls(
    summary: DataSummary,
    rows: Rows,
    sample: Rows,
    evidence: Evidence,
    trial: Trial,
    advice: Recommendation,
    level: float,
) -> tuple[Pitfall, ...]:
    """Return all that apply, warnings first."""
    found = [
        *_mistaken_input(rows),
        *_zeros(summary, rows, evidence),
        *_rows(summary, evidence),
        *_mistakes(summary, rows, level),
        *_classes(summary, rows),
        *_ties(summary),
        *_weights(summary),
        *_copies(rows),
        *_methods(trial, advice),
        *_parts(summary, rows, sample, trial),
        *_always(summary, rows),
    ]
    return tuple(sorted(found, key=lambda pitfall: pitfall.severity != "warning"))


def _warning(text: str) -> Pitfall:
    return Pitfall("warning", text)


def _note(text: str) -> Pitfall:
    return Pitfall("note", text)


def _mistaken_input(rows: Rows) -> list[Pitfall]:
    found = []
    if shift := rows.data.shift_of_labels:
        said = shift_warning(rows.n_classes, shift)
        found.append(_warning(f"{said[0].upper()}{said[1:]}"))
    given = rows.predictions
    if given.space is Space.LOGITS and log_odds_look_like_probabilities(given.scores):
        found.append(
            _warning("All log-odds are between 0 and 1, as probabilities are; check that they are log-odds.")
        )
    return found


def _zeros(summary: DataSummary, rows: Rows, evidence: Evidence) -> list[Pitfall]:
    if summary.n_refuted:
        had = f"{counted(summary.n_refuted, 'row')} had a true class of probability exactly zero, so the log-loss is infinite."
        floor = f"{rows.predictions.floor:.2g}"
        slope = (
            ""
            if evidence.line is None
            else "; the slope says in its definition what it takes zeros and ones for"
        )
        return [
            _warning(
                f"{had} Where a finite one is shown, and where methods are compared, zeros are raised to the floor, {floor}, and "
                f"every row divided by its sum{slope}."
            )
        ]
    if summary.n_zeros:
        verb = "probability is" if summary.n_zeros == 1 else "probabilities are"
        return [
            _note(
                f"{summary.n_zeros} {verb} exactly zero; a single row of such a class would make the log-loss infinite."
            )
        ]
    return []


def _rows(summary: DataSummary, evidence: Evidence) -> list[Pitfall]:
    if summary.n_rows < FEW_ROWS:
        verb = "says" if summary.n_rows == 1 else "say"
        return [
            _warning(
                f"{counted(summary.n_rows, 'row')} {verb} little about calibration: look at the intervals, and at the smallest "
                "error that could have been seen, before the estimates."
            )
        ]
    surprises = evidence.main.surprises
    if surprises == 0:
        return [
            _warning(
                "All probabilities are exactly 0 or 1: they allow for no mistake, and how unsure to be has to be learnt from the "
                "mistakes alone."
            )
        ]
    if surprises < ENOUGH_SURPRISES:
        expected = f"only {surprises:.2g} surprises are" if surprises >= 1 else "less than one surprise is"
        return [
            _warning(
                f"Nearly all probabilities are close to 0 or 1: {expected} expected in {summary.n_rows} rows, so that errors "
                "show in few rows only."
            )
        ]
    return []


def _mistakes(summary: DataSummary, rows: Rows, level: float) -> list[Pitfall]:
    """Return a warning where no row is a mistake, with the largest share of mistakes that fits with that."""
    if not rows.hits.all():
        return []
    units = summary.n_groups if summary.n_groups is not None else int(summary.effective_rows)
    if units < 1:
        return []
    # One-sided at the level: the upper end of a two-sided interval that leaves out twice as much.
    _, most = clopper_pearson(0, units, max(2 * level - 1, 0.01))
    among = counted(rows.n_rows, "row") if rows.groups is None else f"{rows.n_rows} rows of {units} groups"
    return [
        _warning(
            f"No mistake among {among}: how sure repaired probabilities may be cannot be learnt from these. With "
            f"{100 * level:g} % confidence the share of mistakes may be as high as {percent(float(most), 2)}; believe no "
            f"confidence above {percent(1 - float(most), 2)}."
        )
    ]


def _classes(summary: DataSummary, rows: Rows) -> list[Pitfall]:
    found = []
    counts = np.bincount(rows.data.labels, minlength=rows.n_classes)
    if summary.n_classes - len(summary.absent_classes) == 1:
        found.append(_warning("All rows have the same true class: nothing is known about the others."))
    elif summary.absent_classes:
        never, whose = ("occurs", "its") if len(summary.absent_classes) == 1 else ("occur", "their")
        found.append(
            _warning(
                f"{counted(len(summary.absent_classes), 'class')} never {never}: {_listed(summary.absent_classes)}. Only that "
                f"{whose} probabilities are too high could be seen."
            )
        )
    rare = [name for name, count in zip(rows.class_names, counts, strict=True) if 0 < count < FEW_OF_A_CLASS]
    if rare and rows.n_classes > 1:
        have, lines, them = ("has", "Its line", "is") if len(rare) == 1 else ("have", "Their lines", "are")
        found.append(
            _note(
                f"{counted(len(rare), 'class')} {have} fewer than {FEW_OF_A_CLASS} rows: {_listed(rare)}. {lines} in the table "
                f"of classes {them} mostly noise, and averages over classes hide that."
            )
        )
    return found


def _ties(summary: DataSummary) -> list[Pitfall]:
    if summary.n_rows < 20 or summary.largest_tie < MUCH_TIED:
        return []
    ties = (
        "All rows have the same confidence"
        if summary.n_distinct == 1
        else f"{percent(summary.largest_tie)} of the rows have the same confidence, and only {summary.n_distinct} different ones "
        "occur"
    )
    return [
        _note(f"{ties}: bins of equal mass are uneven, and the area under the ROC curve counts ties as half.")
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
    n_compared = min(rows.n_rows, COMPARED_ROWS)
    unsure = np.flatnonzero(rows.confidence[:n_compared] < NEARLY_SURE)
    if len(unsure) < 20:
        return []
    scores = rows.predictions.scores[unsure]
    mixture = np.random.default_rng(0).uniform(1, 2, (rows.n_classes, 2))
    keys = scores.astype(np.float64) @ mixture
    _, times = np.unique(keys, axis=0, return_counts=True)
    copies = (len(scores) - len(times)) / n_compared
    # Coarse scores, as those of trees or of few decimals, repeat by themselves.
    if copies < 0.01 or len(times) < FEW_COPIES * len(scores) or _is_on_a_grid(scores):
        return []
    return [
        _warning(
            f"{percent(copies)} of the rows repeat the probabilities of another one. If they come from the same case or person, "
            "pass groups=; otherwise intervals and p-values are too sure, and a row may be judged by its own copy."
        )
    ]


def _is_on_a_grid(scores: NDArray[np.floating]) -> bool:
    """Tell whether all scores are multiples of one fraction 1 / m, as votes and rounded numbers are.

    >>> _is_on_a_grid(np.array([0.25, 0.5, 0.12])), _is_on_a_grid(np.array([0.2512, 0.4999, 0.1234567]))
    (True, False)
    """
    values = np.unique(scores[:GRID_ROWS].astype(np.float64))
    rounding = 8 * float(np.finfo(scores.dtype).eps)
    multiples = values * np.arange(1, FINEST_GRID + 1)[:, np.newaxis]
    near = np.abs(multiples - np.round(multiples)) <= rounding * np.maximum(multiples, 1)
    return bool(near.all(axis=1).any())


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


def _parts(summary: DataSummary, rows: Rows, sample: Rows, trial: Trial) -> list[Pitfall]:
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
                f"Calibration errors, decompositions and pictures of single classes are of {sample.n_rows} rows drawn at random."
            )
        )
    if trial.rows.n_rows < rows.n_rows:
        found.append(
            _note(f"Methods were tried on {trial.rows.n_rows} of {rows.n_rows} rows, drawn at random.")
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
        alone = (
            f"Binned errors are positive by noise alone: with {counted(rows.n_rows, 'row')}, calibrated predictions would have a "
            f"classwise ECE of about {figure(noise, digits=2)}. "
            if noise > 0
            else ""
        )
        found.append(_note(f"{alone}The error of the predicted class says nothing about the other classes."))
    if summary.n_groups is not None:
        found.append(
            _note(
                f"Intervals of scores and gains, and the tests that count, take whole groups ({summary.n_groups}) as "
                "independent. Tests marked as shown only, slopes, lower bounds, what is removable in decompositions, and the "
                "intervals, bands and p-values of pictures take rows as independent and may be too sure."
            )
        )
    return found


def _listed(names: tuple[str, ...] | list[str]) -> str:
    shown = ", ".join(quoted(name) for name in names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more"
