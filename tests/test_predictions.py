"""Predictions: what is kept, what is computed, and what can never change."""

import dataclasses
from math import log

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant import LabelledPredictions, Predictions
from calibrant.errors import PredictionError
from calibrant.predictions import ROW_SUM_TOLERANCE
from calibrant.space import Space, look_like_probabilities
from strategies import logit_matrices, probability_matrices

PROBABILITIES = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3]])


def given_as(matrix, space):
    if space == "probabilities":
        return Predictions.from_probabilities(matrix)
    return Predictions.from_logits(matrix, allow_probabilities=True)


both_spaces = pytest.mark.parametrize("space", ["probabilities", "logits"])


# Probabilities that are declared as logits


ROUNDED = PROBABILITIES + np.array([[0.0004, 0.0, 0.0], [0.0, -0.0004, 0.0]])


@pytest.mark.parametrize(
    "matrix", [PROBABILITIES, PROBABILITIES.astype(np.float32), ROUNDED, pd.DataFrame(PROBABILITIES)]
)
def test_probabilities_declared_as_logits_are_refused(matrix):
    with pytest.raises(
        PredictionError, match=r"look like probabilities, not logits.*allow_probabilities=True"
    ):
        Predictions.from_logits(matrix)
    assert Predictions.from_logits(matrix, allow_probabilities=True).space is Space.LOGITS


@pytest.mark.parametrize(
    "matrix", [PROBABILITIES[:1], np.log(PROBABILITIES), [0.1, 0.9, 0.4], [[0.1, 0.9], [0.2, 0.9]]]
)
def test_logits_are_accepted_though_some_could_be_probabilities(matrix):
    assert Predictions.from_logits(matrix).space is Space.LOGITS


@pytest.mark.parametrize("n_classes", [2, 10])
def test_small_logits_are_not_mistaken_for_probabilities(n_classes):
    """Ten thousand pairs of rows each of two kinds of logits near zero."""
    generator = np.random.default_rng(0)
    for scale in (0.3, 1.0):
        pairs = generator.normal(0, scale, (10_000, 2, n_classes))
        assert not any(look_like_probabilities(pair) for pair in pairs)


# What is kept


@both_spaces
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_float_array_is_never_copied(space, dtype):
    matrix = PROBABILITIES.astype(dtype)
    predictions = given_as(matrix, space)
    assert np.shares_memory(predictions.scores, matrix)
    assert predictions.scores.dtype == dtype


@both_spaces
def test_a_slice_with_strides_is_never_copied(space):
    wide = np.tile(PROBABILITIES, (3, 1))
    assert np.shares_memory(given_as(wide[::2], space).scores, wide)


