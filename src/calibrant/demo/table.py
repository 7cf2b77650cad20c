"""The comparison as plain text: a table with the best values marked, notes and a summary."""

import math
import re
import textwrap
from collections.abc import Iterable

from calibrant.comparison import MethodResult
from calibrant.demo.compared import COLUMNS, UNCALIBRATED, Compared

__all__ = ["as_text", "footnotes", "is_best"]

WIDTH = 88
DIGITS = 4
BEST = "*"


def as_text(compared: Compared) -> str:
    """Return the heading, table, notes and summary of one classifier."""
    heading = f"{compared.classifier.name}: {compared.classifier.about}"
    lines = [*_wrapped(heading), "", *_table(compared), *_notes(compared), ""]
    return "\n".join([*lines, *_wrapped(summary(compared), indent="")])


def is_best(compared: Compared, result: MethodResult, metric: str) -> bool:
    """Return whether a result prints like the best of its column; ties are all marked."""
    return _number(result.scores[metric]) == _number(compared.best(metric).scores[metric])


def summary(compared: Compared) -> str:
    """Summarise which method has the lowest log-loss, which are close to it, and which are worse than uncalibrated."""
    classifier = compared.classifier
    before = compared.comparison.result(UNCALIBRATED).scores["log_loss"]
    best = compared.best("log_loss")
    after = best.scores["log_loss"]
    n_test, n_calibration = len(classifier.test_labels), len(classifier.calibration_labels)
    if best.name == UNCALIBRATED:
        sentences = [
            f"No method fitted on {n_calibration} calibration rows has a lower log-loss on {n_test} test "
            f"rows than the uncalibrated predictions, {_number(before)}."
        ]
    else:
        gain = "" if math.isinf(before) else f", {100 * (1 - after / before):.0f} % less"
        sentences = [
            f"Fitted on {n_calibration} calibration rows, {best.name} has the lowest log-loss on {n_test} "
            f"test rows: {_number(after)}, against {_number(before)} uncalibrated{gain}."
        ]
    near = [result.name for result in compared.comparison.equally_good()]
    if near:
        sentences.append(f"Within two standard errors of the lowest: {', '.join(near)}.")
    else:
        sentences.append("All others are more than two standard errors above it.")
    harmful = [result.name for result in compared.results if result.scores["log_loss"] > before]
    if harmful:
        sentences.append(f"Worse than uncalibrated here: {', '.join(harmful)}.")
    return " ".join(sentences)


def footnotes(every: Iterable[Compared]) -> str:
    """Return explanations of the columns and of special values in the table."""
    every = list(every)
    notes = [
        f"{BEST} best of its column, to the digits shown. All metrics are from the test set; lower is better, "
        "except for accuracy.",
        "conf-ECE: mean gap between the confidence in the predicted class and the accuracy; class-ECE: the same "
        "for the probability of each class, averaged over classes; 15 equal-width bins. Both are positive even "
        "for perfect probabilities, because bins have few rows.",
    ]
    scores = [result.scores["log_loss"] for compared in every for result in compared.results]
    if any(math.isinf(score) for score in scores):
        notes.append(
            "inf: the true class of at least one test row has probability zero, so the log-loss is infinite. It is not "
            "clipped here."
        )
    if any(compared.classifier.calibration.space == "probabilities" for compared in every):
        notes.append("For probabilities, matrix and dirichlet are the same method; they differ for logits.")
    left_out = sorted({name for compared in every for name in compared.left_out})
    if left_out:
        notes.append(f"Not shown, since they are for two classes only: {', '.join(left_out)}.")
    return "\n".join(line for note in notes for line in _wrapped(note))


def _table(compared: Compared) -> list[str]:
    headings = list(COLUMNS.values())
    rows = [["method", *headings, "fit ms"]]
    for result in compared.results:
        marked = [
            _number(result.scores[metric]) + (BEST if is_best(compared, result, metric) else " ")
            for metric in COLUMNS
        ]
        rows.append([result.name, *marked, f"{1000 * result.seconds:.1f}"])
    # Headings are aligned with the digits; one character is reserved for the mark.
    rows[0][1:-1] = [heading + " " for heading in headings]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]
    return [lines[0], "-" * len(lines[0]), *lines[1:]]


def _notes(compared: Compared) -> list[str]:
    """Return the warnings of the fits, grouped by message."""
    methods: dict[str, list[str]] = {}
    for result in compared.results:
        for note in result.notes:
            # Warnings begin with the class name, which repeats the registry name.
            methods.setdefault(re.sub(r"^[A-Z]\w+: ", "", note), []).append(result.name)
    notes = [f"Note on {', '.join(names)}: {note}" for note, names in methods.items()]
    return [line for note in notes for line in ["", *_wrapped(note)]]


def _number(value: float) -> str:
    return "inf" if math.isinf(value) else f"{value:.{DIGITS}f}"


def _wrapped(text: str, indent: str = "  ") -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)
