"""Integrals from a table against quadrature, and the adjoint against the table itself."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from calibrant.calibrators.monotone.order_preserving.increasing_network import IntegralTable


@st.composite
def tables_rates_and_places(draw):
    nodes = np.array(sorted(draw(st.sets(st.integers(-10, 10), min_size=2, max_size=6))), dtype=float)
    rates = np.array(draw(st.lists(st.floats(0, 3), min_size=len(nodes), max_size=len(nodes))))
    x = np.array(draw(st.lists(st.floats(-15, 15), min_size=1, max_size=5)))
    return IntegralTable(nodes), rates, x


@given(case=tables_rates_and_places())
def test_integrals_are_those_of_a_function_linear_between_nodes(case):
    """numpy's interpolation is linear between nodes and constant outside, too."""
    table, rates, x = case
    inside = [
        [node for node in table.nodes if min(table.nodes[0], end) < node < max(table.nodes[0], end)]
        for end in x
    ]
    expected = [
        quad(lambda t: np.interp(t, table.nodes, rates), table.nodes[0], end, points=bends or None)[0]
        for end, bends in zip(x, inside, strict=True)
    ]
    np.testing.assert_allclose(table.integrals(rates, table.places(x)), expected, atol=1e-6)


@given(case=tables_rates_and_places(), seed=st.integers(0, 1000))
def test_the_adjoint_is_the_transpose(case, seed):
    """Both are linear, so products with unit vectors give the matrix of either."""
    table, rates, x = case
    places = table.places(x)
    gradients = np.random.default_rng(seed).standard_normal(len(x))
    columns = [table.integrals(unit, places) @ gradients for unit in np.eye(len(rates))]
    np.testing.assert_allclose(table.adjoint(gradients, places), columns, atol=1e-11)


def test_rows_can_be_taken_from_places():
    table = IntegralTable(np.array([0.0, 1.0, 4.0]))
    x = np.linspace(-2, 6, 12).reshape(6, 2)
    all_rows = table.integrals(np.array([1.0, 2.0, 0.5]), table.places(x))
    some = table.integrals(np.array([1.0, 2.0, 0.5]), table.places(x).take(slice(2, 4)))
    np.testing.assert_array_equal(some, all_rows[2:4])


def test_a_positive_function_has_an_increasing_integral():
    table = IntegralTable(np.array([-2.0, -1.9, 0.0, 5.0]))
    x = np.linspace(-5, 8, 1001)
    assert (np.diff(table.integrals(np.array([0.1, 3.0, 1e-8, 2.0]), table.places(x))) > 0).all()


@pytest.mark.parametrize("end", [-4.0, 9.0])
def test_the_integral_continues_by_straight_lines(end):
    """The rate at the nearest node holds outside."""
    table, rates = IntegralTable(np.array([0.0, 3.0])), np.array([0.5, 2.0])
    one, two = table.integrals(rates, table.places(np.array([end, 2 * end])))
    assert (two - one) / end == pytest.approx(0.5 if end < 0 else 2.0)
