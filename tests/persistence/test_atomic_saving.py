"""A file is replaced as a whole or not at all."""

import errno
import os
import secrets
import shutil
import stat
import subprocess
import sys

import numpy as np
import pytest
from crafted_archives import three_of_four

from calibrant import TemperatureScaling, load
from calibrant.persistence import archive, writing
from calibrant.persistence import replacing as module_of_replacing

OLD = b"the old file"


def raising(error):
    def function(*arguments, **keywords):
        raise error

    return function


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "calibrator"
    path.write_bytes(OLD)
    return path


def write_half(error):
    def write(stream, header, arrays):
        stream.write(header[: len(header) // 2])
        raise error

    return write


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "no space left"), KeyboardInterrupt(), MemoryError()], ids=repr
)
@pytest.mark.parametrize(
    ("module", "name"),
    [
        (archive.np.lib.format, "write_array"),
        (writing, "write_archive"),
        (writing, "read_calibrator"),
        (os, "fsync"),
        (shutil, "copymode"),
        (os, "replace"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_failure_at_any_step_leaves_the_old_file_and_nothing_else(module, name, error, path, monkeypatch):
    monkeypatch.setattr(module, name, write_half(error) if name == "write_archive" else raising(error))
    with pytest.raises(type(error)):
        three_of_four().save(path)
    monkeypatch.undo()
    assert path.read_bytes() == OLD
    assert list(path.parent.iterdir()) == [path]


def test_a_failure_without_an_old_file_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "replace", raising(OSError()))
    with pytest.raises(OSError):
        three_of_four().save(tmp_path / "calibrator")
    assert list(tmp_path.iterdir()) == []


def test_the_content_reaches_the_disk_before_the_name(path, monkeypatch):
    """At the time of replacing, the temporary file must be whole, closed over and flushed."""
    steps = []
    fsync, replace = os.fsync, os.replace

    def watched_fsync(descriptor):
        steps.append(("fsync", os.fstat(descriptor).st_size))
        fsync(descriptor)

    def watched_replace(source, target):
        assert os.path.dirname(source) == os.path.dirname(target)
        steps.append(("replace", os.path.getsize(source)))
        assert load(source).classes_.tolist() == ["bee", "cat"]
        assert path.read_bytes() == OLD
        replace(source, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "replace", watched_replace)
    three_of_four().save(path)
    size = path.stat().st_size
    assert steps[:2] == [("fsync", size), ("replace", size)]


def test_a_folder_that_cannot_be_flushed_is_no_failure(path, monkeypatch):
    fsync, flushed = os.fsync, []

    def only_once(descriptor):
        if flushed:
            raise OSError(errno.EINVAL, "not a file")
        flushed.append(descriptor)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", only_once)
    three_of_four().save(path)
    assert isinstance(load(path).temperature_, float)


def test_the_error_of_a_missing_folder_names_the_file(tmp_path):
    path = tmp_path / "nowhere" / "calibrator.npz"
    with pytest.raises(FileNotFoundError) as caught:
        three_of_four().save(path)
    assert caught.value.filename == str(path)


def test_a_folder_is_not_replaced(tmp_path):
    with pytest.raises(OSError):
        three_of_four().save(tmp_path)
    assert tmp_path.is_dir()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="permissions and links are those of POSIX")
def test_permissions_and_links_are_kept(path):
    path.chmod(0o640)
    link = path.with_name("link")
    link.symlink_to(path)
    three_of_four().save(link)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert np.array_equal(load(path).classes_, ["bee", "cat"])


@pytest.mark.skipif(os.name == "nt", reason="permissions are those of POSIX")
def test_a_new_file_has_the_usual_permissions(tmp_path):
    three_of_four().save(tmp_path / "calibrator")
    (tmp_path / "other").touch()
    assert (tmp_path / "calibrator").stat().st_mode == (tmp_path / "other").stat().st_mode


# What killed processes leave


def left_behind(folder, content=b"half"):
    path = folder / f".calibrant-{secrets.token_hex(8)}.tmp"
    path.write_bytes(content)
    return path


@pytest.fixture
def unswept(monkeypatch):
    monkeypatch.setattr(module_of_replacing, "_SWEPT", set())


@pytest.mark.usefixtures("unswept")
def test_temporary_files_of_killed_processes_are_removed(path):
    left = left_behind(path.parent)
    others = [
        path.parent / name for name in (".calibrant-mine.tmp", "calibrant-0123456789abcdef.tmp", ".other.tmp")
    ]
    for other in others:
        other.write_bytes(b"not ours")
    three_of_four().save(path)
    assert not left.exists()
    assert all(other.exists() for other in others)


@pytest.mark.usefixtures("unswept")
def test_temporary_files_of_a_process_that_runs_stay(path):
    program = (
        "import sys, time\nfrom calibrant.persistence.replacing import replacing\n"
        "with replacing(sys.argv[1]) as stream:\n"
        "    stream.write(b'half')\n    stream.flush()\n    print('writing', flush=True)\n    sys.stdin.read()\n"
    )
    other = path.with_name("other")
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(other)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"writing\n"
    three_of_four().save(path)
    (temporary,) = path.parent.glob(".calibrant-*.tmp")
    process.stdin.close()
    assert process.wait(30) == 0
    process.stdout.close()
    assert other.read_bytes() == b"half"
    assert not temporary.exists()


@pytest.mark.usefixtures("unswept")
def test_a_file_that_its_writer_is_about_to_lock_stays(path):
    new, old = left_behind(path.parent, b""), left_behind(path.parent, b"")
    os.utime(old, (0, 0))
    three_of_four().save(path)
    assert new.exists()
    assert not old.exists()


@pytest.mark.usefixtures("unswept")
def test_links_of_such_names_are_not_followed(path, tmp_path):
    target = tmp_path / "precious"
    target.write_bytes(b"precious")
    link = path.parent / ".calibrant-0123456789abcdef.tmp"
    link.symlink_to(target)
    three_of_four().save(path)
    assert target.read_bytes() == b"precious"


def test_a_full_disk_is_told_with_the_name_of_the_file(path):
    with pytest.raises(OSError, match="No space") as caught, module_of_replacing.replacing(path):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.filename == str(path)


@pytest.mark.parametrize("labels", [["a\0b", "a\0c"], ["\0a", "a"]])
def test_labels_with_a_nul_inside_come_back(path, labels):
    fitted = TemperatureScaling().fit([[0.9, 0.1]] * 4, [labels[0]] * 3 + [labels[1]])
    fitted.save(path)
    assert load(path).classes_.tolist() == sorted(labels)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
@pytest.mark.parametrize("link", [False, True])
def test_a_named_pipe_is_refused_and_stays(tmp_path, link):
    """Renaming would put a file in its place, and so it would in that of a device."""
    pipe = path = tmp_path / "pipe"
    os.mkfifo(pipe)
    if link:
        path = tmp_path / "link"
        path.symlink_to(pipe)
    with pytest.raises(OSError, match=r"not a regular file; give another path.*(pipe|link)"):
        three_of_four().save(path)
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)
    assert sorted(os.listdir(tmp_path)) == (["link", "pipe"] if link else ["pipe"])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_pipe_that_appears_while_the_file_is_written_stays(tmp_path):
    path = tmp_path / "calibrator"

    def write():
        with module_of_replacing.replacing(path) as stream:
            stream.write(b"new")
            os.mkfifo(path)

    with pytest.raises(OSError, match="not a regular file"):
        write()
    assert stat.S_ISFIFO(os.stat(path).st_mode)
    assert os.listdir(tmp_path) == ["calibrator"]
