"""Paths of cumulative sums against loops, and the law of their extremes against many digits."""

from math import pi, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.integrate import quad
from scipy.special import ndtr

from calibrant.numerics.cumulative import MAXIMUM, RANGE, ScoreGroups

STATISTICS = [MAXIMUM, RANGE]
both = pytest.mark.parametrize("statistic", STATISTICS, ids=["maximum", "range"])

# x, P(sup |B| > x), P(range of B > x): the alternating series of normal tails, summed with 60 digits in mpmath.
TAILS = [
    (0.2, 0.99999999999994869, 1.0),
    (0.4, 0.99942953797944147, 0.99999999999795252),
    (0.7, 0.89732552681932565, 0.99927531913797566),
    (0.99, 0.63839372732358882, 0.94161979470287529),
    (1.0, 0.62922257020047609, 0.93663541207954943),
    (1.5, 0.26721521438306098, 0.51294075423024825),
    (2.0, 0.091000523846366249, 0.18149433939418731),
    (2.2, 0.055613789971762886, 0.11114097989885494),
    (3.0, 0.0053995921265203777, 0.010799168467638438),
    (8.0, 2.4883842297087136e-15, 4.9767684594174273e-15),
    (20.0, 1.1014496474424935e-88, 2.202899294884987e-88),
    (36.0, 1.6730496263189133e-283, 3.3460992526378267e-283),
]

WHOLE = st.integers(0, 4).map(float)


@given(
    scores=hnp.arrays(np.float64, 9, elements=WHOLE),
    residuals=hnp.arrays(np.float64, 9, elements=st.floats(-1, 1)),
    weights=st.one_of(st.none(), hnp.arrays(np.float64, 9, elements=st.floats(0.1, 5))),
)
def test_a_path_is_the_sum_of_all_residuals_up_to_each_score(scores, residuals, weights):
    w = np.ones(9) if weights is None else weights
    expected = [
        sum(w[i] * residuals[i] for i in range(9) if scores[i] <= score) / sum(w)
        for score in sorted(set(scores))
    ]
    path = ScoreGroups.of(scores).path(residuals, weights)
    assert path == pytest.approx(expected, abs=1e-12)
    assert MAXIMUM.measure(path) == pytest.approx(max(abs(c) for c in expected), abs=1e-12)
    assert RANGE.measure(path) == pytest.approx(max(0, *expected) - min(0, *expected), abs=1e-12)


def test_rows_of_equal_score_enter_together():
    """Up by one and down by one at the same place is no movement at all, in either order."""
    for residuals in ([1.0, -1.0], [-1.0, 1.0]):
        path = ScoreGroups.of(np.array([0.3, 0.3])).path(np.array(residuals))
        assert path.tolist() == [0.0]
        assert [statistic.measure(path) for statistic in STATISTICS] == [0.0, 0.0]


def test_scores_within_the_tolerance_of_a_neighbour_are_equal():
    scores = np.array([0.0, 1e-13, 2e-13, 0.5, 0.5 + 1e-10])
    assert ScoreGroups.of(scores).ends.tolist() == [0, 1, 2, 3, 4]
    assert ScoreGroups.of(scores, 1.5e-13).ends.tolist() == [2, 3, 4]


def test_truths_will_do_as_residuals_and_a_single_row_as_a_path():
    assert ScoreGroups.of(np.array([0.5], dtype=np.float32)).path(np.array([True])).tolist() == [1.0]


@pytest.mark.parametrize(("x", "maximum", "range_"), TAILS)
def test_tails_agree_with_sixty_digits(x, maximum, range_):
    """The relative error of the normal distribution function itself grows to 1e-13 far out."""
    assert MAXIMUM.tail(x) == pytest.approx(maximum, rel=1e-12)
    assert RANGE.tail(x) == pytest.approx(range_, rel=1e-12)


def test_the_chance_to_stay_close_is_not_lost_to_rounding():
    """P(sup |B| <= 0.4) = 4/pi exp(-pi^2 / 1.28) and P(range <= 0.8) = 8 (1/0.64 + 1/pi^2) exp(-pi^2 / 1.28)."""
    decay = np.exp(-(pi**2) / 1.28)
    assert 1 - MAXIMUM.tail(0.4) == pytest.approx(4 / pi * decay, rel=1e-12)
    assert 1 - RANGE.tail(0.8) == pytest.approx(8 * (1 / 0.64 + 1 / pi**2) * decay, rel=1e-12)


