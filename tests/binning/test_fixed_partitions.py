"""Equal widths and given edges put every score where it belongs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from calibrant.binning import EqualMass, EqualWidth, FixedEdges
from calibrant.errors import ParameterError

BIN_COUNTS = [1, 2, 3, 7, 10, 15, 49, 100, 1000]
FLOATS = [np.float32, np.float64]


def naive_index(edges, score, closed):
    """Compare one score with one bin after the other, in the float type of the score."""
    edges = [type(score)(edge) for edge in edges]
    n_bins = len(edges) - 1
    for b in range(n_bins):
        if closed == "left" and score < edges[b + 1]:
            return b
        if closed == "right" and score <= edges[b + 1]:
            return b
    return n_bins - 1


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n_bins", BIN_COUNTS)
def test_a_score_on_an_edge_starts_the_next_bin(n_bins, dtype):
    """In [a, b) bins the score k/B is the first of bin k, rounded up or down; 1 is in the last."""
    scores = (np.arange(n_bins + 1) / n_bins).astype(dtype)
    expected = np.minimum(np.arange(n_bins + 1), n_bins - 1)
    np.testing.assert_array_equal(EqualWidth(n_bins).index(scores), expected)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n_bins", BIN_COUNTS)
def test_a_score_on_an_edge_ends_its_bin_when_bins_are_closed_on_the_right(n_bins, dtype):
    """In (a, b] bins the score k/B is the last of bin k - 1, and 0 is in the first."""
    scores = (np.arange(n_bins + 1) / n_bins).astype(dtype)
    expected = np.maximum(np.arange(n_bins + 1) - 1, 0)
    np.testing.assert_array_equal(EqualWidth(n_bins, closed="right").index(scores), expected)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n_bins", BIN_COUNTS)
def test_the_floats_next_to_an_edge_are_on_their_own_side(n_bins, dtype):
    edges = (np.arange(1, n_bins) / n_bins).astype(dtype)
    below, above = np.nextafter(edges, dtype(0)), np.nextafter(edges, dtype(1))
    for closed in ("left", "right"):
        partition = EqualWidth(n_bins, closed=closed)
        np.testing.assert_array_equal(partition.index(below), np.arange(n_bins - 1))
        np.testing.assert_array_equal(partition.index(above), np.arange(1, n_bins))


def test_a_float32_probability_just_above_one_is_in_the_last_bin():
    score = np.nextafter(np.float32(1), np.float32(2))
    assert score > 1
    for partition in (EqualWidth(15), EqualWidth(15, closed="right"), FixedEdges((0, 0.5, 1, 1))):
        assert partition.index(score) == len(partition.bin_edges()) - 2


@given(
    n_bins=st.integers(1, 40),
    low=st.floats(-3, 3),
    width=st.floats(0.01, 5),
    closed=st.sampled_from(["left", "right"]),
    scores=hnp.arrays(st.sampled_from(FLOATS), 20, elements=st.floats(-4, 9, width=32)),
)
def test_equal_width_agrees_with_a_search_among_its_edges(n_bins, low, width, closed, scores):
    partition = EqualWidth(n_bins, low=low, high=low + width, closed=closed)
    edges = partition.bin_edges()
    scores = np.concatenate([scores, edges.astype(scores.dtype)])
    expected = [naive_index(edges, score, closed) for score in scores]
    assert partition.index(scores).tolist() == expected
    assert FixedEdges(edges, closed=closed).index(scores).tolist() == expected


def test_bins_narrower_than_the_spacing_of_float32_still_follow_the_edges():
    """Between 1 and 1.00001 there are 84 float32 steps, and 4096 bins."""
    scores = np.linspace(1, 1.00001, 101, dtype=np.float32)
    partition = EqualWidth(4096, low=1, high=1.00001)
    edges = partition.bin_edges()[1:-1].astype(np.float32)
    np.testing.assert_array_equal(partition.index(scores), np.searchsorted(edges, scores, side="right"))


def test_equal_width_edges_are_correctly_rounded_quotients():
    for n_bins in BIN_COUNTS:
        assert EqualWidth(n_bins).bin_edges().tolist() == [k / n_bins for k in range(n_bins + 1)]


def test_a_repeated_last_edge_makes_a_bin_of_one_value():
    partition = FixedEdges((*np.linspace(0, 1, 15), 1.0))
    scores = np.array([0.0, 13 / 14, np.nextafter(1.0, 0.0), 1.0])
    assert partition.index(scores).tolist() == [0, 13, 13, 14]


def test_a_repeated_first_edge_makes_a_bin_of_one_value_when_closed_on_the_right():
    partition = FixedEdges((0, 0, 0.5, 1), closed="right")
    assert partition.index([0.0, np.nextafter(0.0, 1.0), 0.5, 1.0]).tolist() == [0, 1, 1, 2]


def test_infinite_outermost_edges_are_allowed():
    partition = FixedEdges((-np.inf, 0, np.inf))
    assert partition.index([-1e300, -1.0, 0.0, 1e300]).tolist() == [0, 0, 1, 1]


def test_scores_beyond_the_range_are_in_the_nearest_bin():
    for closed in ("left", "right"):
        assert EqualWidth(5, low=0.2, high=0.7, closed=closed).index([0.0, 1.0]).tolist() == [0, 4]


def test_integer_scores_are_taken_as_numbers():
    assert EqualWidth(2).index([0, 1]).tolist() == [0, 1]
    assert FixedEdges((0, 0.5, 1)).index(np.array([0, 1])).tolist() == [0, 1]


def test_scores_of_any_shape_keep_it():
    scores = np.array([[0.1, 0.9], [0.6, 0.4]])
    for partition in (EqualWidth(2), FixedEdges((0, 0.5, 1))):
        assert partition.index(scores).tolist() == [[0, 1], [1, 0]]


def test_schemes_are_values():
    assert EqualWidth(10) == EqualWidth(10) != EqualWidth(10, closed="right")
    assert FixedEdges([0, 0.5, 1]) == FixedEdges(np.array([0.0, 0.5, 1.0]))
    assert len({FixedEdges((0, 1)), FixedEdges([0.0, 1.0]), EqualMass(3), EqualMass(3)}) == 2
    assert repr(FixedEdges(np.array([0.0, 1.0]))) == "FixedEdges(closed='left', edges=(0.0, 1.0))"


def test_given_edges_cannot_be_changed_from_outside():
    given_edges = np.array([0.0, 0.5, 1.0])
    partition = FixedEdges(given_edges)
    given_edges[1] = 0.9
    partition.bin_edges()[1] = 0.9
    assert partition.edges == (0.0, 0.5, 1.0)


def test_a_partition_is_the_scheme_that_chooses_it():
    partition = EqualWidth(4)
    assert partition(np.array([0.3, 0.4])) is partition


@pytest.mark.parametrize(
    "edges",
    [(0,), (), (0, 1, 0.5), (0, np.nan, 1), (0, 0, 1), (0, 0.5, 0.5, 1), (0, np.inf, np.inf), [[0, 1]], "ab"],
)
def test_edges_that_make_no_bins_are_refused(edges):
    with pytest.raises(ParameterError, match="edges must"):
        FixedEdges(edges)


def test_the_open_end_cannot_be_repeated():
    with pytest.raises(ParameterError, match=r"edge 1 is 1\.0 and edge 2 is 1\.0"):
        FixedEdges((0, 1, 1), closed="right")


@pytest.mark.parametrize("scheme", [EqualWidth, EqualMass])
@pytest.mark.parametrize("n_bins", [0, -1, 2.5, "15", None, True, 10**12])
def test_a_number_of_bins_must_be_whole_and_positive(scheme, n_bins):
    with pytest.raises(ParameterError, match="n_bins must be an integer"):
        scheme(n_bins)


@pytest.mark.parametrize("make", [EqualWidth, EqualMass, lambda **options: FixedEdges((0, 1), **options)])
def test_bins_are_closed_on_the_left_or_right_only(make):
    with pytest.raises(ParameterError, match="closed must be 'left' or 'right', not 'both'"):
        make(closed="both")


@pytest.mark.parametrize(("low", "high"), [(1, 0), (0, 0), (0, np.inf), (np.nan, 1)])
def test_a_range_must_have_a_length(low, high):
    with pytest.raises(ParameterError, match="low must lie below high"):
        EqualWidth(low=low, high=high)
