"""Debiased ECE against loops, the authors' program, and expectations over all outcomes there are."""

from itertools import product
from math import exp, inf, pi, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.integrate import quad

from calibrant import Predictions
from calibrant.binning import EqualMass, EqualWidth, FixedEdges
from calibrant.errors import ParameterError
from calibrant.metrics import confidence_ece
from calibrant.metrics.debiased import debiased_ece
from data import load
from strategies import problems

CORRECTIONS = ["variance", "pairs", "tcal"]
WEIGHTS = st.one_of(st.none(), hnp.arrays(np.float64, 14, elements=st.integers(1, 5).map(float)))


def folded_mean(gap, deviation):
    """Mean of |x| for x normal around the gap, by integration."""
    if deviation == 0:
        return abs(gap)

    def integrand(z):
        return abs(gap + deviation * z) * exp(-z * z / 2) / sqrt(2 * pi)

    return quad(integrand, -12, 12, points=[max(-12, min(12, -gap / deviation))], epsabs=1e-12, limit=200)[0]


def naive(scores, outcomes, weights, n_bins, norm, correction):
    """Go through the bins [k/B, (k+1)/B) and through all pairs of their rows."""
    total, estimate = sum(weights), 0.0
    edges = [type(scores[0])(k / n_bins) for k in range(n_bins + 1)]
    for b in range(n_bins):
        last = b == n_bins - 1
        rows = [i for i, s in enumerate(scores) if s >= edges[b] and (s < edges[b + 1] or last)]
        if len(rows) < 2:
            continue
        weight = sum(weights[i] for i in rows)
        gap = sum(weights[i] * (outcomes[i] - float(scores[i])) for i in rows) / weight
        mean = sum(weights[i] * outcomes[i] for i in rows) / weight
        effective = weight**2 / sum(weights[i] ** 2 for i in rows)
        if norm == 1:
            error = 2 * abs(gap) - folded_mean(gap, sqrt(max(mean * (1 - mean), 0) / effective))
        elif correction == "variance":
            error = gap**2 - mean * (1 - mean) / (effective - 1)
        else:
            pairs = [(i, j) for i in rows for j in rows if i != j]
            products = sum(
                weights[i] * weights[j] * (outcomes[i] - float(scores[i])) * (outcomes[j] - float(scores[j]))
                for i, j in pairs
            )
            error = products / (
                weight**2 if correction == "tcal" else sum(weights[i] * weights[j] for i, j in pairs)
            )
        estimate += weight / total * error
    return estimate


@given(
    problem=problems(),
    weights=WEIGHTS,
    n_bins=st.integers(1, 8),
    estimator=st.sampled_from([(1, "variance"), (2, "variance"), (2, "pairs"), (2, "tcal")]),
)
def test_it_is_a_loop_over_bins_and_pairs(problem, weights, n_bins, estimator):
    probabilities, labels = problem
    norm, correction = estimator
    weights = np.ones(len(labels)) if weights is None else weights[: len(labels)]
    options = {"n_bins": n_bins, "strategy": "uniform", "norm": norm, "correction": correction}
    arguments = options | {"sample_weight": weights}
    right = (probabilities.argmax(axis=1) == labels).astype(float)
    expected = naive(list(probabilities.max(axis=1)), right, weights, n_bins, norm, correction)
    result = debiased_ece(labels, probabilities, signed=True, **arguments)
    assert result == pytest.approx(expected, abs=1e-8)
    assert debiased_ece(labels, probabilities, **arguments) == pytest.approx(
        max(result, 0) ** (1 / norm), abs=1e-12
    )
    classes = [
        naive(list(column), (labels == k).astype(float), weights, n_bins, norm, correction)
        for k, column in enumerate(probabilities.T)
    ]
    result = debiased_ece(labels, probabilities, kind="classwise", signed=True, **arguments)
    assert result == pytest.approx(np.mean(classes), abs=1e-8)


def expectation(truth, scores, **options):
    """Return the mean of the estimate over all outcomes there are, each with its probability."""
    mean = 0.0
    for outcomes in product([0, 1], repeat=len(truth)):
        chance = np.prod([t if o else 1 - t for t, o in zip(truth, outcomes, strict=True)])
        mean += chance * debiased_ece(list(outcomes), scores, kind="positive", signed=True, **options)
    return mean


@pytest.mark.parametrize("weights", [None, [3.0, 1.0, 0.5, 2.0, 1.0, 1.0, 0.2]])
@pytest.mark.parametrize("correction", ["variance", "pairs"])
def test_the_square_is_unbiased_for_equal_scores_in_each_bin(correction, weights):
    """Three rows at 0.2 of truth 0.5, four at 0.7 of truth 0.6: shares times 0.3^2 and 0.1^2."""
    scores, truth = [0.2] * 3 + [0.7] * 4, [0.5] * 3 + [0.6] * 4
    options = {"n_bins": 2, "strategy": "uniform", "correction": correction, "sample_weight": weights}
    total, first = (7, 3) if weights is None else (sum(weights), sum(weights[:3]))
    expected = (first * 0.09 + (total - first) * 0.01) / total
    assert expectation(truth, scores, **options) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("weights", [None, [3.0, 1.0, 0.5, 2.0, 1.0, 1.0]])
