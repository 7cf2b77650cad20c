"""The published figures that stand beside ours are those of the paper: its own ranks and averages follow from them."""

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2, rankdata

STUDIES = Path(__file__).parents[3] / "studies"
UCI, NETWORKS = STUDIES / "kull2019-uci" / "figures", STUDIES / "kull2019-networks" / "figures"
CALIBRATORS = ["Uncal", "DirL2", "DirODIR", "Beta", "TempS", "VecS", "Isot", "FreqB", "WidthB"]
HIGHER_IS_BETTER = {19, 20}


def read(path):
    """Return the names of the columns and a mapping from row name to numbers, NaN where nothing is printed."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    header, *rows = csv.reader(lines)
    return header[1:], {row[0]: np.array([float(cell or "nan") for cell in row[1:]]) for row in rows}


def ranks_and_average(path):
    columns, rows = read(path)
    average = rows.pop("avg rank")
    return columns, np.stack(list(rows.values())), average


def test_every_file_says_where_it_comes_from():
    for path in [*UCI.glob("*.csv"), *NETWORKS.glob("*.csv")]:
        source = (
            "# Kull et al. 2019, Table " if "main" in path.stem else "# Kull et al. 2019, supplement, Table "
        )
        assert path.read_text().startswith(source), path


def test_ranks_of_table_4_follow_its_losses():
    columns, losses = read(UCI / "table_04.csv")
    assert columns == CALIBRATORS
    _, ranks, _ = ranks_and_average(UCI / "table_04_ranks.csv")
    for row, places in zip(losses.values(), ranks, strict=True):
        assert sorted(places) == list(range(1, 10))
        assert (np.diff(row[np.argsort(places)]) >= 0).all()


def test_averages_and_friedman_test_of_table_4():
    """The caption: statistic 97.9 and p-value 1.14e-17."""
    _, ranks, average = ranks_and_average(UCI / "table_04_ranks.csv")
    assert ranks.mean(axis=0) == pytest.approx(average, abs=0.005001)
    n_sets, n_methods = ranks.shape
    spread = ((ranks.mean(axis=0) - (n_methods + 1) / 2) ** 2).sum()
    statistic = 12 * n_sets / (n_methods * (n_methods + 1)) * spread
    assert statistic == pytest.approx(97.9, abs=0.05)
    assert chi2.sf(statistic, n_methods - 1) == pytest.approx(1.14e-17, rel=0.01)


@pytest.mark.parametrize("number", range(5, 13))
def test_rows_of_average_ranks_add_up(number):
    """The nine ranks of a task add up to 45, and so do their averages, but for nine roundings."""
    columns, rows = read(UCI / f"table_{number:02d}.csv")
    assert columns == CALIBRATORS
    assert len(rows) == 12
    for name, row in rows.items():
        if (number, name) == (8, "tree"):
            assert np.isnan(row[7])
            row = np.where(np.isnan(row), 4.0, row)
        assert row.sum() == pytest.approx(45, abs=9 * 0.05 + 1e-9), name


@pytest.mark.parametrize("number", range(5, 13))
def test_last_row_is_the_mean_of_the_classifiers(number):
    """Within the rounding of the rows and the weight of classifiers that did not finish all sets."""
    _, rows, average = ranks_and_average(UCI / f"table_{number:02d}.csv")
    assert np.nanmean(rows, axis=0) == pytest.approx(average, abs=0.1)


def test_naive_bayes_of_table_6_is_table_4_rounded():
    _, _, average = ranks_and_average(UCI / "table_04_ranks.csv")
    _, rows = read(UCI / "table_06.csv")
    assert rows["nbayes"] == pytest.approx(average, abs=0.05001)


@pytest.mark.parametrize("number", range(13, 21))
def test_ranks_of_networks_follow_their_values(number):
    """Ties share an average rank that is printed cut to a whole number; values are printed rounded."""
    _, values = read(NETWORKS / f"table_{number}.csv")
    _, ranks, average = ranks_and_average(NETWORKS / f"table_{number}_ranks.csv")
    sign = -1 if number in HIGHER_IS_BETTER else 1
    exact = []
    for row, places in zip(values.values(), ranks, strict=True):
        by_value = rankdata(sign * row)
        # Where printed values are equal, the ranks may still tell them apart.
        told_apart = len(set(places)) == len(places)
        exact.append(places if told_apart else by_value)
        assert (np.diff(sign * row[np.argsort(places, kind="stable")]) >= 0).all()
        if not told_apart:
            assert np.floor(by_value) == pytest.approx(places)
    assert np.mean(exact, axis=0) == pytest.approx(average, abs=0.00501)


def test_table_21_repeats_the_matrices_of_table_13():
    """MS-ODIR is the same fit in both, except for the last digit of one network."""
    _, losses = read(NETWORKS / "table_13.csv")
    _, compared = read(NETWORKS / "table_21.csv")
    assert list(losses) == list(compared)
    for name, row in compared.items():
        assert row[1] == pytest.approx(losses[name][5], abs=2.1e-5)
