"""Tables: the numbers are those of a second, naive computation, and those that papers print."""

import csv
import math
from io import StringIO
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import friedmanchisquare, rankdata
from study_samples import crossed, from_figures, sample

from calibrant.errors import RecipeError
from calibrant.ranking import critical_difference
from calibrant.studies.report import table_markdown
from calibrant.studies.tables import make_table, read_figures
from calibrant.studies.tables.options import TableOptions

STUDIES = Path(__file__).parents[3] / "studies"
NETWORKS = STUDIES / "kull2019-networks" / "figures"
CALIBRATORS = ["none", "beta", "dirichlet", "isotonic"]


def table_of(results, folder=None, **options):
    return make_table(results, TableOptions.parse({"name": "t", "measure": "log_loss", **options}), folder)


def values_of(table):
    return np.array([[cell.value for cell in line] for line in table.cells])


def ranks_of(table):
    return np.array([[cell.rank for cell in line] for line in table.cells])


def printed(table):
    return table_markdown(table).replace("\N{NO-BREAK SPACE}", " ")


def noisy(seed=0):
    generator = np.random.default_rng(seed)
    drawn = {}

    def value(**labels):
        return drawn.setdefault(tuple(labels.items()), round(float(generator.random()), 2))

    return value


def study(seed=0, repeats=(0, 1), folds=(0, 1, 2)):
    return crossed(
        noisy(seed),
        data=["iris", "car", "yeast"],
        classifier=["tree", "knn"],
        calibrator=CALIBRATORS,
        repeat=repeats,
        fold=folds,
    )


# Numbers


def test_values_are_means_over_all_else():
    results = study()
    table = table_of(results, rows="classifier", spread="sd")
    columns = results.columns()
    assert table.rows == (("tree",), ("knn",))
    assert table.columns == tuple(CALIBRATORS)
    for (row, calibrator), cell in zip(
        product(["tree", "knn"], CALIBRATORS), [c for line in table.cells for c in line], strict=True
    ):
        chosen = (columns["classifier"] == row) & (columns["calibrator"] == calibrator)
        assert cell.value == pytest.approx(columns["log_loss"][chosen].mean())
        splits = [
            columns["log_loss"][chosen & (columns["repeat"] == repeat) & (columns["fold"] == fold)].mean()
            for repeat, fold in product((0, 1), (0, 1, 2))
        ]
        assert cell.sd == pytest.approx(np.std(splits, ddof=1))
        assert (cell.n_units, cell.n_planned) == (18, 18)


def test_medians_spreads_and_shares():
    results = study()
    columns = results.columns()
    chosen = (columns["data"] == "car") & (columns["calibrator"] == "beta")
    own = columns["log_loss"][chosen]

    def cell(**options):
        table = table_of(results, **options)
        return table.cells[1][1].value

    assert cell(show="median") == pytest.approx(np.median(own))
    assert cell(show="share above", level=0.3) == pytest.approx((own > 0.3).mean())
    assert cell(level=0.3) == pytest.approx((own > 0.3).mean())
    assert cell(scale=100) == pytest.approx(100 * own.mean())
    both = [own[number::6].mean() for number in range(6)]
    assert cell(show="sd") == pytest.approx(np.std(both, ddof=1))


def test_a_row_can_be_divided_by_one_of_its_columns():
    table = table_of(study(), relative_to="beta", scale=100)
    plain = values_of(table_of(study()))
    np.testing.assert_allclose(values_of(table), 100 * plain / plain[:, 1:2])


def test_a_zero_to_divide_by_gives_no_number():
    results = crossed(lambda calibrator, **_: float(calibrator == "b"), data=["d"], calibrator=["a", "b"])
    assert np.isnan(values_of(table_of(results, relative_to="a"))).all()
    assert "no column c" in table_of(results, relative_to="c").notes[0]


