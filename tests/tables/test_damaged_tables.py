"""Damaged files of predictions: an error in one sentence, or the same numbers."""

import subprocess
import sys
import zipfile

import numpy as np
import pytest

pytest.importorskip("pyarrow")

from prediction_files import arrow_table, write
from pyarrow import feather, ipc, parquet

from calibrant.errors import FileFormatError, LabelError, PredictionError
from calibrant.space import Space
from calibrant.tables import read_predictions
from calibrant.tables.file_set import open_source
from calibrant.tables.rewriting import rewrite

SENTENCES = (FileFormatError, LabelError, PredictionError)


def read(path):
    columns = "probs" if path.suffix == ".npz" else "p_*"
    table = read_predictions(path, space="probabilities", label="animal", columns=columns)
    return table.predictions.probabilities.tolist(), table.labels.tolist()


def read_or_complaint(path):
    """What is in a file, or the sentence on it."""
    try:
        return read(path), ""
    except SENTENCES as error:
        return None, str(error)


def spoilt(content, seed):
    """A bit changed, eight bytes changed, or the end cut off."""
    generator = np.random.default_rng(seed)
    changed = bytearray(content)
    place = int(generator.integers(len(content)))
    if seed % 3 == 0:
        changed[place] ^= 1 << int(generator.integers(8))
    elif seed % 3 == 1:
        changed[place : place + 8] = generator.bytes(8)[: len(content) - place]
    else:
        del changed[place:]
    return bytes(changed)


def written_by_us(folder, ending):
    """A file as ``apply`` writes it."""
    first = write(folder / f"given{ending}")
    second = folder / f"ours{ending}"
    with open_source(first) as source:
        columns = source.score_columns(
            "probs" if ending == ".npz" else "p_*", ["animal"], Space.PROBABILITIES
        )
        rewrite(source, second, columns, Space.PROBABILITIES, lambda rows: rows.probabilities)
    return second


@pytest.mark.parametrize("ending", [".parquet", ".npz"])
def test_sixty_damaged_files_with_checksums(tmp_path, ending):
    path = written_by_us(tmp_path, ending)
    content, expected = path.read_bytes(), read(path)
    refused = []
    for seed in range(60):
        path.write_bytes(spoilt(content, seed))
        found, sentence = read_or_complaint(path)
        if sentence:
            refused.append(sentence)
        else:
            assert found == expected, seed
    assert all(sentence.count(str(path)) == 1 and "\n" not in sentence for sentence in refused)
    assert len(refused) > 30


def test_parquet_files_of_ours_have_checksums_of_their_pages(tmp_path):
    path = written_by_us(tmp_path, ".parquet")
    content = path.read_bytes()
    value = np.float64(read(path)[0][20][1]).tobytes()
    assert parquet.read_table(path).num_rows == 60
    uncompressed = tmp_path / "plain.parquet"
    parquet.write_table(
        parquet.read_table(path),
        uncompressed,
        compression="none",
        use_dictionary=False,
        write_page_checksum=True,
    )
    content = uncompressed.read_bytes()
    place = content.index(value)
    uncompressed.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    with pytest.raises(FileFormatError, match="is not a complete Parquet file"):
        read(uncompressed)


@pytest.mark.parametrize("compression", ["lz4", "uncompressed"])
def test_damaged_feather_files_never_crash(tmp_path, compression):
    """Feather has no checksums: numbers may change unnoticed, but whatever points to something is checked."""
    path = tmp_path / "rows.feather"
    feather.write_feather(arrow_table(60), path, chunksize=17, compression=compression)
    content = path.read_bytes()
    for seed in range(90):
        path.write_bytes(spoilt(content, seed))
        assert "\n" not in read_or_complaint(path)[1]


@pytest.mark.parametrize("command", ["read", "batches"])
def test_indices_and_offsets_out_of_range_are_refused(tmp_path, command):
    """Without a look at all of them the interpreter crashes, so this runs in a process of its own."""
    table = arrow_table(60).combine_chunks()
    indices = table["animal"].chunk(0).indices.to_numpy().tobytes()
    path = tmp_path / "rows.feather"
    with ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    content = path.read_bytes()
    assert content.count(indices) == 1
    path.write_bytes(content.replace(indices, b"\x7f" * len(indices)))
    program = (
        "import sys\nfrom calibrant.errors import FileFormatError\nfrom calibrant.tables.file_set import open_source\n"
        "from calibrant.tables.prediction_file import PredictionFile\n"
        "with open_source(sys.argv[1]) as source:\n"
        "    file = PredictionFile(source, space='probabilities', label='animal', columns='p_*')\n"
        "    try:\n        file.read() if sys.argv[2] == 'read' else list(file.batches(7))\n"
        "    except FileFormatError as error:\n        print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path), command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-300:]
    assert done.stdout == f"{path} is not a complete Feather file; write it again.\n"


# NPZ


def test_a_changed_number_in_an_npz_file_is_noticed(tmp_path):
    """Arrays that are stored as they are were mapped without a look at the checksum."""
    path = write(tmp_path / "rows.npz", 1000)
    values = np.load(path)["probs"]
    changed = values.copy()
    changed[20] = changed[20, ::-1]
    path.write_bytes(path.read_bytes().replace(values.tobytes(), changed.tobytes()))
    with pytest.raises(FileFormatError, match="the array 'probs' is damaged; write it again"):
        read(path)


def forged_npz(path, header, data=b"", compression=zipfile.ZIP_STORED):
    write(path)
    members = {name: content for name, content in np.load(path).items() if name != "probs"}
    np.savez(path, **members)
    raw = header.encode()
    with zipfile.ZipFile(path, "a", compression) as archive:
        archive.writestr("probs.npy", b"\x93NUMPY\x01\x00" + len(raw).to_bytes(2, "little") + raw + data)
    return path


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("shape", ["(1000000000000, 3)", "(60, 4)", "(1000000000, 0)", "(-1, 3)"])
def test_arrays_that_declare_another_size(tmp_path, shape, compression):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n"
    path = forged_npz(tmp_path / "rows.npz", header, bytes(8 * 60 * 3), compression)
    with pytest.raises(FileFormatError, match=r"'probs' is damaged|'probs' is not a numpy array"):
        read(path)


def test_two_arrays_of_one_name(tmp_path):
    path = write(tmp_path / "rows.npz")
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("probs.npy", b"")
    with pytest.raises(FileFormatError, match="two arrays of the same name"):
        read(path)


@pytest.mark.parametrize(
    "labels",
    [np.array([b"\xff\xfe"] * 60), np.full(60, 0x110000, dtype="<u4").view("<U1")],
    ids=["bytes", "text"],
)
def test_labels_that_are_no_text(tmp_path, labels):
    path = write(tmp_path / "rows.npz")
    arrays = dict(np.load(path))
    np.savez(path, **{**arrays, "animal": labels})
    with pytest.raises(FileFormatError, match="the array 'animal' is not Unicode text"):
        read(path)
