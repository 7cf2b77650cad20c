"""Nearly-isotonic paths against exact arithmetic, a generic convex solver, another program and closed forms."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear

from calibrant.calibrators.monotone.near_isotonic import near_isotonic_path
from calibrant.numerics.isotonic import isotonic_fit


@st.composite
def weighted_levels(draw, max_levels=14):
    """Whole-number weights of levels and how many of the rows of each had the event."""
    weight = np.array(draw(st.lists(st.integers(1, 4), min_size=1, max_size=max_levels)))
    shares = draw(st.lists(st.floats(0, 1), min_size=len(weight), max_size=len(weight)))
    pure = draw(st.booleans())
    outcome_sum = np.round(shares) * weight if pure else np.round(shares * weight)
    return weight.astype(float), outcome_sum


def level_values(groups, n_levels):
    """Return the value of every level."""
    return np.repeat(groups.value, np.diff(np.append(groups.first, n_levels)))


def exact_path(weight, outcome_sum):
    """Return [(penalty, [[levels, value], ...]), ...] by the steps of the paper, in fractions, O(m^2).

    All neighbours that are equal merge; then slopes, collisions and the next penalty are computed anew.
    """
    weight = [Fraction(int(w)) for w in weight]
    groups = [[[i], Fraction(int(s)) / w] for i, (w, s) in enumerate(zip(weight, outcome_sum, strict=True))]
    penalty, path = Fraction(0), []
    while True:
        together = [groups[0]]
        for levels, value in groups[1:]:
            if value == together[-1][1]:
                together[-1] = [together[-1][0] + levels, value]
            else:
                together.append([levels, value])
        groups = together
        path.append((penalty, groups))
        falls = [a[1] > b[1] for a, b in pairwise(groups)]
        falls = [False, *falls, False]
        slopes = [
            Fraction(falls[g] - falls[g + 1]) / sum(weight[i] for i in levels)
            for g, (levels, _) in enumerate(groups)
        ]
        meetings = []
        for g in range(len(groups) - 1):
            if slopes[g] != slopes[g + 1]:
                meeting = (groups[g + 1][1] - groups[g][1]) / (slopes[g] - slopes[g + 1])
                if meeting > 0:
                    meetings.append(meeting)
        if not meetings:
            return path
        step = min(meetings)
        penalty += step
        groups = [
            [levels, value + slope * step] for (levels, value), slope in zip(groups, slopes, strict=True)
        ]


def convex_solution(weight, outcome_sum, penalty):
    """Solve by the dual: z = o - D'u / w, with 0 <= u <= penalty minimising |D'u / sqrt(w) - sqrt(w) o|^2.

    D takes differences of neighbours, z_i - z_{i+1}; u is how hard each of them pulls.
    """
    mean = outcome_sum / weight
    differences = np.eye(len(weight))[:-1] - np.eye(len(weight))[1:]
    root = np.sqrt(weight)
    dual = lsq_linear(differences.T / root[:, np.newaxis], root * mean, (0, penalty), "bvls", tol=1e-14)
    return mean - differences.T @ dual.x / weight


@given(rows=weighted_levels())
def test_it_is_the_path_in_exact_arithmetic(rows):
    weight, outcome_sum = rows
    path = near_isotonic_path(weight, outcome_sum)
    expected = exact_path(weight, outcome_sum)
    assert path.penalty == pytest.approx([float(penalty) for penalty, _ in expected], abs=1e-12)
    assert path.n_groups.tolist() == [len(groups) for _, groups in expected]
    for knot, (_, groups) in enumerate(expected):
        found = path.groups(knot)
        assert found.first.tolist() == [levels[0] for levels, _ in groups]
        assert found.value == pytest.approx([float(value) for _, value in groups], abs=1e-12)
        assert found.weight.tolist() == [weight[levels].sum() for levels, _ in groups]
        assert found.outcome_sum.tolist() == [outcome_sum[levels].sum() for levels, _ in groups]


@given(rows=weighted_levels(), unit=st.sampled_from([0.1, 0.3, 1e-6]))
def test_the_rounding_of_weights_makes_no_knots(rows, unit):
    """Weights in another unit scale the penalties and leave everything else alone."""
    weight, outcome_sum = rows
    whole = near_isotonic_path(weight, outcome_sum)
    scaled = near_isotonic_path(unit * weight, unit * outcome_sum)
    assert scaled.penalty == pytest.approx(unit * whole.penalty, rel=1e-9, abs=1e-12 * unit)
    assert scaled.n_groups.tolist() == whole.n_groups.tolist()


@settings(max_examples=30)
@given(rows=weighted_levels(max_levels=10), penalty=st.floats(0.0, 4.0))
def test_it_solves_the_convex_problem_at_any_penalty(rows, penalty):
    weight, outcome_sum = rows
    found = level_values(near_isotonic_path(weight, outcome_sum).at(penalty), len(weight))
    if len(weight) > 1 and penalty > 0:
        assert found == pytest.approx(convex_solution(weight, outcome_sum, penalty), abs=1e-7)
    else:
        assert found == pytest.approx(outcome_sum / weight)


@pytest.mark.parametrize("seed", range(5))
def test_it_solves_the_convex_problem_for_any_real_outcomes(seed):
    generator = np.random.default_rng(seed)
    weight, outcomes = generator.random(12) + 0.1, generator.normal(size=12)
    path = near_isotonic_path(weight, weight * outcomes)
    for penalty in generator.random(4):
        found = level_values(path.at(penalty), 12)
        assert found == pytest.approx(convex_solution(weight, weight * outcomes, penalty), abs=1e-7)


@given(rows=weighted_levels(max_levels=25))
def test_beyond_the_last_knot_it_is_isotonic_regression(rows):
    weight, outcome_sum = rows
    n_levels = len(weight)
    scores = np.repeat(np.arange(n_levels, dtype=float), 2)
    outcomes = np.tile([1, 0], n_levels)
    fit = isotonic_fit(scores, outcomes, np.column_stack([outcome_sum, weight - outcome_sum]).ravel())
    path = near_isotonic_path(weight, outcome_sum)
    for groups in (path.groups(len(path.penalty) - 1), path.at(path.penalty[-1] + 1), path.at(np.inf)):
        assert groups.value == pytest.approx(fit.value, abs=1e-14)
        assert groups.first.tolist() == fit.low.tolist()


@given(rows=weighted_levels(max_levels=25))
def test_groups_only_merge_and_penalties_increase(rows):
    path = near_isotonic_path(*rows)
    assert path.penalty[0] == 0
    assert (np.diff(path.penalty) > 0).all()
    assert (np.diff(path.n_groups) < 0).all()
    firsts = [set(path.groups(knot).first.tolist()) for knot in range(len(path.penalty))]
    assert all(later < earlier for earlier, later in pairwise(firsts))


@given(rows=weighted_levels(max_levels=25))
def test_the_mean_of_all_outcomes_is_kept_along_the_path(rows):
    """Every pull on one group is a pull in the other direction on its neighbour."""
    weight, outcome_sum = rows
    path = near_isotonic_path(weight, outcome_sum)
    for knot in range(len(path.penalty)):
        groups = path.groups(knot)
        assert groups.weight @ groups.value == pytest.approx(outcome_sum.sum())
        assert groups.value.min() >= (outcome_sum / weight).min() - 1e-12
        assert groups.value.max() <= (outcome_sum / weight).max() + 1e-12


@given(rows=weighted_levels(max_levels=25))
def test_sums_over_groups_are_those_of_every_knot(rows):
    path = near_isotonic_path(*rows)
    expected = [(path.groups(knot).weight ** 2).sum() for knot in range(len(path.penalty))]
    assert path.total(path.weight**2) == pytest.approx(expected)


@given(rows=weighted_levels())
def test_a_weight_is_a_number_of_levels(rows):
    """Neighbours of equal value are one group from the beginning, so levels may be split into rows."""
    weight, outcome_sum = rows
    counts = weight.astype(int)
    whole = near_isotonic_path(weight, outcome_sum)
    split = near_isotonic_path(np.ones(counts.sum()), np.repeat(outcome_sum / weight, counts))
    assert split.penalty == pytest.approx(whole.penalty, abs=1e-12)
    for knot in range(len(whole.penalty)):
        assert split.groups(knot).value == pytest.approx(whole.groups(knot).value, abs=1e-12)


@given(rows=weighted_levels(max_levels=25))
def test_the_mirror_image_has_the_mirrored_path(rows):
    weight, outcome_sum = rows
    path = near_isotonic_path(weight, outcome_sum)
    mirrored = near_isotonic_path(weight[::-1], (weight - outcome_sum)[::-1])
    assert mirrored.penalty == pytest.approx(path.penalty, abs=1e-12)
    for knot in range(len(path.penalty)):
        assert 1 - mirrored.groups(knot).value[::-1] == pytest.approx(path.groups(knot).value, abs=1e-12)


def test_meetings_that_differ_by_rounding_are_one_knot():
    """Means 2/3, 1, 1/3 and 0 in weights 3, 2, 3 and 2.

    At 2/3 the second meets the first and the third the fourth: 1 - (2/3)/2 = 2/3 and 1/3 = 0 + (2/3)/2. Then two
    groups of five, of means 4/5 and 1/5, approach by 2/5 per unit and meet at 3/2. Times 0.3, the two meetings
    at once are computed as 0.19999999999999996 and 0.2.
    """
    weight, outcome_sum = np.array([3.0, 2.0, 3.0, 2.0]), np.array([2.0, 2.0, 1.0, 0.0])
    path = near_isotonic_path(0.3 * weight, 0.3 * outcome_sum)
    assert path.penalty == pytest.approx([0, 0.2, 0.45])
    assert path.n_groups.tolist() == [4, 2, 1]


def test_one_fall_between_two_levels():
    """1 and 0 with weights 1 and 3 approach by 1 and 1/3 per unit: they meet at 3/4, in the mean 1/4."""
    path = near_isotonic_path(np.array([1.0, 3.0]), np.array([1.0, 0.0]))
    assert path.penalty.tolist() == [0, 0.75]
    assert path.at(0.3).value == pytest.approx([0.7, 0.1])
    assert path.groups(1).value.tolist() == [0.25]


def test_many_groups_that_meet_at_once_are_one_knot():
    """Of 1 0 1 0 1 0, each 1 has a fall after it only and each 0 one before: all meet in 1/2, after 1/2."""
    path = near_isotonic_path(np.ones(6), np.array([1.0, 0, 1, 0, 1, 0]))
    assert path.penalty.tolist() == [0, 0.5]
    assert path.n_groups.tolist() == [6, 1]
    assert path.groups(1).value.tolist() == [0.5]


def test_levels_in_order_are_their_own_path():
    path = near_isotonic_path(np.ones(4), np.array([0.0, 0.25, 0.25, 1.0]))
    assert path.penalty.tolist() == [0]
    assert path.groups(0).value.tolist() == [0, 0.25, 1]
    assert path.groups(0).first.tolist() == [0, 1, 3]


def test_one_level():
    path = near_isotonic_path(np.array([4.0]), np.array([1.0]))
    assert (path.penalty.tolist(), path.n_groups.tolist(), path.at(7.0).value.tolist()) == ([0], [1], [0.25])


def test_it_is_the_path_of_netcal():
    """Runs of equal outcomes, 0 first; figures printed by NearIsotonicRegression of netcal 1.4.0.

    The runs are such that no three groups meet at once, where that program loses rows.
    """
    runs = [9, 1, 4, 2, 7, 3, 5, 11, 2, 13, 1, 8]
    path = near_isotonic_path(np.ones(66), np.repeat(np.arange(12) % 2, runs).astype(float))
    assert path.n_groups.tolist() == [12, 11, 10, 9, 8, 7]
    assert path.penalty == pytest.approx(
        [0, 0.8, 0.9285714285714286, 1.5555555555555558, 1.6923076923076923, 1.875], rel=1e-14
    )
    third = path.groups(2)
    assert third.weight.tolist() == [9, 5, 2, 7, 3, 5, 11, 2, 14, 8]
    assert third.value[1:6] == pytest.approx(
        [
            0.19999999999999996,
            0.5357142857142857,
            0.13265306122448978,
            0.6904761904761906,
            0.18571428571428575,
        ]
    )
    last = [0, 0.19999999999999996, 0.2222222222222221, 0.3750000000000001, 0.8461538461538461]
    assert path.groups(5).value == pytest.approx([*last, 0.9285714285714286, 1], rel=1e-14)


def test_fifty_thousand_levels():
    """A quadratic program would take minutes; the end is isotonic regression, computed otherwise."""
    generator = np.random.default_rng(0)
    scores = np.sort(generator.random(50_000))
    outcomes = (generator.random(50_000) < scores).astype(float)
    path = near_isotonic_path(np.ones(50_000), outcomes)
    fit = isotonic_fit(scores, outcomes)
    assert path.groups(len(path.penalty) - 1).value == pytest.approx(fit.value, abs=1e-14)
    assert len(path.first) < 100_000


def test_inputs_are_left_alone():
    weight, outcome_sum = np.ones(4), np.array([1.0, 0.0, 1.0, 0.0])
    weight.flags.writeable = outcome_sum.flags.writeable = False
    near_isotonic_path(weight, outcome_sum)
    assert (weight.sum(), outcome_sum.tolist()) == (4, [1, 0, 1, 0])
