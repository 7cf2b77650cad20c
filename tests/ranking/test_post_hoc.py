"""Nemenyi, Bonferroni-Dunn, their critical differences, Holm and the groups of a diagram."""

from itertools import combinations
from math import erfc, sqrt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, studentized_range

from calibrant.errors import ParameterError
from calibrant.ranking import (
    bonferroni_dunn_test,
    critical_difference,
    groups_without_difference,
    holm,
    nemenyi_test,
)
from calibrant.ranking.critical_difference import normal_range_quantile, normal_range_tail

# AUC of four classifiers on fourteen data sets, Demsar (2006), table 6.
AUC = [
    (0.763, 0.768, 0.771, 0.798),
    (0.599, 0.591, 0.590, 0.569),
    (0.954, 0.971, 0.968, 0.967),
    (0.628, 0.661, 0.654, 0.657),
    (0.882, 0.888, 0.886, 0.898),
    (0.936, 0.931, 0.916, 0.931),
    (0.661, 0.668, 0.609, 0.685),
    (0.583, 0.583, 0.563, 0.625),
    (0.775, 0.838, 0.866, 0.875),
    (1.000, 1.000, 1.000, 1.000),
    (0.940, 0.962, 0.965, 0.962),
    (0.619, 0.666, 0.614, 0.669),
    (0.972, 0.981, 0.975, 0.975),
    (0.957, 0.978, 0.946, 0.970),
]


@pytest.mark.parametrize("width", [0.0, 0.3, 2.0, 5.0, 12.0, 30.0])
def test_the_range_of_two_is_their_difference(width):
    """X - Y has variance 2, so P(|X - Y| > r) = erfc(r / 2), to all digits however small."""
    assert float(normal_range_tail(width, 2)) == pytest.approx(erfc(width / 2), rel=1e-11)


@pytest.mark.parametrize("count", [3, 9, 40])
def test_the_range_is_the_studentized_range_without_end_of_freedom(count):
    for width in (0.5, 2.0, 3.5, 6.0):
        expected = studentized_range.sf(width, count, np.inf)
        assert float(normal_range_tail(width, count)) == pytest.approx(expected, abs=1e-12)
    assert normal_range_quantile(0.05, count) == pytest.approx(
        studentized_range.ppf(0.95, count, np.inf), rel=1e-9
    )


def test_far_tails_of_the_range_are_those_of_all_pairs():
    """For a wide range, P = k (k - 1) / 2 erfc(r / 2) up to the rare overlap of two wide pairs."""
    assert float(normal_range_tail(20.0, 10)) == pytest.approx(45 * erfc(10), rel=1e-9)


def test_the_range_takes_many_methods_and_widths_at_once():
    tails = normal_range_tail([[0.0, 1.0], [50.0, 1e4]], 1000)
    assert tails[0] == pytest.approx(1.0)
    assert tails[1, 0] < 1e-200
    assert tails[1, 1] == 0.0


@pytest.mark.parametrize("alpha", [0.2, 0.05, 1e-3, 1e-12])
@pytest.mark.parametrize("n_methods", [2, 5, 25])
def test_nemenyi_p_values_reach_alpha_at_the_critical_difference(n_methods, alpha):
    error = sqrt(n_methods * (n_methods + 1) / (6 * 30))
    distance = critical_difference(n_methods, 30, alpha=alpha)
    assert float(normal_range_tail(sqrt(2) * distance / error, n_methods)) == pytest.approx(alpha, rel=1e-6)


@pytest.mark.parametrize("n_methods", [2, 3, 9, 30])
def test_bonferroni_dunn_is_a_normal_quantile(n_methods):
    error = sqrt(n_methods * (n_methods + 1) / (6 * 12))
    for sides in (1, 2):
        given_difference = critical_difference(n_methods, 12, test="bonferroni-dunn", alpha=0.1, sides=sides)
        assert given_difference == pytest.approx(
            norm.ppf(1 - 0.1 / (sides * (n_methods - 1))) * error, rel=1e-12
        )


def test_two_methods_need_no_correction():
    """All pairs and one control are then the same single comparison."""
    one = critical_difference(2, 7)
    assert one == pytest.approx(critical_difference(2, 7, test="bonferroni-dunn"), rel=1e-12)
    assert one == pytest.approx(norm.ppf(0.975) * sqrt(1 / 7), rel=1e-12)


def test_nemenyi_agrees_with_scikit_posthocs():
    """Figures of posthoc_nemenyi_friedman in scikit-posthocs 0.17.1."""
    expected = [
        [1, 0.088672709289, 0.971686471302, 0.061683258912],
        [0.088672709289, 1, 0.226696886026, 0.998882343982],
        [0.971686471302, 0.226696886026, 1, 0.170051635664],
        [0.061683258912, 0.998882343982, 0.170051635664, 1],
    ]
    assert nemenyi_test(AUC, higher_is_better=True).p_values == pytest.approx(np.array(expected), abs=1e-11)


def test_nemenyi_finds_differences_that_reach_the_critical_one():
    generator = np.random.default_rng(1)
    table = generator.normal(size=(25, 6)) + np.arange(6) * 0.5
    result = nemenyi_test(table, alpha=0.03)
    far = np.abs(result.average_ranks[:, None] - result.average_ranks) >= result.critical_difference
    np.testing.assert_array_equal(result.p_values <= 0.03, far)
    assert far.any()
    assert not far.all()


