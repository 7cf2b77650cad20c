"""Piecewise-linear functions: features, values and adjoint against loops; quantiles against a sort."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant.numerics.linear_segments import LinearSegments, weighted_quantiles

numbers = st.floats(-50, 50)


@st.composite
def segments_slopes_and_places(draw):
    """Knots some distance apart, a slope for every segment, and numbers among and beyond the knots."""
    knots = sorted(draw(st.sets(st.integers(-20, 20), max_size=5)))
    slopes = draw(st.lists(st.floats(-2, 2), min_size=len(knots) + 1, max_size=len(knots) + 1))
    x = draw(st.lists(numbers | st.sampled_from(knots or [0]), min_size=1, max_size=8))
    return LinearSegments(np.array(knots, dtype=float)), np.array(slopes), np.array(x, dtype=float)


def naive_value(knots: list[float], slopes: list[float], x: float) -> float:
    """Walk from the first knot to x, one segment at a time."""
    if not knots:
        return slopes[0] * x
    if x <= knots[0]:
        return slopes[0] * (x - knots[0])
    height = 0.0
    for slope, left, right in zip(slopes[1:], knots, [*knots[1:], np.inf], strict=True):
        if x <= right:
            return height + slope * (x - left)
        height += slope * (right - left)
    raise AssertionError


@given(case=segments_slopes_and_places())
def test_values_are_those_of_a_walk_from_knot_to_knot(case):
    segments, slopes, x = case
    expected = [naive_value(segments.knots.tolist(), slopes.tolist(), place) for place in x.tolist()]
    np.testing.assert_allclose(segments.values(slopes, x), expected, rtol=1e-12, atol=1e-12)


@given(case=segments_slopes_and_places())
def test_values_are_slopes_times_features(case):
    segments, slopes, x = case
    assert segments.features(x).shape == (segments.n_segments, len(x))
    np.testing.assert_allclose(segments.values(slopes, x), slopes @ segments.features(x), atol=1e-11)


@given(case=segments_slopes_and_places(), seed=st.integers(0, 1000))
def test_the_adjoint_is_the_features_times_gradients(case, seed):
    segments, _, x = case
    gradients = np.random.default_rng(seed).standard_normal(len(x))
    np.testing.assert_allclose(segments.adjoint(gradients, x), segments.features(x) @ gradients, atol=1e-11)


@given(case=segments_slopes_and_places())
def test_slopes_of_one_only_shift(case):
    segments, slopes, x = case
    shift = segments.knots[0] if len(segments.knots) else 0.0
    np.testing.assert_allclose(segments.values(np.ones_like(slopes), x), x - shift, atol=1e-12)


def test_matrices_keep_their_shape_and_float_type():
    segments, x = (
        LinearSegments(np.array([-1.0, 0.5])),
        np.linspace(-3, 3, 12, dtype=np.float32).reshape(4, 3),
    )
    slopes = np.array([1.0, 2.0, 0.5])
    assert segments.features(x).shape == (3, 4, 3)
    assert segments.features(x).dtype == segments.values(slopes, x).dtype == np.float32
    exact = segments.values(slopes, x.astype(float))
    np.testing.assert_allclose(segments.values(slopes, x), exact, atol=1e-6)
    gradients = np.ones((4, 3), np.float32)
    expected = segments.adjoint(gradients, x.astype(float))
    np.testing.assert_allclose(segments.adjoint(gradients, x), expected, atol=1e-5)


# Quantiles


def naive_quantiles(values, weights, shares):
    """The value at which the sorted weights first add up to each share."""
    order = np.argsort(values, axis=None)
    heap = np.cumsum(weights.ravel()[order]) / weights.sum()
    return values.ravel()[order][np.searchsorted(heap, shares)]


def quantiles(values, weights, n_parts=6):
    return weighted_quantiles(values, lambda rows: weights[rows], np.arange(1, n_parts) / n_parts)


@settings(max_examples=10)
@given(seed=st.integers(0, 10_000), scale=st.sampled_from([1e-3, 1.0, 1e3]))
def test_quantiles_are_those_of_sorted_values(seed, scale):
    """A long tail of little weight does not make the grid coarse where the weight is."""
    generator = np.random.default_rng(seed)
    values = scale * -(generator.exponential(size=(2000, 3)) ** 2)
    values[:5] *= 100
    weights = np.exp(values / scale)
    expected = naive_quantiles(values, weights, np.arange(1, 6) / 6)
    np.testing.assert_allclose(quantiles(values, weights), expected, atol=scale * 5e-3)


def test_quantiles_do_not_depend_on_the_order_of_rows_and_count_weights():
    generator = np.random.default_rng(0)
    values, weights = (
        generator.standard_normal((300, 2)),
        generator.integers(1, 4, (300, 1)) * np.ones((300, 2)),
    )
    expected = quantiles(values, weights)
    order = generator.permutation(300)
    np.testing.assert_allclose(quantiles(values[order], weights[order]), expected, rtol=1e-12)
    counts = weights[:, 0].astype(int)
    repeated = np.repeat(values, counts, axis=0)
    np.testing.assert_allclose(quantiles(repeated, np.ones_like(repeated)), expected, rtol=1e-10)


def test_a_quantile_that_falls_between_two_values_is_their_middle():
    """Half of the weight is at -1 and half at 3: rounding shall not decide on which side the median is."""
    values = np.array([[-1.0, 3.0]] * 3)
    found = weighted_quantiles(values, lambda rows: np.ones_like(values[rows]), np.array([0.5]))
    np.testing.assert_allclose(found, [1.0], atol=1e-2)


def test_equal_values_have_no_quantiles():
    values = np.full((4, 3), 0.3)
    assert len(quantiles(values, np.ones_like(values))) == 0


def test_values_without_weight_have_no_quantiles():
    values = np.arange(12.0).reshape(4, 3)
    assert len(quantiles(values, np.zeros_like(values))) == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_quantiles_of_few_different_values_increase_strictly(dtype):
    """Five sixths of the weight on one value: several quantiles are next to it, none equal to another."""
    values = np.array([[0.0, -1.0, -1.0, -1.0, -1.0, -1.0]] * 10, dtype=dtype)
    found = quantiles(values, np.ones_like(values, dtype=float))
    assert (np.diff(found) > 0).all()
    assert len(found) > 0
    assert found[0] == pytest.approx(-1.0, abs=1e-2)


def test_many_rows_are_counted_in_blocks():
    values = np.linspace(0, 1, 400_000).reshape(-1, 4)
    found = weighted_quantiles(values, lambda rows: np.ones_like(values[rows]), np.array([0.1, 0.9]))
    np.testing.assert_allclose(found, [0.1, 0.9], atol=1e-4)
