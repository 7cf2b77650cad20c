"""The squared kernel calibration error against loops over pairs, and in closed form.

The authors' program (CalibrationErrors.jl) is written in Julia, and the Python package that wraps it needs
Julia too; the exact values that its own tests state are repeated here, and loops stand in for the rest.
"""

import tracemalloc
from math import exp, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import calibrant.metrics.kernel as module
from calibrant.errors import ParameterError
from calibrant.metrics.kernel import Residuals, kernel_calibration_error
from data import load
from strategies import problems

KERNELS = ["laplace", "gaussian"]
WEIGHTS = st.one_of(st.none(), hnp.arrays(np.float64, 14, elements=st.integers(1, 5).map(float)))
KINDS = ["full", "confidence", "classwise", "positive"]


def similarity(first, second, kernel, bandwidth):
    distance = sqrt(sum((a - b) ** 2 for a, b in zip(first, second, strict=True)))
    return exp(-distance / bandwidth) if kernel == "laplace" else exp(-((distance / bandwidth) ** 2) / 2)


def naive_error(vectors, happened, weights, kernel, bandwidth, itself=False):
    """Go through all pairs of rows; ``happened`` are vectors of zeros and ones."""
    products, total = 0.0, 0.0
    residuals = [[h - p for h, p in zip(*row, strict=True)] for row in zip(happened, vectors, strict=True)]
    for i in range(len(vectors)):
        for j in range(len(vectors)):
            if i != j or itself:
                inner = sum(a * b for a, b in zip(residuals[i], residuals[j], strict=True))
                weight = weights[i] * weights[j]
                products += weight * similarity(vectors[i], vectors[j], kernel, bandwidth) * inner
                total += weight
    return products / total if total > 0 else 0.0


def naive_bandwidth(vectors, weights):
    """Sort all distances but zeros, and walk to the middle of their weight."""
    pairs = sorted(
        (
            sqrt(sum((a - b) ** 2 for a, b in zip(vectors[i], vectors[j], strict=True))),
            weights[i] * weights[j],
        )
        for i in range(len(vectors))
        for j in range(i)
        if list(vectors[i]) != list(vectors[j])
    )
    if not pairs:
        return 1.0
    half = sum(weight for _, weight in pairs) / 2
    below, lower, upper = 0.0, None, None
    for distance, weight in pairs:
        below += weight
        if lower is None and below >= half:
            lower = distance
        if upper is None and below > half:
            upper = distance
    return (lower + upper) / 2


def random_problem(n_rows=300, n_classes=3, seed=0, concentration=0.5):
    """Probabilities and labels drawn from them."""
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet(np.full(n_classes, concentration), n_rows)
    labels = (probabilities.cumsum(axis=1)[:, :-1] < generator.random((n_rows, 1))).sum(axis=1)
    return labels, probabilities


def overconfident(probabilities):
    cubes = probabilities**3
    return cubes / cubes.sum(axis=1, keepdims=True)


