"""Calibration slope and intercept against statsmodels, a plain optimiser, closed forms and simulation."""

from math import inf, isnan, log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.optimize import minimize
from scipy.stats import binom, chi2, kstest

from calibrant import Predictions
from calibrant.errors import ParameterError, PredictionError
from calibrant.hypothesis_tests.slope_intercept import calibration_slope_intercept
from strategies import problems


def evenly_spaced():
    """One hundred scores with outcomes that are rarer than promised, without random numbers."""
    number = np.arange(100)
    scores = (number + 0.5) / 100
    return ((37 * number % 100 + 0.5) / 100 < scores**1.5).astype(int), scores


def naive_log_likelihood(labels, scores, intercept, slope, weights=None):
    weights = np.ones(len(labels)) if weights is None else weights
    total = 0.0
    for label, score, weight in zip(labels, scores, weights, strict=True):
        linear = intercept + slope * (log(score) - log(1 - score))
        total -= weight * np.logaddexp(0, -linear if label else linear)
    return total


class TestFiguresOfStatsmodels:
    """statsmodels 0.15.0: Logit, GLM with an offset, and GLM with freq_weights scaled to their effect."""

    def test_estimates_and_standard_errors(self):
        line = calibration_slope_intercept(*evenly_spaced(), interval="wald")
        assert line.slope.value == pytest.approx(1.24265511, rel=1e-8)
        assert line.slope.standard_error == pytest.approx(0.26060402, rel=1e-7)
        assert line.intercept.value == pytest.approx(-0.75393701, rel=1e-8)
        assert line.intercept.standard_error == pytest.approx(0.28155969, rel=1e-7)
        assert line.in_the_large.value == pytest.approx(-0.6698233, rel=1e-7)
        assert line.in_the_large.standard_error == pytest.approx(0.25047415, rel=1e-7)
        assert line.slope.low == pytest.approx(1.24265511 - 1.95996398 * 0.26060402, rel=1e-7)
        assert line.slope.high == pytest.approx(1.24265511 + 1.95996398 * 0.26060402, rel=1e-7)

    def test_likelihood_ratios(self):
        line = calibration_slope_intercept(*evenly_spaced())
        assert line.slope_test.statistic == pytest.approx(0.9763923208862337, rel=1e-9)
        assert line.in_the_large_test.statistic == pytest.approx(7.313329251621354, rel=1e-9)
        assert line.joint_test.statistic == pytest.approx(8.289721572507588, rel=1e-9)
        assert line.joint_test.p_value == pytest.approx(chi2.sf(8.289721572507588, 2), rel=1e-9)
        assert line.slope_test.p_value == pytest.approx(chi2.sf(0.9763923208862337, 1), rel=1e-9)

    def test_weights(self):
        labels, scores = evenly_spaced()
        line = calibration_slope_intercept(labels, scores, sample_weight=1 + np.arange(100) % 3)
        assert line.slope.value == pytest.approx(1.2136335, rel=1e-7)
        assert line.intercept.value == pytest.approx(-0.69725331, rel=1e-7)
        assert line.slope.standard_error == pytest.approx(0.27488969, rel=1e-7)
        assert line.intercept.standard_error == pytest.approx(0.29825514, rel=1e-7)


def test_eighty_percent_where_ninety_were_promised():
    """Log-odds of log 4 instead of log 9; both groups have the variance 16, and log 9 scales the error."""
    labels = [1] * 80 + [0] * 20 + [1] * 20 + [0] * 80
    line = calibration_slope_intercept(labels, [0.9] * 100 + [0.1] * 100, interval="wald")
    assert line.slope.value == pytest.approx(log(4) / log(9), rel=1e-9)
    assert line.slope.standard_error == pytest.approx(1 / (sqrt(32) * log(9)), rel=1e-9)
    assert line.intercept.value == pytest.approx(0, abs=1e-9)
    assert line.in_the_large.value == pytest.approx(0, abs=1e-9)
    gain = 2 * 200 * (0.8 * log(0.8 / 0.9) + 0.2 * log(0.2 / 0.1))
    assert line.joint_test.statistic == pytest.approx(gain, rel=1e-9)


