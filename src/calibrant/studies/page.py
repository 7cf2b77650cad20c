"""A report as one HTML page that needs nothing from outside."""

from base64 import b64encode
from collections.abc import Sequence

from calibrant.presentation import Markup, element, joined, page
from calibrant.studies.pictures import DrawnPicture
from calibrant.studies.report_contents import ReportContents
from calibrant.studies.report_markdown import on_empty
from calibrant.studies.tables_text import (
    DASH,
    count_text,
    number_text,
    rank_text,
    rows_of,
    signed_text,
    value_text,
)
from calibrant.studies.tables_types import ResultTable, TableCell
from calibrant.wording import counted

__all__ = ["report_page"]

STYLE = """
.study td.number small { color: var(--soft); }
.study td.best > span { font-weight: 700; }
.study .which { color: var(--soft); }
.study .rank { font-weight: 400; color: var(--soft); font-size: 0.85em; margin-left: 0.4em; }
.study .missing { color: var(--bad); }
.study tfoot th, .study tfoot td { border-top: 2px solid var(--soft); }
.study figure { max-width: 56rem; margin: 0.75rem 0; }
.study figure img { display: block; max-width: 100%; height: auto; background: #ffffff; border-radius: 0.3rem; }
.study .table-box { max-height: none; }
.study tbody th, .study tfoot th { min-width: 0; }
.study tbody th bdi, .study tfoot th bdi { overflow-wrap: normal; }
"""


def report_page(contents: ReportContents) -> str:
    """Return a report as a page; its security policy lets in nothing from outside."""
    main = [_header(contents), _navigation(contents), _run(contents)]
    if contents.failures:
        main.append(_failures(contents))
    main.extend(_table(table) for table in contents.tables)
    main.extend(_picture(picture) for picture in contents.pictures)
    body = element("body", element("main", *main), class_="study")
    return page(contents.title, body, style=STYLE)


def _header(contents: ReportContents) -> Markup:
    parts = [element("p", "study", class_="kind"), element("h1", contents.title)]
    if contents.when:
        parts.append(element("p", f"Run {contents.when}", class_="subtitle"))
    return element("header", element("div", *parts))


def _navigation(contents: ReportContents) -> Markup:
    entries = [("run", "What was run")]
    if contents.failures:
        entries.append(("failures", "What failed"))
    entries.extend((f"table-{table.options.name}", table.options.caption) for table in contents.tables)
    entries.extend((f"picture-{one.options.name}", one.options.caption) for one in contents.pictures)
    links = [element("li", element("a", text, href=f"#{name}")) for name, text in entries]
    return element("nav", element("ul", *links), aria_label="Contents")


def _section(name: str, title: str, source: str, *content: str) -> Markup:
    heading = element("h2", title, *([element("small", f" {source}")] if source else []))
    return element("section", heading, *content, id=name)


def _run(contents: ReportContents) -> Markup:
    facts = [element("div", element("dt", name), element("dd", text)) for name, text in contents.facts]
    parts = [element("dl", *facts, class_="facts")]
    if contents.data_rows:
        parts.append(_simple_table(contents.data_header, contents.data_rows))
    if contents.absent:
        entries = [element("li", element("strong", name), f": {reason}") for name, reason in contents.absent]
        parts.extend([element("p", "Left out:"), element("ul", *entries)])
    if contents.empty:
        parts.append(element("p", on_empty(contents), class_="note"))
    return _section("run", "What was run", "", *parts)


def _simple_table(header: tuple[str, ...], rows: tuple[tuple[str, ...], ...], n_words: int = 1) -> Markup:
    heads = [
        element("th", name, scope="col", class_="number" if number >= n_words else None)
        for number, name in enumerate(header)
    ]
    lines = [
        element(
            "tr",
            element("th", element("bdi", row[0]), scope="row"),
            *(
                element("td", cell or Markup("&nbsp;"), class_="number" if number >= n_words else None)
                for number, cell in enumerate(row[1:], start=1)
            ),
        )
        for row in rows
    ]
    table = element("table", element("thead", element("tr", *heads)), element("tbody", *lines))
    return element("div", element("div", table, class_="table-box", tabindex=0), class_="table-block")


