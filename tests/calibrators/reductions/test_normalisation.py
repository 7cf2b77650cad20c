"""Separate probabilities made to sum to one: closed forms, second implementations, and what must stay."""

from itertools import pairwise
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import brentq, minimize

from calibrant.graph.rows import NORMALISATIONS, normalised

every_way = pytest.mark.parametrize("how", sorted(NORMALISATIONS))


def made_to_sum_to_one(values, how):
    """Apply it with a fallback that would be noticed."""
    values = np.asarray(values)
    return normalised(values, how, np.full_like(values, np.nan))


# Second implementations, row by row


def divided_naively(row):
    return np.array([entry / sum(row) for entry in row])


def shifted_naively(row):
    """Find by Brent's method the shift of log-odds, taken of entries strictly between 0 and 1."""
    odds = [log(entry / (1 - entry)) for entry in row]

    def excess(shift):
        return sum(1 / (1 + np.exp(shift - each)) for each in odds) - 1

    shift = brentq(excess, min(odds) - 1, max(odds) + log(len(row)) + 1, xtol=1e-15, rtol=1e-14)
    return np.array([1 / (1 + np.exp(shift - each)) for each in odds])


def projected_naively(row):
    """Find by bisection what is taken from all entries so that the positive ones sum to one."""
    low, high = min(row) - 1, max(row)
    for _ in range(90):
        middle = (low + high) / 2
        total = sum(max(entry - middle, 0) for entry in row)
        low, high = (middle, high) if total > 1 else (low, middle)
    return np.array([max(entry - low, 0) for entry in row])


NAIVE = {"divide": divided_naively, "shift": shifted_naively, "project": projected_naively}


@every_way
@pytest.mark.parametrize("n_classes", [2, 3, 10, 100])
@pytest.mark.parametrize("size", [0.3, 1.0, 3.0])
def test_equal_to_a_second_implementation(how, n_classes, size):
    """Rows that sum to much less than one, to about one, and to much more."""
    generator = np.random.default_rng(n_classes)
    rows = np.minimum(size * generator.dirichlet(np.full(n_classes, 0.4), 30), 1 - 1e-9).clip(1e-12)
    expected = np.array([NAIVE[how](row) for row in rows])
    np.testing.assert_allclose(made_to_sum_to_one(rows, how), expected, rtol=1e-9, atol=1e-13)


def kl_of_coins(row, nearest):
    return sum(
        q * np.log(q / p) + (1 - q) * np.log((1 - q) / (1 - p)) for q, p in zip(nearest, row, strict=True)
    )


# SLSQP of scipy 1.15 leaves the bounds by rounding, and clips with a warning.
@pytest.mark.filterwarnings("ignore:Values in x were outside bounds:RuntimeWarning")
@pytest.mark.parametrize("size", [0.4, 2.0])
def test_a_shift_is_nearest_in_the_sum_of_binary_divergences(size):
    """A general optimiser over the simplex finds the same row, up to its accuracy, and none better."""
    for row in np.minimum(size * np.random.default_rng(3).dirichlet(np.ones(4), 5), 0.95):
        found = minimize(
            lambda nearest, row=row: kl_of_coins(row, nearest),
            np.full(4, 0.25),
            bounds=[(1e-9, 1 - 1e-9)] * 4,
            constraints={"type": "eq", "fun": lambda nearest: nearest.sum() - 1},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        ).x
        ours = made_to_sum_to_one(row[np.newaxis], "shift")[0]
        np.testing.assert_allclose(ours, found, rtol=0, atol=1e-5)
        assert kl_of_coins(row, ours) <= kl_of_coins(row, found / found.sum()) + 1e-12


@pytest.mark.parametrize("size", [0.4, 2.0])
def test_a_projection_is_nearest_in_least_squares(size):
    for row in size * np.random.default_rng(4).dirichlet(np.ones(5), 5):
        found = minimize(
            lambda nearest, row=row: ((nearest - row) ** 2).sum(),
            np.full(5, 0.2),
            bounds=[(0, 1)] * 5,
            constraints={"type": "eq", "fun": lambda nearest: nearest.sum() - 1},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        ).x
        np.testing.assert_allclose(
            made_to_sum_to_one(row[np.newaxis], "project")[0], found, rtol=0, atol=1e-6
        )


