"""Blocks of CSV text: pyarrow and the reader of single cells give the same rows, and write the same bytes."""

from io import BytesIO

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant.errors import FileFormatError, LabelError, PredictionError
from calibrant.space import Space
from calibrant.tables import open_source, rewrite
from calibrant.tables.csv_blocks import blocks, parsed_by_pyarrow
from calibrant.tables.formats import csv as csv_format
from calibrant.tables.formats.csv import Dialect
from calibrant.tables.prediction_file import PredictionFile

pytest.importorskip("pyarrow")

CELLS = st.sampled_from(
    [
        "0.5",
        "1",
        "0",
        "5e-1",
        " .5 ",
        "+0.5",
        "nan",
        "NA",
        "",
        "x",
        '"0.5"',
        "1_0",
        "inf",
        "1e400",
        "0x1",
        "é",
    ]
)
LABELS = st.sampled_from(
    ["cat", ' dog"', '"cat"', '"a,b"', '"two\nlines"', "owl ", "7", "", '""', "a\0", "é", '"é"']
)
ENDS = st.sampled_from(["\n", "\r\n", "\r", "\n\n"])
LINES = st.lists(st.tuples(LABELS, CELLS, CELLS, ENDS), min_size=1, max_size=8)


def outcome(path, columns="a,b"):
    """Return labels and scores of a file, or the sentence on it."""
    try:
        with PredictionFile(open_source(path), space="logits", label="y", columns=columns) as file:
            table = file.read()
            return table.labels.tolist(), table.predictions.scores.tolist()
    except (FileFormatError, LabelError, PredictionError) as error:
        return str(error)


@settings(max_examples=150)
@given(lines=LINES, usual=st.booleans())
def test_pyarrow_and_single_cells_give_the_same_rows_or_the_same_sentence(tmp_path_factory, lines, usual):
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    text = "".join(f"{label},{one},{other}{end}" for label, one, other, end in lines)
    rows = "cat,1,2\ndog,2,1\n" * 3 if usual else ""
    path.write_text(f"y,a,b\n{rows}{text}", newline="")
    found = outcome(path)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(csv_format, "parsed_by_pyarrow", lambda *_: None)
        assert outcome(path) == found
        if not isinstance(found, str):  # sentences count the rows of a block
            patched.setattr(csv_format, "BLOCK_BYTES", 7)
            assert outcome(path) == found


@settings(max_examples=100)
@given(
    scores=st.lists(st.floats(0, 1), min_size=1, max_size=20),
    end=st.sampled_from(["\n", "\r\n"]),
    is_closed=st.booleans(),
    appended=st.booleans(),
)
def test_both_write_the_same_bytes(tmp_path_factory, scores, end, is_closed, appended):
    folder = tmp_path_factory.mktemp("csv")
    lines = ["y,p", *(f'"{number % 3}", {score!r}' for number, score in enumerate(scores))]
    (folder / "a.csv").write_bytes((end.join(lines) + end * is_closed).encode())

    def written(name):
        with open_source(folder / "a.csv") as source:
            chosen = source.score_columns("p", [], Space.PROBABILITIES)
            new = ["new"] if appended else None
            rewrite(
                source,
                folder / name,
                chosen,
                Space.PROBABILITIES,
                lambda p: p.probabilities[:, ::-1] / 3,
                appended=new,
            )
        return (folder / name).read_bytes()

    found = written("b.csv")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(csv_format, "parsed_by_pyarrow", lambda *_: None)
        assert written("c.csv") == found


@given(st.lists(st.sampled_from(['a,"b\nc"', "1,2", '"",3', "\r", '"x""y"']), max_size=12), st.integers(1, 9))
def test_blocks_end_with_a_record_and_join_to_the_text(records, n_bytes):
    text = "\n".join(records).encode()
    found = list(blocks(BytesIO(text), n_bytes, 1))
    assert b"".join(block.text for block in found) == text
    assert all(block.text.count(b'"') % 2 == 0 for block in found[:-1])
    before = 0
    for block in found:
        assert block.first_line == 1 + before
        before += block.text.count(b"\n")


@pytest.mark.parametrize(
    "text", [b'"a,b",1\n', b'"a\nb",1\n', b"a,1\n\nb,2\n", b"a,1\rb,2\n", b"a,1\nb\n", b"a,x\n", b"a,1_0\n"]
)
def test_text_that_needs_a_closer_look_is_left_to_the_reader_of_cells(text):
    assert parsed_by_pyarrow(text, Dialect(), ["y", "p"], ["y", "p"], ["p"]) is None


def test_quotes_without_structure_are_parsed_at_once():
    found = parsed_by_pyarrow(b'"a ""x""",1\n"b",2\n', Dialect(), ["y", "p"], ["y", "p"], ["p"])
    assert found.column("y").to_pylist() == [b'"a ""x"""', b'"b"']
    assert found.column("p").to_pylist() == [1.0, 2.0]


def test_a_row_far_down_is_named_by_row_and_line(tmp_path, monkeypatch):
    """Quoted line ends before it make lines and rows differ."""
    monkeypatch.setattr(csv_format, "BLOCK_BYTES", 100)
    path = tmp_path / "a.csv"
    path.write_text('y,a,b\n"two\nlines",0.5,0.5\n' + "cat,0.5,0.5\n" * 200 + "cat,0.5,oops\n")
    with pytest.raises(
        PredictionError, match=r"row 202 \(line 204\), column 'b' is 'oops', which is not a number"
    ):
        PredictionFile(open_source(path), space="probabilities", columns="a,b").read()


@pytest.mark.parametrize("ending", [".csv.bz2", ".csv.xz"])
def test_other_compressed_files_are_read_and_written(tmp_path, ending):
    import bz2
    import lzma

    module = bz2 if ending == ".csv.bz2" else lzma
    path, output = tmp_path / f"a{ending}", tmp_path / f"b{ending}"
    text = b"y,p_a,p_b\na,0.5,0.5\nb,0.25,0.75\n"
    path.write_bytes(module.compress(text))
    with open_source(path) as source:
        chosen = source.score_columns("p_*", [], Space.PROBABILITIES)
        rewrite(source, output, chosen, Space.PROBABILITIES, lambda p: p.probabilities)
    assert module.decompress(output.read_bytes()) == text
    path.write_bytes(module.compress(np.random.default_rng(0).bytes(1000).hex().encode())[:-20])
    with pytest.raises(FileFormatError, match=r"is not a complete (bzip2|xz) file"):
        open_source(path)
