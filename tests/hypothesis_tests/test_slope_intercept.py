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
    """statsmodels 0.15.0: Logit, GLM with an offset, and GLM with freq_weights."""

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


def naive_sandwich(scores, intercept, slope, weights, columns):
    """Return the variances of the coefficients, with sums over rows one by one."""
    bread, filling = np.zeros((columns, columns)), np.zeros((columns, columns))
    for score, weight in zip(scores, weights, strict=True):
        x = np.array([1.0, log(score) - log(1 - score)])
        mean = 1 / (1 + np.exp(-intercept - slope * x[1]))
        outer = np.outer(x, x)[:columns, :columns] * mean * (1 - mean)
        bread += weight * outer
        filling += weight**2 * outer
    inverse = np.linalg.inv(bread)
    return np.diag(inverse @ filling @ inverse)


@pytest.mark.parametrize("interval", ["profile", "wald"])
def test_standard_errors_with_weights_are_those_of_the_sandwich(interval):
    labels, scores = evenly_spaced()
    weights = 1 + np.arange(100) % 3 + 5 * scores
    line = calibration_slope_intercept(labels, scores, sample_weight=weights, interval=interval)
    intercept, slope = naive_sandwich(scores, line.intercept.value, line.slope.value, weights, 2)
    assert line.slope.standard_error == pytest.approx(sqrt(slope), rel=1e-9)
    assert line.intercept.standard_error == pytest.approx(sqrt(intercept), rel=1e-9)
    (large,) = naive_sandwich(scores, line.in_the_large.value, 1, weights, 1)
    assert line.in_the_large.standard_error == pytest.approx(sqrt(large), rel=1e-9)


def test_weights_do_not_matter_among_rows_that_are_separate_groups():
    """Two scores, two intercepts: one line goes through both shares, whatever a group weighs as a whole."""
    labels = [1] * 80 + [0] * 20 + [1] * 30 + [0] * 70
    scores = [0.9] * 100 + [0.1] * 100
    plain = calibration_slope_intercept(labels, scores)
    weighted = calibration_slope_intercept(labels, scores, sample_weight=[50.0] * 100 + [1.0] * 100)
    for name in ("slope", "intercept"):
        one, other = getattr(plain, name), getattr(weighted, name)
        assert other.value == pytest.approx(one.value, rel=1e-6)
        assert other.standard_error == pytest.approx(one.standard_error, rel=1e-6)


def test_profile_intervals_with_weights_end_where_the_tests_reject():
    """The slope test at an end of the slope's interval: scores divided by it, so that it takes the place of one."""
    labels, scores = evenly_spaced()
    weights = 0.1 + 10 * scores
    line = calibration_slope_intercept(labels, scores, sample_weight=weights)
    logits = np.log(scores) - np.log(1 - scores)
    for end in (line.slope.low, line.slope.high):
        moved = np.column_stack([np.zeros(100), end * logits])
        there = calibration_slope_intercept(labels, Predictions.from_logits(moved), sample_weight=weights)
        assert there.slope_test.p_value == pytest.approx(0.05, rel=1e-3)
    for end in (line.in_the_large.low, line.in_the_large.high):
        moved = np.column_stack([np.zeros(100), logits + end])
        there = calibration_slope_intercept(labels, Predictions.from_logits(moved), sample_weight=weights)
        assert there.in_the_large_test.p_value == pytest.approx(0.05, rel=1e-3)


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
        assert "class 1, 1 row: slope" in str(line)


