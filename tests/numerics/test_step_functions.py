"""Step functions: sums against look-ups in plain loops, and steps between different values only."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from calibrant.numerics.curves import StepFunctions

NUMBERS = st.sampled_from([-np.inf, 0.0, 1.0, 2.0, 5.0])


@st.composite
def functions(draw):
    """Two functions with up to six steps at whole numbers, many of them between equal values."""
    places = np.array(sorted(draw(st.sets(st.integers(0, 9), max_size=6))), dtype=np.float64)
    row = st.lists(NUMBERS, min_size=len(places) + 1, max_size=len(places) + 1)
    return StepFunctions(places, np.array([draw(row), draw(row)]))


def naive_value(function, number, x):
    """Count the steps below x, one by one; x is no place of a step."""
    return function.values[number, sum(1 for place in function.places if place < x)]


BETWEEN = np.arange(-0.5, 10)


@given(parts=st.lists(functions(), min_size=1, max_size=5))
def test_the_total_is_the_sum_of_look_ups(parts):
    total = StepFunctions.total(parts)
    assert (np.diff(total.places) > 0).all()
    for x in BETWEEN:
        for number in range(2):
            assert naive_value(total, number, x) == sum(naive_value(part, number, x) for part in parts)


@given(function=functions())
def test_distinct_steps_change_something_and_nothing_else_changes(function):
    distinct = function.distinct()
    assert (distinct.values[:, 1:] != distinct.values[:, :-1]).any(axis=0).all()
    for x in BETWEEN:
        for number in range(2):
            assert naive_value(distinct, number, x) == naive_value(function, number, x)


def test_the_total_leaves_its_parts_as_they_are():
    part = StepFunctions(np.array([1.0]), np.array([[1.0, 2.0]]))
    total = StepFunctions.total([part, part])
    np.testing.assert_array_equal(total.values, [[2.0, 4.0]])
    np.testing.assert_array_equal(part.values, [[1.0, 2.0]])


def test_a_function_without_steps():
    constant = StepFunctions(np.array([]), np.array([[3.0]]))
    assert StepFunctions.total([constant, constant]).values.tolist() == [[6.0]]
    assert constant.distinct().values.tolist() == [[3.0]]
