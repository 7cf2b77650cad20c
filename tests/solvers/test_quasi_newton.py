"""Quasi-Newton minimisation: known minima, bounds, and status."""

import numpy as np
import pytest
from scipy.optimize import rosen, rosen_der

from calibrant import solvers
from calibrant.solvers import Status, quasi_newton


def test_the_valley_of_rosenbrock_ends_at_ones():
    found = quasi_newton(
        lambda x: (float(rosen(x)), rosen_der(x)), np.array([-1.2, 1.0, 0.5]), tolerance=1e-14
    )
    np.testing.assert_allclose(found.theta, 1.0, atol=1e-5)
    assert found.status is Status.CONVERGED
    assert found.n_evaluations >= found.n_iterations > 1


def test_bounds_hold():
    """The nearest point of the quadrant to (3, -2) is (3, 0)."""
    centre = np.array([3.0, -2.0])
    found = quasi_newton(
        lambda x: (float((x - centre) @ (x - centre)), 2 * (x - centre)),
        np.array([1.0, 1.0]),
        bounds=[(0, None), (0, None)],
    )
    np.testing.assert_allclose(found.theta, [3.0, 0.0], atol=1e-6)


def test_too_few_steps_are_reported():
    found = quasi_newton(lambda x: (float(rosen(x)), rosen_der(x)), np.array([-1.2, 1.0]), max_iterations=3)
    assert found.status is Status.OUT_OF_ITERATIONS
    assert found.n_iterations == 3


def test_a_gradient_that_points_uphill_ends_the_walk_where_it_began():
    found = quasi_newton(lambda x: (float(x @ x), -2 * x), np.array([1.0, 2.0]))
    np.testing.assert_array_equal(found.theta, [1.0, 2.0])
    assert found.value == 5.0


def test_the_former_name_of_a_local_minimum_still_works():
    with pytest.warns(DeprecationWarning, match="LocalMinimum"):
        assert solvers.Valley is solvers.LocalMinimum
    with pytest.raises(AttributeError, match="no attribute 'Hill'"):
        _ = solvers.Hill