def _failures(contents: ReportContents) -> Markup:
    rows = tuple((f"{one.number} {one.status}", one.where, one.message) for one in contents.failures)
    parts = [_simple_table(("units", "of", "message"), rows, 3)]
    if contents.n_other_failures:
        parts.append(
            element("p", f"{counted(contents.n_other_failures, 'further unit')} failed for other reasons.")
        )
    return _section("failures", "What failed", "", *parts)


def _table(table: ResultTable) -> Markup:
    options = table.options
    parts: list[str] = []
    if table.rows:
        heads = [
            *(element("th", name, scope="col") for name in options.rows),
            *([element("th", Markup("&nbsp;"))] if table.has_figures else []),
            *(element("th", name, scope="col", class_="number") for name in table.columns),
        ]
        lines = [
            element(
                "tr",
                *_labels(labels),
                *_which(table, cells),
                *(_cell(cell, digits, bool(options.spread)) for cell in cells),
            )
            for labels, cells, digits in rows_of(table)
        ]
        body, foot = lines[: len(table.rows)], lines[len(table.rows) :]
        inside = [element("thead", element("tr", *heads)), element("tbody", *body)]
        if foot:
            inside.append(element("tfoot", *foot))
        box = element("div", element("table", *inside), class_="table-box", tabindex=0)
        parts.append(element("div", box, class_="table-block"))
        legend = _legend(table)
        if legend:
            parts.append(element("p", legend, class_="note"))
    notes = (*table.notes, options.note)
    parts.extend(element("p", note, class_="note") for note in notes if note)
    return _section(f"table-{options.name}", options.caption, options.source, *parts)


def _labels(labels: tuple[str, ...]) -> list[Markup]:
    return [
        element("th", element("bdi", label or " "), scope="row" if not number else None)
        for number, label in enumerate(labels)
    ]


def _which(table: ResultTable, cells: Sequence[TableCell]) -> list[Markup]:
    """Return a cell that says what stands where, if figures of a paper stand anywhere."""
    if not table.has_figures:
        return []
    beside = any(cell.paper == cell.paper for cell in cells)
    words = [element("small", word) for word in ("paper", "difference")] if beside else []
    return [element("td", element("span", "ours"), *words, class_="which")]


def _legend(table: ResultTable) -> str:
    words = ["Bold: the best of its row."] if any(cell.best for row in table.cells for cell in row) else []
    if any(cell.rank == cell.rank for row in table.cells for cell in row):
        words.append("Small figures beside: ranks.")
    if table.has_figures:
        words.append("Difference: ours less the paper's.")
    return " ".join(words)


def _cell(cell: TableCell, digits: int, with_spread: bool) -> Markup:
    parts: list[str] = [element("span", value_text(cell, digits, with_spread=with_spread))]
    if cell.rank == cell.rank:
        parts.append(element("span", rank_text(cell.rank), class_="rank"))
    missing = count_text(cell)
    if missing:
        parts.append(element("small", missing, class_="missing"))
    if cell.paper == cell.paper:
        gap = signed_text(cell.difference, digits) if cell.difference == cell.difference else DASH
        parts.append(element("small", number_text(cell.paper, digits)))
        parts.append(element("small", gap))
    return element("td", *parts, class_="number best" if cell.best else "number")


def _picture(picture: DrawnPicture) -> Markup:
    options = picture.options
    parts: list[str] = []
    for drawing in picture.drawings.values():
        if drawing is not None:
            source = f"data:image/svg+xml;base64,{b64encode(drawing).decode()}"
            parts.append(
                element("figure", Markup(f'<img src="{source}" alt="{_attribute(options.caption)}">'))
            )
    parts.extend(element("p", note, class_="note") for note in (*picture.notes, options.note) if note)
    return _section(f"picture-{options.name}", options.caption, options.source, *parts)


def _attribute(text: str) -> str:
    return joined(text).replace('"', "&quot;")
