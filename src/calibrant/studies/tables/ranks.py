"""Ranks of the columns of a table within rows or tasks, and tests of their differences."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrant.presentation import counted, p_text
from calibrant.ranking import critical_difference, friedman_test
from calibrant.ranking.ranks import Ties, ranks_of
from calibrant.studies.tables.cells import CellUnits, Grouped, Place, Row, mean_over_tasks
from calibrant.studies.tables.options import TableOptions

__all__ = ["Ranking", "ranking_of_rows", "ranking_of_tasks", "ranks_in_row", "sentences_on_ranks"]

PUBLISHED_CONSTANTS = {9: 2.724}
"""Critical values of the Bonferroni-Dunn test that are widely copied and differ from the exact value."""


@dataclass(frozen=True)
class Ranking:
    """Ranks of the columns in every row, or in every task of every row.

    Attributes
    ----------
    columns : list of str
        Ranked columns.
    ranks : dict
        Row -> ranks, (tasks, columns).
    means : ndarray of shape (N, k)
        Ranked numbers.
    left_out : list
        Rows or tasks that are not ranked because a column has no unit.
    shortened : list
        Rows or tasks that are ranked on the splits that all columns have.
    """

    columns: list[str]
    ranks: dict[Row, NDArray[np.float64]]
    means: NDArray[np.float64]
    left_out: list[str]
    shortened: list[str]

    @property
    def all_ranks(self) -> NDArray[np.float64]:
        """Ranks of all rows in one matrix, (N, k)."""
        some = [ranks for ranks in self.ranks.values() if len(ranks)]
        return np.vstack(some) if some else np.empty((0, 0))


def ranks_in_row(
    means: Sequence[float], options: TableOptions, higher_is_better: bool
) -> NDArray[np.float64]:
    """Return the ranks of numbers, after rounding if the table asks for it."""
    values = np.asarray(means, dtype=np.float64) * options.scale
    if options.round_first:
        values = values.round(options.digits)
    ties: Ties = "min" if options.tie == "min" else "average"
    return np.asarray(ranks_of(values[np.newaxis], higher_is_better, ties)[0], dtype=np.float64)


def ranking_of_rows(grouped: Grouped, options: TableOptions, higher: Mapping[Row, bool]) -> Ranking:
    """Rank the columns in each row by their means over the units that all columns have."""
    columns = _ranked_columns(grouped, options)
    found = {row: [[grouped.cell(row, column) for column in columns]] for row in grouped.rows}
    names = {row: [" ".join(filter(None, row))] for row in grouped.rows}
    return _ranking(columns, found, names, options, higher)


def ranking_of_tasks(grouped: Grouped, options: TableOptions, higher: Mapping[Row, bool]) -> Ranking:
    """Rank the columns in each task by their means over the splits that all columns have."""
    columns = _ranked_columns(grouped, options)
    found, names = {}, {}
    for row in grouped.rows:
        by_task = grouped.by_task(row, columns)
        found[row] = list(by_task.values())
        names[row] = [" ".join(filter(None, task)) for task in by_task]
    return _ranking(columns, found, names, options, higher)


def _ranked_columns(grouped: Grouped, options: TableOptions) -> list[str]:
    """Return the columns that have numbers and are not excluded from ranking."""
    return [
        column
        for column in grouped.columns
        if column not in options.unranked and any(grouped.cell(row, column).values for row in grouped.rows)
    ]


def _ranking(
    columns: list[str],
    found: Mapping[Row, Sequence[Sequence[CellUnits]]],
    names: Mapping[Row, Sequence[str]],
    options: TableOptions,
    higher: Mapping[Row, bool],
) -> Ranking:
    ranks: dict[Row, NDArray[np.float64]] = {}
    means, left_out, shortened = [], [], []
    for row, contests in found.items():
        ranked = []
        for cells, name in zip(contests, names[row], strict=True):
            # Trials and the grid have different splits, so splits are matched only if units are missing.
            if all(cell.complete for cell in cells):
                averages = [cell.mean for cell in cells]
            else:
                common = _common(cells)
                if not common:
                    left_out.append(name)
                    continue
                shortened.append(name)
                averages = [
                    mean_over_tasks({place: cell.values[place] for place in common}) for cell in cells
                ]
            means.append([-each if higher[row] else each for each in averages])
            ranked.append(ranks_in_row(averages, options, higher[row]))
        ranks[row] = np.array(ranked)
    return Ranking(columns, ranks, np.array(means, dtype=np.float64), left_out, shortened)


def _common(cells: Sequence[CellUnits]) -> list[Place]:
    """Return the tasks and splits for which all cells have a value, sorted."""
    shared = set(cells[0].values).intersection(*(cell.values for cell in cells[1:])) if cells else set()
    return sorted(shared, key=repr)


def sentences_on_ranks(ranking: Ranking, options: TableOptions, what: str = "task") -> list[str]:
    """Return the results of Friedman's test and of the Bonferroni-Dunn test as sentences."""
    columns = ranking.columns
    n_tasks, n_columns = ranking.all_ranks.shape
    if n_tasks < 2 or n_columns < 2:
        return ["Too few rows have numbers for all columns to test whether these differ."]
    # The test uses average ranks for ties, whatever the table shows.
    values = ranking.means * options.scale
    test = friedman_test(values.round(options.digits) if options.round_first else values)
    sentences = [
        f"Friedman's test of {n_columns} columns on {counted(n_tasks, what)}: chi-square {test.statistic:.4g}, "
        f"{p_text(test.p_value)}; F {test.f_statistic:.4g}, {p_text(test.f_p_value)}."
    ]
    if not test.p_value < options.post_hoc_below and options.post_hoc_below < 1:
        sentences.append(
            f"No post-hoc test, since the p-value of Friedman's test is not below {options.post_hoc_below:g}."
        )
        return sentences
    averages = test.average_ranks
    best = columns.index(options.control) if options.control in columns else int(np.argmin(averages))
    difference = critical_difference(n_columns, n_tasks, test="bonferroni-dunn", sides=options.sides)
    worse = [columns[k] for k in np.argsort(averages) if averages[k] - averages[best] >= difference]
    published = ""
    if n_columns in PUBLISHED_CONSTANTS and options.sides == 2:
        constant = PUBLISHED_CONSTANTS[n_columns]
        old = constant * math.sqrt(n_columns * (n_columns + 1) / (6 * n_tasks))
        published = f" ({old:.4g} with the constant {constant:g} of published tables)"
    name = "Bonferroni-Dunn" if options.sides == 2 else "one-sided Bonferroni-Dunn"
    sentences.append(
        f"Critical difference of average ranks at the 5 % level ({name}): {difference:.4g}{published}; "
        f"worse than {columns[best]} by at least that: {', '.join(worse) or 'none'}."
    )
    return sentences