def test_quotients_can_be_averaged_over_tasks():
    """Two networks whose errors are 1 and 3 times, or 8 and 4, of which the second is the reference: 1/3 and 2."""
    errors = {("a", "x"): 1.0, ("a", "y"): 3.0, ("b", "x"): 8.0, ("b", "y"): 4.0}
    results = crossed(
        lambda data, calibrator, **_: errors[data, calibrator],
        group=["g"],
        data=["a", "b"],
        calibrator=["x", "y"],
    )
    mean = values_of(table_of(results, rows="group", relative_to="y", quotient="mean"))
    np.testing.assert_allclose(mean, [[(1 / 3 + 2) / 2, 1]])
    of_means = values_of(table_of(results, rows="group", relative_to="y"))
    np.testing.assert_allclose(of_means, [[9 / 7, 1]])


def test_columns_can_be_renamed_to_stand_beside_published_numbers(tmp_path):
    (tmp_path / "published.csv").write_text("data,Beta\niris,0.25\n")
    options = {
        "renamed": {"beta": "Beta"},
        "where": {"calibrator": ["none", "beta"]},
        "figures": "published.csv",
    }
    table = table_of(study(), tmp_path, **options)
    assert table.columns == ("none", "Beta")
    assert table.cells[0][1].paper == 0.25
    np.testing.assert_array_equal(values_of(table), values_of(table_of(study(), where=options["where"])))


def test_there_is_no_post_hoc_test_unless_friedmans_test_rejects():
    results = study()
    p_value = friedmanchisquare(*values_of(table_of(results)).T).pvalue
    assert p_value > 0.005
    entry = {"ranks": True, "friedman": True}
    notes = table_of(results, **entry, post_hoc_below=0.005).notes
    assert notes[1] == "No post-hoc test, since the p-value of Friedman's test is not below 0.005."
    assert "Critical difference" in table_of(results, **entry, post_hoc_below=0.999).notes[1]


def test_a_one_sided_test_has_a_smaller_critical_difference():
    for sides, name in ((1, "one-sided Bonferroni-Dunn"), (2, "Bonferroni-Dunn")):
        difference = critical_difference(4, 3, test="bonferroni-dunn", sides=sides)
        note = table_of(study(), ranks=True, friedman=True, sides=sides).notes[1]
        assert f"({name}): {difference:.4g}" in note


def test_ranks_within_rows_are_those_of_the_means():
    table = table_of(study(), ranks=True, rows=["data", "classifier"])
    expected = rankdata(values_of(table), axis=1)
    np.testing.assert_array_equal(ranks_of(table), expected)
    name, footer = table.footer[0]
    assert name == "average rank"
    np.testing.assert_allclose([cell.value for cell in footer], expected.mean(axis=0))


def test_average_ranks_are_taken_within_every_task_and_then_averaged():
    results = study()
    table = table_of(results, rows="classifier", show="average rank", friedman=True)
    by_task = values_of(table_of(results, rows=["data", "classifier"]))
    ranks = rankdata(by_task, axis=1).reshape(3, 2, 4)
    np.testing.assert_allclose(values_of(table), ranks.mean(axis=0))
    np.testing.assert_allclose([cell.value for cell in table.footer[0][1]], ranks.mean(axis=(0, 1)))
    statistic, p_value = friedmanchisquare(*by_task.T)
    assert f"chi-square {statistic:.4g}, p = {p_value:.3g}" in table.notes[0]


def test_larger_is_better_where_the_measure_says_so():
    results = crossed(noisy(), "accuracy", data=["a", "b"], calibrator=CALIBRATORS)
    table = make_table(results, TableOptions.parse({"name": "t", "measure": "accuracy", "ranks": True}))
    np.testing.assert_array_equal(ranks_of(table), rankdata(-values_of(table), axis=1))
    best = np.array([[cell.best for cell in line] for line in table.cells])
    np.testing.assert_array_equal(best, values_of(table) == values_of(table).max(axis=1, keepdims=True))


