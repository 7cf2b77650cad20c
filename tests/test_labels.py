"""Labels to column numbers: every rule, and which rule comes first."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant import LabelledPredictions, Predictions
from calibrant.errors import CalibrationWarning, LabelError
from calibrant.labels import encode_labels
from strategies import class_orders, labels_with_all_classes


def encoded(labels, n_classes, classes=None):
    codes, names = encode_labels(labels, n_classes, None if classes is None else np.asarray(classes))
    return codes.tolist(), names.tolist()


# Column numbers


def test_integers_are_column_numbers_whether_or_not_all_occur():
    assert encoded([2, 0, 2], 5) == ([2, 0, 2], [0, 1, 2, 3, 4])


def test_a_single_integer_label_will_do():
    assert encoded([3], 4) == ([3], [0, 1, 2, 3])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, np.float32, np.float64, object])
def test_any_type_that_holds_whole_numbers_gives_column_numbers(dtype):
    codes, names = encode_labels(np.array([1, 0, 2], dtype=dtype), 3)
    assert codes.tolist() == [1, 0, 2]
    assert codes.dtype == np.intp
    assert names.tolist() == [0, 1, 2]


@pytest.mark.parametrize("labels", [[True, False], np.array([True, False]), [np.True_, np.False_]])
def test_true_and_false_are_one_and_zero(labels):
    assert encoded(labels, 2) == ([1, 0], [0, 1])


def test_column_numbers_that_are_parsed_already_are_not_copied():
    labels = np.array([0, 1, 1], dtype=np.intp)
    assert np.shares_memory(encode_labels(labels, 2)[0], labels)


@pytest.mark.parametrize(
    "labels",
    [
        (0, 1, 1),
        [[0], [1], [1]],
        pd.Series([0, 1, 1], index=[7, 8, 9]),
        pd.Series([0, 1, 1], dtype="Int64"),
        pd.DataFrame({"y": [0, 1, 1]}),
        pl.Series([0, 1, 1]),
        pl.DataFrame({"y": [0, 1, 1]}),
    ],
    ids=["tuple", "column", "pandas", "nullable", "pandas frame", "polars", "polars frame"],
)
def test_containers_of_integers(labels):
    assert encoded(labels, 3) == ([0, 1, 1], [0, 1, 2])


# Sorted order


def test_strings_match_by_sorted_order_when_all_occur():
    assert encoded(["dog", "ant", "cat", "ant"], 3) == ([2, 0, 1, 0], ["ant", "cat", "dog"])


def test_other_integers_match_by_sorted_order_when_all_occur():
    assert encoded([30, 10, 20], 3) == ([2, 0, 1], [10, 20, 30])
    assert encoded([-1, 1, -1], 2) == ([0, 1, 0], [-1, 1])
    assert encoded([1, 2, 3], 3) == ([0, 1, 2], [1, 2, 3])


def test_strings_of_digits_are_strings():
    """Sorted as words: '10' comes before '2'."""
    assert encoded(["2", "10", "1"], 3) == ([2, 1, 0], ["1", "10", "2"])


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["b", "a", "b"], dtype=object),
        pd.Series(["b", "a", "b"]),
        pd.Series(["b", "a", "b"], dtype="string"),
        pd.Series(["b", "a", "b"], dtype="category"),
        pd.Categorical(["b", "a", "b"], categories=["b", "a"]),
        pl.Series(["b", "a", "b"]),
        pl.Series(["b", "a", "b"], dtype=pl.Categorical),
    ],
    ids=["object", "pandas", "string", "category", "categorical", "polars", "polars category"],
)
def test_containers_of_strings(labels):
    assert encoded(labels, 2) == ([1, 0, 1], ["a", "b"])


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="numpy 2 brought strings of any length")
def test_numpy_strings_of_any_length():
    assert encoded(np.array(["b", "a", "b"], dtype=np.dtypes.StringDType()), 2) == ([1, 0, 1], ["a", "b"])


# Names given with the predictions


def test_named_columns_match_whatever_their_order_and_whether_or_not_all_occur():
    assert encoded(["cat", "dog"], 3, ["dog", "ant", "cat"]) == ([2, 0], ["dog", "ant", "cat"])


def test_named_integers_match_whatever_their_order():
    assert encoded([7, 3], 3, [7, 5, 3]) == ([0, 2], [7, 5, 3])


def test_longer_labels_than_names_are_not_cut_to_fit():
    """Arrays of strings have a width; 'category' must not become 'cat'."""
    with pytest.raises(LabelError, match=r"\['category'\] are not among"):
        encode_labels(["cat", "category"], 3, np.array(["ant", "bee", "cat"]))


# Precedence


def test_names_come_before_column_numbers():
    """Columns named 1, 0: label 0 is then the second column."""
    assert encoded([0, 1, 1], 2, [1, 0]) == ([1, 0, 0], [1, 0])


def test_names_come_before_sorted_order():
    assert encoded(["a", "b"], 2, ["b", "a"]) == ([1, 0], ["b", "a"])


def test_column_numbers_come_before_sorted_order():
    """Labels 0 and 2 of three classes are columns 0 and 2; of two classes they can only be sorted."""
    assert encoded([0, 2], 3) == ([0, 2], [0, 1, 2])
    assert encoded([0, 2], 2) == ([0, 1], [0, 2])


def test_column_numbers_still_work_when_the_columns_have_other_names():
    """A frame with columns p_cat, p_dog and labels 0, 1."""
    assert encoded([1, 0, 1], 2, ["p_cat", "p_dog"]) == ([1, 0, 1], [0, 1])


@pytest.mark.parametrize("columns", [["p_dog", "p_cat"], ["dog (%)", "cat (%)"], ["p_dog_1", "p_cat_1"]])
def test_names_of_columns_may_share_a_beginning_and_an_end(columns):
    assert encoded(["dog", "cat"], 2, columns) == ([0, 1], ["dog", "cat"])
    assert encoded(["cat"], 2, columns) == ([1], ["dog", "cat"])


@pytest.mark.parametrize("columns", [["p0", "p1"], ["1", "2"], ["score 1 of 2", "score 2 of 2"]])
def test_sorted_order_decides_where_names_only_count_the_columns(columns):
    assert encoded(["dog", "cat"], 2, columns) == ([1, 0], ["cat", "dog"])


@pytest.mark.parametrize("columns", [["cat", "p_dog"], ["Dog", "Cat"], ["x", "y"]])
def test_sorted_order_does_not_overrule_names(columns):
    """Columns Dog, Cat with labels dog, cat would be swapped without a word."""
    frame = pd.DataFrame([[0.2, 0.8], [0.6, 0.4]], columns=columns)
    with pytest.raises(
        LabelError, match=r"are not among the classes .*; correct the labels or the class names"
    ):
        LabelledPredictions.parse(frame, ["dog", "cat"])


def shifted_problem(n_rows=200, n_classes=4, right=0.8, seed=0):
    """Return probabilities whose arg-max is right in 80 % of the rows, and true column numbers."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, n_classes, n_rows)
    predicted = np.where(generator.random(n_rows) < right, labels, generator.integers(0, n_classes, n_rows))
    return np.full((n_rows, n_classes), 0.1) + (1 - 0.1 * n_classes) * np.eye(n_classes)[predicted], labels


