"""Spiegelhalter's test against loops, the binary formula, closed forms and simulation of its level."""

from math import exp, inf, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import binom, kstest, norm

from calibrant import Predictions
from calibrant.errors import ParameterError, PredictionError
from calibrant.hypothesis_tests.consistency import consistency_test
from calibrant.hypothesis_tests.spiegelhalter import spiegelhalter_test
from calibrant.metrics import brier_score
from strategies import problems

WEIGHTS = st.one_of(st.none(), hnp.arrays(np.float64, 14, elements=st.floats(0.1, 5)))


def naive_z(labels, probabilities, weights):
    """Go through what the Brier score of each row could be, with which chance."""
    excess = variance = 0.0
    for row, label, weight in zip(probabilities, labels, weights, strict=True):
        row = [float(p) / sum(map(float, row)) for p in row]
        scores = [sum((p - (k == y)) ** 2 for k, p in enumerate(row)) for y in range(len(row))]
        mean = sum(p * score for p, score in zip(row, scores, strict=True))
        excess += weight * (scores[label] - mean)
        variance += weight**2 * sum(p * (score - mean) ** 2 for p, score in zip(row, scores, strict=True))
    return excess, variance


def drawn_problem(n_rows, n_classes, seed, sharpen=1.0):
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet(np.ones(n_classes), n_rows)
    labels = (probabilities.cumsum(axis=1)[:, :-1] < generator.random((n_rows, 1))).sum(axis=1)
    claimed = probabilities**sharpen
    return labels, claimed / claimed.sum(axis=1, keepdims=True)


@given(problem=problems(), weights=WEIGHTS)
def test_z_is_the_standardised_brier_score(problem, weights):
    weights = np.ones(14) if weights is None else weights
    weights = weights[: len(problem.labels)]
    excess, variance = naive_z(problem.labels, problem.probabilities, weights)
    result = spiegelhalter_test(problem.labels, problem.probabilities, sample_weight=weights)
    if variance > 1e-9:
        assert result.statistic == pytest.approx(excess / sqrt(variance), rel=1e-6, abs=1e-6)
        assert result.p_value == pytest.approx(2 * norm.sf(abs(result.statistic)), abs=1e-12)


def test_two_classes_give_the_formula_of_the_paper():
    labels, probabilities = drawn_problem(300, 2, 0)
    p = probabilities[:, 1]
    numerator = np.sum((labels - p) * (1 - 2 * p))
    expected = numerator / sqrt(np.sum((1 - 2 * p) ** 2 * p * (1 - p)))
    assert spiegelhalter_test(labels, probabilities).statistic == pytest.approx(expected, rel=1e-12)
    assert spiegelhalter_test(labels, p).statistic == pytest.approx(expected, rel=1e-12)


def test_nine_of_ten_right_at_sixty_percent():
    """Expected are six: z = (6 - 9) 0.2 / sqrt(10 * 0.04 * 0.24); better than promised."""
    z = -0.6 / sqrt(0.096)
    labels, probabilities = [0] * 9 + [1], [[0.6, 0.4]] * 10
    assert spiegelhalter_test(labels, probabilities).statistic == pytest.approx(z)
    for alternative, p_value in [
        ("less", norm.cdf(z)),
        ("greater", norm.sf(z)),
        ("two-sided", 2 * norm.cdf(z)),
    ]:
        result = spiegelhalter_test(labels, probabilities, alternative=alternative)
        assert result.p_value == pytest.approx(p_value)
        assert alternative in result.test


@pytest.mark.parametrize("n_classes", [2, 5])
def test_it_is_the_consistency_test_of_the_brier_score_without_the_draws(n_classes):
    labels, probabilities = drawn_problem(400, n_classes, 4, sharpen=1.3)
    simulated = consistency_test(brier_score, labels, probabilities, n_resamples=4000)
    closed = spiegelhalter_test(labels, probabilities)
    assert closed.p_value == pytest.approx(simulated.p_value, abs=8 * simulated.p_value_error + 0.005)


def test_uniform_rows_say_nothing():
    for n_classes in (2, 3, 7, 1000):
        for dtype in (np.float32, np.float64):
            uniform = np.full((6, n_classes), 1 / n_classes, dtype=dtype)
            result = spiegelhalter_test([0, 1, 1, 0, 1, 1], uniform)
            assert (result.statistic, result.p_value) == (0.0, 1.0)


