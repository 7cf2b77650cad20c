"""The kernel test: its statistic, its null distributions against enumeration, its level and its power."""

from itertools import product
from math import sqrt

import numpy as np
import pytest

import calibrant.hypothesis_tests.kernel as module
from calibrant.errors import ParameterError, PredictionError
from calibrant.hypothesis_tests.kernel import kernel_test
from calibrant.metrics.kernel import Residuals, kernel_calibration_error
from data import load

METHODS = ["resampling", "wild", "block"]
KINDS = ["full", "confidence"]


def calibrated_problem(n_rows, n_classes, generator, concentration=0.5):
    """Probabilities and labels drawn from them."""
    probabilities = generator.dirichlet(np.full(n_classes, concentration), n_rows)
    labels = (probabilities.cumsum(axis=1)[:, :-1] < generator.random((n_rows, 1))).sum(axis=1)
    return labels, probabilities


def overconfident(probabilities):
    squares = probabilities**2
    return squares / squares.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS[:2])
@pytest.mark.parametrize("n_classes", [2, 3, 40])
def test_the_statistic_is_the_unbiased_error(kind, method, n_classes):
    labels, vectors = calibrated_problem(300, n_classes, np.random.default_rng(0))
    weights = np.random.default_rng(1).random(300)
    result = kernel_test(labels, vectors, sample_weight=weights, kind=kind, method=method, n_resamples=5)
    expected = kernel_calibration_error(labels, vectors, sample_weight=weights, kind=kind)
    assert result.statistic == pytest.approx(expected, rel=1e-9)
    assert (result.n_rows, result.n_resamples) == (300, 5)


def test_resampling_finds_the_exact_p_value_of_four_rows():
    """All 81 ways to label four rows of three classes, each with its probability."""
    vectors = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.4, 0.35, 0.25], [0.7, 0.2, 0.1]])
    observed_labels = [1, 0, 1, 2]
    bandwidth = 0.5

    def value(labels):
        return kernel_calibration_error(labels, vectors, bandwidth=bandwidth)

    observed = value(observed_labels)
    probability = sum(
        np.prod(vectors[range(4), labels])
        for labels in product(range(3), repeat=4)
        if value(list(labels)) >= observed - 1e-12
    )
    result = kernel_test(observed_labels, vectors, method="resampling", bandwidth=bandwidth, n_resamples=4000)
    assert abs(result.p_value - probability) < 4 * sqrt(probability * (1 - probability) / 4000) + 1 / 4000


def test_resampling_of_confidences_finds_the_exact_p_value():
    """Five rows, and all 32 ways to be right or wrong."""
    confidences = np.array([0.9, 0.8, 0.75, 0.6, 0.55])
    vectors = np.column_stack([confidences, 1 - confidences])
    observed_labels = [1, 1, 0, 0, 1]

    def value(labels):
        return kernel_calibration_error(labels, vectors, kind="confidence")

    observed = value(observed_labels)
    probability = sum(
        np.prod(vectors[range(5), labels])
        for labels in product(range(2), repeat=5)
        if value(list(labels)) >= observed - 1e-12
    )
    result = kernel_test(observed_labels, vectors, kind="confidence", method="resampling", n_resamples=4000)
    assert abs(result.p_value - probability) < 4 * sqrt(probability * (1 - probability) / 4000) + 1 / 4000