@pytest.mark.parametrize(
    ("first", "absent", "named"),
    [(1, 3, r"1\.\.4.*classes=\[1, \.\.\., 4\]"), (-1, 0, r"-1\.\.2.*classes=\[-1, \.\.\., 2\]")],
)
def test_labels_that_start_elsewhere_without_one_class_are_told(first, absent, named):
    """Labels 1..4 without 4, or -1..2 without -1, pass for column numbers."""
    p, labels = shifted_problem()
    kept = labels != absent
    with pytest.warns(CalibrationWarning, match=rf"far better as {named}"):
        LabelledPredictions.parse(p[kept], labels[kept] + first)
    names = np.arange(first, first + 4)
    data = LabelledPredictions.parse(
        Predictions.from_probabilities(p[kept], classes=names), labels[kept] + first
    )
    assert data.labels.tolist() == labels[kept].tolist()


@pytest.mark.parametrize("right", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("absent", [0, 3])
def test_column_numbers_without_one_class_are_not_suspected(right, absent):
    """From classifiers that only guess to good ones; the settings make every warning an error."""
    for seed in range(20):
        p, labels = shifted_problem(right=right, seed=seed)
        kept = labels != absent
        assert LabelledPredictions.parse(p[kept], labels[kept]).labels.tolist() == labels[kept].tolist()


def test_column_names_of_a_plain_pandas_frame_are_the_column_numbers():
    data = LabelledPredictions.parse(pd.DataFrame([[0.2, 0.5, 0.3]] * 2), [2, 0])
    assert (data.labels.tolist(), data.classes.tolist()) == ([2, 0], [0, 1, 2])


def test_names_given_to_logits_count_as_well():
    named = Predictions.from_logits([[0.0, 1.0, 2.0]], classes=["x", "y", "z"])
    assert LabelledPredictions.parse(named, ["y"]).labels.tolist() == [1]


# Refusals are tested with their words in test_bad_input.py; here only where the rules end.


@pytest.mark.parametrize(
    ("labels", "n_classes", "classes"),
    [
        (["a", "b"], 3, None),
        ([0, 3], 3, None),
        ([-1, 0], 3, None),
        (["a", "x"], 3, ["a", "b", "c"]),
        (["0", "1"], 3, None),
        ([5, 6], 3, [1, 2, 3]),
    ],
)
def test_labels_outside_all_rules_are_refused(labels, n_classes, classes):
    with pytest.raises(LabelError):
        encode_labels(labels, n_classes, None if classes is None else np.array(classes))


@pytest.mark.parametrize("container", [list, lambda labels: np.array(labels, dtype=object), pd.Series])
def test_a_nul_character_at_the_end_does_not_merge_two_labels(container):
    with pytest.raises(LabelError, match=r"row 2 has 'a\\x00'; remove it"):
        encode_labels(container(["a", "b", "a\0"]), 2)


# Properties


@given(data=st.data(), n_classes=st.integers(2, 6))
def test_codes_lead_back_to_the_labels(data, n_classes):
    codes = data.draw(labels_with_all_classes(n_classes + 5, n_classes))
    names = np.array(["ant", "bee", "cat", "dog", "eel", "fox"])[:n_classes]
    shuffled = names[data.draw(class_orders(n_classes))]
    for classes in (None, shuffled):
        found, columns = encode_labels(names[codes], n_classes, classes)
        np.testing.assert_array_equal(columns[found], names[codes])
        np.testing.assert_array_equal(columns, names if classes is None else shuffled)


@given(labels=st.lists(st.integers(0, 4), min_size=1, max_size=8))
def test_column_numbers_are_their_own_codes(labels):
    assert encoded(labels, 5) == (labels, [0, 1, 2, 3, 4])


@pytest.mark.parametrize("names", [["ant", "bee", "cat"], [1, 2, 3]])
def test_categories_name_the_classes_also_where_one_does_not_occur(names):
    """Categories come from the data frame, so nothing need be guessed; columns are in sorted order."""
    labels = pd.Series(pd.Categorical([names[1], names[0]], categories=names[::-1]))
    codes, classes = encode_labels(labels, 3)
    assert codes.tolist() == [1, 0]
    assert classes.tolist() == names


def test_more_categories_than_columns_do_not_count():
    labels = pd.Series(pd.Categorical(["bee", "ant"], categories=["ant", "bee", "cat"]))
    codes, classes = encode_labels(labels, 2)
    assert codes.tolist() == [1, 0]
    assert classes.tolist() == ["ant", "bee"]
