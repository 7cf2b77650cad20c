"""The smallest detectable error: its equation, its limits, and its power by simulation."""

from math import log, sqrt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from calibrant import Predictions
from calibrant.errors import ParameterError, PredictionError, WeightError
from calibrant.hypothesis_tests.cumulative import cumulative_test
from calibrant.hypothesis_tests.detectable import smallest_detectable_error
from calibrant.metrics.cumulative import kuiper_calibration_error
from calibrant.metrics.utility import OneClass, OptimalDecision, TopClasses
from calibrant.numerics.cumulative import RANGE
from strategies import probability_matrices

STATISTICS = ["kuiper", "ks"]
POWERS = [(1000, 0.01), (500, 0.02), (2000, 0.005), (5000, 0.01), (300, 0.05)]


@pytest.mark.parametrize("statistic", STATISTICS)
def test_equal_scores_are_the_test_of_a_mean(statistic):
    """sigma = 0.3 / 30 = 0.01; the error solves k = 1.96 sigma + 0.8416 sqrt(sigma^2 + k / 900)."""
    found = smallest_detectable_error([[0.9, 0.1]] * 900, statistic=statistic)
    assert found.noise_limit == pytest.approx(norm.isf(0.025) * 0.01)
    k = found.error
    assert k == pytest.approx(norm.isf(0.025) * 0.01 + norm.ppf(0.8) * sqrt(1e-4 + k / 900))


def test_many_rows_need_the_two_quantiles_of_a_brownian_range():
    """n = 10^6 rows at all scores: sigma^2 = 1 / (6 n), the rest is of smaller order."""
    n = 10**6
    p = (np.arange(n) + 0.5) / n
    found = smallest_detectable_error(p, utility=OneClass(1), alpha=0.01, power=0.9)
    assert float(found) == found.error
    assert found.error == pytest.approx((RANGE.quantile(0.01) + norm.ppf(0.9)) / sqrt(6 * n), rel=0.01)


@given(
    probabilities=probability_matrices(n_classes=3),
    statistic=st.sampled_from(STATISTICS),
    alpha=st.floats(0.001, 0.2),
    power=st.floats(0.5, 0.99),
)
def test_the_error_solves_its_equation(probabilities, statistic, alpha, power):
    found = smallest_detectable_error(probabilities, statistic=statistic, alpha=alpha, power=power)
    confidence = np.minimum(probabilities.max(axis=1).astype(np.float64), 1)
    n, variance = len(confidence), (confidence * (1 - confidence)).sum() / len(confidence) ** 2
    k = found.error
    spread = sqrt(max(variance, 0) + k / n)
    if k > -log(1 - power) / n * (1 + 1e-9):
        assert k == pytest.approx(found.noise_limit + norm.ppf(power) * spread, rel=1e-9)
    assert 0 <= found.noise_limit <= k


def test_the_limit_is_where_the_test_starts_to_reject():
    """One more hit than the limit allows, and the p-value falls below the level."""
    p = np.full(1000, 0.3)
    limit = smallest_detectable_error(p, utility=OneClass(1)).noise_limit
    allowed = int(300 + 1000 * limit)
    for hits, rejected in ((allowed, False), (allowed + 1, True)):
        labels = np.arange(1000) < hits
        assert (cumulative_test(labels, p, utility=OneClass(1)).p_value < 0.05) == rejected


def test_stricter_demands_need_larger_errors_and_more_rows_smaller_ones():
    p = np.random.default_rng(0).random(400)
    base = float(smallest_detectable_error(p))
    assert float(smallest_detectable_error(p, alpha=0.01)) > base
    assert float(smallest_detectable_error(p, power=0.95)) > base
    assert float(smallest_detectable_error(p, continuity_correction=False)) > base
    assert float(smallest_detectable_error(np.tile(p, 4))) == pytest.approx(base / 2, rel=0.1)
    assert float(smallest_detectable_error(p, statistic="ks")) < base


def test_certain_predictions_need_enough_rows_that_are_wrong():
    """A single miss refutes them; there is one with probability 0.8 if -log(0.2) of n rows are expected."""
    found = smallest_detectable_error(np.eye(2)[[0, 1] * 50])
    assert found.noise_limit == 0.0
    assert found.error == pytest.approx(log(5) / 100)


