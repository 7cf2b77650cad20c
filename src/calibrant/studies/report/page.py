"""A report as one HTML page that loads nothing from outside."""

from base64 import b64encode

from calibrant.presentation import Markup, OnPage, Paragraph, Section, as_html, element, page
from calibrant.studies.pictures import DrawnPicture
from calibrant.studies.report.contents import ReportContents
from calibrant.studies.tables.options import ResultTable

__all__ = ["report_page"]

STYLE = """
.study tfoot th, .study tfoot td { border-top: 2px solid var(--soft); }
.study figure { max-width: 56rem; margin: 0.75rem 0; }
.study figure img { display: block; max-width: 100%; height: auto; background: #ffffff; border-radius: 0.3rem; }
.study .table-box { max-height: none; }
.study tbody th, .study tfoot th { min-width: 0; }
.study tbody th bdi, .study tfoot th bdi { overflow-wrap: normal; }
"""


def report_page(contents: ReportContents) -> str:
    """Return a report as a page with a list of its sections."""
    sections = [
        contents.run(),
        *([contents.what_failed()] if contents.failures else []),
        *map(_table, contents.tables),
        *map(_picture, contents.pictures),
    ]
    links = [element("li", element("a", each.title, href=f"#{each.name}")) for each in sections]
    title = [element("p", "study", class_="kind"), element("h1", contents.title)]
    if contents.when:
        title.append(element("p", f"Run {contents.when}", class_="subtitle"))
    main = element(
        "main",
        element("header", element("div", *title)),
        element("nav", element("ul", *links), aria_label="Contents"),
        *map(as_html, sections),
    )
    return page(contents.title, element("body", main, class_="study"), style=STYLE)


def _table(table: ResultTable) -> Section:
    options = table.options
    return Section(f"results-{options.name}", options.caption, (table.presented(),), options.source)


def _picture(picture: DrawnPicture) -> Section:
    options = picture.options
    drawings = [drawing for drawing in picture.drawings.values() if drawing is not None]
    blocks = [OnPage(element("figure", _image(drawing, options.caption))) for drawing in drawings]
    notes = [Paragraph(note, "note") for note in (*picture.notes, options.note) if note]
    return Section(f"picture-{options.name}", options.caption, (*blocks, *notes), options.source)


def _image(drawing: bytes, caption: str) -> Markup:
    return element("img", src=f"data:image/svg+xml;base64,{b64encode(drawing).decode()}", alt=caption)
