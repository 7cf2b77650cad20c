"""Section "Decomposition": how much of a proper score is miscalibration, before and after calibration."""

from math import isinf
from typing import Literal

from calibrant.metrics import decompose
from calibrant.metrics.decomposition import Decomposition
from calibrant.notices import held_back
from calibrant.presentation.document import Figure, OnPage, Paragraph, Section, SideBySide
from calibrant.presentation.markup import Markup, element
from calibrant.presentation.sentences import sentence
from calibrant.presentation.table import Cell, Column, Table
from calibrant.presentation.values import TYPOGRAPHIC, Value, has_value, number, percent
from calibrant.report.contents import DecompositionRow, Estimate
from calibrant.report.evaluation_set import EvaluationSet, plain_float
from calibrant.report.sections import Assessment, section_at
from calibrant.report.sections.axes import Plot, chart, legend, ticks_between
from calibrant.report.sections.scores import INFINITE, estimate_cell, metric_title

__all__ = ["decompositions"]

Loss = Literal["log", "brier"]
NAMES: dict[Loss, str] = {"log": "log-loss", "brier": "Brier score"}

# One or two parameters per class; with many classes, where that is slow, a single parameter.
MOST_CLASSES_OF_VECTOR = 20

ROW = 62.0


@section_at(90)
def decomposition_section(assessment: Assessment) -> Section | None:
    """Return the section with one chart per score and a table."""
    if not assessment.decompositions:
        return None
    groups: dict[str, list[DecompositionRow]] = {}
    for row in assessment.decompositions:
        groups.setdefault(row.loss, []).append(row)
    figures = tuple(
        Figure(f"decomposition-{index}", metric_title(loss), _chart(tuple(rows)))
        for index, (loss, rows) in enumerate(groups.items())
    )
    has_base_rate = any(_base_rate(tuple(rows)) is not None for rows in groups.values())
    lead = "The part of the loss due to miscalibration, which a calibrator can remove, and the part that remains."
    return Section(
        "decomposition",
        "Decomposition",
        (
            Paragraph(lead, "lead"),
            SideBySide(figures),
            OnPage(_legend(has_base_rate)),
            _table(assessment.decompositions),
        ),
    )


def _table(rows: tuple[DecompositionRow, ...]) -> Table:
    parts = (
        (
            "Miscalibration",
            "reduction of the score by recalibration (for two classes: the best monotone one on the same rows).",
        ),
        ("Discrimination", "improvement of the recalibrated predictions over the class frequencies."),
        ("Uncertainty", "score of always predicting the class frequencies; a property of the data."),
        (
            "Removable",
            "reduction of the score by cross-validated recalibration; a lower bound on the miscalibration.",
        ),
        ("Refinement", "score after this recalibration."),
    )
    own = {(metric_title(row.loss), sentence(row.definition)): None for row in rows if row.definition}
    is_negative = any(
        row.miscalibration < 0
        or (row.removable is not None and row.removable.value is not None and row.removable.value < 0)
        for row in rows
    )
    negative = "A negative component is an estimate of a non-negative quantity: no miscalibration was found."
    return Table.of(
        "decompositions",
        "Decomposition: score = miscalibration − discrimination + uncertainty",
        rows,
        (Column("Score", is_numeric=False), lambda row: Cell(metric_title(row.loss), (row.stage,))),
        (Column("Value"), lambda row: Value(row.score, tiny=False)),
        (Column("Miscalibration"), lambda row: Value(row.miscalibration, tiny=False)),
        (Column("Fraction of the score"), _fraction),
        (Column("Discrimination"), lambda row: Value(row.discrimination, tiny=False)),
        (Column("Uncertainty"), lambda row: Value(row.uncertainty, tiny=False)),
        (Column("Removable"), lambda row: estimate_cell(row.removable)),
        (Column("Refinement"), lambda row: Value(row.refinement, tiny=False)),
        definitions=(*own, *parts),
        notes=(
            *([negative] if is_negative else []),
            *([INFINITE] if any(isinf(row.score) for row in rows) else []),
        ),
    )


def _fraction(row: DecompositionRow) -> Value:
    return Value(row.miscalibration / row.score if row.score > 0 else None, "percent")


def decompositions(
    rows: EvaluationSet, after: EvaluationSet | None, level: float
) -> tuple[DecompositionRow, ...]:
    """Return the decompositions of log-loss and Brier score, uncalibrated and after calibration.

    Two classes: by isotonic regression on the same rows (CORP), with the loss that cross-validated recalibration removes.
    More classes: by cross-validated recalibration alone. Empty if there are too few rows for cross-validation.
    """
    if rows.n_rows < 10 or rows.n_present < 2:
        return ()
    found = []
    losses: tuple[Loss, ...] = ("log", "brier")
    for loss in losses:
        for stage, subset in (("before", rows), ("after", after)):
            if subset is not None:
                found.append(_decomposition(subset, loss, stage, level))
    return tuple(found)


