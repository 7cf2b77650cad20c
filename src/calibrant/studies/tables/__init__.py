"""Tables of results in the layout of a paper, with the published figures beside ours."""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from calibrant.errors import RecipeError
from calibrant.presentation import counted, listed
from calibrant.studies.results import MEASURE, Results
from calibrant.studies.tables.cells import CellUnits, Grouped, Row, grouped, spread_over_splits
from calibrant.studies.tables.options import AVERAGE_RANK, ResultTable, TableCell, TableOptions
from calibrant.studies.tables.ranks import (
    Ranking,
    ranking_of_rows,
    ranking_of_tasks,
    ranks_in_row,
    sentences_on_ranks,
)

__all__ = ["make_table", "read_figures"]


@dataclass(frozen=True)
class PaperFigures:
    """Published numbers by row and column.

    Attributes
    ----------
    source : str
        The first comment of the file.
    labels : tuple of str
        Labels that identify rows.
    columns : tuple of str
        Names of the columns.
    values : dict
        (row, column) -> number; no entry if the paper has none.
    """

    source: str
    labels: tuple[str, ...]
    columns: tuple[str, ...]
    values: dict[tuple[tuple[str, ...], str], float]

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """All rows, in the order of the paper."""
        return list(dict.fromkeys(row for row, _ in self.values))

    def value(self, row: tuple[str, ...], column: str) -> float:
        """Return one number, or NaN."""
        return self.values.get((row, column), math.nan)


