"""Sums of rows depend on the row alone."""

import numpy as np
import pytest

from calibrant.numerics.reductions import contiguous_row_sums, row_sums, running_sums
from calibrant.numerics.simplex import bounded_gaps


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_columns", [1, 2, 7, 8, 9, 20, 50, 51, 200])
def test_the_sum_of_a_row_does_not_depend_on_the_rows_around_it(n_columns, dtype):
    matrix = np.random.default_rng(n_columns).random((6, n_columns)).astype(dtype)
    together = row_sums(matrix)
    for row in range(6):
        assert row_sums(matrix[row : row + 1])[0] == together[row]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_columns", [1, 2, 7, 8, 9, 15, 16, 20, 50, 51, 200])
def test_sums_of_rows_that_are_stored_by_columns_have_the_bits_of_contiguous_rows(n_columns, dtype):
    matrix = np.random.default_rng(n_columns).random((40, n_columns)).astype(dtype)
    expected = np.array([row.sum() for row in matrix])
    for layout in (matrix, np.asfortranarray(matrix), np.repeat(matrix, 2, axis=1)[:, ::2]):
        np.testing.assert_array_equal(contiguous_row_sums(layout), expected)


@pytest.mark.parametrize("n_columns", [1, 2, 9, 48, 49, 200])
@pytest.mark.parametrize("infinite", [False, True])
def test_running_sums_are_those_of_numpy_from_either_end(n_columns, infinite):
    matrix = np.random.default_rng(n_columns).random((40, n_columns))
    if infinite:
        matrix[3, n_columns // 2] = np.inf
    out = np.empty_like(matrix)
    np.testing.assert_allclose(running_sums(matrix, out), matrix.cumsum(axis=1), rtol=1e-14)
    from_end = matrix[:, ::-1].cumsum(axis=1)[:, ::-1]
    np.testing.assert_allclose(running_sums(matrix, out, from_end=True), from_end, rtol=1e-14)


def test_the_bound_on_gaps_of_a_row_does_not_depend_on_the_rows_around_it():
    """The huge row has no gap to bound, so it stays; the other row has one."""
    rows = np.array([[1e30, 1e30], [0.0, -1e5]])
    together = bounded_gaps(rows)
    np.testing.assert_array_equal(together[0], rows[0])
    np.testing.assert_allclose(together[1], [0, np.log(np.finfo(np.float64).tiny)])