def test_costs_carry_their_unit_and_weights_their_ratio():
    probabilities = np.random.default_rng(0).dirichlet(np.ones(3), 300)
    costs = np.array([[0, 1, 5], [1, 0, 1], [2, 2, 0]])
    once = smallest_detectable_error(probabilities, utility=OptimalDecision(costs))
    thrice = smallest_detectable_error(
        probabilities, utility=OptimalDecision(3 * costs), sample_weight=np.full(300, 7.0)
    )
    assert thrice.error == pytest.approx(3 * once.error)
    assert thrice.largest_possible == pytest.approx(3 * once.largest_possible)
    assert once.largest_possible == 5.0
    uneven = smallest_detectable_error(probabilities, sample_weight=np.where(np.arange(300) < 30, 9.0, 0.1))
    assert uneven.error > 2 * float(smallest_detectable_error(probabilities))


def test_the_power_is_said_to_be_approximate():
    text = str(smallest_detectable_error([0.2] * 500, utility=OneClass(1), power=0.9))
    assert "is detected with a power of about 0.9 or more (test at level 0.05)" in text


@pytest.mark.parametrize(("n_rows", "score"), POWERS)
def test_the_power_at_one_score_is_the_binomial_one(n_rows, score):
    """Rare events that are more frequent than predicted, by the error that is promised to be found."""
    found = smallest_detectable_error([score] * n_rows, utility=OneClass(1))
    counts = np.arange(n_rows + 1)
    rejected = np.abs(counts / n_rows - score) > found.noise_limit
    power = binom.pmf(counts, n_rows, score + found.error)[rejected].sum()
    assert 0.76 <= power <= 0.82


def test_two_rows_are_too_few():
    text = str(smallest_detectable_error([[0.6, 0.4], [0.7, 0.3]], statistic="ks"))
    assert text.startswith(
        "2 rows are too few to detect even the largest possible KS error (test at level 0.05)"
    )


def test_one_row_is_one_row():
    assert str(smallest_detectable_error([0.4])).startswith("1 row is too few to detect")


def test_predictions_of_any_kind_will_do():
    probabilities = np.random.default_rng(0).dirichlet(np.ones(3), 50)
    expected = smallest_detectable_error(probabilities)
    frame = pd.DataFrame(probabilities, columns=["cat", "ant", "bee"])
    assert smallest_detectable_error(frame) == expected
    assert (
        smallest_detectable_error(Predictions.from_probabilities(probabilities, classes=[7, 8, 9]))
        == expected
    )
    assert smallest_detectable_error(Predictions.from_logits(np.log(probabilities))).error == pytest.approx(
        expected.error
    )
    assert smallest_detectable_error(probabilities.astype(np.float32)).error == pytest.approx(expected.error)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": 0.0}, "alpha must be above 0 and below 1, but is 0.0"),
        ({"alpha": 1}, "alpha must be above 0"),
        ({"alpha": "5 %"}, "alpha must be above 0"),
        ({"power": 0.4}, "power must be at least 0.5 and below 1"),
        ({"power": 1.0}, "power must be at least 0.5"),
        ({"power": True}, "power must be at least 0.5"),
        ({"statistic": "mean"}, "statistic must be"),
        ({"utility": 1}, "utility must be"),
    ],
)
def test_options_without_meaning_are_refused(arguments, message):
    with pytest.raises(ParameterError, match=message):
        smallest_detectable_error([0.2, 0.7], **arguments)


def test_bad_rows_are_refused():
    with pytest.raises(PredictionError, match="from 0 to 1"):
        smallest_detectable_error([0.2, 1.7])
    with pytest.raises(WeightError, match="one number per row"):
        smallest_detectable_error([0.2, 0.7], sample_weight=[1.0])


# Power

N_DRAWS = 1500


def detection_rate(predicted, true, **options):
    """Return how often the test rejects ``predicted`` when the positive class has the chances ``true``."""
    generator = np.random.default_rng(1)
    options = {"utility": OneClass(1), **options}
    return np.mean(
        [
            cumulative_test(generator.random(len(true)) < true, predicted, **options).p_value <= 0.05
            for _ in range(N_DRAWS)
        ]
    )


