"""Units grouped into the cells of a table, and their means and standard deviations."""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant.studies.results import MEASURE, SPLIT_LABELS, Line, Results

__all__ = ["CellUnits", "Grouped", "Place", "Row", "grouped", "mean_over_tasks", "spread_over_splits"]

Row = tuple[str, ...]
Task = tuple[str, ...]
Place = tuple[Task, Hashable]
"""A task and a split."""


@dataclass
class CellUnits:
    """Units of one cell.

    Attributes
    ----------
    values : dict
        Task and split of a finished unit -> the measure, averaged over units with the same task and split.
    planned : set
        Tasks and splits of all units in the plan.
    """

    values: dict[Place, float] = field(default_factory=dict)
    planned: set[Place] = field(default_factory=set)

    @property
    def mean(self) -> float:
        """Mean over splits within each task, then over tasks; NaN without units."""
        return mean_over_tasks(self.values)

    @property
    def complete(self) -> bool:
        """Whether there are units in the plan and all have a number."""
        return bool(self.planned) and len(self.values) == len(self.planned)

    def numbers(self) -> list[float]:
        """Return the measures of all units."""
        return list(self.values.values())


@dataclass(frozen=True)
class Grouped:
    """Cells of a table by row and column, in the order of the plan."""

    rows: list[Row]
    columns: list[str]
    cells: dict[tuple[Row, str], CellUnits]

    def cell(self, row: Row, column: str) -> CellUnits:
        """Return the units of a cell."""
        return self.cells.get((row, column), CellUnits())

    def with_columns(self, names: Mapping[str, str]) -> "Grouped":
        """Return the same cells with other names for some columns."""
        if not names:
            return self
        return Grouped(
            self.rows,
            [names.get(column, column) for column in self.columns],
            {(row, names.get(column, column)): units for (row, column), units in self.cells.items()},
        )

    def by_task(self, row: Row, columns: Sequence[str]) -> dict[Task, list[CellUnits]]:
        """Return the cells of a row separately per task, one cell per column."""
        parts = [_by_task(self.cell(row, column)) for column in columns]
        tasks = sorted({task for part in parts for task in part})
        return {task: [part.get(task, CellUnits()) for part in parts] for task in tasks}


def grouped(
    results: Results,
    measures: Sequence[str],
    rows: Sequence[str],
    columns: str,
    where: Mapping[str, Any] | None = None,
    level: float | None = None,
) -> Grouped:
    """Group units into cells; with a level, the value of a unit is whether the measure exceeds it.

    A unit belongs to the table if it has the label of the columns and at least one of the rows; missing row labels are
    empty. The task of a unit consists of all its labels except those of the columns and of splits.
    """
    cells: dict[tuple[Row, str], CellUnits] = {}
    found_rows: dict[Row, None] = {}
    found_columns: dict[str, None] = {}
    twice: dict[tuple[Row, str, Place], list[float]] = {}
    names = (*results.labels, MEASURE) if len(measures) > 1 else results.labels
    single = MEASURE not in (*rows, columns, *(names if len(measures) > 1 else ()))
    of_tasks = [label for label in names if label != columns and label not in SPLIT_LABELS]
    lines: Iterable[Line] = results.lines if not where else results.where(where)
    # Labels of splits that are rows or columns do not distinguish splits.
    split_labels = [label if label not in (*rows, columns) else "" for label in SPLIT_LABELS]
    all_labels = all(split_labels)
    for line in lines:
        if not any(label in line.texts or label == MEASURE for label in rows):
            continue
        if columns not in line.texts and columns != MEASURE:
            continue
        split: Hashable = (
            line.split if all_labels else tuple(line.labels.get(label) for label in split_labels)
        )
        for measure in measures:
            if not results.may_have(line, measure):
                continue
            texts = line.texts if single else {**line.texts, MEASURE: measure}
            row = tuple([texts.get(label, "") for label in rows])
            column = texts[columns]
            task = tuple([texts[label] for label in of_tasks if label in texts])
            place: Place = (task, split)
            found_rows.setdefault(row)
            found_columns.setdefault(column)
            cell = cells.setdefault((row, column), CellUnits())
            cell.planned.add(place)
            value = line.value(measure)
            if not math.isnan(value):
                value = value if level is None else float(value > level)
                twice.setdefault((row, column, place), []).append(value)
    for (row, column, place), values in twice.items():
        cells[row, column].values[place] = _mean(values)
    return Grouped(list(found_rows), list(found_columns), cells)


def mean_over_tasks(values: Mapping[Place, float]) -> float:
    """Return the mean over splits within each task, then over tasks."""
    tasks: dict[Task, list[float]] = {}
    for (task, _), value in values.items():
        tasks.setdefault(task, []).append(value)
    return _mean([_mean(one) for one in tasks.values()])


def spread_over_splits(values: Mapping[Place, float]) -> float:
    """Return the standard deviation over splits of the mean over tasks; NaN for fewer than two splits."""
    splits: dict[Hashable, list[float]] = {}
    for (_, split), value in values.items():
        splits.setdefault(split, []).append(value)
    means = [_mean(one) for one in splits.values()]
    if len(means) < 2 or not all(math.isfinite(mean) for mean in means):
        return math.nan
    return float(np.std(means, ddof=1))


def _mean(values: Sequence[float]) -> float:
    if not values:
        return math.nan
    # Exact sums, so that equal methods tie for any order of units.
    return math.fsum(values) / len(values) if all(map(math.isfinite, values)) else float(np.sum(values))


def _by_task(cell: CellUnits) -> dict[Task, CellUnits]:
    parts: dict[Task, CellUnits] = {}
    for place in cell.planned:
        parts.setdefault(place[0], CellUnits()).planned.add(place)
    for place, value in cell.values.items():
        parts[place[0]].values[place] = value
    return parts
