"""Tests of events with groups of very unequal size: level, weights and the effective number of groups."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import norm

from calibrant.metrics import OneClass
from calibrant.numerics.cluster_variance import effective_number, variance_of_sums
from calibrant.report.evaluation_set import EvaluationSet
from calibrant.report.event_evidence import (
    GroupSums,
    capped_weights,
    event_evidence,
    groups_text,
    weights_of_test,
)


def rows_in_groups(seed, groups):
    """Calibrated rows; the normal scores behind the labels of one group share half of their variance."""
    generator = np.random.default_rng(seed)
    p = generator.random(len(groups))
    score = np.sqrt(0.5) * (generator.normal(size=groups.max() + 1)[groups] + generator.normal(size=len(p)))
    return EvaluationSet.parse((norm.cdf(score) < p).astype(int), p, None, groups)


ONE_LARGE = np.concatenate([np.zeros(210, dtype=int), 1 + np.arange(90) % 19])


def test_the_level_holds_if_one_group_has_most_of_the_rows():
    """At most 5 % of 150 data sets, plus three standard errors; without capped weights it was one half."""
    p_values = [event_evidence(rows_in_groups(seed, ONE_LARGE), OneClass(1)).p_value for seed in range(150)]
    assert np.mean(np.array(p_values) <= 0.05) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 150)


def test_an_error_is_found_though_one_group_has_most_of_the_rows():
    """All probabilities are thirty points too high, in independent rows."""
    generator = np.random.default_rng(0)
    p = 0.3 + 0.7 * generator.random(len(ONE_LARGE))
    y = (generator.random(len(p)) < p - 0.3).astype(int)
    rows = EvaluationSet.parse(y, p, None, ONE_LARGE)
    found = event_evidence(rows, OneClass(1))
    assert found.p_value < 1e-3
    assert found.effective_groups == pytest.approx(15, abs=0.01)  # three quarters of twenty
    assert groups_text(rows, 2.0) == "20 groups of unequal size (effectively 2)"


def test_groups_of_similar_size_keep_their_weights():
    rows = rows_in_groups(0, np.arange(300) % 60)
    assert np.array_equal(weights_of_test(rows), np.ones(300))


def test_capped_weights_have_the_wanted_effective_number():
    weights = np.array([500.0] + [5.0] * 60)
    capped = capped_weights(weights)
    assert effective_number(capped) == pytest.approx(20, abs=1e-3)
    assert np.array_equal(capped[1:], weights[1:])


def test_the_variance_is_that_of_the_jackknife():
    """With theta_g the mean without unit g, (G - 1) / G times the sum of (theta_g - theta)^2."""
    generator = np.random.default_rng(0)
    weights, sums = np.array([700.0, 200.0, 60.0, 40.0]), generator.normal(size=4)
    without = (sums.sum() - sums) / (weights.sum() - weights)
    squares = ((without - sums.sum() / weights.sum()) ** 2).sum()
    assert variance_of_sums(sums, weights) == pytest.approx(3 / 4 * squares * weights.sum() ** 2)


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_the_variance_is_not_too_small_for_unequal_groups(power):
    """Variances of sums proportional to the size, for independent rows, or to its square, for copies of one row."""
    sizes = np.array([300.0, 200.0, 100.0, 60.0, 40.0, 30.0, 20.0])
    draws = np.random.default_rng(0).normal(size=(7, 20_000)) * np.sqrt(sizes**power)[:, np.newaxis]
    estimates = variance_of_sums(draws, np.tile(sizes[:, np.newaxis], 20_000))
    assert estimates.mean() > 0.95 * (sizes**power).sum()


def test_signs_of_groups_give_the_share_of_all_signs():
    """Eight groups: 256 signs, each as likely as the others."""
    generator = np.random.default_rng(0)
    groups, scores = np.arange(80) % 8, generator.random(80)
    residuals = generator.normal(size=80) + 0.2
    sums = GroupSums.of(groups, residuals, scores)
    order = np.argsort(scores)
    paths = np.array([(residuals * (groups == g))[order].cumsum() for g in range(8)])
    assert sums.path == pytest.approx(paths)
    signed = np.array(list(product([1, -1], repeat=8))) @ paths
    ranges = signed.max(axis=1).clip(0) - signed.min(axis=1).clip(None, 0)
    totals = np.abs(signed[:, -1])
    for found, values in ((sums.range_p_value, ranges), (sums.total_p_value, totals)):
        share = (values >= values[0] - 1e-9).mean()
        assert abs(found - share) < 4 * np.sqrt(share * (1 - share) / 2000) + 1 / 2000


def test_many_groups_are_joined():
    sums = GroupSums.of(np.arange(1000), np.ones(1000))
    assert sums.path.shape == (200, 1)
    assert (sums.path == 5).all()
    assert sums.total_p_value == pytest.approx(1 / 2000)
