"""The same rows read the same from every format, at once and in batches."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from prediction_files import CLASSES, rows, write

from calibrant.errors import FileFormatError, LabelError, PredictionError, WeightError
from calibrant.space import Space
from calibrant.tables import PredictionFile, open_source, read_predictions, rewrite

FORMATS = [".csv", ".parquet", ".feather", ".npz"]
every_format = pytest.mark.parametrize("ending", FORMATS)


def columns_of(ending: str) -> str | None:
    return None if ending == ".npz" else "p_*"


def needs_arrow(ending: str) -> None:
    if ending in (".parquet", ".feather"):
        pytest.importorskip("pyarrow")


@every_format
def test_every_format_gives_the_same_rows(tmp_path, ending):
    needs_arrow(ending)
    path = write(tmp_path / f"a{ending}")
    table = read_predictions(path, space="probabilities", label="animal", columns=columns_of(ending))
    p, labels = rows()
    assert_array_equal(table.predictions.scores, p)
    assert_array_equal(table.labels, labels)
    assert table.predictions.classes.tolist() == CLASSES
    assert table.predictions.space is Space.PROBABILITIES


@every_format
@pytest.mark.parametrize("n_rows", [1, 7, 60, 100])
def test_batches_add_up_to_all_rows(tmp_path, ending, n_rows):
    needs_arrow(ending)
    path = write(tmp_path / f"a{ending}")
    with open_source(path) as source:
        file = PredictionFile(source, space="probabilities", label="animal", columns=columns_of(ending))
        batches = list(file.batches(n_rows))
        assert all(len(batch.labels) <= n_rows for batch in batches)
        p, labels = rows()
        assert_array_equal(np.concatenate([batch.predictions.scores for batch in batches]), p)
        assert_array_equal(np.concatenate([batch.labels for batch in batches]), labels)


def halved(predictions):
    """Return some other probabilities: halfway to even ones."""
    return (predictions.probabilities + 1 / predictions.n_classes) / 2


@every_format
@pytest.mark.parametrize("n_rows", [7, 100])
def test_a_file_can_take_its_own_place(tmp_path, ending, n_rows):
    needs_arrow(ending)
    path = write(tmp_path / f"a{ending}")
    with open_source(path) as source:
        columns = source.score_columns(columns_of(ending), ["animal"], Space.PROBABILITIES)
        assert rewrite(source, path, columns, Space.PROBABILITIES, halved, n_rows=n_rows) == 60
    table = read_predictions(path, space="probabilities", label="animal", columns=columns_of(ending))
    assert_array_equal(table.predictions.scores, (rows()[0] + 1 / 3) / 2)
    assert_array_equal(table.labels, rows()[1])
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@every_format
def test_an_interrupt_while_writing_leaves_the_old_file_and_nothing_else(tmp_path, ending):
    needs_arrow(ending)
    path, output = write(tmp_path / f"a{ending}"), tmp_path / f"b{ending}"
    output.write_bytes(b"old")

    def interrupted(done: int) -> None:
        raise KeyboardInterrupt

    with open_source(path) as source:
        columns = source.score_columns(columns_of(ending), ["animal"], Space.PROBABILITIES)
        with pytest.raises(KeyboardInterrupt):
            rewrite(source, output, columns, Space.PROBABILITIES, halved, n_rows=7, progress=interrupted)
    assert output.read_bytes() == b"old"
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([path.name, output.name])


@every_format
def test_scores_can_be_appended(tmp_path, ending):
    needs_arrow(ending)
    path, output = write(tmp_path / f"a{ending}"), tmp_path / f"b{ending}"
    names = ["new_probs"] if ending == ".npz" else [f"new_{name}" for name in CLASSES]
    with open_source(path) as source:
        columns = source.score_columns(columns_of(ending), ["animal"], Space.PROBABILITIES)
        rewrite(source, output, columns, Space.PROBABILITIES, halved, appended=names, n_rows=7)
    chosen = "new_probs" if ending == ".npz" else "new_*"
    old = read_predictions(
        output, space="probabilities", label="animal", columns="probs" if ending == ".npz" else "p_*"
    )
    new = read_predictions(output, space="probabilities", label="animal", columns=chosen)
    assert_array_equal(old.predictions.scores, rows()[0])
    assert_array_equal(new.predictions.scores, (rows()[0] + 1 / 3) / 2)


@every_format
def test_columns_are_never_appended_twice(tmp_path, ending):
    needs_arrow(ending)
    path = write(tmp_path / f"a{ending}")
    with open_source(path) as source:
        columns = source.score_columns(columns_of(ending), ["animal"], Space.PROBABILITIES)
        with pytest.raises(PredictionError, match="'animal' already"):
            rewrite(source, path, columns, Space.PROBABILITIES, halved, appended=["animal"] * 3)


@every_format
def test_a_wrong_column_is_named_with_one_that_comes_close(tmp_path, ending):
    needs_arrow(ending)
    path = write(tmp_path / f"a{ending}")
    with pytest.raises(PredictionError, match=r"no label column 'anmal'; did you mean 'animal'\?"):
        read_predictions(path, space="probabilities", label="anmal")
    with pytest.raises(PredictionError, match="there is no weight column 'zzz'; there are '"):
        read_predictions(path, space="probabilities", label="animal", weight="zzz")


@every_format
def test_an_empty_file_is_called_empty(tmp_path, ending):
    needs_arrow(ending)
    path = tmp_path / f"a{ending}"
    path.write_bytes(b"")
    with pytest.raises(FileFormatError, match="is empty"):
        open_source(path)


@pytest.mark.parametrize("ending", [".parquet", ".feather", ".npz"])
def test_a_truncated_file_is_called_not_whole(tmp_path, ending):
    needs_arrow(ending)
    path = write(tmp_path / f"a{ending}")
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(FileFormatError, match=r"not a complete (Parquet|Feather|NPZ) file; write it again"):
        open_source(path)


def test_probabilities_that_do_not_sum_to_one_are_named_by_row_and_line(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("y,a,b\na,0.5,0.5\nb,0.5,0.6\n")
    with pytest.raises(PredictionError, match=r"row 2 \(line 3\) sum to 1.1 and not to 1.*'a' and 'b'"):
        read_predictions(path, space="probabilities")


def test_logits_taken_for_probabilities_are_refused_with_their_place(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("y,a,b\na,0.5,0.5\nb,-1.5,2.5\n")
    with pytest.raises(
        PredictionError, match=r"row 2 \(line 3\), column 'a' is -1.5, which is not a probability"
    ):
        read_predictions(path, space="probabilities")
    assert read_predictions(path, space="logits").predictions.space is Space.LOGITS


def test_weights_and_groups_come_along(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("y,a,b,w,who\na,0.5,0.5,2,x\nb,0.4,0.6,0.5,y\n")
    table = read_predictions(path, space="probabilities", weight="w", group="who")
    assert table.weights.tolist() == [2, 0.5]
    assert table.groups.tolist() == ["x", "y"]


@pytest.mark.parametrize(("cell", "reason"), [("", "has no value"), ("-1", "is -1"), ("inf", "is inf")])
def test_a_wrong_weight_is_named(tmp_path, cell, reason):
    path = tmp_path / "a.csv"
    path.write_text(f"y,a,b,w\na,0.5,0.5,2\nb,0.4,0.6,{cell}\n")
    with pytest.raises(WeightError, match=rf"row 2 \(line 3\), column 'w' {reason}"):
        read_predictions(path, space="probabilities", weight="w")


def test_a_missing_label_is_named(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("y,a,b\na,0.5,0.5\n,0.4,0.6\n")
    with pytest.raises(LabelError, match=r"row 2 \(line 3\), column 'y' is empty"):
        read_predictions(path, space="probabilities")


def test_a_folder_and_an_unknown_ending_are_refused(tmp_path):
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(FileFormatError, match="has no files of predictions"):
        open_source(tmp_path / "a.csv")
    with pytest.raises(FileFormatError, match=r"supported are \.csv"):
        open_source(tmp_path / "a.xls")
    with pytest.raises(FileNotFoundError):
        open_source(tmp_path / "b.csv")