def test_certain_rows_are_refuted_or_say_nothing():
    right = spiegelhalter_test([0, 1], np.eye(2))
    assert (right.statistic, right.p_value) == (0.0, 1.0)
    wrong = spiegelhalter_test([1, 1], np.eye(2))
    assert (wrong.statistic, wrong.p_value) == (inf, 0.0)


def test_saturated_rows_keep_their_variance():
    """Two rows at 1 - 1e-12, one of them wrong: z is about 1 / sqrt(2e-12)."""
    result = spiegelhalter_test([0, 1], [1e-12, 1e-12])
    assert result.statistic == pytest.approx(1 / sqrt(2e-12), rel=1e-6)


def test_logits_of_float32_are_as_good_as_those_of_float64():
    """Two rows at which the float32 softmax leaves nothing for the other class, one of them wrong."""
    logits = np.array([[0.0, 150.0]] * 2, dtype=np.float32)
    result = spiegelhalter_test([1, 0], Predictions.from_logits(logits))
    assert result.statistic == pytest.approx(sqrt(exp(150) / 2), rel=1e-6)


def test_only_ratios_of_weights_matter_and_equal_weights_not_at_all():
    labels, probabilities = drawn_problem(100, 3, 1)
    weights = np.random.default_rng(0).random(100) + 0.1
    plain = spiegelhalter_test(labels, probabilities)
    equal = spiegelhalter_test(labels, probabilities, sample_weight=np.full(100, 7.0))
    assert equal.statistic == pytest.approx(plain.statistic)
    weighted = spiegelhalter_test(labels, probabilities, sample_weight=weights)
    scaled = spiegelhalter_test(labels, probabilities, sample_weight=1e6 * weights)
    assert scaled.statistic == pytest.approx(weighted.statistic)


def test_rows_in_any_number_of_blocks_and_of_any_float_type():
    labels, probabilities = drawn_problem(30_000, 20, 2)
    excess, variance = np.sum([np.array(naive_z(labels[:50], probabilities[:50], np.ones(50)))], axis=0)
    assert spiegelhalter_test(labels[:50], probabilities[:50]).statistic == pytest.approx(
        excess / sqrt(variance)
    )
    squares = (probabilities**2).sum(axis=1)
    whole = np.sum(squares - probabilities[np.arange(30_000), labels]) / sqrt(
        np.sum((probabilities**3).sum(axis=1) - squares**2)
    )
    assert spiegelhalter_test(labels, probabilities).statistic == pytest.approx(whole, rel=1e-9)
    single = spiegelhalter_test(labels, probabilities.astype(np.float32)).statistic
    assert single == pytest.approx(whole, abs=1e-5)
    logits = spiegelhalter_test(labels, Predictions.from_logits(np.log(probabilities))).statistic
    assert logits == pytest.approx(whole, rel=1e-9)


def test_bad_options_and_input_are_refused():
    with pytest.raises(ParameterError, match="alternative must be"):
        spiegelhalter_test([0, 1], [0.2, 0.7], alternative="larger")
    with pytest.raises(PredictionError):
        spiegelhalter_test([0, 1], [0.2, 1.7])


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 10])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_level_is_kept(n_classes, weighted):
    """2000 calibrated data sets; rejections at 5 % are Binomial(2000, 0.05), p-values uniform."""
    weights = np.random.default_rng(0).exponential(size=300) + 0.01 if weighted else None
    p_values = [
        spiegelhalter_test(*drawn_problem(300, n_classes, seed), sample_weight=weights).p_value
        for seed in range(2000)
    ]
    rejections = sum(p <= 0.05 for p in p_values)
    assert binom.ppf(0.001, 2000, 0.05) <= rejections <= binom.ppf(0.999, 2000, 0.05)
    assert kstest(p_values, "uniform").pvalue > 0.001


@pytest.mark.slow
def test_over_and_underconfidence_are_found_with_their_sign():
    over = [spiegelhalter_test(*drawn_problem(300, 3, seed, sharpen=1.5)) for seed in range(100)]
    under = [spiegelhalter_test(*drawn_problem(300, 3, seed, sharpen=0.6)) for seed in range(100)]
    assert np.mean([result.p_value <= 0.05 and result.statistic > 0 for result in over]) > 0.5
    assert np.mean([result.p_value <= 0.05 and result.statistic < 0 for result in under]) > 0.5
