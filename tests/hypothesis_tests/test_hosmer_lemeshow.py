"""The Hosmer-Lemeshow test against loops, statsmodels, closed forms and simulation of its level."""

import tracemalloc
from math import exp, inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import expit
from scipy.stats import binom, chi2, kstest

from calibrant import Predictions
from calibrant.binning import EqualMass
from calibrant.errors import LabelError, ParameterError
from calibrant.hypothesis_tests.hosmer_lemeshow import hosmer_lemeshow_test
from calibrant.hypothesis_tests.slope_intercept import calibration_slope_intercept
from calibrant.hypothesis_tests.spiegelhalter import spiegelhalter_test
from data import load
from strategies import problems

WEIGHTS = st.one_of(st.none(), hnp.arrays(np.float64, 14, elements=st.floats(0.1, 5)))
PUBLISHED = {"variance": "groups", "min_expected": 0}


def evenly_spaced():
    """One hundred scores with outcomes that are rarer than promised, without random numbers."""
    number = np.arange(100)
    scores = (number + 0.5) / 100
    return ((37 * number % 100 + 0.5) / 100 < scores**1.5).astype(int), scores


def naive_chi_square(scores, opposites, outcomes, weights, n_bins, variance):
    """Go through the groups, and through all rows for each; opposites are sums of the other classes."""
    edges = EqualMass(n_bins)(scores, weights)
    index = edges.index(scores)
    total, n_groups = 0.0, 0
    for group in range(index.max() + 1):
        inside = [i for i in range(len(scores)) if index[i] == group]
        p = [min(float(scores[i]), 1.0) for i in inside]
        q = [min(float(opposites[i]), 1.0) for i in inside]
        w = [float(weights[i]) for i in inside]
        residual = sum(wi * (outcomes[i] - pi) for wi, pi, i in zip(w, p, inside, strict=True))
        exact = sum(wi**2 * pi * qi for wi, pi, qi in zip(w, p, q, strict=True))
        mean = sum(wi * pi for wi, pi in zip(w, p, strict=True)) / sum(w)
        rest = sum(wi * qi for wi, qi in zip(w, q, strict=True)) / sum(w)
        spread = exact if variance == "rows" else mean * rest * sum(wi**2 for wi in w)
        if exact > 0:
            n_groups += 1
            with np.errstate(over="ignore"):  # a row refuted against odds of 1e300 and more
                total += residual**2 / spread
    return total, n_groups


@given(
    problem=problems(),
    weights=WEIGHTS,
    n_bins=st.integers(1, 6),
    variance=st.sampled_from(["rows", "groups"]),
    kind=st.sampled_from(["auto", "confidence"]),
)
def test_chi_square_is_a_loop_over_groups(problem, weights, n_bins, variance, kind):
    probabilities, labels = problem
    weights = (np.ones(14) if weights is None else weights)[: len(labels)]
    if probabilities.shape[1] == 2 and kind == "auto":
        column, outcomes = np.ones_like(labels), labels == 1
    else:
        column = probabilities.argmax(axis=1)
        outcomes = column == labels
    scores = probabilities[np.arange(len(labels)), column].astype(np.float64)
    opposites = [
        sum(float(p) for k, p in enumerate(row) if k != c)
        for row, c in zip(probabilities, column, strict=True)
    ]
    result = hosmer_lemeshow_test(
        labels,
        probabilities,
        sample_weight=weights,
        n_bins=n_bins,
        variance=variance,
        kind=kind,
        min_expected=0,
    )
    if (outcomes & (scores == 0)).any() or (~outcomes & (np.array(opposites) == 0)).any():
        assert (result.statistic, result.p_value) == (inf, 0.0)
        return
    statistic, n_groups = naive_chi_square(scores, opposites, outcomes, weights, n_bins, variance)
    assert result.statistic == pytest.approx(statistic, rel=1e-6, abs=1e-9)
    assert result.p_value == pytest.approx(chi2.sf(statistic, n_groups) if n_groups else 1.0, abs=1e-6)


