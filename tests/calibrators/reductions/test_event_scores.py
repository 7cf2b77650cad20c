"""One event of two classes, and one class against the sum of the others: no digit is lost on the way."""

from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant import Predictions
from calibrant.calibrators.reductions.event_scores import AgainstRest, EventScores
from strategies import logit_matrices, probability_matrices

every_float_type = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def wide_softmax(n_rows, n_classes, scale, dtype, seed=0):
    """Return probabilities of classifiers that are as sure as ``scale``, in their float type."""
    logits = np.random.default_rng(seed).normal(scale=scale, size=(n_rows, n_classes))
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True)).astype(dtype)
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def rest_by_loops(scores, column, in_logits):
    """Sum of all other entries in extended precision, entry by entry; of logits the logarithm of it."""
    rests = []
    for row in scores.astype(np.longdouble):
        others = [entry for number, entry in enumerate(row) if number != column]
        if in_logits:
            largest = max(others)
            rests.append(largest + np.log(sum(np.exp(entry - largest) for entry in others)))
        else:
            rests.append(sum(others, np.longdouble(0)))
    return np.array(rests)


# One event


@every_float_type
def test_log_odds_in_closed_form(dtype):
    """log(3/1), log(1/3) and log(1) in both spaces, given as float32 or float64."""
    odds = np.array([3.0, 1 / 3, 1.0])
    pairs = np.column_stack([1 / (1 + odds), odds / (1 + odds)]).astype(dtype)
    for predictions in (Predictions.from_probabilities(pairs), Predictions.from_logits(np.log(pairs))):
        scores = EventScores(predictions)
        accuracy = 8 * np.finfo(dtype).eps
        np.testing.assert_allclose(scores.log_odds, np.log(odds), rtol=0, atol=accuracy)
        np.testing.assert_allclose(scores.probability, odds / (1 + odds), rtol=accuracy)
        np.testing.assert_allclose(scores.log_probability, np.log(odds / (1 + odds)), rtol=0, atol=accuracy)
        np.testing.assert_allclose(scores.log_complement, -np.log(1 + odds), rtol=0, atol=accuracy)
        for name in ("log_odds", "probability", "log_probability", "log_complement"):
            assert getattr(scores, name).dtype == np.float64
        assert scores.n_rows == 3


def test_a_float32_one_beside_a_small_complement_has_exact_log_odds():
    """1 - 1e-12 is 1 in float32; the complement that was given is what counts, on either side."""
    pairs = np.array([[1e-12, 1.0], [1.0, 1e-12]], dtype=np.float32)
    scores = EventScores(Predictions.from_probabilities(pairs))
    given = float(np.float32(1e-12))
    np.testing.assert_allclose(scores.log_odds, [-log(given), log(given)], rtol=1e-15)
    np.testing.assert_allclose(scores.log_complement, [log(given), 0.0], rtol=1e-15)


def test_zeros_count_as_the_floor():
    scores = EventScores(Predictions.from_probabilities([[1.0, 0.0], [0.0, 1.0]], floor=1e-6))
    np.testing.assert_allclose(scores.log_probability, [log(1e-6), 0.0])
    np.testing.assert_allclose(scores.log_complement, [0.0, log(1e-6)])
    np.testing.assert_allclose(scores.log_odds, [log(1e-6), -log(1e-6)])
    np.testing.assert_array_equal(scores.probability, [0.0, 1.0])


@every_float_type
def test_logits_of_ten_thousand_keep_their_difference(dtype):
    """Probabilities are zero and one then, logarithms and log-odds are not lost."""
    scores = EventScores(Predictions.from_logits(np.array([[1e4, -1e4], [-1e4, 1e4], [1e4, 1e4]], dtype)))
    np.testing.assert_array_equal(scores.log_odds, [-2e4, 2e4, 0.0])
    np.testing.assert_array_equal(scores.probability, [0.0, 1.0, 0.5])
    np.testing.assert_allclose(scores.log_probability, [-2e4, 0.0, log(0.5)])
    np.testing.assert_allclose(scores.log_complement, [0.0, -2e4, log(0.5)])


@settings(max_examples=40, deadline=None)
@given(logits=logit_matrices(n_classes=2))
def test_both_logarithms_belong_to_the_log_odds(logits):
    scores = EventScores(Predictions.from_logits(logits))
    difference = scores.log_probability - scores.log_complement
    np.testing.assert_allclose(difference, scores.log_odds, rtol=1e-12, atol=1e-12)
    total = np.exp(scores.log_probability) + np.exp(scores.log_complement)
    np.testing.assert_allclose(total, 1.0, rtol=1e-12)


# One class against the rest


@pytest.mark.parametrize("n_classes", [3, 10, 1000])
@pytest.mark.parametrize("scale", [0.1, 3.0, 30.0])
@every_float_type
def test_the_rest_is_the_sum_of_the_others(n_classes, scale, dtype):
    """Against sums in extended precision: one rounding to the float type, and those of a sum in float64."""
    probabilities = wide_softmax(40, n_classes, scale, dtype)
    against = AgainstRest(Predictions.from_probabilities(probabilities))
    accuracy = np.finfo(dtype).eps if dtype == np.float32 else n_classes * np.finfo(dtype).eps
    columns = {0, 1, n_classes - 1, *probabilities[:5].argmax(axis=1).tolist()}
    for column in columns:
        pair = against.column(column).scores
        assert pair.dtype == dtype
        np.testing.assert_array_equal(pair[:, 1], probabilities[:, column])
        expected = rest_by_loops(probabilities, column, in_logits=False)
        tiny = float(np.finfo(dtype).smallest_subnormal)
        np.testing.assert_allclose(pair[:, 0], expected.astype(np.float64), rtol=accuracy, atol=tiny)


