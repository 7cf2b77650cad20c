"""A report in Markdown, which a page of documentation can include."""

from calibrant.studies.markdown import escaped, grid, table_markdown
from calibrant.studies.pictures import DrawnPicture
from calibrant.studies.report_contents import ReportContents
from calibrant.studies.tables_types import ResultTable
from calibrant.wording import counted

__all__ = ["on_empty", "report_markdown"]


def report_markdown(contents: ReportContents, pictures_folder: str = "pictures") -> str:
    """Return a report; pictures are linked by paths relative to it.

    It begins with one heading of the first level. No time and no folder of the machine is in it, so that the same results
    give the same text.
    """
    parts = [f"# {escaped(contents.title)}\n", "## What was run\n"]
    parts.append("".join(f"- **{escaped(name)}**: {escaped(text)}\n" for name, text in contents.facts))
    if contents.data_rows:
        rows = [tuple(map(escaped, row)) for row in contents.data_rows]
        parts.append(grid(contents.data_header, rows))
    if contents.absent:
        parts.append("Left out:\n")
        parts.append("".join(f"- {escaped(name)}: {escaped(reason)}\n" for name, reason in contents.absent))
    if contents.empty:
        parts.append(f"{escaped(on_empty(contents))}\n")
    if contents.failures:
        parts.append(_failures(contents))
    if contents.tables:
        parts.append("## Tables\n")
        parts.extend(_table(table) for table in contents.tables)
    if contents.pictures:
        parts.append("## Pictures\n")
        parts.extend(_picture(picture, pictures_folder) for picture in contents.pictures)
    return "\n".join(parts)


def on_empty(contents: ReportContents) -> str:
    """Return a sentence on what cannot be shown, since nothing that was to be run belongs to it."""
    return f"Not shown, since nothing that was to be run belongs to it: {'; '.join(contents.empty)}."


def _failures(contents: ReportContents) -> str:
    rows = [
        (str(failure.number), failure.status, escaped(failure.where), escaped(failure.message))
        for failure in contents.failures
    ]
    text = "## What failed\n\n" + grid(("units", "how", "of", "message"), rows, 4)
    if contents.n_other_failures:
        text += f"\n{counted(contents.n_other_failures, 'further unit')} failed for other reasons.\n"
    return text


def _heading(caption: str, source: str) -> str:
    return f"### {escaped(caption)}{f' ({escaped(source)})' if source else ''}\n"


def _table(table: ResultTable) -> str:
    options = table.options
    return f"{_heading(options.caption, options.source)}\n{table_markdown(table)}"


def _picture(picture: DrawnPicture, folder: str) -> str:
    options = picture.options
    lines = [_heading(options.caption, options.source)]
    for name, drawing in picture.drawings.items():
        if drawing is not None:
            lines.append(f"![{escaped(options.caption)}]({folder}/{name}.svg)\n")
    lines.extend(f"{escaped(note)}\n" for note in (*picture.notes, options.note) if note)
    return "\n".join(lines)