def test_figures_of_statsmodels():
    """statsmodels 0.15.0, test_chisquare_binning(..., bins=10, df=8)."""
    labels, scores = evenly_spaced()
    fitted = hosmer_lemeshow_test(labels, scores, fitted=True, **PUBLISHED)
    assert fitted.statistic == pytest.approx(11.271912951169917, rel=1e-12)
    assert fitted.p_value == pytest.approx(0.18676307919639662, rel=1e-10)
    held_out = hosmer_lemeshow_test(labels, scores, **PUBLISHED)
    assert held_out.statistic == fitted.statistic
    assert held_out.p_value == pytest.approx(chi2.sf(fitted.statistic, 10))


def test_two_groups_of_a_hundred():
    """Expected 20 and 60 with variances 16 and 24, seen 28 and 60: chi-square 4, p = exp(-4 / 2)."""
    labels = [1] * 28 + [0] * 72 + [1] * 60 + [0] * 40
    result = hosmer_lemeshow_test(labels, [0.2] * 100 + [0.6] * 100)
    assert result.statistic == pytest.approx(4)
    assert result.p_value == pytest.approx(exp(-2))
    assert "Hosmer-Lemeshow test of class 1 (2 groups, 2 degrees of freedom)" in result.test
    named = hosmer_lemeshow_test(np.array(["no", "yes"])[labels], [0.2] * 100 + [0.6] * 100)
    assert "Hosmer-Lemeshow test of class 'yes' (2 groups" in str(named)


def test_groups_are_merged_until_each_expects_enough():
    """Ten rows at 0.01 expect 0.1 events, 90 at 0.1 expect 9: with one group 9.1, seen 10."""
    labels = [1] + [0] * 9 + [1] * 9 + [0] * 81
    scores = [0.01] * 10 + [0.1] * 90
    variance = 10 * 0.01 * 0.99 + 90 * 0.1 * 0.9
    merged = hosmer_lemeshow_test(labels, scores, n_bins=10)
    assert merged.statistic == pytest.approx(0.9**2 / variance)
    assert "(1 group, 1 degree of freedom)" in merged.test
    apart = hosmer_lemeshow_test(labels, scores, n_bins=10, min_expected=0)
    assert apart.statistic == pytest.approx(0.9**2 / 0.099)
    assert "2 groups" in apart.test


def test_five_events_are_enough_and_fewer_are_not():
    """Fifty rows at 0.1 expect five events, but for rounding; 49 expect 4.9, and join their neighbours."""
    for n_rows, size in ((50, "2 groups"), (49, "1 group")):
        labels = [1] * 5 + [0] * (n_rows - 5) + [1] * 30 + [0] * 30
        result = hosmer_lemeshow_test(labels, [0.1] * n_rows + [0.5] * 60, n_bins=2)
        assert f"({size}, " in result.test
        assert result.caution is None


def test_a_group_that_expects_too_little_is_a_reason_for_caution():
    """One hundred rows at 0.012 expect 1.2 events; as they are, and in spite of others if these are not joined."""
    labels, scores = [1] + [0] * 99, [0.012] * 100
    alone = hosmer_lemeshow_test(labels, scores)
    assert alone.caution == (
        "the p-value is rough, since a group expects only 1.2 events or non-events; use consistency_test"
    )
    apart = hosmer_lemeshow_test(labels + [0, 1] * 50, scores + [0.5] * 100, n_bins=2, min_expected=0)
    assert apart.caution == alone.caution
    assert hosmer_lemeshow_test(labels + [0, 1] * 50, scores + [0.5] * 100, n_bins=2).caution is None


def test_the_last_group_joins_the_one_before_if_it_expects_too_little():
    """Fifty at 0.5, then ten at 0.999 that expect 0.01 misses."""
    labels = [1] * 25 + [0] * 25 + [1] * 10
    result = hosmer_lemeshow_test(labels, [0.5] * 50 + [0.999] * 10, n_bins=6)
    assert result.statistic == pytest.approx(0.01**2 / (12.5 + 10 * 0.999 * 0.001))


def test_impossible_events_refute_and_certain_ones_count_nothing():
    assert hosmer_lemeshow_test([0, 1, 1], [0.0, 1.0, 1.0]).p_value == 1.0
    assert hosmer_lemeshow_test([0, 1, 1], [0.0, 1.0, 1.0]).statistic == 0.0
    for labels in ([1, 1, 1], [0, 0, 1]):
        refuted = hosmer_lemeshow_test(labels, [0.0, 1.0, 0.5])
        assert (refuted.statistic, refuted.p_value) == (inf, 0.0)


