"""Kernels, quadratic forms and content order against plain loops."""

from math import exp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from calibrant.errors import ParameterError
from calibrant.numerics.kernels import (
    check_kernel,
    content_order,
    fingerprints,
    kernel_matrix,
    laplace_form_on_a_line,
    largest_entries,
    median_distance,
    quadratic_forms,
    squared_distances,
    starts_of_equals,
)

LINES = hnp.arrays(np.float64, st.integers(1, 12), elements=st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.99, 1.0]))


def random_matrix(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def test_squared_distances_are_those_of_a_double_loop():
    first, second = random_matrix(7, 4), random_matrix(5, 4, seed=1)
    expected = [[sum((a - b) ** 2) for b in second] for a in first]
    np.testing.assert_allclose(squared_distances(first, second), expected, rtol=1e-13)


@pytest.mark.parametrize("n_columns", [1, 3, 100])
def test_equal_rows_are_at_distance_zero_and_no_square_is_negative(n_columns):
    points = random_matrix(40, n_columns)
    squares = squared_distances(points, points[::-1])
    assert (squares >= 0).all()
    assert (np.diagonal(squares[:, ::-1]) == 0).all()


def test_distances_of_points_close_together_keep_their_digits():
    """Around one vertex the squares are 1e-16, less than the rounding of the squared norms, which are 1."""
    steps = np.arange(4) * 1e-8
    points = np.column_stack([1 - steps, steps])
    expected = (points[:, [0]] - points[:, 0]) ** 2 + (points[:, [1]] - points[:, 1]) ** 2
    np.testing.assert_allclose(squared_distances(points, points), expected, rtol=1e-12)


def test_both_kernels_in_closed_form():
    squares = np.array([[0.0, 1.0, 9.0]])
    np.testing.assert_allclose(kernel_matrix(squares.copy(), "laplace", 3.0), np.exp([[0, -1 / 3, -1]]))
    np.testing.assert_allclose(kernel_matrix(squares.copy(), "gaussian", 3.0), np.exp([[0, -1 / 18, -1 / 2]]))


@pytest.mark.parametrize("kernel", ["laplace", "gaussian"])
def test_a_tiny_bandwidth_leaves_only_equal_points_alike(kernel):
    np.testing.assert_array_equal(kernel_matrix(np.array([0.0, 1e-4]), kernel, 1e-320), [1.0, 0.0])


@pytest.mark.parametrize("n_rows", [1, 255, 256, 257, 700])
def test_quadratic_forms_are_those_of_the_whole_matrix(n_rows):
    """One tile, one row more than a tile, and tiles of unequal size."""
    matrix, vectors = random_matrix(n_rows, n_rows), random_matrix(n_rows, 3, seed=1)
    matrix += matrix.T
    expected = [v @ matrix @ v for v in vectors.T]
    np.testing.assert_allclose(
        quadratic_forms(n_rows, lambda i, j: matrix[i, j], lambda i: vectors[i]), expected, rtol=1e-10
    )


def test_quadratic_forms_do_not_depend_on_the_number_of_threads(monkeypatch):
    matrix, vectors = random_matrix(2500, 2500), random_matrix(2500, 2, seed=1)

    def forms(n_threads):
        monkeypatch.setenv("CALIBRANT_NUM_THREADS", n_threads)
        return quadratic_forms(2500, lambda i, j: matrix[i, j], lambda i: vectors[i])

    np.testing.assert_allclose(forms("2"), forms("1"), rtol=1e-12)


@settings(deadline=None)
@given(points=LINES, bandwidth=st.sampled_from([1e-320, 1e-4, 0.3, 1e6]), seed=st.integers(0, 9))
def test_the_sum_along_a_line_is_that_of_a_double_loop(points, bandwidth, seed):
    values = np.random.default_rng(seed).normal(size=len(points))
    expected = sum(
        exp(-float(abs(points[i] - points[j])) / bandwidth) * values[i] * values[j]
        for i in range(len(points))
        for j in range(len(points))
    )
    assert laplace_form_on_a_line(points, values, bandwidth) == pytest.approx(expected, rel=1e-10, abs=1e-12)


def test_the_sum_along_a_long_line_restarts_without_a_jump():
    """A range of 5,000 bandwidths is ten times what one running sum can hold."""
    points, values = np.random.default_rng(0).random((2, 600))
    expected = np.exp(-np.abs(points[:, np.newaxis] - points) / 2e-4) @ values @ values
    assert laplace_form_on_a_line(points, values, 2e-4) == pytest.approx(expected, rel=1e-12)


def test_the_median_distance_is_the_usual_one_for_different_points():
    points = random_matrix(31, 3)
    distances = [np.linalg.norm(points[i] - points[j]) for i in range(31) for j in range(i)]
    assert median_distance(points, np.ones(31)) == pytest.approx(np.median(distances), rel=1e-12)


def test_a_point_of_weight_two_is_a_point_given_twice_for_the_median():
    points = random_matrix(20, 2)
    counts = np.random.default_rng(0).integers(1, 4, 20)
    repeated = np.repeat(points, counts, axis=0)
    expected = median_distance(repeated, np.ones(len(repeated)))
    for scale in (1.0, 1e-6, 0.1, 1e6):
        assert median_distance(points, scale * counts) == pytest.approx(expected, rel=1e-12)


def test_the_median_of_an_even_number_of_pairs_is_between_the_middle_two():
    """Points 0, 1, 3, 7: distances 1, 2, 3, 4, 6, 7; the first weighs 25 of 46 if the first two points weigh 5."""
    points = np.array([[0.0], [1.0], [3.0], [7.0]])
    assert median_distance(points, np.ones(4)) == 3.5
    assert median_distance(points, np.array([0.1, 0.1, 0.1, 0.1 + 1e-17])) == 3.5
    assert median_distance(points, np.array([5.0, 5.0, 1.0, 1.0])) == 1.0


def test_the_bandwidth_of_equal_points_is_one():
    assert median_distance(np.full((5, 2), 0.5), np.ones(5)) == 1.0
    assert median_distance(np.full((1, 2), 0.5), np.ones(1)) == 1.0


def test_fingerprints_tell_rows_apart_and_not_float_types():
    """The grid of 101^2 pairs of short numbers: the least mixed bits there are."""
    steps = np.arange(101, dtype=np.float32) / 128
    grid = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    assert len(np.unique(fingerprints(grid))) == len(grid)
    np.testing.assert_array_equal(fingerprints(grid), fingerprints(grid.astype(np.float64)))
    assert fingerprints(np.array([[0.0, 1.0]])) == fingerprints(np.array([[-0.0, 1.0]]))


@pytest.mark.parametrize("n_columns", [1, 2, 5])
def test_the_content_order_does_not_depend_on_the_order_of_rows(n_columns):
    generator = np.random.default_rng(0)
    points = generator.integers(0, 3, (200, n_columns)) / 4
    ties = generator.integers(0, 3, 200)
    shuffle = generator.permutation(200)
    order = content_order(points, (ties,))
    again = content_order(points[shuffle], (ties[shuffle],))
    assert sorted(order) == list(range(200))
    np.testing.assert_array_equal(points[order], points[shuffle][again])
    np.testing.assert_array_equal(ties[order], ties[shuffle][again])


@pytest.mark.parametrize("n_columns", [1, 3])
def test_equal_rows_are_side_by_side(n_columns):
    points = np.random.default_rng(0).integers(0, 3, (100, n_columns)) / 4
    order = content_order(points, ())
    assert len(starts_of_equals(points, order)) == len(np.unique(points, axis=0))
    assert starts_of_equals(points[:1], np.array([0])).tolist() == [0]


def test_the_largest_entries_are_those_of_numpy():
    points = random_matrix(5000, 11).astype(np.float32)
    np.testing.assert_array_equal(largest_entries(points), points.max(axis=1))


@pytest.mark.parametrize("bandwidth", [0, -1.0, np.nan, np.inf, "median", True])
def test_a_bandwidth_is_a_positive_number(bandwidth):
    with pytest.raises(ParameterError, match="bandwidth must be a positive number or None"):
        check_kernel("laplace", bandwidth)


def test_an_unknown_kernel_is_refused():
    with pytest.raises(ParameterError, match="kernel must be 'laplace' or 'gaussian', not 'box'"):
        check_kernel("box", None)
