"""Bins of equal mass share the weight, keep ties together and see weights as repeated rows."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from calibrant.binning import EqualMass, FixedEdges

CLOSED = st.sampled_from(["left", "right"])
TIED_SCORES = hnp.arrays(
    st.sampled_from([np.float32, np.float64]),
    st.integers(1, 25),
    elements=st.one_of(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(0, 1, width=32)),
)


def naive_groups(scores, weights, n_bins):
    """Try every cut between distinct scores with exact fractions; of two equally near, take the upper."""
    values = sorted(set(scores.tolist()))
    below = [Fraction(0)]
    for value in values:
        below.append(
            below[-1]
            + sum(Fraction(w) for s, w in zip(scores.tolist(), weights.tolist(), strict=True) if s == value)
        )
    cuts = set()
    for b in range(1, n_bins):
        wanted = below[-1] * b / n_bins
        cuts.add(min(range(len(below)), key=lambda j, wanted=wanted: (abs(below[j] - wanted), -j)))
    cuts = sorted(cuts - {0, len(values)})
    group_of = {value: sum(j >= cut for cut in cuts) for j, value in enumerate(values)}
    return [group_of[score] for score in scores.tolist()]


@given(scores=TIED_SCORES, n_bins=st.integers(1, 8), closed=CLOSED)
def test_cuts_are_the_nearest_to_equal_shares(scores, n_bins, closed):
    partition = EqualMass(n_bins, closed=closed)(scores)
    assert partition.index(scores).tolist() == naive_groups(scores, np.ones(len(scores)), n_bins)


@given(scores=TIED_SCORES, n_bins=st.integers(1, 8), closed=CLOSED, data=st.data())
def test_weights_move_the_cuts(scores, n_bins, closed, data):
    weights = data.draw(hnp.arrays(np.float64, len(scores), elements=st.integers(1, 20).map(float)))
    partition = EqualMass(n_bins, closed=closed)(scores, weights)
    assert partition.index(scores).tolist() == naive_groups(scores, weights, n_bins)


@given(scores=TIED_SCORES, n_bins=st.integers(1, 8), data=st.data())
def test_a_weight_is_a_repeated_row(scores, n_bins, data):
    times = data.draw(hnp.arrays(np.intp, len(scores), elements=st.integers(1, 4)))
    weighted = EqualMass(n_bins)(scores, times.astype(float))
    assert weighted == EqualMass(n_bins)(np.repeat(scores, times))


@given(scores=TIED_SCORES, n_bins=st.integers(1, 8), factor=st.sampled_from([0.1, 1 / 3, 1e-8, 1e8]))
def test_equal_weights_of_any_size_are_no_weights(scores, n_bins, factor):
    assert EqualMass(n_bins)(scores, np.full(len(scores), factor)) == EqualMass(n_bins)(scores)


@given(scores=TIED_SCORES, n_bins=st.integers(1, 8), closed=CLOSED)
def test_no_bin_is_empty_and_no_more_than_asked_for(scores, n_bins, closed):
    bins = EqualMass(n_bins, closed=closed)(scores).bins(scores, scores > 0.5)
    assert bins.filled.all()
    assert 1 <= len(bins) <= n_bins
    assert bins.edges[0] == scores.min()
    assert bins.edges[-1] == scores.max()


@pytest.mark.parametrize(("n_rows", "n_bins"), [(150, 15), (151, 15), (164, 15), (7, 7), (10, 3)])
def test_without_ties_bins_differ_by_one_row_at_most(n_rows, n_bins):
    scores = np.random.default_rng(0).permutation(n_rows) / n_rows
    count = EqualMass(n_bins)(scores).bins(scores, scores > 0.5).count
    assert len(count) == n_bins
    assert count.max() - count.min() <= 1


def test_many_equal_scores_share_one_bin_and_leave_the_rest_to_the_others():
    """Of 10 rows 6 are equal to 1: the cut at one half comes nearest after the other 4."""
    scores = np.array([0.1, 0.2, 0.3, 0.4] + [1.0] * 6)
    assert EqualMass(2)(scores).bins(scores, scores > 0).count.tolist() == [4, 6]
    assert EqualMass(5)(scores).bins(scores, scores > 0).count.tolist() == [2, 2, 6]


@pytest.mark.parametrize("closed", ["left", "right"])
def test_scores_next_to_each_other_are_kept_apart(closed):
    """No float lies between the two, so the edge must be the one that belongs to the proper side."""
    scores = np.array([1.0, np.nextafter(1.0, 2.0)])
    assert EqualMass(2, closed=closed)(scores).index(scores).tolist() == [0, 1]


@pytest.mark.parametrize("closed", ["left", "right"])
def test_equal_scores_give_one_bin(closed):
    scores = np.full(9, 0.3)
    assert EqualMass(4, closed=closed)(scores) == FixedEdges((0.3, 0.3), closed=closed)


def test_the_order_of_rows_does_not_matter():
    generator = np.random.default_rng(1)
    scores, weights = generator.random(200).round(2), generator.random(200)
    order = generator.permutation(200)
    assert EqualMass(7)(scores, weights) == EqualMass(7)(scores[order], weights[order])


def test_scores_are_left_as_they_were():
    scores = np.array([0.5, 0.1, 0.9])
    EqualMass(2)(scores, np.ones(3))
    assert scores.tolist() == [0.5, 0.1, 0.9]


def test_new_scores_outside_the_seen_range_are_in_the_outermost_bins():
    partition = EqualMass(2)(np.array([0.3, 0.4, 0.6, 0.7]))
    assert partition.index([0.0, 1.0]).tolist() == [0, 1]