# Closed forms


def test_two_classes_in_closed_form():
    """For g = (4/5, 2/5), odds 4 and 2/3, the shifted odds are r and 1/r, so r^2 = 4 / (2/3) = 6."""
    row = np.array([[0.8, 0.4]])
    np.testing.assert_allclose(made_to_sum_to_one(row, "divide"), [[2 / 3, 1 / 3]], rtol=1e-15)
    np.testing.assert_allclose(made_to_sum_to_one(row, "project"), [[0.7, 0.3]], rtol=1e-15)
    root = np.sqrt(6)
    np.testing.assert_allclose(
        made_to_sum_to_one(row, "shift"), [[root / (1 + root), 1 / (1 + root)]], rtol=1e-14
    )


@every_way
@pytest.mark.parametrize("n_classes", [2, 3, 1000])
@pytest.mark.parametrize("value", [1.0, 1 - 2**-53, 0.5, 1e-3, 1e-20, 5e-324])
def test_equal_entries_become_equal_shares(how, n_classes, value):
    expected = np.full((1, n_classes), 1 / n_classes)
    np.testing.assert_allclose(
        made_to_sum_to_one(np.full((1, n_classes), value), how), expected, rtol=1e-12, atol=0
    )


@every_way
def test_a_single_one_among_zeros_stays(how):
    calibrated = made_to_sum_to_one(np.eye(5), how)
    np.testing.assert_allclose(calibrated, np.eye(5), rtol=0, atol=1e-13)


@pytest.mark.parametrize("how", ["divide", "project", "shift"])
def test_several_ones_share(how):
    calibrated = made_to_sum_to_one([[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0]], how)
    expected = [[1 / 2, 1 / 2, 0, 0], [1 / 3, 1 / 3, 1 / 3, 0]]
    np.testing.assert_allclose(calibrated, expected, rtol=0, atol=1e-13)


def test_a_certain_class_takes_all_in_divergence_and_less_by_division():
    """Infinite log-odds outweigh any others; a quotient knows only sizes."""
    row = [[1.0, 0.5, 0.5]]
    np.testing.assert_allclose(made_to_sum_to_one(row, "shift"), [[1, 0, 0]], rtol=0, atol=1e-7)
    np.testing.assert_allclose(made_to_sum_to_one(row, "divide"), [[0.5, 0.25, 0.25]])
    np.testing.assert_allclose(made_to_sum_to_one(row, "project"), [[2 / 3, 1 / 6, 1 / 6]])


def test_tiny_entries_keep_their_proportions_where_sizes_count():
    """Division keeps 1 : 2 : 3; a shift keeps the ratios of the odds, which for tiny entries are the same.

    The shifted odds are x, 2x and 3x with x/(1+x) + 2x/(1+2x) + 3x/(1+3x) = 1, whose root brentq gives.
    """
    factor = brentq(lambda x: sum(k * x / (1 + k * x) for k in (1, 2, 3)) - 1, 0, 1, xtol=1e-16)
    for size in (1e-17, 1e-100, 1e-305):
        row = size * np.array([[1.0, 2.0, 3.0]])
        np.testing.assert_allclose(made_to_sum_to_one(row, "divide"), [[1 / 6, 1 / 3, 1 / 2]], rtol=1e-14)
        expected = [[k * factor / (1 + k * factor) for k in (1, 2, 3)]]
        np.testing.assert_allclose(made_to_sum_to_one(row, "shift"), expected, rtol=1e-12)


@every_way
def test_subnormal_entries_do_no_harm(how):
    rows = np.array([[5e-324, 0.0, 1e-323], [5e-324, 0.4, 0.4], [5e-324, 1.0, 0.0]])
    calibrated = made_to_sum_to_one(rows, how)
    np.testing.assert_allclose(calibrated.sum(axis=1), 1.0, rtol=1e-14)
    assert calibrated[0, 2] == calibrated[0].max()
    np.testing.assert_allclose(calibrated[1:], [[0, 0.5, 0.5], [0, 1, 0]], rtol=0, atol=0.07)