@settings(max_examples=40, deadline=None)
@given(problem=problems(), weights=WEIGHTS, kernel=st.sampled_from(KERNELS), itself=st.booleans())
def test_full_calibration_is_a_double_loop(problem, weights, kernel, itself):
    labels, vectors = problem.labels, problem.probabilities.astype(np.float64)
    weights = np.ones(len(labels)) if weights is None else weights[: len(labels)]
    happened = np.eye(vectors.shape[1])[labels]
    bandwidth = naive_bandwidth(vectors, weights)
    expected = naive_error(vectors, happened, weights, kernel, bandwidth, itself)
    result = kernel_calibration_error(
        labels,
        problem.probabilities,
        sample_weight=weights,
        kernel=kernel,
        estimator="biased" if itself else "unbiased",
    )
    assert result == pytest.approx(expected, rel=1e-7, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(problem=problems(), weights=WEIGHTS, kernel=st.sampled_from(KERNELS), itself=st.booleans())
def test_confidence_and_classwise_calibration_are_double_loops(problem, weights, kernel, itself):
    labels, vectors = problem.labels, problem.probabilities.astype(np.float64)
    weights = np.ones(len(labels)) if weights is None else weights[: len(labels)]

    def naive(scores, hits):
        column, happened = scores[:, np.newaxis], hits[:, np.newaxis].astype(float)
        return naive_error(column, happened, weights, kernel, 0.3, itself)

    def ours(kind):
        return kernel_calibration_error(
            labels,
            problem.probabilities,
            sample_weight=weights,
            kind=kind,
            kernel=kernel,
            bandwidth=0.3,
            estimator="biased" if itself else "unbiased",
        )

    confidence = naive(vectors.max(axis=1), vectors.argmax(axis=1) == labels)
    classwise = np.mean([naive(column, labels == k) for k, column in enumerate(vectors.T)])
    assert ours("confidence") == pytest.approx(confidence, rel=1e-7, abs=1e-9)
    assert ours("classwise") == pytest.approx(classwise, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("n_classes", [2, 31, 32, 60])
@pytest.mark.parametrize("kernel", KERNELS)
def test_several_tiles_and_many_classes(n_classes, kernel):
    """From 32 classes on, inner products come from the distances; 300 rows are more than one tile."""
    labels, vectors = random_problem(300, n_classes)
    weights = np.random.default_rng(1).random(300)
    residuals = np.eye(n_classes)[labels] - vectors
    distances = np.sqrt(((vectors[:, np.newaxis] - vectors) ** 2).sum(axis=2))
    values = np.exp(-distances / 0.4) if kernel == "laplace" else np.exp(-(distances**2) / 0.32)
    values *= residuals @ residuals.T * np.outer(weights, weights)
    off = ~np.eye(300, dtype=bool)
    expected = values[off].sum() / np.outer(weights, weights)[off].sum()
    result = kernel_calibration_error(labels, vectors, sample_weight=weights, kernel=kernel, bandwidth=0.4)
    assert result == pytest.approx(expected, rel=1e-10)


def test_values_that_the_authors_program_states():
    """Predictions (1, 0) and (0, 1), and k = exp(-8) between them, as in the tests of CalibrationErrors.jl.

    There k(p, q) = exp(-4 |p - q|^2), which is a Gaussian kernel with s^2 = 1/8.
    """
    predictions, options = [[1, 0], [0, 1]], {"kernel": "gaussian", "bandwidth": sqrt(1 / 8)}
    for labels, unbiased, biased in [
        ([0, 1], 0.0, 0.0),
        ([0, 0], 0.0, 0.5),
        ([1, 0], -2 * exp(-8), 1 - exp(-8)),
        ([1, 1], 0.0, 0.5),
    ]:
        for estimator, expected in [("unbiased", unbiased), ("block", unbiased), ("biased", biased)]:
            result = kernel_calibration_error(labels, predictions, estimator=estimator, **options)
            assert result == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("n_right", [0, 3, 7, 10])
def test_equal_predictions_have_a_closed_form(n_right):
    """k = 1 for all pairs, so the sum is |sum of residuals|^2 = 2 (h - n p)^2, less 2 (1-p)^2 or 2 p^2 a row."""
    p, n = 0.75, 10
    labels, predictions = [0] * n_right + [1] * (n - n_right), [[p, 1 - p]] * n
    whole = 2 * (n_right - n * p) ** 2
    own = 2 * (n_right * (1 - p) ** 2 + (n - n_right) * p**2)
    biased = kernel_calibration_error(labels, predictions, estimator="biased")
    assert biased == pytest.approx(whole / n**2, abs=1e-14)
    assert kernel_calibration_error(labels, predictions) == pytest.approx(
        (whole - own) / (n * (n - 1)), abs=1e-14
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_two_statistics_differ_by_the_pairs_of_rows_with_themselves(kind):
    """n^2 V = n (n - 1) U + sum of |r_i|^2."""
    labels, vectors = random_problem(n_classes=2)
    data = {"kind": kind, "bandwidth": 0.2}
    unbiased = kernel_calibration_error(labels, vectors, **data)
    biased = kernel_calibration_error(labels, vectors, estimator="biased", **data)
    right = np.where(labels == 0, vectors[:, 0], vectors[:, 1])
    own = (2 if kind == "full" else 1) * ((1 - right) ** 2).sum()
    assert 300**2 * biased == pytest.approx(300 * 299 * unbiased + own, rel=1e-10)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("estimator", ["unbiased", "biased"])
def test_for_two_classes_full_is_twice_positive(kernel, estimator):
    """Vectors are sqrt(2) times as far apart, and so is their median; inner products are twice as large."""
    labels, vectors = random_problem(n_classes=2)
    full = kernel_calibration_error(labels, vectors, kernel=kernel, estimator=estimator)
    positive = kernel_calibration_error(labels, vectors, kernel=kernel, estimator=estimator, kind="positive")
    assert full == pytest.approx(2 * positive, rel=1e-9)


@settings(max_examples=25, deadline=None)
@given(problem=problems(), kind=st.sampled_from(KINDS[:3]), kernel=st.sampled_from(KERNELS))
def test_the_biased_estimate_is_not_negative_and_counts_weights(problem, kind, kernel):
    vectors, labels = problem
    times = np.random.default_rng(0).integers(1, 4, len(labels))
    options = {"kind": kind, "kernel": kernel, "estimator": "biased"}
    weighted = kernel_calibration_error(labels, vectors, sample_weight=times, **options)
    repeated = kernel_calibration_error(
        np.repeat(labels, times), np.repeat(vectors, times, axis=0), **options
    )
    assert weighted >= 0
    assert weighted == pytest.approx(repeated, rel=1e-7, abs=1e-12)


def test_the_bandwidth_counts_weights_beyond_a_thousand_rows_too():
    labels, vectors = random_problem(1200)
    times = np.random.default_rng(0).integers(1, 4, 1200)
    weighted = Residuals(vectors, labels, times / 3)
    repeated = Residuals(np.repeat(vectors, times, axis=0), np.repeat(labels, times), np.ones(times.sum()))
    assert weighted.bandwidth == repeated.bandwidth


def test_the_bandwidth_of_a_thousand_rows_is_nearly_that_of_all():
    """The sample quantile of 1,000 rows at equal steps is good to about one percent."""
    labels, vectors = random_problem(3000)
    distances = [np.linalg.norm(vectors[:i] - vectors[i], axis=1) for i in range(1, 3000)]
    expected = np.median(np.concatenate(distances))
    assert Residuals(vectors, labels, np.ones(3000)).bandwidth == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("estimator", ["unbiased", "biased", "block"])
@pytest.mark.parametrize("kind", KINDS[:3])
def test_neither_the_order_of_rows_nor_of_classes_plays_a_part(estimator, kind):
    labels, vectors = random_problem(1500)
    weights = np.random.default_rng(1).random(1500)
    options = {"estimator": estimator, "kind": kind, "block_size": 40}
    expected = kernel_calibration_error(labels, vectors, sample_weight=weights, **options)
    rows, classes = np.random.default_rng(2).permutation(1500), np.array([2, 0, 1])
    moved = kernel_calibration_error(
        np.argsort(classes)[labels[rows]], vectors[rows][:, classes], sample_weight=weights[rows], **options
    )
    assert moved == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("n_classes", [3, 40])
def test_rows_with_ties_give_the_same_in_any_order(n_classes):
    labels, vectors = random_problem(900, n_classes)
    vectors = np.round(vectors * 4) / 4
    vectors[:, 0] += 1 - vectors.sum(axis=1)
    vectors = np.where((vectors < 0).any(axis=1, keepdims=True), 1 / n_classes, vectors)
    rows = np.random.default_rng(2).permutation(900)
    for options in ({}, {"estimator": "block", "block_size": 30}, {"estimator": "block", "block_size": 300}):
        expected = kernel_calibration_error(labels, vectors, **options)
        assert kernel_calibration_error(labels[rows], vectors[rows], **options) == pytest.approx(
            expected, rel=1e-9
        )


@pytest.mark.parametrize("n_classes", [3, 40])
@pytest.mark.parametrize("block_size", [2, 7, 100, 257, 400])
def test_the_block_estimate_is_the_mean_over_pairs_inside_blocks(n_classes, block_size):
    """Each block by a double sum; sizes on both sides of those that share a tile."""
    labels, vectors = random_problem(900, n_classes)
    weights = np.random.default_rng(1).random(900)
    blocks = Residuals(vectors, labels, weights).blocks(block_size)
    assert sorted(np.concatenate(blocks)) == list(range(900))
    assert min(map(len, blocks)) >= block_size
    residuals = (np.eye(n_classes)[labels] - vectors) * weights[:, np.newaxis]
    products, total = 0.0, 0.0
    for block in blocks:
        distances = np.linalg.norm(vectors[block][:, np.newaxis] - vectors[block], axis=2)
        off = ~np.eye(len(block), dtype=bool)
        products += (np.exp(-distances / 0.3) * (residuals[block] @ residuals[block].T))[off].sum()
        total += np.outer(weights[block], weights[block])[off].sum()
    result = kernel_calibration_error(
        labels, vectors, sample_weight=weights, estimator="block", block_size=block_size, bandwidth=0.3
    )
    assert result == pytest.approx(products / total, rel=1e-9)


def test_one_block_of_all_rows_is_the_unbiased_estimate():
    labels, vectors = random_problem()
    whole = kernel_calibration_error(labels, vectors, estimator="block", block_size=1000)
    assert whole == pytest.approx(kernel_calibration_error(labels, vectors), rel=1e-10)


def test_auto_counts_different_predictions(monkeypatch):
    monkeypatch.setattr(module, "MAX_ROWS_OF_ALL_PAIRS", 100)
    labels, vectors = random_problem(400)
    few = vectors[np.arange(400) % 100]
    exact, blocks = {"estimator": "unbiased"}, {"estimator": "block", "block_size": 50}
    assert kernel_calibration_error(labels, few) == kernel_calibration_error(labels, few, **exact)
    assert kernel_calibration_error(labels, vectors, block_size=50) == kernel_calibration_error(
        labels, vectors, **blocks
    )
    assert kernel_calibration_error(labels, vectors, kind="confidence") == kernel_calibration_error(
        labels, vectors, kind="confidence", **exact
    )


def test_a_worse_classifier_has_a_larger_error():
    labels, vectors = random_problem(2000)
    calibrated = kernel_calibration_error(labels, vectors, bandwidth=0.5)
    worse = kernel_calibration_error(labels, overconfident(vectors), bandwidth=0.5)
    assert abs(calibrated) < 2e-4
    assert worse > 5e-3


@pytest.mark.parametrize("estimator", ["auto", "unbiased", "biased", "block"])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", KINDS[:3])
def test_corners_give_plain_numbers(estimator, kernel, kind):
    options = {"estimator": estimator, "kernel": kernel, "kind": kind}
    n_classes = 100 if kind == "classwise" else 1000
    saturated = np.eye(4, dtype=np.float32)[[0, 1, 2, 3, 0]]
    for labels, vectors in [
        ([1], [[0.2, 0.3, 0.5]]),
        ([0, 1, 2, 3, 0], saturated),
        ([1, 1, 1, 1, 1], saturated),
        ([0] * 5, np.full((5, n_classes), 1 / n_classes)),
        ([0, 1], [[0.5, 0.5], [0.5, 0.5]]),
    ]:
        value = kernel_calibration_error(labels, vectors, **options)
        assert type(value) is float
        assert np.isfinite(value)
    assert kernel_calibration_error([0, 1, 2, 3, 0], saturated, **options) == 0


def test_weights_of_any_size_and_one_that_outweighs_all():
    labels, vectors = random_problem(50)
    weights = np.random.default_rng(0).random(50)
    expected = kernel_calibration_error(labels, vectors, sample_weight=weights)
    for scale in (1e-300, 1e-9, 1e300):
        scaled = kernel_calibration_error(labels, vectors, sample_weight=scale * weights)
        assert scaled == pytest.approx(expected, rel=1e-9)
    weights[0] = 1e40
    outweighed = kernel_calibration_error(labels, vectors, sample_weight=weights)
    # Weights below 1e-12 of the largest are raised to it.
    weights = np.r_[1e12, np.ones(49)]
    expected = kernel_calibration_error(labels, vectors, sample_weight=weights)
    assert outweighed == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    "options", [{}, {"estimator": "block"}, {"kind": "confidence"}, {"kind": "classwise"}]
)
def test_float32_gives_what_float64_gives_for_the_same_numbers(options):
    labels, vectors = random_problem(3000)
    single = vectors.astype(np.float32)
    assert kernel_calibration_error(labels, single, **options) == pytest.approx(
        kernel_calibration_error(labels, single.astype(np.float64), **options), abs=1e-10
    )


def test_memory_is_that_of_a_few_tiles():
    """All distances between 6,000 rows would take 288 MB."""
    labels, vectors = random_problem(6000)
    tracemalloc.start()
    kernel_calibration_error(labels, vectors)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6


def test_temperature_scaling_lowers_the_error_of_a_network():
    """ResNet-110 on CIFAR-10 is overconfident; a temperature of 2 is close to the fitted one."""
    network = load("kull_nn/c10_resnet110")
    logits, labels = network["test_logits"][:3000], network["test_y"].ravel()[:3000]

    def error(temperature):
        powers = np.exp((logits - logits.max(axis=1, keepdims=True)) / temperature)
        vectors = powers / powers.sum(axis=1, keepdims=True)
        return kernel_calibration_error(labels, vectors, bandwidth=1.0)

    assert error(2.0) < error(1.0) / 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimator": "exact"}, "estimator must be 'auto', 'unbiased', 'biased' or 'block', not 'exact'"),
        ({"bandwidth": 0.0}, "bandwidth must be"),
        ({"block_size": 1}, "block_size must be an integer of at least 2, not 1"),
        ({"block_size": 2.5}, "block_size must be"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        kernel_calibration_error([0, 1], [[0.2, 0.3, 0.5]] * 2, **options)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["unbiased", "block"])
@pytest.mark.parametrize("power", [1.0, 3.0])
def test_estimates_are_right_on_average(estimator, power):
    """The mean over 2,000 data sets of 40 rows is within 4 standard errors of the value for a million pairs.

    Labels follow p and the classifier says p^power / sum. With rows independent, the expectation is that of
    k(f, f') <p - f, p' - f'>, taken over 1,000,000 independent pairs, whose own error counts too.
    """
    generator = np.random.default_rng(5)

    def said(truth):
        powers = truth**power
        return powers / powers.sum(axis=1, keepdims=True)

    first, second = generator.dirichlet(np.ones(3), (2, 1_000_000))
    distances = np.linalg.norm(said(first) - said(second), axis=1)
    pairs = np.exp(-distances / 0.5) * ((first - said(first)) * (second - said(second))).sum(axis=1)
    estimates = []
    for _ in range(2000):
        truth = generator.dirichlet(np.ones(3), 40)
        labels = (truth.cumsum(axis=1)[:, :-1] < generator.random((40, 1))).sum(axis=1)
        estimates.append(
            kernel_calibration_error(labels, said(truth), estimator=estimator, block_size=10, bandwidth=0.5)
        )
    error = sqrt(np.var(estimates) / 2000 + np.var(pairs) / 1_000_000)
    assert abs(np.mean(estimates) - pairs.mean()) < 4 * error
    if power > 1:
        assert pairs.mean() > 4 * error
