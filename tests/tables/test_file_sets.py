"""Folders, patterns and partitioned data sets: many files are read as one, and errors name the file."""

import numpy as np
import pytest
from prediction_files import arrow_table, rows, write

from calibrant.errors import FileFormatError, LabelError, ParameterError, PredictionError
from calibrant.space import Space
from calibrant.tables import PredictionFile, open_source, read_predictions, rewrite

pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

OPTIONS = {"space": "probabilities", "label": "animal", "columns": "p_*"}


@pytest.fixture(params=[".parquet", ".csv", ".feather"])
def parts(tmp_path, request):
    """Three files of 60 rows in a folder with files of other kinds, and their rows one after the other."""
    folder = tmp_path / "parts"
    folder.mkdir()
    for number in range(3):
        write(folder / f"part-{number}{request.param}", seed=number)
    (folder / "_SUCCESS").touch()
    (folder / ".hidden.csv").write_text("a\n1\n")
    (folder / "notes.txt").write_text("text")
    found = [rows(seed=number) for number in range(3)]
    return folder, np.concatenate([p for p, _ in found]), np.concatenate([labels for _, labels in found])


@pytest.mark.parametrize("pattern", ["", "*", "part-*", "part-?.*", "../*/part-*"])
def test_a_folder_or_a_pattern_is_the_rows_of_all_files_in_order(parts, pattern):
    folder, p, labels = parts
    table = read_predictions(folder / pattern if pattern else folder, **OPTIONS) if pattern != "*" else None
    if table is None:  # other files match too
        with pytest.raises(FileFormatError):
            read_predictions(folder / "*", **OPTIONS)
        return
    assert table.predictions.scores.tolist() == p.tolist()
    assert table.labels.tolist() == labels.tolist()


def test_batches_and_visits_read_the_same_rows(parts):
    folder, p, _ = parts
    with PredictionFile(open_source(folder), **OPTIONS) as file:
        found = [table.predictions.scores for table in file.batches(7)]
        seen = []
        file.visit(lambda: lambda coded: seen.append(coded.data.predictions.scores), 11)
        assert np.concatenate(found).tolist() == p.tolist() == np.concatenate(seen).tolist()
        assert file.source.approximate_rows() == pytest.approx(180, rel=0.1)


def test_a_pattern_that_matches_one_file_opens_that_file(parts):
    folder, p, _ = parts
    assert read_predictions(folder / "part-1.*", **OPTIONS).predictions.scores.tolist() == p[60:120].tolist()


def test_an_invalid_score_is_named_by_file_and_row(tmp_path):
    for number in range(3):
        table = arrow_table(20, number)
        if number == 1:
            scores = table["p_dog"].to_numpy().copy()
            scores[4] = np.nan
            table = table.set_column(table.schema.get_field_index("p_dog"), "p_dog", [scores])
        parquet.write_table(table, tmp_path / f"{number}.parquet")
    with pytest.raises(PredictionError, match=r"1\.parquet: row 5, column 'p_dog' has no value"):
        read_predictions(tmp_path, **OPTIONS)


def test_a_file_with_other_columns_is_named(parts):
    folder, _, _ = parts
    source = next(folder.glob("part-2.*"))
    if source.suffix == ".csv":
        source.write_text(source.read_text().replace("p_owl", "p_emu"))
    else:
        from pyarrow import feather

        table = arrow_table().rename_columns({"p_owl": "p_emu"})
        (parquet.write_table if source.suffix == ".parquet" else feather.write_feather)(table, source)
    with pytest.raises(FileFormatError, match=r"part-2\.\w+ has no column 'p_owl', unlike .*part-0"):
        read_predictions(folder, **OPTIONS)


def test_files_without_rows_are_passed_over(tmp_path):
    parquet.write_table(arrow_table(10), tmp_path / "a.parquet")
    parquet.write_table(arrow_table(10).slice(0, 0), tmp_path / "b.parquet")
    assert len(read_predictions(tmp_path, **OPTIONS).labels) == 10
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(FileFormatError, match="has no rows in any file"):
        read_predictions(tmp_path, **OPTIONS)


def test_folders_named_by_keys_add_columns(tmp_path):
    for number, day in enumerate(["2026-01-01", "2026-01-02"]):
        folder = tmp_path / f"model=m%20{number}" / f"day={day}"
        folder.mkdir(parents=True)
        parquet.write_table(arrow_table(10, number), folder / "part.parquet")
    with PredictionFile(open_source(tmp_path), group="model", **OPTIONS) as file:
        assert file.source.columns[-2:] == ("model", "day")
        assert file.read().groups.tolist() == ["m 0"] * 10 + ["m 1"] * 10
    with (
        pytest.raises(PredictionError, match="'day' is a folder key; weights must be in a column"),
        PredictionFile(open_source(tmp_path), weight="day", **OPTIONS) as file,
    ):
        file.read()


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ([], "has no files of predictions"),
        (["a.parquet", "b.csv"], "has files of several formats"),
        (["a.npz", "b.npz"], "has several NPZ files"),
    ],
)
def test_what_cannot_be_one_data_set_is_refused(tmp_path, names, sentence):
    for name in names:
        write(tmp_path / name)
    with pytest.raises(FileFormatError, match=sentence):
        open_source(tmp_path)


def test_a_folder_is_rewritten_as_a_folder(parts, tmp_path):
    folder, p, _ = parts
    output = tmp_path / "out"
    with open_source(folder) as source:
        columns = source.score_columns("p_*", [], Space.PROBABILITIES)
        seen = []
        n_rows = rewrite(
            source,
            output,
            columns,
            Space.PROBABILITIES,
            lambda q: q.probabilities[:, ::-1],
            progress=seen.append,
        )
        assert n_rows == seen[-1] == 180
        (tmp_path / "file").touch()
        with pytest.raises(ParameterError, match="give a folder as output"):
            rewrite(source, tmp_path / "file", columns, Space.PROBABILITIES, lambda q: q.probabilities)
    assert sorted(one.name for one in output.iterdir()) == sorted(one.name for one in folder.glob("part-*"))
    assert read_predictions(output, **OPTIONS).predictions.scores.tolist() == p[:, ::-1].tolist()


def test_labels_of_later_batches_can_change_the_classes(tmp_path):
    """Columns 0, 1 and 2 are not named after the labels: only all of them say which column is which class."""
    path = tmp_path / "a.csv"
    path.write_text("y,s0,s1,s2\n" + "b,0.2,0.5,0.3\n" * 5 + "a,0.5,0.3,0.2\nc,0.1,0.2,0.7\n")
    starts, seen = [], []
    with PredictionFile(open_source(path), space="probabilities") as file:
        file.visit(lambda: starts.append(seen.clear()) or (lambda coded: seen.extend(coded.data.labels)), 2)
    assert len(starts) == 2
    assert seen == [1] * 5 + [0, 2]
    path.write_text("y,s0,s1,s2\n" + "b,0.2,0.5,0.3\n" * 5 + "a,0.5,0.3,0.2\n")
    with pytest.raises(LabelError), PredictionFile(open_source(path), space="probabilities") as file:
        file.visit(lambda: lambda coded: None, 2)