# Rows without information


@every_way
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_zeros_take_the_fallback_and_others_do_not(how, dtype):
    rows = np.array([[0, 0, 0], [0.5, 0.25, 0.25], [0, 0, 0]], dtype)
    fallback = np.array([[0.5, 0.5, 0], [1, 0, 0], [0.25, 0.25, 0.5]], dtype)
    calibrated = normalised(rows, how, fallback)
    assert calibrated.dtype == dtype
    expected = np.array([[0.5, 0.5, 0], [0.5, 0.25, 0.25], [0.25, 0.25, 0.5]])
    np.testing.assert_allclose(calibrated, expected, rtol=0, atol=1e-7)


def test_a_fallback_that_sums_to_one_only_nearly_is_repaired():
    calibrated = normalised(np.zeros((1, 2)), "divide", np.array([[0.6006, 0.4004]]))
    np.testing.assert_allclose(calibrated, [[0.6, 0.4]], rtol=1e-15)


# Properties


@st.composite
def rows_of_separate_probabilities(draw):
    """Rows of (0, 1] in float32 or float64, with zeros, ones, ties and numbers of all sizes."""
    shape = draw(st.integers(1, 6)), draw(st.integers(2, 6))
    sizes = st.integers(-300, 0).map(lambda exponent: 10.0**exponent)
    elements = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1.0, 0.5, 0.1]), sizes)
    rows = draw(hnp.arrays(np.float64, shape, elements=elements)).astype(
        draw(st.sampled_from([np.float32, np.float64]))
    )
    rows[rows.max(axis=1) == 0, 0] = 0.25
    return rows


@every_way
@settings(max_examples=100)
@given(rows=rows_of_separate_probabilities())
def test_rows_sum_to_one_keep_their_order_and_their_type(how, rows):
    before = rows.copy()
    calibrated = made_to_sum_to_one(rows, how)
    np.testing.assert_array_equal(rows, before)
    assert calibrated.dtype == rows.dtype
    assert np.isfinite(calibrated).all()
    assert (calibrated >= 0).all()
    accuracy = 4 * float(np.finfo(rows.dtype).eps)
    np.testing.assert_allclose(calibrated.sum(axis=1, dtype=np.float64), 1, rtol=0, atol=accuracy)
    for given_row, row in zip(rows, calibrated, strict=True):
        order = np.argsort(given_row, kind="stable")
        assert (np.diff(row[order].astype(np.float64)) >= -accuracy).all()
        for left, right in pairwise(order):
            if given_row[left] == given_row[right]:
                assert row[left] == row[right]


@every_way
@settings(max_examples=50)
@given(rows=rows_of_separate_probabilities())
def test_once_is_enough(how, rows):
    """Rows that sum to one already are left alone, up to rounding."""
    once = made_to_sum_to_one(rows, how)
    atol = 16 * float(np.finfo(rows.dtype).eps)
    np.testing.assert_allclose(made_to_sum_to_one(once, how), once, rtol=0, atol=atol)


@every_way
def test_a_softmax_of_many_classes_is_left_alone(how):
    rows = np.random.default_rng(0).dirichlet(np.full(1000, 0.1), 20)
    np.testing.assert_allclose(made_to_sum_to_one(rows, how), rows, rtol=1e-10, atol=1e-13)


@every_way
def test_blocks_of_rows_do_not_show(how):
    """Many rows are taken block by block; each row is what it is alone."""
    rows = np.random.default_rng(1).uniform(size=(5000, 20))
    together = made_to_sum_to_one(rows, how)
    for row in (0, 1637, 1638, 4999):
        alone = made_to_sum_to_one(rows[row : row + 1], how)
        np.testing.assert_allclose(alone[0], together[row], rtol=0, atol=1e-13)