def test_the_wild_bootstrap_finds_the_share_of_labels_and_signs(monkeypatch):
    """All 81 labels of four rows, each with its probability, times all 16 choices of signs."""
    generator = np.random.default_rng(3)
    vectors, labels = generator.dirichlet(np.ones(3), 4), np.array([0, 0, 2, 1])
    distances = np.linalg.norm(vectors[:, np.newaxis] - vectors, axis=2)
    kernel = np.exp(-distances / 0.4)
    np.fill_diagonal(kernel, 0)
    signs = np.array(list(product([-1, 1], repeat=4)))

    def matrix(labels):
        residuals = np.eye(3)[list(labels)] - vectors
        return kernel * (residuals @ residuals.T)

    observed = matrix(labels).sum() - 1e-12
    share = sum(
        np.prod(vectors[range(4), drawn])
        * np.mean(np.einsum("si,ij,sj->s", signs, matrix(drawn), signs) >= observed)
        for drawn in product(range(3), repeat=4)
    )
    monkeypatch.setattr(module, "LABEL_DRAWS", 4000)
    result = kernel_test(labels, vectors, method="wild", bandwidth=0.4, n_resamples=4000)
    assert abs(result.p_value - share) < 4 * sqrt(share * (1 - share) / 4000) + 1 / 4000


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block_size", [20, 150])
def test_the_block_statistic_is_the_mean_over_pairs_of_all_blocks(kind, block_size):
    labels, vectors = calibrated_problem(400, 3, np.random.default_rng(0))
    result = kernel_test(
        labels,
        vectors,
        kind=kind,
        method="block",
        block_size=block_size,
        bandwidth=0.3,
        random_state=7,
        n_resamples=9,
    )
    whole = Residuals(vectors, labels, np.ones(400))
    right = vectors.argmax(axis=1) == labels
    sample = whole if kind == "full" else Residuals.of_event(vectors.max(axis=1), right, None)
    estimates = [
        kernel_calibration_error(labels[block], vectors[block], kind=kind, bandwidth=0.3)
        for block in sample.blocks(block_size, 7)
    ]
    assert result.statistic == pytest.approx(np.mean(estimates), rel=1e-9)


def test_the_block_test_finds_the_exact_p_value_of_four_rows():
    """Two blocks of two rows: all 81 ways to label them."""
    vectors = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.4, 0.35, 0.25], [0.7, 0.2, 0.1]])
    observed_labels = np.array([1, 0, 1, 2])
    blocks = Residuals(vectors, observed_labels, np.ones(4)).blocks(2, 0)

    def value(labels):
        parts = [kernel_calibration_error(labels[rows], vectors[rows], bandwidth=0.5) for rows in blocks]
        return np.mean(parts)

    observed = value(observed_labels)
    probability = sum(
        np.prod(vectors[range(4), labels])
        for labels in product(range(3), repeat=4)
        if value(np.array(labels)) >= observed - 1e-12
    )
    result = kernel_test(observed_labels, vectors, method="block", bandwidth=0.5, n_resamples=4000)
    assert abs(result.p_value - probability) < 4 * sqrt(probability * (1 - probability) / 4000) + 1 / 4000


@pytest.mark.parametrize("block_size", [10, 300])
def test_draws_of_blocks_are_combined_where_resamples_of_all_rows_cost_too_much(monkeypatch, block_size):
    labels, vectors = calibrated_problem(1200, 3, np.random.default_rng(5))
    options = {"method": "block", "block_size": block_size, "n_resamples": 2000}
    exact = kernel_test(labels, vectors, **options)
    monkeypatch.setattr(module, "AFFORDABLE", 0)
    monkeypatch.setattr(module, "DRAWS_OF_BLOCKS", 400)
    combined = kernel_test(labels, vectors, **options)
    assert combined.statistic == pytest.approx(exact.statistic, rel=1e-9)
    assert combined.p_value == pytest.approx(exact.p_value, abs=0.08)
    assert combined.null_quantile == pytest.approx(exact.null_quantile, rel=0.2)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_rows_does_not_matter_nor_the_scale_of_weights(method, kind):
    labels, vectors = calibrated_problem(200, 3, np.random.default_rng(0))
    weights = np.random.default_rng(1).random(200)
    rows = np.random.default_rng(2).permutation(200)
    options = {"kind": kind, "method": method, "n_resamples": 99}
    expected = kernel_test(labels, vectors, sample_weight=weights, **options)
    moved = kernel_test(labels[rows], vectors[rows], sample_weight=1e6 * weights[rows], **options)
    assert moved.p_value == pytest.approx(expected.p_value, rel=1e-7)


