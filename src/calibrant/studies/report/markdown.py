"""A report in Markdown, which a page of documentation can include."""

from calibrant.presentation import Section, as_markdown
from calibrant.presentation.markdown import escaped, grid
from calibrant.studies.pictures import DrawnPicture
from calibrant.studies.report.contents import ReportContents
from calibrant.studies.tables.options import NO_BREAK, ResultTable, TableCell

__all__ = ["report_markdown", "table_markdown"]


def report_markdown(contents: ReportContents, pictures_folder: str = "pictures") -> str:
    """Return a report with one heading of the first level; figures are linked by paths relative to it.

    It contains neither times of day nor folders of the machine, so that the same results give the same text.
    """
    parts = [f"# {escaped(contents.title)}", as_markdown(contents.run(), 2)]
    if contents.failures:
        parts.append(as_markdown(contents.what_failed(), 2))
    if contents.tables:
        parts.append("## Tables")
        parts += [f"{_heading(table)}\n\n{table_markdown(table).rstrip()}" for table in contents.tables]
    if contents.pictures:
        parts.append("## Pictures")
        parts += [_picture(picture, pictures_folder) for picture in contents.pictures]
    return "\n\n".join(parts) + "\n"


def _heading(shown: ResultTable | DrawnPicture) -> str:
    options = shown.options
    return as_markdown(Section(options.name, options.caption, (), options.source), 3)


def _picture(picture: DrawnPicture, folder: str) -> str:
    options = picture.options
    links = [
        f"![{escaped(options.caption)}]({folder}/{name}.svg)"
        for name, drawing in picture.drawings.items()
        if drawing is not None
    ]
    notes = [escaped(note) for note in (*picture.notes, options.note) if note]
    return "\n\n".join([_heading(picture), *links, *notes])


def table_markdown(table: ResultTable) -> str:
    """Return a table with the published numbers and the differences in lines below ours, and notes below the table.

    The best number of a row is bold, its rank is in parentheses, and brackets give the number of units if some are missing.
    """
    options = table.options
    notes = [escaped(note) for note in (*table.notes, options.note) if note]
    if not table.rows:
        return "\n".join([*notes, ""])
    beside = table.has_figures
    header = [*map(escaped, options.rows), *([""] if beside else []), *map(escaped, table.columns)]
    lines: list[list[str]] = []
    for row, cells, digits in table.all_rows():
        labels = list(map(escaped, row))
        ours = [_ours(cell, cell.text(digits, bool(options.spread))) for cell in cells]
        lines.append([*labels, *(["ours"] if beside else []), *ours])
        if any(cell.has_figure for cell in cells):
            blank = [""] * len(labels)
            lines.append([*blank, "paper", *(cell.paper_text(digits) for cell in cells)])
            lines.append([*blank, "difference", *(cell.difference_text(digits) for cell in cells)])
    n_words = len(options.rows) + beside
    numeric = [number >= n_words for number in range(len(header))]
    return "\n\n".join([grid(header, lines, numeric), *notes]) + "\n"


def _ours(cell: TableCell, text: str) -> str:
    parts = [f"**{text}**" if cell.best else text, *([f"({cell.rank_text})"] if cell.is_ranked else [])]
    missing = f" {escaped(cell.missing).replace(' ', NO_BREAK)}" if cell.missing else ""
    return NO_BREAK.join(parts) + missing
