"""Isotonic values at an added point, against a refit for every place that it could have."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from calibrant.calibrators.monotone.venn_abers import AddedPoint
from calibrant.numerics.isotonic import isotonic_fit

OUTSIDE = [-1.0, 2.0]


@st.composite
def tied_rows(draw):
    """Scores with many ties, outcomes of 0 and 1, and whole-number weights."""
    n_rows = draw(st.integers(1, 20))
    lists = [
        draw(st.lists(values, min_size=n_rows, max_size=n_rows))
        for values in (st.integers(0, 9), st.integers(0, 1), st.integers(1, 3))
    ]
    scores, outcomes, weights = (np.array(values) for values in lists)
    return scores / 10, outcomes, weights


def every_kind_of_place(scores):
    """Return all scores of the rows, the middles between neighbours, and places outside."""
    distinct = sorted(set(scores.tolist()))
    return distinct + [(low + high) / 2 for low, high in pairwise(distinct)] + OUTSIDE


def pooled_value(scores, outcomes, weights, place):
    """Return the fitted value at ``place`` by pooling adjacent violators, one at a time, in exact numbers."""
    blocks = []
    for score in sorted(set(scores)):
        rows = [i for i, s in enumerate(scores) if s == score]
        weight = sum(Fraction(weights[i]) for i in rows)
        mean = sum(Fraction(weights[i]) * Fraction(outcomes[i]) for i in rows) / weight
        blocks.append((mean, weight, [score]))
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            (mean, weight, members), (mean_2, weight_2, members_2) = blocks[-2:]
            total = weight + weight_2
            blocks[-2:] = [((mean * weight + mean_2 * weight_2) / total, total, members + members_2)]
    return float(next(mean for mean, _, members in blocks if place in members))


def naive(scores, outcomes, weights, place, outcome):
    added = ([*scores.tolist(), place], [*outcomes.tolist(), outcome], [*weights.tolist(), 1])
    return pooled_value(*added, place)


@given(rows=tied_rows(), unit=st.sampled_from([1, 0.3, 1e-3, 1e3]))
def test_it_is_a_refit_with_the_point_added(rows, unit):
    scores, outcomes, weights = rows
    weights = unit * weights
    places = every_kind_of_place(scores)
    with_zero, with_one = AddedPoint.to(scores, outcomes, weights)(np.array(places))
    for place, zero, one in zip(places, with_zero, with_one, strict=True):
        assert zero == pytest.approx(naive(scores, outcomes, weights, place, 0), rel=0, abs=1e-12)
        assert one == pytest.approx(naive(scores, outcomes, weights, place, 1), rel=0, abs=1e-12)


@pytest.mark.parametrize("decimals", [1, 2, 17])
def test_it_is_a_refit_of_many_rows_by_scikit_learn(decimals):
    """With one, two and all decimals of the scores: heavy ties, some, and none."""
    generator = np.random.default_rng(decimals)
    scores = generator.random(300).round(decimals)
    outcomes = (generator.random(300) < scores**2).astype(int)
    weights = generator.gamma(1.0, size=300)
    added = AddedPoint.to(scores, outcomes, weights)
    for place in [*scores[:40], *generator.random(40), *OUTSIDE]:
        for outcome, value in zip((0, 1), added(np.array([place])), strict=True):
            refit = IsotonicRegression().fit(
                np.append(scores, place), np.append(outcomes, outcome), np.append(weights, 1.0)
            )
            assert value[0] == pytest.approx(refit.predict([place])[0], rel=0, abs=1e-12)


def test_three_rows_by_hand():
    """Scores 1, 2, 3 with outcomes 0, 1, 0: values are 0, then 1/2 twice.

    A 0 at 2 joins the two last rows, 1/3; a 1 there gives 2/3, and below 1, with the 0 of that row, 1/2.
    """
    added = AddedPoint.to(np.array([1.0, 2.0, 3.0]), np.array([0, 1, 0]))
    with_zero, with_one = added(np.array([0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5]))
    assert with_zero == pytest.approx([0, 0, 0, 1 / 3, 1 / 3, 1 / 3, 1 / 3])
    assert with_one == pytest.approx([1 / 2, 1 / 2, 2 / 3, 2 / 3, 2 / 3, 2 / 3, 1])


def test_rows_without_events():
    """A 1 with k zeros above it is 1 / (k + 1); a 0 changes nothing."""
    added = AddedPoint.to(np.arange(4.0), np.zeros(4))
    with_zero, with_one = added(np.array([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0]))
    np.testing.assert_array_equal(with_zero, np.zeros(7))
    assert with_one == pytest.approx([1 / 5, 1 / 5, 1 / 4, 1 / 4, 1 / 3, 1 / 2, 1])


@given(rows=tied_rows())
def test_the_mirror_image(rows):
    """Scores and outcomes turned round: what was the value for a 0 is one minus that for a 1."""
    scores, outcomes, weights = rows
    places = np.array(every_kind_of_place(scores))
    with_zero, with_one = AddedPoint.to(scores, outcomes, weights)(places)
    turned_zero, turned_one = AddedPoint.to(-scores, 1 - outcomes, weights)(-places)
    np.testing.assert_allclose(turned_zero, 1 - with_one, rtol=0, atol=1e-15)
    np.testing.assert_allclose(turned_one, 1 - with_zero, rtol=0, atol=1e-15)


@given(rows=tied_rows())
def test_both_functions_rise_and_never_meet(rows):
    """The fit without the point lies between them, and each is off the certain end by the point itself."""
    scores, outcomes, weights = rows
    added = AddedPoint.to(scores, outcomes, weights.astype(float))
    places = np.sort(every_kind_of_place(scores))
    with_zero, with_one = added(places)
    assert (np.diff(with_zero) >= 0).all()
    assert (np.diff(with_one) >= 0).all()
    least = 1 / (weights.sum() + 1)
    assert (with_one - with_zero >= least - 1e-15).all()
    assert (with_one >= least).all()
    assert (with_zero <= 1 - least + 1e-15).all()
    own = isotonic_fit(scores, outcomes, weights.astype(float))(scores)
    with_zero, with_one = added(scores)
    assert (with_zero <= own + 1e-15).all()
    assert (own <= with_one + 1e-15).all()


@given(rows=tied_rows())
def test_weights_are_repeated_rows(rows):
    scores, outcomes, weights = rows
    places = np.array(every_kind_of_place(scores))
    repeated = AddedPoint.to(np.repeat(scores, weights), np.repeat(outcomes, weights))
    for value, expected in zip(
        AddedPoint.to(scores, outcomes, weights.astype(float))(places), repeated(places), strict=True
    ):
        np.testing.assert_array_equal(value, expected)


def test_tables_hold_steps_and_not_rows():
    """A million different scores: the values change at a small part of them only."""
    generator = np.random.default_rng(0)
    scores = generator.random(1_000_000)
    added = AddedPoint.to(scores, generator.random(1_000_000) < scores)
    assert len(added.zero_scores) + len(added.one_scores) < 100_000
    for scores, values in (
        (added.zero_scores, added.zero_values),
        (added.one_scores, added.one_values),
    ):
        assert len(values) == len(scores) + 1
        assert (np.diff(scores) > 0).all()
        assert (np.diff(values) > 0).all()


@pytest.mark.parametrize("scale", [1e-300, 1e-20, 1e20, 1e300])
def test_weights_of_any_size(scale):
    """Beside rows of hardly any weight the point decides alone; beside very heavy ones it changes nothing."""
    scores, outcomes = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0, 1, 0, 1])
    places = np.array([0.15, 0.25])
    added = AddedPoint.to(scores, outcomes, np.full(4, scale))
    with_zero, with_one = added(places)
    if scale < 1:
        np.testing.assert_allclose(with_zero, [0, 0], atol=1e-15)
        np.testing.assert_allclose(with_one, [1, 1], atol=1e-15)
    else:
        np.testing.assert_allclose(with_zero, [0, 0.5], atol=1e-15)
        np.testing.assert_allclose(with_one, [0.5, 0.5], atol=1e-15)


@given(rows=tied_rows(), data=st.data())
def test_light_and_heavy_rows_together(rows, data):
    """Weights from a thousandth to a million; errors are those of the sum of all of them."""
    scores, outcomes, _ = rows
    exponents = data.draw(st.lists(st.integers(-3, 6), min_size=len(scores), max_size=len(scores)))
    weights = 1.1 * 10.0 ** np.array(exponents)
    places = every_kind_of_place(scores)
    with_zero, with_one = AddedPoint.to(scores, outcomes, weights)(np.array(places))
    tolerance = 4 * np.finfo(np.float64).eps * (1 + weights.sum())
    for place, zero, one in zip(places, with_zero, with_one, strict=True):
        assert zero == pytest.approx(naive(scores, outcomes, weights, place, 0), rel=0, abs=tolerance)
        assert one == pytest.approx(naive(scores, outcomes, weights, place, 1), rel=0, abs=tolerance)


def test_inputs_are_left_alone():
    scores, outcomes, weights = np.array([0.3, 0.1]), np.array([1, 0]), np.array([1.0, 2.0])
    for array in (scores, outcomes, weights):
        array.flags.writeable = False
    added = AddedPoint.to(scores, outcomes, weights)
    assert not any(
        np.shares_memory(table, given) for table in vars(added).values() for given in (scores, weights)
    )