@pytest.mark.parametrize("method", METHODS)
def test_overconfidence_is_found(method):
    labels, vectors = calibrated_problem(1500, 3, np.random.default_rng(0))
    result = kernel_test(labels, overconfident(vectors), method=method, n_resamples=199)
    assert result.p_value <= 0.005


@pytest.mark.parametrize("method", METHODS)
def test_calibrated_predictions_are_seldom_rejected(method):
    """Five or more of twenty tests at the 5 % level would have the probability 0.003."""
    assert rejections(method, 100, 3, 20, n_resamples=99) < 5


@pytest.mark.parametrize("method", METHODS)
def test_weights_of_zero_leave_rows_out(method):
    labels, vectors = calibrated_problem(90, 3, np.random.default_rng(0))
    keep = np.arange(90) % 3 > 0
    options = {"method": method, "n_resamples": 49}
    weighted = kernel_test(labels, vectors, sample_weight=keep.astype(float), **options)
    assert weighted == kernel_test(labels[keep], vectors[keep], **options)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS)
def test_corners_give_a_p_value(method, kind):
    """One row, certain and right, certain and wrong, all alike, float32, and many classes."""
    certain = np.eye(3, dtype=np.float32)[[0, 1, 2, 0]]
    options = {"method": method, "kind": kind, "n_resamples": 19}
    for labels, vectors in [
        *([] if method == "block" else [([1], [[0.5, 0.5]])]),
        ([1, 1, 1, 1], certain),
        ([0, 1, 0, 0], np.full((4, 2), 0.5)),
        ([0, 1, 2, 3], np.full((4, 1000), 1e-3, dtype=np.float32)),
    ]:
        assert 0 <= kernel_test(labels, vectors, **options).p_value <= 1
    perfect = kernel_test([0, 1, 2, 0], certain, **options)
    assert perfect.statistic == 0
    assert perfect.p_value == 1.0


@pytest.mark.parametrize(
    ("n_rows", "block_size", "advice"),
    [
        (1, None, "block_size=2 makes one of 1 row; give at least 4 rows or method='resampling'"),
        (3, None, "block_size=2 makes one of 3 rows; give at least 4 rows or method='resampling'"),
        (
            30,
            16,
            "block_size=16 makes one of 30 rows; give at least 32 rows, a block_size of at most 15 or "
            "method='resampling'",
        ),
    ],
)
def test_a_single_block_is_refused(n_rows, block_size, advice):
    rows = ([0] * n_rows, [[0.7, 0.3]] * n_rows)
    with pytest.raises(ParameterError, match=f"two blocks or more, but {advice}"):
        kernel_test(*rows, method="block", block_size=block_size)


@pytest.mark.parametrize(("n_rows", "block_size"), [(4, None), (5, None), (7, None), (30, 15)])
def test_two_blocks_are_enough(n_rows, block_size):
    labels, vectors = calibrated_problem(n_rows, 2, np.random.default_rng(0))
    assert 0 <= kernel_test(labels, vectors, method="block", block_size=block_size).p_value <= 1


def test_a_refuted_certainty_is_evidence():
    """Labels that the predictions call impossible never occur among the resamples."""
    result = kernel_test([1] * 8, [[1.0, 0.0]] * 8, method="resampling", n_resamples=99)
    assert result.p_value == 0.01
    assert (result.null_mean, result.null_quantile) == (None, 0)


@pytest.mark.parametrize("method", METHODS)
def test_the_sentence_says_how_far_noise_goes_and_not_that_its_mean_is_nearly_zero(method):
    labels, vectors = calibrated_problem(100, 3, np.random.default_rng(0))
    result = kernel_test(labels, vectors, method=method, n_resamples=99)
    assert result.null_mean is None
    assert f"; under calibration below {result.null_quantile:.4g} in 95 % of samples;" in str(result)
    assert "on average" not in str(result)


