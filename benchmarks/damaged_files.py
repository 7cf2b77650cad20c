"""What becomes of damaged and hostile files: the same result, a clear error, or something worse.

Files of every format are damaged at random: one bit flipped, sixteen bytes overwritten, a block of zeros, or the end cut off.
Others are made by hand to do harm. Each is read in a process of its own with a limit of memory and time. Needs Linux.

Run it with ``python benchmarks/damaged_files.py``, or with a number of damaged files for each format.
"""

import gzip
import hashlib
import io
import json
import os
import pickle
import resource
import signal
import sqlite3
import struct
import sys
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from calibrant import Calibrator, load, registry
from calibrant.cli.exit_codes import ExitCode, explained
from calibrant.space import Space
from calibrant.studies import Record, Store
from calibrant.studies.sources import read_scores
from calibrant.tables import open_source, read_predictions, rewrite

FILES = 300
SECONDS = 20
GIGABYTES = 2
CLASSES = ["cat", "dog", "owl"]
METHODS = ["temperature", "dirichlet", "isotonic", "forest", "spline"]

SAME, ERROR, OTHER = "same result", "clear error", "other numbers"
WRONG, INTERNAL, CRASHED, HUNG = "wrong", "internal error", "crashed", "hung"
OUTCOMES = (SAME, ERROR, OTHER, WRONG, INTERNAL, CRASHED, HUNG)

Reader = Callable[[Path], Any]


@dataclass(frozen=True)
class Format:
    """One kind of file: its ending, what writes and what reads one, and whether it has checksums."""

    name: str
    ending: str
    write: Callable[[Path], object]
    read: Reader
    checksums: bool
    hostile: Callable[[Path], Iterator[bytes]] | None = None


# Rows


def rows(n_rows: int = 60) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    logits = 2 * generator.normal(size=(n_rows, 3))
    labels = (0.5 * logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    labels[:3] = range(3)
    p = np.exp(logits)
    return p / p.sum(axis=1, keepdims=True), np.array(CLASSES)[labels]


def read_table(path: Path) -> str:
    columns = "probs" if path.suffix == ".npz" else "p_*"
    table = read_predictions(path, space="probabilities", label="animal", columns=columns)
    content = table.predictions.probabilities.tobytes() + repr(table.labels.tolist()).encode()
    return hashlib.sha256(content).hexdigest()


def write_csv(path: Path) -> None:
    p, labels = rows()
    lines = ["id,animal,p_cat,p_dog,p_owl"]
    lines += [
        f"{number},{label},{','.join(map(repr, values))}"
        for number, (values, label) in enumerate(zip(p.tolist(), labels, strict=True))
    ]
    text = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)


def write_npz(path: Path) -> None:
    p, labels = rows()
    np.savez(path, probs=p, animal=labels, classes=np.array(CLASSES))


def arrow_table() -> Any:
    import pyarrow

    p, labels = rows()
    return pyarrow.table(
        {
            "animal": pyarrow.array(labels.tolist()).dictionary_encode(),
            **{f"p_{name}": p[:, number] for number, name in enumerate(CLASSES)},
        }
    )


def write_feather(path: Path) -> None:
    from pyarrow import feather

    feather.write_feather(arrow_table(), path, chunksize=17)


def write_parquet(path: Path) -> None:
    from pyarrow import parquet

    parquet.write_table(arrow_table(), path, row_group_size=17)


def write_our_parquet(path: Path) -> None:
    """Write a file as ``calibrant apply`` does."""
    given = path.with_name("given.parquet")
    write_parquet(given)
    with open_source(given) as source:
        columns = source.score_columns("p_*", ["animal"], Space.PROBABILITIES)
        rewrite(source, path, columns, Space.PROBABILITIES, lambda predictions: predictions.probabilities)


# Calibrators


def fitted(name: str) -> Calibrator:
    p, labels = rows(150)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parameters = {"n_trees": 5, "n_bins": 8, "guard": False} if name == "forest" else {}
        return registry.make(name, **parameters).fit(p, np.unique(labels, return_inverse=True)[1])


def read_calibrator(path: Path) -> str:
    return hashlib.sha256(load(path).predict_proba(rows(40)[0]).tobytes()).hexdigest()


