"""HTML: fragments of documents, and self-contained pages that load nothing from outside."""

from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from importlib.resources import files
from itertools import groupby

from calibrant.presentation.document import (
    Block,
    Bullets,
    Code,
    Document,
    Facts,
    Figure,
    OnPage,
    Paragraph,
    Section,
    SideBySide,
)
from calibrant.presentation.markup import Markup, element, joined
from calibrant.presentation.table import Cell, Column, Table
from calibrant.presentation.values import TYPOGRAPHIC

__all__ = ["as_html", "as_html_sections", "page"]

LONG_NAME = 40
EMPTY_NAME = "(empty name)"


def as_html(content: Document | Section | Block) -> Markup:
    """Return a document, a section or a block as HTML; all text is escaped."""
    match content:
        case Document():
            return joined(element("h1", content.title), as_html_sections(content.sections))
        case Section():
            return _section(content)
        case Paragraph():
            return element("p", *_words(content), class_=content.role or None)
        case Bullets():
            items = (element("li", *_words(item), class_=item.role or None) for item in content.items)
            return element("ul", *items, class_=content.role or None)
        case Code():
            return _code(content)
        case Facts():
            return _facts(content.entries, content.title)
        case Table():
            return _table(content)
        case Figure():
            return _figure(content)
        case SideBySide():
            return element("div", *map(as_html, content.blocks), class_="pair")
        case OnPage():
            return content.markup


def as_html_sections(sections: Iterable[Section]) -> Markup:
    """Return sections as HTML; neighbours of half width are beside each other on a wide page."""
    parts = []
    for is_half, group in groupby(sections, key=lambda section: section.is_half):
        inside = joined(*map(as_html, group))
        parts.append(element("div", inside, class_="side-by-side") if is_half else inside)
    return joined(*parts)


def page(title: str, body: Markup, *, style: str = "", script: str = "", generator: str = "calibrant") -> str:
    """Return a complete page; its content security policy blocks everything that is not part of it.

    ``body`` is that element, ``style`` has further rules after the common style sheet, ``generator`` is the program.
    """
    rules = files("calibrant.presentation").joinpath("style.css").read_text(encoding="utf-8") + style
    allowed = f" script-src '{_digest(script)}';" if script else ""
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_digest(rules)}';{allowed} base-uri 'none'; "
        "form-action 'none'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content=generator),
        element("title", title),
        Markup(f"<style>{rules}</style>"),
    )
    end = f"<script>{script}</script>" if script else ""
    opened = body.removesuffix("</body>")
    return f'<!DOCTYPE html>\n<html lang="en">\n{head}\n{opened}{end}</body>\n</html>\n'


