"""Cumulative tests: closed forms, a peer, and the level by simulation."""

from math import sqrt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from scipy.stats import norm

from calibrant import Predictions
from calibrant.errors import LabelError, ParameterError, PredictionError
from calibrant.hypothesis_tests.cumulative import classwise_cumulative_tests, cumulative_test
from calibrant.metrics.utility import OneClass, OptimalDecision, TopClasses, utility_calibration_error
from calibrant.numerics.cumulative import MAXIMUM, RANGE
from strategies import problems

STATISTICS = ["kuiper", "ks"]
every_statistic = pytest.mark.parametrize("statistic", STATISTICS)


def draw_labels(probabilities, generator):
    """Return labels drawn from the rows of probabilities."""
    below = probabilities.cumsum(axis=1)[:, :-1] < generator.random((len(probabilities), 1))
    return below.sum(axis=1)


def random_problem(n_rows=300, n_classes=4, seed=0):
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet(np.full(n_classes, 0.5), n_rows)
    return draw_labels(probabilities, generator), probabilities


@every_statistic
def test_equal_scores_give_the_test_of_a_mean(statistic):
    """30 of 100 at 0.2: a mean residual of 0.1, 2.5 times its standard deviation of 0.04."""
    result = cumulative_test([1] * 30 + [0] * 70, [0.2] * 100, utility=OneClass(1), statistic=statistic)
    assert result.statistic == pytest.approx(0.1)
    assert result.p_value == pytest.approx(2 * norm.sf(2.5), rel=1e-9)
    assert result.null_mean == pytest.approx(0.04 * sqrt(2 / np.pi))
    assert result.null_quantile == pytest.approx(0.04 * norm.isf(0.025))
    assert result.n_rows == 100


def test_without_the_correction_it_is_the_published_formula():
    """The same 2.5 standard deviations, as if they came from a Brownian motion."""
    for statistic, law in (("kuiper", RANGE), ("ks", MAXIMUM)):
        result = cumulative_test(
            [1] * 30 + [0] * 70,
            [0.2] * 100,
            utility=OneClass(1),
            statistic=statistic,
            continuity_correction=False,
        )
        assert result.p_value == pytest.approx(law.tail(2.5), rel=1e-9)
        assert result.null_quantile == pytest.approx(0.04 * law.quantile(0.05))


def test_mapie_agrees_on_the_published_formula():
    """MAPIE 1.6.0 on the rows below: p-values 0.15407381138 (KS) and 0.23517462467 (Kuiper)."""
    i = np.arange(500)
    p = ((i * 0.6180339887498949) % 1) ** 2 * 0.98 + 0.01
    y = (((i * 0.7548776662466927) % 1) < p**1.15).astype(int)
    for statistic, theirs in (("ks", 0.15407381138017195), ("kuiper", 0.23517462466595873)):
        ours = cumulative_test(y, p, utility=OneClass(1), statistic=statistic, continuity_correction=False)
        assert ours.p_value == pytest.approx(theirs, rel=1e-8)
        corrected = cumulative_test(y, p, utility=OneClass(1), statistic=statistic)
        assert 0.85 * theirs < corrected.p_value < theirs


@every_statistic
@pytest.mark.parametrize(
    "utility", [TopClasses(), TopClasses(2), OneClass(3), OptimalDecision(1 - np.eye(4))]
)
def test_the_statistic_is_the_metric(statistic, utility):
    labels, probabilities = random_problem()
    weights = np.linspace(0.1, 2, len(labels))
    options = {"sample_weight": weights, "utility": utility, "statistic": statistic}
    result = cumulative_test(labels, probabilities, **options)
    assert result.statistic == utility_calibration_error(labels, probabilities, **options)
    assert repr(utility) in result.test
    assert result.null_hypothesis == utility.claim


@every_statistic
@given(problem=problems())
def test_p_values_are_probabilities_in_the_corners_too(statistic, problem):
    result = cumulative_test(*problem[::-1], statistic=statistic)
    assert 0 <= result.p_value <= 1
    assert 0 <= result.null_mean <= result.null_quantile
    published = cumulative_test(*problem[::-1], statistic=statistic, continuity_correction=False)
    assert published.p_value >= result.p_value


def test_certain_predictions_are_refuted_by_one_miss():
    """No variance at all: right is p = 1, one that is wrong p = 0."""
    labels = np.array([0, 1, 1, 0])
    for utility in (TopClasses(), OneClass(0), OptimalDecision(1 - np.eye(2))):
        assert cumulative_test(labels, np.eye(2)[labels], utility=utility).p_value == 1.0
        assert cumulative_test([1, 1, 1, 0], np.eye(2)[labels], utility=utility).p_value == 0.0