def test_the_table_may_say_itself_what_is_better():
    labels = [{"trial": "t", "noise": noise, "queries": q, "seed": 0} for noise in (1, 2) for q in ("a", "b")]
    results = sample(labels, [{"final": value} for value in (1.0, 2.0, 4.0, 3.0)])
    options = {"name": "t", "measure": "final", "rows": "noise", "columns": "queries", "ranks": True}
    low = make_table(results, TableOptions.parse(options))
    high = make_table(results, TableOptions.parse({**options, "better": "higher"}))
    np.testing.assert_array_equal(ranks_of(low), [[1, 2], [2, 1]])
    np.testing.assert_array_equal(ranks_of(high), [[2, 1], [1, 2]])


def test_measures_can_be_rows_or_columns():
    labels = [{"data": "d", "calibrator": c} for c in ("a", "b")]
    results = sample(labels, [{"log_loss": 1.0, "accuracy": 0.5}, {"log_loss": 2.0, "accuracy": 0.75}])
    options = {"name": "t", "measures": ["log_loss", "accuracy"]}
    rows = make_table(results, TableOptions.parse({**options, "rows": "measure", "ranks": True}))
    np.testing.assert_array_equal(values_of(rows), [[1, 2], [0.5, 0.75]])
    np.testing.assert_array_equal(ranks_of(rows), [[1, 2], [2, 1]])
    across = make_table(results, TableOptions.parse({**options, "rows": "calibrator", "columns": "measure"}))
    np.testing.assert_array_equal(values_of(across), [[1, 0.5], [2, 0.75]])
    assert not any(cell.best for line in across.cells for cell in line)


def test_the_best_is_marked_only_where_columns_compete():
    results = study()
    for columns, expected in (("calibrator", True), ("classifier", False)):
        table = table_of(results, columns=columns)
        assert any(cell.best for line in table.cells for cell in line) is expected
    ranked = table_of(results, columns="classifier", ranks=True)
    assert any(cell.best for line in ranked.cells for cell in line)


def test_an_infinite_loss_ranks_last_and_is_printed():
    results = crossed(
        lambda data, calibrator: math.inf if (data, calibrator) == ("a", "x") else 1.0 + len(calibrator),
        data=["a", "b"],
        calibrator=["x", "yy"],
    )
    table = table_of(results, ranks=True, spread="sd")
    np.testing.assert_array_equal(ranks_of(table), [[2, 1], [1, 2]])
    assert "∞ (2)" in printed(table)


# What is missing


def test_a_missing_unit_is_counted_and_splits_that_all_have_are_ranked():
    def value(calibrator, fold, **_):
        if calibrator == "beta" and fold == 2:
            return math.nan
        return {"none": [3.0, 3.0, -9.0], "beta": [1.0, 1.0, 0.0], "dirichlet": [2.0, 2.0, 9.0]}[calibrator][
            fold
        ]

    results = crossed(value, data=["d"], calibrator=["none", "beta", "dirichlet"], fold=[0, 1, 2])
    table = table_of(results, ranks=True)
    np.testing.assert_allclose(values_of(table), [[-1, 1, 13 / 3]])
    np.testing.assert_array_equal(ranks_of(table), [[3, 1, 2]])  # without fold 2, which would turn them round
    assert (table.cells[0][1].n_units, table.cells[0][1].n_planned) == (2, 3)
    text = printed(table)
    assert r"1.0000 (1) \[2 of 3\]" in text
    assert "1 row is ranked only on units that all columns have: d." in text
    assert "1 of 9 units of this table is missing" in text
    assert not any(cell.best for cell in table.cells[0])  # the means are not of the same units


