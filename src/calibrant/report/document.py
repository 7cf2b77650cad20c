"""The report as a document: its sections in their order, as an HTML page, as Markdown and as text for terminals."""

import html
import webbrowser
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from tempfile import mkdtemp

from calibrant.errors import CalibrationWarning
from calibrant.export.json_file import interpreter_source
from calibrant.notices import warn_user
from calibrant.presentation.document import Bullets, Document, Paragraph
from calibrant.presentation.html import as_html_sections, page
from calibrant.presentation.markdown import as_markdown
from calibrant.presentation.markup import Markup, element
from calibrant.presentation.text import as_text, table_lines
from calibrant.presentation.values import PLAIN, Range, count, decimals
from calibrant.report.contents import Estimate
from calibrant.report.sections import Assessment, ReportSection
from calibrant.report.sections import sections as all_sections
from calibrant.report.sections.changes import changes_section
from calibrant.report.sections.overview import lines_to_copy

__all__ = [
    "SECTIONS",
    "ReportSection",
    "framed",
    "opened_page",
    "report_markdown",
    "report_page",
    "report_text",
]

SECTIONS: tuple[ReportSection, ...] = all_sections()
"""All sections in their order."""

# Patterns of the gaps in reliability diagrams.
HATCHES = (
    '<svg class="patterns" width="0" height="0" aria-hidden="true" focusable="false"><defs>'
    '<pattern id="hatch-over" patternUnits="userSpaceOnUse" width="6" height="6" patternTransform="rotate(45)">'
    '<rect class="over-ground" width="6" height="6"/><rect class="over-line" width="1.6" height="6"/></pattern>'
    '<pattern id="hatch-under" patternUnits="userSpaceOnUse" width="6" height="6" patternTransform="rotate(-45)">'
    '<rect class="under-ground" width="6" height="6"/><rect class="under-line" width="1.6" height="6"/></pattern>'
    "</defs></svg>"
)


def report_document(
    assessment: Assessment,
    sections: Sequence[ReportSection] | None = None,
    baseline: Assessment | None = None,
) -> Document:
    """Return the title and the sections of an assessment that have anything to show; the default is all sections.

    The changes since an earlier assessment follow the recommendation.
    """
    made = [section(assessment) for section in (SECTIONS if sections is None else sections)]
    if baseline is not None:
        made.insert(2, changes_section(assessment, baseline))
    return Document(assessment.title, tuple(section for section in made if section is not None))


def report_markdown(
    assessment: Assessment,
    sections: Sequence[ReportSection] | None = None,
    baseline: Assessment | None = None,
) -> str:
    """Return the report as Markdown, with tables in place of figures."""
    return as_markdown(report_document(assessment, sections, baseline))


def report_page(
    assessment: Assessment,
    sections: Sequence[ReportSection] | None = None,
    baseline: Assessment | None = None,
) -> str:
    """Return the report as one self-contained HTML page.

    The content security policy of the page blocks everything else, even a script in the name of a class.
    """
    document = report_document(assessment, sections, baseline)
    version = assessment.repeatability.versions.get("calibrant", "")
    links = (
        element("li", element("a", section.title, href=f"#{section.name}")) for section in document.sections
    )
    main = element("main", as_html_sections(document.sections), id="main", tabindex=-1)
    body = element(
        "body",
        element("a", "Skip to the verdict", class_="skip", href="#main"),
        Markup(HATCHES),
        _header(assessment),
        element(
            "div", element("nav", element("ul", *links), aria_label="Contents"), main, class_="with-contents"
        ),
        element("footer", element("p", f"Made with calibrant {version}.")),
        element("div", id="tooltip", role="tooltip", hidden=True),
    )
    script = files("calibrant.report").joinpath("script.js").read_text(encoding="utf-8")
    if any(section.name == "example" for section in document.sections):
        script = interpreter_source() + script
    return page(
        f"{assessment.title}: calibration report", body, script=script, generator=f"calibrant {version}"
    )


def _header(assessment: Assessment) -> Markup:
    data = assessment.data
    date = "" if assessment.origin is None else f", {assessment.origin.date}"
    rows = (
        f"{count(data.n_rows)} {'row' if data.n_rows == 1 else 'rows'}, {count(data.n_classes)} classes{date}"
    )
    theme = element("button", "Dark colours", type="button", id="theme", class_="controls", hidden=True)
    words = element(
        "div",
        element("p", "Calibration report", class_="kind"),
        element("h1", assessment.title),
        element("p", rows, class_="subtitle"),
    )
    return element("header", words, theme)


def report_text(assessment: Assessment, width: int = 80) -> str:
    """Return the verdict, the recommendation, a table of scores and the warnings for a terminal."""
    verdict, advice = assessment.verdict, assessment.recommendation
    reasons = tuple(Paragraph(text) for text in (*advice.sentences, advice.more_rows) if text)
    warnings = [pitfall.text for pitfall in assessment.pitfalls if pitfall.severity == "warning"]
    parts = [
        as_text(Document(assessment.title, ()), width).rstrip(),
        as_text(Paragraph(verdict.headline), width),
        as_text(Bullets(tuple(map(Paragraph, verdict.sentences))), width),
        as_text(Paragraph(advice.headline), width),
        as_text(Bullets(reasons), width),
        *(as_text(code, width) for code in lines_to_copy(assessment)[:-1]),
        _summary_table(assessment, width),
        *(as_text(Bullets((Paragraph(text, opening="Warning:"),)), width) for text in warnings),
    ]
    return "\n\n".join(part for part in parts if part)


def _summary_table(assessment: Assessment, width: int) -> str:
    rows = (*assessment.scores, *assessment.errors)
    if not rows:
        return ""
    is_calibrated = any(row.after is not None for row in rows)
    header = ["", "before", *(["after", "difference"] if is_calibrated else [])]
    cells = []
    for row in rows:
        line = [row.before.name, _four_decimals(row.before)]
        if is_calibrated:
            line += ["-" if row.after is None else _four_decimals(row.after), _difference(row.difference)]
        cells.append(line)
    lines = table_lines(header, cells, [False, True, True, False][: len(header)], width)
    if is_calibrated:
        level = f"{100 * rows[0].before.level:g} %"
        lines.append(f"Differences with {level} intervals, on held-out rows.")
    return "\n".join(lines)


def _four_decimals(estimate: Estimate) -> str:
    return decimals(estimate.value)


def _difference(estimate: Estimate | None) -> str:
    if estimate is None:
        return ""
    interval = Range(estimate.low, estimate.high, "decimals", signed=True).text(PLAIN)
    value = decimals(estimate.value, signed=True)
    return f"{value} ({interval})" if interval else value


def opened_page(page: str) -> Path:
    """Write a page to a temporary file, open it in the browser, and return its path."""
    path = Path(mkdtemp(prefix="calibrant-"), "report.html")
    path.write_text(page, encoding="utf-8")
    if not webbrowser.open(path.as_uri()):
        warn_user(f"no browser was found; open {path} yourself.", CalibrationWarning)
    return path


def framed(page: str, title: str) -> str:
    """Return a page in a frame, for notebooks."""
    return (
        f'<iframe srcdoc="{html.escape(page, quote=True)}" title="{html.escape(title, quote=True)}" '
        'style="width: 100%; height: 80vh; border: 0"></iframe>'
    )