@pytest.mark.parametrize("n_classes", [3, 10, 1000])
@pytest.mark.parametrize("scale", [0.1, 3.0, 1e4])
@every_float_type
def test_the_rest_of_logits_is_the_log_sum_of_the_others(n_classes, scale, dtype):
    logits = np.random.default_rng(1).normal(scale=scale, size=(40, n_classes)).astype(dtype)
    against = AgainstRest(Predictions.from_logits(logits))
    spacing = 4 * np.finfo(dtype).eps * max(1.0, float(np.abs(logits).max())) + n_classes * 1e-16
    for column in {0, n_classes - 1, *logits[:5].argmax(axis=1).tolist()}:
        pair = against.column(column)
        assert pair.space == "logits"
        assert pair.scores.dtype == dtype
        np.testing.assert_array_equal(pair.scores[:, 1], logits[:, column])
        expected = rest_by_loops(logits, column, in_logits=True).astype(np.float64)
        np.testing.assert_allclose(pair.scores[:, 0], expected, rtol=0, atol=spacing)


def test_confident_float32_rows_keep_finite_log_odds():
    """One minus the class is zero in many of these rows; the others still add up to something."""
    probabilities = wide_softmax(500, 10, 30.0, np.float32)
    predictions = Predictions.from_probabilities(probabilities)
    certain = probabilities.max(axis=1) == 1
    assert certain.mean() > 0.3
    against = AgainstRest(predictions)
    others = np.where(np.eye(10, dtype=bool)[predictions.predicted], 0, probabilities.astype(np.float64)).sum(
        1
    )
    informed = certain & (others > 1e-37)  # what is smaller is rounded to few digits by float32 itself
    assert informed.sum() > 100
    expected = -np.log(others[informed])
    largest = EventScores(against.rest_of_largest()).log_odds[informed]
    np.testing.assert_allclose(largest, expected, rtol=1e-6)
    for column in range(10):
        rows = informed & (predictions.predicted == column)
        odds = EventScores(against.column(column)).log_odds
        np.testing.assert_allclose(odds[rows], -np.log(others[rows]), rtol=1e-6)


@pytest.mark.parametrize("in_logits", [False, True])
def test_ties_for_the_largest_are_all_treated_alike(in_logits):
    """Of two equal entries one counts as the largest; the rest of both is the same."""
    rows = np.array([[0.4, 0.4, 0.2], [0.2, 0.4, 0.4], [1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0.0]])
    predictions = Predictions.from_probabilities(rows)
    if in_logits:
        predictions = Predictions.from_logits(np.log(np.maximum(rows, 1e-300)))
    against = AgainstRest(predictions)
    for column in range(3):
        np.testing.assert_allclose(
            against.column(column).probabilities,
            np.column_stack([1 - rows[:, column], rows[:, column]]),
            rtol=1e-14,
            atol=1e-250,
        )


def test_zeros_ones_and_sums_that_are_not_quite_one():
    """Nothing is made to sum to one, and the floor of the rows goes with them."""
    rows = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.5005, 0.25, 0.25]])
    against = AgainstRest(Predictions.from_probabilities(rows, floor=1e-4))
    np.testing.assert_array_equal(against.column(0).scores, [[0, 1], [1, 0], [0.5, 0.5005]])
    np.testing.assert_array_equal(against.column(1).scores, [[1, 0], [1, 0], [0.7505, 0.25]])
    np.testing.assert_array_equal(against.rest_of_largest().scores, [[0, 1], [0, 1], [0.5, 0.5005]])
    for pair in (against.column(0), against.rest_of_largest()):
        assert pair.floor == 1e-4
    np.testing.assert_allclose(EventScores(against.column(0)).log_odds[:2], [-log(1e-4), log(1e-4)])


@every_float_type
@pytest.mark.parametrize("in_logits", [False, True])
def test_two_classes_are_themselves(in_logits, dtype):
    rows = np.array([[0.25, 0.75], [0.5, 0.5], [1.0, 2.0**-40]], dtype)
    predictions = Predictions.from_logits(np.log(rows)) if in_logits else Predictions.from_probabilities(rows)
    against = AgainstRest(predictions)
    accuracy = 4 * np.finfo(dtype).eps
    np.testing.assert_allclose(against.column(1).scores, predictions.scores, rtol=accuracy)
    np.testing.assert_allclose(against.column(0).scores, predictions.scores[:, ::-1], rtol=accuracy)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_rest_of_the_largest_is_the_column_of_the_predicted_class(data):
    if data.draw(st.booleans()):
        predictions = Predictions.from_logits(data.draw(logit_matrices()))
    else:
        predictions = Predictions.from_probabilities(data.draw(probability_matrices()))
    against = AgainstRest(predictions)
    largest = against.rest_of_largest()
    for row, column in enumerate(predictions.predicted):
        np.testing.assert_array_equal(largest.scores[row], against.column(column).scores[row])


def test_predictions_are_left_as_they_are():
    rows = wide_softmax(30, 4, 2.0, np.float64)
    predictions = Predictions.from_probabilities(rows)
    against = AgainstRest(predictions)
    before = rows.copy()
    for column in range(4):
        against.column(column)
    np.testing.assert_array_equal(predictions.scores, before)
