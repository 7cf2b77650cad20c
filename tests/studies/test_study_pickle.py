"""Pickles of studies: arrays and nothing else."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from calibrant.errors import StudyDataError
from calibrant.studies.safe_pickle import load_pickle
from calibrant.studies.sources import load
from calibrant.studies.specifications import DataSpec

CALLED: list[str] = []


class Hostile:
    """What runs a function when it is unpickled."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


def published(shape=(-1,)):
    generator = np.random.default_rng(0)
    return (
        (generator.normal(size=(6, 3)).astype(np.float32), np.arange(6).reshape(shape) % 3),
        (generator.normal(size=(9, 3)).astype(np.float32), np.arange(9).reshape(shape) % 3),
    )


def complaint(path):
    """What is said of a file, nothing if it can be read after all."""
    try:
        load(DataSpec("c", "scores", path.name), path.parent, path.parent, 0)
    except StudyDataError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_published_logits_are_read(tmp_path, protocol, shape):
    content = published(shape)
    path = tmp_path / "network.p"
    path.write_bytes(pickle.dumps(content, protocol))
    data = load(DataSpec("n", "scores", "network.p"), tmp_path, tmp_path, 0)
    assert str(data.calibration.predictions.space) == "logits"
    assert data.test.predictions.scores.dtype == np.float32
    assert np.array_equal(data.test.predictions.scores, content[1][0])
    assert np.array_equal(data.calibration.labels, np.arange(6) % 3)


def test_names_of_an_older_numpy(tmp_path):
    """Files written before numpy 2 name its core without the underscore."""
    content = pickle.dumps(published(), 2).replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    assert b"cnumpy.core.multiarray\n_reconstruct" in content
    path = tmp_path / "old.p"
    path.write_bytes(content)
    assert np.array_equal(load_pickle(path)[0][0], published()[0][0])


def test_a_pickle_of_python_2(tmp_path):
    """Python 2 wrote the bytes of an array as text without an encoding, here spelt out by hand."""
    numbers = np.array([1.5, -2.0, 200.25])
    raw = numbers.tobytes()
    content = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01bt"
        b"R(K\x01(K\x03tcnumpy\ndtype\n(U\x02f8K\x00K\x01tR(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89U" + bytes([len(raw)]) + raw + b"tb."
    )
    path = tmp_path / "two.p"
    path.write_bytes(content)
    assert np.array_equal(load_pickle(path), numbers)


@pytest.mark.parametrize(
    "hostile",
    [
        Hostile(CALLED.append, "x"),
        Hostile(eval, "CALLED.append(1)"),
        Hostile(exec, "raise SystemExit"),
        Hostile(getattr, np, "load"),
        Hostile(np.load, "file.npy"),
        Hostile(np.fromfile, "file"),
        Hostile(sys.exit),
        Hostile(pickle.loads, b"."),
        Path("somewhere"),
        [np.float64, 1],
        np.random.default_rng(0),
        {"a": Hostile(print, "shown")},
    ],
    ids=map(str, range(12)),
)
def test_other_names_are_refused(tmp_path, hostile, capsys):
    path = tmp_path / "hostile.p"
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        try:
            content = pickle.dumps(hostile, protocol)
        except (pickle.PicklingError, TypeError, AttributeError):
            continue
        path.write_bytes(content)
        with pytest.raises(StudyDataError, match="not a pickle of numpy arrays alone: it asks for"):
            load_pickle(path)
    assert CALLED == []
    assert capsys.readouterr().out == ""


def test_dotted_names_are_refused(tmp_path):
    """Protocol 4 may ask for an attribute of an attribute."""
    content = b"\x80\x04\x8c\x05numpy\x8c\x0fdtype.__class__\x93."
    (tmp_path / "dotted.p").write_bytes(content)
    with pytest.raises(StudyDataError, match=r"numpy\.dtype\.__class__"):
        load_pickle(tmp_path / "dotted.p")


@pytest.mark.parametrize(
    "name",
    [b"c_codecs\nencode\n", b"cnumpy._core.numeric\n_frombuffer\n", b"cnumpy\nndarray\n", b"cnumpy\ndtype\n"],
)
def test_what_is_admitted_cannot_be_changed(tmp_path, name):
    """A pickle may set attributes of what it names; none of what it can name keeps them."""
    content = b"\x80\x02" + name + b"N}U\x05extra)s\x86b."
    (tmp_path / "set.p").write_bytes(content)
    with pytest.raises(StudyDataError, match=r"not a (whole )?pickle"):
        load_pickle(tmp_path / "set.p")
    (tmp_path / "set.p").write_bytes(pickle.dumps(published(), 2))
    assert len(load_pickle(tmp_path / "set.p")) == 2


