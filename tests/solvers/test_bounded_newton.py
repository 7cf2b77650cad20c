"""Newton's method with lower bounds against closed forms and scipy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from calibrant.solvers import Status
from calibrant.solvers.bounded_newton import ConvexExpansion, bounded_newton


def quadratic(hessian, linear):
    return lambda x: ConvexExpansion(x @ hessian @ x / 2 + linear @ x, hessian @ x + linear, hessian)


def random_quadratic(seed, size=5):
    generator = np.random.default_rng(seed)
    root = generator.standard_normal((size, size))
    return root @ root.T + 0.1 * np.eye(size), 3 * generator.standard_normal(size)


def log_sum(matrix):
    """log(1 + sum exp(A x)) + |x|^2 / 100: convex, far from quadratic."""

    def expand(x):
        powers = matrix @ x
        top = max(0.0, powers.max())
        terms = np.exp(powers - top)
        total = np.exp(-top) + terms.sum()
        p = terms / total
        mean = matrix.T @ p
        return ConvexExpansion(
            top + np.log(total) + x @ x / 100,
            mean + x / 50,
            matrix.T @ (p[:, np.newaxis] * matrix) - np.outer(mean, mean) + np.eye(len(x)) / 50,
        )

    return expand


@settings(max_examples=8)
@given(seed=st.integers(0, 10_000), start_at_bounds=st.booleans())
def test_a_quadratic_is_solved_as_by_scipy_and_fulfils_the_conditions_of_an_optimum(seed, start_at_bounds):
    """Slopes are zero where a parameter is free and not negative where it is at its bound."""
    hessian, linear = random_quadratic(seed)
    lower = np.array([0.0, 0.5, -1.0, 0.0, -np.inf])
    start = np.maximum(lower, -5.0) + (0.0 if start_at_bounds else 2.0)
    found = bounded_newton(quadratic(hessian, linear), start, lower)
    slopes = hessian @ found.theta + linear
    at_bound = found.theta == lower
    assert (found.theta >= lower).all()
    np.testing.assert_allclose(slopes[~at_bound], 0, atol=1e-7)
    assert (slopes[at_bound] >= -1e-7).all()
    expected = minimize(
        lambda x: (x @ hessian @ x / 2 + linear @ x, hessian @ x + linear),
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(bound, None) for bound in lower],
    )
    assert found.value <= expected.fun + 1e-9
    assert found.status is Status.CONVERGED


@settings(max_examples=8)
@given(seed=st.integers(0, 10_000))
def test_a_function_far_from_quadratic_is_solved_as_by_scipy(seed):
    matrix = 3 * np.random.default_rng(seed).standard_normal((6, 3))
    expand = log_sum(matrix)
    found = bounded_newton(expand, np.full(3, 5.0), 0.1)
    expected = minimize(
        lambda x: expand(x)[:2], np.full(3, 5.0), jac=True, method="L-BFGS-B", bounds=[(0.1, None)] * 3
    )
    assert found.converged
    assert found.value <= expected.fun + 1e-8
    assert found.value <= expand(np.full(3, 5.0)).value


def test_without_bounds_it_is_newtons_method():
    """A quadratic takes one step, and the last look at it a second."""
    hessian, linear = random_quadratic(0)
    found = bounded_newton(quadratic(hessian, linear), np.zeros(5), -np.inf)
    np.testing.assert_allclose(found.theta, -np.linalg.solve(hessian, linear), rtol=1e-7)
    assert found.n_iterations == 2


def test_parameters_that_do_not_matter_stay_where_they_are():
    """x^2 with a second parameter that the function does not see."""
    flat = quadratic(np.diag([2.0, 0.0]), np.array([-6.0, 0.0]))
    found = bounded_newton(flat, np.array([1.0, 7.0]), 0.0)
    np.testing.assert_allclose(found.theta, [3.0, 7.0], rtol=1e-9)


def test_a_constant_is_smallest_everywhere():
    found = bounded_newton(quadratic(np.zeros((2, 2)), np.zeros(2)), np.array([1.0, 2.0]), 0.0)
    np.testing.assert_array_equal(found.theta, [1.0, 2.0])
    assert found.status is Status.CONVERGED


def test_a_function_that_falls_for_ever_is_said_to_run_away():
    """exp(-x) has no minimum: every step is one long, and the value falls by e each time."""
    found = bounded_newton(
        lambda x: ConvexExpansion(
            float(np.exp(-x[0])), np.array([-np.exp(-x[0])]), np.array([[np.exp(-x[0])]])
        ),
        np.zeros(1),
        0.0,
    )
    assert found.status is Status.RUNNING_AWAY
    assert np.isfinite(found.theta).all()


def test_steps_at_the_most():
    found = bounded_newton(log_sum(np.array([[30.0], [-2.0]])), np.array([5.0]), 0.0, max_iterations=1)
    assert found.status is Status.OUT_OF_ITERATIONS
    assert not found.converged


def test_the_start_is_not_written_to():
    start = np.array([4.0, 4.0])
    start.flags.writeable = False
    found = bounded_newton(quadratic(np.eye(2), np.array([1.0, -1.0])), start, 0.0)
    np.testing.assert_allclose(found.theta, [0.0, 1.0], atol=1e-9)
    assert found.theta[0] == 0.0
    assert found.loss == pytest.approx(-0.5)