@pytest.mark.parametrize("n_bins", [1, 2, 3, "cube_root"])
def test_pairs_of_calibrated_rows_give_zero_in_expectation_whatever_the_bins(n_bins, weights):
    truth = [0.1, 0.25, 0.5, 0.6, 0.8, 0.95]
    for correction in ("pairs", "tcal"):
        mean = expectation(truth, truth, n_bins=n_bins, correction=correction, sample_weight=weights)
        assert mean == pytest.approx(0, abs=1e-12)


def test_the_variance_takes_away_the_spread_of_the_truth_too():
    """One bin of calibrated rows: the expectation is minus the variance of their truth over n - 1."""
    truth = [0.1, 0.25, 0.5, 0.6, 0.8, 0.95]
    assert expectation(truth, truth, n_bins=1) == pytest.approx(-np.var(truth) / 5, rel=1e-9)


def test_nine_of_ten_right_at_eighty_percent():
    """Gap 0.1; the variance of the mean is 0.09 / 9, and 0.09 / 10 in the formula for norm 1.

    Residuals are 0.2 nine times and -0.8: their sum is 1 and the sum of their squares is 1 too.
    """
    labels, probabilities = [0] * 9 + [1], [[0.8, 0.2]] * 10
    for correction in CORRECTIONS:
        value = debiased_ece(labels, probabilities, correction=correction, signed=True)
        assert value == pytest.approx(0, abs=1e-15)
    folded = folded_mean(0.1, sqrt(0.009))
    assert debiased_ece(labels, probabilities, norm=1) == pytest.approx(0.2 - folded, rel=1e-9)


def test_pairs_and_tcal_of_ninety_of_a_hundred():
    """Sum of residuals 10, of their squares 10: (100 - 10) over 100 x 99 and over 100 x 100."""
    labels, probabilities = [0] * 90 + [1] * 10, [[0.8, 0.2]] * 100
    assert debiased_ece(labels, probabilities, correction="pairs", signed=True) == pytest.approx(1 / 110)
    assert debiased_ece(labels, probabilities, correction="tcal", signed=True) == pytest.approx(0.009)
    assert debiased_ece(labels, probabilities, signed=True) == pytest.approx(0.01 - 0.09 / 99)


def test_without_spread_nothing_is_taken_away():
    """All right at 80 %: the outcomes of each bin are equal, and every gap counts in full."""
    labels, probabilities = [0] * 10, [[0.8, 0.2]] * 10
    for norm in (1, 2):
        assert debiased_ece(labels, probabilities, norm=norm) == pytest.approx(0.2)


def test_bins_of_one_row_count_as_zero():
    """0.9 right alone in its bin; 0.6 and 0.7, both wrong: two thirds of the gap 0.65 or of its square."""
    labels, probabilities = [0, 1, 1], [[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]]
    binning = FixedEdges((0, 0.8, 1))
    assert debiased_ece(labels, probabilities, binning=binning, norm=1) == pytest.approx(2 / 3 * 0.65)
    value = debiased_ece(labels, probabilities, binning=binning, signed=True)
    assert value == pytest.approx(2 / 3 * 0.65**2)
    assert debiased_ece(labels[:1], probabilities[:1]) == 0.0
    assert debiased_ece(labels[:1], probabilities[:1], norm=1) == 0.0


def peer_problem():
    """Three hundred rows without ties, and without a random generator."""
    rows = np.arange(300)
    confidence = 0.5 + 0.5 * 0.999 * np.sqrt((rows * 0.6180339887498949) % 1.0)
    right = (rows * 0.7548776662466927) % 1.0 < confidence**2
    return 1 - right.astype(int), np.column_stack([confidence, 1 - confidence])


@pytest.mark.parametrize(
    ("n_bins", "square", "root", "absolute"),
    [
        (5, 0.017595872703888515, 0.1326494353696559, 0.1165258),
        (15, 0.01453196992172111, 0.12054862057162292, 0.1109682),
        (30, 0.007987357593999832, 0.08937201795864202, 0.0995836),
    ],
)
def test_figures_of_the_authors_program(n_bins, square, root, absolute):
    """uncertainty-calibration 0.1.4; norm 1 from 400,000 draws, whose mean is good to about 5e-5."""
    labels, probabilities = peer_problem()
    result = debiased_ece(labels, probabilities, n_bins=n_bins, signed=True)
    assert result == pytest.approx(square, rel=1e-12)
    assert debiased_ece(labels, probabilities, n_bins=n_bins) == pytest.approx(root, rel=1e-12)
    assert debiased_ece(labels, probabilities, n_bins=n_bins, norm=1) == pytest.approx(absolute, abs=1e-4)


