"""CSV files: what is not a score goes through byte for byte, and what is wrong is named by row and line."""

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prediction_files import rows, write_csv

from calibrant.errors import FileFormatError, PredictionError
from calibrant.space import Space
from calibrant.tables import open_source, read_predictions, rewrite
from calibrant.tables.csv_blocks import cell_text, field_of, records


def rewritten(
    path, output, calibrated=lambda predictions: predictions.probabilities, columns="p_*", **options
):
    with open_source(path) as source:
        chosen = source.score_columns(columns, [], Space.PROBABILITIES)
        rewrite(source, output, chosen, Space.PROBABILITIES, calibrated, **options)
    return output.read_bytes()


ODD = (
    b'\xef\xbb\xbfid,y,"p_a",p_b,"a ""note"", with a comma"\r\n'
    b'007,a,0.25,0.75,"x, ""y"""\r\n'
    b"  8 ,b,5e-1, 0.5 ,\r\n"
    b'"9",b,"0.5",.5,"two\r\nlines"\r\n'
    b"10,a,1,0,2024-01-02\r\n"
    b"\r\n\r\n"
)


def test_other_columns_stay_byte_for_byte(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(ODD)
    found = rewritten(path, tmp_path / "b.csv", lambda p: np.full((p.n_rows, 2), 0.5), n_rows=2)
    expected = (
        ODD.replace(b"0.25,0.75", b"0.5,0.5")
        .replace(b"5e-1, 0.5 ", b"0.5,0.5")
        .replace(b'"0.5",.5', b"0.5,0.5")
        .replace(b"a,1,0,", b"a,0.5,0.5,")
    )
    assert found == expected


def test_a_file_without_a_last_line_end_stays_without(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"p_a,p_b\n0.5,0.5")
    assert rewritten(path, tmp_path / "b.csv") == b"p_a,p_b\n0.5,0.5"


def test_bytes_that_are_not_utf8_pass_where_nobody_reads_them(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"name,p_a,p_b\nM\xfcller,0.5,0.5\n")
    assert rewritten(path, tmp_path / "b.csv") == path.read_bytes()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_scores_are_written_so_that_they_read_the_same(tmp_path_factory, scores):
    folder = tmp_path_factory.mktemp("scores")
    path = folder / "a.csv"
    path.write_text("p\n" + "0.5\n" * len(scores))
    new = np.column_stack([1 - np.array(scores), scores])
    rewritten(path, folder / "b.csv", lambda _: new, columns="p")
    with open_source(folder / "b.csv") as source:
        (batch,) = source.batches(100)
        assert batch.scores(["p"])[:, 0].tolist() == scores


@given(
    st.lists(
        st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0")), min_size=2)
    )
)
def test_cells_of_any_text_come_back(lists):
    """Written by the rules of CSV and taken apart again, with line ends within cells."""
    width = max((len(cells) for cells in lists), default=0)
    table = [[*cells, *[""] * (width - len(cells))] for cells in lists]
    text = b"".join(b",".join(field_of(cell, b",") for cell in cells) + b"\n" for cells in table)
    from io import BytesIO

    found = [
        [cell_text(field).decode() for field in record.fields] for record in records(BytesIO(text), b",")
    ]
    assert found == table


def test_lines_are_counted_with_those_within_cells(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('y,a,b,n\na,0.5,0.5,"1\n2\n3"\nb,x,0.5,\n')
    with pytest.raises(PredictionError, match=r"row 2 \(line 5\), column 'a' is 'x', which is not a number"):
        read_predictions(path, space="probabilities", columns="a,b")


def test_compressed_files_are_read_and_written(tmp_path):
    path = write_csv(tmp_path / "a.csv")
    compressed = tmp_path / "a.csv.gz"
    compressed.write_bytes(gzip.compress(path.read_bytes()))
    table = read_predictions(compressed, space="probabilities", label="animal", columns="p_*")
    assert (table.predictions.scores == rows()[0]).all()
    written = rewritten(compressed, tmp_path / "b.csv.gz")
    assert gzip.decompress(written) == path.read_bytes()
    assert rewritten(compressed, tmp_path / "c.csv.gz") == written


def test_a_compressed_file_that_ends_early_is_refused(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(write_csv(tmp_path / "a.csv").read_bytes())[:-50])
    with pytest.raises(FileFormatError, match="not a complete gzip file"):
        read_predictions(path, space="probabilities", label="animal", columns="p_*")


def test_tabs_stand_between_cells_of_tsv(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("y\tp_a\tp_b\ta,b\na\t0.5\t0.5\t1,5\nb\t0.25\t0.75\t\n")
    assert read_predictions(path, space="probabilities", columns="p_*").labels.tolist() == ["a", "b"]
    assert rewritten(path, tmp_path / "b.tsv") == path.read_bytes()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("y,a,b\n", "has a header but no rows"),
        ("\n", "is empty"),
        ("y,a,b\na,0.5,0.5\nb,0.5\n", r"row 2 \(line 3\) has 2 cells, but the header has 3"),
        ("y,a,b\na,0.5,0.5,1\n", r"row 1 \(line 2\) has 4 cells, but the header has 3"),
        ("y,a,b\na,0.5,0.5\n\nb,0.5,0.5\n", "line 3 is empty"),
        ("y,a,a\na,0.5,0.5\n", "the header has 'a' twice"),
        ("y;a;b\na;0,5;0,5\n", "semicolons and no commas"),
    ],
)
def test_a_file_of_a_wrong_shape_is_refused_in_a_sentence(tmp_path, text, sentence):
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=sentence):
        read_predictions(path, space="probabilities")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"y,\xe9,b\na,0.5,0.5\n", "the header is not UTF-8"),
        (b"y,a,b\na,0.5,0.5\n\xe9,0.5,0.5\n", r"row 2 \(line 3\), column 'y' is not UTF-8"),
        ("y,a,b\na,0.5,0.5\n".encode("utf-16"), "possibly UTF-16"),
    ],
)
def test_text_that_is_not_utf8_is_refused(tmp_path, content, sentence):
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=sentence):
        read_predictions(path, space="probabilities")