def test_a_row_without_a_method_is_left_out_of_the_ranks_and_of_the_test():
    def value(data, calibrator, **_):
        return math.nan if (data, calibrator) == ("a", "beta") else float(ord(data) * len(calibrator) % 7)

    data = ["a", "b", "c", "d"]
    results = crossed(value, data=data, calibrator=CALIBRATORS, fold=[0, 1])
    table = table_of(results, ranks=True, friedman=True)
    assert np.isnan(ranks_of(table)[0]).all()
    assert not np.isnan(ranks_of(table)[1:]).any()
    np.testing.assert_allclose(
        [cell.value for cell in table.footer[0][1]], rankdata(values_of(table)[1:], axis=1).mean(axis=0)
    )
    assert (table.footer[0][1][0].n_units, table.footer[0][1][0].n_planned) == (3, 4)
    statistic = friedmanchisquare(*values_of(table)[1:].T).statistic
    assert f"on 3 rows: chi-square {statistic:.4g}" in table.notes[0]
    assert any("1 row is not ranked because" in note and note.endswith(": a.") for note in table.notes)
    assert r"– \[0 of 2\]" in printed(table)


def test_a_method_that_failed_everywhere_does_not_take_the_others_with_it():
    results = crossed(
        lambda data, calibrator: math.nan if calibrator == "beta" else len(data + calibrator) * 1.0,
        data=["a", "b", "c"],
        calibrator=CALIBRATORS,
    )
    table = table_of(results, ranks=True, friedman=True)
    assert "Friedman's test of 3 columns on 3 rows" in table.notes[0]
    assert "Not ranked because of missing numbers: beta." in table.notes
    np.testing.assert_array_equal(ranks_of(table)[:, [0, 2, 3]], [[1, 3, 2]] * 3)


def test_ranks_of_one_row_are_not_averaged():
    assert not table_of(study(), ranks=True, where={"data": "car"}).footer


def test_columns_can_be_shown_without_a_rank():
    table = table_of(study(), ranks=True, unranked=["none"])
    assert np.isnan(ranks_of(table)[:, 0]).all()
    np.testing.assert_array_equal(ranks_of(table)[:, 1:], rankdata(values_of(table)[:, 1:], axis=1))
    assert math.isnan(table.footer[0][1][0].value)
    assert not any("Not ranked because" in note for note in table.notes)


def test_units_of_trials_and_of_the_grid_are_ranked_together():
    labels = [{"data": "d", "calibrator": "a", "repeat": repeat} for repeat in (0, 1)]
    labels += [{"trial": "t", "data": "d", "calibrator": "b", "seed": seed} for seed in (0, 1, 2)]
    results = sample(labels, [{"log_loss": float(value)} for value in (5, 3, 1, 2, 3)])
    table = table_of(results, ranks=True)
    np.testing.assert_array_equal(ranks_of(table), [[2, 1]])


def test_an_empty_table_says_so():
    table = table_of(study(), where={"data": "nothing"})
    assert table_markdown(table) == "No unit of the plan belongs to this table.\n"
    assert table.to_csv().count("\n") == 1


def test_scores_without_a_classifier_have_rows_of_their_own():
    labels = [{"data": "d", "calibrator": "a"}, {"data": "e", "classifier": "tree", "calibrator": "a"}]
    table = table_of(sample(labels, [{"log_loss": 1.0}] * 2), rows=["data", "classifier"])
    assert table.rows == (("d", ""), ("e", "tree"))


# What papers print

KULL = {
    13: ([6, 3.5, 3.786, 2.929, 3.143, 1.643], 40.938776, 9.65e-08),
    14: ([5.643, 3.571, 4.679, 2.036, 3.25, 1.821], 44.958333, 1.48e-08),
    15: ([5.929, 2.786, 3.571, 3.429, 2.214, 3.071], 33.020408, 3.73e-06),
    16: ([5.714, 3.714, 3.786, 2.786, 2.286, 2.714], 30.530612, 1.16e-05),
    17: ([5.714, 2.5, 3.857, 2.786, 2.857, 3.286], 28.0, 3.64e-05),
    18: ([4.143, 4.143, 4.643, 2.107, 3.25, 2.714], 19.651899, 1.45e-03),
}


@pytest.mark.parametrize("number", KULL)
def test_average_ranks_and_statistics_of_printed_tables(number):
    averages, statistic, p_value = KULL[number]
    table = table_of(from_figures(NETWORKS / f"table_{number}.csv"), ranks=True, friedman=True, digits=5)
    np.testing.assert_allclose([cell.value for cell in table.footer[0][1]], averages, atol=5e-4)
    assert f"chi-square {statistic:.4g}, p = {p_value:.3g}" in table.notes[0]