class TestThePositiveClass:
    @pytest.mark.parametrize("method", METHODS[:2])
    def test_has_the_error_of_that_kind(self, method):
        labels, vectors = calibrated_problem(200, 2, np.random.default_rng(0))
        weights = np.random.default_rng(1).random(200)
        options = {"sample_weight": weights, "kind": "positive"}
        result = kernel_test(labels, vectors[:, 1], method=method, n_resamples=5, **options)
        assert result.statistic == pytest.approx(
            kernel_calibration_error(labels, vectors, **options), rel=1e-9
        )

    def test_is_half_of_the_whole_vector(self):
        """Distances and products of two columns are sqrt(2) and 2 times those of one, for the same draws."""
        labels, vectors = calibrated_problem(100, 2, np.random.default_rng(0))
        one = kernel_test(labels, vectors, kind="positive", method="wild", n_resamples=99)
        both = kernel_test(labels, vectors, kind="full", method="wild", n_resamples=99)
        assert both.statistic == pytest.approx(2 * one.statistic, rel=1e-9)

    def test_finds_the_exact_p_value_of_five_rows(self):
        scores, observed_labels = np.array([0.9, 0.8, 0.3, 0.6, 0.1]), [0, 1, 0, 0, 1]

        def value(labels):
            return kernel_calibration_error(labels, scores, kind="positive")

        observed = value(observed_labels)
        probability = sum(
            np.prod(np.where(labels, scores, 1 - scores))
            for labels in product(range(2), repeat=5)
            if value(list(labels)) >= observed - 1e-12
        )
        result = kernel_test(observed_labels, scores, kind="positive", method="resampling", n_resamples=4000)
        assert abs(result.p_value - probability) < 4 * sqrt(probability * (1 - probability) / 4000) + 1 / 4000

    def test_goes_by_its_name(self):
        result = kernel_test(["no", "yes", "no"], [0.1, 0.8, 0.3], kind="positive", n_resamples=9)
        assert result.null_hypothesis == "class 'yes' occurs with exactly its predicted probability"

    def test_needs_two_classes(self):
        with pytest.raises(ParameterError, match="for two classes, but there are 3; use kind='full'"):
            kernel_test(*calibrated_problem(10, 3, np.random.default_rng(0)), kind="positive")


@pytest.mark.parametrize("method", METHODS)
def test_seeds_generators_and_none(method):
    labels, vectors = calibrated_problem(60, 3, np.random.default_rng(0))

    def p_value(random_state):
        return kernel_test(labels, vectors, method=method, n_resamples=199, random_state=random_state).p_value

    assert p_value(5) == p_value(np.int64(5))
    assert p_value(np.random.default_rng(5)) == p_value(np.random.default_rng(5))
    assert len({p_value(None) for _ in range(8)}) > 1


def test_auto_goes_by_cost(monkeypatch):
    labels, vectors = calibrated_problem(60, 3, np.random.default_rng(0))

    def method(affordable):
        monkeypatch.setattr(module, "AFFORDABLE", affordable)
        return kernel_test(labels, vectors, n_resamples=100).test

    assert "method='resampling'" in method(60**2 * 300)
    assert "method='block'" in method(60**2 * 299)
    assert "block_size=30" in method(60**2 * 299)
    assert "block_size=20" in method(60 * 20 * 300)
    assert "block_size=8" in method(60 * 300)


def test_batches_of_resamples_make_no_difference_to_the_observed_value(monkeypatch):
    labels, vectors = calibrated_problem(100, 3, np.random.default_rng(0), concentration=1.0)
    many = kernel_test(labels, vectors, method="resampling", n_resamples=400)
    monkeypatch.setattr(module, "COLUMNS_AT_A_TIME", 7)
    few = kernel_test(labels, vectors, method="resampling", n_resamples=400)
    assert few.statistic == pytest.approx(many.statistic, rel=1e-9)
    assert few.n_resamples == 400
    assert abs(few.p_value - many.p_value) < 5 * sqrt(2) * max(many.p_value_error, 0.01)


