"""Which column stands for which class: by name, by number, or in an order that the user is told of."""

from pathlib import Path

import numpy as np
import pytest

from calibrant.errors import LabelError, PredictionError
from calibrant.space import Space
from calibrant.tables import read_predictions
from calibrant.tables.class_matching import match_classes
from calibrant.tables.columns import ScoreColumns, columns_asked_for, listed, without_common_ends
from calibrant.tables.file_set import open_source
from calibrant.tables.rewriting import rewrite

FILE = Path("a.csv")


def matched(columns, labels):
    return match_classes(
        FILE,
        ScoreColumns(tuple(columns), tuple(columns)),
        {label: f"row {i + 1}" for i, label in enumerate(labels)},
    )


@pytest.mark.parametrize(
    ("columns", "labels", "classes"),
    [
        (["cat", "dog"], ["dog", "cat"], ["cat", "dog"]),
        (["dog", "cat"], ["cat", "dog"], ["dog", "cat"]),
        (["p_dog", "p_cat"], ["cat", "dog"], ["dog", "cat"]),
        (["dog_p", "cat_p"], ["cat"], ["dog", "cat"]),
        (["0", "1", "2"], ["2", "0"], [0, 1, 2]),
        (["p_0", "p_1"], [0, 1], [0, 1]),
        (["10", "20"], [20, 10], [10, 20]),
        (["p_10", "p_11"], ["11", "10"], [10, 11]),
        (["007", "008"], ["008"], ["007", "008"]),
        (["a", "b"], ["0", "1.0"], ["a", "b"]),
    ],
)
def test_columns_are_matched_by_name_or_number(columns, labels, classes):
    found = matched(columns, labels)
    assert found.classes.tolist() == classes
    assert found.note is None


def test_names_that_say_nothing_are_matched_in_sorted_order_with_a_note():
    found = matched(["p_0", "p_1"], ["no", "yes"])
    assert found.classes.tolist() == ["no", "yes"]
    assert "sorted order: p_0 is 'no', p_1 is 'yes'" in found.note


def test_names_that_say_something_else_are_never_matched_by_order():
    """In sorted order dog would silently become the class of the column cat."""
    with pytest.raises(
        LabelError, match="label 'dog' in row 1 matches none of the score columns, 'cat' and 'cow'"
    ):
        matched(["cat", "cow"], ["dog", "owl"])


def test_one_unknown_label_is_named_with_its_row():
    with pytest.raises(LabelError, match="the label 'emu' in row 3 matches none"):
        matched(["cat", "dog"], ["cat", "dog", "emu"])
    with pytest.raises(LabelError, match="the label 7 in row 2 matches none"):
        matched(["a", "b"], [0, 7, 1])


@pytest.mark.parametrize(
    ("column", "labels", "classes", "is_noted"),
    [
        ("score", [0, 1], [0, 1], False),
        ("score", [1], [0, 1], False),
        ("cat", ["cat", "dog"], ["dog", "cat"], False),
        ("score", ["no", "yes"], ["no", "yes"], True),
        ("score", [1, 2], [1, 2], True),
    ],
)
def test_one_column_is_the_positive_class_of_two(column, labels, classes, is_noted):
    found = matched([column], labels)
    assert found.classes.tolist() == classes
    assert (found.note is not None) == is_noted


def test_one_column_and_three_labels_are_refused():
    with pytest.raises(LabelError, match="a single score column is for two classes, but there are 3 labels"):
        matched(["score"], ["a", "b", "c"])
    with pytest.raises(LabelError, match="all labels are 'a'"):
        matched(["score"], ["a"])


@pytest.mark.parametrize(
    ("columns", "names", "classes"),
    [
        ("p_*", ("p_a", "p_b"), ("a", "b")),
        ("*_a", ("p_a", "q_a"), ("p", "q")),
        ("p_?", ("p_a", "p_b"), ("p_a", "p_b")),
        ("p_b, p_a", ("p_b", "p_a"), ("p_b", "p_a")),
        ("with,comma", ("with,comma",), ("with,comma",)),
        ("star*", ("star*",), ("star*",)),
    ],
)
def test_columns_are_chosen_by_pattern_or_by_name(columns, names, classes):
    available = ["id", "p_a", "p_b", "q_a", "with,comma", "star*"]
    assert columns_asked_for(FILE, available, columns) == ScoreColumns(names, classes)


def test_columns_that_are_not_there_are_refused():
    with pytest.raises(PredictionError, match=r"no column matches the pattern 'x_\*'; there are 'a' and 'b'"):
        columns_asked_for(FILE, ["a", "b"], "x_*")
    with pytest.raises(PredictionError, match=r"no score column 'p_c'; did you mean 'p_a'\?"):
        columns_asked_for(FILE, ["p_a"], "p_a,p_c")
    with pytest.raises(PredictionError, match="the requested columns have 'a' twice"):
        columns_asked_for(FILE, ["a", "b"], "a,a")


def test_common_ends_are_taken_off():
    assert without_common_ends(["p_cat_x", "p_dog_x"]) == ("cat", "dog")
    assert without_common_ends(["one"]) == ("one",)


def test_lists_are_short():
    assert listed(np.arange(100).tolist(), 3) == "0, 1, 2 and 97 more"


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".feather", ".npz"])
def test_labels_with_a_nul_are_refused(tmp_path, ending):
    """numpy drops a NUL at the end of text, so that two classes would become one."""
    path = tmp_path / f"rows{ending}"
    labels = ["a\0b", "c"] * 3 if ending == ".npz" else ["a\0", "a"] * 3
    if ending == ".csv":
        path.write_text("y,p_a,p_b\n" + "".join(f"{label},0.5,0.5\n" for label in labels))
    elif ending == ".npz":
        np.savez(path, y=np.array(labels), probs=np.full((6, 2), 0.5))
    else:
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import feather, parquet

        table = pyarrow.table({"y": labels, "p_a": [0.5] * 6, "p_b": [0.5] * 6})
        (parquet.write_table if ending == ".parquet" else feather.write_feather)(table, path)
    with pytest.raises(LabelError, match=r"row 1.*, column 'y' has a NUL character; remove it"):
        read_predictions(path, space="probabilities", label="y")


def test_a_class_with_a_nul_cannot_name_a_column_of_text(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("y,p_a,p_b\na,0.5,0.5\n")
    with open_source(path) as source:
        columns = source.score_columns("p_*", ["y"], Space.PROBABILITIES)
        with pytest.raises(PredictionError, match="would have a NUL character in its name"):
            rewrite(
                source,
                tmp_path / "out.csv",
                columns,
                Space.PROBABILITIES,
                lambda rows: rows.probabilities,
                appended=["q_a\0b", "q_b"],
            )
    assert sorted(tmp_path.iterdir()) == [path]