@pytest.mark.parametrize("cell", ["", "NA", "nan", "null", " "])
def test_a_missing_score_is_named(tmp_path, cell):
    path = tmp_path / "a.csv"
    path.write_text(f"y,a,b\na,0.5,0.5\nb,{cell},0.5\n")
    with pytest.raises(PredictionError, match=r"row 2 \(line 3\), column 'a' has no value"):
        read_predictions(path, space="probabilities")


@pytest.mark.parametrize("cell", ["oops", "1_0", "0,5", "0x1"])
def test_text_among_numbers_is_named_and_not_left_out(tmp_path, cell):
    """By default columns of numbers are taken; one with a wrong cell is not thereby another kind of column."""
    path = tmp_path / "a.csv"
    path.write_text(f'y,a,b\na,0.5,0.5\nb,"{cell}",0.5\na,0.5,0.5\n')
    with pytest.raises(PredictionError, match=rf"row 2 \(line 3\), column 'a' is '{cell}'"):
        read_predictions(path, space="probabilities")


def test_text_far_down_a_column_of_numbers_is_named(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("y,a,b\n" + "a,0.5,0.5\nb,0.5,0.5\n" * 700 + "a,x,0.5\n")
    with pytest.raises(PredictionError, match=r"row 1401 \(line 1402\), column 'a' is 'x'"):
        read_predictions(path, space="probabilities")


def test_columns_of_text_are_left_out_by_default(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("y,a,when,b,empty\na,0.5,2024-01-01,0.5,\nb,0.25,2024-01-02,0.75,\n")
    assert read_predictions(path, space="probabilities").predictions.classes.tolist() == ["a", "b"]
