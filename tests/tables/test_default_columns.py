"""Columns that nobody chose: numbers of rows are no scores, and no column is a class by accident."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.errors import LabelError, ParameterError, PredictionError
from calibrant.tables import open_source, read_predictions
from calibrant.tables.columns import counts_rows, labels_in, shared_affixes
from calibrant.tables.prediction_file import PredictionFile

LOGITS = [("cat", 1.5, -0.5), ("dog", 0.25, 1.0), ("cat", 0.5, 0.5), ("dog", -1.0, 2.0)]


def write_table(path, header, extra, rows=LOGITS):
    """Write label and two logits, and before them one more column with these cells."""
    lines = [",".join(header), *(f"{more},{a},{b},{c}" for more, (a, b, c) in zip(extra, rows, strict=True))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def opened(path, **options):
    return PredictionFile(open_source(path), **{"space": "logits", "label": "y", **options})


@pytest.mark.parametrize(
    "name", ["", "Unnamed: 0", "Unnamed: 0.1", "__index_level_0__", "id", "ID", "index", "row"]
)
def test_columns_called_as_row_numbers_are_never_scores(tmp_path, name):
    """Also with numbers that are not distinct, where the name alone tells."""
    path = write_table(tmp_path / "a.csv", [name, "y", "cat", "dog"], [1, 1, 2, 2])
    with opened(path) as file:
        assert file.columns.names == ("cat", "dog")
        assert file.read().predictions.n_classes == 2
        assert file.notes == [
            f"column {name!r} is ignored, since it looks like a row number; choose the columns if it has scores."
        ]


def test_whole_numbers_of_which_none_occurs_twice_are_never_scores(tmp_path):
    path = write_table(tmp_path / "a.csv", ["case", "y", "p_cat", "p_dog"], [17, 4, 23, 5])
    with opened(path) as file:
        assert [table.predictions.n_classes for table in file.batches(2)] == [2, 2]
        assert "column 'case' is ignored" in file.notes[0]


@pytest.mark.parametrize("ending", ["parquet", "feather"])
def test_the_index_of_pandas_in_arrow_files_is_left_out(tmp_path, ending):
    pa = pytest.importorskip("pyarrow")
    parquet, feather = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow.feather")
    y, cat, dog = zip(*LOGITS, strict=True)
    table = pa.table(
        {"y": y, "cat": cat, "dog": dog, "case": [9, 8, 7, 5], "__index_level_0__": [0, 0, 1, 1]}
    )
    path = tmp_path / f"a.{ending}"
    (parquet.write_table if ending == "parquet" else feather.write_feather)(table, path)
    with opened(path) as file:
        assert file.columns.names == ("cat", "dog")
        assert file.columns.left_out == ("case", "__index_level_0__")


def test_integer_logits_are_scores_where_all_columns_are_such(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("y,cat,dog\ncat,3,1\ndog,1,2\ncat,5,4\n")
    assert read_predictions(path, space="logits").predictions.scores.tolist() == [[3, 1], [1, 2], [5, 4]]


def test_a_column_beside_those_of_the_labels_is_refused_for_logits(tmp_path):
    """The same in memory and in a stream; the labels alone decide."""
    for names in (["cat", "dog"], ["z_cat", "z_dog"], ["cat_z", "dog_z"]):
        path = write_table(tmp_path / "a.csv", ["age", "y", *names], [31, 31, 40, 50])
        sentence = "column 'age' matches no label; choose the columns, with it only if"
        with opened(path) as file, pytest.raises(PredictionError, match=sentence):
            file.read()
        with opened(path) as file, pytest.raises(PredictionError, match=sentence):
            next(file.batches())
        with opened(path, columns=",".join(names)) as file:
            assert file.read().predictions.n_classes == 2


def test_a_class_without_rows_is_no_column_too_many(tmp_path):
    path = write_table(tmp_path / "a.csv", ["z_owl", "y", "z_cat", "z_dog"], [0.5, 0.5, 1.0, 2.0])
    with opened(path) as file:
        assert file.read().predictions.classes.tolist() == ["owl", "cat", "dog"]
    numbered = [("0", 1.5, -0.5), ("1", 0.25, 1.0), ("0", 0.5, 0.5), ("1", -1.0, 2.0)]
    path = write_table(tmp_path / "a.csv", ["2", "y", "0", "1"], [0.5, 0.5, 1.0, 2.0], numbered)
    with opened(path) as file:
        assert file.read().predictions.classes.tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("header", "rows", "name"),
    [
        ("y,id,nv,ut", "id,1.5,0.5,0.2\nnv,0.1,2.5,0.1\nut,0.1,2.5,0.3", "id"),
        ("y,cat,dog", "cat,3,1.5\ndog,1,2.5\ncat,5,2.5", "cat"),
        ("y,z_cat,z_dog", "cat,3,1.5\ndog,1,2.5\ncat,5,2.5", "z_cat"),
    ],
)
def test_no_class_is_left_out_for_looking_like_a_row_number(tmp_path, header, rows, name):
    """In the second table dog alone would be the score of two classes."""
    path = tmp_path / "a.csv"
    path.write_text(f"{header}\n{rows}\n")
    with pytest.raises(
        PredictionError, match=f"column '{name}' looks like a row number but has the name of a label"
    ):
        read_predictions(path, space="logits")
    assert read_predictions(path, space="logits", columns=header[2:]).labels.tolist()[0] in ("id", "cat")


@given(st.lists(st.integers(-50, 50).map(float), min_size=3, unique=True))
def test_distinct_whole_numbers_count_rows_and_a_repetition_does_not(values):
    assert counts_rows(np.array(values))
    assert not counts_rows(np.array([*values, values[0]]))
    assert not counts_rows(np.array(values) + 0.25)


def test_two_certain_predictions_are_no_row_numbers():
    assert not counts_rows(np.array([0.0, 1.0]))


def test_affixes_are_found_where_a_label_is_also_a_letter_of_them():
    """The letters b and p occur before the labels, too."""
    assert shared_affixes(["prob_b", "prob_p", "x"], ["b", "p"]) == ("prob_", "", ["b", "p"])
    assert shared_affixes(["x"], ["cat"]) == ("", "", [])
    assert labels_in("scat", ["cat"]) == []


# One column


def test_one_column_is_about_the_class_that_it_names_or_that_is_asked_for(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("y,p_cat\ncat,0.9\ndog,0.2\n")
    with opened(path, space="probabilities") as file:
        assert file.read().predictions.classes.tolist() == ["dog", "cat"]
        assert file.notes == []
    path.write_text("y,score\ncat,0.9\ndog,0.2\n")
    table = read_predictions(path, space="probabilities", positive="cat")
    assert table.predictions.classes.tolist() == ["dog", "cat"]
    path.write_text("y,score\n0,0.9\n1,0.2\n")
    table = read_predictions(path, space="probabilities", positive="0")
    assert table.predictions.classes.tolist() == [1, 0]


def test_a_positive_class_that_is_none_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("y,score\ncat,0.9\ndog,0.2\n")
    with pytest.raises(LabelError, match="the positive class 'emu' is not among the labels, 'cat' and 'dog'"):
        read_predictions(path, space="probabilities", positive="emu")
    path.write_text("y,cat,dog\ncat,0.9,0.1\n")
    with pytest.raises(ParameterError, match=r"a positive class is for one score column, but .* has 2"):
        read_predictions(path, space="probabilities", positive="cat")


@pytest.mark.parametrize("in_batches", [False, True])
def test_a_guess_that_is_wrong_in_most_rows_is_told(tmp_path, in_batches):
    """Of five rows one is right: the score is about cat, and dog is the last in sorted order."""
    path = tmp_path / "a.csv"
    path.write_text("y,score\ncat,0.9\ndog,0.2\ncat,0.8\ndog,0.4\ndog,0.7\n")
    with opened(path, space="probabilities") as file:
        list(file.batches(2)) if in_batches else file.read()
        assert file.notes[-1] == (
            "only 20.0 % of the predicted classes are correct, so the positive class may be the other one."
        )
    with opened(path, space="probabilities", positive="cat") as file:
        file.read()
        assert file.notes == []