def edited(path: Path, change: Callable[[dict[str, Any], dict[str, bytes]], None]) -> bytes:
    """Return the archive of a calibrator after a change of header and members, with correct checksums."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members["header.json"])
    change(header, members)
    members.setdefault("header.json", b"")
    if header:
        members["header.json"] = json.dumps(header).encode()
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def hostile_calibrators(path: Path) -> Iterator[bytes]:
    """Yield well-formed files whose content would hang, take all memory, or give no numbers."""

    def member(header: dict[str, Any], name: str) -> str:
        return f"array_{header['calibrator']['state'][name]['array']}.npy"

    def array(content: bytes) -> np.ndarray:
        return np.load(io.BytesIO(content))

    def npy(values: np.ndarray) -> bytes:
        stream = io.BytesIO()
        np.lib.format.write_array(stream, values, version=(1, 0))
        return stream.getvalue()

    for child in (0, 1, -90, 120):

        def circle(header: dict[str, Any], members: dict[str, bytes], child: int = child) -> None:
            name = member(header, "children_")
            children = array(members[name])
            children[-1 if child else 0] = child
            members[name] = npy(children)

        yield edited(path, circle)
    for attribute in ("points_", "errors_", "thresholds_", "point_weights_"):

        def not_a_number(
            header: dict[str, Any], members: dict[str, bytes], attribute: str = attribute
        ) -> None:
            name = member(header, attribute)
            values = array(members[name])
            values[-1] = np.nan
            members[name] = npy(values)

        yield edited(path, not_a_number)
    for item, number in (("[]", 10**6), ("{}", 10**7), ("0", 10**7)):

        def long(
            header: dict[str, Any], members: dict[str, bytes], item: str = item, number: int = number
        ) -> None:
            header["calibrator"]["state"]["x_"] = "PLACE"
            text = json.dumps(header).replace('"PLACE"', "[" + f"{item}," * number + "0]")
            members["header.json"] = text.encode()
            header.clear()

        yield edited(path, long)

    def empty_rows(header: dict[str, Any], members: dict[str, bytes]) -> None:
        text = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 0), }\n"
        members[member(header, "points_")] = (
            b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()
        )

    yield edited(path, empty_rows)
    yield pickle.dumps(print)
    yield b"PK\x03\x04" + bytes(100)


# Pickles and stores


def write_pickle(path: Path) -> None:
    p, labels = rows()
    numbers = np.unique(labels, return_inverse=True)[1]
    path.write_bytes(pickle.dumps(((np.log(p), numbers), (np.log(p), numbers)), 4))


def read_pickle(path: Path) -> str:
    data = read_scores(path, {})
    assert data.calibration is not None
    assert data.test is not None
    parts = [
        part
        for each in (data.calibration, data.test)
        for part in (each.predictions.scores.tobytes(), each.labels.tobytes())
    ]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def hostile_pickles(_: Path) -> Iterator[bytes]:
    def nested(depth: int, width: int) -> bytes:
        content = b"K\x01q\x00"
        for number in range(1, depth + 1):
            content += b"(" + (b"h" + bytes([number - 1])) * width + b"tq" + bytes([number])
        return content

    yield b"]r" + struct.pack("<I", 2**28) + b"."
    yield b"]r" + struct.pack("<I", 2**32 - 1) + b"."
    yield b"\x80\x05\x96" + struct.pack("<Q", 2**34) + b"."
    yield nested(18, 10) + b"."
    yield nested(18, 10) + b"}h\x12Ns."
    yield b"(" * 100_000 + b"t" * 100_000 + b"."
    yield b")" + b"\x85" * 100_000 + b"."
    yield pickle.dumps(print)
    yield b"cos\nsystem\n(S'true'\ntR."
    yield b"I" + b"9" * 200_000 + b"\n."


def write_store(path: Path) -> None:
    path.unlink(missing_ok=True)
    with Store(path) as store:
        run = store.begin_run("study", None, jobs=1, backend="loky", processors=2, versions={"numpy": "2"})
        store.add(
            *(
                Record(f"{number:064x}", {"data": "iris", "repeat": number}, "done", {"log_loss": number / 7})
                for number in range(200)
            ),
            run=run,
        )


def read_store(path: Path) -> str:
    with Store(path, create=False) as store:
        found = store.records(), store.runs()
    return hashlib.sha256(repr(found).encode()).hexdigest()


def hostile_stores(path: Path) -> Iterator[bytes]:
    for statement in (
        "UPDATE records SET numbers = replace(numbers, '1', '2')",
        "UPDATE runs SET study = 'other'",
        "UPDATE records SET labels = x'ff'",
        "CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END",
        "CREATE VIEW v AS SELECT 1",
        "ALTER TABLE records ADD COLUMN c TEXT AS (key || key)",
        "PRAGMA user_version = 9",
    ):
        write_store(path)
        connection = sqlite3.connect(path)
        connection.execute(statement)
        connection.commit()
        connection.close()
        yield path.read_bytes()


# Text and arrays


def hostile_csv(_: Path) -> Iterator[bytes]:
    header = b"animal,p_cat,p_dog,p_owl\n"
    yield header + b"cat\x00,0.5,0.25,0.25\n" * 3
    yield header + b'"cat,0.5,0.25,0.25\n' + b"x" * 10**7
    yield header + b"cat,0.5,0.25,0.25\n" * 2 + b"dog," + b"9" * 10**6 + b",0,0\n"
    yield header + b"cat," + b"," * 10**6 + b"\n"
    yield b"a," * 10**6 + b"b\n" + b"1," * 10**6 + b"2\n"
    yield header + b"\xff\xfe,0.5,0.25,0.25\n"
    yield header + b"cat,nan,inf,-inf\n"
    yield header + b"cat,1_0,0.5,0.5\n"
    yield "animal,p_cat\ncat,0.5\n".encode("utf-16")


def hostile_npz(path: Path) -> Iterator[bytes]:
    write_npz(path)
    arrays = dict(np.load(path))
    for descr, shape, data in (
        ("<f8", "(1000000000000, 3)", bytes(1440)),
        ("<f8", "(1000000000000, 0)", b""),
        ("|O", "(60, 3)", pickle.dumps(print)),
        ("<U1", "(60, 3)", b"\xff" * 720),
    ):
        for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            stream = io.BytesIO()
            np.savez(stream, **{name: array for name, array in arrays.items() if name != "probs"})
            header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
            content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data
            with zipfile.ZipFile(stream, "a", compression) as archive:
                archive.writestr("probs.npy", content)
            yield stream.getvalue()
    stream = io.BytesIO()
    np.savez(stream, **{**arrays, "animal": np.array(["a\0b", "c"] * 30)})
    yield stream.getvalue()


FORMATS = [
    *(
        Format(
            f"calibrator ({name})",
            ".npz",
            lambda path, name=name: fitted(name).save(path),  # type: ignore[misc]
            read_calibrator,
            True,
            hostile_calibrators if name == "forest" else None,
        )
        for name in METHODS
    ),
    Format("CSV", ".csv", write_csv, read_table, False, hostile_csv),
    Format("CSV, gzip", ".csv.gz", write_csv, read_table, True),
    Format("Parquet of calibrant", ".parquet", write_our_parquet, read_table, True),
    Format("Parquet without checksums", ".parquet", write_parquet, read_table, False),
    Format("Feather", ".feather", write_feather, read_table, False),
    Format("NPZ", ".npz", write_npz, read_table, True, hostile_npz),
    Format("study store", ".sqlite", write_store, read_store, True, hostile_stores),
    Format("pickle of logits", ".p", write_pickle, read_pickle, False, hostile_pickles),
]


# Damage


def damaged(content: bytes, n_files: int) -> Iterator[bytes]:
    generator = np.random.default_rng(1)
    for number in range(n_files):
        changed = bytearray(content)
        place = int(generator.integers(len(content)))
        kind = number % 4
        if kind == 0:
            changed[place] ^= 1 << int(generator.integers(8))
        elif kind == 1:
            changed[place : place + 16] = generator.bytes(16)[: len(content) - place]
        elif kind == 2:
            end = min(len(content), place + 512)
            changed[place:end] = bytes(end - place)
        else:
            del changed[place:]
        yield bytes(changed)


def outcome(read: Reader, path: Path, expected: str | None, checksums: bool) -> str:
    """Read a file in a child of this process and tell what became of it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + GIGABYTES * 2**30,) * 2)
            warnings.simplefilter("ignore")
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            try:
                said = f"result {read(path)}"
            except Exception as error:
                code, sentence = explained(error)
                said = ERROR if code != ExitCode.BUG and "\n" not in sentence else INTERNAL
            os.write(writing, said.encode())
        finally:
            os._exit(0)
    os.close(writing)
    end = time.monotonic() + SECONDS
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(reading)
            return HUNG
        time.sleep(0.002)
    with os.fdopen(reading) as stream:
        said = stream.read()
    if not said:
        return CRASHED
    if not said.startswith("result "):
        return said
    if expected is None:
        return WRONG  # a hostile file has no right result
    return SAME if said == f"result {expected}" else WRONG if checksums else OTHER


