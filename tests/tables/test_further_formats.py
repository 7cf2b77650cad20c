"""NPY, torch tensors, Excel, JSON Lines and zstd: read as CSV is, and written with new scores."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from prediction_files import CLASSES, rows, write_csv

from calibrant.errors import FileFormatError, LabelError, ParameterError, PredictionError
from calibrant.space import Space
from calibrant.tables import Dialect, open_source, read_predictions, rewrite
from calibrant.tables.prediction_file import PredictionFile

P, ANIMALS = rows(12)
CODES = np.array([CLASSES.index(name) for name in ANIMALS])


def written(path):
    """Write the rows in the format of the ending."""
    match path.suffix:
        case ".npy":
            fields = [("animal", "U3"), ("p", float, (3,))]
            np.save(path, np.array(list(zip(ANIMALS, P, strict=True)), dtype=fields))
        case ".pt":
            torch = pytest.importorskip("torch")
            content = {"probs": torch.tensor(P), "animal": torch.tensor(CODES), "note": "kept out"}
            torch.save(content, path)
        case ".xlsx":
            openpyxl = pytest.importorskip("openpyxl")
            book = openpyxl.Workbook()
            book.active.append(["animal", *(f"p_{name}" for name in CLASSES)])
            for label, row in zip(ANIMALS, P, strict=True):
                book.active.append([str(label), *map(float, row)])
            book.create_sheet("other")["A1"] = "=1+1"
            book.save(path)
        case ".jsonl":
            lines = (
                {"animal": str(label), "probs": dict(zip(CLASSES, row.tolist(), strict=True)), "text": "é"}
                for label, row in zip(ANIMALS, P, strict=True)
            )
            path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        case ".zst":
            pyarrow = pytest.importorskip("pyarrow")
            text = write_csv(path.with_name("plain.csv"), 12).read_bytes()
            with pyarrow.CompressedOutputStream(str(path), "zstd") as stream:
                stream.write(text)
    return path


FORMS = ["a.npy", "a.pt", "a.xlsx", "a.jsonl", "a.csv.zst"]
COLUMNS = {"a.npy": "p", "a.pt": "probs", "a.jsonl": "probs.*"}


def read(path):
    return read_predictions(
        path, space="probabilities", label="animal", columns=COLUMNS.get(path.name, "p_*")
    )


@pytest.mark.parametrize("name", FORMS)
def test_every_format_gives_the_same_rows(tmp_path, name):
    table = read(written(tmp_path / name))
    assert_allclose(table.predictions.probabilities, P, rtol=1e-15)
    assert_array_equal(table.labels, CODES if name == "a.pt" else ANIMALS)


@pytest.mark.parametrize("name", FORMS[1:])
def test_new_scores_replace_the_old_ones(tmp_path, name):
    path = written(tmp_path / name)
    new = tmp_path / f"new{path.name[1:]}"
    with open_source(path) as source:
        columns = source.score_columns(COLUMNS.get(name, "p_*"), ["animal"], Space.PROBABILITIES)
        assert rewrite(source, new, columns, Space.PROBABILITIES, lambda p: p.probabilities[:, ::-1]) == 12
    options = {"space": "probabilities", "label": "animal", "columns": COLUMNS.get(name, "p_*")}
    assert_allclose(read_predictions(new, **options).predictions.probabilities, P[:, ::-1])
    if name == "a.xlsx":
        import openpyxl

        assert openpyxl.load_workbook(new)["other"]["A1"].value == "=1+1"
    if name == "a.jsonl":
        first = json.loads(new.read_text().splitlines()[0])
        assert first["text"] == "é"
        assert list(first["probs"]) == CLASSES


def test_a_plain_array_has_its_labels_in_another_file(tmp_path):
    path, labels = tmp_path / "logits.npy", tmp_path / "labels.npy"
    np.save(path, np.log(P))
    np.save(labels, CODES)
    with pytest.raises(LabelError, match="one array, 'logits'; say which file has the labels"):
        read_predictions(path, space="logits")
    table = read_predictions(path, space="logits", label=str(labels))
    assert_allclose(table.predictions.probabilities, P)
    assert table.labels.tolist() == CODES.tolist()
    np.save(labels, CODES[1:])
    with pytest.raises(
        FileFormatError, match=r"have the shapes \(12, 3\) and \(11,\)|have the shapes \(11,\)"
    ):
        read_predictions(path, space="logits", label=str(labels))
    new = tmp_path / "new.npy"
    with open_source(path) as source:
        columns = source.score_columns(None, [], Space.LOGITS)
        rewrite(source, new, columns, Space.LOGITS, lambda p: p.probabilities)
    assert_allclose(np.load(new), P)
    with open_source(path) as source:
        columns = source.score_columns(None, [], Space.LOGITS)
        with pytest.raises(ParameterError, match="holds a single array"):
            rewrite(source, new, columns, Space.LOGITS, lambda p: p.probabilities, appended=["new"])


def test_a_tensor_of_bfloat16_is_widened(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save(torch.tensor(np.log(P)).bfloat16(), tmp_path / "logits.pt")
    np.save(tmp_path / "y.npy", CODES)
    table = read_predictions(tmp_path / "logits.pt", space="logits", label=str(tmp_path / "y.npy"))
    assert_allclose(table.predictions.probabilities, P, atol=0.02)


class Harmful:
    def __reduce__(self):
        return (pytest.fail, ("an object was unpickled",))


def test_objects_are_never_unpickled(tmp_path):
    np.save(tmp_path / "a.npy", np.array([Harmful()], dtype=object), allow_pickle=True)
    with pytest.raises(FileFormatError, match="holds Python objects, which are never loaded"):
        open_source(tmp_path / "a.npy")
    torch = pytest.importorskip("torch")
    torch.save({"logits": Harmful()}, tmp_path / "a.pt")
    with pytest.raises(FileFormatError, match="not a complete file of tensors alone"):
        open_source(tmp_path / "a.pt")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.npy", b"\x93NUMPY and no more", "not a complete NPY file"),
        ("a.jsonl", b'{"y": 0}\n{"y"\n', "line 2 is not JSON"),
        ("a.jsonl", b"[1, 2]\n", "line 1 is not a JSON object"),
        ("a.jsonl", b"\n", "no rows with values"),
        (
            "a.csv.zst",
            b"y,a\n0,1\n",
            "looks like text, not like text compressed by zstd|not a complete zstd file",
        ),
        ("a.xlsx", b"PK\x03\x04 and no more", "not a complete Excel file"),
    ],
)
def test_damaged_files_have_one_sentence(tmp_path, name, content, sentence):
    if name.endswith("zst"):
        pytest.importorskip("pyarrow")
    if name.endswith("xlsx"):
        pytest.importorskip("openpyxl")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FileFormatError, match=sentence):
        list(open_source(tmp_path / name).batches(10))


def test_cells_of_json_are_named_with_row_and_line(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"y": 0, "a": 0.5, "b": 0.5}\n\n{"y": 1, "a": "x", "b": 0.5}\n')
    with pytest.raises(PredictionError, match=r"row 2 \(line 3\), column 'a' is 'x', which is not a number"):
        read_predictions(path, space="probabilities", columns="a,b")
    path.write_text('{"y": 0, "a": 0.5, "b": 0.5}\n{"y": 1.5, "a": 0.5, "b": 0.5}\n')
    with pytest.raises(LabelError, match=r"row 2 \(line 2\), column 'y' is 1.5"):
        read_predictions(path, space="probabilities")


# Signs of text files


def test_semicolons_and_decimal_commas(tmp_path):
    """The same rows, and apply writes the same signs."""
    path, new = tmp_path / "a.csv", tmp_path / "b.csv"
    path.write_text("y;a;b\na;0,9;0,1\nb;0,25;0,75\n")
    table = read_predictions(path, space="probabilities", columns="a,b", dialect=Dialect.of(None, ","))
    assert table.predictions.probabilities.tolist() == [[0.9, 0.1], [0.25, 0.75]]
    with open_source(path, Dialect.of(";", ",")) as source:
        columns = source.score_columns("a,b", ["y"], Space.PROBABILITIES)
        rewrite(source, new, columns, Space.PROBABILITIES, lambda p: p.probabilities[:, ::-1])
    assert new.read_text() == "y;a;b\na;0,1;0,9\nb;0,75;0,25\n"
    path.write_text('y;a;b\n"c;t";0,9;0,1\ndog;0.25;0,75\n')
    with pytest.raises(PredictionError, match=r"column 'a' is '0\.25', which is not a number"):
        read_predictions(path, space="probabilities", columns="a,b", dialect=Dialect.of(";", ","))


def test_decimal_commas_are_recognised(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("y;a;b\ncat;0,9;0,1\n")
    with pytest.raises(PredictionError, match="'0,9', which is not a number; pass the decimal sign ','"):
        read_predictions(path, space="probabilities", columns="a,b", dialect=Dialect.of(";", None))


@pytest.mark.parametrize(
    ("separator", "decimal", "sentence"),
    [
        ("ab", None, "one sign"),
        ("5", None, "one sign"),
        (None, "'", "must be '.' or ','"),
        (",", ",", "they must differ"),
    ],
)
def test_impossible_signs_are_refused(separator, decimal, sentence):
    with pytest.raises(ParameterError, match=sentence):
        Dialect.of(separator, decimal)


def test_signs_are_for_text(tmp_path):
    np.save(tmp_path / "a.npy", P)
    with pytest.raises(ParameterError, match="are for CSV files, not for NPY"):
        open_source(tmp_path / "a.npy", Dialect())


# Missing values


@pytest.mark.parametrize("in_batches", [False, True])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.npz", "a.parquet"])
def test_rows_with_a_missing_value_are_dropped(tmp_path, name, in_batches):
    """Rows 1, 2 and 3 have no score, no label and no weight; the place of a later error does not shift."""
    path = tmp_path / name
    p, labels, weights = P[:8].copy(), ANIMALS[:8].tolist(), np.ones(8)
    p[1, 0], labels[2], weights[3] = np.nan, "", np.nan
    header = ["y", *CLASSES, "w"]
    cells = [
        [label, *row, weight] for label, row, weight in zip(labels, p.tolist(), weights.tolist(), strict=True)
    ]
    match path.suffix:
        case ".csv":
            path.write_text("\n".join(",".join(map(str, line)) for line in [header, *cells]) + "\n")
        case ".jsonl":
            objects = [dict(zip(header, line, strict=True)) for line in cells]
            path.write_text("".join(f"{json.dumps(one)}\n" for one in objects))
        case ".npz":
            np.savez(path, probs=p, y=np.array(labels), w=weights, classes=np.array(CLASSES))
        case ".parquet":
            pyarrow = pytest.importorskip("pyarrow")
            parquet = pytest.importorskip("pyarrow.parquet")
            columns = list(zip(*cells, strict=True))
            parquet.write_table(pyarrow.table(dict(zip(header, columns, strict=True))), path)
    options = {"space": "probabilities", "weight": "w", "drop_missing": True}
    with PredictionFile(open_source(path), **options) as file:
        parts = list(file.batches(3)) if in_batches else [file.read()]
        labels_read = np.concatenate([part.labels for part in parts]).tolist()
        assert labels_read == [labels[row] for row in (0, 4, 5, 6, 7)]
        assert file.notes[-1] == "3 rows with a missing value were dropped."


def test_the_place_of_an_error_does_not_shift_and_all_rows_cannot_be_dropped(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("y,a,b\ncat,,0.1\ndog,0.2,0.8\ncat,1.5,0.1\n")
    options = {"space": "probabilities", "columns": "a,b", "drop_missing": True}
    with pytest.raises(PredictionError, match=r"row 3 \(line 4\), column 'a' is 1.5"):
        read_predictions(path, **options)
    path.write_text("y,a,b\ncat,,0.1\n,0.2,0.8\n")
    with pytest.raises(FileFormatError, match="every row has a missing value"):
        read_predictions(path, **options)
