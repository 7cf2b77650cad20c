"""Tables of results and the ranks in them, against a loop that counts."""

from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from calibrant.errors import CalibrationWarning, ParameterError
from calibrant.ranking import (
    average_ranks,
    bonferroni_dunn_test,
    friedman_test,
    nemenyi_test,
    ranks,
    wilcoxon_holm,
)
from calibrant.ranking.ranks import StudyTable

# Few different numbers, so that ties are frequent, and infinities.
NUMBERS = st.sampled_from([0.0, 0.25, 0.5, 1.0, float("inf"), -float("inf")])
TABLES = hnp.arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(2, 5)), elements=NUMBERS)


def counted_rank(row, j, ties):
    """One more than those before it, plus half of the others that are equal."""
    before = sum(x < row[j] for x in row)
    equals = sum(x == row[j] for x in row) - 1
    return 1 + before + (equals / 2 if ties == "average" else 0)


@given(table=TABLES, ties=st.sampled_from(["average", "min"]), turned=st.booleans())
def test_ranks_are_counts_of_better_ones(table, ties, turned):
    expected = [
        [counted_rank(row, j, ties) for j in range(len(row))]
        for row in (-table if turned else table).tolist()
    ]
    np.testing.assert_array_equal(ranks(table, higher_is_better=turned, ties=ties), expected)


@given(table=TABLES)
def test_averaged_ties_keep_the_sum_of_ranks(table):
    n_methods = table.shape[1]
    assert ranks(table).sum(axis=1) == pytest.approx(n_methods * (n_methods + 1) / 2)
    assert average_ranks(table).mean() == pytest.approx((n_methods + 1) / 2)


@given(table=TABLES, order=st.randoms(use_true_random=False))
def test_the_order_of_methods_and_tasks_does_not_matter(table, order):
    columns = list(range(table.shape[1]))
    rows = list(range(len(table)))
    order.shuffle(columns)
    order.shuffle(rows)
    np.testing.assert_array_equal(ranks(table[rows][:, columns]), ranks(table)[rows][:, columns])


def test_an_infinite_loss_ranks_last_and_infinities_tie():
    inf = float("inf")
    np.testing.assert_array_equal(ranks([[inf, 0.1, 0.2], [inf, 0.3, inf]]), [[3, 1, 2], [2.5, 1, 2.5]])
    np.testing.assert_array_equal(ranks([[-inf, 0.1, 0.2]], higher_is_better=True), [[3, 2, 1]])


def test_rounding_first_makes_ties():
    row = [[0.1234, 0.1233, 0.11]]
    np.testing.assert_array_equal(ranks(row), [[3, 2, 1]])
    np.testing.assert_array_equal(ranks(row, decimals=3), [[2.5, 2.5, 1]])
    np.testing.assert_array_equal(ranks(row, decimals=3, ties="min"), [[2, 2, 1]])


def test_frames_name_their_methods():
    columns = {"beta": [0.1, 0.2], "isotonic": [0.3, 0.1], "none": [0.5, 0.4]}
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns)):
        result = friedman_test(frame)
        assert result.methods == ("beta", "isotonic", "none")
        np.testing.assert_array_equal(result.average_ranks, [1.5, 1.5, 3])
    assert friedman_test([[0.1, 0.2], [0.2, 0.1]]).methods == ("0", "1")


@pytest.mark.parametrize("function", [ranks, average_ranks, friedman_test, nemenyi_test, wilcoxon_holm])
def test_incomplete_tasks_are_counted_and_left_out(function):
    whole = [[0.1, 0.2, 0.3], [0.4, 0.3, 0.6], [0.2, 0.5, 0.1]]
    holes = [*whole, [0.1, np.nan, 0.2], [np.nan, np.nan, 0.2]]
    with pytest.warns(
        CalibrationWarning, match="2 of 5 tasks lack a result, the first in row 3 for the method '1'"
    ) as w:
        result = function(holes)
    assert {warning.filename for warning in w} == {__file__}
    expected = function(whole)
    if isinstance(result, np.ndarray):
        np.testing.assert_array_equal(result, expected)
    else:
        assert result.n_tasks == 3
        np.testing.assert_array_equal(result.average_ranks, expected.average_ranks)
    with pytest.raises(ParameterError, match="2 of 5 tasks lack a result"):
        function(holes, missing="raise")