def read_figures(path: Path, labels: tuple[str, ...]) -> PaperFigures:
    """Read the published numbers of a table from CSV.

    Lines that begin with ``#`` are comments. The header has the names of the labels and columns, and there is one line per
    row. An empty field means that the paper has no number.

    Raises
    ------
    RecipeError
        If the file does not exist or has another layout.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise RecipeError(
            f"the figures {path.name} cannot be read: {reason[:1].lower()}{reason[1:]}."
        ) from error
    comments, lines = [], []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("#"):
            comments.append(line.lstrip("# ").strip())
        elif line.strip():
            lines.append((number, line))
    if not lines:
        raise RecipeError(
            f"the figures {path.name} have no header; name the rows and columns in the first line."
        )
    parsed = list(csv.reader([line for _, line in lines]))
    header = [cell.strip() for cell in parsed[0]]
    width = len(labels)
    if tuple(header[:width]) != labels or len(header) == width:
        raise RecipeError(
            f"the figures {path.name} begin with the columns {', '.join(header[:width])}; "
            f"they should be {', '.join(labels)}, then one for every column of the table."
        )
    columns = tuple(header[width:])
    if len(set(columns)) != len(columns):
        raise RecipeError(f"the figures {path.name} name a column twice; use each name once.")
    values: dict[tuple[tuple[str, ...], str], float] = {}
    seen = set()
    for (number, _), cells in zip(lines[1:], parsed[1:], strict=True):
        where = f"the figures {path.name}, line {number}"
        if len(cells) != len(header):
            raise RecipeError(f"{where}, have {len(cells)} fields instead of {len(header)}.")
        row = tuple(cell.strip() for cell in cells[:width])
        if row in seen:
            raise RecipeError(f"{where}, repeat the row {', '.join(row)}; give it once.")
        seen.add(row)
        for column, cell in zip(columns, cells[width:], strict=True):
            if cell.strip():
                values[row, column] = _number(cell.strip(), where)
    return PaperFigures(comments[0] if comments else "", labels, columns, values)


def _number(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise RecipeError(f"{where}, have {text!r} where a number should be.") from error


MOST_NAMES = 6


def make_table(results: Results, options: TableOptions, folder: Path | None = None) -> ResultTable:
    """Compute a table of results.

    Parameters
    ----------
    results : Results
    options : TableOptions
    folder : Path, optional
        Folder of the recipe, for the file of published numbers.
    """
    groups = grouped(
        results, options.all_measures, options.rows, options.columns, options.where, options.counted_above
    ).with_columns(options.renamed)
    figures = None
    if options.figures and folder is not None:
        figures = read_figures(folder / options.figures, options.rows)
    higher = {row: _higher_is_better(results, options, row) for row in groups.rows}
    notes: list[str] = []
    if not groups.rows or not groups.columns:
        return ResultTable(options, (), (), (), notes=("No unit of the plan belongs to this table.",))
    ranking = None
    if options.show == "average rank":
        ranking = ranking_of_tasks(groups, options, higher)
        cells = _average_ranks(groups, ranking)
        higher = dict.fromkeys(groups.rows, False)
    else:
        cells = [
            [_cell(groups.cell(row, column), options) for column in groups.columns] for row in groups.rows
        ]
        if options.ranked:
            ranking = ranking_of_rows(groups, options, higher)
            cells = [
                _with_ranks(line, groups.columns, ranking, row)
                for row, line in zip(groups.rows, cells, strict=True)
            ]
        if options.relative_to and options.quotient == "mean":
            cells = [
                _mean_quotients(line, groups, row, options)
                for row, line in zip(groups.rows, cells, strict=True)
            ]
        elif options.relative_to:
            cells = [_relative(line, groups.columns, options, notes) for line in cells]
    if figures is not None:
        cells = _with_figures(cells, groups, figures, notes)
    if options.compared:
        cells = [
            _with_best(line, higher[row], options.digits)
            for row, line in zip(groups.rows, cells, strict=True)
        ]
    footer: tuple[tuple[str, tuple[TableCell, ...]], ...] = ()
    if ranking is not None:
        footer = _footer(groups, ranking, cells, options, higher)
        if options.friedman:
            what = "task" if options.show == "average rank" else "row"
            notes = [*sentences_on_ranks(ranking, options, what), *notes]
        notes.extend(_on_ranking(groups, ranking, options))
    notes.extend(_on_missing(cells, options))
    return ResultTable(
        options,
        tuple(groups.columns),
        tuple(groups.rows),
        tuple(tuple(line) for line in cells),
        footer,
        tuple(notes),
    )


def _higher_is_better(results: Results, options: TableOptions, row: Row) -> bool:
    if options.better:
        return options.better == "higher"
    measure = row[options.rows.index(MEASURE)] if MEASURE in options.rows else options.all_measures[0]
    return results.higher_is_better(measure)


def _cell(units: CellUnits, options: TableOptions) -> TableCell:
    numbers = units.numbers()
    spread = spread_over_splits(units.values)
    scale = options.scale
    if not numbers:
        value = math.nan
    elif options.show == "median":
        value = float(np.median(numbers))
    elif options.show == "sd":
        value, spread = spread, math.nan
    else:
        value = units.mean
    return TableCell(value * scale, len(numbers), len(units.planned), spread * abs(scale))


def _average_ranks(groups: Grouped, ranking: Ranking) -> list[list[TableCell]]:
    lines = []
    for row in groups.rows:
        ranks, planned = ranking.ranks[row], len(groups.by_task(row, ranking.columns))
        averages = ranks.mean(axis=0) if len(ranks) else np.full(len(ranking.columns), math.nan)
        by_column = dict(zip(ranking.columns, averages.tolist(), strict=True))
        lines.append(
            [
                TableCell(by_column[column], len(ranks), planned) if column in by_column else TableCell()
                for column in groups.columns
            ]
        )
    return lines


def _with_ranks(
    line: Sequence[TableCell], columns: Sequence[str], ranking: Ranking, row: Row
) -> list[TableCell]:
    ranks = ranking.ranks[row]
    if not len(ranks):
        return list(line)
    by_column = dict(zip(ranking.columns, ranks[0].tolist(), strict=True))
    return [
        replace(cell, rank=by_column.get(column, math.nan))
        for cell, column in zip(line, columns, strict=True)
    ]


def _relative(
    line: Sequence[TableCell], columns: Sequence[str], options: TableOptions, notes: list[str]
) -> list[TableCell]:
    """Divide a row by one of its cells; the scale applies to the quotients."""
    if options.relative_to not in columns:
        note = f"There is no column {options.relative_to} to divide by."
        if note not in notes:
            notes.append(note)
        return [replace(cell, value=math.nan, sd=math.nan) for cell in line]
    divisor = line[list(columns).index(options.relative_to)].value / options.scale
    usable = math.isfinite(divisor) and divisor != 0
    return [
        replace(cell, value=cell.value / divisor, sd=cell.sd / abs(divisor))
        if usable
        else replace(cell, value=math.nan, sd=math.nan)
        for cell in line
    ]


def _mean_quotients(
    line: Sequence[TableCell], groups: Grouped, row: Row, options: TableOptions
) -> list[TableCell]:
    """Divide within each task by one of the cells, and average the quotients over the tasks that have both."""
    columns = groups.columns
    if options.relative_to not in columns:
        return [replace(cell, value=math.nan, sd=math.nan) for cell in line]
    divisor = columns.index(options.relative_to)
    tasks = list(groups.by_task(row, columns).values())
    quotients = np.array([[units.mean / task[divisor].mean for units in task] for task in tasks])
    found = []
    for cell, column in zip(line, quotients.T, strict=True):
        known = column[np.isfinite(column)]
        value = float(known.mean()) if len(known) else math.nan
        spread = float(known.std(ddof=1)) if len(known) > 1 else math.nan
        found.append(replace(cell, value=value * options.scale, sd=spread * abs(options.scale)))
    return found


def _with_figures(
    cells: Sequence[Sequence[TableCell]],
    groups: Grouped,
    figures: PaperFigures,
    notes: list[str],
) -> list[list[TableCell]]:
    for what, theirs, ours in (
        (
            "row",
            [" ".join(filter(None, row)) for row in figures.rows],
            [" ".join(filter(None, row)) for row in groups.rows],
        ),
        ("column", list(figures.columns), groups.columns),
    ):
        others = [
            name for name in theirs if name not in ours and name.lower() not in (AVERAGE_RANK, "avg rank")
        ]
        if others:
            notes.append(
                f"Only in the paper: the {what}{'s' if len(others) > 1 else ''} {listed(others, MOST_NAMES)}."
            )
    return [
        [
            replace(cell, paper=figures.value(row, column))
            for cell, column in zip(line, groups.columns, strict=True)
        ]
        for row, line in zip(groups.rows, cells, strict=True)
    ]


def _with_best(line: Sequence[TableCell], higher: bool, digits: int) -> list[TableCell]:
    """Mark the best cells of a row; cells that print alike tie, and rows with unequal numbers of units have no mark."""
    there = [cell for cell in line if cell.n_units]
    values = [cell.value for cell in there if not math.isnan(cell.value)]
    unequal = len({cell.n_units for cell in there}) > 1 and not all(cell.complete for cell in there)
    if len(values) < 2 or unequal:
        return list(line)
    target = round(max(values) if higher else min(values), digits)
    return [replace(cell, best=round(cell.value, digits) == target) for cell in line]


def _footer(
    groups: Grouped,
    ranking: Ranking,
    cells: Sequence[Sequence[TableCell]],
    options: TableOptions,
    higher: Mapping[Row, bool],
) -> tuple[tuple[str, tuple[TableCell, ...]], ...]:
    """Return the row of average ranks, with those of the published numbers for the same rows."""
    ranks = ranking.all_ranks
    if len(ranks) < 2:
        return ()
    n_planned = len(cells)
    if options.show == "average rank":
        n_planned = sum(len(groups.by_task(row, ranking.columns)) for row in groups.rows)
    ours = dict(zip(ranking.columns, ranks.mean(axis=0).tolist(), strict=True))
    theirs = dict(
        zip(ranking.columns, _ranks_of_figures(groups, ranking, cells, options, higher), strict=False)
    )
    line = [
        TableCell(ours[column], len(ranks), n_planned, paper=theirs.get(column, math.nan))
        if column in ours
        else TableCell()
        for column in groups.columns
    ]
    return ((AVERAGE_RANK, tuple(_with_best(line, False, 2))),)


def _ranks_of_figures(
    groups: Grouped,
    ranking: Ranking,
    cells: Sequence[Sequence[TableCell]],
    options: TableOptions,
    higher: Mapping[Row, bool],
) -> list[float]:
    """Return the average ranks of the published numbers over the ranked rows; empty if a number is missing."""
    places = [groups.columns.index(column) for column in ranking.columns]
    ranked = [row for row in groups.rows if len(ranking.ranks[row])]
    lines = [cells[groups.rows.index(row)] for row in ranked]
    figures = np.array([[line[place].paper for place in places] for line in lines])
    if not np.isfinite(figures).all():
        return []
    if options.show != "average rank":
        figures = np.array(
            [
                ranks_in_row(line / options.scale, options, higher[row])
                for row, line in zip(ranked, figures, strict=True)
            ]
        )
    return [float(mean) for mean in figures.mean(axis=0)]


def _on_ranking(groups: Grouped, ranking: Ranking, options: TableOptions) -> list[str]:
    what = "task" if options.show == "average rank" else "row"
    notes = []
    empty = [
        column
        for column in groups.columns
        if column not in ranking.columns and column not in options.unranked
    ]
    if empty:
        notes.append(f"Not ranked because of missing numbers: {listed(empty, MOST_NAMES)}.")
    if ranking.left_out:
        number = len(ranking.left_out)
        notes.append(
            f"{counted(number, what)} {'is' if number == 1 else 'are'} not ranked because a column has no number: "
            f"{listed(ranking.left_out, MOST_NAMES)}."
        )
    if ranking.shortened:
        number = len(ranking.shortened)
        notes.append(
            f"{counted(number, what)} {'is' if number == 1 else 'are'} ranked only on units that all columns have: "
            f"{listed(ranking.shortened, MOST_NAMES)}."
        )
    return notes


def _on_missing(cells: Sequence[Sequence[TableCell]], options: TableOptions) -> list[str]:
    missing = sum(cell.n_planned - cell.n_units for line in cells for cell in line)
    planned = sum(cell.n_planned for line in cells for cell in line)
    if not missing or options.show == "average rank":
        return []
    return [
        f"{missing} of {counted(planned, 'unit')} of this table {'is' if missing == 1 else 'are'} missing; brackets give "
        "the number of finished and of planned units."
    ]
