"""Exact intervals of shares against their definition and scipy."""

from math import comb

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from calibrant.binning import EqualWidth
from calibrant.errors import ParameterError
from calibrant.intervals import bin_intervals, clopper_pearson


def binomial_tail(successes, trials, probability):
    """P(at least this many successes), by its definition."""
    return sum(
        comb(trials, k) * probability**k * (1 - probability) ** (trials - k)
        for k in range(successes, trials + 1)
    )


@given(trials=st.integers(1, 60), share=st.floats(0, 1), level=st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_the_ends_leave_half_of_the_rest_in_each_tail(trials, share, level):
    successes = round(share * trials)
    low, high = clopper_pearson(successes, trials, level)
    if successes > 0:
        assert binomial_tail(successes, trials, low) == pytest.approx((1 - level) / 2, rel=1e-8)
    else:
        assert low == 0.0
    if successes < trials:
        below = 1 - binomial_tail(successes + 1, trials, high)
        assert below == pytest.approx((1 - level) / 2, rel=1e-6)
    else:
        assert high == 1.0


def test_scipy_agrees():
    for successes in range(31):
        expected = scipy.stats.binomtest(successes, 30).proportion_ci(0.95, method="exact")
        assert clopper_pearson(successes, 30) == pytest.approx((expected.low, expected.high), rel=1e-9)


@pytest.mark.parametrize("trials", [5, 20, 100])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_coverage_is_never_below_the_level(trials, level):
    """Exact, by summing over all outcomes, for a fine grid of true probabilities."""
    low, high = clopper_pearson(np.arange(trials + 1), trials, level)
    for probability in np.linspace(0.001, 0.999, 201):
        chances = scipy.stats.binom.pmf(np.arange(trials + 1), trials, probability)
        covered = (low <= probability) & (probability <= high)
        assert chances[covered].sum() >= level - 1e-9


def test_the_rule_of_nothing_seen():
    """With no success the upper end u solves (1 - u)^n = alpha / 2."""
    assert clopper_pearson(0, 50)[1] == pytest.approx(1 - 0.025 ** (1 / 50))


def test_arrays_are_taken_element_by_element():
    low, high = clopper_pearson([[1], [2]], [4, 8, 16])
    assert low.shape == high.shape == (2, 3)
    assert (low[1, 2], high[1, 2]) == pytest.approx(clopper_pearson(2, 16))


def test_no_trials_say_nothing():
    assert clopper_pearson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(("successes", "trials"), [(3, 2), (-1, 2), (np.nan, 2), (0, -1), (1, np.inf)])
def test_impossible_counts_are_refused(successes, trials):
    with pytest.raises(ParameterError, match="between 0 and the number of trials"):
        clopper_pearson(successes, trials)


@pytest.mark.parametrize("level", [0, 1, 1.5, np.nan, 2, "a", None, [0.9, 0.95]])
def test_an_impossible_level_is_refused(level):
    with pytest.raises(ParameterError, match="level must lie strictly between 0 and 1"):
        clopper_pearson(1, 2, level)
    with pytest.raises(ParameterError, match="level must lie strictly between 0 and 1"):
        bin_intervals(EqualWidth(2).bins(np.array([0.2, 0.7]), np.array([0, 1])), level)


def random_rows(n_rows=200):
    generator = np.random.default_rng(0)
    scores = generator.random(n_rows) * 0.7
    return scores, generator.random(n_rows) < scores, generator.random(n_rows) + 0.2


def test_bins_have_the_intervals_of_their_counts_and_empty_ones_none():
    scores, outcomes, _ = random_rows()
    low, high = bin_intervals(EqualWidth(10).bins(scores, outcomes), 0.9)
    for number in range(7):
        inside = (scores >= number / 10) & (scores < (number + 1) / 10)
        expected = clopper_pearson(int(outcomes[inside].sum()), int(inside.sum()), 0.9)
        assert (low[number], high[number]) == pytest.approx(expected)
    assert low[7:].tolist() == [0.0] * 3
    assert high[7:].tolist() == [1.0] * 3


def test_weighted_bins_count_as_their_effective_number_of_rows():
    """Rows of weights 1 and 3 are worth (n/2 * 4)^2 / (n/2 * 10) = 0.8 n rows."""
    scores, outcomes = np.full(40, 0.5), np.tile([0, 0, 1, 1], 10)
    weights = np.tile([1.0, 3.0], 20)
    scheme = EqualWidth(1)
    squares = scheme.bins(scores, outcomes, weights**2).weight
    low, high = bin_intervals(scheme.bins(scores, outcomes, weights), squared_weight=squares)
    assert (low[0], high[0]) == pytest.approx(clopper_pearson(16, 32))


def test_equal_weights_change_nothing():
    scores, outcomes, _ = random_rows()
    weights, scheme = np.full(len(scores), 0.37), EqualWidth(10)
    weighted = bin_intervals(
        scheme.bins(scores, outcomes, weights),
        squared_weight=scheme.bins(scores, outcomes, weights**2).weight,
    )
    assert np.array(weighted) == pytest.approx(
        np.array(bin_intervals(scheme.bins(scores, outcomes))), rel=1e-9
    )


def test_weighted_bins_without_the_spread_of_their_weights_are_refused():
    scores, outcomes, weights = random_rows()
    with pytest.raises(ParameterError, match="squared_weight="):
        bin_intervals(EqualWidth(5).bins(scores, outcomes, weights))
    with pytest.raises(ParameterError, match="one number per bin"):
        bin_intervals(EqualWidth(5).bins(scores, outcomes, weights), squared_weight=[1.0])
    with pytest.raises(ParameterError, match=r"one number per bin, but has shape \(1,\) for 1 bin\."):
        bin_intervals(EqualWidth(1).bins(scores, outcomes, weights), squared_weight=["a"])


def test_what_is_not_bins_is_refused_with_the_way_to_make_them():
    scores, outcomes, _ = random_rows()
    for arguments in ((None,), (outcomes, scores), ([0, 1], [0.2, 0.7])):
        with pytest.raises(
            ParameterError, match=r"bins must be Bins, such as EqualWidth\(15\).bins\(scores, outcomes\)"
        ):
            bin_intervals(*arguments)


@pytest.mark.parametrize(
    ("outcomes", "found"),
    [([0, 2, 2], "2 in 1 row"), ([0, -1, 1], "-1 in 1 row"), ([0, 1, 0.5], "0.5 in 1 row")],
)
def test_outcomes_other_than_zeros_and_ones_are_refused(outcomes, found):
    bins = EqualWidth(4).bins(np.array([0.1, 0.3, 0.8]), np.array(outcomes, dtype=float))
    with pytest.raises(ParameterError, match=f"must be zeros and ones, but those of bin . add up to {found}"):
        bin_intervals(bins)


def test_weighted_outcomes_above_one_are_refused():
    scores, weights = np.array([0.1, 0.3]), np.array([0.5, 0.3])
    bins = EqualWidth(2).bins(scores, np.array([2, 1]), weights)
    with pytest.raises(ParameterError, match=r"add up to 1\.3 in 2 rows"):
        bin_intervals(bins, squared_weight=EqualWidth(2).bins(scores, scores, weights**2).weight)


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_at_the_ends_of_an_interval_what_was_seen_has_a_probability_of_two_and_a_half_percent(case):
    """P(H >= h) at the lower end and P(H <= h) at the upper one, for H binomial with n rows."""
    hits, n = case
    low, high = clopper_pearson(np.array([float(hits)]), np.array([n]))
    assert low[0] <= hits / n <= high[0]
    if hits > 0:
        assert binom.sf(hits - 1, n, low[0]) == pytest.approx(0.025, rel=1e-6)
    else:
        assert low[0] == 0
    if hits < n:
        assert binom.cdf(hits, n, high[0]) == pytest.approx(0.025, rel=1e-6)
    else:
        assert high[0] == 1
