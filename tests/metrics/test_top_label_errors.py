"""Class, top-label and top-k errors against loops over rows, and what they have in common."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant import Predictions
from calibrant.binning import EqualMass, EqualWidth, FixedEdges
from calibrant.errors import ParameterError
from calibrant.metrics import (
    class_ece,
    classwise_ece,
    confidence_ece,
    maximum_calibration_error,
    top_k_confidence_ece,
    top_k_label_ece,
    top_label_ece,
)
from data import load
from strategies import problems

NORMS = [1, 2, 3.5, "max"]


def naive_rank_error(probabilities, labels, rank, partition, norm, apart):
    """Collect score and outcome of the class at one rank in a dictionary of cells, row by row."""
    cells = {}
    for row, label in zip(probabilities, labels, strict=True):
        order = sorted(range(len(row)), key=lambda k, row=row: (-row[k], k))
        chosen = order[rank]
        key = (chosen if apart else None, int(partition.index(row[chosen : chosen + 1])[0]))
        cells.setdefault(key, []).append((float(row[chosen]), float(chosen == label)))
    gaps = {
        key: abs(np.mean([s for s, _ in rows]) - np.mean([o for _, o in rows])) for key, rows in cells.items()
    }
    if norm == "max":
        return max(gaps.values())
    powers = sum(len(cells[key]) / len(labels) * gap**norm for key, gap in gaps.items())
    return powers ** (1 / norm)


@settings(max_examples=60)
@given(problem=problems(), n_bins=st.integers(1, 12), norm=st.sampled_from(NORMS), k=st.integers(1, 4))
def test_the_errors_of_ranks_are_loops_over_rows(problem, n_bins, norm, k):
    probabilities, labels = problem
    partition = EqualWidth(n_bins)
    for metric, apart in ((top_k_confidence_ece, False), (top_k_label_ece, True)):
        expected = [
            naive_rank_error(probabilities, labels, rank, partition, norm, apart)
            for rank in range(min(k, probabilities.shape[1]))
        ]
        result = metric(labels, probabilities, k=k, n_bins=n_bins, norm=norm, reduction="none")
        assert result == pytest.approx(expected, rel=1e-9, abs=1e-9)
        for reduction, reduced in (("mean", np.mean), ("sum", np.sum)):
            value = metric(labels, probabilities, k=k, n_bins=n_bins, norm=norm, reduction=reduction)
            assert value == pytest.approx(reduced(expected), rel=1e-9, abs=1e-9)


@settings(max_examples=40)
@given(problem=problems(), n_bins=st.integers(1, 12), norm=st.sampled_from(NORMS))
def test_the_first_rank_is_the_predicted_class(problem, n_bins, norm):
    probabilities, labels = problem
    options = {"n_bins": n_bins, "norm": norm}
    assert top_k_confidence_ece(labels, probabilities, k=1, **options) == pytest.approx(
        confidence_ece(labels, probabilities, **options), abs=1e-12
    )
    assert top_k_label_ece(labels, probabilities, k=1, **options) == pytest.approx(
        top_label_ece(labels, probabilities, **options), abs=1e-12
    )


@settings(max_examples=40)
@given(problem=problems(), n_bins=st.integers(1, 12), norm=st.sampled_from(NORMS))
def test_telling_classes_apart_never_lowers_an_error(problem, n_bins, norm):
    """By Jensen's inequality in each bin, with the same bins for all classes."""
    probabilities, labels = problem
    options = {"n_bins": n_bins, "norm": norm}
    together = confidence_ece(labels, probabilities, **options)
    assert top_label_ece(labels, probabilities, **options) >= together - 1e-12
    together = top_k_confidence_ece(labels, probabilities, k=3, reduction="none", **options)
    apart = top_k_label_ece(labels, probabilities, k=3, reduction="none", **options)
    assert (apart >= together - 1e-12).all()


