"""What is refused, and in which words: one sentence that says what is wrong, where, and what to do."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array, csr_matrix

from calibrant import Identity, LabelledPredictions, Predictions, TemperatureScaling
from calibrant.errors import LabelError, PredictionError, WeightError
from calibrant.metrics import confidence_ece, log_loss
from calibrant.report import assess

PROBABILITIES = [[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6], [0.5, 0.3, 0.2]]
LABELS = [0, 1, 2, 1]
WORDS = ["ant", "bee", "cat", "bee"]
TWO_CLASSES = [[0.7, 0.3], [0.4, 0.6], [0.2, 0.8], [0.5, 0.5]]


def probabilities_with(value, row=2, column=1):
    changed = np.array(PROBABILITIES)
    changed[row, column] = value
    return changed


# Each case: what is given, then what the message must say: what and where it is, and what to do about it.
BAD_PROBABILITIES = {
    "NaN": (
        probabilities_with(np.nan),
        r"must be finite, but row 2, column 1 is nan",
        r"remove or repair those rows",
    ),
    "infinite": (
        probabilities_with(np.inf),
        r"must be finite, but row 2, column 1 is inf",
        r"remove or repair those rows",
    ),
    "infinite of both signs": (
        [[0.5, 0.5], [np.inf, -np.inf]],
        r"must be finite, but row 1, column 0 is inf",
        r"remove or repair those rows",
    ),
    "missing in a list": (
        [[0.5, 0.5], [0.5, None]],
        r"must be finite, but row 1, column 1 is nan",
        r"remove or repair those rows",
    ),
    "negative": (
        [[0.5, 0.5], [-0.1, 1.1]],
        r"must not be negative, but row 1, column 0 is -0\.1",
        r"use Predictions\.from_logits",
    ),
    "rows that do not sum to one": (
        [[0.5, 0.5], [0.5, 0.6]],
        r"rows must sum to 1 within 0\.001, but row 1 sums to 1\.1",
        r"divide rows by their sums",
    ),
    "percentages": (
        [[70.0, 30.0]],
        r"row 0 sums to 100",
        r"divide rows by their sums",
    ),
    "counts that overflow": (
        [[0.5, 0.5], [1e308, 1e308]],
        r"row 1|too large to be added up",
        r"divide",
    ),
    "logits": (
        [[2.0, -1.0, 0.5]],
        r"must not be negative, but row 0, column 1 is -1",
        r"for logits, use Predictions\.from_logits",
    ),
    "logits without a negative": (
        [[2.0, 1.0, 0.5]],
        r"row 0 sums to 3\.5",
        r"for logits, use Predictions\.from_logits",
    ),
    "one column above one": (
        [0.2, 1.5],
        r"a single column is the probability of the positive class, from 0 to 1, but row 1 is 1\.5",
        r"for log-odds, use Predictions\.from_logits",
    ),
    "one column below zero": (
        [[0.2], [-0.5]],
        r"from 0 to 1, but row 1 is -0\.5",
        r"for log-odds, use Predictions\.from_logits",
    ),
    "one column with NaN": (
        [0.2, np.nan],
        r"must be finite, but row 1, column 0 is nan",
        r"remove or repair",
    ),
    "no rows": (np.empty((0, 3)), r"are empty, of shape \(0, 3\)", r"at least one row is needed"),
    "nothing": ([], r"are empty", r"at least one row is needed"),
    "no columns": (np.empty((3, 0)), r"are empty, of shape \(3, 0\)", r"at least one row|column"),
    "ragged": ([[0.5, 0.5], [1.0]], r"rectangular table.*rows differ", r"same number of classes"),
    "three axes": (
        np.full((2, 2, 2), 0.5),
        r"have shape \(2, 2, 2\)",
        r"pass Predictions.from_\w+\(x, class_axis=...\)",
    ),
    "a single number": (0.5, r"must be a table of rows by classes, but have shape \(\)", r"pass|flatten"),
    "strings": ([["a", "b"]], r"must be real numbers, not <U1", r"convert|drop|pass"),
    "complex": ([[0.5 + 0j, 0.5]], r"must be real numbers, not complex128", r"convert|drop|pass"),
    "dates": (np.array([["2020-01-01"]], "M8[D]"), r"must be real numbers, not datetime64", r"convert|drop"),
    "a sparse matrix": (csr_matrix([[0.5, 0.5]]), r"must be dense, but are a sparse", r"X\.toarray\(\)"),
    "a sparse array": (csr_array([[0.5, 0.5]]), r"must be dense, but are a sparse", r"X\.toarray\(\)"),
    "a pandas frame with a column of text": (
        pd.DataFrame({"a": [0.5], "b": [0.5], "name": ["x"]}),
        r"must be numbers, but.*'name'",
        r"drop",
    ),
    "a polars frame with a column of text": (
        pl.DataFrame({"a": [0.5], "b": [0.5], "name": ["x"]}),
        r"must be numbers, but.*'name'",
        r"drop",
    ),
    "a pandas frame with a missing entry": (
        pd.DataFrame({"a": [0.5, None], "b": [0.5, 0.5]}, dtype="Float64"),
        r"row 1, column 0|row 1",
        r"remove or repair|drop",
    ),
    "a polars frame with a missing entry": (
        pl.DataFrame({"a": [0.5, None], "b": [0.5, 0.5]}),
        r"must be finite, but row 1, column 0 is nan",
        r"remove or repair",
    ),
}

BAD_LOGITS = {
    "plus infinity": ([[0.0, np.inf]], r"must be finite, but row 0, column 1 is inf", r"large negative"),
    "minus infinity": ([[0.0, 1.0], [-np.inf, 0.0]], r"row 1, column 0 is -inf", r"large negative number"),
    "infinite of both signs": ([[-np.inf, np.inf]], r"row 0, column 0 is -inf", r"large negative number"),
    "NaN": ([[0.0, np.nan]], r"must be finite, but row 0, column 1 is nan", r"replace|remove"),
    "strings": ([["0.5", "0.5"]], r"logits must be real numbers, not <U3", r"convert|drop|pass"),
    "no rows": (np.empty((0, 2)), r"logits are empty", r"at least one row"),
    "three axes": (
        np.zeros((1, 2, 2)),
        r"logits must be a table.*\(1, 2, 2\)",
        r"pass Predictions.from_logits",
    ),
}

BAD_LABELS = {
    "out of range": ([0, 1, 2, 3], r"column numbers 0\.\.2, but row 3 has 3", r"classes=\[\.\.\.\]"),
    "negative": ([0, 1, -1, 2], r"column numbers 0\.\.2, but row 2 has -1", r"classes=\[\.\.\.\]"),
    "too few words": (
        ["a", "b", "a", "b"],
        r"\['a', 'b'\] cannot be matched to 3 columns",
        r"name the columns",
    ),
    "too many words": (["a", "b", "c", "d"], r"4 different labels .* to 3 columns", r"name the columns"),
    "fewer than rows": ([0, 1, 2], r"4 rows of predictions but 3 labels", r"one label per row"),
    "more than rows": ([0, 1, 2, 0, 1], r"4 rows of predictions but 5 labels", r"one label per row"),
    "none": ([], r"there are no labels", r"at least one row"),
    "NaN among floats": ([0, 1, np.nan, 1], r"row 2 has nan", r"remove rows without a label"),
    "NaN among strings": (["a", "b", np.nan, "c"], r"row 2 has nan", r"remove rows without a label"),
    "NaN among objects": (
        np.array(["a", "b", np.nan, "c"], object),
        r"row 2 has nan",
        r"remove rows without",
    ),
    "missing among integers": ([0, 1, None, 1], r"row 2 has None", r"remove rows without a label"),
    "missing among strings": (["a", None, "b", "c"], r"row 1 has None", r"remove rows without a label"),
    "missing in pandas": (pd.Series([0, None, 1, 2], dtype="Int64"), r"row 1 has", r"remove rows without"),
    "missing in polars": (pl.Series([0, None, 1, 2]), r"row 1 has", r"remove rows without a label"),
    "fractions": ([0, 1, 0.5, 1], r"row 2 has 0\.5", r"pass integers or strings"),
    "floats beyond integers": ([0, 1, 1e300, 1], r"row 2 has 1e\+300", r"pass integers or strings"),
    "strings and integers": (["a", 1, "b", 2], r"all strings or all integers.*row 1 has 1", r"convert"),
    "huge integers": (
        [0, 1, 10**30, 2],
        r"integers below 2\^63, but row 2 has 1000",
        r"pass them as strings",
    ),
    "one-hot": (np.eye(3)[LABELS], r"one-dimensional, but have shape \(4, 3\)", r"argmax\(axis=1\)"),
    "a single number": (1, r"one-dimensional, but have shape \(\)", r"pass"),
    "ragged": ([[0], [1, 2], [1], [0]], r"labels must be one-dimensional", r"pass one label per row"),
    "bytes": ([b"a", b"b", b"c", b"a"], r"integers or strings, not \|S1", r"convert|decode"),
    "dates": (np.array(["2020-01-01"] * 4, "M8[D]"), r"integers or strings, not datetime64", r"convert"),
}

BAD_WEIGHTS = {
    "negative": ([1, 1, -1, 1], r"finite and not negative, but row 2 has -1", r"set|remove|pass"),
    "NaN": ([1, 1, 1, np.nan], r"finite and not negative, but row 3 has nan", r"set|remove|pass"),
    "infinite": ([1, np.inf, 1, 1], r"finite and not negative, but row 1 has inf", r"set|remove|pass"),
    "too few": ([1, 1], r"one number per row, but has shape \(2,\) for 4 rows", r"pass"),
    "a matrix": ([[1], [1], [1], [1]], r"one number per row, but has shape \(4, 1\)", r"pass|flatten"),
    "a single number": (2.0, r"one number per row, but has shape \(\) for 4 rows", r"pass"),
    "all zero": ([0, 0, 0, 0], r"zero for every row", r"at least one row must count"),
    "strings": (["a", "b", "c", "d"], r"must be numbers", r"pass|one per row"),
    "complex": ([1 + 0j] * 4, r"must be real numbers", r"pass one per row"),
    "too large to add up": ([1e308] * 4, r"too large to be added up", r"divide"),
}


def cases(table):
    return pytest.mark.parametrize(("given", "what", "advice"), table.values(), ids=table)


def assert_one_sentence_with_advice(message, what, advice):
    """A fact, then after a semicolon what to do, then a full stop and nothing more."""
    assert re.search(what, message), message
    assert message.endswith("."), message
    assert "\n" not in message
    assert not re.search(r"(?<!\.)\.\s", message), f"more than one sentence: {message}"
    assert len(message) < 300
    assert ";" in message, f"no advice: {message}"
    assert re.search(advice, message.split(";", 1)[1]), f"other advice: {message}"


def refusal(error, function, *arguments):
    with pytest.raises(error) as refused:
        function(*arguments)
    assert isinstance(refused.value, ValueError)  # so that code written for scikit-learn can catch it
    return str(refused.value)


@cases(BAD_PROBABILITIES)
def test_bad_probabilities_are_refused(given, what, advice):
    message = refusal(PredictionError, Predictions.from_probabilities, given)
    assert_one_sentence_with_advice(message, what, advice)


@cases(BAD_PROBABILITIES)
def test_bad_probabilities_are_refused_at_prediction_too(given, what, advice):
    fitted = Identity().fit(TWO_CLASSES, [0, 1, 1, 0])
    message = refusal(PredictionError, fitted.predict_proba, given)
    assert_one_sentence_with_advice(message, what, advice)


@cases(BAD_LOGITS)
def test_bad_logits_are_refused(given, what, advice):
    message = refusal(PredictionError, Predictions.from_logits, given)
    assert_one_sentence_with_advice(message, what, advice)


@cases(BAD_LABELS)
def test_bad_labels_are_refused(given, what, advice):
    message = refusal(LabelError, TemperatureScaling().fit, PROBABILITIES, given)
    assert_one_sentence_with_advice(message, what, advice)


@cases(BAD_WEIGHTS)
def test_bad_weights_are_refused(given, what, advice):
    message = refusal(WeightError, TemperatureScaling().fit, PROBABILITIES, LABELS, given)
    assert_one_sentence_with_advice(message, what, advice)


@pytest.mark.parametrize("given", [[0.2, 0.7, 0.4, 0.9], [[0.2], [0.7], [0.4], [0.9]], TWO_CLASSES])
@pytest.mark.parametrize("labels", [LABELS, WORDS])
def test_two_classes_with_more_than_two_labels(given, labels):
    message = refusal(LabelError, LabelledPredictions.parse, given, labels)
    assert_one_sentence_with_advice(
        message, r"have two classes .* 3 different values \[", r"pass one column per class"
    )


def test_labels_that_are_not_among_the_named_classes():
    named = Predictions.from_probabilities(PROBABILITIES, classes=["ant", "bee", "cat"])
    message = refusal(LabelError, LabelledPredictions.parse, named, ["ant", "bee", "dog", "cow"])
    assert_one_sentence_with_advice(
        message,
        r"\['cow', 'dog'\] are not among the classes \['ant', 'bee', 'cat'\]",
        r"correct the labels or the class names",
    )


def test_many_unknown_labels_are_listed_in_part():
    message = refusal(LabelError, LabelledPredictions.parse, [[0.2, 0.3, 0.5]] * 9, list("abcdefghi"))
    assert "['a', 'b', 'c', 'd', 'e', ... 9 in all]" in message


@pytest.mark.parametrize("labels", [[1, 1, 1, 1], ["bee"] * 4])
def test_rows_of_one_class_only(labels):
    named = Predictions.from_probabilities(PROBABILITIES, classes=["ant", "bee", "cat"])
    message = refusal(LabelError, TemperatureScaling().fit, named, labels)
    assert_one_sentence_with_advice(
        message, r"all 4 labels are class (1|'bee')", r"at least two classes are needed"
    )


def test_rows_of_one_class_once_those_without_weight_are_left_out():
    message = refusal(LabelError, TemperatureScaling().fit, PROBABILITIES, LABELS, [1, 0, 0, 0])
    assert_one_sentence_with_advice(message, r"class 0", r"at least two classes are needed")


@pytest.mark.parametrize("labels", [[0, 1, 1, 0], ["no", "yes", "yes", "no"], pd.Series([0, 1, 1, 0])])
@pytest.mark.parametrize(
    "scores",
    [TWO_CLASSES, np.array(TWO_CLASSES)[:, 1], pd.DataFrame(TWO_CLASSES), Predictions.parse(TWO_CLASSES)],
)
def test_swapped_labels_and_predictions_are_named(labels, scores):
    for call in (
        lambda: TemperatureScaling().fit(labels, scores),
        lambda: log_loss(scores, labels),
        lambda: confidence_ece(scores, labels),
        lambda: assess(scores, labels),
    ):
        message = refusal(LabelError, call)
        assert_one_sentence_with_advice(
            message, r"labels and predictions are swapped", r"take \(y, p\), calibrators fit\(p, y\)"
        )


@pytest.mark.parametrize(
    ("predictions", "labels"),
    [(TWO_CLASSES, np.eye(2)[[0, 1, 1, 0]]), ([0.1, 0.2], [0.1, 0.3]), ([[0.5, 0.5], [0.5]], [0, 1])],
)
def test_other_mistakes_are_not_called_swapped(predictions, labels):
    with pytest.raises(ValueError, match=r"^(?!.*swapped)"):
        LabelledPredictions.parse(predictions, labels)


def test_another_number_of_columns_than_in_fit():
    fitted = TemperatureScaling().fit(PROBABILITIES, LABELS)
    message = refusal(PredictionError, fitted.predict_proba, TWO_CLASSES)
    assert_one_sentence_with_advice(
        message, r"fitted on 3 classes, but these predictions have 2 columns", r"same columns as in fit"
    )


def test_columns_permuted_at_prediction():
    words = ["ant", "bee", "cat"]
    fitted = TemperatureScaling().fit(pd.DataFrame(PROBABILITIES, columns=words), WORDS)
    permuted = pd.DataFrame(PROBABILITIES, columns=["ant", "cat", "bee"])
    message = refusal(PredictionError, fitted.predict_proba, permuted)
    assert_one_sentence_with_advice(
        message, r"column 1 is class 'cat', but in fit it was 'bee'", r"order of classes_"
    )


def test_columns_permuted_at_prediction_when_their_names_are_not_the_labels():
    """Columns p_ant, p_bee, p_cat with labels 0, 1, 2: the names are no labels, yet tell that they moved."""
    names = ["p_ant", "p_bee", "p_cat"]
    fitted = TemperatureScaling().fit(pd.DataFrame(PROBABILITIES, columns=names), LABELS)
    permuted = pd.DataFrame(PROBABILITIES, columns=names[::-1])
    message = refusal(PredictionError, fitted.predict_proba, permuted)
    assert_one_sentence_with_advice(message, r"column 0 is .*'p_cat'.* in fit .*'p_ant'", r"order")


def test_columns_of_other_names_at_prediction_are_taken_by_position():
    """A test file may well call its columns otherwise; only a permutation of the same names is an error."""
    fitted = TemperatureScaling().fit(pd.DataFrame(PROBABILITIES, columns=["ant", "bee", "cat"]), WORDS)
    renamed = pd.DataFrame(PROBABILITIES, columns=["x", "y", "z"])
    np.testing.assert_array_equal(fitted.predict_proba(renamed), fitted.predict_proba(PROBABILITIES))


@pytest.mark.parametrize(
    "classes", [["a", "a", "b"], ["a", "b"], [0.1, 0.2, 0.3], ["a", "b", None], [["a", "b", "c"]], "abc"]
)
def test_class_names_must_be_different_strings_or_integers(classes):
    with pytest.raises(
        PredictionError, match=r"classes must be 3 different strings or integers, one per column"
    ):
        Predictions.from_probabilities(PROBABILITIES, classes=classes)


@pytest.mark.parametrize("floor", [0.0, 1.0, -1e-9, np.nan, np.inf])
def test_the_floor_must_be_a_probability(floor):
    with pytest.raises(PredictionError, match=r"floor must lie strictly between 0 and 1"):
        Predictions.from_probabilities(PROBABILITIES, floor=floor)
    with pytest.raises(PredictionError, match=r"floor must lie strictly between 0 and 1"):
        Predictions.from_probabilities(PROBABILITIES).with_floor(floor)


def test_masked_entries_are_refused_rather_than_read():
    """What is under a mask is not a prediction."""
    masked = np.ma.masked_array(TWO_CLASSES, mask=[[False, False], [True, True], [False] * 2, [False] * 2])
    message = refusal(PredictionError, Predictions.from_probabilities, masked)
    assert_one_sentence_with_advice(message, r"row 1|masked", r"remove|repair|fill")