def _decomposition(rows: EvaluationSet, loss: Loss, stage: str, level: float) -> DecompositionRow:
    held_out = _by_recalibration(rows, loss)
    parts, definition = held_out, f"recalibration by {held_out.recalibrated_by}"
    if rows.n_classes == 2:
        parts = decompose(
            rows.labels,
            rows.predictions,
            sample_weight=rows.weights,
            loss=loss,
            method="isotonic",
            kind="positive",
        )
        definition = f"{parts.recalibrated_by} (CORP); removable: {definition}"
    if rows.groups is not None:
        definition += "; folds do not keep groups together"
    return DecompositionRow(
        loss=NAMES[loss],
        stage=stage,
        score=parts.score,
        miscalibration=_finite(parts.calibration),
        discrimination=parts.discrimination,
        uncertainty=parts.uncertainty,
        removable=_removable(held_out, level, definition),
        refinement=plain_float(held_out.refinement),
        definition=definition,
    )


def _by_recalibration(rows: EvaluationSet, loss: Loss) -> Decomposition:
    with held_back():
        return decompose(
            rows.labels,
            rows.predictions,
            sample_weight=rows.weights,
            loss=loss,
            method="recalibration",
            kind="positive" if rows.n_classes == 2 else "full",
            recalibrator=_recalibrator(rows.n_classes),
        )


def _recalibrator(n_classes: int) -> str:
    """Return a fast calibrator with few parameters; any choice gives a lower bound on the removable loss."""
    if n_classes == 2:
        return "beta"
    return "shared-vector" if n_classes <= MOST_CLASSES_OF_VECTOR else "temperature"


def _removable(parts: Decomposition, level: float, definition: str) -> Estimate | None:
    if plain_float(parts.calibration) is None:
        return None
    low, high = parts.interval(level)
    return Estimate(
        f"removable {parts.loss} loss",
        plain_float(parts.calibration),
        plain_float(low),
        plain_float(high),
        level,
        definition,
    )


def _finite(value: float) -> float:
    """Return a component as a number; infinite if it is a difference of infinities."""
    return float("inf") if plain_float(value) is None else value


def _chart(rows: tuple[DecompositionRow, ...]) -> Markup:
    """Return one bar per stage: the part of the score that calibration cannot change, then the miscalibration."""
    base_rate = _base_rate(rows)
    high = 1.08 * max(_longest(rows), base_rate or 0.0)
    height = ROW * len(rows) + 8
    plot = Plot.of((0.0, high), (0.0, 1.0), left=18, top=4, height=height)
    pieces: list[str] = [plot.frame(ticks_between(0, high), [], metric_title(rows[0].loss), "")]
    tops = [10 + ROW * index for index in range(len(rows))]
    if base_rate is not None:  # only next to the bars, so that the line does not cross text
        x = plot.x(base_rate)
        pieces.append(
            element("path", class_="diagonal", d="".join(f"M{x:.1f} {top + 18:.1f}v28" for top in tops))
        )
    pieces += [_bar(row, plot, top) for row, top in zip(rows, tops, strict=True)]
    return chart(
        f"Decomposition of the {metric_title(rows[0].loss)}",
        " ".join(_bar_sentence(row) for row in rows),
        height + 54,
        *pieces,
    )


def _longest(rows: tuple[DecompositionRow, ...]) -> float:
    return max((row.score for row in rows if has_value(row.score)), default=0.0) or 1.0


def _base_rate(rows: tuple[DecompositionRow, ...]) -> float | None:
    """Return the score of the class frequencies; None if showing it would make the bars too short to read."""
    base_rate = rows[0].uncertainty
    return base_rate if has_value(base_rate) and base_rate <= 2.5 * _longest(rows) else None


def _bar(row: DecompositionRow, plot: Plot, top: float) -> Markup:
    label = element("text", row.stage, class_="label", x=plot.x.start, y=top + 12)
    if not has_value(row.score):
        return element(
            "g",
            label,
            element("text", "∞ (not drawn)", class_="tick", x=plot.x.end, y=top + 12, text_anchor="end"),
        )
    start, between, end = plot.x(0), plot.x(max(row.score - row.miscalibration, 0.0)), plot.x(row.score)
    share = (
        percent(row.miscalibration / row.score, style=TYPOGRAPHIC)
        if row.score > 0 and row.miscalibration > 0
        else "no"
    )
    return element(
        "g",
        label,
        element(
            "text",
            f"{number(row.score, style=TYPOGRAPHIC)}, {share} miscalibration",
            class_="tick",
            x=plot.x.end,
            y=top + 12,
            text_anchor="end",
        ),
        element("rect", class_="bar", x=start, y=top + 20, width=max(between - start, 0.0), height=24),
        element("rect", class_="gap over", x=between, y=top + 20, width=max(end - between, 0.0), height=24),
    )


def _bar_sentence(row: DecompositionRow) -> str:
    score, miscalibration, discrimination, uncertainty = (
        number(one, style=TYPOGRAPHIC)
        for one in (row.score, row.miscalibration, row.discrimination, row.uncertainty)
    )
    parts = f"{miscalibration} miscalibration − {discrimination} discrimination + {uncertainty} uncertainty"
    return f"{row.stage}: {score} = {parts}."


def _legend(with_base_rate: bool) -> Markup:
    """Return the legend of the parts of a bar."""
    entries = [
        (
            element("rect", class_="bar", x=2, y=2, width=24, height=10),
            "loss after perfect recalibration (uncertainty − discrimination)",
        ),
        (element("rect", class_="gap over", x=2, y=1, width=24, height=12), "miscalibration"),
    ]
    if with_base_rate:
        entries.append((element("path", class_="diagonal", d="M14 0V14"), "score of the class frequencies"))
    return legend(*entries)
