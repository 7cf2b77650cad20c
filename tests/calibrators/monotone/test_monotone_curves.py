"""Curves with positive slopes at knots: their integrals, that they increase everywhere, and averages of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from monotone_rows import naive_softmax, naive_value

from calibrant.calibrators.latent.gaussian_process.increasing import MonotoneCurves
from calibrant.numerics.increasing_curve import IncreasingCurve, Pieces

KNOTS = np.array([-7.0, -4.0, -3.9, -1.0, 0.5])
SLOPES = np.array([0.3, 2.0, 1e-6, 1.0, 0.2])


def test_values_are_the_integral_of_the_slopes():
    curve = IncreasingCurve(KNOTS, SLOPES, level=2.0)
    z = np.concatenate([np.linspace(-12, 4, 97), KNOTS])
    assert curve(z) == pytest.approx([2.0 + naive_value(x, KNOTS, SLOPES) for x in z], abs=1e-12)


def test_equal_slopes_are_a_straight_line_through_the_level():
    """With slope s everywhere the value at z is level + s (z - last knot)."""
    z = np.linspace(-30, 30, 41)
    assert IncreasingCurve(KNOTS, np.full(5, 0.7), 3.0)(z) == pytest.approx(3.0 + 0.7 * (z - 0.5), abs=1e-12)


def test_a_linear_slope_is_a_parabola():
    """g' = z on [0, 2] with g(2) = 0 is g = (z^2 - 4) / 2; beyond, g' = 2 and g = 2 (z - 2); below, g' = 0."""
    curve = IncreasingCurve(np.array([0.0, 2.0]), np.array([0.0, 2.0]))
    assert curve(np.array([-1.0, 0.0, 1.0, 2.0, 3.0])) == pytest.approx(
        [-2.0, -2.0, -1.5, 0.0, 2.0], abs=1e-15
    )


def test_features_times_slopes_are_values():
    pieces, z = Pieces(KNOTS), np.linspace(-9, 2, 31).reshape(1, 31)
    assert pieces.features_at(z) @ SLOPES == pytest.approx(pieces.values(SLOPES, z), abs=1e-12)


def test_many_curves_at_once_have_the_coefficients_of_each():
    pieces, slopes = Pieces(KNOTS), np.stack([SLOPES, SLOPES[::-1], np.ones(5)])
    together = pieces.coefficients(slopes)
    for row, one in enumerate(slopes):
        for many, single in zip(together, pieces.coefficients(one), strict=True):
            assert many[row] == pytest.approx(single, abs=0)


def test_float32_is_read_as_it_is():
    z = np.linspace(-9, 2, 50, dtype=np.float32)
    curve = IncreasingCurve(KNOTS, SLOPES)
    assert curve(z).dtype == np.float64
    assert curve(z) == pytest.approx(curve(z.astype(np.float64)), abs=0)


positive = st.floats(1e-3, 1e3)


@settings(max_examples=50)
@given(
    gaps=st.lists(st.floats(1e-3, 10), min_size=1, max_size=12),
    data=st.data(),
    places=st.lists(st.floats(-60, 60), min_size=2, max_size=30),
)
def test_it_increases_everywhere_at_least_as_fast_as_the_smallest_slope(gaps, data, places):
    """g(b) - g(a) >= min slope * (b - a) for all a < b, whatever lies between: the heart of the proof."""
    knots = np.append(0, np.cumsum(gaps)) - 20
    slopes = np.array(data.draw(st.lists(positive, min_size=len(knots), max_size=len(knots))))
    z = np.sort(np.array(places))
    values = IncreasingCurve(knots, slopes)(z)
    rounding = 1e-12 * (1 + np.abs(values).max())
    assert (np.diff(values) >= slopes.min() * np.diff(z) - rounding).all()
    assert (np.diff(values) <= slopes.max() * np.diff(z) + rounding).all()


def random_curves(n_curves=7, seed=3):
    generator = np.random.default_rng(seed)
    slopes = generator.exponential(size=(n_curves, 5)) + 0.05
    return MonotoneCurves(KNOTS, slopes, generator.normal(size=n_curves))


def test_the_mean_of_softmaxes_is_that_of_a_loop():
    curves = random_curves()
    scores = np.random.default_rng(0).normal(scale=3, size=(500, 4))
    looped = np.mean([naive_softmax(curve(scores)) for curve in curves], axis=0)
    assert curves.mean_softmax(scores) == pytest.approx(looped, abs=1e-14)
    assert len(curves) == 7


def test_the_mean_of_softmaxes_has_the_order_of_the_scores():
    scores = np.random.default_rng(1).normal(scale=3, size=(300, 6))
    averaged = random_curves().mean_softmax(scores)
    assert (averaged.argsort(axis=1) == scores.argsort(axis=1)).all()


def test_values_of_all_curves_in_one_array():
    curves, z = random_curves(), np.linspace(-8, 1, 12).reshape(3, 4)
    assert curves(z).shape == (7, 3, 4)
    assert curves(z)[2] == pytest.approx(IncreasingCurve(KNOTS, curves.slopes[2], curves.levels[2])(z), abs=0)
