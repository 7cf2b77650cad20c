"""Bayesian binning: evidences by quadrature, and which equal-mass models there are."""

from math import exp, factorial, lgamma, log

import numpy as np
import pytest
from bayesian_binning_rows import positive, problem
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from calibrant import BayesianBinning
from calibrant.binning import EqualMass
from calibrant.calibrators.binned import bayesian_binning
from calibrant.calibrators.binned.bayesian_binning import (
    bin_boundaries,
    distinct_partitions,
    equal_mass_partitions,
)

# --- The evidence


def integral(events, others, alpha, beta):
    """Integrate the likelihood against the beta density, whose poles at 0 and 1 quadrature takes as weights."""
    poles = {"weight": "alg", "wvar": (alpha - 1, beta - 1)}
    norm, _ = quad(lambda _: 1.0, 0, 1, **poles)
    likelihood, _ = quad(lambda theta: theta**events * (1 - theta) ** others, 0, 1, **poles)
    return likelihood / norm


def test_the_evidence_is_the_integral_of_the_likelihood_over_the_prior():
    """Twelve rows have one to three bins: of 12, of 6 and 6, and of 4, 4 and 4."""
    scores = np.array([0.02, 0.1, 0.14, 0.2, 0.3, 0.34, 0.5, 0.52, 0.6, 0.7, 0.94, 0.98])
    outcomes = np.array([0, 0, 0, 1, 0, 1, 1, 0, 1, 1, 1, 1])
    fitted = BayesianBinning().fit(scores, outcomes)
    expected = [
        integral(7, 5, 1.0, 1.0),
        integral(2, 4, 0.21, 0.79) * integral(5, 1, 0.71, 0.29),
        integral(1, 3, 0.25 / 3, 1.75 / 3)
        * integral(2, 2, (0.25 + 0.56) / 3, (1.75 - 0.56) / 3)
        * integral(4, 0, 1.56 / 3, 0.44 / 3),
    ]
    np.testing.assert_array_equal(fitted.model_n_bins_, [1, 2, 3])
    np.testing.assert_allclose(np.exp(fitted.model_log_evidences_), expected, rtol=1e-9)
    np.testing.assert_allclose(fitted.model_weights_, expected / np.sum(expected), rtol=1e-9)


def test_the_evidence_of_one_bin_in_factorials():
    """With prior Beta(1, 1) it is m! (n - m)! / (n + 1)!."""
    fitted = BayesianBinning().fit([0.1, 0.4, 0.6, 0.7, 0.8], [0, 1, 1, 0, 1])
    np.testing.assert_allclose(
        np.exp(fitted.model_log_evidences_), factorial(3) * factorial(2) / factorial(6), rtol=1e-12
    )


def test_the_probabilities_of_all_outcomes_sum_to_one():
    """Evidence is a probability of the outcomes, so that of all 2^8 sums to one for each model.

    No fit takes eight equal outcomes; by symmetry each of the two sets has the same evidence.
    """
    scores = np.arange(1, 9) / 9
    total = np.zeros(2)
    for code in range(1, 2**8 - 1):
        outcomes = (code >> np.arange(8)) & 1
        total += np.exp(BayesianBinning().fit(scores, outcomes).model_log_evidences_)
    all_events = [1 / 9, integral(4, 0, 0.25, 0.75) * integral(4, 0, 0.75, 0.25)]
    np.testing.assert_allclose(total, 1 - 2 * np.array(all_events), rtol=1e-9)


@settings(max_examples=20, deadline=None)
@given(n_rows=st.integers(2, 400), seed=st.integers(0, 99), decimals=st.sampled_from([1, 2, 16]))
def test_weights_of_models_sum_to_one(n_rows, seed, decimals):
    fitted = BayesianBinning().fit(*problem(n_rows, seed, decimals))
    assert fitted.model_weights_.sum() == pytest.approx(1, rel=1e-12)


def test_two_bins_by_hand():
    """Eight rows: means (1 + 1/4) / 5 and (3 + 3/4) / 5 with two bins, 1/2 with one."""
    scores, outcomes = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9], [0, 0, 1, 0, 1, 1, 0, 1]
    fitted = BayesianBinning().fit(scores, outcomes)
    single = 4 * log(2) + 2 * log(3) - lgamma(10) + 2 * log(2)  # 4! 4! / 9!
    double = 2 * log(integral(1, 3, 0.25, 0.75))
    share = 1 / (1 + exp(single - double))
    expected = [0.5 * (1 - share) + 0.25 * share, 0.5 * (1 - share) + 0.75 * share]
    assert fitted.values_ == pytest.approx(expected, rel=1e-9)


def test_outcomes_that_have_nothing_to_do_with_the_scores_favour_one_bin():
    scores = np.linspace(0.01, 0.99, 400)
    fitted = BayesianBinning().fit(scores, np.arange(400) % 2)
    assert fitted.model_n_bins_[fitted.model_weights_.argmax()] == 1
    assert positive(fitted, [0.01, 0.99]) == pytest.approx([0.5, 0.5], abs=0.01)


