"""Newton-CG with lower bounds: convex functions whose constrained minima are known."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant.objective import ConvexExpansion
from calibrant.solvers import Status, bounded_newton, newton_steps


@dataclass
class Diagonal:
    """A preconditioner that divides by a diagonal."""

    diagonal: np.ndarray

    def solver(self, penalty):  # noqa: ARG002 (there is none)
        return lambda residual: residual / np.maximum(self.diagonal, 1e-12)


@dataclass
class Place:
    """A function at one place, with a matrix for its Hessian and, as a preconditioner, its diagonal."""

    theta: np.ndarray
    value: float
    gradient: np.ndarray
    hessian: np.ndarray
    discarded: list

    @property
    def data_loss(self):
        return self.value

    def hessian_product(self, direction):
        return self.hessian @ direction

    def curvature(self):
        return Diagonal(np.diag(self.hessian))

    def discard(self):
        self.discarded.append(self.value)


class Function:
    """Value, gradient and Hessian from a function, counted."""

    penalty = None

    def __init__(self, expand):
        self.full = expand
        self.discarded = []

    def expand(self, theta):
        return Place(theta, *self.full(theta), self.discarded)


def quadratic(matrix, vector):
    return lambda x: ConvexExpansion(float(x @ matrix @ x / 2 - vector @ x), matrix @ x - vector, matrix)


def log_sum_exp(matrix, penalty):
    """The log of a sum of exponentials of linear functions, plus a multiple of the square."""

    def expand(x):
        scores = matrix @ x
        top = scores.max()
        weights = np.exp(scores - top)
        total = weights.sum()
        p = weights / total
        mean = p @ matrix
        hessian = (matrix * p[:, np.newaxis]).T @ matrix - np.outer(mean, mean) + 2 * penalty * np.eye(len(x))
        return ConvexExpansion(float(np.log(total) + top + penalty * x @ x), mean + 2 * penalty * x, hessian)

    return expand


def minimise(expand, start, lower, **options):
    function = Function(expand)
    return newton_steps(function, function.expand(start), lower, confirm_runaway=True, **options)[0]


def test_the_nearest_point_of_a_quarter_plane():
    found = minimise(quadratic(np.eye(2), np.array([2.0, -1.0])), np.ones(2), np.zeros(2))
    np.testing.assert_allclose(found.theta, [2.0, 0.0], atol=1e-12)
    assert found.theta[1] == 0
    assert found.status is Status.CONVERGED


def test_without_bounds_it_is_newtons_method():
    matrix = np.array([[3.0, 1.0], [1.0, 2.0]])
    found = minimise(quadratic(matrix, np.array([1.0, -2.0])), np.zeros(2), np.full(2, -np.inf))
    np.testing.assert_allclose(found.theta, np.linalg.solve(matrix, [1.0, -2.0]), atol=1e-9)


def test_a_start_at_the_wrong_bound_is_left():
    found = minimise(quadratic(np.eye(2), np.array([2.0, 3.0])), np.zeros(2), np.zeros(2))
    np.testing.assert_allclose(found.theta, [2.0, 3.0], atol=1e-9)


def test_a_bound_that_moves_the_others():
    """x >= 1 with (x + y)^2 / 2 + y^2 / 2 - y: y = (1 - x) / 2 = 0 at x = 1, and not 1/2 as without bounds."""
    matrix = np.array([[1.0, 1.0], [1.0, 2.0]])
    found = minimise(quadratic(matrix, np.array([0.0, 1.0])), np.array([3.0, 3.0]), np.array([1.0, -np.inf]))
    np.testing.assert_allclose(found.theta, [1.0, 0.0], atol=1e-8)


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), size=st.integers(2, 12))
def test_the_minimum_is_that_of_an_exact_active_set(seed, size):
    """Another solver, which forms the Hessian and minimises each expansion over the bounds exactly."""
    generator = np.random.default_rng(seed)
    expand = log_sum_exp(2 * generator.normal(size=(30, size)), 0.01)
    lower = np.where(generator.uniform(size=size) < 0.7, generator.uniform(-0.5, 0.5, size), -np.inf)
    start = np.maximum(generator.normal(size=size), lower)
    found = minimise(expand, start, lower)
    expected = bounded_newton(expand, start, lower)
    assert found.converged
    assert (found.theta >= lower).all()
    assert found.value == pytest.approx(expected.value, abs=1e-9)
    np.testing.assert_allclose(found.theta, expected.theta, rtol=0, atol=2e-4)


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000))
def test_the_slopes_at_the_end_are_those_of_a_minimum(seed):
    """Zero where parameters are free, not negative where they are at their bound."""
    generator = np.random.default_rng(seed)
    expand = log_sum_exp(generator.normal(size=(20, 5)), 0.05)
    lower = generator.uniform(-0.3, 0.3, 5)
    found = minimise(expand, lower + 1, lower, tolerance=1e-10)
    gradient = expand(found.theta).gradient
    free = found.theta > lower
    np.testing.assert_allclose(gradient[free], 0, atol=1e-5)
    assert (gradient[~free] >= -1e-9).all()


def test_what_is_not_needed_any_more_is_discarded():
    """All places but the first one, which belongs to the caller, and the last one, each once."""
    function = Function(log_sum_exp(np.random.default_rng(0).normal(size=(20, 4)), 0.01))
    values = []
    expand = function.expand

    def counted(theta):
        values.append(expand(theta).value)
        return expand(theta)

    function.expand = counted
    start = function.expand(np.ones(4))
    _, last, _ = newton_steps(function, start, np.zeros(4), confirm_runaway=True)
    assert sorted([*function.discarded, start.value, last.value]) == sorted(values)


def test_a_start_next_to_the_minimum_stays_with_the_caller():
    """The last step is the first one, and leaves the start as it was given."""
    function = Function(quadratic(np.eye(2), np.ones(2)))
    start = function.expand(np.full(2, 1 + 1e-6))
    found, last, _ = newton_steps(function, start, confirm_runaway=True)
    assert found.n_iterations <= 2
    assert last.value < start.value
    assert start.value not in function.discarded


def test_out_of_iterations():
    expand = log_sum_exp(np.random.default_rng(0).normal(size=(20, 4)), 1e-3)
    found = minimise(expand, np.full(4, 5.0), np.zeros(4), max_iterations=1)
    assert found.status is Status.OUT_OF_ITERATIONS
    assert found.value < expand(np.full(4, 5.0)).value


def logistic(penalty):
    """log(1 + exp(-x)) with a price for x."""

    def expand(x):
        p = 1 / (1 + np.exp(x[0]))
        value = np.logaddexp(0, -x[0]) + penalty * x[0] ** 2 / 2
        return ConvexExpansion(
            float(value), np.array([penalty * x[0] - p]), np.array([[p * (1 - p) + penalty]])
        )

    return expand


def test_a_function_without_an_end_is_told():
    """log(1 + exp(-x)) falls for ever: steps stay as long as they are while there is next to nothing to gain."""
    assert minimise(logistic(0.0), np.zeros(1), np.zeros(1)).status is Status.RUNNING_AWAY


def test_a_start_far_out_on_a_function_without_an_end_is_told():
    """The first step promises next to nothing already, and so does the one after it."""
    assert minimise(logistic(0.0), np.full(1, 18.5), np.zeros(1)).status is Status.RUNNING_AWAY


@pytest.mark.parametrize("exponent", [-9, -8.5, -8, -7.5])
def test_a_minimum_far_out_is_not_taken_for_one_at_infinity(exponent):
    """All steps but the last are those of a function without an end."""
    expand = logistic(10.0**exponent)
    found = minimise(expand, np.zeros(1), np.zeros(1))
    assert found.status is Status.CONVERGED
    best = bounded_newton(expand, np.zeros(1), 0.0, tolerance=1e-16)
    assert found.value == pytest.approx(best.value, abs=2e-11)


def test_products_that_lead_uphill_do_not_end_the_search():
    """Of three products the second one turns conjugate gradients uphill, and the third lets them go far: as if rounded.

    Such a step promises nothing, which is not the same as to have arrived.
    """

    class Rounded(Place):
        n_products = 0

        def hessian_product(self, direction):
            self.n_products += 1
            product = super().hessian_product(direction)
            return {2: product - self.gradient, 3: 0.01 * product}.get(self.n_products, product)

        def curvature(self):
            return Diagonal(np.ones(len(self.theta)))

    function = Function(quadratic(np.diag([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 3.0])))
    function.expand = lambda theta: Rounded(theta, *function.full(theta), [])
    found, _, _ = newton_steps(function, function.expand(np.zeros(3)), confirm_runaway=True)
    np.testing.assert_allclose(found.theta, [1.0, 1.0, 0.75], atol=1e-3)