def test_calibration_in_the_large_of_equal_scores():
    """All at one half, three of four happen: the intercept is log 3, its variance 1 / (4 * 3/16)."""
    line = calibration_slope_intercept([1, 1, 1, 0], [0.5] * 4)
    assert line.in_the_large.value == pytest.approx(log(3))
    assert line.in_the_large.standard_error == pytest.approx(sqrt(4 / 3))
    assert isnan(line.slope.value)
    assert (line.slope.low, line.slope.high) == (-inf, inf)
    assert line.slope_test.p_value == 1.0
    assert line.joint_test.p_value == pytest.approx(line.in_the_large_test.p_value)


@settings(max_examples=25)
@given(problem=problems(min_rows=8))
def test_no_other_line_is_more_likely(problem):
    probabilities, labels = problem
    scores = np.clip(probabilities[:, 0].astype(np.float64), 0.02, 0.98)
    outcomes = (labels == 0).astype(int)
    line = calibration_slope_intercept(outcomes, scores)
    identity = naive_log_likelihood(outcomes, scores, 0, 1)
    found = minimize(lambda t: -naive_log_likelihood(outcomes, scores, *t), [0.0, 1.0], method="Nelder-Mead")
    assert 2 * (-found.fun - identity) <= line.joint_test.statistic + 1e-5
    if np.isfinite(line.slope.value):
        best = naive_log_likelihood(outcomes, scores, line.intercept.value, line.slope.value)
        assert 2 * (best - identity) == pytest.approx(line.joint_test.statistic, rel=1e-6, abs=1e-6)
        assert line.slope.low < line.slope.value < line.slope.high
    parts = line.slope_test.statistic + line.in_the_large_test.statistic
    assert line.joint_test.statistic == pytest.approx(parts, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_profile_intervals_end_where_the_likelihood_ratio_test_rejects(level):
    labels, scores = evenly_spaced()
    line = calibration_slope_intercept(labels, scores, level=level)
    best = naive_log_likelihood(labels, scores, line.intercept.value, line.slope.value)
    for end in (line.slope.low, line.slope.high):
        given_slope = minimize(lambda a, b=end: -naive_log_likelihood(labels, scores, a[0], b), [0.0])
        assert 2 * (best + given_slope.fun) == pytest.approx(chi2.ppf(level, 1), rel=1e-4)
    for end in (line.intercept.low, line.intercept.high):
        given_intercept = minimize(lambda b, a=end: -naive_log_likelihood(labels, scores, a, b[0]), [1.0])
        assert 2 * (best + given_intercept.fun) == pytest.approx(chi2.ppf(level, 1), rel=1e-4)
    shifted = naive_log_likelihood(labels, scores, line.in_the_large.value, 1)
    for end in (line.in_the_large.low, line.in_the_large.high):
        loss = shifted - naive_log_likelihood(labels, scores, end, 1)
        assert 2 * loss == pytest.approx(chi2.ppf(level, 1), rel=1e-4)


class TestWithoutAMaximum:
    def test_separated_outcomes_have_an_infinite_slope_and_a_finite_lower_limit(self):
        labels, scores = [0, 0, 1, 1], [0.1, 0.2, 0.8, 0.9]
        line = calibration_slope_intercept(labels, scores)
        assert line.slope.value == line.slope.high == inf
        assert isnan(line.intercept.value)
        at_end = minimize(lambda a: -naive_log_likelihood(labels, scores, a[0], line.slope.low), [0.0])
        assert 2 * at_end.fun == pytest.approx(chi2.ppf(0.95, 1), rel=1e-4)
        identity = naive_log_likelihood(labels, scores, 0, 1)
        assert line.joint_test.statistic == pytest.approx(-2 * identity)

    def test_outcomes_separated_the_wrong_way_round(self):
        line = calibration_slope_intercept([1, 1, 0, 0], [0.1, 0.2, 0.8, 0.9])
        assert line.slope.value == line.slope.low == -inf
        assert line.slope.high < 1
        assert line.slope_test.p_value < 0.05

    def test_rows_on_the_border_keep_their_entropy(self):
        """At 0.5 one of two happens, whatever the slope: a likelihood of 2 log(1/2) remains."""
        labels, scores = [0, 1, 0, 1], [0.1, 0.5, 0.5, 0.7]
        line = calibration_slope_intercept(labels, scores)
        assert line.slope.value == inf
        identity = naive_log_likelihood(labels, scores, 0, 1)
        assert line.joint_test.statistic == pytest.approx(2 * (2 * log(0.5) - identity))

    def test_a_single_outcome_leaves_one_end_of_the_shift(self):
        line = calibration_slope_intercept([1, 1, 1], [0.9, 0.8, 0.3])
        assert isnan(line.slope.value)
        assert line.in_the_large.value == line.in_the_large.high == inf
        loss = -naive_log_likelihood([1, 1, 1], [0.9, 0.8, 0.3], line.in_the_large.low, 1)
        assert 2 * loss == pytest.approx(chi2.ppf(0.95, 1), rel=1e-4)
        missed = calibration_slope_intercept([0, 0], [0.9, 0.8])
        assert missed.in_the_large.value == missed.in_the_large.low == -inf

    @pytest.mark.parametrize("interval", ["profile", "wald"])
    def test_one_row(self, interval):
        line = calibration_slope_intercept([1], [0.3], interval=interval)
        assert 0 <= line.joint_test.p_value <= 1
        assert "1 rows" in str(line)


def test_zeros_and_ones_count_as_the_floor():
    """Half of the smallest positive probability, here 0.05, on both sides."""
    labels = [0, 1, 1, 0, 1, 0]
    given = calibration_slope_intercept(labels, [0.0, 1.0, 0.0, 0.1, 0.6, 0.7])
    odds = np.array([0.05, 1 / 0.05, 0.05, 0.1 / 0.9, 0.6 / 0.4, 0.7 / 0.3])
    replaced = calibration_slope_intercept(labels, odds / (1 + odds))
    assert given.slope.value == pytest.approx(replaced.slope.value, rel=0.05)
    chosen = Predictions.from_probabilities([0.0, 1.0, 0.0, 0.1, 0.6, 0.7], floor=1e-6)
    assert calibration_slope_intercept(labels, chosen).slope.value < given.slope.value


def test_saturated_logits_are_exact():
    """The softmax of these logits is 0 or 1 in float32 and in float64; their log-odds are not."""
    logits = np.array([[0.0, 800.0], [0.0, 900.0], [0.0, -800.0], [0.0, -900.0], [0.0, 850.0], [0.0, -850.0]])
    labels = [1, 0, 0, 1, 1, 0]
    large = calibration_slope_intercept(labels, Predictions.from_logits(logits))
    small = calibration_slope_intercept(labels, Predictions.from_logits(logits / 400))
    assert large.slope.value == pytest.approx(small.slope.value / 400, rel=1e-6)
    assert large.slope.high == pytest.approx(small.slope.high / 400, rel=1e-5)
    assert large.intercept.value == pytest.approx(small.intercept.value, abs=1e-6)
    assert np.isfinite(large.in_the_large.value)


def three_classes(n_rows=400, seed=0, sharpen=1.0, confident=1.0):
    generator = np.random.default_rng(seed)
    logits = confident * generator.normal(size=(n_rows, 3))
    probabilities = np.exp(logits)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    labels = (probabilities.cumsum(axis=1)[:, :-1] < generator.random((n_rows, 1))).sum(axis=1)
    return labels, sharpen * logits


def test_events_of_three_classes():
    labels, logits = three_classes()
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    for predictions in (probabilities, Predictions.from_logits(logits)):
        lines = calibration_slope_intercept(labels, predictions, kind="classwise")
        assert len(lines) == 3
        for k, line in enumerate(lines):
            alone = calibration_slope_intercept((labels == k).astype(int), probabilities[:, k])
            assert line.slope.value == pytest.approx(alone.slope.value, rel=1e-7)
            assert line.slope.high == pytest.approx(alone.slope.high, rel=1e-5)
            assert line.event == f"class {k}"
        predicted = calibration_slope_intercept(labels, predictions)
        hits = (probabilities.argmax(axis=1) == labels).astype(int)
        alone = calibration_slope_intercept(hits, probabilities.max(axis=1))
        assert predicted.slope.value == pytest.approx(alone.slope.value, rel=1e-7)
        assert predicted.event == "predicted class"
    with pytest.raises(ParameterError, match="for two classes"):
        calibration_slope_intercept(labels, probabilities, kind="positive")


def test_a_class_without_rows_has_a_result_too():
    lines = calibration_slope_intercept([0, 1, 0, 1, 1], np.full((5, 3), 1 / 3), kind="classwise")
    assert lines[2].in_the_large.value == -inf


def test_only_ratios_of_weights_matter():
    labels, scores = evenly_spaced()
    weights = 1.0 + np.arange(100) % 3
    plain = calibration_slope_intercept(labels, scores, sample_weight=weights)
    scaled = calibration_slope_intercept(labels, scores, sample_weight=1e5 * weights)
    assert scaled.slope.high == pytest.approx(plain.slope.high)
    assert scaled.joint_test.statistic == pytest.approx(plain.joint_test.statistic)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "top"}, "kind must be"),
        ({"level": 95}, "level must be"),
        ({"level": 1.0}, "level must be"),
        ({"interval": "bootstrap"}, "interval must be"),
    ],
)
def test_options_without_meaning_are_refused(arguments, message):
    with pytest.raises(ParameterError, match=message):
        calibration_slope_intercept([0, 1], [0.2, 0.7], **arguments)


