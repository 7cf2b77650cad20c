"""Thresholds for selective prediction: their guarantees by simulation, their choice by a loop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from calibrant import Predictions
from calibrant.errors import ParameterError
from calibrant.intervals import selection_threshold
from strategies import problems

# Confidence c is uniform on [1/2, 1] and a row is right with probability c, so the risk above t is (1 - t) / 2.
N_SETS = 400


def drawn(generator, n_rows, decimals=None):
    confidence = generator.uniform(0.5, 1.0, n_rows)
    right = generator.random(n_rows) < confidence
    if decimals is not None:
        confidence = np.round(confidence, decimals)
    return right.astype(int), confidence


def naive(y, p, max_risk, level):
    """Try every coverage by the definition of the binomial bound; return the number of accepted rows."""
    confidence = np.maximum(p, 1 - p)
    wrong = (p >= 0.5).astype(int) != y
    best = 0
    for step in range(1, 21):
        rank = step * len(p) // 20
        cut = -1.0 if rank == len(p) else sorted(confidence, reverse=True)[rank]
        above = confidence > cut
        n, k = int(above.sum()), int(wrong[above].sum())
        if n and binom.cdf(k, n, max_risk) <= (1 - level) / 20:
            best = max(best, n)
    return best


@pytest.mark.parametrize("n_rows", [200, 1000])
@pytest.mark.parametrize("max_risk", [0.05, 0.2])
@pytest.mark.parametrize("decimals", [None, 2])
def test_the_error_rate_is_kept_in_all_but_a_twentieth_of_the_sets(n_rows, max_risk, decimals):
    """True risk above t, (1 - t) / 2; with rounding to two decimals it is that above the rounding edge."""
    generator = np.random.default_rng(0)
    broken = 0
    for _ in range(N_SETS):
        chosen = selection_threshold(*drawn(generator, n_rows, decimals), max_risk=max_risk)
        if chosen.n_accepted == 0:
            continue
        lowest = max(chosen.threshold, 0.5)
        if decimals is not None and chosen.threshold > 0:
            lowest = chosen.threshold + 0.5 * 10**-decimals
        broken += (1 - lowest) / 2 > max_risk
    assert binom.sf(broken - 1, N_SETS, 0.05) > 0.01


@pytest.mark.parametrize("max_risk", [0.05, 0.1])
def test_the_conformal_threshold_keeps_the_mean(max_risk):
    """True fraction of rows above t that are accepted and wrong: 2 (1 - t) times (1 - t) / 2."""
    generator = np.random.default_rng(1)
    thresholds = np.array(
        [
            selection_threshold(*drawn(generator, 200), max_risk=max_risk, method="conformal").threshold
            for _ in range(N_SETS)
        ]
    )
    harm = (1 - np.maximum(thresholds, 0.5)) ** 2
    assert harm.mean() <= max_risk + 2 * harm.std() / np.sqrt(N_SETS)
    assert harm.mean() >= 0.8 * max_risk


@given(seed=st.integers(0, 50), n_rows=st.integers(1, 400), max_risk=st.sampled_from([0.05, 0.3]))
def test_the_choice_is_that_of_a_loop(seed, n_rows, max_risk):
    y, p = drawn(np.random.default_rng(seed), n_rows, decimals=1 if seed % 2 else None)
    chosen = selection_threshold(y, p, max_risk=max_risk)
    assert chosen.n_accepted == naive(y, p, max_risk, 0.95)
    assert int(chosen.accepts(p).sum()) == chosen.n_accepted
    assert np.isnan(chosen.bound) if chosen.n_accepted == 0 else chosen.risk <= chosen.bound <= max_risk


@given(problem=problems(), method=st.sampled_from(["clopper-pearson", "conformal"]))
def test_any_rows_give_a_threshold_or_none(problem, method):
    chosen = selection_threshold(problem.labels, problem.probabilities, max_risk=0.4, method=method)
    assert 0 <= chosen.coverage <= 1
    assert int(chosen.accepts(problem.probabilities).sum()) == chosen.n_accepted


def test_the_smallest_number_of_rows_without_a_mistake():
    """1 - 0.0025^(1/m) <= 0.01 from m = 597 on."""
    for n_rows, accepted in ((596, 0), (597, 597)):
        chosen = selection_threshold([1] * n_rows, [0.9] * n_rows, max_risk=0.01)
        assert chosen.n_accepted == accepted


def test_a_higher_coverage_costs_a_higher_risk():
    y, p = drawn(np.random.default_rng(2), 2000)
    coverages = [selection_threshold(y, p, max_risk=risk).coverage for risk in (0.05, 0.1, 0.2, 0.3)]
    assert coverages == sorted(coverages)
    assert coverages[-1] == 1.0


def test_logits_and_probabilities_agree():
    y, p = drawn(np.random.default_rng(3), 500)
    logits = Predictions.from_logits(np.column_stack([np.zeros(500), np.log(p / (1 - p))]))
    by_logits, by_probabilities = (selection_threshold(y, X, max_risk=0.15) for X in (logits, p))
    assert by_logits.n_accepted == by_probabilities.n_accepted
    assert by_logits.threshold == pytest.approx(by_probabilities.threshold, abs=1e-12)


def test_the_sentence_says_what_is_accepted():
    refused = selection_threshold([0, 1], [0.9, 0.8], max_risk=0.01)
    assert str(refused).startswith("No threshold keeps the error rate below 1 %")
    everything = selection_threshold([1] * 1000, [0.9] * 1000, max_risk=0.05)
    assert str(everything).startswith("Accept all rows: 100 % of the rows, of which 0 % are wrong")
    assert everything.to_dict()["n_accepted"] == 1000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_risk": 0}, "max_risk must lie strictly between 0 and 1"),
        ({"max_risk": 0.1, "level": 1}, "level must lie strictly between 0 and 1"),
        ({"max_risk": 0.1, "method": "exact"}, "method must be 'clopper-pearson' or 'conformal'"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        selection_threshold([0, 1], [0.2, 0.8], **options)
