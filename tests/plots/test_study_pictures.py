"""Pictures of studies: critical differences against the ranking module, and shares of tests passed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose
from scipy.stats import beta

from calibrant.errors import CalibrationWarning, ParameterError
from calibrant.plots import CriticalDifferenceDisplay, PassRateDisplay
from calibrant.ranking import average_ranks, bonferroni_dunn_test, critical_difference, nemenyi_test

NAMES = ["none", "temperature", "beta", "dirichlet"]
TABLES = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 12), st.integers(2, 6)),
    elements=st.integers(0, 9).map(lambda number: number / 10),
)


@pytest.fixture(scope="module")
def losses():
    return np.random.default_rng(0).normal([0.5, 0.35, 0.31, 0.29], 0.1, (20, 4))


# Critical differences


@given(table=TABLES, higher=st.booleans())
def test_numbers_are_those_of_the_ranking_module(table, higher):
    display = CriticalDifferenceDisplay.from_table(table, higher_is_better=higher)
    result = nemenyi_test(table, higher_is_better=higher)
    assert_allclose(display.average_ranks, average_ranks(table, higher_is_better=higher))
    assert display.critical_difference == result.critical_difference
    assert display.groups == result.groups()


def test_constant_results_are_one_group():
    """All methods tie at (k + 1) / 2."""
    display = CriticalDifferenceDisplay.from_table(np.ones((5, 4)), names=NAMES)
    assert_allclose(display.average_ranks, 2.5)
    assert display.groups == [tuple(NAMES)]


def test_methods_that_always_come_in_the_same_order_differ_with_enough_tasks():
    display = CriticalDifferenceDisplay.from_table(np.tile([1.0, 2.0, 3.0], (50, 1)))
    assert display.average_ranks.tolist() == [1, 2, 3]
    assert display.groups == []


def test_a_control_is_compared_by_bonferroni_dunn(losses):
    display = CriticalDifferenceDisplay.from_table(
        losses, names=NAMES, test="bonferroni-dunn", control="dirichlet", alpha=0.01
    )
    result = bonferroni_dunn_test(losses, 3, alpha=0.01)
    assert display.critical_difference == critical_difference(4, 20, test="bonferroni-dunn", alpha=0.01)
    same = {name for name, p in zip(NAMES, result.p_values, strict=True) if p >= 0.01}
    assert set(display.groups[0]) == same


def test_a_control_that_differs_from_all_has_no_group():
    table = np.tile([1.0, 2.0, 3.0], (200, 1))
    display = CriticalDifferenceDisplay.from_table(
        table, names=list("abc"), test="bonferroni-dunn", control="a"
    )
    assert display.groups == []


def test_the_table_is_sorted_from_best_to_worst(losses):
    display = CriticalDifferenceDisplay.from_table(losses, names=NAMES)
    columns = display.columns()
    assert (np.diff(columns["average_rank"]) >= 0).all()
    for method, numbers in zip(columns["method"], columns["groups"], strict=True):
        inside = [str(place) for place, group in enumerate(display.groups, start=1) if method in group]
        assert numbers == " ".join(inside)


def test_frames_bring_their_names(losses):
    pd = pytest.importorskip("pandas")
    display = CriticalDifferenceDisplay.from_table(pd.DataFrame(losses, columns=NAMES))
    assert display.methods == tuple(NAMES)
    assert display.frame()["method"].tolist() == display.columns()["method"].tolist()


def test_incomplete_tasks_are_left_out_with_a_warning(losses):
    holed = losses.copy()
    holed[3, 1] = np.nan
    with pytest.warns(CalibrationWarning, match="1 of 20 tasks lacks a result"):
        display = CriticalDifferenceDisplay.from_table(holed, names=NAMES)
    assert display.n_tasks == 19


@pytest.mark.parametrize(
    "options",
    [{"control": "beta"}, {"test": "bonferroni-dunn"}, {"test": "bonferroni-dunn", "control": "nobody"}],
)
def test_a_control_goes_with_its_test(losses, options):
    with pytest.raises(ParameterError, match="control must be one of the methods"):
        CriticalDifferenceDisplay.from_table(losses, names=NAMES, **options)


# Shares of tests passed


@given(table=hnp.arrays(np.float64, st.tuples(st.integers(1, 10), st.just(3)), elements=st.floats(0, 1)))
def test_shares_are_counted(table):
    display = PassRateDisplay.from_p_values(table)
    naive = [sum(1 for p in column if p > 0.05) / len(table) for column in table.T]
    assert_allclose(display.rates, naive)
    assert (display.low <= display.rates).all()
    assert (display.rates <= display.high).all()


def test_intervals_are_those_of_the_binomial_distribution():
    """Seven of ten: beta quantiles at 2.5 and 97.5 %."""
    table = np.column_stack([np.repeat([0.5, 0.01], [7, 3]), np.full(10, 0.3)])
    display = PassRateDisplay.from_p_values(table, names=["some", "all"])
    assert display.low[0] == pytest.approx(beta.ppf(0.025, 7, 4))
    assert display.high[0] == pytest.approx(beta.ppf(0.975, 8, 3))
    assert display.high[1] == 1
    assert display.columns()["method"].tolist() == ["all", "some"]


def test_a_p_value_at_the_level_does_not_pass():
    assert PassRateDisplay.from_p_values([[0.05, 0.0500001]]).passed.tolist() == [0, 1]


def test_statistics_are_no_p_values():
    with pytest.raises(
        ParameterError, match=r"between 0 and 1, but row 1 of the complete tasks has 3 for '0'"
    ):
        PassRateDisplay.from_p_values([[0.1, 0.2], [3.0, 0.1]])


def test_levels_without_meaning_are_refused():
    for options in ({"alpha": 0.0}, {"level": 2.0}):
        with pytest.raises(ParameterError, match=next(iter(options))):
            PassRateDisplay.from_p_values([[0.1, 0.2]], **options)
