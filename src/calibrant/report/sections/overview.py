"""Sections "Verdict" and "What to do": conclusions in words, with key figures."""

import shlex
from typing import NamedTuple

from calibrant import registry
from calibrant.presentation.document import Bullets, Code, OnPage, Paragraph, Section
from calibrant.presentation.html import as_html
from calibrant.presentation.markup import Markup, element, joined
from calibrant.presentation.sentences import class_named, counted, sentence
from calibrant.presentation.values import (
    TYPOGRAPHIC,
    Range,
    count,
    has_value,
    number,
    p_value,
    percent,
    points,
)
from calibrant.report.contents import Estimate, Origin, Recommendation, Verdict
from calibrant.report.sections import Assessment, section_at
from calibrant.report.sections.scores import metric_title

__all__ = ["lines_to_copy"]

STATUS = {
    "calibrated": "Calibrated",
    "miscalibrated": "Not calibrated",
    "unclear": "Unclear",
    "too-few-events": "Too few events to tell",
}
ICONS = {"calibrated": "✓", "miscalibrated": "✗"}


class _KeyFigure(NamedTuple):
    name: str
    text: str
    detail: str = ""


@section_at(10)
def verdict_section(assessment: Assessment) -> Section:
    """Return the section with the verdict, its evidence and key figures."""
    found = assessment.verdict
    status, headline = _banner(found)
    words = element("div", element("p", status, class_="status"), as_html(Paragraph(headline, "headline")))
    icon = element("span", ICONS.get(found.status, "?"), class_="icon", aria_hidden="true")
    page = joined(
        element("div", icon, words, class_=f"banner {found.status}"),
        *(as_html(Paragraph(text)) for text in found.sentences),
        _list(_key_figures(assessment)),
    )
    return Section("verdict", "Verdict", (OnPage(page, _in_words(found.headline, *found.sentences)),))


@section_at(20)
def recommendation_section(assessment: Assessment) -> Section:
    """Return the section with the recommendation, its gain and its side effects."""
    found = assessment.recommendation
    figures = _recommended_figures(found)
    parts = [
        as_html(Paragraph(found.headline, "headline")),
        *(as_html(Paragraph(text)) for text in found.sentences),
    ]
    if figures and found.action == "keep":
        parts.append(element("p", "Effect of the best method tried:"))
    parts += [_list(figures)] if figures else []
    code = lines_to_copy(assessment)
    parts += [element("div", *map(as_html, code), class_="lines-to-copy")] if code else []
    if found.more_rows:
        parts.append(as_html(Paragraph(found.more_rows, opening="More calibration data?")))
    parts += [as_html(Paragraph(found.how, "note"))] if found.how else []
    n_warnings = sum(pitfall.severity == "warning" for pitfall in assessment.pitfalls)
    if n_warnings:
        link = element("a", counted(n_warnings, "warning"), href="#pitfalls")
        sign = element("span", "⚠", aria_hidden="true")
        before = " to read before you rely on these numbers."
        parts.append(element("p", sign, " ", link, before, class_="warned"))
    otherwise = _in_words(found.headline, *found.sentences, found.more_rows, found.how)
    return Section("recommendation", "What to do", (OnPage(joined(*parts), (*otherwise, *code)),))


def _in_words(headline: str, *sentences: str) -> tuple[Paragraph, Bullets]:
    lines = tuple(Paragraph(text) for text in sentences if text)
    return Paragraph(headline, "headline"), Bullets(lines)


def _banner(verdict: Verdict) -> tuple[str, str]:
    """Return the status in a few words, and the headline without these words."""
    status, headline = STATUS[verdict.status], verdict.headline
    if verdict.status == "too-few-events":
        status, _, headline = headline.partition(":")
        headline = sentence(headline)
    elif headline.lower().startswith(f"{status.lower()}:"):
        headline = sentence(headline[len(status) + 1 :])
    elif verdict.direction != "none":
        status = f"{status}: {verdict.direction}"
    return status, headline


