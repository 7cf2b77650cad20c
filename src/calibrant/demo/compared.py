"""Every calibration method on the test set of one classifier of the demo, and the table that shows it."""

import math
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

from calibrant import registry
from calibrant.comparison import Comparison, MethodResult, compare
from calibrant.demo.classifiers import Scored
from calibrant.presentation import decimals
from calibrant.presentation.text import table_lines

__all__ = [
    "COLUMNS",
    "HIGHER_IS_BETTER",
    "UNCALIBRATED",
    "Compared",
    "as_text",
    "compare_all",
    "footnotes",
    "is_best",
]


UNCALIBRATED = "uncalibrated"

COLUMNS = {
    "log_loss": "log-loss",
    "brier_score": "Brier",
    "confidence_ece": "conf-ECE",
    "classwise_ece": "class-ECE",
    "accuracy": "accuracy",
}
"""Metrics of the table with their column headings."""

HIGHER_IS_BETTER = {"accuracy"}


@dataclass(frozen=True, eq=False)
class Compared:
    """A classifier with the results of all methods, and the methods that do not support its number of classes."""

    classifier: Scored
    comparison: Comparison
    left_out: tuple[str, ...]

    @property
    def results(self) -> tuple[MethodResult, ...]:
        """Results: the uncalibrated predictions first, then by increasing log-loss."""
        return self.comparison.measured

    def best(self, metric: str) -> MethodResult:
        """Return the result with the best value on the test set; the first of ties."""
        sign = -1.0 if metric in HIGHER_IS_BETTER else 1.0
        return min(self.results, key=lambda result: sign * result.scores[metric])


def compare_all(classifier: Scored) -> Compared:
    """Fit every method of the registry on the calibration set and evaluate it on the test set."""
    makers = {name: registry.make(name) for name in registry.calibrators()}
    n_classes = classifier.calibration.n_classes
    fitting = [name for name, maker in makers.items() if n_classes == 2 or not maker.traits.binary_only]
    comparison = compare(
        classifier.calibration_labels,
        classifier.calibration,
        fitting,
        test=(classifier.test_labels, classifier.test),
    )
    return Compared(classifier, comparison, tuple(name for name in makers if name not in fitting))


WIDTH = 88
BEST = "*"


def as_text(compared: Compared) -> str:
    """Return the heading, table, notes and summary of one classifier."""
    heading = f"{compared.classifier.name}: {compared.classifier.about}"
    lines = [*_wrapped(heading), "", *_table(compared), *_notes(compared), ""]
    return "\n".join([*lines, *_wrapped(summary(compared), indent="")])


def is_best(compared: Compared, result: MethodResult, metric: str) -> bool:
    """Return whether a result prints like the best of its column; ties are all marked."""
    return decimals(result.scores[metric]) == decimals(compared.best(metric).scores[metric])


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
            f"rows than the uncalibrated predictions, {decimals(before)}."
        ]
    else:
        gain = "" if math.isinf(before) else f", {100 * (1 - after / before):.0f} % less"
        sentences = [
            f"Fitted on {n_calibration} calibration rows, {best.name} has the lowest log-loss on {n_test} "
            f"test rows: {decimals(after)}, against {decimals(before)} uncalibrated{gain}."
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
            decimals(result.scores[metric]) + (BEST if is_best(compared, result, metric) else " ")
            for metric in COLUMNS
        ]
        rows.append([result.name, *marked, f"{1000 * result.seconds:.1f}"])
    # Headings are aligned with the digits; one character is reserved for the mark.
    rows[0][1:-1] = [f"{heading} " for heading in headings]
    is_numeric = [place > 0 for place in range(len(rows[0]))]
    return table_lines(rows[0], rows[1:], is_numeric, WIDTH)


def _notes(compared: Compared) -> list[str]:
    """Return the warnings of the fits, grouped by message."""
    methods: dict[str, list[str]] = {}
    for result in compared.results:
        for note in result.notes:
            # Warnings begin with the class name, which repeats the registry name.
            methods.setdefault(re.sub(r"^[A-Z]\w+: ", "", note), []).append(result.name)
    notes = [f"Note on {', '.join(names)}: {note}" for note, names in methods.items()]
    return [line for note in notes for line in ["", *_wrapped(note)]]


def _wrapped(text: str, indent: str = "  ") -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)
