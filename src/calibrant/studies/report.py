"""Report of a study: what was run, what failed, tables and figures, as CSV, LaTeX, Markdown and HTML."""

import os
import re
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from calibrant.errors import ParameterError
from calibrant.persistence.replacing import replacing
from calibrant.presentation import (
    Block,
    Bullets,
    Cell,
    Column,
    Facts,
    Markup,
    OnPage,
    Paragraph,
    Section,
    Table,
    as_html,
    as_latex,
    as_markdown,
    counted,
    duration,
    element,
    page,
)
from calibrant.presentation.markdown import escaped, grid
from calibrant.studies.execution import versions
from calibrant.studies.pictures import DrawnPicture, draw_picture, has_units, pictures_of_predictions
from calibrant.studies.pictures.kinds import Built
from calibrant.studies.pictures.options import PictureOptions
from calibrant.studies.results import (
    DONE,
    FAILED,
    OPEN,
    SPLIT_LABELS,
    TOO_SLOW,
    Line,
    Results,
    columns_text,
    label_text,
)
from calibrant.studies.shown_checks import check_shown
from calibrant.studies.tables import make_table
from calibrant.studies.tables.options import NO_BREAK, ResultTable, TableCell

__all__ = [
    "Failure",
    "ReportContents",
    "contents_of",
    "contents_of_failures",
    "report_markdown",
    "report_page",
    "table_markdown",
    "write_report",
]

MOST_VALUES = 4
MOST_FAILURES = 40
LONGEST_MESSAGE = 300
ABSENT = re.compile(r"(?:there is no file|reads) (\S+?)[,;.]?(?: |$)")


DATA_COLUMNS = (
    Column("data", False),
    *map(Column, ("classes", "calibration rows", "test rows", "units done")),
)
FAILURE_COLUMNS = tuple(Column(name, False) for name in ("units", "how", "of", "message"))
NOT_SHOWN = "Not shown because no unit belongs to it"


@dataclass(frozen=True)
class Failure:
    """Units that failed for one reason: their number, status, common labels and message."""

    number: int
    status: str
    where: str
    message: str