def _list(figures: list[_KeyFigure]) -> Markup:
    items = []
    for figure in figures:
        detail = [" ", element("small", figure.detail)] if figure.detail else []
        name = element("span", figure.name, class_="name")
        items.append(element("li", name, " ", element("strong", figure.text), *detail))
    return element("ul", *items, class_="key-figures")


def _key_figures(assessment: Assessment) -> list[_KeyFigure]:
    """Return predicted and observed rates, the p-value and the smallest detectable error."""
    verdict, events = assessment.verdict, assessment.verdict.events
    p = p_value(verdict.p_value, style=TYPOGRAPHIC)
    figures = [
        *_predicted_and_observed(assessment),
        _KeyFigure("p-value", p, "probability of such deviations if calibrated"),
    ]
    if events is not None:
        factors = (events.factor_too_high, events.factor_too_low)
        text = " / ".join(TYPOGRAPHIC.missing if factor is None else f"{factor:.2g} ×" for factor in factors)
        detail = "too high / too low, detected with a power of 80 %"
        figures.append(_KeyFigure("Smallest detectable factor", text, detail))
    elif has_value(verdict.smallest_detectable):
        text = f"{points(verdict.smallest_detectable, signed=False, style=TYPOGRAPHIC)} points"
        detail = "detected with a power of 80 % on these rows"
        figures.append(_KeyFigure("Smallest detectable error", text, detail))
    return figures


def _predicted_and_observed(assessment: Assessment) -> list[_KeyFigure]:
    """Return the rates of the second of two classes, or confidence and accuracy; with counts for rare events."""

    def rate(value: float) -> str:
        return percent(value, style=TYPOGRAPHIC)

    data, events = assessment.data, assessment.verdict.events
    expected = "" if events is None else f", {number(events.expected, 2, style=TYPOGRAPHIC)} {events.name}"
    observed = "" if events is None else f", {count(events.observed)} {events.name}"
    row = next((row for row in assessment.classes if row.label == data.classes[1]), None)
    if data.n_classes != 2 or row is None:
        return [
            _KeyFigure("Mean confidence", rate(data.mean_confidence), f"predicted accuracy{expected}"),
            _KeyFigure("Accuracy", rate(data.accuracy), f"observed{observed}"),
        ]
    name = class_named(row.label)
    return [
        _KeyFigure("Predicted rate", rate(row.mean_probability), f"mean probability of {name}{expected}"),
        _KeyFigure("Observed rate", rate(row.share), f"frequency of {name}{observed}"),
    ]


def _recommended_figures(recommendation: Recommendation) -> list[_KeyFigure]:
    """Return the gain and the side effects of the recommendation."""
    figures = []
    gain = recommendation.gain
    if gain is not None and gain.value is not None:
        share = recommendation.gain_share
        relative = f"; {percent(share, style=TYPOGRAPHIC)} of the log-loss" if has_value(share) else ""
        adjusted = f", {gain.note}" if gain.note else ""
        detail = f"{gain.interval(signed=True).text(TYPOGRAPHIC)}{adjusted}{relative}"
        text = number(gain.value, signed=True, style=TYPOGRAPHIC)
        figures.append(_KeyFigure(metric_title(gain.name), text, detail))
    for name, change in (
        ("Change of accuracy", recommendation.accuracy_change),
        ("Change of mean confidence", recommendation.sharpness_change),
    ):
        if change is not None and change.value is not None:
            figures.append(_change(name, change))
    if has_value(recommendation.changed_decisions):
        changed = percent(recommendation.changed_decisions, style=TYPOGRAPHIC)
        figures.append(_KeyFigure("Changed decisions", changed, "rows whose predicted class differs"))
    return figures


def _change(name: str, change: Estimate) -> _KeyFigure:
    interval = Range(change.low, change.high, "points", signed=True).text(TYPOGRAPHIC)
    return _KeyFigure(name, f"{points(change.value, style=TYPOGRAPHIC)} points", interval)


