"""Wilcoxon's signed rank test against all patterns of signs and scipy, for pairs of methods."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata, wilcoxon

from calibrant.errors import ParameterError
from calibrant.ranking import holm, wilcoxon_holm
from calibrant.ranking.wilcoxon import MAX_EXACT, signed_rank_p_value

RULES = ["pratt", "wilcox", "zsplit"]


def share_of_patterns(differences, rule):
    """Try every pattern of signs: how many are at least as far from an even split?"""
    if rule == "wilcox":
        differences = [d for d in differences if d != 0]
    if not differences:
        return 1.0
    places = rankdata(np.abs(differences))
    found = abs(sum(np.sign(d) * place for d, place in zip(differences, places, strict=True)))
    free = [p for d, p in zip(differences, places, strict=True) if d != 0 or rule == "zsplit"]
    sums = [
        abs(sum(s * p for s, p in zip(signs, free, strict=True)))
        for signs in product([-1, 1], repeat=len(free))
    ]
    return sum(s >= found - 1e-9 for s in sums) / len(sums)


@given(
    differences=st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=9), rule=st.sampled_from(RULES)
)
def test_it_is_the_share_of_all_patterns_of_signs(differences, rule):
    expected = share_of_patterns(differences, rule)
    assert signed_rank_p_value(np.array(differences), rule) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n_tasks", [5, 20, 50, MAX_EXACT])
def test_without_ties_and_zeros_it_is_exactly_that_of_scipy(n_tasks):
    differences = np.random.default_rng(n_tasks).normal(0.2, 1, n_tasks)
    expected = wilcoxon(differences, method="exact").pvalue
    for rule in RULES:
        assert signed_rank_p_value(differences, rule) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("rule", RULES)
def test_many_tasks_use_the_normal_distribution_of_scipy(rule):
    """With ties and zeros; scipy names the same three rules."""
    differences = np.random.default_rng(3).integers(-20, 24, 4 * MAX_EXACT).astype(float)
    assert (differences == 0).any()
    expected = wilcoxon(differences, zero_method=rule, method="asymptotic").pvalue
    assert signed_rank_p_value(differences, rule) == pytest.approx(expected, rel=2e-3)


def test_exact_and_normal_meet_where_one_takes_over():
    differences = np.random.default_rng(0).normal(0.2, 1, MAX_EXACT + 1)
    normal = signed_rank_p_value(differences, "pratt")
    exact = wilcoxon(differences, method="exact").pvalue
    assert normal == pytest.approx(exact, rel=0.05)


@pytest.mark.parametrize("rule", RULES)
def test_pairs_that_are_equal_everywhere_get_one(rule):
    table = np.column_stack([np.arange(6.0), np.arange(6.0), np.arange(6.0) + 1])
    result = wilcoxon_holm(table, zero_method=rule)
    assert result.raw_p_values[0, 1] == result.p_values[0, 1] == 1.0
    assert result.raw_p_values[0, 2] == pytest.approx(2 / 2**6)
    assert result.zero_method == rule


def test_all_pairs_with_holm():
    """Columns that differ by constants of one sign on 8 tasks: 2 / 2^8 for each of three pairs."""
    base = np.random.default_rng(0).random(8)
    noise = np.linspace(0.1, 0.2, 8)
    result = wilcoxon_holm(np.column_stack([base, base + noise, base + 3 * noise]))
    raw = 2 / 2**8
    assert result.raw_p_values[np.triu_indices(3, 1)] == pytest.approx([raw] * 3)
    assert result.p_values[np.triu_indices(3, 1)] == pytest.approx(holm([raw] * 3))
    np.testing.assert_array_equal(result.p_values, result.p_values.T)
    np.testing.assert_array_equal(np.diag(result.p_values), 1.0)
    np.testing.assert_array_equal(result.average_ranks, [1, 2, 3])


def test_infinite_losses_are_the_largest_differences_and_tie():
    """Replaced by a number beyond all others, infinities give the same."""
    inf = float("inf")
    table = np.array([[inf, 0.2], [inf, inf], [inf, 0.4], [0.3, 0.1], [0.2, 0.25]])
    expected = wilcoxon_holm(np.where(np.isinf(table), 1e300, table))
    np.testing.assert_array_equal(wilcoxon_holm(table).p_values, expected.p_values)


@given(st.integers(0, 10**6))
def test_the_direction_does_not_matter_for_two_sides(seed):
    table = np.random.default_rng(seed).integers(0, 5, (7, 3)).astype(float)
    one, other = wilcoxon_holm(table), wilcoxon_holm(-table, higher_is_better=True)
    np.testing.assert_array_equal(one.p_values, other.p_values)
    np.testing.assert_array_equal(one.average_ranks, other.average_ranks)


def test_an_unknown_rule_for_zeros_is_refused():
    with pytest.raises(ParameterError, match="zero_method must be 'pratt'"):
        wilcoxon_holm([[0.1, 0.2]], zero_method="drop")


@pytest.mark.slow
def test_some_false_difference_among_equal_methods_is_rare():
    """3000 tables of noise: Holm keeps the chance of any false difference of six pairs at 5 % or less."""
    tables = np.random.default_rng(7).normal(size=(3000, 15, 4))
    rate = np.mean([wilcoxon_holm(table).p_values.min() <= 0.05 for table in tables])
    assert 0.01 < rate < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 3000)


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e9])
def test_decimals_tie_as_whole_numbers_do(scale):
    """Two-decimal losses have the p-values of the same numbers times a hundred, which computers hold exactly."""
    generator = np.random.default_rng(0)
    for _ in range(50):
        whole = generator.integers(0, 120, (12, 3)).astype(float)
        ours = wilcoxon_holm(whole / 100 * scale)
        np.testing.assert_allclose(ours.raw_p_values, wilcoxon_holm(whole).raw_p_values, rtol=1e-12)