@dataclass(frozen=True)
class ReportContents:
    """Contents of a report in any format.

    Attributes
    ----------
    title : str
    facts : tuple of (str, str)
        What was run.
    data_rows : tuple
        One row per data set.
    absent : tuple of (str, str)
        Data sets and trials that were skipped, and why.
    failures : tuple of Failure
    tables : tuple of ResultTable
    pictures : tuple of DrawnPicture
    empty : tuple of str
        Titles of tables and figures without units, for example in a form without trials.
    when : str
        Times of the runs; empty if unknown.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    data_rows: tuple[tuple[str, ...], ...]
    absent: tuple[tuple[str, str], ...]
    failures: tuple[Failure, ...]
    n_other_failures: int
    tables: tuple[ResultTable, ...]
    pictures: tuple[DrawnPicture, ...]
    empty: tuple[str, ...] = ()
    when: str = ""

    def run(self) -> Section:
        """Return the section on what was run."""
        blocks: list[Block] = [Facts(self.facts)]
        if self.data_rows:
            blocks.append(_words_table("data", DATA_COLUMNS, self.data_rows))
        if self.absent:
            skipped = tuple(Paragraph(f"{name}: {reason}") for name, reason in self.absent)
            blocks += [Paragraph("Left out:"), Bullets(skipped)]
        if self.empty:
            blocks.append(Paragraph(f"{NOT_SHOWN}: {'; '.join(self.empty)}."))
        return Section("run", "What was run", tuple(blocks))

    def what_failed(self) -> Section:
        """Return the section on units that failed."""
        rows = [(str(one.number), one.status, one.where, one.message) for one in self.failures]
        blocks: list[Block] = [_words_table("failed-units", FAILURE_COLUMNS, rows)]
        if self.n_other_failures:
            others = counted(self.n_other_failures, "further unit")
            blocks.append(Paragraph(f"{others} failed for other reasons."))
        return Section("failures", "What failed", tuple(blocks))


def _words_table(name: str, columns: tuple[Column, ...], rows: Iterable[Sequence[str]]) -> Table:
    return Table(name, "", columns, tuple(tuple(map(Cell, row)) for row in rows))


def contents_of(
    results: Results,
    predictions: Callable[[Results, PictureOptions], Built] | None = None,
    runs: Sequence[Any] = (),
) -> ReportContents:
    """Compute all tables and figures of a recipe, and collect what was run."""
    recipe = results.recipe
    failures = contents_of_failures(results)
    rows = _data_rows(results)
    tables = [make_table(results, options, recipe.folder) for options in recipe.tables]
    empty = [table.options.caption for table in tables if not table.rows]
    empty += [picture.caption for picture in recipe.pictures if not has_units(results, picture)]
    return ReportContents(
        title=recipe.title,
        facts=tuple(_facts(results, runs)),
        data_rows=tuple(rows),
        absent=tuple((name, _absence(reason)) for name, reason in results.absent),
        failures=tuple(failures[:MOST_FAILURES]),
        n_other_failures=sum(failure.number for failure in failures[MOST_FAILURES:]),
        tables=tuple(table for table in tables if table.rows),
        pictures=tuple(
            draw_picture(results, picture, predictions)
            for picture in recipe.pictures
            if has_units(results, picture)
        ),
        empty=tuple(empty),
        when=_when(runs),
    )


def contents_of_failures(results: Results) -> list[Failure]:
    """Return the failures, grouped by reason."""
    return [
        Failure(len(lines), status, _where(lines, results), _shortened(message))
        for (status, message), lines in results.failures().items()
    ]


def _facts(results: Results, runs: Sequence[Any]) -> list[tuple[str, str]]:
    recipe, counts = results.recipe, results.counts()
    done = f"{counts[DONE]} of {counted(len(results), 'unit')}"
    others = [f"{counts[status]} {word}" for status, word in WORDS.items() if counts[status]]
    facts = [
        ("recipe", recipe.name + (f", form {recipe.form}" if recipe.form else ", complete")),
        ("done", ", ".join([done, *others])),
        ("time", _time(results)),
    ]
    if recipe.limit_seconds:
        facts.append(("limit", f"{duration(recipe.limit_seconds)} of processor time for one unit"))
    for name, kind in (("classifiers", "classifier"), ("calibrators", "calibrator")):
        levels = results.levels(kind)
        if levels:
            facts.append((name, ", ".join(map(label_text, levels))))
    trials = results.levels("trial")
    if trials:
        facts.append(("trials", ", ".join(map(label_text, trials))))
    found = dict(getattr(runs[-1], "versions", {}) or {}) if runs else versions()
    processors = getattr(runs[-1], "processors", None) if runs else os.cpu_count()
    facts.append(("versions", ", ".join(f"{name} {number}" for name, number in found.items())))
    if processors:
        facts.append(("processors", str(processors)))
    return facts


def _time(results: Results) -> str:
    # Several splits can share one training, which its key shows.
    trained = {
        unit.key: getattr(getattr(unit, "work", None), "training", unit.key) for unit in results.plan.units
    }
    trainings = {
        trained[line.key]: line.details["train_seconds"]
        for line in results.lines
        if "train_seconds" in line.details
    }
    text = f"{duration(results.seconds)}, all units together"
    if trainings:
        text += f", and {duration(sum(trainings.values()))} to train {counted(len(trainings), 'classifier')}"
    return text


WORDS = {FAILED: "failed", TOO_SLOW: "too slow", OPEN: "not run yet"}


def _data_rows(results: Results) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for data in results.levels("data"):
        lines = [line for line in results.lines if line.labels.get("data") == data]
        done = [line for line in lines if line.done]
        rows.append(
            (
                label_text(data),
                _span(done, "classes"),
                _span(done, "calibration_rows"),
                _span(done, "rows"),
                f"{len(done)} of {len(lines)}",
            )
        )
    return rows


def _span(lines: Sequence[Line], detail: str) -> str:
    """Return the number that units have in their details, or its range."""
    numbers = {line.details[detail] for line in lines if line.details.get(detail) is not None}
    if not numbers:
        return ""
    low, high = min(numbers), max(numbers)
    return f"{low}" if low == high else f"{low} to {high}"


def _where(lines: Sequence[Line], results: Results) -> str:
    """Return the labels that units share; splits and seeds only if other units of the same tasks did not fail."""
    parts = []
    hit = {line.key for line in lines}
    tasks = {_task(line) for line in lines}
    spared = any(line.key not in hit and _task(line) in tasks for line in results.lines)
    for label in dict.fromkeys(name for line in lines for name in line.labels):
        if label in SPLIT_LABELS and not spared:
            continue
        values = list(dict.fromkeys(label_text(line.labels[label]) for line in lines if label in line.labels))
        if len(values) > MOST_VALUES:
            parts.append(f"{label}: {len(values)} of them")
        else:
            parts.append(f"{label}: {', '.join(values)}")
    return "; ".join(parts)


def _task(line: Line) -> tuple[tuple[str, str], ...]:
    return tuple((name, text) for name, text in line.texts.items() if name not in SPLIT_LABELS)


def _shortened(message: str) -> str:
    message = _without_folders(message)
    return message if len(message) <= LONGEST_MESSAGE else f"{message[: LONGEST_MESSAGE - 1]}…"


def _absence(reason: str) -> str:
    """Return why something was skipped, in a few words for a report.

    >>> _absence("data set 'mine': there is no file a/mine.npz in /x/data; name the folder of your data.")
    'no file a/mine.npz'
    """
    found = ABSENT.search(reason)
    return f"no file {found[1]}" if found else _without_folders(reason)


def _without_folders(message: str) -> str:
    """Return a message without the folders of this machine."""
    words = []
    for word in message.split(" "):
        bare = word.strip("'\"(),;:.")
        if bare.startswith(("/", "~/")) and bare.count("/") > 1:
            word = word.replace(bare, bare.rstrip("/").rpartition("/")[2])
        words.append(word)
    return " ".join(words)


def _when(runs: Sequence[Any]) -> str:
    times = sorted(datetime.fromisoformat(str(time)) for run in runs for time in (run.started, run.updated))
    if not times:
        return ""
    first, last = times[0].astimezone(UTC), times[-1].astimezone(UTC)
    end = f"{last:%H:%M}" if first.date() == last.date() else f"{last:%Y-%m-%d %H:%M}"
    return f"{first:%Y-%m-%d %H:%M} to {end} UTC"


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
        parts += [_picture_markdown(picture, pictures_folder) for picture in contents.pictures]
    return "\n\n".join(parts) + "\n"


def _heading(shown: ResultTable | DrawnPicture) -> str:
    options = shown.options
    return as_markdown(Section(options.name, options.caption, (), options.source), 3)


def _picture_markdown(picture: DrawnPicture, folder: str) -> str:
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
        *map(_table_section, contents.tables),
        *map(_picture_section, contents.pictures),
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


def _table_section(table: ResultTable) -> Section:
    options = table.options
    return Section(f"results-{options.name}", options.caption, (table.presented(),), options.source)


def _picture_section(picture: DrawnPicture) -> Section:
    options = picture.options
    drawings = [drawing for drawing in picture.drawings.values() if drawing is not None]
    blocks = [OnPage(element("figure", _image(drawing, options.caption))) for drawing in drawings]
    notes = [Paragraph(note, "note") for note in (*picture.notes, options.note) if note]
    return Section(f"picture-{options.name}", options.caption, (*blocks, *notes), options.source)


def _image(drawing: bytes, caption: str) -> Markup:
    return element("img", src=f"data:image/svg+xml;base64,{b64encode(drawing).decode()}", alt=caption)


FORMATS = ("csv", "latex", "markdown", "html")


def write_report(
    results: Results,
    folder: str | Path,
    formats: Collection[str] = FORMATS,
    *,
    cache_folder: Path | None = None,
    runs: Sequence[Any] = (),
    checked: bool = False,
    own_code: bool = False,
) -> list[Path]:
    """Write the report of a study to a folder.

    Parameters
    ----------
    results : Results
    folder : str or Path
        Receives ``results.csv`` with one line per unit, ``tables/*.csv`` and ``tables/*.tex`` (with booktabs rules),
        ``pictures/*.svg`` with their numbers as CSV, ``report.md`` and ``report.html``. Created if it does not exist; other
        files in it are kept.
    formats : collection of {"csv", "latex", "markdown", "html"}
        Formats to write. SVG files are written with Markdown; the page contains the figures.
    cache_folder : Path, optional
        Folder of cached predictions of classifiers, for diagrams of predictions.
    runs : sequence of Run, optional
        Runs of the store: versions, processors, times.
    checked : bool, default=False
        Whether tables and figures have already been checked, so that later changes of the recipe file do not matter.
    own_code : bool, default=False
        Whether the recipe's own code may run, for diagrams of predictions that need it; they are skipped otherwise.

    Returns
    -------
    list of Path
        Paths of the written files.

    Raises
    ------
    RecipeError
        If a table or figure has labels or values that no unit has, or published numbers cannot be read; nothing is
        written then.
    """
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise ParameterError(f"formats must be some of {', '.join(FORMATS)}, not {unknown[0]!r}.")
    if not checked:
        check_shown(results.plan)
    contents = contents_of(results, pictures_of_predictions(cache_folder, own_code), runs)
    files: dict[str, bytes] = {}
    if "csv" in formats:
        files["results.csv"] = columns_text(results).encode()
        for table in contents.tables:
            files[f"tables/{table.options.name}.csv"] = table.to_csv().encode()
        for picture in contents.pictures:
            files |= {f"pictures/{name}.csv": text.encode() for name, text in picture.numbers.items()}
    if "latex" in formats:
        for table in contents.tables:
            shown = replace(table.presented(), caption=table.options.caption)
            files[f"tables/{table.options.name}.tex"] = as_latex(shown).encode()
    if "markdown" in formats:
        for picture in contents.pictures:
            drawn = {f"pictures/{name}.svg": svg for name, svg in picture.drawings.items() if svg is not None}
            files |= drawn
        files["report.md"] = report_markdown(contents).encode()
    if "html" in formats:
        files["report.html"] = report_page(contents).encode()
    written = []
    for name, content in files.items():
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as stream:
            stream.write(content)
        written.append(path)
    return written
