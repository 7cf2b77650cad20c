"""Parquet and Feather files: types of all columns stay, and scores of any type of numbers are read."""

import numpy as np
import pytest
from prediction_files import arrow_table, write

from calibrant.errors import FileFormatError, LabelError, PredictionError
from calibrant.space import Space
from calibrant.tables import open_source, read_predictions, rewrite

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
feather = pytest.importorskip("pyarrow.feather")

both = pytest.mark.parametrize("ending", [".parquet", ".feather"])


def write_table(table, path):
    if path.suffix == ".parquet":
        parquet.write_table(table, path, compression="gzip")
    else:
        feather.write_feather(table, path)
    return path


def read_table(path):
    return parquet.read_table(path) if path.suffix == ".parquet" else feather.read_table(path)


def rewritten(path, output, columns):
    with open_source(path) as source:
        chosen = source.score_columns(columns, [], Space.PROBABILITIES)
        rewrite(source, output, chosen, Space.PROBABILITIES, lambda p: p.probabilities, n_rows=7)
    return read_table(output)


@both
def test_all_other_columns_keep_values_and_types(tmp_path, ending):
    path = write(tmp_path / f"a{ending}")
    found = rewritten(path, tmp_path / f"b{ending}", "p_*")
    assert found.equals(read_table(path))
    assert found.schema.metadata == read_table(path).schema.metadata


@both
def test_float32_stays_and_integers_become_floats(tmp_path, ending):
    table = pa.table(
        {"y": ["a", "b"], "a": pa.array([1, 0], pa.int8()), "b": pa.array([0.0, 1.0], pa.float32())}
    )
    path = write_table(table, tmp_path / f"a{ending}")
    found = rewritten(path, tmp_path / f"b{ending}", "a,b")
    assert found.schema.types == [pa.string(), pa.float64(), pa.float32()]
    assert found.column("a").to_pylist() == [1.0, 0.0]


def test_scores_of_float32_are_read_as_such(tmp_path):
    table = pa.table({"y": [0, 1], **{name: pa.array([0.5, 0.5], pa.float32()) for name in "ab"}})
    path = write_table(table, tmp_path / "a.parquet")
    assert read_predictions(path, space="probabilities").predictions.scores.dtype == np.float32


def test_the_compression_of_parquet_stays(tmp_path):
    path = write_table(arrow_table(), tmp_path / "a.parquet")
    rewritten(path, tmp_path / "b.parquet", "p_*")
    assert parquet.ParquetFile(tmp_path / "b.parquet").metadata.row_group(0).column(0).compression == "GZIP"


@both
@pytest.mark.parametrize(
    "labels",
    [
        pa.array([0, 1, 1], pa.int8()),
        pa.array([0.0, 1.0, 1.0]),
        pa.array([False, True, True]),
        pa.array(["0", "1", "1"]),
        pa.array(["0", "1", "1"]).dictionary_encode(),
    ],
    ids=["int", "float", "bool", "text", "dictionary"],
)
def test_labels_of_many_types_are_column_numbers(tmp_path, ending, labels):
    table = pa.table({"y": labels, "a": [0.5] * 3, "b": [0.5] * 3})
    path = write_table(table, tmp_path / f"a{ending}")
    assert read_predictions(path, space="probabilities").labels.tolist() == [0, 1, 1]


@both
@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"y": [0, None], "a": [0.5, 0.5], "b": [0.5, 0.5]}, "row 2, column 'y' is empty"),
        (
            {"y": [0, 0.5], "a": [0.5, 0.5], "b": [0.5, 0.5]},
            "row 2, column 'y' is 0.5; labels and groups must be integers",
        ),
        ({"y": [[0], [1]], "a": [0.5, 0.5], "b": [0.5, 0.5]}, "column 'y' is of type list"),
        ({"y": [0, 1], "a": [0.5, None], "b": [0.5, 0.5]}, "row 2, column 'a' has no value"),
        ({"y": [0, 1], "a": [0.5, float("inf")], "b": [0.5, 0.5]}, "row 2, column 'a' is inf"),
        ({"y": [0, 1], "a": ["x", "0.5"], "b": [0.5, 0.5]}, "column 'a' is of type string"),
        ({"y": pa.array([], pa.int64()), "a": pa.array([], pa.float64())}, "columns but no rows"),
    ],
)
def test_what_is_wrong_is_named_by_row_and_column(tmp_path, ending, columns, sentence):
    path = write_table(pa.table(columns), tmp_path / f"a{ending}")
    with pytest.raises((LabelError, PredictionError, FileFormatError), match=sentence):
        read_predictions(path, space="probabilities", columns=",".join(list(columns)[1:]))
