"""The figures copied from Valk's thesis (2022) agree with the ranks that it prints beside them."""

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import rankdata

STUDIES = Path(__file__).parents[3] / "studies"
TABLES = {n: STUDIES / "valk2022-real" / "figures" / f"table_{n:02d}.csv" for n in [4, *range(5, 17)]}
TABLES[1] = STUDIES / "valk2022-synthetic" / "figures" / "table_01.csv"
AVERAGE = "average rank"
HIGHER_IS_BETTER = {9: "all", 15: "all", 1: "accuracy", 4: "accuracy"}

Rows = dict[tuple[str, ...], dict[str, str]]


def rows_of(path: Path) -> Rows:
    """Return row labels -> column -> cell as printed."""
    with path.open(newline="") as file:
        table = list(csv.reader(line for line in file if not line.startswith("#")))
    n_labels = 2 if table[0][:2] == ["set", "network"] else 1
    return {
        tuple(row[:n_labels]): dict(zip(table[0][n_labels:], row[n_labels:], strict=True))
        for row in table[1:]
    }


def ranks_of(number: int) -> Rows:
    """Return the printed ranks, those of the average too."""
    return rows_of(TABLES[number].with_stem(TABLES[number].stem + "_ranks"))


@pytest.mark.parametrize("number", sorted(TABLES))
def test_printed_ranks_are_those_of_the_printed_values(number):
    """Equal values share the best rank, as in a race; what is calibrated perfectly takes no part."""
    ranks = ranks_of(number)
    for labels, values in rows_of(TABLES[number]).items():
        columns = [column for column, rank in ranks[labels].items() if rank]
        assert set(values) - set(columns) <= {"cal"}
        sign = -1 if HIGHER_IS_BETTER.get(number) in ("all", labels[0]) else 1
        expected = rankdata([sign * float(values[column]) for column in columns], method="min")
        assert [int(ranks[labels][column]) for column in columns] == expected.tolist(), labels


@pytest.mark.parametrize("number", sorted(TABLES))
def test_printed_averages_are_those_of_the_printed_ranks(number):
    """To the digit printed, over the rows of a set of images or over all measures."""
    ranks = ranks_of(number)
    averages = {labels: row for labels, row in ranks.items() if AVERAGE in labels}
    assert len(averages) == (2 if 5 <= number <= 10 else 1)
    for labels, printed in averages.items():
        for column in (column for column, average in printed.items() if average):
            own = [
                int(row[column])
                for others, row in ranks.items()
                if AVERAGE not in others and others[:-1] == labels[:-1]
            ]
            assert float(printed[column]) == pytest.approx(np.mean(own), abs=0.0501), (labels, column)


@pytest.mark.parametrize("number", range(5, 11))
def test_tables_of_the_text_and_of_the_appendix_agree(number):
    """Uncalibrated, temperature and nearest neighbours are in both."""
    text, appendix = rows_of(TABLES[number]), rows_of(TABLES[number + 6])
    assert set(appendix) == {labels for labels in text if labels[0] == "C-10"}
    for labels, row in appendix.items():
        for column in ("uncal", "TS", "TS+KNN"):
            assert float(row[column]) == float(text[labels][column])


def test_first_table_of_real_networks_has_one_digit_more():
    """Table 4 is of DenseNet-40, whose figures for temperature and nothing at all come again later."""
    first, network = rows_of(TABLES[4]), ("C-10", "DenseNet-40")
    for table, (measure, row) in zip(range(5, 11), first.items(), strict=True):
        for column in ("uncal", "TS"):
            later = rows_of(TABLES[table])[network][column]
            digits = min(len(cell.split(".")[1]) for cell in (later, row[column]))
            assert float(row[column]) == pytest.approx(float(later), abs=0.5001 * 10.0**-digits), measure