def test_a_decision_of_known_cost_is_never_refuted():
    """Rounding of the rows' sums is no evidence."""
    labels, probabilities = random_problem()
    for statistic in STATISTICS:
        result = cumulative_test(
            labels, probabilities, utility=OptimalDecision([[0.3] * 4]), statistic=statistic
        )
        assert result.p_value == 1.0


def test_only_the_ratios_of_weights_matter_and_they_widen_the_noise():
    labels, probabilities = random_problem()
    plain = cumulative_test(labels, probabilities)
    scaled = cumulative_test(labels, probabilities, sample_weight=np.full(len(labels), 1e-6))
    assert scaled.p_value == pytest.approx(plain.p_value, rel=1e-9)
    uneven = cumulative_test(
        labels, probabilities, sample_weight=np.where(np.arange(len(labels)) % 10, 0.1, 9.0)
    )
    assert uneven.null_mean > 1.5 * plain.null_mean


def test_the_variance_is_that_of_the_weighted_mean():
    """Two rows at one half, weights 3 and 1: sigma^2 = (9 + 1) / 16 / 4; one group, so the normal quantile."""
    result = cumulative_test([1, 0], [0.5, 0.5], utility=OneClass(1), sample_weight=[3.0, 1.0])
    assert result.statistic == pytest.approx(0.25)
    assert result.p_value == pytest.approx(2 * norm.sf(0.25 / sqrt(10 / 64)), rel=1e-9)


def test_it_is_read_aloud():
    text = str(cumulative_test([1] * 30 + [0] * 70, [0.2] * 100, utility=OneClass(1)))
    assert text == (
        "Cumulative test (statistic=kuiper, utility=OneClass(column=1), continuity_correction=True): statistic "
        "0.1, p = 0.0124 (100 rows); under calibration mean 0.03192, below 0.0784 in 95 % of samples; "
        "null hypothesis rejected at the 5 % level: the class of column 1 occurs as often as its probability says."
    )


SELDOM_TAKEN = np.array([[0.0, 10, 10, 10, 10], [1.0] * 5])


def test_too_little_variance_is_a_reason_for_caution_in_any_unit_of_costs():
    """V is the sum of variances in units of the largest difference of costs, here 10, squared."""
    probabilities = np.random.default_rng(0).dirichlet(np.full(5, 0.4), 300)
    labels = np.zeros(300, dtype=int)
    sure = probabilities[probabilities[:, 0] > 0.9, 0]
    variance = sum(100 * p * (1 - p) for p in sure) / 10**2
    assert variance < 1
    for unit in (1e-3, 1, 1e3):
        result = cumulative_test(labels, probabilities, utility=OptimalDecision(unit * SELDOM_TAKEN))
        assert f"the total variance of the rows is {variance:.2g} times" in result.caution
        assert result.caution.endswith("; use consistency_test")
    assert (
        cumulative_test(labels, probabilities, utility=OptimalDecision(1e-3 * (1 - np.eye(5)))).caution
        is None
    )


def test_a_row_that_outweighs_the_others_is_a_reason_for_caution():
    """100 rows at one half have V = 25; if one weighs as much as all others, (99 / 99^2 + 1) / 4 = 0.2525."""
    labels, scores = [0, 1] * 50, [0.5] * 100
    assert cumulative_test(labels, scores).caution is None
    assert cumulative_test(labels, scores, sample_weight=[1e-3] * 100).caution is None
    uneven = cumulative_test(labels, scores, sample_weight=[99.0] + [1.0] * 99)
    assert "the total variance of the rows is 0.25 times" in uneven.caution


def test_five_are_enough():
    """Twenty rows at one half have a variance of five."""
    assert cumulative_test([0, 1] * 10, [0.5] * 20).caution is None
    assert cumulative_test([0, 1] * 9 + [0], [0.5] * 19).caution is not None


# Each class by itself


def naive_holm(p_values):
    """Go from the smallest to the largest, never falling."""
    adjusted, running = [0.0] * len(p_values), 0.0
    for rank, k in enumerate(sorted(range(len(p_values)), key=lambda k: p_values[k])):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[k]))
        adjusted[k] = running
    return adjusted


@every_statistic
def test_classes_are_tested_one_by_one_and_adjusted_after_holm(statistic):
    labels, probabilities = random_problem(n_classes=7)
    labels[::9] = 2
    tests = classwise_cumulative_tests(labels, probabilities, statistic=statistic)
    alone = [
        cumulative_test(labels, probabilities, utility=OneClass(k), statistic=statistic).p_value
        for k in range(7)
    ]
    assert [result.p_value for result in tests.results] == alone
    assert tests.adjusted_p_values == pytest.approx(naive_holm(alone), rel=1e-12)
    assert tests.rejected()[0] == 2


