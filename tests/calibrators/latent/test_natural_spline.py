"""Natural cubic splines are those of the textbook, bend as they should, and are found again by least squares."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant.calibrators.latent import spline as spline_module
from calibrant.calibrators.latent.spline import NaturalSpline, mean_slope_basis, natural_basis


@st.composite
def splines(draw):
    """Splines with two to eight knots at uneven distances."""
    distances = draw(st.lists(st.integers(1, 9), min_size=1, max_size=7))
    values = draw(st.lists(st.integers(-20, 20), min_size=len(distances) + 1, max_size=len(distances) + 1))
    return NaturalSpline(np.append(0.0, np.cumsum(distances)) / 10, np.array(values, dtype=float))


def fitted(knots, basis, targets, weights=None):
    return NaturalSpline.fit(knots, basis, targets, np.ones(len(targets)) if weights is None else weights)


# Values


def by_bends(knots, values, x):
    """Return value and slope at one place by the textbook's formula, from second derivatives M at the knots.

    M solves a tridiagonal system, here a full one, and is zero at both ends.
    """
    distances, n_knots = np.diff(knots), len(knots)
    system, bends = np.eye(n_knots), np.zeros(n_knots)
    for j in range(1, n_knots - 1):
        before, after = distances[j - 1], distances[j]
        system[j, j - 1 : j + 2] = before / 6, (before + after) / 3, after / 6
        bends[j] = (values[j + 1] - values[j]) / after - (values[j] - values[j - 1]) / before
    second = np.linalg.solve(system, bends)
    j = max(k for k in range(n_knots - 1) if knots[k] <= x)
    d, u = distances[j], (x - knots[j]) / distances[j]
    bend = ((1 - u) ** 3 - (1 - u)) * second[j] + (u**3 - u) * second[j + 1]
    turn = (1 - 3 * (1 - u) ** 2) * second[j] + (3 * u**2 - 1) * second[j + 1]
    return (1 - u) * values[j] + u * values[j + 1] + d**2 / 6 * bend, (
        values[j + 1] - values[j]
    ) / d + d / 6 * turn


@settings(max_examples=25)
@given(spline=splines(), seed=st.integers(0, 1000))
def test_values_and_slopes_are_those_of_the_textbook(spline, seed):
    x = np.random.default_rng(seed).uniform(spline.knots[0], spline.knots[-1], 20)
    values, slopes = np.array([by_bends(spline.knots, spline.values, place) for place in x]).T
    np.testing.assert_allclose(spline(x), values, rtol=0, atol=1e-10)
    np.testing.assert_allclose(spline.slope(x), slopes, rtol=0, atol=1e-8)


@settings(max_examples=15)
@given(spline=splines())
def test_it_goes_through_its_knots_and_is_straight_beyond_them(spline):
    np.testing.assert_allclose(spline(spline.knots), spline.values, rtol=0, atol=1e-12)
    first, last = spline.knots[0], spline.knots[-1]
    beyond = np.array([first - 2, first - 1, last + 1, last + 2])
    slopes = spline.slope(np.array([first, first, last, last]))
    ends = spline.values[[0, 0, -1, -1]]
    np.testing.assert_allclose(
        spline(beyond), ends + slopes * (beyond - [first, first, last, last]), rtol=1e-12, atol=1e-12
    )
    np.testing.assert_allclose(spline.slope(beyond), slopes, rtol=0, atol=1e-12)


@settings(max_examples=15)
@given(spline=splines(), seed=st.integers(0, 1000))
def test_slopes_are_differences_of_values(spline, seed):
    """Central differences of step e are off by at most e^2/6 times the third derivative, constant on each piece."""
    low, high = spline.knots[0] - 0.2, spline.knots[-1] + 0.2
    x = np.random.default_rng(seed).uniform(low, high, 30)
    step = 1e-5
    differences = (spline(x + step) - spline(x - step)) / (2 * step)
    np.testing.assert_allclose(spline.slope(x), differences, rtol=0, atol=2e-4)


@settings(max_examples=15)
@given(spline=splines())
def test_the_second_derivative_is_continuous_and_zero_at_the_ends(spline):
    """It is linear between knots, so that it is known there from two slopes on each side."""
    step = 1e-4
    before = (spline.slope(spline.knots) - spline.slope(spline.knots - step)) / step
    after = (spline.slope(spline.knots + step) - spline.slope(spline.knots)) / step
    scale = 1e-6 + np.abs(np.diff(spline.values)).max() / np.diff(spline.knots).min() ** 3
    np.testing.assert_allclose(before, after, rtol=0, atol=50 * step * scale)
    np.testing.assert_allclose([before[0], after[-1]], 0.0, atol=1e-6)


# Mean slopes


@settings(max_examples=15)
@given(spline=splines(), seed=st.integers(0, 1000))
def test_a_mean_slope_is_the_rise_over_the_length(spline, seed):
    ends = np.sort(np.random.default_rng(seed).uniform(-0.2, spline.knots[-1] + 0.2, (20, 2)), axis=1)
    means = mean_slope_basis(spline.knots, ends[:, 0], ends[:, 1]) @ spline.values
    rise = spline(ends[:, 1]) - spline(ends[:, 0])
    np.testing.assert_allclose(means * (ends[:, 1] - ends[:, 0]), rise, rtol=0, atol=1e-9)


def test_short_stretches_keep_their_digits(monkeypatch):
    """Of a stretch of 1e-12 the rise has four digits left; its mean slope has all of them, across a knot too."""
    spline = NaturalSpline(np.array([0.0, 0.3, 0.5, 1.0]), np.array([0.0, 2.0, -1.0, 1.0]))
    starts = np.array([0.1, 0.3 - 5e-13, 0.7])
    means = mean_slope_basis(spline.knots, starts, starts + 1e-12) @ spline.values
    np.testing.assert_allclose(means, spline.slope(starts), rtol=0, atol=1e-8)
    np.testing.assert_allclose(
        mean_slope_basis(spline.knots, starts, starts),
        natural_basis(spline.knots, starts, order=1),
        atol=1e-12,
    )
    longer = starts + 0.999 * spline_module.SHORT
    short = mean_slope_basis(spline.knots, starts, longer)
    monkeypatch.setattr(spline_module, "SHORT", 0.0)
    np.testing.assert_allclose(short, mean_slope_basis(spline.knots, starts, longer), rtol=0, atol=1e-7)


# Least squares


@settings(max_examples=15)
@given(spline=splines(), seed=st.integers(0, 1000))
def test_a_spline_is_found_again_from_its_values(spline, seed):
    n_knots = len(spline.knots)
    generator = np.random.default_rng(seed)
    x = np.concatenate([spline.knots, generator.uniform(0, spline.knots[-1], 20)])
    found, rank = fitted(
        spline.knots, natural_basis(spline.knots, x), spline(x), generator.uniform(1, 2, len(x))
    )
    assert rank == n_knots
    np.testing.assert_allclose(found.values, spline.values, rtol=0, atol=1e-8)


@settings(max_examples=15)
@given(spline=splines())
def test_from_mean_slopes_it_is_found_up_to_a_constant(spline):
    """Of all constants the one with the least sum of squares, that is mean zero."""
    edges = np.linspace(0, spline.knots[-1], 60)
    basis = mean_slope_basis(spline.knots, edges[:-1], edges[1:])
    found, rank = fitted(spline.knots, basis, basis @ spline.values)
    assert rank == len(spline.knots) - 1
    np.testing.assert_allclose(found.values, spline.values - spline.values.mean(), rtol=0, atol=1e-7)


def test_a_weight_of_two_is_a_repeated_row():
    generator = np.random.default_rng(0)
    knots = np.linspace(0, 1, 5)
    x, y = generator.random(30), generator.random(30)
    basis = natural_basis(knots, x)
    weights = np.where(np.arange(30) % 3 == 0, 2.0, 1.0)
    weighted, _ = fitted(knots, basis, y, weights)
    counts = weights.astype(int)
    repeated, _ = fitted(knots, np.repeat(basis, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(weighted.values, repeated.values, rtol=1e-9)


def test_no_other_spline_is_closer_in_least_squares():
    """The gradient of the weighted sum of squares vanishes."""
    generator = np.random.default_rng(1)
    knots = np.linspace(0, 1, 6)
    basis, y, weights = natural_basis(knots, generator.random(40)), generator.random(40), generator.random(40)
    found, _ = fitted(knots, basis, y, weights)
    np.testing.assert_allclose(basis.T @ (weights * (basis @ found.values - y)), 0.0, atol=1e-12)


@pytest.mark.parametrize("n_rows", [1, 2, 3])
def test_fewer_rows_than_knots_are_met_exactly(n_rows):
    knots, x = np.linspace(0, 1, 6), np.array([0.1, 0.5, 0.8])[:n_rows]
    targets = np.array([1.0, -1.0, 2.0])[:n_rows]
    found, rank = fitted(knots, natural_basis(knots, x), targets)
    assert rank == n_rows
    np.testing.assert_allclose(found(x), targets, rtol=1e-9)
    assert np.abs(found.values).max() < 20
