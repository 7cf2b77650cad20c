"""Bins hold the right sums, stay free of NaN, and add up."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from calibrant.binning import Bins, EqualWidth, FixedEdges
from calibrant.errors import ParameterError

SCORES = np.array([0.1, 0.2, 0.6, 0.7, 0.9])
OUTCOMES = np.array([False, True, True, False, True])
WEIGHTS = np.array([1.0, 3.0, 2.0, 2.0, 0.5])


def same(one: Bins, other: Bins) -> bool:
    names = ("edges", "count", "weight", "score_sum", "outcome_sum")
    return one.closed == other.closed and all(
        np.allclose(getattr(one, name), getattr(other, name), rtol=1e-12, atol=0) for name in names
    )


def test_each_bin_has_the_means_of_its_own_rows():
    bins = EqualWidth(2).bins(SCORES, OUTCOMES)
    assert bins.count.tolist() == [2, 3]
    assert bins.weight.tolist() == [2.0, 3.0]
    assert bins.mean_score == pytest.approx([0.3 / 2, 2.2 / 3])
    assert bins.mean_outcome == pytest.approx([1 / 2, 2 / 3])
    assert bins.gap == pytest.approx([1 / 2 - 0.3 / 2, 2 / 3 - 2.2 / 3])
    assert bins.share.tolist() == [0.4, 0.6]


def test_weighted_means_divide_by_the_weight_and_not_by_the_number_of_rows():
    bins = EqualWidth(2).bins(SCORES, OUTCOMES, WEIGHTS)
    assert bins.count.tolist() == [2, 3]
    assert bins.weight.tolist() == [4.0, 4.5]
    assert bins.mean_score == pytest.approx([0.7 / 4, (1.2 + 1.4 + 0.45) / 4.5])
    assert bins.mean_outcome == pytest.approx([3 / 4, 2.5 / 4.5])


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_outcomes_may_be_booleans_integers_or_fractions(weights):
    partition = EqualWidth(3)
    as_booleans = partition.bins(SCORES, OUTCOMES, weights)
    assert same(as_booleans, partition.bins(SCORES, OUTCOMES.astype(int), weights))
    assert same(as_booleans, partition.bins(SCORES, OUTCOMES.astype(np.float32), weights))
    halves = partition.bins(SCORES, OUTCOMES / 2, weights)
    assert halves.mean_outcome == pytest.approx(as_booleans.mean_outcome / 2)


def test_empty_bins_are_marked_and_never_nan():
    bins = EqualWidth(10).bins(SCORES, OUTCOMES)
    assert bins.filled.tolist() == [False, True, True, False, False, False, True, True, False, True]
    for values in (bins.mean_score, bins.mean_outcome, bins.gap, bins.share):
        assert np.isfinite(values).all()
        assert (values[~bins.filled] == 0).all()


def test_no_rows_at_all_give_empty_bins():
    bins = EqualWidth(3).bins(np.empty(0), np.empty(0, dtype=bool))
    assert bins.count.tolist() == [0, 0, 0]
    assert bins.share.tolist() == [0.0, 0.0, 0.0]
    assert not bins.filled.any()


@given(
    scores=hnp.arrays(np.float64, 12, elements=st.floats(0, 1)),
    outcomes=hnp.arrays(np.bool_, 12),
    weights=hnp.arrays(np.float64, 12, elements=st.floats(0.1, 3)),
    cut=st.integers(0, 12),
)
def test_bins_of_two_batches_add_up_to_the_bins_of_both(scores, outcomes, weights, cut):
    partition = EqualWidth(5)
    first = partition.bins(scores[:cut], outcomes[:cut], weights[:cut])
    second = partition.bins(scores[cut:], outcomes[cut:], weights[cut:])
    assert same(first + second, partition.bins(scores, outcomes, weights))


@pytest.mark.parametrize(
    "other", [EqualWidth(3), EqualWidth(2, closed="right"), FixedEdges((0, 0.4, 1)), EqualWidth(2, high=2)]
)
def test_bins_with_other_edges_cannot_be_added(other):
    with pytest.raises(ParameterError, match="same edges"):
        EqualWidth(2).bins(SCORES, OUTCOMES) + other.bins(SCORES, OUTCOMES)


def test_bins_and_a_number_cannot_be_added():
    with pytest.raises(TypeError):
        EqualWidth(2).bins(SCORES, OUTCOMES) + 1


def test_a_million_float32_scores_are_summed_in_float64():
    """float32(0.1) is exact in float64, and so is its sum up to float64 rounding; float32 sums are not."""
    scores = np.full(10**6, 0.1, dtype=np.float32)
    bins = EqualWidth(1).bins(scores, np.zeros(10**6, dtype=bool))
    assert bins.mean_score[0] == pytest.approx(float(np.float32(0.1)), rel=1e-10)


def test_length_and_description_count_the_bins():
    bins = EqualWidth(4).bins(SCORES, OUTCOMES)
    assert len(bins) == bins.n_bins == 4
    assert repr(bins) == "Bins(4 left-closed bins from 0 to 1, 5 rows, 3 filled)"