def test_figures_of_the_authors_program_for_a_network():
    """uncertainty-calibration 0.1.4, 20 and 50 bins of equal mass; marginal as a root mean square."""
    data = load("kull_nn/c10_resnet110")
    predictions = Predictions.from_logits(data["test_logits"].astype(np.float64))
    labels = data["test_y"].ravel()
    for n_bins, top_label, absolute, marginal in (
        (20, 0.09246465525433757, 0.0474155, 0.02835333760338655),
        (50, 0.09302174475825861, 0.0472822, 0.03363088638148362),
    ):
        assert debiased_ece(labels, predictions, n_bins=n_bins) == pytest.approx(top_label, rel=1e-9)
        assert debiased_ece(labels, predictions, n_bins=n_bins, norm=1) == pytest.approx(absolute, abs=3e-5)
        square = debiased_ece(labels, predictions, n_bins=n_bins, kind="classwise", signed=True)
        assert sqrt(square) == pytest.approx(marginal, rel=1e-9)


def test_strategies_and_schemes():
    labels, probabilities = peer_problem()
    for strategy, scheme in (("uniform", EqualWidth), ("quantile", EqualMass)):
        named = debiased_ece(labels, probabilities, n_bins=7, strategy=strategy)
        assert named == debiased_ece(labels, probabilities, binning=scheme(7))
        # 6^3 = 216 < 300 <= 343 = 7^3
        assert named == debiased_ece(labels, probabilities, n_bins="cube_root", strategy=strategy)


@pytest.mark.parametrize("norm", [1, 2])
def test_only_ratios_of_weights_matter(norm):
    labels, probabilities = peer_problem()
    weights = np.random.default_rng(0).random(300) + 0.1
    expected = debiased_ece(labels, probabilities, norm=norm, sample_weight=weights)
    for unit in (1e-200, 1e-6, 1e200):
        value = debiased_ece(labels, probabilities, norm=norm, sample_weight=unit * weights)
        assert value == pytest.approx(expected, rel=1e-9)
    equal = debiased_ece(labels, probabilities, norm=norm, sample_weight=np.full(300, 0.3))
    assert equal == pytest.approx(debiased_ece(labels, probabilities, norm=norm), rel=1e-9)


@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize("light", [1e-5, 1e-12, 1e-17, 1e-300])
def test_one_row_that_outweighs_all_others_gives_a_small_number(light, correction):
    weights = np.full(300, light)
    weights[7] = 1.0
    labels, probabilities = peer_problem()
    for norm in (1, 2) if correction == "variance" else (2,):
        options = {"norm": norm, "correction": correction, "sample_weight": weights, "n_bins": 1}
        assert abs(debiased_ece(labels, probabilities, signed=True, **options)) <= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"norm": 3}, "norm must be 1 or 2"),
        ({"norm": "max"}, "norm must be 1 or 2"),
        ({"norm": inf}, "norm must be 1 or 2"),
        ({"correction": "pairs", "norm": 1}, "is for norm=2"),
        ({"strategy": "kmeans", "n_bins": "cube_root"}, "strategy must be"),
        ({"binning": EqualMass}, "binning must be a scheme"),
        ({"binning": lambda *_: np.linspace(0, 1, 11)}, "binning must return"),
    ],
)
def test_arguments_without_meaning_are_refused(arguments, message):
    with pytest.raises(ParameterError, match=message):
        debiased_ece([0, 1], [0.2, 0.7], **arguments)


@pytest.mark.slow
@pytest.mark.parametrize("n_bins", [5, 15, 50])
@pytest.mark.parametrize("correction", ["variance", "pairs"])
def test_noise_alone_is_taken_away_and_is_not_from_the_plain_error(n_bins, correction):
    """2,000 sets of 500 calibrated rows with confidences uniform from 1/2 to 1.

    The plain square is biased by the mean of p (1 - p) = 1/6 over the rows of a bin, B / 6n; the others are
    within four errors of zero, for the variance after its own bias: the spread 1 / 48 B^2 in a bin, over
    n / B - 1.
    """
    generator = np.random.default_rng(n_bins)
    n_rows, debiased, plain = 500, [], []
    for _ in range(2000):
        confidence = 0.5 + generator.random(n_rows) / 2
        labels = (generator.random(n_rows) > confidence).astype(int)
        probabilities = np.column_stack([confidence, 1 - confidence])
        options = {"n_bins": n_bins, "strategy": "quantile"}
        debiased.append(debiased_ece(labels, probabilities, correction=correction, signed=True, **options))
        plain.append(confidence_ece(labels, probabilities, norm=2, **options) ** 2)
    own_bias = -1 / 48 / n_bins**2 / (n_rows / n_bins - 1) if correction == "variance" else 0
    assert np.mean(debiased) == pytest.approx(own_bias, abs=4 * np.std(debiased) / 2000**0.5)
    assert np.mean(plain) == pytest.approx(n_bins / 6 / n_rows, abs=4 * np.std(plain) / 2000**0.5)
    assert np.mean(plain) > 20 * np.std(plain) / 2000**0.5