def test_what_counts_as_missing():
    expected = [[1, 2]]
    for table in (
        [[0.1, 0.2], [None, 0.3]],
        pd.DataFrame({"a": [0.1, None], "b": [0.2, 0.3]}),
        pl.DataFrame({"a": [0.1, None], "b": [0.2, 0.3]}),
        np.ma.masked_array([[0.1, 0.2], [0.3, 0.4]], mask=[[0, 0], [1, 0]]),
    ):
        with pytest.warns(CalibrationWarning, match="1 of 2 tasks"):
            np.testing.assert_array_equal(ranks(table), expected)


def test_the_table_is_left_as_it_was():
    table = np.array([[0.2, 0.1], [0.3, 0.4]])
    table.flags.writeable = False
    friedman_test(table, higher_is_better=True)
    nemenyi_test(table)
    wilcoxon_holm(table)
    ranks(table, decimals=1)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([0.1, 0.2], r"has shape \(2,\)"),
        ([[0.1], [0.2]], r"has shape \(2, 1\)"),
        ([[0.1, "x"]], "one real number for every task and method"),
        ([[0.1, 0.2], [0.3]], "same length"),
        ([[0.1, 0.2j], [0.3, 0.4]], "one real number for every task and method"),
        (np.ma.masked_array([[0.1, 0.2j]], mask=[[0, 0]]), "one real number for every task and method"),
        (np.ma.masked_array([["a", "b"]], mask=[[0, 0]]), "one real number for every task and method"),
        (pd.DataFrame({"a": [1j], "b": [2.0]}), "one real number for every task and method"),
    ],
)
def test_what_is_not_a_table_is_refused(table, message):
    with pytest.raises(ParameterError, match=message):
        ranks(table)


@pytest.mark.parametrize("wrong", ["a", "False", None, 2, np.array([True, False])], ids=repr)
def test_the_direction_is_true_or_false(wrong):
    """Any string would be true."""
    table = [[0.1, 0.2], [0.2, 0.3]]
    for function in (
        ranks,
        average_ranks,
        friedman_test,
        nemenyi_test,
        wilcoxon_holm,
        partial(bonferroni_dunn_test, control=0),
    ):
        with pytest.raises(ParameterError, match="higher_is_better must be True or False, not"):
            function(table, higher_is_better=wrong)
    with pytest.raises(ParameterError, match="correct_for_ties must be True or False, not"):
        friedman_test(table, correct_for_ties=wrong)
    np.testing.assert_array_equal(ranks(table, higher_is_better=np.True_), [[2, 1], [2, 1]])


def test_bad_options_are_refused():
    table = [[0.1, 0.2], [0.2, 0.3]]
    with pytest.raises(ParameterError, match="ties must be"):
        ranks(table, ties="max")
    with pytest.raises(ParameterError, match="decimals must be"):
        ranks(table, decimals=1.5)
    with pytest.raises(ParameterError, match="missing must be"):
        ranks(table, missing="ignore")
    with pytest.raises(ParameterError, match="2 different names"):
        StudyTable.parse(table, names=["a", "a"])
    with pytest.raises(ParameterError, match="at least 2 complete tasks are needed, but there is 1;"):
        friedman_test(table[:1])
    with (
        pytest.warns(CalibrationWarning, match="1 of 1 task lacks a result, .*; it is left out"),
        pytest.raises(ParameterError, match="at least 1 complete task is needed, but there are 0"),
    ):
        average_ranks([[np.nan, 0.1]])
