"""Markdown form of an assessment: the sections of the HTML page, with tables instead of plots."""

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from calibrant.report.contents import Curve, ScoreRow
from calibrant.report.figures import NO_VALUE, difference_text, estimate_text, figure, interval_text, p_figure
from calibrant.report.plain import percent

if TYPE_CHECKING:
    from calibrant.report.assessment import Assessment

__all__ = ["escaped", "markdown_of"]

# Characters that could start markup, a table cell or an HTML tag; labels are untrusted.
SPECIAL = re.compile(r"([\\`*_\[\]#|~$]|^[+-](?= )|(?<=^\d)[.)](?= ))")
ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def escaped(text: str) -> str:
    r"""Escape a text for Markdown and put it on one line.

    >>> print(escaped("a|b <script>"))
    a\|b &lt;script&gt;
    """
    one_line = " ".join(text.split())
    without_tags = "".join(ENTITIES.get(character, character) for character in one_line)
    return SPECIAL.sub(r"\\\1", without_tags)


def markdown_of(assessment: "Assessment") -> str:
    """Return the complete report as Markdown."""
    sections = [
        f"# {escaped(assessment.title)}",
        _verdict(assessment),
        _recommendation(assessment),
        _scores("Scores", assessment.scores, "Before and after calibration, on held-out rows."),
        _scores(
            "Calibration errors",
            assessment.errors,
            "Lower bounds first; binned errors are biased upwards by noise.",
        ),
        _decompositions(assessment),
        _slopes(assessment),
        _tests(assessment),
        _classes(assessment),
        _reliability(assessment),
        _sensitivity(assessment),
        _learning(assessment),
        _pitfalls(assessment),
        _data(assessment),
        _repeatability(assessment),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _section(title: str, *parts: str) -> str:
    return "\n\n".join([f"## {title}", *(part for part in parts if part)])


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells are escaped here and nowhere else."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(escaped(cell) or " " for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def _paragraph(*sentences: str) -> str:
    return " ".join(escaped(sentence) for sentence in sentences if sentence)


def _verdict(assessment: "Assessment") -> str:
    found = assessment.verdict
    return _section(
        "Verdict",
        f"**{escaped(found.headline)}**",
        "\n".join(f"- {escaped(line)}" for line in found.sentences),
    )


def _recommendation(assessment: "Assessment") -> str:
    advice = assessment.recommendation
    lines = [*advice.sentences, advice.more_rows, advice.how]
    methods = [
        (
            row.name,
            figure(row.log_loss),
            difference_text(row.log_loss_difference),
            figure(row.brier_score),
            figure(row.accuracy),
            figure(row.confidence_ece),
            NO_VALUE if row.changed_decisions is None else percent(row.changed_decisions, 2),
            row.error or "; ".join(row.notes),
        )
        for row in advice.methods
    ]
    header = ("method", "log-loss", "difference", "Brier score", "accuracy", "ECE", "changed", "remarks")
    return _section(
        "What to do",
        f"**{escaped(advice.headline)}**",
        "\n".join(f"- {escaped(line)}" for line in lines if line),
        _paragraph(f"Differences to {advice.baseline}; intervals are not adjusted for the number of methods.")
        if methods
        else "",
        _table(header, methods) if methods else "",
    )


def _scores(title: str, scores: tuple[ScoreRow, ...], remark: str) -> str:
    if not scores:
        return ""
    rows = [
        (
            row.before.name,
            estimate_text(row.before),
            estimate_text(row.after),
            difference_text(row.difference),
            _with_notes(row),
        )
        for row in scores
    ]
    level = f"The confidence level of intervals is {100 * scores[0].before.level:g} %."
    return _section(
        title,
        _paragraph(remark, level),
        _table(("score", "before", "after", "difference", "definition"), rows),
    )


def _with_notes(row: ScoreRow) -> str:
    """Return the definition of a score, with the notes on its values before and after."""
    notes = {
        stage: one.note
        for stage, one in (("before", row.before), ("after", row.after))
        if one is not None and one.note
    }
    return "; ".join([row.before.definition, *(f"{stage}: {note}" for stage, note in notes.items())])


def _decompositions(assessment: "Assessment") -> str:
    if not assessment.decompositions:
        return ""
    rows = [
        (
            row.loss,
            row.stage,
            figure(row.score),
            figure(row.miscalibration),
            figure(row.discrimination),
            figure(row.uncertainty),
            estimate_text(row.removable),
            figure(row.refinement),
            row.definition,
        )
        for row in assessment.decompositions
    ]
    header = (
        "score",
        "stage",
        "value",
        "miscalibration",
        "discrimination",
        "uncertainty",
        "removable",
        "refinement",
        "definition",
    )
    return _section(
        "Decomposition",
        _paragraph("score = miscalibration - discrimination + uncertainty."),
        _table(header, rows),
    )


def _slopes(assessment: "Assessment") -> str:
    rows = [
        (
            one.name,
            figure(one.value),
            interval_text(one),
            one.definition if one.note is None else f"{one.definition}; {one.note}",
        )
        for one in assessment.slopes
    ]
    return _section(
        "Calibration in the large and slope", _table(("", "value", "interval", "definition"), rows)
    )


def _tests(assessment: "Assessment") -> str:
    rows = [
        (
            row.name,
            row.event,
            figure(row.statistic),
            p_figure(row.p_value),
            p_figure(row.adjusted_p_value),
            row.sentence,
        )
        for row in assessment.tests
    ]
    return _section("Tests", _table(("test", "event", "statistic", "p", "adjusted p", "remark"), rows))


def _classes(assessment: "Assessment") -> str:
    rows = [
        (
            row.label,
            figure(row.n_rows),
            percent(row.share),
            percent(row.mean_probability),
            estimate_text(row.in_the_large, signed=True),
            estimate_text(row.slope),
            figure(row.ece),
            figure(row.ece_noise),
            figure(row.lower_bound),
            p_figure(row.adjusted_p_value),
            "" if row.direction == "none" else row.direction,
            figure(row.after_ece),
        )
        for row in assessment.classes
    ]
    header = (
        "class",
        "rows",
        "frequency",
        "mean probability",
        "difference",
        "slope",
        "ECE",
        "ECE if calibrated",
        "lower bound",
        "adjusted p",
        "direction",
        "ECE after",
    )
    return _section("Classes", _table(header, rows))


def _reliability(assessment: "Assessment") -> str:
    parts = [_bins(curve) for curve in assessment.curves if curve.label is None][:2]
    return _section("Reliability", *parts) if parts else ""


def _bins(curve: Curve) -> str:
    rows = [
        (
            f"{figure(curve.edges[place])} to {figure(curve.edges[place + 1])}",
            str(count),
            figure(curve.mean_score[place]),
            figure(curve.mean_outcome[place]),
            f"{figure(curve.low[place])} to {figure(curve.high[place])}",
            f"{figure(curve.consistency_low[place])} to {figure(curve.consistency_high[place])}",
        )
        for place, count in enumerate(curve.count)
        if count
    ]
    header = ("bin", "rows", "mean probability", "frequency", "interval", "if calibrated")
    return f"### {escaped(curve.method)}\n\n{_paragraph(curve.definition + '.')}\n\n{_table(header, rows)}"


def _sensitivity(assessment: "Assessment") -> str:
    rows = [
        (
            numbers.method,
            str(bins),
            *(
                figure(column[place])
                for column in (numbers.equal_width, numbers.equal_mass, numbers.debiased, numbers.noise)
            ),
        )
        for numbers in assessment.bin_sensitivity
        for place, bins in enumerate(numbers.n_bins)
    ]
    if not rows:
        return ""
    header = ("method", "bins", "equal width", "equal mass", "debiased", "if calibrated")
    return _section("Number of bins", _table(header, rows))


def _learning(assessment: "Assessment") -> str:
    numbers = assessment.learning
    if numbers is None:
        return ""
    rows = [
        (
            str(size),
            figure(numbers.loss[place]),
            f"{figure(numbers.low[place])} to {figure(numbers.high[place])}",
        )
        for place, size in enumerate(numbers.sizes)
    ]
    without = (
        f"Log-loss of {numbers.method} on held-out rows; uncalibrated it is {figure(numbers.uncalibrated)}."
    )
    return _section(
        "Learning curve",
        _paragraph(numbers.sentence, without),
        _table(("size of the calibration set", "log-loss", "interval"), rows),
    )


def _pitfalls(assessment: "Assessment") -> str:
    lines = [
        f"- {'**Warning:** ' if one.severity == 'warning' else ''}{escaped(one.text)}"
        for one in assessment.pitfalls
    ]
    return _section("Pitfalls", "\n".join(lines)) if lines else ""


def _data(assessment: "Assessment") -> str:
    data = assessment.data
    facts = [
        ("rows", str(data.n_rows)),
        *([("rows of weight zero, dropped", str(data.n_left_out))] if data.n_left_out else []),
        ("classes", str(data.n_classes)),
        ("effective sample size", figure(data.effective_rows)),
        ("weights", "yes" if data.weighted else "no"),
        ("groups", "no" if data.n_groups is None else str(data.n_groups)),
        ("predictions", f"{data.space}, {data.float_type}"),
        ("classes that never occur", ", ".join(data.absent_classes) or "none"),
        ("probabilities of exactly zero", str(data.n_zeros)),
        ("rows whose true class had probability zero", str(data.n_refuted)),
        ("distinct confidences", str(data.n_distinct)),
        ("rows with the most frequent confidence", percent(data.largest_tie)),
        ("mean confidence", percent(data.mean_confidence)),
        ("accuracy", percent(data.accuracy)),
        ("held out", data.split),
    ]
    return _section("Data", _table(("", "value"), facts))


def _repeatability(assessment: "Assessment") -> str:
    found = assessment.repeatability
    facts = [*found.settings.items(), *found.versions.items()]
    facts += [(f"seconds for {part}", figure(taken)) for part, taken in found.seconds.items()]
    return _section("Settings and versions", _table(("", "value"), facts))