@pytest.mark.parametrize("array", [np.array([1, "a"], dtype=object), np.array([(1, 2.0)], dtype="i4,f8")])
def test_arrays_of_other_things_are_refused(tmp_path, array):
    (tmp_path / "objects.p").write_bytes(pickle.dumps(array, 2))
    with pytest.raises(StudyDataError, match="it has an array of"):
        load_pickle(tmp_path / "objects.p")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_arrays_and_numbers_come_back(tmp_path, protocol):
    content = {
        "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "other bytes": np.arange(4, dtype=">i2"),
        "text": np.array(["cat", "dog"]),
        "none": np.zeros((0, 3), dtype=np.float32),
        "number": np.float32(1.5),
        "list": [np.array(True), 3, "a", None],
    }
    (tmp_path / "all.p").write_bytes(pickle.dumps(content, protocol))
    found = load_pickle(tmp_path / "all.p")
    for name in ("columns", "other bytes", "text", "none"):
        assert found[name].shape == content[name].shape
        assert found[name].dtype == content[name].dtype
        assert np.array_equal(found[name], content[name])
    assert found["number"] == 1.5
    assert [bool(found["list"][0]), *found["list"][1:]] == [True, 3, "a", None]


def test_a_list_within_itself(tmp_path):
    endless: list = []
    endless.append(endless)
    (tmp_path / "endless.p").write_bytes(pickle.dumps(endless))
    with pytest.raises(StudyDataError, match="nested too deeply"):
        load_pickle(tmp_path / "endless.p")


def test_text_in_another_encoding(tmp_path):
    (tmp_path / "text.p").write_bytes(
        b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x05\x00\x00\x00rot13\x86R."
    )
    with pytest.raises(StudyDataError, match="rot13"):
        load_pickle(tmp_path / "text.p")


# Bounds of memory and time


def long_binput(number):
    return b"]r" + number.to_bytes(4, "little") + b"."


def nested(depth, width, start=b"K\x01"):
    """A tuple of tuples of tuples, each of which holds the one before several times: width to the depth items."""
    content = start + b"q\x00"
    for number in range(1, depth + 1):
        content += b"(" + b"h" + bytes([number - 1]) + (b"h" + bytes([number - 1])) * (width - 1)
        content += b"tq" + bytes([number])
    return content + b"."


def bytes_of(text):
    return b"X" + len(text).to_bytes(4, "little") + text


HOSTILE = {
    "memo": long_binput(2**28),
    "memo, the largest": long_binput(2**32 - 1),
    "bytes that are not there": b"\x80\x05\x96" + (2**33).to_bytes(8, "little") + b".",
    "text that is not there": b"\x80\x04\x8d" + (2**40).to_bytes(8, "little") + b".",
    "frame that is not there": b"\x80\x04\x95" + (2**40).to_bytes(8, "little") + b"N.",
    "copies of copies": nested(18, 10),
    "keys of keys": nested(18, 10)[:-1] + b"}h\x12Ns.",
    "nested beyond the stack": b"(" * 100_000 + b"t" * 100_000 + b".",
    "tuples in tuples": b")" + b"\x85" * 100_000 + b".",
    "encoded again and again": bytes_of(b"a" * 50_000)
    + b"q\x00X\x06\x00\x00\x00latin1q\x01c_codecs\nencode\nq\x02"
    + b"]"
    + b"h\x02h\x00h\x01\x86Ra" * 20_000
    + b".",
    "numbers without end": b"I" + b"9" * 200_000 + b"\n.",
    "an array of many rows and no bytes": b"cnumpy._core.numeric\n_frombuffer\n(C\x00cnumpy\ndtype\n(X\x02\x00\x00\x00f8"
    b"tR\x8a\x08" + (10**15).to_bytes(8, "little") + b"K\x00\x86X\x01\x00\x00\x00Ct\x81R.",
}