def test_classes_go_by_their_names():
    labels, probabilities = random_problem(n_classes=3)
    names = np.array(["cat", "ant", "bee"])
    labels[:60] = 1
    tests = classwise_cumulative_tests(names[labels], pd.DataFrame(probabilities, columns=names))
    assert tests.classes.tolist() == names.tolist()
    assert "ant" in tests.rejected()
    assert tests.results[1].null_hypothesis == "class 'ant' occurs as often as its probability says"
    assert str(tests).startswith(f"Calibration rejected for {len(tests.rejected())} of 3 classes")


def test_two_classes_are_one_hypothesis():
    """The range of the path is the same in both directions: nothing is to be adjusted."""
    generator = np.random.default_rng(0)
    scores = generator.random(300)
    labels = (generator.random(300) < scores**1.5).astype(int)
    tests = classwise_cumulative_tests(labels, scores)
    alone = cumulative_test(labels, scores, utility=OneClass(1)).p_value
    assert tests.adjusted_p_values == pytest.approx([alone, alone], rel=1e-9)


def test_the_two_directions_of_ks_are_two_tests_of_one_hypothesis():
    """Errors of low scores that are made up for by high ones; both classes are right or wrong together."""
    generator = np.random.default_rng(0)
    scores = generator.random(300)
    labels = (generator.random(300) < scores**1.5).astype(int)
    tests = classwise_cumulative_tests(labels, scores, statistic="ks")
    first, second = (result.p_value for result in tests.results)
    assert first != pytest.approx(second, rel=0.01)
    assert tests.adjusted_p_values == pytest.approx([2 * min(first, second)] * 2, rel=1e-12)


def test_rough_p_values_of_classes_are_named():
    """Of 100 rows class 2 is expected in one."""
    rough = classwise_cumulative_tests([0] * 45 + [1] * 45 + [2] * 10, np.tile([0.5, 0.49, 0.01], (100, 1)))
    assert rough.results[0].caution is None
    assert "the total variance of the rows is 0.99 times" in rough.results[2].caution
    assert ", rough)" in str(rough)
    assert str(rough).endswith(". Rough p-values come from too few rows; use consistency_test.")
    assert "ough" not in str(classwise_cumulative_tests([0] * 45 + [1] * 55, [0.5] * 100))


def test_no_class_is_refuted_without_reason():
    """Half of the rows of each class at one half."""
    tests = classwise_cumulative_tests([0, 1] * 50, [0.5] * 100)
    assert tests.rejected().tolist() == []
    assert str(tests) == (
        "Calibration rejected for none of 2 classes at a familywise level of 5 % (100 rows); "
        "smallest p-values: class 0 (statistic 0, adjusted p = 1), class 1 (statistic 0, "
        "adjusted p = 1)."
    )


def test_the_worst_classes_are_described_and_the_others_counted():
    """Six classes at one sixth; of 600 rows a class has none and another all, so that all six are refuted.

    The standard deviation is sqrt(5 / 36 / 600), and the worst class is off by 5/6.
    """
    tests = classwise_cumulative_tests(
        ["a"] * 600, Predictions.from_probabilities(np.full((600, 6), 1 / 6), classes=list("abcdef"))
    )
    text = str(tests)
    assert text.startswith(
        "Calibration rejected for 6 of 6 classes at a familywise level of 5 % (600 rows): "
        "class 'a' (statistic 0.8333, adjusted p < 1e-300), class 'b' (statistic 0.1667, adjusted p = "
    )
    assert text.endswith(") and 3 more.")
    one = classwise_cumulative_tests([0] * 50 + [1] * 50, np.tile([0.5, 0.5 - 1e-9, 1e-9], (100, 1)))
    assert "..." not in text + str(one)
    single = classwise_cumulative_tests([2, 0, 0, 1, 1], np.tile([0.5, 0.5 - 1e-9, 1e-9], (5, 1)))
    assert str(single).startswith("Calibration rejected for 1 of 3 classes at")


@pytest.mark.parametrize("test", [cumulative_test, classwise_cumulative_tests])
def test_bad_input_is_refused(test):
    with pytest.raises(ParameterError, match="statistic must be 'kuiper' or 'ks'"):
        test([0, 1], [0.2, 0.7], statistic="mean")
    with pytest.raises(PredictionError, match="from 0 to 1"):
        test([0, 1], [0.2, 1.7])
    with pytest.raises(LabelError, match="2 rows of predictions but 3 labels"):
        test([0, 1, 1], [0.2, 0.7])