@pytest.mark.parametrize("number", [13, 15, 16, 18])
def test_ranks_of_printed_tables_are_the_printed_ones(number):
    table = table_of(from_figures(NETWORKS / f"table_{number}.csv"), ranks=True)
    printed = read_figures(NETWORKS / f"table_{number}_ranks.csv", ("data",))
    for row, line in zip(table.rows, table.cells, strict=True):
        for column, cell in zip(table.columns, line, strict=True):
            assert int(cell.rank) == printed.value(row, column), (
                row,
                column,
            )  # ties are cut to whole numbers


def test_naive_bayes_of_the_paper_has_its_friedman_statistic():
    table = table_of(from_figures(STUDIES / "kull2019-uci" / "figures" / "table_04_ranks.csv"), friedman=True)
    assert table.notes[1].startswith(
        "Critical difference of average ranks at the 5 % level (Bonferroni-Dunn): 2.368 "
        "(2.359 with the constant 2.724 of published tables); worse than DirL2 by at least that: "
    )
    assert "on 20 rows: chi-square 97.9" in table.notes[0]


@given(
    values=st.lists(st.lists(st.integers(0, 5), min_size=3, max_size=3), min_size=2, max_size=6),
    tie=st.sampled_from(["average", "min"]),
    digits=st.integers(0, 2),
)
def test_ranks_of_rounded_numbers_with_ties(values, tie, digits):
    results = crossed(
        lambda data, calibrator: values[data][calibrator] / 8, data=range(len(values)), calibrator=range(3)
    )
    table = table_of(results, ranks=True, tie=tie, round_first=True, digits=digits)
    expected = rankdata(np.round(np.array(values) / 8, digits), method=tie, axis=1)
    np.testing.assert_array_equal(ranks_of(table), expected)
    best = np.array([[cell.best for cell in line] for line in table.cells])
    np.testing.assert_array_equal(best, rankdata(np.round(np.array(values) / 8, digits), "min", axis=1) == 1)


@given(
    missing=st.sets(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 2)), max_size=12),
    seed=st.integers(0, 5),
)
def test_nothing_that_is_missing_is_averaged_away(missing, seed):
    generator = np.random.default_rng(seed)
    numbers = generator.random((3, 3, 3))
    for place in missing:
        numbers[place] = np.nan
    results = crossed(
        lambda data, calibrator, fold: numbers[data, calibrator, fold],
        data=range(3),
        calibrator=range(3),
        fold=range(3),
    )
    table = table_of(results, ranks=True)
    for row, column in product(range(3), range(3)):
        cell = table.cells[row][column]
        there = numbers[row, column][~np.isnan(numbers[row, column])]
        assert (cell.n_units, cell.n_planned) == (len(there), 3)
        assert math.isnan(cell.value) if not len(there) else cell.value == pytest.approx(there.mean())
    empty = [column for column in range(3) if np.isnan(numbers[:, column]).all()]
    ranked = [column for column in range(3) if column not in empty]
    for row in range(3):
        whole = ~np.isnan(numbers[row][ranked]).any(axis=0) if ranked else np.zeros(3, bool)
        if not whole.any():
            assert np.isnan(ranks_of(table)[row]).all()
        else:
            means = numbers[row][ranked][:, whole].mean(axis=1)
            np.testing.assert_array_equal(ranks_of(table)[row, ranked], rankdata(means))


# Figures of papers beside


@pytest.fixture
def figures(tmp_path):
    (tmp_path / "figures.csv").write_text(
        "# Somebody (2020), Table 1\n\ndata,none,beta\niris,0.5,0.25\nparrot,1,2\n"
    )
    return tmp_path


