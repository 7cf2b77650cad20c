"""Isotonic regression against the max-min formula, scikit-learn, and its own first principles."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from calibrant.numerics.isotonic import isotonic_fit, levels


@st.composite
def weighted_outcomes(draw):
    """Scores with many ties, outcomes of 0 and 1, and whole-number weights."""
    n_rows = draw(st.integers(1, 25))
    scores = draw(st.lists(st.integers(0, 10), min_size=n_rows, max_size=n_rows))
    outcomes = draw(st.lists(st.integers(0, 1), min_size=n_rows, max_size=n_rows))
    weights = draw(st.lists(st.integers(1, 4), min_size=n_rows, max_size=n_rows))
    return np.array(scores) / 10, np.array(outcomes), np.array(weights)


def max_min(scores, outcomes, weights):
    """Return g(v) = max over a <= v of min over b >= v of the mean outcome in [a, b], exactly."""
    distinct = sorted(set(scores.tolist()))

    def mean(low, high):
        rows = [i for i, s in enumerate(scores) if low <= s <= high]
        return Fraction(sum(int(weights[i] * outcomes[i]) for i in rows), sum(int(weights[i]) for i in rows))

    return {v: max(min(mean(a, b) for b in distinct if b >= v) for a in distinct if a <= v) for v in distinct}


@given(rows=weighted_outcomes())
def test_it_is_the_max_min_formula(rows):
    scores, outcomes, weights = rows
    fit = isotonic_fit(scores, outcomes, weights.astype(float))
    expected = max_min(scores, outcomes, weights)
    assert fit(scores) == pytest.approx([float(expected[s]) for s in scores.tolist()], rel=1e-12, abs=1e-15)
    assert len(fit.value) == len(set(expected.values()))


@given(rows=weighted_outcomes(), unit=st.sampled_from([0.1, 0.3, 1.0, 1e-7]))
def test_values_of_blocks_increase_strictly_whatever_the_rounding_of_weights(rows, unit):
    scores, outcomes, weights = rows
    fit = isotonic_fit(scores, outcomes, unit * weights)
    assert (np.diff(fit.value) > 0).all()
    assert (fit.low[1:] > fit.high[:-1]).all()
    assert (fit.low <= fit.high).all()
    assert 0 <= fit.value[0] <= fit.value[-1] <= 1
    assert fit.weight.sum() == pytest.approx(unit * weights.sum())


def test_equal_means_that_round_differently_are_one_block():
    """The lowest score has a third of 0.3, the others of 1.2; as floats the two thirds differ."""
    scores = np.array([4, 0, 5, 14, 9, 0, 13, 1]) / 15
    outcomes = np.array([0, 1, 1, 0, 0, 0, 0, 1])
    weights = np.array([0.2, 0.1, 0.2, 0.1, 0.3, 0.2, 0.2, 0.2])
    fit = isotonic_fit(scores, outcomes, weights)
    assert fit.value == pytest.approx([1 / 3])
    assert (fit.low[0], fit.high[0]) == (0, 14 / 15)


@given(rows=weighted_outcomes())
def test_a_weight_is_a_number_of_rows(rows):
    scores, outcomes, weights = rows
    weighted = isotonic_fit(scores, outcomes, weights.astype(float))
    repeated = isotonic_fit(np.repeat(scores, weights), np.repeat(outcomes, weights))
    for name in ("low", "high", "value", "weight"):
        np.testing.assert_array_equal(getattr(weighted, name), getattr(repeated, name))


@given(rows=weighted_outcomes())
def test_the_mirror_image_has_the_mirrored_fit(rows):
    scores, outcomes, weights = rows
    fit = isotonic_fit(scores, outcomes, weights.astype(float))
    mirrored = isotonic_fit(-scores, 1 - outcomes, weights.astype(float))
    assert 1 - mirrored.value[::-1] == pytest.approx(fit.value, abs=1e-15)
    np.testing.assert_array_equal(-mirrored.low[::-1], fit.high)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_it_agrees_with_scikit_learn_on_old_and_new_scores(dtype, weighted):
    generator = np.random.default_rng(0)
    scores = generator.random(500).round(2).astype(dtype)
    outcomes = generator.random(500) < scores**2
    weights = generator.random(500) + 0.1 if weighted else None
    peer = IsotonicRegression(out_of_bounds="clip").fit(scores, outcomes.astype(float), weights)
    fit = isotonic_fit(scores, outcomes, weights)
    new = np.linspace(-0.1, 1.1, 241)
    assert fit(scores) == pytest.approx(peer.predict(scores), abs=1e-6)
    assert fit(new) == pytest.approx(
        peer.predict(new.astype(dtype)), abs=1e-4 if dtype == np.float32 else 1e-9
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_of_the_fit_get_the_value_of_their_block_to_the_last_bit(dtype):
    generator = np.random.default_rng(1)
    scores = generator.random(2000).astype(dtype)
    fit = isotonic_fit(scores, generator.random(2000) < scores)
    block = np.searchsorted(fit.low, scores, side="right") - 1
    np.testing.assert_array_equal(fit(scores), fit.value[block])


def test_neighbouring_floats_can_have_different_values():
    """A slope that overflows must not spoil the ends."""
    scores = np.array([0.0, 5e-324, 1.0])
    assert isotonic_fit(scores, np.array([0, 1, 1]))(scores).tolist() == [0, 1, 1]


def test_outcomes_in_order_are_their_own_fit_and_the_reverse_is_one_block():
    scores = np.arange(5) / 4
    outcomes = np.array([0.0, 0.1, 0.5, 0.7, 1.0])
    assert isotonic_fit(scores, outcomes)(scores).tolist() == outcomes.tolist()
    falling = isotonic_fit(scores, outcomes[::-1])
    assert falling.value == pytest.approx([0.46])
    assert (falling.low.tolist(), falling.high.tolist(), falling.weight.tolist()) == ([0], [1], [5])


def test_one_row_and_one_score():
    for scores, outcomes, value in (([0.3], [1], 1.0), ([0.3] * 4, [1, 0, 0, 0], 0.25)):
        fit = isotonic_fit(np.array(scores), np.array(outcomes))
        assert fit.value.tolist() == [value]
        assert fit(np.array([0.0, 0.3, 1.0])).tolist() == [value] * 3


def test_levels_add_up_to_all_rows_and_leave_them_alone():
    scores, outcomes = np.array([0.5, 0.0, -0.0, 0.5]), np.array([True, False, True, True])
    grouped = levels(scores, outcomes, np.array([1.0, 2.0, 3.0, 4.0]))
    assert grouped.score.tolist() == [0, 0.5]
    assert grouped.weight.tolist() == [5, 5]
    assert grouped.outcome_sum.tolist() == [3, 5]
    assert grouped.mean_outcome.tolist() == [0.6, 1]
    assert scores.tolist() == [0.5, 0, 0, 0.5]