def test_a_control_against_all_others_by_hand():
    """z = difference of average ranks / error, doubled tails, times three."""
    names = ["C4.5", "m", "cf", "both"]
    result = bonferroni_dunn_test(pd.DataFrame(AUC, columns=names), "C4.5", higher_is_better=True)
    error = sqrt(4 * 5 / (6 * 14))
    for j in range(1, 4):
        z = (result.average_ranks[j] - result.average_ranks[0]) / error
        assert result.z[j] == pytest.approx(z)
        assert result.p_values[j] == pytest.approx(min(1, 3 * 2 * norm.sf(abs(z))))
    assert (result.p_values[0], result.z[0], result.control) == (1.0, 0.0, "C4.5")


def test_one_side_finds_only_methods_worse_than_the_control():
    table = np.array([[1.0, 2.0, 3.0]] * 12)
    one_side = bonferroni_dunn_test(table, 1, sides=1).p_values
    two_sides = bonferroni_dunn_test(table, 1).p_values
    assert one_side[0] == 1.0
    assert one_side[2] == pytest.approx(two_sides[2] / 2)
    assert two_sides[0] == two_sides[2] < 0.05


@given(p_values=st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_is_its_definition(p_values):
    """In increasing order, the largest so far of the p-values times the number of those not yet treated."""
    expected, largest = {}, 0.0
    for place, i in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[i]))
        expected[i] = largest
    assert holm(p_values) == pytest.approx([expected[i] for i in range(len(p_values))], abs=1e-15)


def test_holm_agrees_with_statsmodels():
    """Figures of multipletests(method="holm") in statsmodels 0.15.0; the text-book example."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert len(holm([])) == 0


def naive_groups(ranks, distance, names):
    """All sets of two or more within the distance, without those inside another."""
    sets = [
        set(members)
        for size in range(2, len(ranks) + 1)
        for members in combinations(range(len(ranks)), size)
        if max(ranks[i] for i in members) - min(ranks[i] for i in members) < distance
    ]
    return {frozenset(names[i] for i in s) for s in sets if not any(s < other for other in sets)}


@given(
    ranks=st.lists(st.integers(4, 24).map(lambda n: n / 4), min_size=2, max_size=7),
    distance=st.integers(1, 12).map(lambda n: n / 4 + 0.1),
)
def test_groups_are_the_maximal_sets_within_the_distance(ranks, distance):
    names = [f"m{i}" for i in range(len(ranks))]
    found = groups_without_difference(ranks, distance, methods=names)
    assert {frozenset(group) for group in found} == naive_groups(ranks, distance, names)
    assert len(found) == len({frozenset(group) for group in found})


def test_a_difference_of_exactly_the_critical_one_counts():
    assert groups_without_difference([1.0, 2.0], 1.0) == []
    assert groups_without_difference([1.0, 2.0], 1.0 + 1e-9) == [("0", "1")]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: critical_difference(1, 10), "n_methods must be"),
        (lambda: critical_difference(3, 0), "n_tasks must be"),
        (lambda: critical_difference(3, 10, alpha=1.0), "alpha must lie"),
        (lambda: critical_difference(3, 10, test="dunn"), "test must be"),
        (lambda: critical_difference(3, 10, sides=1), "sides must be 2, or 1"),
        (lambda: bonferroni_dunn_test(AUC, 4), "control must be one of"),
        (lambda: bonferroni_dunn_test(AUC, "x"), "control must be one of"),
        (lambda: bonferroni_dunn_test(AUC, 0, sides=3), "sides must be 1 or 2"),
        (lambda: nemenyi_test(AUC, alpha=0), "alpha must lie"),
        (lambda: holm([0.5, np.nan]), "from 0 to 1"),
        (lambda: holm([[0.5]]), "flat array"),
        (lambda: holm(["a"]), "flat array of numbers"),
        (lambda: holm(None), "flat array of numbers"),
        (lambda: holm([0.5j]), "flat array of numbers"),
        (lambda: groups_without_difference("ab", 1), "flat array of finite numbers"),
        (lambda: groups_without_difference([1j, 2.0], 1), "flat array of finite numbers"),
        (lambda: groups_without_difference([1.0, 2.0], "a"), "must be positive"),
        (lambda: critical_difference(3, 10, alpha="a"), "alpha must lie"),
        (lambda: nemenyi_test(AUC, alpha=None), "alpha must lie"),
        (lambda: groups_without_difference([1.0, np.nan], 1.0), "finite"),
        (lambda: groups_without_difference([1.0, 2.0], 0.0), "must be positive"),
        (lambda: groups_without_difference([1.0, 2.0], 1.0, methods=["a"]), "one name each"),
    ],
)
def test_bad_options_are_refused_with_a_sentence(call, message):
    with pytest.raises(ParameterError, match=message):
        call()


@pytest.mark.slow
@pytest.mark.parametrize("n_methods", [3, 8])
def test_nemenyi_keeps_its_level_over_all_pairs(n_methods):
    """2000 tables of noise on 40 tasks: any false difference in 5 % of them, within four binomial errors."""
    tables = np.random.default_rng(n_methods).random((2000, 40, n_methods))
    rate = np.mean([nemenyi_test(table).p_values.min() <= 0.05 for table in tables])
    assert rate == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / 2000))