def test_quantile_bins_are_chosen_within_each_predicted_class():
    """Four rows predicted 0 and four predicted 1, each in two bins of two; gaps by hand."""
    first = np.array([0.6, 0.7, 0.8, 0.9])
    p = np.vstack([np.column_stack([first, 1 - first]), np.column_stack([1 - first, first])])
    labels = [0, 1, 0, 0, 1, 1, 1, 1]
    # Class 0: |0.65 - 0.5| and |0.85 - 1|; class 1: |0.65 - 1| and |0.85 - 1|.
    expected = (0.15 + 0.15 + 0.35 + 0.15) / 4
    assert top_label_ece(labels, p, n_bins=2, strategy="quantile") == pytest.approx(expected)
    assert top_k_label_ece(labels, p, k=1, binning=EqualMass(2)) == pytest.approx(expected)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_the_error_of_one_class_is_its_part_of_the_classwise_error(strategy):
    generator = np.random.default_rng(0)
    p = generator.dirichlet(np.full(4, 0.5), 200)
    y = generator.integers(0, 4, 200)
    names = np.array(["ant", "bee", "cat", "dog"])
    every = classwise_ece(y, p, strategy=strategy, norm=2, reduction="none")
    for column, name in enumerate(names):
        assert class_ece(names[y], p, label=name, strategy=strategy, norm=2) == pytest.approx(every[column])
        assert class_ece(y, p, label=column, strategy=strategy, norm=2) == pytest.approx(every[column])


def test_a_class_that_does_not_exist_is_refused():
    with pytest.raises(ParameterError, match=r"label must be one of the classes \[0, 1\], not 'cat'"):
        class_ece([0, 1], [[0.5, 0.5], [0.5, 0.5]], label="cat")


@pytest.mark.parametrize("k", [0, -1, 2.5, "all"])
def test_a_number_of_ranks_that_is_none_is_refused(k):
    for metric in (top_k_confidence_ece, top_k_label_ece):
        with pytest.raises(ParameterError, match="k must be an integer of at least 1"):
            metric([0, 1], [[0.5, 0.5], [0.5, 0.5]], k=k)


def test_the_maximum_is_the_largest_gap_of_confidence_bins():
    generator = np.random.default_rng(1)
    p = generator.dirichlet(np.full(3, 0.5), 100)
    y = generator.integers(0, 3, 100)
    for options in ({}, {"n_bins": 4, "strategy": "quantile"}, {"binning": FixedEdges((0, 0.5, 1))}):
        assert maximum_calibration_error(y, p, **options) == confidence_ece(y, p, norm="max", **options)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_saturated_rows_are_in_the_last_bin_and_zeros_in_the_first(dtype):
    """Rows of exactly 1 and 0 at every rank: the outermost bins, whichever class is predicted."""
    p = np.repeat(np.eye(3, dtype=dtype), 10, axis=0)
    y = np.tile([0] * 5 + [1] * 5, 3)
    # Class 0 predicted: half right; class 1: half right; class 2: never.
    assert top_label_ece(y, p) == pytest.approx((0.5 + 0.5 + 1) / 3)
    # At rank 2 and 3 all probabilities are 0, in one bin; the true class is there whenever it is not first.
    ranks = top_k_confidence_ece(y, p, reduction="none")
    assert ranks[0] == pytest.approx(2 / 3)
    assert ranks[1:].sum() == pytest.approx(2 / 3)


def test_many_classes_take_the_shortcut_to_the_largest():
    """With 200 classes only the top five are sorted; a full sort says the same."""
    generator = np.random.default_rng(2)
    p = np.round(generator.dirichlet(np.full(200, 0.05), 300), 3)
    p[:, 0] += 1 - p.sum(axis=1)
    p = np.abs(p) / np.abs(p).sum(axis=1, keepdims=True)
    y = generator.integers(0, 200, 300)
    expected = [naive_rank_error(p, y, rank, EqualWidth(15), 1, True) for rank in range(3)]
    assert top_k_label_ece(y, p, k=3, reduction="none") == pytest.approx(expected, abs=1e-12)


def test_a_network_that_is_honest_on_average_is_less_so_for_each_class():
    arrays = load("kull_nn/c10_resnet110")
    predictions = Predictions.from_logits(arrays["test_logits"])
    confidence = confidence_ece(arrays["test_y"], predictions)
    assert confidence < top_label_ece(arrays["test_y"], predictions) < 2 * confidence
