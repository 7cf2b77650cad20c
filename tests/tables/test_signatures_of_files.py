"""Endings that are wrong: the first bytes say what a file really is."""

import gzip
import zipfile

import numpy as np
import pytest

from calibrant.errors import FileFormatError
from calibrant.tables import open_source

TEXT = b"y,a,b\n0,0.5,0.5\n"


def refused(path):
    with pytest.raises(FileFormatError) as caught:
        open_source(path)
    return str(caught.value).removeprefix(str(path))


@pytest.mark.parametrize(
    ("content", "name", "sentence"),
    [
        (b"PAR1" + bytes(40), "a.csv", " looks like Parquet; give it the extension .parquet."),
        (b"ARROW1" + bytes(40), "a.csv", " looks like Feather; give it the extension .feather."),
        (b"ARROW1" + bytes(40), "a.parquet", " looks like Feather; give it the extension .feather."),
        (
            gzip.compress(TEXT, mtime=0),
            "a.csv",
            " looks like text compressed by gzip; give it the extension .csv.gz.",
        ),
        (
            TEXT,
            "a.parquet",
            " looks like text, not like Parquet; give it the extension .csv, or .tsv if it has tabs.",
        ),
        (
            TEXT,
            "a.npz",
            " looks like text, not like NPZ; give it the extension .csv, or .tsv if it has tabs.",
        ),
        (
            TEXT,
            "a.tsv",
            ": the header has commas and no tabs; give the file the extension .csv, or write it with tabs.",
        ),
        (
            TEXT.replace(b",", b"\t"),
            "a.csv",
            ": the header has tabs and no commas; give the file the extension .tsv, or write it with commas.",
        ),
    ],
)
def test_the_real_format_is_named(tmp_path, content, name, sentence):
    path = tmp_path / name
    path.write_bytes(content)
    assert refused(path) == sentence


def test_archives_are_told_from_each_other(tmp_path):
    np.savez(tmp_path / "a.npz", probs=np.full((3, 2), 0.5))
    (tmp_path / "a.npz").rename(tmp_path / "a.csv")
    assert refused(tmp_path / "a.csv") == " looks like NPZ; give it the extension .npz."
    with zipfile.ZipFile(tmp_path / "b.csv", "w") as archive:
        archive.writestr("xl/workbook.xml", "")
    assert refused(tmp_path / "b.csv") == " looks like Excel; give it the extension .xlsx."
    (tmp_path / "b.csv").rename(tmp_path / "b.npz")
    assert refused(tmp_path / "b.npz") == " looks like Excel; give it the extension .xlsx."
    sentence = " looks like a ZIP archive, not like text; save it as CSV."
    (tmp_path / "c.csv").write_bytes(b"PK\x03\x04 and no more")
    assert refused(tmp_path / "c.csv") == sentence