class TestSaturatedPredictions:
    """A confidence that rounds to one is not certain; what is left for the others says how sure it is."""

    def test_logits_of_float32_are_as_good_as_those_of_float64(self):
        generator = np.random.default_rng(0)
        logits = (8 * generator.normal(size=(3000, 10))).astype(np.float32)
        labels = (logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
        labels[:3] = logits[:3].argmin(axis=1)
        single = Predictions.from_logits(logits)
        assert (single.probabilities.max(axis=1) == 1).any()
        result = hosmer_lemeshow_test(labels, single)
        assert np.isfinite(result.statistic)
        double = hosmer_lemeshow_test(labels, Predictions.from_logits(logits.astype(np.float64)))
        assert result.statistic == double.statistic

    def test_a_miss_at_one_minus_a_tiny_number_is_not_impossible(self):
        """Ten rows that leave 1e-30 for the other class, one of them wrong: 1 / (10 * 1e-30)."""
        logits = [[0.0, 30 * log(10)]] * 10
        labels = [1] * 9 + [0]
        for kind in ("positive", "confidence"):
            for variance in ("rows", "groups"):
                result = hosmer_lemeshow_test(
                    labels, Predictions.from_logits(logits), kind=kind, variance=variance
                )
                assert result.statistic == pytest.approx(1e29, rel=1e-6)
                given = np.array([[1e-30, 1.0]] * 10, dtype=np.float32)
                assert hosmer_lemeshow_test(
                    labels, given, kind=kind, variance=variance
                ).statistic == pytest.approx(1e29, rel=1e-6)

    @pytest.mark.parametrize("variance", ["rows", "groups"])
    def test_logits_beyond_the_range_of_exponentials(self, variance):
        logits = Predictions.from_logits([[0.0, 5000.0]] * 5)
        refuted = hosmer_lemeshow_test([1, 1, 1, 0, 0], logits, variance=variance, min_expected=0)
        assert refuted.p_value == 0.0
        assert "p < 1e-300 (5 rows)" in str(refuted)
        assert hosmer_lemeshow_test([1] * 5, logits, variance=variance, min_expected=0).p_value == 1.0

    def test_a_network_in_float32(self):
        """ResNet-110 on CIFAR-10: a thousand confidences are one in float32, and some of these are wrong."""
        network = load("kull_nn/c10_resnet110")
        logits, labels = network["test_logits"], network["test_y"].ravel()
        result = hosmer_lemeshow_test(labels, Predictions.from_logits(logits))
        assert np.isfinite(result.statistic)
        assert result.statistic == pytest.approx(
            hosmer_lemeshow_test(labels, Predictions.from_logits(logits.astype(np.float64))).statistic
        )


def test_memory_does_not_grow_with_the_number_of_classes():
    """Rows of 200 classes: no second array of their size, only vectors of n."""
    logits = np.random.default_rng(0).normal(size=(20_000, 200)).astype(np.float32)
    predictions, labels = Predictions.from_logits(logits), np.zeros(20_000, dtype=int)
    tracemalloc.start()
    hosmer_lemeshow_test(labels, predictions)
    spiegelhalter_test(labels, predictions)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < logits.nbytes / 2


def test_events():
    labels, probabilities = [0, 1, 2, 2], np.array([[0.5, 0.3, 0.2]] * 2 + [[0.1, 0.2, 0.7]] * 2)
    result = hosmer_lemeshow_test(labels, probabilities, n_bins=2, min_expected=0)
    assert result.statistic == pytest.approx(0 + (2 - 1.4) ** 2 / (2 * 0.21))
    assert "predicted class" in result.test
    with pytest.raises(ParameterError, match="for two classes"):
        hosmer_lemeshow_test(labels, probabilities, kind="positive")


def test_only_ratios_of_weights_matter():
    labels, scores = evenly_spaced()
    weights = 1.0 + np.arange(100) % 3
    plain = hosmer_lemeshow_test(labels, scores, sample_weight=weights)
    assert hosmer_lemeshow_test(labels, scores, sample_weight=1e5 * weights).statistic == pytest.approx(
        plain.statistic
    )
    equal = hosmer_lemeshow_test(labels, scores, sample_weight=np.full(100, 0.1))
    assert equal.statistic == pytest.approx(hosmer_lemeshow_test(labels, scores).statistic)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "classwise"}, "kind must be"),
        ({"variance": "binned"}, "variance must be"),
        ({"min_expected": -1}, "min_expected must be"),
        ({"min_expected": "5"}, "min_expected must be"),
        ({"n_bins": 0}, "n_bins must be"),
        ({"fitted": True, "n_bins": 2}, "at least three groups"),
    ],
)
def test_options_without_meaning_are_refused(arguments, message):
    with pytest.raises(ParameterError, match=message):
        hosmer_lemeshow_test(*evenly_spaced(), **arguments)