class TestZerosAndOnes:
    def test_count_as_twice_as_sure_as_anything_else(self):
        """The surest of the others is 0.1, odds of 9: zeros and ones have odds of 18."""
        labels = [0, 1, 1, 0, 1, 0]
        given = calibration_slope_intercept(labels, [0.0, 1.0, 0.0, 0.1, 0.6, 0.7])
        odds = np.array([1 / 18, 18, 1 / 18, 0.1 / 0.9, 0.6 / 0.4, 0.7 / 0.3])
        replaced = calibration_slope_intercept(labels, odds / (1 + odds))
        assert given.slope.value == pytest.approx(replaced.slope.value, rel=1e-9)
        assert given.joint_test.statistic == pytest.approx(replaced.joint_test.statistic, rel=1e-9)
        chosen = Predictions.from_probabilities([0.0, 1.0, 0.0, 0.1, 0.6, 0.7], floor=1e-6)
        odds[:3] = [1e-6, 1e6, 1e-6]
        expected = calibration_slope_intercept(labels, odds / (1 + odds))
        assert calibration_slope_intercept(labels, chosen).slope.value == pytest.approx(expected.slope.value)
        assert expected.slope.value < given.slope.value

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("trees", [4, 100])
    @pytest.mark.parametrize("interval", ["profile", "wald"])
    def test_an_event_and_its_opposite_have_one_slope_and_opposite_intercepts(self, dtype, trees, interval):
        """Shares of trees, more of them zero than one."""
        generator = np.random.default_rng(trees)
        true = generator.beta(0.4, 0.8, 500)
        votes = generator.binomial(trees, true)
        labels = (generator.random(500) < true).astype(int)
        assert (votes == 0).any()
        assert (votes == trees).any()
        vectors = (np.column_stack([trees - votes, votes]) / trees).astype(dtype)
        line = calibration_slope_intercept(labels, vectors, interval=interval)
        swapped = calibration_slope_intercept(1 - labels, vectors[:, ::-1], interval=interval)
        assert swapped.slope.value == pytest.approx(line.slope.value, rel=1e-8)
        assert swapped.slope.low == pytest.approx(line.slope.low, rel=1e-6)
        for name in ("intercept", "in_the_large"):
            here, there = getattr(line, name), getattr(swapped, name)
            assert there.value == pytest.approx(-here.value, rel=1e-7, abs=1e-9)
            assert there.low == pytest.approx(-here.high, rel=1e-5, abs=1e-7)
            assert there.high == pytest.approx(-here.low, rel=1e-5, abs=1e-7)
        assert swapped.joint_test.statistic == pytest.approx(line.joint_test.statistic, rel=1e-8)
        both = calibration_slope_intercept(labels, vectors, kind="classwise", interval=interval)
        assert both[0].slope.value == pytest.approx(both[1].slope.value, rel=1e-8)

    def test_a_forest_is_as_sure_as_its_votes(self):
        """Without zeros and ones the slope is the same as with them moved to the odds of 1 and 99 times two."""
        generator = np.random.default_rng(0)
        true = generator.beta(0.3, 0.3, 4000)
        votes = generator.binomial(100, true)
        labels = (generator.random(4000) < true).astype(int)
        line = calibration_slope_intercept(labels, votes / 100)
        moved = np.clip(votes / 100, 1 / 199, 198 / 199)
        assert line.slope.value == pytest.approx(calibration_slope_intercept(labels, moved).slope.value)
        assert 0.8 < line.slope.value < 1.2

    def test_each_class_of_several_has_its_own_largest_log_odds(self):
        """Class 0 is said at 0.5 and 0.8 besides 0 and 1: odds of 4, so that 0 and 1 have odds of 8."""
        vectors = np.array([[0.5, 0.5, 0], [0.8, 0, 0.2], [0, 0.1, 0.9], [1, 0, 0], [0, 1, 0], [0.5, 0, 0.5]])
        labels = np.array([0, 0, 0, 1, 1, 2])
        line = calibration_slope_intercept(labels, vectors, kind="classwise")[0]
        odds = np.array([1, 4, 1 / 8, 8, 1 / 8, 1])
        alone = calibration_slope_intercept((labels == 0).astype(int), odds / (1 + odds))
        assert line.slope.value == pytest.approx(alone.slope.value, rel=1e-9)

    def test_hard_predictions_have_no_line(self):
        hard = np.eye(2)[[0, 1, 1, 0]]
        for kind, event in (
            ("positive", "class 1"),
            ("confidence", "the predicted class"),
            ("classwise", "class 0"),
        ):
            with pytest.raises(
                PredictionError,
                match=f"every probability of {event} is exactly 0 or 1.*cumulative_test or spiegelhalter_test",
            ):
                calibration_slope_intercept([0, 1, 0, 0], hard, kind=kind)
        floored = Predictions.from_probabilities(hard, floor=0.01)
        assert calibration_slope_intercept([0, 1, 0, 0], floored).joint_test.p_value < 0.05


