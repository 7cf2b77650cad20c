"""Sorted rows: gaps, places and the way back, against plain loops."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.calibrators.monotone.order_preserving.gap_networks import SortedRows
from strategies import logit_matrices


@given(rows=logit_matrices())
def test_it_does_what_sorting_one_row_after_the_other_does(rows):
    given_rows = rows.copy()
    found = SortedRows.of(rows)
    for row, order, values, gaps in zip(rows, found.order, found.values, found.gaps, strict=True):
        expected = sorted(range(len(row)), key=lambda column: (-row[column], column))
        assert order.tolist() == expected
        assert values.tolist() == [row[column] for column in expected]
        assert gaps.tolist() == [row[first] - row[second] for first, second in pairwise(expected)]
    np.testing.assert_array_equal(rows, given_rows)


@given(rows=logit_matrices(), data=st.data())
def test_the_place_of_a_column_is_where_the_order_names_it(rows, data):
    columns = np.array([data.draw(st.integers(0, rows.shape[1] - 1)) for _ in rows])
    found = SortedRows.of(rows)
    places = found.places_of(columns)
    np.testing.assert_array_equal(found.order[np.arange(len(rows)), places], columns)


@given(rows=logit_matrices(dtype=st.just(np.float64), bound=50.0))
def test_going_down_by_the_gaps_gives_the_rows_back_but_for_their_largest_entries(rows):
    found = SortedRows.of(rows)
    again = found.descending_by(found.gaps)
    np.testing.assert_allclose(again, rows - rows.max(axis=1, keepdims=True), rtol=0, atol=1e-12)
    assert (again.max(axis=1) == 0).all()
    assert not np.signbit(again.max(axis=1)).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_entries_have_no_gap_and_stay_equal(dtype):
    rows = np.array([[2, 5, 2, 5, 2]], dtype=dtype)
    found = SortedRows.of(rows)
    assert found.order.tolist() == [[1, 3, 0, 2, 4]]
    assert found.gaps.tolist() == [[0, 3, 0, 0]]
    assert found.descending_by(found.gaps * dtype(0.1)).dtype == dtype
    assert found.descending_by(found.gaps * 2).tolist() == [[-6, 0, -6, 0, -6]]
