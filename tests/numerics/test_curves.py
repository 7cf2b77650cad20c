"""Curves through knots agree with plain interpolation, and hold where that overflows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.numerics.curves import KnottedCurve

NUMBERS = st.floats(0.0, 1.0, allow_subnormal=True)


@given(
    knots=st.lists(NUMBERS, min_size=1, max_size=8, unique=True),
    x=st.lists(NUMBERS, min_size=1, max_size=8),
    seed=st.integers(0, 100),
)
def test_values_lie_between_those_of_the_neighbouring_knots(knots, x, seed):
    knots, x = np.sort(knots), np.array(x)
    values = np.random.default_rng(seed).random(len(knots))
    curve = KnottedCurve(knots, values)
    for place, value in zip(x, curve(x), strict=True):
        below = values[np.flatnonzero(knots <= place)[-1:]]
        above = values[np.flatnonzero(knots >= place)[:1]]
        around = np.concatenate([below, above])
        assert around.min() <= value <= around.max()
    np.testing.assert_array_equal(curve(knots), values)


def test_between_usual_knots_it_is_linear_interpolation():
    generator = np.random.default_rng(0)
    knots, values = np.sort(generator.random(20)), generator.random(20)
    x = generator.random((30, 4)) * 1.2 - 0.1
    np.testing.assert_allclose(
        KnottedCurve(knots, values)(x), np.interp(x, knots, values), rtol=0, atol=1e-13
    )


@pytest.mark.parametrize("values", [[0.25, 0.75], [0.75, 0.25]])
def test_slopes_beyond_the_largest_float(values):
    """A quarter up or down within 5e-324: plain interpolation multiplies infinity by zero."""
    smallest = np.nextafter(0, 1)
    curve = KnottedCurve(np.array([0.0, smallest]), np.array(values))
    np.testing.assert_array_equal(curve(np.array([0.0, smallest, 1.0])), [*values, values[1]])


def test_steps_hold_from_their_knot_on():
    curve = KnottedCurve(np.array([0.2, 0.5]), np.array([0.1, 0.9]), steps=True)
    np.testing.assert_array_equal(curve(np.array([0.0, 0.2, 0.49, 0.5, 1.0])), [0.1, 0.1, 0.1, 0.9, 0.9])