def test_what_is_no_utility_is_refused():
    with pytest.raises(ParameterError, match="utility must be TopClasses"):
        cumulative_test([0, 1], [0.2, 0.7], utility="confidence")


# Level and power

SCORES = {
    "uniform": lambda generator, n: generator.random(n),
    "sure": lambda generator, n: generator.beta(8, 1, n),
    "extreme": lambda generator, n: generator.beta(0.3, 0.3, n),
    "rare": lambda generator, n: generator.beta(1, 9, n),
}


def rejection_rate(probabilities, n_draws, seed=1, **options):
    generator = np.random.default_rng(seed)
    p_values = [
        cumulative_test(draw_labels(probabilities, generator), probabilities, **options).p_value
        for _ in range(n_draws)
    ]
    return np.mean(np.array(p_values) <= 0.05)


def binary(positive):
    return np.column_stack([1 - positive, positive])


# 3.3 standard errors: one false alarm in a thousand of these tests.
def allowance(n_draws, rate=0.05):
    return 3.3 * sqrt(rate * (1 - rate) / n_draws)


@pytest.mark.slow
@every_statistic
@pytest.mark.parametrize("n_rows", [200, 2000])
@pytest.mark.parametrize("scores", SCORES.values(), ids=SCORES)
def test_calibrated_predictions_are_rejected_in_one_of_twenty_cases(statistic, n_rows, scores):
    """Without ties the corrected level is within a tenth of its name, besides the error of simulation."""
    probabilities = binary(scores(np.random.default_rng(0), n_rows))
    rate = rejection_rate(probabilities, 4000, utility=OneClass(1), statistic=statistic)
    assert abs(rate - 0.05) <= 0.005 + allowance(4000)


@pytest.mark.slow
@every_statistic
@pytest.mark.parametrize(
    "utility", [TopClasses(), TopClasses(3), OptimalDecision([[0, 9, 2, 1, 1], [2, 0, 1, 4, 3], [1.5] * 5])]
)
def test_the_level_holds_for_every_utility(statistic, utility):
    probabilities = np.random.default_rng(0).dirichlet(np.full(5, 0.5), 400)
    rate = rejection_rate(probabilities, 4000, utility=utility, statistic=statistic)
    assert abs(rate - 0.05) <= 0.005 + allowance(4000)


@pytest.mark.slow
@every_statistic
@pytest.mark.parametrize("n_scores", [1, 2, 5, 20])
def test_few_different_scores_stay_on_the_safe_side(statistic, n_scores):
    """Evenly filled scores: not less than three quarters of the level, and not more than the level."""
    levels = np.array([0.5]) if n_scores == 1 else np.linspace(0.2, 0.8, n_scores)
    probabilities = binary(np.repeat(levels, 600 // n_scores))
    rate = rejection_rate(probabilities, 4000, utility=OneClass(1), statistic=statistic)
    assert 0.0375 - allowance(4000) <= rate <= 0.05 + allowance(4000)


@pytest.mark.slow
def test_the_published_formula_is_conservative_by_as_much_as_the_docstring_says():
    """Kuiper and uniform scores: about 3.3 % at 50 rows, 4 % at 200."""
    for n_rows, level in ((50, 0.033), (200, 0.041)):
        probabilities = binary(np.random.default_rng(0).random(n_rows))
        rate = rejection_rate(probabilities, 6000, utility=OneClass(1), continuity_correction=False)
        assert abs(rate - level) <= 0.004 + allowance(6000, level)


@pytest.mark.slow
def test_a_mean_by_chance_is_what_simulation_gives():
    probabilities = binary(np.random.default_rng(0).random(500))
    generator = np.random.default_rng(1)
    results = [
        cumulative_test(draw_labels(probabilities, generator), probabilities, utility=OneClass(1))
        for _ in range(4000)
    ]
    values = np.array([result.statistic for result in results])
    assert results[0].null_mean == pytest.approx(values.mean(), rel=0.03)
    assert results[0].null_quantile == pytest.approx(np.quantile(values, 0.95), rel=0.03)


@pytest.mark.slow
def test_kuiper_sees_what_an_overconfident_model_does():
    """True odds are the square root of the predicted ones; 1000 rows are plenty."""
    generator = np.random.default_rng(0)
    logits = generator.normal(0, 2, 1000)
    predicted, true = (binary(1 / (1 + np.exp(-logits / scale))) for scale in (1, 2))
    rejected = [cumulative_test(draw_labels(true, generator), predicted).p_value <= 0.05 for _ in range(200)]
    assert np.mean(rejected) > 0.95
