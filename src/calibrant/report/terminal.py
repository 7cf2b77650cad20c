"""Summary of an assessment for a terminal of 80 columns."""

from math import inf, isinf
from textwrap import fill
from typing import TYPE_CHECKING

from calibrant.report.contents import Estimate
from calibrant.report.figures import NO_VALUE, figure

if TYPE_CHECKING:
    from calibrant.report.assessment import Assessment

__all__ = ["text_of"]

WIDTH = 80
NAME_WIDTH, NUMBER_WIDTH = 30, 9


def text_of(assessment: "Assessment") -> str:
    """Return the verdict, the recommendation, a small table and the warnings."""
    verdict, advice = assessment.verdict, assessment.recommendation
    parts = [
        f"{_wrapped(assessment.title)}\n{'=' * min(WIDTH, len(assessment.title))}",
        _wrapped(verdict.headline),
        "\n".join(_item(sentence) for sentence in verdict.sentences),
        _wrapped(advice.headline),
        "\n".join(_item(sentence) for sentence in (*advice.sentences, advice.more_rows) if sentence),
        _table(assessment),
    ]
    warnings = [pitfall.text for pitfall in assessment.pitfalls if pitfall.severity == "warning"]
    parts += [_item(f"Warning: {text}") for text in warnings]
    return "\n\n".join(part for part in parts if part)


def _wrapped(text: str) -> str:
    return fill(text, WIDTH)


def _item(text: str) -> str:
    return fill(text, WIDTH, initial_indent="- ", subsequent_indent="  ")


def _table(assessment: "Assessment") -> str:
    rows = (*assessment.scores, *assessment.errors)
    if not rows:
        return ""
    calibrated = any(row.after is not None for row in rows)
    heading = f"{'':{NAME_WIDTH}}{'before':>{NUMBER_WIDTH}}"
    lines = [f"{heading}{'after':>{NUMBER_WIDTH}}  difference" if calibrated else heading]
    for row in rows:
        name = row.before.name
        if len(name) >= NAME_WIDTH:  # put long names on a separate line
            lines.append(name)
            name = ""
        line = f"{name:{NAME_WIDTH}}{_fixed(row.before.value):>{NUMBER_WIDTH}}"
        if calibrated:
            after = NO_VALUE if row.after is None else _fixed(row.after.value)
            line += f"{after:>{NUMBER_WIDTH}}  {_difference(row.difference)}"
        lines.append(line.rstrip())
    if calibrated:
        level = f"{100 * rows[0].before.level:g} %"
        lines.append(f"Differences with {level} intervals, on held-out rows.")
    return "\n".join(lines)


def _fixed(value: float | None) -> str:
    return figure(value) if value is None or isinf(value) else f"{value:.4f}"


def _difference(estimate: Estimate | None) -> str:
    if estimate is None or estimate.value is None or isinf(estimate.value):
        return (
            ""
            if estimate is None
            else "infinitely lower"
            if estimate.value == -inf
            else figure(estimate.value)
        )
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:+.4f}"
    return f"{estimate.value:+.4f} ({estimate.low:+.4f} to {estimate.high:+.4f})"