@both
def test_the_two_series_of_a_tail_meet_where_they_are_switched(statistic):
    switch = 1.0 if statistic is MAXIMUM else 2.0
    below, above = statistic.tail(np.nextafter(switch, 0)), statistic.tail(switch)
    assert below == pytest.approx(above, rel=1e-14)


@both
def test_tails_fall_from_one_to_zero(statistic):
    tails = [statistic.tail(x) for x in (0.0, 1e-300, 0.01, *np.linspace(0.05, 38, 2000), 1e300, np.inf)]
    assert tails[:3] == [1.0, 1.0, 1.0]
    assert tails[-2:] == [0.0, 0.0]
    assert (np.diff(tails) <= 0).all()


@both
def test_the_mean_is_the_integral_of_the_tail(statistic):
    integral = quad(statistic.tail, 0, 2, epsabs=1e-12)[0] + quad(statistic.tail, 2, 40, epsabs=1e-12)[0]
    assert statistic.mean() == pytest.approx(integral, rel=1e-9)


@both
@pytest.mark.parametrize("probability", [1e-300, 1e-30, 1e-3, 0.05, 0.5, 0.95, 1 - 1e-9])
@pytest.mark.parametrize("n_steps", [None, 1, 3, 100])
def test_quantiles_invert_tails(statistic, probability, n_steps):
    steps = None if n_steps is None else np.linspace(1, 2, n_steps)
    x = statistic.quantile(probability, steps)
    if x > 0.05:  # below, a path is certain to go further
        assert statistic.tail(x, steps) == pytest.approx(probability, rel=1e-9)


@both
@given(steps=hnp.arrays(np.float64, st.integers(1, 12), elements=st.floats(0.01, 1)), x=st.floats(0.06, 30))
def test_a_path_seen_at_few_places_strays_less_than_everywhere_and_more_than_its_end(statistic, steps, x):
    assert 2 * ndtr(-x) <= statistic.tail(x, steps) <= statistic.tail(x)
    assert sqrt(2 / pi) <= statistic.mean(steps) <= statistic.mean()


@both
def test_one_step_is_a_normal_deviate(statistic):
    """P(|N| > 1.96) = 0.05; steps without variance are none."""
    for steps in ([0.3], [0.0, 0.3, 0.0]):
        assert statistic.tail(1.959963984540054, np.array(steps)) == pytest.approx(0.05, rel=1e-12)
        assert statistic.quantile(0.05, np.array(steps)) == pytest.approx(1.959963984540054, rel=1e-12)
        assert statistic.mean(np.array(steps)) == pytest.approx(sqrt(2 / pi))


@both
def test_many_steps_are_a_brownian_motion(statistic):
    """The shift of x is 0.5826 / 1000 for each barrier."""
    steps = np.ones(10**6)
    assert statistic.tail(2.3, steps) == pytest.approx(statistic.tail(2.3), rel=4e-3)
    assert statistic.tail(2.3, steps) < statistic.tail(2.3)


UNEVEN = {
    "two": [1, 1],
    "five": [1] * 5,
    "hundred": [1] * 100,
    "large first": [60, *[1] * 40],
    "large between": [*[1] * 20, 60, *[1] * 20],
    "halving": 0.5 ** np.arange(12),
    "small ends": [1, 18, 1],
}


@pytest.mark.slow
@both
@pytest.mark.parametrize("steps", UNEVEN.values(), ids=UNEVEN)
def test_normal_walks_exceed_the_quantile_no_more_often_than_they_should(statistic, steps):
    """40,000 walks; up to 2 % above the level is what we claim to keep, 3 standard errors what chance adds."""
    steps = np.asarray(steps, dtype=np.float64)
    steps /= steps.sum()
    walks = np.cumsum(np.random.default_rng(0).standard_normal((40_000, len(steps))) * np.sqrt(steps), axis=1)
    highest, lowest = np.maximum(walks.max(axis=1), 0), np.minimum(walks.min(axis=1), 0)
    values = highest - lowest if statistic is RANGE else np.maximum(highest, -lowest)
    for level in (0.01, 0.05, 0.1):
        rate = (values > statistic.quantile(level, steps)).mean()
        assert rate <= 1.02 * level + 3 * sqrt(level * (1 - level) / 40_000)
        if len(set(steps)) == 1 and len(steps) >= 5:
            assert rate >= 0.88 * level - 3 * sqrt(level * (1 - level) / 40_000)
    assert statistic.mean(steps) >= 0.99 * values.mean()
    if len(steps) >= 100:
        assert statistic.mean(steps) == pytest.approx(values.mean(), rel=0.02)