def _digest(text: str) -> str:
    """Return the hash of an inline style or script for the content security policy."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _section(section: Section) -> Markup:
    source = [element("small", f" {section.source}")] if section.source else []
    heading = element("h2", section.title, *source, id=f"{section.name}-heading")
    return element(
        "section",
        heading,
        *map(as_html, section.blocks),
        id=section.name,
        aria_labelledby=f"{section.name}-heading",
        **section.attributes,
    )


def _words(paragraph: Paragraph) -> list[str]:
    # A number and its percent sign stay on one line.
    text = paragraph.text.replace(" %", f"{TYPOGRAPHIC.space}%")
    return [element("strong", paragraph.opening), f" {text}"] if paragraph.opening else [text]


def _code(code: Code) -> Markup:
    """Return lines of code with a button that copies them."""
    title = element("p", code.title, class_="code-title")
    button = element(
        "button", "Copy", type="button", class_="copy controls", aria_label=f"Copy: {code.title}", hidden=True
    )
    text = element("pre", element("code", code.text), tabindex=0)
    return element("div", element("div", title, button, class_="code-head"), text, class_="code")


def _facts(entries: Iterable[tuple[str, str]], title: str = "", class_: str | None = "facts") -> Markup:
    lines = (element("div", element("dt", term), element("dd", text)) for term, text in entries)
    listed = element("dl", *lines, class_=class_)
    return element("div", element("h3", title), listed) if title else listed


def _figure(figure: Figure) -> Markup:
    note = [" ", element("span", figure.note)] if figure.note else []
    drawn = element("figure", element("figcaption", element("strong", figure.caption), *note), figure.picture)
    behind = []
    if figure.table is not None:
        definition = [element("p", figure.definition, class_="note")] if figure.definition else []
        summary = element("summary", "Data of this figure")
        behind = [element("details", summary, *definition, _table(figure.table), class_="behind")]
    kinds = f"panel {figure.role}".strip()
    return element("div", drawn, *behind, id=figure.name or None, class_=kinds, **figure.attributes)


def _table(table: Table) -> Markup:
    caption = f"table-{table.name}-caption"
    body = element(
        "table",
        *([element("caption", element("span", table.caption), id=caption)] if table.caption else []),
        element("thead", element("tr", *map(_head, table.columns))),
        element("tbody", *(_row(table, index) for index in range(len(table.rows)))),
        *(
            [element("tfoot", *(_row(table, len(table.rows) + index) for index in range(len(table.footer))))]
            if table.footer
            else []
        ),
        id=f"table-{table.name}",
    )
    label = {"aria_labelledby": caption} if table.caption else {}
    box = element("div", body, class_="table-box", role="group", tabindex=0, **label)
    limit = []
    if table.limit:
        limit = [
            element(
                "p",
                f"Only the first {table.limit} of {len(table.rows)} rows are printed; the page on screen and the JSON file have "
                "all rows.",
                class_="print-note",
            )
        ]
    notes = [element("p", note, class_="note") for note in table.notes]
    definitions = []
    if table.definitions:
        inside = _facts(table.definitions, class_=None)
        definitions = [element("details", element("summary", "Definitions"), inside, class_="definitions")]
    kinds = [
        "table-block",
        *(["tall"] if table.limit else []),
        *(["long-names"] if _has_long_names(table) else []),
    ]
    return element(
        "div",
        *_controls(table),
        box,
        *limit,
        *notes,
        *definitions,
        class_=" ".join(kinds),
        data_sortable="" if table.is_sortable else None,
        data_limit=table.limit,
    )


def _has_long_names(table: Table) -> bool:
    """Return whether the row headers need a wide column."""
    return any(len(row[0].text(TYPOGRAPHIC)) > LONG_NAME for row in table.rows)


def _controls(table: Table) -> list[Markup]:
    if not (table.is_filterable or table.limit):
        return []
    parts = []
    if table.is_filterable:
        name = f"table-{table.name}-filter"
        parts.append(element("label", "Filter by name", for_=name))
        parts.append(
            element("input", type="search", id=name, class_="filter", autocomplete="off", spellcheck="false")
        )
    if table.limit:
        text = f"Show all {len(table.rows)}"
        parts.append(element("button", text, type="button", class_="show-all", aria_expanded="false"))
    parts.append(element("output", class_="filter-count", aria_live="polite"))
    return [element("div", *parts, class_="controls", hidden=True)]


def _head(column: Column) -> Markup:
    hint = [element("small", column.hint)] if column.hint else []
    # Words with hyphens are not broken within a narrow column.
    title = element("span", column.title.replace("-", "\N{NON-BREAKING HYPHEN}"))
    return element("th", title, *hint, scope="col", class_="number" if column.is_numeric else None)


def _row(table: Table, index: int) -> Markup:
    cells = (
        _cell(cell, column, place < table.n_headers, table.is_sortable, is_first=place == 0)
        for place, (cell, column) in enumerate(zip(table.lines[index], table.columns, strict=True))
    )
    kind = None
    if index == table.highlighted:
        kind = "highlighted"
    elif table.limit and table.limit <= index < len(table.rows):
        kind = "later"
    return element("tr", *cells, class_=kind)


def _cell(cell: Cell, column: Column, is_header: bool, is_sortable: bool, is_first: bool) -> Markup:
    text = cell.text(TYPOGRAPHIC)
    content: list[str] = [element("bdi", text or EMPTY_NAME) if is_header else text]
    content += [element("small", detail) for detail in cell.detail_texts(TYPOGRAPHIC)]
    if cell.tag is not None:
        text = f"{cell.tag.symbol} {cell.tag.text}".strip()
        content.append(element("span", text, class_=f"tag {cell.tag.name}"))
    kinds = [*(["number"] if column.is_numeric else []), *(["best"] if cell.is_best else [])]
    value = f"{cell.number:.6g}" if is_sortable and cell.number is not None else None
    return element(
        "th" if is_header else "td",
        *content,
        scope="row" if is_header else None,
        # Narrow screens show the heading of the column before the cell.
        data_column=None if is_first else column.title,
        class_=" ".join(kinds) or None,
        data_value=value,
    )
