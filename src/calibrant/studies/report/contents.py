"""Contents of a report: what was run, what failed, and all tables and figures."""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from calibrant.presentation import (
    Block,
    Bullets,
    Cell,
    Column,
    Facts,
    Paragraph,
    Section,
    Table,
    counted,
    duration,
)
from calibrant.studies.execution import versions
from calibrant.studies.pictures import DrawnPicture, draw_picture, has_units
from calibrant.studies.pictures.kinds import Built
from calibrant.studies.pictures.options import PictureOptions
from calibrant.studies.results import DONE, FAILED, OPEN, SPLIT_LABELS, TOO_SLOW, Line, Results, label_text
from calibrant.studies.tables import make_table
from calibrant.studies.tables.options import ResultTable

__all__ = ["Failure", "ReportContents", "contents_of", "contents_of_failures"]

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