def test_a_jump_between_two_bins_is_found():
    """Below 1/2 one event in ten, above nine: two bins explain all that there is to explain."""
    scores = np.linspace(0.001, 0.999, 400)
    outcomes = np.where(scores < 0.5, np.arange(400) % 10 == 0, np.arange(400) % 10 > 0)
    fitted = BayesianBinning().fit(scores, outcomes)
    assert fitted.model_n_bins_[fitted.model_weights_.argmax()] == 2
    assert positive(fitted, [0.2, 0.8]) == pytest.approx([0.1, 0.9], abs=0.01)


# --- Which models


@pytest.mark.parametrize(
    ("n_rows", "factor", "fewest", "most"),
    [
        (2, 10, 1, 1),
        (6, 10, 1, 2),
        (100, 10, 1, 20),
        (5000, 10, 1, 171),
        (8000, 10, 2, 200),  # the cube root is 20 exactly
        (27, 1, 3, 3),
        (1000, 2, 5, 20),
    ],
)
def test_numbers_of_bins_are_those_of_the_paper(n_rows, factor, fewest, most):
    """From floor(n^(1/3) / C) to the lesser of ceil(n / 5) and ceil(C n^(1/3)), at least one."""
    scores = (np.arange(n_rows) + 0.5) / n_rows
    fitted = BayesianBinning(bin_range_factor=factor).fit(scores, np.arange(n_rows) % 2)
    np.testing.assert_array_equal(fitted.model_n_bins_, np.arange(fewest, most + 1))


def test_models_that_ties_make_equal_count_once():
    """Of 20 rows with two scores, 18 and 2, only one bin and two bins can be made, not four times two."""
    fitted = BayesianBinning().fit([0.2] * 18 + [0.7] * 2, [0, 1] * 10)
    np.testing.assert_array_equal(fitted.model_n_bins_, [1, 2])


def test_huge_weights_do_not_make_more_models_than_scores_allow():
    """By their sum, 5e13, there would be models from 3684 bins to 368404."""
    scores, outcomes = problem(50)
    fitted = BayesianBinning().fit(scores, outcomes, np.full(50, 1e12))
    np.testing.assert_array_equal(fitted.model_n_bins_, [50])
    np.testing.assert_allclose(positive(fitted, scores), outcomes, atol=1e-9)


def test_partitions_do_not_depend_on_how_many_are_made_at_a_time(monkeypatch):
    scores, outcomes = problem(2000, decimals=3)
    whole = BayesianBinning().fit(scores, outcomes)
    monkeypatch.setattr(bayesian_binning, "BINS_AT_A_TIME", 100)
    mass = np.arange(200.0)
    assert len(list(distinct_partitions(mass, np.arange(1, 30)))) > 2
    parts = BayesianBinning().fit(scores, outcomes)
    np.testing.assert_array_equal(parts.model_n_bins_, whole.model_n_bins_)
    np.testing.assert_allclose(parts.values_, whole.values_, rtol=1e-12)


def test_the_best_model_alone():
    """The value everywhere is that of the histogram with the greatest evidence."""
    scores, outcomes = problem(300)
    every = BayesianBinning().fit(scores, outcomes)
    best = BayesianBinning(model_averaging="best").fit(scores, outcomes)
    np.testing.assert_array_equal(best.model_log_evidences_, every.model_log_evidences_)
    chosen = every.model_log_evidences_.argmax()
    np.testing.assert_array_equal(best.model_weights_, np.arange(len(every.model_weights_)) == chosen)
    n_bins = int(every.model_n_bins_[chosen])
    bins = EqualMass(n_bins)(scores).bins(scores, outcomes)
    np.testing.assert_array_equal(best.edges_[1:-1], bins.edges[1:-1])
    middle = (best.edges_[1:] + best.edges_[:-1]) / 2
    expected = (bins.outcome_sum + middle * 2 / n_bins) / (bins.weight + 2 / n_bins)
    np.testing.assert_allclose(best.values_, expected, rtol=1e-12)


@pytest.mark.parametrize("decimals", [16, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_cuts_are_those_of_equal_mass_for_every_number_of_bins(decimals, weighted):
    scores, _ = problem(300, decimals=decimals)
    weights = np.random.default_rng(1).integers(1, 5, len(scores)) / 4 if weighted else np.ones(len(scores))
    values = np.unique(scores)
    mass = np.concatenate([[0.0], np.cumsum([weights[scores == value].sum() for value in values])])
    boundaries = bin_boundaries(values)
    partitions = equal_mass_partitions(mass, np.arange(1, 120))
    for n_bins, bins in zip(range(1, 120), partitions, strict=True):
        expected = EqualMass(n_bins)(scores, weights if weighted else None).bin_edges()
        np.testing.assert_array_equal(boundaries[partitions.low[bins]][1:], expected[1:-1])
        np.testing.assert_array_equal(partitions.high[bins][:-1], partitions.low[bins][1:])
        assert partitions.high[bins][-1] == len(values)