def counted(one: Format, folder: Path, n_files: int) -> tuple[Counter[str], Counter[str]]:
    """Return what became of damaged and of hostile files of a format."""
    path = folder / f"file{one.ending}"
    one.write(path)
    expected, content = one.read(path), path.read_bytes()
    found: list[Counter[str]] = []
    for contents, right in (
        (damaged(content, n_files), expected),
        (() if one.hostile is None else list(one.hostile(path)), None),
    ):
        counts: Counter[str] = Counter()
        for changed in contents:
            path.write_bytes(changed)
            counts[outcome(one.read, path, right, one.checksums)] += 1
        found.append(counts)
    return found[0], found[1]


def table(n_files: int = FILES) -> list[tuple[str, str, Counter[str]]]:
    """Return what became of all files, by format and by how they were made."""
    lines = []
    with TemporaryDirectory() as folder:
        for one in FORMATS:
            random, hostile = counted(one, Path(folder), n_files)
            lines.append((one.name, "damaged", random))
            if hostile:
                lines.append((one.name, "hostile", hostile))
    return lines


def main(n_files: int = FILES) -> None:
    lines = table(n_files)
    print(f"| format | files | {' | '.join(OUTCOMES)} |")
    print(f"|---|---|{'---:|' * len(OUTCOMES)}")
    total: Counter[str] = Counter()
    for name, kind, counts in lines:
        total += counts
        print(f"| {name} | {counts.total()} {kind} | {' | '.join(str(counts[key]) for key in OUTCOMES)} |")
    print(f"| all | {total.total()} | {' | '.join(str(total[key]) for key in OUTCOMES)} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else FILES)