def test_classes_go_by_the_names_of_the_user():
    line = calibration_slope_intercept(["no", "yes", "no"], [0.3, 0.6, 0.7])
    assert line.event == "class 'yes'"
    assert str(line).startswith("class 'yes', 3 rows: slope")
    lines = calibration_slope_intercept(["no", "yes", "no"], [0.3, 0.6, 0.7], kind="classwise")
    assert [line.event for line in lines] == ["class 'no'", "class 'yes'"]
    assert "(class 'no', 1 degree of freedom)" in lines[0].slope_test.test


def test_a_p_value_that_underflows_is_not_said_to_be_zero():
    line = calibration_slope_intercept([0] * 4000 + [1] * 4000, [0.9] * 4000 + [0.1] * 4000)
    assert line.joint_test.p_value == 0
    assert "both p < 1e-300 (95 % intervals)" in str(line)


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
        ({"level": 95}, "level must lie"),
        ({"level": 1.0}, "level must lie"),
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
@pytest.mark.parametrize("interval", ["profile", "wald"])
@pytest.mark.parametrize(
    "weigh",
    [lambda p: 0.1 + 10 * p, lambda p: 0.02 + p * (1 - p), lambda p: 1 / (0.05 + p * (1 - p))],
    ids=["rising", "middle", "ends"],
)
def test_intervals_cover_and_levels_are_kept_with_weights_that_go_with_the_score(weigh, interval):
    """1000 calibrated data sets; besides the error of simulation one percent for the limit of many rows."""
    generator = np.random.default_rng(0)
    lines = []
    for _ in range(1000):
        scores = 1 / (1 + np.exp(-1.5 * generator.normal(size=500)))
        labels = (generator.random(500) < scores).astype(int)
        lines.append(
            calibration_slope_intercept(labels, scores, sample_weight=weigh(scores), interval=interval)
        )
    low, high = binom.ppf(0.001, 1000, 0.04), binom.ppf(0.999, 1000, 0.06)
    for name, truth in (("slope", 1), ("intercept", 0), ("in_the_large", 0)):
        missed = sum(not getattr(line, name).low <= truth <= getattr(line, name).high for line in lines)
        assert low <= missed <= high
    for name in ("slope_test", "in_the_large_test", "joint_test"):
        assert low <= sum(getattr(line, name).p_value <= 0.05 for line in lines) <= high


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


@pytest.mark.parametrize("kind", ["positive", "confidence"])
def test_what_stands_for_probabilities_of_zero_and_one_is_said(kind):
    """The largest odds are 0.9 to 0.1; certain ones count as twice that."""
    p = np.array([0.1, 0.3, 0.6, 0.9] * 20 + [0.0, 1.0])
    y = np.array([0, 0, 1, 1] * 15 + [1, 1, 0, 0] * 5 + [0, 1])
    line = calibration_slope_intercept(y, p, kind=kind)
    said = "2 probabilities of exactly 0 or 1 count as odds of 18 to one; the fit depends on this"
    assert line.slope_test.caution == said
    assert calibration_slope_intercept(y[:-2], p[:-2], kind=kind).slope_test.caution is None


def test_a_floor_that_was_declared_needs_no_caution():
    p = Predictions.from_probabilities(np.array([0.1, 0.3, 0.6, 0.9] * 50 + [0.0, 1.0]), floor=0.01)
    y = np.array([0, 0, 1, 1] * 40 + [1, 1, 0, 0] * 10 + [0, 1])
    assert calibration_slope_intercept(y, p).slope_test.caution is None


def test_few_of_the_less_probable_outcomes_are_a_reason_for_caution():
    """Rows at 99 %: a variance of 0.0099 each, so 10 need 1,011 rows; weights of 1 and 3 leave 4 / 5 of them."""
    y = np.arange(1100) % 100 > 0
    p = np.full(1100, 0.99)
    p[::2] = 0.98999
    assert calibration_slope_intercept(y[:1000], p[:1000]).joint_test.caution == (
        "the p-value is rough, since the total variance of the outcomes is 9.9, less than 10; use consistency_test"
    )
    assert calibration_slope_intercept(y, p).joint_test.caution is None
    weighted = calibration_slope_intercept(y, p, sample_weight=np.arange(1100) // 550 * 2 + 1)
    assert "is 8.7, less than 10" in weighted.joint_test.caution