@pytest.mark.skipif(sys.platform != "linux", reason="limits of processes differ")
def test_memory_and_time_are_bounded_by_the_size_of_the_file(tmp_path):
    """In a process that has 1 GB more than it began with, and ten seconds of processor time for all files."""
    for number, content in enumerate(HOSTILE.values()):
        (tmp_path / f"{number:02}.p").write_bytes(content)
    program = (
        "import resource, sys\nfrom pathlib import Path\n"
        "from calibrant.errors import StudyDataError\nfrom calibrant.studies.safe_pickle import load_pickle\n"
        "now = int(Path('/proc/self/statm').read_text().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (now + 2**30,) * 2)\n"
        "spent = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])\n"
        "resource.setrlimit(resource.RLIMIT_CPU, (int(spent) + 11,) * 2)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for path in sorted(Path(sys.argv[1]).iterdir()):\n"
        "    try:\n        load_pickle(path)\n        said = 'read'\n"
        "    except StudyDataError as error:\n        said = error\n"
        "    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024, said, flush=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    lines = done.stdout.splitlines()
    told = dict(zip(HOSTILE, lines, strict=False))
    assert len(lines) == len(HOSTILE), (told, done.stderr[-300:])
    for name, line in told.items():
        megabytes, said = line.split(" ", 1)
        assert int(megabytes) < 60, name
        assert "more memory than is available" not in said, name


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("copies of copies", "repeats its parts far more often than its size allows"),
        ("keys of keys", "keys are neither text nor numbers"),
        ("encoded again and again", "far more memory than its size"),
    ],
)
def test_what_is_said_of_such_files(tmp_path, name, reason):
    (tmp_path / "hostile.p").write_bytes(HOSTILE[name])
    with pytest.raises(StudyDataError, match=f"not a pickle of numpy arrays alone: it.*{reason}"):
        load_pickle(tmp_path / "hostile.p")


def test_a_part_that_occurs_twice_is_no_danger(tmp_path):
    labels = np.arange(100)
    names = ["a", "b"] * 50
    content = {"first": (labels, names), "second": (labels, names)}
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        (tmp_path / "twice.p").write_bytes(pickle.dumps(content, protocol))
        found = load_pickle(tmp_path / "twice.p")
        assert np.array_equal(found["first"][0], found["second"][0])
        assert found["second"][1] == names


def test_bytes_of_python_2_in_its_oldest_protocol(tmp_path):
    """Text in quotes with escapes, of bytes that are no ASCII."""
    numbers = np.array([1.5, -2.0, 200.25])
    raw = repr(numbers.tobytes())[1:].encode()
    content = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR(I1\n(I3\ntcnumpy\ndtype\n"
        b"(S'f8'\nI0\nI1\ntR(I3\nS'<'\nNNNI-1\nI-1\nI0\ntbI00\nS" + raw + b"\ntb."
    )
    (tmp_path / "oldest.p").write_bytes(content)
    assert np.array_equal(load_pickle(tmp_path / "oldest.p"), numbers)


def test_damaged_files_are_one_sentence(tmp_path):
    content = pickle.dumps(published(), 4)
    path = tmp_path / "cut.p"
    generator = np.random.default_rng(0)
    for length in [0, 1, 2, *generator.integers(3, len(content) - 1, 60)]:
        path.write_bytes(content[:length])
        with pytest.raises(StudyDataError) as caught:
            load_pickle(path)
        assert "\n" not in str(caught.value)
    for _ in range(200):
        changed = bytearray(content)
        changed[generator.integers(len(content))] = generator.integers(256)
        path.write_bytes(bytes(changed))
        assert "\n" not in complaint(path)


@pytest.mark.parametrize("content", [np.zeros((3, 2)), ((np.zeros((3, 2)), [0, 1, 0]),), {"a": 1}, 5, None])
def test_other_layouts_are_refused(tmp_path, content):
    (tmp_path / "other.pkl").write_bytes(pickle.dumps(content))
    with pytest.raises(StudyDataError, match="calibration scores, labels"):
        load(DataSpec("o", "scores", "other.pkl"), tmp_path, tmp_path, 0)


def test_an_archive_is_no_pickle(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros(3))
    (tmp_path / "a.npz").rename(tmp_path / "a.p")
    with pytest.raises(StudyDataError, match="is an archive"):
        load_pickle(tmp_path / "a.p")


def test_absent_or_folder(tmp_path):
    with pytest.raises(StudyDataError, match="cannot be read"):
        load_pickle(tmp_path / "no.p")