def shifted(p, error, where):
    """Return chances that are lower by ``error`` on average over all rows, moved only where asked.

    What a row cannot lose, because its chance is smaller, the others share.
    """
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        lost = np.minimum(np.where(where, middle, 0), p).mean()
        low, high = (middle, high) if lost < error else (low, middle)
    return p - np.minimum(np.where(where, high, 0), p)


PATTERNS = {
    "all rows": lambda p: p >= 0,
    "the upper half": lambda p: p >= np.median(p),
    "the middle": lambda p: np.abs(p - np.median(p)) <= np.quantile(np.abs(p - np.median(p)), 0.4),
    "both ends": lambda p: (p <= np.quantile(p, 0.1)) | (p >= np.quantile(p, 0.9)),
}

POWER_ERROR = 3 * sqrt(0.8 * 0.2 / N_DRAWS)


@pytest.mark.slow
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("scores", ["uniform", "sure"])
def test_an_error_of_this_size_is_found_with_the_power_asked_for(scores, pattern):
    generator = np.random.default_rng(0)
    p = generator.uniform(0.15, 1, 1000) if scores == "uniform" else generator.beta(12, 1, 1000)
    error = float(smallest_detectable_error(p, utility=OneClass(1)))
    true = shifted(p, error, PATTERNS[pattern](p))
    assert (p - true).mean() == pytest.approx(error, rel=1e-6)
    rate = detection_rate(p, true)
    assert rate >= 0.8 - POWER_ERROR
    # Not even where errors are easiest to see is half of it enough; where they are hardest, not three quarters.
    share = 0.75 if pattern in ("all rows", "both ends") else 0.5
    assert detection_rate(p, shifted(p, share * error, PATTERNS[pattern](p))) < 0.8 - POWER_ERROR


@pytest.mark.slow
def test_a_shift_of_all_scores_is_found_only_a_little_more_often():
    p = np.random.default_rng(0).uniform(0.2, 0.8, 2000)
    for statistic in STATISTICS:
        error = float(smallest_detectable_error(p, utility=OneClass(1), statistic=statistic))
        rate = detection_rate(p, p - error, statistic=statistic)
        assert 0.8 - POWER_ERROR <= rate <= 0.93
    assert kuiper_calibration_error([0] * 2000, p, kind="positive") > error  # for scale: the largest there is


@pytest.mark.slow
def test_a_decision_that_costs_more_than_promised_is_found():
    """With some probability the worst outcome of the decision comes true instead."""
    generator = np.random.default_rng(0)
    probabilities = generator.dirichlet(np.full(3, 0.7), 1000)
    costs = np.array([[0, 1, 5], [1, 0, 1], [2, 2, 0]], dtype=float)
    utility = OptimalDecision(costs)
    error = float(smallest_detectable_error(probabilities, utility=utility))
    decision = (probabilities @ costs.T).argmin(axis=1)
    worst = costs[decision].argmax(axis=1)
    loss = costs[decision].max(axis=1) - (probabilities * costs[decision]).sum(axis=1)
    share = error / loss.mean()
    rejected = []
    for _ in range(N_DRAWS):
        drawn = (probabilities.cumsum(axis=1)[:, :-1] < generator.random((1000, 1))).sum(axis=1)
        labels = np.where(generator.random(1000) < share, worst, drawn)
        rejected.append(cumulative_test(labels, probabilities, utility=utility).p_value <= 0.05)
    assert np.mean(rejected) >= 0.8 - POWER_ERROR


@pytest.mark.slow
def test_the_top_class_of_a_sure_model():
    """Chances move in proportion to what is left below one, as overconfidence does."""
    generator = np.random.default_rng(0)
    confidence = 0.5 + generator.beta(4, 1, 900) / 2
    error = float(smallest_detectable_error(confidence, utility=TopClasses()))
    moved = (1 - confidence) * error / (1 - confidence).mean()
    assert detection_rate(confidence, confidence - moved) >= 0.8 - POWER_ERROR