def test_bad_input_gives_the_errors_of_calibrators():
    with pytest.raises(PredictionError):
        calibration_slope_intercept([0, 1], [0.2, 1.7])


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_levels_are_kept_and_intervals_cover(weighted):
    """1000 calibrated data sets of three classes, by the predicted one; 5 % is Binomial(1000, 0.05)."""
    weights = np.random.default_rng(0).random(500) + 0.2 if weighted else None
    lines = [
        calibration_slope_intercept(labels, Predictions.from_logits(logits), sample_weight=weights)
        for labels, logits in (three_classes(500, seed, confident=2.0) for seed in range(1000))
    ]
    low, high = binom.ppf(0.001, 1000, 0.05), binom.ppf(0.999, 1000, 0.05)
    for name in ("slope_test", "in_the_large_test", "joint_test"):
        p_values = [getattr(line, name).p_value for line in lines]
        assert low <= sum(p <= 0.05 for p in p_values) <= high
        assert kstest(p_values, "uniform").pvalue > 0.001
    for name, truth in (("slope", 1), ("intercept", 0), ("in_the_large", 0)):
        missed = sum(not getattr(line, name).low <= truth <= getattr(line, name).high for line in lines)
        assert low <= missed <= high


@pytest.mark.slow
def test_overconfidence_is_found_with_its_slope():
    """Logits times 1.6: the slope is 1 / 1.6 for each class of two."""
    generator = np.random.default_rng(0)
    lines = []
    for _ in range(100):
        logits = generator.normal(size=500)
        labels = (generator.random(500) < 1 / (1 + np.exp(-logits))).astype(int)
        lines.append(calibration_slope_intercept(labels, Predictions.from_logits(1.6 * logits)))
    assert np.mean([line.slope.value for line in lines]) == pytest.approx(1 / 1.6, abs=0.03)
    assert np.mean([line.slope_test.p_value <= 0.05 for line in lines]) > 0.5
    assert np.mean([line.joint_test.p_value <= 0.05 for line in lines]) > 0.5