SWITCHES = ("normalise", "drop-missing")
SIGNS = ("separator", "decimal")
WIDTH = 76


def lines_to_copy(assessment: Assessment) -> tuple[Code, ...]:
    """Return the lines that fit the recommended calibrator to these rows and apply it; none if there is no name for it."""
    advice = assessment.recommendation
    known = registry.calibrators()
    if advice.action != "calibrate" or not all(part in known for part in advice.method.split("+")):
        return ()
    origin = assessment.origin
    if origin is None or not origin.file:
        return (Code(_in_memory(advice.method, assessment.data.space), "In Python"),)
    return (
        Code(_commands(advice.method, origin), "On the command line"),
        Code(_from_file(advice.method, origin), "In Python"),
    )


def _commands(method: str, origin: Origin) -> str:
    options = [
        word
        for name, value in origin.options.items()
        if name != "group" or method == "auto"
        for word in ((f"--{name}", value) if value else (f"--{name}",))
    ]
    signs = [word for name in SIGNS if name in origin.options for word in (f"--{name}", origin.options[name])]
    fit = ["calibrant", "fit", origin.file, *options, "--method", method, "-o", "calibrator.npz"]
    apply = ["calibrant", "apply", "NEW_FILE", "--calibrator", "calibrator.npz", "-o", "OUTPUT_FILE", *signs]
    return f"{_in_lines(fit)}\n{_in_lines(apply)}"


def _in_lines(words: list[str]) -> str:
    r"""Return a command line, continued by backslashes.

    >>> print(_in_lines(["calibrant", "fit", "a file.csv", "--columns", "p_" + 50 * "x" + "*"]))
    calibrant fit 'a file.csv' \
      --columns 'p_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx*'
    """
    lines, line = [], ""
    for position, word in enumerate(words):
        # An option and its value stay together.
        piece = shlex.quote(word)
        if word.startswith("-") and position + 1 < len(words) and not words[position + 1].startswith("-"):
            piece = f"{piece} {shlex.quote(words[position + 1])}"
        elif position and words[position - 1].startswith("-") and not word.startswith("-"):
            continue
        if line and len(line) + len(piece) + 3 > WIDTH:
            lines.append(f"{line} \\")
            line = f"  {piece}"
        else:
            line = f"{line} {piece}" if line else piece
    return "\n".join([*lines, line])


def _from_file(method: str, origin: Origin) -> str:
    arguments = [f"{name}={value!r}" for name, value in origin.options.items() if value and name not in SIGNS]
    arguments += [f"{name.replace('-', '_')}=True" for name in SWITCHES if name in origin.options]
    imported = "read_predictions"
    if any(name in origin.options for name in SIGNS):
        separator, decimal = (origin.options.get(name) for name in SIGNS)
        arguments.append(f"dialect=Dialect.of({separator!r}, {decimal!r})")
        imported = "Dialect, read_predictions"
    weights = ", rows.weights" if "weight" in origin.options else ""
    lines = [
        "from calibrant import registry",
        f"from calibrant.tables import {imported}",
        "",
        f"rows = read_predictions({', '.join([repr(origin.file), *arguments])})",
        f"calibrator = registry.make({method!r})",
        f"calibrator.fit(rows.predictions, rows.labels{weights})",
        'calibrator.save("calibrator.npz")',
    ]
    return "\n".join(lines)


def _in_memory(method: str, space: str) -> str:
    """Return lines for arrays, with names that the reader replaces."""
    given = f"Predictions.from_{space}"
    lines = [
        "from calibrant import Predictions, registry",
        "",
        f"calibrator = registry.make({method!r})",
        f"calibrator.fit({given}(y_scores), y_true)",
        f"probabilities = calibrator.predict_proba({given}(new_scores))",
        'calibrator.save("calibrator.npz")',
    ]
    return "\n".join(lines)