@both_spaces
def test_scores_cannot_be_written_to_and_the_given_array_still_can(space):
    matrix = PROBABILITIES.copy()
    predictions = given_as(matrix, space)
    for attribute in ("scores", "probabilities", "log_probabilities", "logits"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(predictions, attribute)[0, 0] = 0.5
    assert matrix.flags.writeable
    matrix[0] = [0.2, 0.7, 0.1]


@pytest.mark.parametrize("field", ["scores", "space", "classes", "declared_floor", "floor"])
def test_fields_cannot_be_replaced(field):
    predictions = Predictions.from_probabilities(PROBABILITIES)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(predictions, field, None)


def test_labelled_predictions_are_frozen():
    data = LabelledPredictions.parse(PROBABILITIES, [0, 1])
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.labels = np.array([1, 0])


@pytest.mark.parametrize(
    ("dtype", "kept"),
    [
        (np.float16, np.float32),
        (np.float32, np.float32),
        (np.float64, np.float64),
        (np.longdouble, np.float64),
        (">f8", np.float64),
        (">f4", np.float32),
        (np.int64, np.float64),
        (np.uint8, np.float64),
        (bool, np.float64),
        (object, np.float64),
    ],
)
@both_spaces
def test_the_float_type_is_kept_or_the_nearest_that_holds_the_numbers(dtype, kept, space):
    predictions = given_as(np.eye(3).astype(dtype), space)
    assert predictions.scores.dtype == kept
    assert predictions.scores.dtype.isnative
    np.testing.assert_array_equal(predictions.scores, np.eye(3))


@both_spaces
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_everything_derived_has_the_type_of_the_scores(space, dtype):
    predictions = given_as(np.eye(3, dtype=dtype), space)
    for attribute in ("probabilities", "log_probabilities", "logits"):
        assert getattr(predictions, attribute).dtype == dtype


@pytest.mark.parametrize("given_shape", [(4,), (4, 1)])
def test_one_column_is_the_positive_class_of_two(given_shape):
    positive = np.array([0.2, 0.9, 0.0, 1.0], dtype=np.float32)
    predictions = Predictions.from_probabilities(positive.reshape(given_shape))
    np.testing.assert_array_equal(predictions.scores, np.column_stack([1 - positive, positive]))
    assert predictions.scores.dtype == np.float32


@pytest.mark.parametrize("given_shape", [(2,), (2, 1)])
def test_one_column_of_logits_is_the_log_odds_of_the_positive_class(given_shape):
    predictions = Predictions.from_logits(np.array([log(3), -log(3)]).reshape(given_shape))
    np.testing.assert_allclose(predictions.probabilities, [[0.25, 0.75], [0.75, 0.25]])


def test_probabilities_are_kept_as_given_within_the_tolerance():
    """Printed digits: three times 0.333 is off by 0.001, the most that is allowed."""
    rounded = np.full((1, 3), 0.333)
    assert Predictions.from_probabilities(rounded).probabilities[0, 0] == 0.333
    assert pytest.approx(1e-3) == ROW_SUM_TOLERANCE


def test_parsing_what_is_parsed_gives_the_same_object():
    predictions = Predictions.from_logits(PROBABILITIES, allow_probabilities=True)
    assert Predictions.parse(predictions) is predictions
    assert Predictions.parse(PROBABILITIES).space is Space.PROBABILITIES


def test_length_sizes_and_name():
    predictions = Predictions.from_logits(PROBABILITIES.astype(np.float32), allow_probabilities=True)
    assert (len(predictions), predictions.n_rows, predictions.n_classes) == (2, 2, 3)
    assert repr(predictions) == "Predictions(2 rows, 3 classes, logits, float32)"


# Names of the columns


def test_bare_arrays_have_no_names():
    assert Predictions.from_probabilities(PROBABILITIES).classes is None


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_a_frame_brings_its_column_names(frame):
    given = frame({"cat": [0.7, 0.1], "ant": [0.2, 0.6], "bee": [0.1, 0.3]})
    predictions = Predictions.from_probabilities(given)
    assert predictions.classes.tolist() == ["cat", "ant", "bee"]
    np.testing.assert_array_equal(predictions.scores, PROBABILITIES)


def test_a_float32_frame_stays_float32():
    given = pd.DataFrame(PROBABILITIES.astype(np.float32))
    assert Predictions.from_probabilities(given).scores.dtype == np.float32


def test_nullable_pandas_columns_are_numbers():
    predictions = Predictions.from_probabilities(pd.DataFrame(PROBABILITIES).astype("Float64"))
    np.testing.assert_array_equal(predictions.scores, PROBABILITIES)


def test_given_names_come_before_those_of_a_frame():
    given = pd.DataFrame(PROBABILITIES, columns=["p1", "p2", "p3"])
    predictions = Predictions.from_probabilities(given, classes=["a", "b", "c"])
    assert predictions.classes.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("columns", [["p", "p", "q"], [0.1, 0.2, 0.3], [("a", 1), ("a", 2), ("b", 1)]])
def test_column_names_that_cannot_be_labels_are_ignored(columns):
    given = pd.DataFrame(PROBABILITIES)
    given.columns = columns
    assert Predictions.from_probabilities(given).classes is None


def test_the_name_of_a_single_column_is_not_a_class():
    """One column stands for two classes, so its name is the name of neither."""
    assert Predictions.from_probabilities(pd.DataFrame({"score": [0.2, 0.7]})).classes is None


@pytest.mark.parametrize("series", [pd.Series, pl.Series])
def test_a_series_is_the_positive_class_of_two(series):
    np.testing.assert_allclose(Predictions.from_probabilities(series([0.25])).scores, [[0.75, 0.25]])


# What is computed


@both_spaces
@pytest.mark.parametrize("attribute", ["probabilities", "log_probabilities", "logits", "predicted", "floor"])
def test_every_view_is_computed_once(space, attribute):
    predictions = given_as(PROBABILITIES, space)
    assert getattr(predictions, attribute) is getattr(predictions, attribute)


def test_probabilities_that_were_given_are_not_copied():
    predictions = Predictions.from_probabilities(PROBABILITIES)
    assert predictions.probabilities is predictions.scores


def test_logits_that_were_given_are_not_copied():
    predictions = Predictions.from_logits(PROBABILITIES, allow_probabilities=True)
    assert predictions.logits is predictions.scores


def test_logits_of_probabilities_are_their_logarithms():
    predictions = Predictions.from_probabilities(PROBABILITIES)
    np.testing.assert_array_equal(predictions.logits, np.log(PROBABILITIES))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_zeros_count_as_half_of_the_smallest_positive_probability_in_logarithms(dtype):
    """Less than anything this classifier says: here half of 1/8."""
    given = np.array([[1.0, 0.0], [0.875, 0.125]], dtype=dtype)
    predictions = Predictions.from_probabilities(given)
    assert predictions.floor == 1 / 16
    expected = np.log([[1.0, 1 / 16], [0.875, 0.125]])
    np.testing.assert_allclose(predictions.log_probabilities, expected, rtol=1e-6)
    np.testing.assert_array_equal(predictions.probabilities, given)


@given(probabilities=probability_matrices())
def test_the_default_floor_changes_no_positive_probability(probabilities):
    logarithms = Predictions.from_probabilities(probabilities).log_probabilities
    positive = probabilities > 0
    np.testing.assert_array_equal(logarithms[positive], np.log(probabilities[positive]))
    # The floor is half of the smallest, so zeros come last in every row.
    assert (logarithms[~positive] < logarithms[positive].min()).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_smallest_number_of_a_type_can_still_be_halved(dtype):
    smallest = np.finfo(dtype).smallest_subnormal
    predictions = Predictions.from_probabilities(np.array([[1, 0], [1, smallest]], dtype=dtype))
    assert predictions.floor > 0
    assert np.isfinite(predictions.log_probabilities).all()


def test_numbers_below_a_declared_floor_count_as_the_floor_and_others_as_themselves():
    given = [[1 - 1e-4, 1e-4], [1 - 1e-9, 1e-9], [1.0, 0.0]]
    predictions = Predictions.from_probabilities(given, floor=1e-6)
    assert predictions.floor == predictions.declared_floor == 1e-6
    logarithms = predictions.log_probabilities
    np.testing.assert_allclose(logarithms[:, 1], [log(1e-4), log(1e-6), log(1e-6)])
    np.testing.assert_allclose(logarithms[:, 0], np.log1p([-1e-4, -1e-9, 0.0]), rtol=1e-6)


def test_logits_know_no_floor():
    predictions = Predictions.from_logits([[0.0, -500.0]])
    assert predictions.log_probabilities[0, 1] == -500.0


def test_another_floor_gives_a_new_value_and_leaves_the_old():
    old = Predictions.from_probabilities(np.eye(2), floor=1e-4)
    assert old.log_probabilities.min() == pytest.approx(log(1e-4))
    new = old.with_floor(1e-3)
    assert new.log_probabilities.min() == pytest.approx(log(1e-3))
    assert old.log_probabilities.min() == pytest.approx(log(1e-4))
    assert old.with_floor(1e-4) is old
    assert np.shares_memory(new.scores, old.scores)


@both_spaces
def test_the_first_of_equal_scores_is_predicted(space):
    predictions = given_as([[0.4, 0.4, 0.2], [0.2, 0.4, 0.4]], space)
    assert predictions.predicted.tolist() == [0, 1]


@both_spaces
@pytest.mark.parametrize(
    "rows", [slice(1, 3), np.array([2, 0, 0]), np.array([True, False, True, False]), np.array([], int)]
)
def test_chosen_rows(space, rows):
    matrix = np.tile(PROBABILITIES, (2, 1)) + np.array([0.0, 0.0, 1e-4, 1e-4])[:, np.newaxis]
    names = ["a", "b", "c"]
    predictions = dataclasses.replace(given_as(matrix, space), classes=np.array(names)).with_floor(1e-5)
    chosen = predictions.take(rows)
    np.testing.assert_array_equal(chosen.scores, matrix[rows])
    assert (chosen.space, chosen.floor, chosen.classes.tolist()) == (space, 1e-5, names)
    assert not chosen.scores.flags.writeable


def test_taking_a_slice_copies_nothing():
    predictions = Predictions.from_probabilities(PROBABILITIES)
    assert np.shares_memory(predictions.take(slice(0, 1)).scores, PROBABILITIES)


# Some of the classes


def test_restricting_probabilities_conditions_on_the_classes_kept():
    """P(class | class is 0 or 2): 0.7 and 0.1 of 0.8; 0.1 and 0.3 of 0.4."""
    restricted = Predictions.from_probabilities(PROBABILITIES, classes=["a", "b", "c"]).restricted_to(
        np.array([0, 2])
    )
    np.testing.assert_allclose(restricted.probabilities, [[7 / 8, 1 / 8], [1 / 4, 3 / 4]])
    assert restricted.classes.tolist() == ["a", "c"]


def test_restricting_logits_drops_columns_and_conditions_too():
    logits = np.log(PROBABILITIES) + 2.0
    restricted = Predictions.from_logits(logits).restricted_to(np.array([0, 2]))
    np.testing.assert_array_equal(restricted.scores, logits[:, [0, 2]])
    np.testing.assert_allclose(restricted.probabilities, [[7 / 8, 1 / 8], [1 / 4, 3 / 4]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_row_that_gives_the_kept_classes_nothing_becomes_uniform(dtype):
    predictions = Predictions.from_probabilities(np.eye(3, dtype=dtype))
    restricted = predictions.restricted_to(np.array([0, 2]))
    np.testing.assert_array_equal(restricted.probabilities, [[1, 0], [0.5, 0.5], [0, 1]])
    assert restricted.scores.dtype == dtype
    assert not restricted.scores.flags.writeable


@given(probabilities=probability_matrices(n_classes=4), data=st.data())
def test_restricted_probabilities_sum_to_one(probabilities, data):
    columns = np.array(sorted(data.draw(st.sets(st.integers(0, 3), min_size=1))))
    restricted = Predictions.from_probabilities(probabilities).restricted_to(columns)
    np.testing.assert_allclose(restricted.probabilities.sum(axis=1), 1.0, rtol=1e-6)
    assert restricted.n_classes == len(columns)


def test_restricted_labels_are_column_numbers_of_the_rest():
    data = LabelledPredictions.parse(np.eye(4)[[0, 2, 3]], [0, 2, 3], [1.0, 2.0, 3.0])
    restricted = data.restricted_to(np.array([0, 2, 3]))
    assert restricted.labels.tolist() == [0, 1, 2]
    assert restricted.classes.tolist() == [0, 2, 3]
    assert restricted.weights.tolist() == [1.0, 2.0, 3.0]


# Properties


@given(logits=logit_matrices())
def test_probabilities_and_logarithms_of_logits_agree(logits):
    predictions = Predictions.from_logits(logits)
    accuracy = 1e-5 if logits.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(
        np.exp(predictions.log_probabilities), predictions.probabilities, rtol=0, atol=accuracy
    )
    np.testing.assert_allclose(predictions.probabilities.sum(axis=1), 1.0, rtol=0, atol=accuracy)


@given(logits=logit_matrices(bound=100.0), shift=st.floats(-100.0, 100.0))
def test_adding_a_constant_to_a_row_of_logits_changes_no_probability(logits, shift):
    """The sum of two numbers up to 100 is rounded by 8e-6 in float32; a probability moves by less."""
    accuracy = 2e-5 if logits.dtype == np.float32 else 1e-12
    shifted = logits + np.asarray(shift, dtype=logits.dtype)
    for attribute in ("probabilities", "log_probabilities"):
        expected = getattr(Predictions.from_logits(logits), attribute)
        changed = getattr(Predictions.from_logits(shifted), attribute)
        np.testing.assert_allclose(changed, expected, rtol=0, atol=3 * accuracy)


@given(logits=logit_matrices())
def test_log_probabilities_are_logits_of_the_same_predictions(logits):
    predictions = Predictions.from_logits(logits)
    again = Predictions.from_logits(predictions.log_probabilities)
    accuracy = 1e-5 if logits.dtype == np.float32 else 1e-10
    np.testing.assert_allclose(again.probabilities, predictions.probabilities, rtol=0, atol=accuracy)


@given(probabilities=probability_matrices())
def test_probabilities_come_back_from_their_logarithms(probabilities):
    predictions = Predictions.from_probabilities(probabilities, floor=1e-12)
    again = Predictions.from_logits(predictions.logits)
    np.testing.assert_allclose(again.probabilities, probabilities, rtol=0, atol=2e-6)
    assert np.isfinite(predictions.log_probabilities).all()


# Weights


def test_rows_of_weight_zero_are_left_out():
    data = LabelledPredictions.parse(np.eye(3), [0, 1, 2], [1, 0, 2])
    assert (data.n_rows, data.labels.tolist(), data.weights.tolist()) == (2, [0, 2], [1.0, 2.0])
    assert data.total_weight == 3.0
    assert data.class_weights.tolist() == [1.0, 0.0, 2.0]


def test_without_weights_rows_count_once():
    data = LabelledPredictions.parse(np.eye(3), [0, 1, 1])
    assert data.weights is None
    assert data.total_weight == 3.0
    assert data.class_weights.tolist() == [1.0, 2.0, 0.0]


def test_chosen_rows_of_labelled_predictions_bring_their_weights():
    data = LabelledPredictions.parse(np.eye(3), [0, 1, 2], [1.0, 2.0, 3.0])
    chosen = data.take([2, 0])
    assert (chosen.labels.tolist(), chosen.weights.tolist()) == ([2, 0], [3.0, 1.0])
    assert data.take([2, 0], np.array([5.0, 5.0])).weights.tolist() == [5.0, 5.0]


@pytest.mark.parametrize("rows", [slice(1, 3), np.array([3, 0]), np.array([True, False, True, False])])
def test_taken_rows_keep_what_was_computed_for_all(rows):
    generator = np.random.default_rng(0)
    predictions = Predictions.from_logits(generator.normal(size=(4, 3)))
    fresh = predictions.take(rows)
    _ = predictions.predicted, predictions.probabilities
    taken = predictions.take(rows)
    assert {"predicted", "probabilities"} <= set(taken.__dict__)
    np.testing.assert_array_equal(taken.predicted, fresh.predicted)
    np.testing.assert_array_equal(taken.probabilities, fresh.probabilities)


# Zeros as the floor


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_without_zeros_only_rows_with_zeros_change(dtype):
    """The floor is half of 1/4: 1 and 0, 0 become 8/10 and 1/10 twice; other rows stay as they are to the bit."""
    predictions = Predictions.from_probabilities(np.array([[1, 0, 0], [0.25, 0.25, 0.5]], dtype=dtype))
    raised = predictions.without_zeros()
    np.testing.assert_allclose(raised.probabilities[0], [0.8, 0.1, 0.1], rtol=1e-6)
    np.testing.assert_array_equal(raised.probabilities[1], predictions.probabilities[1])
    assert raised.probabilities.dtype == dtype


def test_without_zeros_the_smallest_float_is_not_lost():
    """Half of the smallest float32 is zero in float32; the smallest takes its place."""
    least = np.finfo(np.float32).smallest_subnormal
    raised = Predictions.from_probabilities(np.array([[1, 0], [1, least]], dtype=np.float32)).without_zeros()
    assert (raised.probabilities > 0).all()


def test_predictions_without_zeros_and_logits_are_returned_as_they_are():
    for predictions in (Predictions.from_probabilities([[0.5, 0.5]]), Predictions.from_logits([[9.0, 0.0]])):
        assert predictions.without_zeros() is predictions


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logits_without_zeros_have_a_softmax_without_zeros(dtype):
    logits = np.array([[0, -2e4, -3], [1e4, 0, 9999]], dtype=dtype)
    raised = Predictions.from_logits(logits).without_zeros()
    assert (raised.probabilities > 0).all()
    np.testing.assert_array_equal(raised.scores[:, [0, 2]], logits[:, [0, 2]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_huge_logits_without_zeros_keep_their_largest(dtype):
    """1e30 - 87 is 1e30: what is added to the largest would be lost, and all classes equal."""
    logits = np.array([[1e30, -1e30, 0.0], [0.0, 5e29, 4e29]], dtype=dtype)
    raised = Predictions.from_logits(logits).without_zeros()
    assert (raised.probabilities > 0).all()
    np.testing.assert_array_equal(raised.predicted, [0, 1])
    assert raised.probabilities.max(axis=1) == pytest.approx(1.0)


def test_the_floor_is_at_most_half_of_an_even_share():
    """Certain predictions have no positive probability below one; a zero is still less than an even share."""
    assert Predictions.from_probabilities(np.eye(4)).floor == 1 / 8


@given(rows=st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any), min_size=1, max_size=9))
def test_the_arg_max_stays_without_zeros(rows):
    p = np.array(rows, dtype=float)
    predictions = Predictions.from_probabilities(p / p.sum(axis=1, keepdims=True))
    np.testing.assert_array_equal(predictions.without_zeros().predicted, predictions.predicted)


def test_the_smallest_float_of_all_has_a_floor_above_zero():
    assert Predictions.from_probabilities([[1.0, 5e-324]]).floor > 0
