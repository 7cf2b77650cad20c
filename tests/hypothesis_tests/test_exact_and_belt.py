"""The exact test of discrete scores, agreement counts and the calibration belt."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from scipy.stats import binom, chi2

from calibrant.agreement import agreement
from calibrant.errors import LabelError, ParameterError, PredictionError
from calibrant.hypothesis_tests import calibration_belt, discrete_score_test
from calibrant.intervals import clopper_pearson

pytest.importorskip("matplotlib")

# Discrete scores


def two_sided(x, n, p):
    return min(1.0, 2 * min(binom.cdf(x, n, p), binom.sf(x - 1, n, p)))


def test_the_p_value_is_that_of_all_outcomes():
    """Enumerate all numbers of events of two scores; the p-value is the share of at least as extreme ones."""
    sizes, scores, found = (4, 5), (0.3, 0.8), (3, 2)
    p = np.repeat(scores, sizes)
    y = np.concatenate([[1] * x + [0] * (n - x) for x, n in zip(found, sizes, strict=True)])
    result = discrete_score_test(y, p)
    own = [two_sided(x, n, s) for x, n, s in zip(found, sizes, scores, strict=True)]

    def probability_at_most(t):
        total = 0.0
        for xs in product(*(range(n + 1) for n in sizes)):
            smallest = min(two_sided(x, n, s) for x, n, s in zip(xs, sizes, scores, strict=True))
            if smallest <= t * (1 + 1e-9):
                total += np.prod([binom.pmf(x, n, s) for x, n, s in zip(xs, sizes, scores, strict=True)])
        return total

    assert result.p_value == pytest.approx([probability_at_most(t) for t in own])
    assert result.test.p_value == pytest.approx(probability_at_most(min(own)))
    low, high = clopper_pearson(np.array(found), np.array(sizes), 1 - 0.05 / 2)
    assert result.low == pytest.approx(low)
    assert result.high == pytest.approx(high)
    assert result.columns()["n_rows"].tolist() == [4, 5]
    assert "2 scores" in str(result)


def test_the_level_holds_for_few_rows():
    generator = np.random.default_rng(0)
    rejected = 0
    for _ in range(300):
        p = (generator.integers(0, 6, 30) + 1) / 7
        y = (generator.random(30) < p).astype(int)
        rejected += discrete_score_test(y, p).test.p_value <= 0.05
    assert rejected <= 300 * 0.05 + 3 * np.sqrt(300 * 0.05 * 0.95)


def test_impossible_outcomes_and_certain_scores():
    assert discrete_score_test([0, 1], [0.0, 1.0]).test.p_value == pytest.approx(1.0)
    assert discrete_score_test([1, 1], [0.0, 1.0]).test.p_value == 0


def test_continuous_scores_are_rejected():
    p = np.linspace(0.01, 0.99, 1500)
    with pytest.raises(ParameterError, match="cumulative_test"):
        discrete_score_test((p > 0.5).astype(int), p)


def test_agreement():
    found = agreement([["b", "a", "a"], ["x"], ["p", "q"]])
    assert found.answers == ["a", "x", "p"]
    assert found.counts.tolist() == [2, 1, 1]
    assert found.n_samples.tolist() == [3, 1, 2]
    assert found.confidence == pytest.approx([3 / 5, 2 / 3, 1 / 2])
    with pytest.raises(PredictionError, match="row 1"):
        agreement([["a"], []])
    with pytest.raises(PredictionError, match="row 0"):
        agreement(["abc"])
    with pytest.raises(PredictionError, match="no samples"):
        agreement([])


# Belt


def made(n_rows=600, power=1.3, seed=0):
    generator = np.random.default_rng(seed)
    p = generator.beta(1.5, 2, n_rows)
    return (generator.random(n_rows) < p**power).astype(int), p


def log_likelihood(design, y, beta):
    u = design @ beta
    return log_expit(np.where(y == 1, u, -u)).sum()


def test_the_curve_and_the_ratio_are_those_of_maximum_likelihood():
    y, p = made()
    belt = calibration_belt(y, p, n_points=5)
    x = np.log(p / (1 - p))
    design = np.vander(x, belt.degree + 1, increasing=True)
    best = minimize(lambda beta: -log_likelihood(design, y, beta), np.eye(belt.degree + 1)[1], tol=1e-12).x
    assert belt.coefficients == pytest.approx(best, abs=1e-4)
    identity = log_expit(np.where(y == 1, x, -x)).sum()
    assert belt.test.statistic == pytest.approx(2 * (log_likelihood(design, y, best) - identity), rel=1e-5)
    at = np.vander(np.log(belt.predicted / (1 - belt.predicted)), belt.degree + 1, increasing=True)
    assert belt.curve == pytest.approx(expit(at @ best), abs=1e-4)


def test_the_ends_of_the_belt_are_extremes_over_the_region():
    """Constrained maximisation by a general solver gives the same ends."""
    y, p = made(300)
    belt = calibration_belt(y, p, n_points=3, max_degree=1)
    design = np.vander(np.log(p / (1 - p)), 2, increasing=True)
    best = log_likelihood(design, y, belt.coefficients)
    limit = chi2.ppf(0.95, 2)  # degree 1 without a choice
    for i in range(3):
        g = np.array([1.0, np.log(belt.predicted[i] / (1 - belt.predicted[i]))])
        for side, end in ((1, belt.high[i]), (-1, belt.low[i])):
            found = minimize(
                lambda beta, side=side, g=g: -side * g @ beta,
                belt.coefficients,
                constraints={
                    "type": "ineq",
                    "fun": lambda beta: limit - 2 * (best - log_likelihood(design, y, beta)),
                },
            )
            assert end == pytest.approx(expit(g @ found.x), abs=3e-3)


def test_the_belt_finds_curves_of_higher_degree_and_where_they_are():
    generator = np.random.default_rng(1)
    p = generator.uniform(0.02, 0.98, 4000)
    x = np.log(p / (1 - p))
    y = (generator.random(4000) < expit(x - 0.4 * x**2)).astype(int)
    belt = calibration_belt(y, p, n_points=21)
    assert belt.degree >= 2
    assert belt.below_diagonal[-2]
    assert "too high" in str(belt)
    assert belt.test.p_value < 1e-4


def test_calibrated_predictions_are_rarely_rejected():
    rejected = 0
    for seed in range(150):
        y, p = made(300, power=1.0, seed=seed)
        rejected += calibration_belt(y, p, n_points=2, level=0.5).test.p_value <= 0.05
    assert rejected <= 150 * 0.05 + 3 * np.sqrt(150 * 0.05 * 0.95)


def test_invalid_rows_of_a_belt():
    with pytest.raises(LabelError, match="same outcome"):
        calibration_belt([1, 1], [0.2, 0.3])
    with pytest.raises(ParameterError, match="different probabilities"):
        calibration_belt([0, 1], [0.3, 0.3])


def test_the_display_draws_the_belt():
    from calibrant.plots import CalibrationBeltDisplay

    y, p = made(200)
    display = CalibrationBeltDisplay.from_predictions(y, p, n_points=4, name="belt").plot()
    assert display.ax_.get_xlabel() == "predicted probability"
    assert display.frame().shape == (4, 4)


def test_a_belt_of_nearly_certain_rows_has_a_caution():
    """200 rows at 1 and 99 %: a total variance of 1.98."""
    p = np.tile([0.01, 0.99], 100)
    y = (p > 0.5).astype(int)
    y[:3] = 1 - y[:3]
    assert (
        "the total variance of the outcomes, here 2, is less than 10"
        in calibration_belt(y, p, n_points=2).test.caution
    )
    assert calibration_belt(np.arange(200) % 2, np.linspace(0.3, 0.7, 200), n_points=2).test.caution is None