def test_a_network_is_found_out_by_every_method():
    """ResNet-110 on CIFAR-10, known to be overconfident."""
    network = load("kull_nn/c10_resnet110")
    logits, labels = network["test_logits"], network["test_y"].ravel()
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    vectors = powers / powers.sum(axis=1, keepdims=True)
    for method, n_rows in [("resampling", 1000), ("wild", 2000), ("block", 10_000)]:
        assert kernel_test(labels[:n_rows], vectors[:n_rows], method=method, n_resamples=199).p_value < 0.01


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "top"}, "kind must be 'full', 'confidence' or 'positive', not 'top'"),
        ({"kind": "classwise"}, "use kind='full', for each class separately classwise_cumulative_tests"),
        ({"random_state": "a"}, "random_state must be an integer of at least 0, .* or None, not 'a'"),
        ({"random_state": -1}, "random_state must be an integer of at least 0, .* or None, not -1"),
        ({"random_state": 1.5}, "random_state must be an integer of at least 0, .* or None, not 1.5"),
        ({"method": "bootstrap"}, "method must be"),
        ({"kernel": "rbf"}, "kernel must be"),
        ({"bandwidth": -1}, "bandwidth must be"),
        ({"block_size": 1}, "block_size must be"),
        ({"n_resamples": 0}, "n_resamples must be an integer of at least 1, not 0"),
        ({"n_resamples": True}, "n_resamples must be"),
    ],
)
def test_bad_options_are_refused_before_the_data_are_looked_at(options, message):
    with pytest.raises(ParameterError, match=message):
        kernel_test(None, "nothing", **options)


def test_bad_predictions_give_the_usual_error():
    with pytest.raises(PredictionError, match="rows must sum to 1"):
        kernel_test([0, 1], [[0.5, 0.6], [0.5, 0.5]])


def rejections(method, n_rows, n_classes, n_tests, change=lambda p: p, **options):
    generator = np.random.default_rng(n_classes)
    found = 0
    for seed in range(n_tests):
        labels, vectors = calibrated_problem(n_rows, n_classes, generator)
        result = kernel_test(labels, change(vectors), method=method, random_state=seed, **options)
        found += result.p_value <= 0.05
    return found


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("method", METHODS[:2])
@pytest.mark.parametrize("kind", KINDS)
def test_the_level_is_five_percent(method, n_classes, kind):
    """Rejections of 600 calibrated data sets are binomial(600, 0.05), within 3.5 of its deviations."""
    found = rejections(method, 80, n_classes, 600, kind=kind, n_resamples=199)
    assert abs(found - 30) < 3.5 * sqrt(600 * 0.05 * 0.95)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_the_level_of_the_block_test_is_five_percent(n_classes):
    found = rejections("block", 300, n_classes, 600, block_size=5, bandwidth=0.5, n_resamples=199)
    assert abs(found - 30) < 3.5 * sqrt(600 * 0.05 * 0.95)


@pytest.mark.slow
def test_the_level_of_large_blocks_is_five_percent(monkeypatch):
    monkeypatch.setattr(module, "AFFORDABLE", 300 * 100 * 3 * 199)
    found = rejections("auto", 300, 3, 600, n_resamples=199)
    assert abs(found - 30) < 3.5 * sqrt(600 * 0.05 * 0.95)


@pytest.mark.slow
def test_all_pairs_have_more_power_than_blocks():
    """300 rows of an overconfident classifier: nearly always found from all pairs, less often in blocks."""
    found = {method: rejections(method, 300, 3, 60, overconfident, n_resamples=199) for method in METHODS}
    assert found["resampling"] >= 55
    assert found["wild"] >= 55
    assert found["block"] < found["resampling"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_few_events_are_seldom_rejected(method, spread):
    """Five events in 300 rows, with and without weights: eight or more of 40 tests would have the probability 0.001."""
    generator = np.random.default_rng(0)
    found = 0
    for _ in range(40):
        p = generator.uniform(0.005, 0.03, 300)
        y = (generator.random(300) < p).astype(int)
        weights = generator.lognormal(0, spread, 300)
        found += kernel_test(y, p, method=method, sample_weight=weights, n_resamples=99).p_value <= 0.05
    assert found < 8
