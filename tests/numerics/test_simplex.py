"""Softmax and its logarithm against exact arithmetic."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.numerics import row_blocks
from calibrant.numerics.simplex import log_softmax, softmax
from strategies import logit_matrices

EPSILON = {np.dtype(np.float32): 1.2e-7, np.dtype(np.float64): 2.3e-16}


def exact_log_softmax(scores):
    """Return log-softmax in decimals of fifty digits, with exponents that cannot overflow."""
    with localcontext(prec=50):
        rows = [[Decimal(float(score)) for score in row] for row in scores]
        totals = [sum(score.exp() for score in row).ln() for row in rows]
        return np.array(
            [[float(score - total) for score in row] for row, total in zip(rows, totals, strict=True)]
        )


@given(scores=logit_matrices())
def test_log_softmax_is_exact_to_a_few_roundings(scores):
    """Differences of scores are rounded once relative to the larger one, everything else is of order one."""
    allowed = 4 * EPSILON[scores.dtype] * (1 + 2 * np.abs(scores).max())
    np.testing.assert_allclose(log_softmax(scores), exact_log_softmax(scores), rtol=0, atol=allowed)


@given(scores=logit_matrices())
def test_softmax_is_exact_to_a_few_roundings(scores):
    allowed = 8 * EPSILON[scores.dtype] * (1 + 2 * np.abs(scores).max())
    np.testing.assert_allclose(softmax(scores), np.exp(exact_log_softmax(scores)), rtol=0, atol=allowed)


@given(scores=logit_matrices())
def test_softmax_lies_on_the_simplex_in_the_type_of_the_scores(scores):
    probabilities = softmax(scores)
    assert probabilities.dtype == scores.dtype
    assert (probabilities >= 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=0, atol=8 * EPSILON[scores.dtype])


@given(scores=logit_matrices(), shift=st.integers(-64, 64))
def test_a_shift_of_whole_rows_changes_nothing(scores, shift):
    """Rounded to multiples of 1/16, scores and sums are exact below 10 000 in float32: equal to the bit."""
    scores = np.round(scores * 16) / 16
    np.testing.assert_array_equal(softmax(scores + scores.dtype.type(shift)), softmax(scores))
    np.testing.assert_array_equal(log_softmax(scores + scores.dtype.type(shift)), log_softmax(scores))


@given(scores=logit_matrices())
def test_input_is_left_unchanged(scores):
    copied = scores.copy()
    scores.flags.writeable = False
    softmax(scores)
    log_softmax(scores)
    np.testing.assert_array_equal(scores, copied)


@pytest.mark.parametrize("function", [softmax, log_softmax])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_far_below_others_keep_their_shape(function, dtype):
    """A maximum over the whole array instead of the row would give 0/0 in the second row."""
    scores = np.array([[1e4, 1e4 + 1], [-1e4, -1e4 + 1]], dtype=dtype)
    np.testing.assert_array_equal(function(scores)[0], function(scores)[1])


@pytest.mark.parametrize("function", [softmax, log_softmax])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_largest_finite_scores_overflow_nowhere(function, dtype):
    """The whole range of the type, as long as the two ends are not in one row."""
    largest = np.finfo(dtype).max
    scores = np.array([[largest, largest], [-largest, -largest], [largest, 0.0]], dtype=dtype)
    expected = np.array([[0.5, 0.5], [0.5, 0.5], [1.0, 0.0]])
    result = function(scores)
    assert np.isfinite(result).all()
    np.testing.assert_allclose(np.exp(result) if function is log_softmax else result, expected, rtol=1e-6)


def test_a_small_probability_keeps_its_logarithm():
    """softmax(0, -800) underflows; its logarithm is -800 to the last digit."""
    scores = np.array([[0.0, -800.0]])
    assert softmax(scores)[0, 1] == 0.0
    assert log_softmax(scores)[0, 1] == -800.0


@pytest.mark.parametrize("function", [softmax, log_softmax])
def test_blocks_do_not_show(function, monkeypatch):
    scores = np.random.default_rng(0).normal(size=(101, 7)) * 5
    whole = function(scores)
    monkeypatch.setattr(row_blocks, "BLOCK_BYTES", 7 * 8 * 10)  # ten rows a block, one in the last
    np.testing.assert_array_equal(function(scores), whole)


@pytest.mark.parametrize("function", [softmax, log_softmax])
def test_memory_layout_does_not_show(function):
    scores = np.random.default_rng(1).normal(size=(50, 4))
    np.testing.assert_allclose(function(np.asfortranarray(scores)), function(scores), rtol=1e-14)
    np.testing.assert_allclose(function(np.repeat(scores, 2, axis=0)[::2]), function(scores), rtol=1e-14)
