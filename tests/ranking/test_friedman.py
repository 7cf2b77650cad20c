"""Friedman's test against scipy, the analysis of variance of ranks, and cases with a known answer."""

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import binomtest, chi2, friedmanchisquare

from calibrant.ranking import friedman_test, ranks

TABLES = hnp.arrays(
    np.float64,
    st.tuples(st.integers(2, 7), st.integers(3, 5)),
    elements=st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]),
)


@given(table=TABLES)
def test_it_is_the_statistic_of_scipy(table):
    assume((table != table[:, :1]).any())
    expected = friedmanchisquare(*table.T)
    result = friedman_test(table)
    assert result.statistic == pytest.approx(expected.statistic, rel=1e-10, abs=1e-10)
    assert result.p_value == pytest.approx(expected.pvalue, rel=1e-9)


@given(table=TABLES)
def test_the_f_form_is_the_analysis_of_variance_of_ranks(table):
    """Rows and columns as factors: between methods over what neither explains, by sums of squares."""
    given_ranks = ranks(table)
    n_tasks, n_methods = table.shape
    averages = given_ranks.mean(axis=0)
    between = n_tasks * ((averages - averages.mean()) ** 2).sum() / (n_methods - 1)
    left = ((given_ranks - averages) ** 2).sum() / ((n_methods - 1) * (n_tasks - 1))
    assume(left > 1e-9)
    assert friedman_test(table).f_statistic == pytest.approx(between / left, rel=1e-9, abs=1e-9)


@given(table=TABLES)
def test_the_direction_turns_the_ranks_and_nothing_else(table):
    one, other = friedman_test(table), friedman_test(-table, higher_is_better=True)
    back = friedman_test(table, higher_is_better=True)
    np.testing.assert_array_equal(one.average_ranks, other.average_ranks)
    assert back.statistic == pytest.approx(one.statistic, rel=1e-12, abs=1e-12)
    assert back.average_ranks == pytest.approx(table.shape[1] + 1 - one.average_ranks)


def test_the_same_order_everywhere_gives_the_largest_statistic():
    """N (k - 1) = 5 x 3, and an F beyond all bounds; four more tasks agree with the first one by 1/24 each."""
    result = friedman_test([[1, 2, 3, 4]] * 5)
    assert result.statistic == pytest.approx(15, rel=1e-14)
    assert result.p_value == pytest.approx(chi2.sf(15, 3))
    assert result.f_statistic == float("inf")
    assert result.f_p_value == pytest.approx(24.0**-4, rel=1e-12)


@pytest.mark.parametrize("first", [(1.0, 2.0), (1.0, 2.0, 3.0), (1.0, 2.0, 2.0), (1.0, 1.0, 2.0, 2.0)])
@pytest.mark.parametrize("n_tasks", [2, 3])
def test_the_chance_that_all_tasks_agree_is_counted(first, n_tasks):
    """Of all orders of the other tasks, each equally likely, exactly the share p gives an infinite F."""
    orders = list(permutations(first))
    tables = [[first, *others] for others in product(orders, repeat=n_tasks - 1)]
    share = np.mean([friedman_test(table).f_statistic == float("inf") for table in tables])
    assert friedman_test([first] * n_tasks).f_p_value == pytest.approx(share, rel=1e-12)


def test_two_methods_on_two_tasks_show_nothing():
    """Two tasks agree half of the time."""
    assert str(friedman_test([[2, 3], [3, 4]])).endswith("F inf, p = 0.5.")


def test_no_p_value_is_printed_as_zero():
    words = str(friedman_test([[1, 2]] * 2000))
    assert "chi-square 2000, p < 1e-300; F inf, p < 1e-300." in words


def test_methods_that_tie_everywhere_do_not_differ():
    result = friedman_test(np.ones((4, 3)))
    assert (result.statistic, result.p_value, result.f_statistic, result.f_p_value) == (0.0, 1.0, 0.0, 1.0)


def test_two_methods_give_the_sign_test():
    """8 of 10 wins: (8 - 2)^2 / 10 = 3.6, the square of the normal approximation of the binomial."""
    table = [[1, 2]] * 8 + [[2, 1]] * 2
    result = friedman_test(table)
    assert result.statistic == pytest.approx(3.6)
    assert result.p_value == pytest.approx(binomtest(8, 10).pvalue, abs=0.06)


def test_without_the_correction_ties_make_it_smaller():
    """Three methods, two of which tie everywhere: 12/(3 x 4) x N (1 + 2 x 2.5^2 - 12) against the corrected 2 N."""
    table = [[0.1, 0.2, 0.2]] * 6
    assert friedman_test(table).statistic == pytest.approx(12)
    assert friedman_test(table, correct_for_ties=False).statistic == pytest.approx(6 * (1 + 2 * 2.5**2 - 12))


def test_it_says_what_it_found():
    text = str(friedman_test([[1, 2, 3], [1, 3, 2], [1, 2, 3]]))
    assert text.startswith("Friedman's test of 3 methods on 3 tasks: chi-square 4.667, p = 0.097; F 7, p = ")


@pytest.mark.slow
def test_the_level_is_kept():
    """4000 tables of noise: rejections at 0.05 within four binomial errors; the F form is a little liberal."""
    generator = np.random.default_rng(0)
    tables = generator.random((4000, 20, 5))
    p_values = np.array([(r.p_value, r.f_p_value) for r in map(friedman_test, tables)])
    rates = (p_values <= 0.05).mean(axis=0)
    assert rates == pytest.approx([0.05, 0.05], abs=4 * np.sqrt(0.05 * 0.95 / 4000) + 0.005)
