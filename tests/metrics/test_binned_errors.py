"""Confidence and classwise ECE against a loop over bins, and their properties."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from calibrant import Predictions
from calibrant.binning import EqualMass, EqualWidth, FixedEdges
from calibrant.errors import ParameterError
from calibrant.metrics import classwise_ece, confidence_ece, top_label_ece
from strategies import problems

ERRORS = [confidence_ece, classwise_ece]
NORMS = [1, 2, 3.5, "max"]
WEIGHTS = st.one_of(st.none(), hnp.arrays(np.float64, 14, elements=st.integers(1, 5).map(float)))


def naive_error(scores, hits, weights, n_bins, norm):
    """Go through the bins [k/B, (k+1)/B), and through all rows for each."""
    total, largest, powers = sum(weights), 0.0, 0.0
    edges = [type(scores[0])(k / n_bins) for k in range(n_bins + 1)]
    for b in range(n_bins):
        last = b == n_bins - 1
        inside = [i for i, s in enumerate(scores) if s >= edges[b] and (s < edges[b + 1] or last)]
        if not inside:
            continue
        weight = sum(weights[i] for i in inside)
        predicted = sum(weights[i] * float(scores[i]) for i in inside) / weight
        happened = sum(weights[i] * hits[i] for i in inside) / weight
        gap = abs(predicted - happened)
        largest = max(largest, gap)
        if norm != "max":
            powers += weight / total * gap**norm
    return largest if norm == "max" else powers ** (1 / norm)


def random_problem(n_rows=300, n_classes=4, dtype=np.float64, seed=0):
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet(np.full(n_classes, 0.5), n_rows).astype(dtype)
    return generator.integers(0, n_classes, n_rows), probabilities


@given(problem=problems(), weights=WEIGHTS, n_bins=st.integers(1, 20), norm=st.sampled_from(NORMS))
def test_confidence_ece_is_a_loop_over_bins(problem, weights, n_bins, norm):
    weights = np.ones(len(problem.labels)) if weights is None else weights[: len(problem.labels)]
    confidence = [max(row) for row in problem.probabilities]
    hits = [
        float(row.tolist().index(max(row)) == y)
        for row, y in zip(problem.probabilities, problem.labels, strict=True)
    ]
    result = confidence_ece(*problem[::-1], sample_weight=weights, n_bins=n_bins, norm=norm)
    assert result == pytest.approx(naive_error(confidence, hits, weights, n_bins, norm), rel=1e-9, abs=1e-12)


@given(problem=problems(), weights=WEIGHTS, n_bins=st.integers(1, 20), norm=st.sampled_from(NORMS))
def test_classwise_ece_is_a_loop_over_classes_and_bins(problem, weights, n_bins, norm):
    probabilities, labels = problem
    weights = np.ones(len(labels)) if weights is None else weights[: len(labels)]
    expected = [
        naive_error(list(column), (labels == k).astype(float), weights, n_bins, norm)
        for k, column in enumerate(probabilities.T)
    ]

    def ours(reduction):
        return classwise_ece(
            labels, probabilities, sample_weight=weights, n_bins=n_bins, norm=norm, reduction=reduction
        )

    assert ours("none") == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert ours("sum") == pytest.approx(sum(expected), rel=1e-9, abs=1e-12)
    assert ours("mean") == pytest.approx(sum(expected) / len(expected), rel=1e-9, abs=1e-12)


def test_nine_of_ten_right_at_eighty_percent():
    """One bin, and the gap 0.9 - 0.8 in every norm."""
    for norm in NORMS:
        assert confidence_ece([0] * 9 + [1], [[0.8, 0.2]] * 10, norm=norm) == pytest.approx(0.1)


def test_norms_of_two_bins():
    """Three rows at 0.9 all right, gap 0.1; one row at 0.6 wrong, gap 0.6."""
    labels, probabilities = [0, 0, 0, 1], [[0.9, 0.1]] * 3 + [[0.6, 0.4]]
    assert confidence_ece(labels, probabilities) == pytest.approx(0.75 * 0.1 + 0.25 * 0.6)
    assert confidence_ece(labels, probabilities, norm=2) == pytest.approx(
        (0.75 * 0.1**2 + 0.25 * 0.6**2) ** 0.5
    )
    assert confidence_ece(labels, probabilities, norm="max") == pytest.approx(0.6)


def test_quantiles_of_four_rows_in_two_bins():
    """Confidences 0.6, 0.7 (one right) and 0.8, 0.9 (both right): gaps 0.65 - 0.5 and 1 - 0.85."""
    probabilities = [[0.6, 0.4], [0.7, 0.3], [0.8, 0.2], [0.9, 0.1]]
    for arguments in ({"n_bins": 2, "strategy": "quantile"}, {"binning": EqualMass(2)}):
        assert confidence_ece([0, 1, 0, 0], probabilities, **arguments) == pytest.approx(0.15)


@pytest.mark.parametrize("metric", ERRORS)
def test_strategies_are_short_for_schemes(metric):
    labels, probabilities = random_problem()
    assert metric(labels, probabilities, n_bins=7) == metric(labels, probabilities, binning=EqualWidth(7))
    assert metric(labels, probabilities, n_bins=7, strategy="quantile") == metric(
        labels, probabilities, binning=EqualMass(7)
    )


@pytest.mark.parametrize("metric", ERRORS)
def test_a_function_of_ones_own_can_choose_the_bins(metric):
    labels, probabilities = random_problem()
    edges = np.array([0, 0.3, 0.55, 1])
    assert metric(labels, probabilities, binning=lambda *_: FixedEdges(edges)) == metric(
        labels, probabilities, binning=FixedEdges(edges)
    )


def test_confidences_on_an_edge_go_to_the_side_that_is_closed():
    """0.75 and right, 1 and wrong: one bin [0.75, 1] with gap 0.875 - 0.5, or two with gaps 0.25 and 1."""
    labels, probabilities = [0, 1], [[0.75, 0.25], [1.0, 0.0]]
    assert confidence_ece(labels, probabilities, binning=EqualWidth(4)) == 0.375
    assert confidence_ece(labels, probabilities, binning=EqualWidth(4, closed="right")) == 0.625


def test_probabilities_on_an_edge_go_to_the_side_that_is_closed():
    """Class 1 at 0.5 and 1, of which only the first occurs: one bin with gap 0.25, or gaps 0.5 and 1.

    Class 0 is its mirror image, at 0.5 and 0, and is binned the other way round.
    """
    labels, probabilities = [1, 0], [[0.5, 0.5], [0.0, 1.0]]
    left = classwise_ece(labels, probabilities, binning=EqualWidth(2), reduction="none")
    right = classwise_ece(labels, probabilities, binning=EqualWidth(2, closed="right"), reduction="none")
    assert left.tolist() == [0.75, 0.25]
    assert right.tolist() == [0.25, 0.75]


@given(problem=problems(), norm=st.sampled_from(NORMS), strategy=st.sampled_from(["uniform", "quantile"]))
def test_errors_lie_between_zero_and_one_and_grow_with_the_norm(problem, norm, strategy):
    for metric in ERRORS:
        error = metric(*problem[::-1], norm=norm, strategy=strategy)
        assert 0 <= error <= 1 + 1e-6  # float32 rows exceed one by their rounding
        assert metric(*problem[::-1], norm=1, strategy=strategy) <= error + 1e-9
        assert error <= metric(*problem[::-1], norm="max", strategy=strategy) + 1e-9


@given(problem=problems(), strategy=st.sampled_from(["uniform", "quantile"]), data=st.data())
def test_the_order_of_rows_does_not_matter(problem, strategy, data):
    probabilities, labels = problem
    rows = np.array(data.draw(st.permutations(range(len(labels)))))
    for metric in ERRORS:
        before = metric(labels, probabilities, strategy=strategy)
        after = metric(labels[rows], probabilities[rows], strategy=strategy)
        assert after == pytest.approx(before, rel=1e-9, abs=1e-12)


@given(order=st.permutations(range(4)), strategy=st.sampled_from(["uniform", "quantile"]))
def test_the_order_of_classes_does_not_matter(order, strategy):
    """Without ties for the largest probability, of which the first column would be predicted."""
    labels, probabilities = random_problem()
    order = np.array(order)
    for metric in ERRORS:
        before = metric(labels, probabilities, strategy=strategy)
        after = metric(np.argsort(order)[labels], probabilities[:, order], strategy=strategy)
        assert after == pytest.approx(before, rel=1e-9)


def test_errors_of_single_classes_follow_their_columns():
    labels, probabilities = random_problem()
    order = np.array([2, 0, 3, 1])
    before = classwise_ece(labels, probabilities, reduction="none")
    after = classwise_ece(np.argsort(order)[labels], probabilities[:, order], reduction="none")
    assert after == pytest.approx(before[order], rel=1e-12)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("metric", ERRORS)
def test_certain_and_right_is_exactly_zero(metric, dtype, strategy):
    labels = np.array([0, 1, 2, 0, 2])
    weights = [0.1, 0.7, 1.3, 0.2, 0.9]
    assert metric(labels, np.eye(3, dtype=dtype)[labels], strategy=strategy) == 0.0
    assert metric(labels, np.eye(3, dtype=dtype)[labels], strategy=strategy, sample_weight=weights) == 0.0


@pytest.mark.parametrize("metric", ERRORS)
def test_certain_and_wrong_is_one(metric):
    """Two classes: each column too has the gap one in both of its bins."""
    labels = np.array([0, 1, 1, 0])
    assert metric(labels, np.eye(2)[1 - labels]) == 1.0


def test_a_class_without_rows_counts_with_its_mean_probability():
    errors = classwise_ece([0, 1], [[0.5, 0.25, 0.25]] * 2, n_bins=1, reduction="none")
    assert errors == pytest.approx([0.0, 0.25, 0.25])


@pytest.mark.parametrize("n_classes", [15, 16, 17, 33])
def test_any_number_of_classes_is_covered(n_classes):
    labels, probabilities = random_problem(100, n_classes)
    expected = [
        naive_error(list(column), (labels == k).astype(float), np.ones(100), 15, 1)
        for k, column in enumerate(probabilities.T)
    ]
    assert classwise_ece(labels, probabilities, reduction="none") == pytest.approx(expected, rel=1e-9)


def test_logits_and_their_softmax_give_the_same_errors():
    labels, probabilities = random_problem()
    predictions = Predictions.from_logits(np.log(probabilities))
    for metric in ERRORS:
        assert metric(labels, predictions) == pytest.approx(metric(labels, probabilities), rel=1e-9)


def test_memory_stays_far_below_one_copy_of_the_predictions():
    labels, probabilities = random_problem(40_000, 400, np.float32)
    predictions = Predictions.from_probabilities(probabilities)
    for strategy in ("uniform", "quantile"):
        tracemalloc.start()
        classwise_ece(labels, predictions, strategy=strategy)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < probabilities.nbytes / 4


@pytest.mark.parametrize("metric", ERRORS)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"strategy": "kmeans"}, "strategy must be 'uniform' or 'quantile'"),
        ({"norm": 0.5}, "norm must be"),
        ({"norm": np.inf}, "norm must be"),
        ({"norm": None}, "norm must be"),
        ({"binning": np.linspace(0, 1, 11)}, "pass FixedEdges"),
        ({"binning": EqualMass}, "binning must be a scheme"),
        ({"binning": lambda *_: np.linspace(0, 1, 11)}, "binning must return"),
    ],
)
def test_arguments_without_meaning_are_refused(metric, arguments, message):
    with pytest.raises(ParameterError, match=message):
        metric([0, 1], [0.2, 0.7], **arguments)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("metric", [confidence_ece, classwise_ece, top_label_ece])
def test_the_cube_root_of_the_rows_is_a_number_of_bins(metric, strategy):
    """Four classes of 27 rows each: five bins for all 108 rows, three for those that predict one class."""
    generator = np.random.default_rng(0)
    top = np.repeat(np.arange(4), 27)
    probabilities = generator.dirichlet(np.ones(4), 108)
    order = np.argsort(probabilities, axis=1)
    probabilities = np.take_along_axis(probabilities, order, axis=1)
    probabilities = np.array([np.roll(row, k + 1) for row, k in zip(probabilities, top, strict=True)])
    labels = generator.integers(0, 4, 108)
    n_bins = 3 if metric is top_label_ece else 5
    found = metric(labels, probabilities, n_bins="cube_root", strategy=strategy)
    assert found == pytest.approx(metric(labels, probabilities, n_bins=n_bins, strategy=strategy))
    weights = np.where(np.arange(108) % 27 == 0, 0.0, 2.0)
    kept = weights > 0
    assert metric(
        labels, probabilities, n_bins="cube_root", strategy=strategy, sample_weight=weights
    ) == pytest.approx(metric(labels[kept], probabilities[kept], n_bins="cube_root", strategy=strategy))