def test_figures_stand_beside_with_the_difference(figures):
    results = crossed(lambda **_: 0.5, data=["iris", "car"], calibrator=["none", "beta"])
    table = table_of(results, figures, figures="figures.csv", digits=2)
    assert table.cells[0][1].paper == 0.25
    assert table.cells[0][1].difference == 0.25
    assert math.isnan(table.cells[1][0].paper)
    assert table_markdown(table).splitlines() == [
        "| data |            |     none |     beta |",
        "|------|------------|---------:|---------:|",
        "| iris | ours       | **0.50** | **0.50** |",
        "|      | paper      |     0.50 |     0.25 |",
        "|      | difference |     0.00 |    +0.25 |",
        "| car  | ours       | **0.50** | **0.50** |",
        "",
        "Only in the paper: the row parrot.",
    ]
    rows = list(csv.DictReader(StringIO(table.to_csv())))
    assert rows[1] == {
        "data": "iris", "calibrator": "beta", "ours": "0.5", "n_units": "1", "n_planned": "1", "sd": "",
        "rank": "", "paper": "0.25", "difference": "0.25",
    }  # fmt: skip


def test_average_ranks_of_the_paper_are_those_of_the_same_rows():
    results = from_figures(NETWORKS / "table_13.csv")
    options = {"figures": "table_13.csv", "ranks": True, "where": {"data": ["c10_convnet", "c10_lenet5"]}}
    table = table_of(results, NETWORKS, **options)
    assert [cell.paper for cell in table.footer[0][1]] == [6, 3, 3, 2.5, 4.5, 2]
    assert all(cell.difference == 0 for line in table.cells for cell in line)
    assert any("Only in the paper: the rows c10_densenet40" in note for note in table.notes)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "no header"),
        ("name,none\n", "begin with the columns name"),
        ("data\niris\n", "begin with the columns data"),
        ("data,none,none\n", "a column twice"),
        ("data,none\niris\n", "line 2, have 1 fields instead of 2"),
        ("# a\ndata,none\niris,1\niris,2\n", "line 4, repeat the row iris; give it once"),
        ("data,none\niris,one\n", "line 2, have 'one' where a number should be"),
    ],
)
def test_figures_that_are_none_are_refused(tmp_path, content, words):
    (tmp_path / "f.csv").write_text(content)
    with pytest.raises(RecipeError, match=words):
        read_figures(tmp_path / "f.csv", ("data",))


def test_absent_figures_are_refused(tmp_path):
    with pytest.raises(RecipeError, match=r"f\.csv cannot be read: no such file"):
        read_figures(tmp_path / "f.csv", ("data",))


# Options


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({}, "must have a name"),
        ({"name": "../x", "measure": "log_loss"}, "must have a name of letters"),
        ({"name": "t"}, "names no measure"),
        ({"name": "t", "measure": "log_los"}, "asks for the measure 'log_los'"),
        ({"name": "t", "measure": "log_loss", "digit": 3}, "unknown key 'digit'; did you mean 'digits'"),
        ({"name": "t", "measure": "log_loss", "digits": 2.5}, "digits must be an integer"),
        ({"name": "t", "measure": "log_loss", "show": "mean"}, "show must be one of value, average rank"),
        ({"name": "t", "measure": "log_loss", "ranks": 1}, "ranks must be true or false, not 1"),
        ({"name": "t", "measure": "log_loss", "scale": True}, "scale must be a number, not True"),
        ({"name": "t", "measure": "log_loss", "rows": []}, "rows must be a list with at least one value"),
        ({"name": "t", "measure": "log_loss", "rows": "calibrator"}, "for rows and columns"),
        ({"name": "t", "measures": ["log_loss", "fit_seconds"]}, "2 measures, which must be its rows"),
        (
            {"name": "t", "measure": "log_loss", "columns": "measure", "rows": "data", "ranks": True},
            "cannot rank measures",
        ),
    ],
)
def test_options_without_meaning_are_refused(entry, words):
    with pytest.raises(RecipeError, match=words):
        TableOptions.parse(entry, ["log_loss"])
