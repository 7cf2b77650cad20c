"""One positive parameter: found, or told to lie at the edge."""

from math import exp, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.solvers import Status, bracketed_newton

BOUNDS = (1e-3, 1e3)


def entropy_like(target):
    """x - target log x has its minimum at target."""
    return lambda x: (x - target * log(x), 1 - target / x, target / x**2)


@given(target=st.floats(2e-3, 5e2), start=st.floats(1e-3, 1e3))
def test_the_minimum_is_found_from_anywhere(target, start):
    found = bracketed_newton(entropy_like(target), start, BOUNDS)
    assert found.status is Status.CONVERGED
    assert found.argument == pytest.approx(target, rel=1e-8)
    assert found.n_evaluations <= 25


@given(start=st.floats(1e-3, 0.4) | st.floats(3, 1e3))
def test_a_valley_where_newton_overshoots_needs_the_bracket(start):
    """f = sqrt(1 + (4 log x)^2): Newton's step on it grows like the cube of the distance."""

    def minimum(x):
        t = 4 * log(x)
        root = (1 + t**2) ** 0.5
        first, second = 4 * t / root, 16 / root**3
        return root, first / x, (second - first) / x**2

    found = bracketed_newton(minimum, start, BOUNDS)
    assert found.status is Status.CONVERGED
    assert found.argument == pytest.approx(1, rel=1e-8)


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_function_without_a_minimum_ends_at_the_edge(sign):
    """exp(-x) falls for ever, exp(x) rises from the start; neither takes a hundred passes."""
    found = bracketed_newton(
        lambda x: (exp(sign * x / 50), sign * exp(sign * x / 50) / 50, exp(sign * x / 50) / 2500), 1.0, BOUNDS
    )
    assert found.status is Status.AT_BOUND
    assert found.argument == pytest.approx(BOUNDS[0] if sign > 0 else BOUNDS[1])
    assert found.n_evaluations < 20


def test_a_tail_that_underflows_is_followed_to_the_edge():
    found = bracketed_newton(lambda x: (exp(-9 * x), -9 * exp(-9 * x), 81 * exp(-9 * x)), 1.0, BOUNDS)
    assert found.status is Status.AT_BOUND
    assert found.n_evaluations < 30


def test_a_constant_carries_no_information():
    assert bracketed_newton(lambda _: (1.0, 0.0, 0.0), 1.0, BOUNDS).status is Status.AT_BOUND


def test_running_out_of_passes_is_said():
    found = bracketed_newton(entropy_like(3.0), 900.0, BOUNDS, max_evaluations=2)
    assert found.status is Status.OUT_OF_ITERATIONS
    assert np.isfinite(found.value)
