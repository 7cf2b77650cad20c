"""The numbers of cumulative differences, against loops and the test made from them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from calibrant.hypothesis_tests import cumulative_test
from calibrant.metrics import OneClass
from calibrant.plots import cumulative_curve

ROWS = st.lists(
    st.tuples(st.integers(0, 10).map(lambda tenth: tenth / 10), st.booleans(), st.integers(1, 3)),
    min_size=1,
    max_size=30,
)


@given(rows=ROWS)
def test_the_curve_is_the_running_sum_over_sorted_rows(rows):
    scores, happened, weights = (np.array(part, dtype=float) for part in zip(*rows, strict=True))
    curve = cumulative_curve(happened.astype(int), scores, sample_weight=weights)
    total = weights.sum()
    expected = [(0.0, 0.0)]
    for value in sorted(set(scores)):
        upto = scores <= value
        expected.append((weights[upto].sum() / total, (weights * (happened - scores))[upto].sum() / total))
    assert_allclose(np.column_stack([curve.share, curve.difference]), expected, atol=1e-12)
    assert curve.sigma == pytest.approx(
        np.sqrt((weights**2 * scores * (1 - scores)).sum()) / total, abs=1e-12
    )


def test_statistic_and_p_value_are_those_of_the_test():
    generator = np.random.default_rng(0)
    p = generator.dirichlet(np.ones(3), 400)
    y = generator.integers(0, 3, 400)
    weights = generator.gamma(2, size=400)
    curve = cumulative_curve(y, p, sample_weight=weights, kind="class", label=2)
    result = cumulative_test(y, p, sample_weight=weights, utility=OneClass(2))
    assert (curve.kuiper, curve.p_value) == pytest.approx((result.statistic, result.p_value), rel=1e-12)
    by_confidence = cumulative_curve(y, p)
    result = cumulative_test(y, p)
    assert (by_confidence.kuiper, by_confidence.p_value) == pytest.approx((result.statistic, result.p_value))


def test_a_weight_of_two_moves_the_curve_like_a_repeated_row():
    y, p = np.array([0, 1, 1, 0]), np.array([0.2, 0.4, 0.6, 0.8])
    weighted = cumulative_curve(y, p, sample_weight=[1, 2, 1, 3])
    repeated = cumulative_curve(np.repeat(y, [1, 2, 1, 3]), np.repeat(p, [1, 2, 1, 3]))
    assert_allclose(weighted.difference, repeated.difference)


def test_many_points_are_thinned_and_keep_their_extremes():
    generator = np.random.default_rng(0)
    p = generator.random(20_000)
    y = (generator.random(20_000) < p**1.2).astype(int)
    curve = cumulative_curve(y, p)
    assert len(curve.share) <= 500
    assert (curve.share[0], curve.difference[0]) == (0, 0)
    assert curve.share[-1] == pytest.approx(1)
    assert curve.difference[-1] == pytest.approx((y - p).mean())
    assert curve.difference.max() - curve.difference.min() == pytest.approx(curve.kuiper, rel=1e-12)
    assert (np.diff(curve.score) >= 0).all()


def test_predicted_rows_of_one_class():
    p = np.array([[0.6, 0.4], [0.7, 0.3], [0.2, 0.8]])
    curve = cumulative_curve([0, 1, 1], p, kind="top-label", label=0)
    assert curve.n_rows == 2
    assert curve.event == "predicted class 0"
    assert_allclose(curve.difference, [0, 0.2, -0.15])


def test_few_rows_come_with_a_caution():
    assert cumulative_curve([1], [0.7]).caution is not None