def test_bad_input_gives_the_errors_of_calibrators():
    with pytest.raises(LabelError):
        hosmer_lemeshow_test([0, 1, 2], [0.1, 0.2, 0.3])


def calibrated(n_rows, seed, sharpen=1.0, confident=1.0):
    generator = np.random.default_rng(seed)
    logits = confident * generator.normal(size=n_rows)
    labels = (generator.random(n_rows) < 1 / (1 + np.exp(-logits))).astype(int)
    return labels, 1 / (1 + np.exp(-sharpen * logits))


@pytest.mark.slow
@pytest.mark.parametrize("confident", [1.0, 8.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_level_is_kept(confident, weighted):
    """2000 calibrated data sets; also for a classifier that is almost sure of most rows."""
    weights = np.random.default_rng(0).random(1000) + 0.5 if weighted else None
    p_values = [
        hosmer_lemeshow_test(*calibrated(1000, seed, confident=confident), sample_weight=weights).p_value
        for seed in range(2000)
    ]
    rejections = sum(p <= 0.05 for p in p_values)
    assert binom.ppf(0.001, 2000, 0.05) <= rejections <= binom.ppf(0.999, 2000, 0.05)
    assert confident > 1 or kstest(p_values, "uniform").pvalue > 0.001


@pytest.mark.slow
@pytest.mark.parametrize(("weighted", "largest"), [(False, 0.012), (True, 0.02)])
def test_rare_events_are_not_rejected_too_often(weighted, largest):
    """Beta(0.3, 10), 500 rows, at the 1 % level: with groups of one expected event it would be about 1.7 and 3.4 %."""
    generator = np.random.default_rng(0)
    p_values = []
    for _ in range(3000):
        scores = generator.beta(0.3, 10, 500)
        labels = (generator.random(500) < scores).astype(int)
        weights = np.exp(generator.normal(size=500)) if weighted else None
        p_values.append(hosmer_lemeshow_test(labels, scores, sample_weight=weights).p_value)
    assert sum(p <= 0.01 for p in p_values) <= binom.ppf(0.99, 3000, largest)
    assert sum(p <= 0.05 for p in p_values) <= binom.ppf(0.999, 3000, 0.05)


@pytest.mark.slow
def test_a_fitted_model_loses_two_degrees_of_freedom():
    """Logistic regression on the same rows: g - 2 keeps the level, g rejects too rarely."""
    generator = np.random.default_rng(0)
    inside, outside = [], []
    for _ in range(1000):
        feature = generator.normal(size=500)
        labels = (generator.random(500) < expit(feature)).astype(int)
        line = calibration_slope_intercept(labels, expit(feature), interval="wald")
        scores = expit(line.intercept.value + line.slope.value * feature)
        inside.append(hosmer_lemeshow_test(labels, scores, fitted=True, variance="groups").p_value)
        outside.append(hosmer_lemeshow_test(labels, scores, variance="groups").p_value)
    assert binom.ppf(0.001, 1000, 0.05) <= sum(p <= 0.05 for p in inside) <= binom.ppf(0.999, 1000, 0.05)
    assert sum(p <= 0.05 for p in outside) < binom.ppf(0.01, 1000, 0.05)


@pytest.mark.slow
def test_overconfidence_is_found():
    found = [
        hosmer_lemeshow_test(*calibrated(1000, seed, sharpen=1.6)).p_value <= 0.05 for seed in range(100)
    ]
    assert np.mean(found) > 0.5
