"""Atomic replacement of files: a file is replaced completely or not at all."""

import errno
import os
import re
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedRandom

if sys.platform != "win32":  # where nobody can remove or rename a file that is open
    import fcntl

__all__ = ["replacing", "returned_and_written", "sweep"]

TEMPORARY = re.compile(r"\.calibrant-[0-9a-f]{16}\.tmp")
SECONDS_TO_LOCK = 60.0
"""Age below which an empty temporary file may be one that its writer is about to lock."""

FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))

_SWEPT: set[str] = set()


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BufferedRandom]:
    """Open a temporary file for writing and reading; it replaces ``path`` if no exception is raised.

    The temporary file lies in the same folder, because renaming is atomic only within a file system. It is flushed to
    disk before it is renamed; otherwise a power failure could leave a new name on old blocks. An exception or an
    interrupt leaves the old file as it was. Symbolic links are followed, and the permissions of an existing file are
    kept. Temporary files of killed processes in the folder are removed. Errors of a full disk and of a missing folder
    name ``path``. A path that exists and is no regular file, such as a device or a named pipe, is refused.
    """
    _check_regular(os.fsdecode(path))
    target = os.path.realpath(os.fsdecode(path))
    folder = os.path.dirname(target)
    if folder not in _SWEPT:
        _SWEPT.add(folder)
        sweep(folder)
    temporary = os.path.join(folder, f".calibrant-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "x+b") as stream:
            _lock(stream.fileno())
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            if sys.platform != "win32":  # still locked
                _rename(temporary, target)
        if sys.platform == "win32":
            _rename(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and (error.errno in FULL or error.filename == temporary):
            error.filename = os.fsdecode(path)
        raise
    _flush_folder(folder)


def returned_and_written(text: str, path: str | os.PathLike[str] | None) -> str:
    """Return a text, and write it to ``path`` in UTF-8 if given."""
    if path is not None:
        with replacing(path) as stream:
            stream.write(text.encode("utf-8"))
    return text


def sweep(folder: str | os.PathLike[str]) -> None:
    """Remove temporary files of ours in a folder whose writers are no longer running.

    A writer holds a lock on its file, which the system takes back when the process dies.
    """
    with suppress(OSError):
        names = [entry.name for entry in os.scandir(folder) if TEMPORARY.fullmatch(entry.name)]
        for name in names:
            with suppress(OSError):
                _remove_if_abandoned(os.path.join(folder, name))


def _remove_if_abandoned(path: str) -> None:
    if sys.platform == "win32":
        os.unlink(path)  # fails while it is open
        return
    flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while its writer runs
        status = os.fstat(descriptor)
        if status.st_size > 0 or time.time() - status.st_mtime > SECONDS_TO_LOCK:
            os.unlink(path)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    if sys.platform != "win32":
        with suppress(OSError):  # of a file system without locks, where nothing can be swept either
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _check_regular(target: str) -> None:
    """Refuse a target that renaming would destroy; a folder has an error of its own."""
    try:
        mode = os.stat(target).st_mode
    except OSError:  # nothing there, or nothing that may be seen: opening the temporary file tells
        return
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError(
            errno.EINVAL,
            "this is a device, a pipe or a socket, not a regular file; give another path",
            target,
        )


def _rename(temporary: str, target: str) -> None:
    _check_regular(target)
    with suppress(FileNotFoundError):
        shutil.copymode(target, temporary)
    os.replace(temporary, target)


def _flush_folder(folder: str) -> None:
    # The file is complete by now. Where a folder cannot be opened, the system writes its entry later.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
