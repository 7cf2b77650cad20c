"""Replace a file as a whole or not at all."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedRandom

__all__ = ["replacing"]


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BufferedRandom]:
    """Give a temporary file to write and read, which takes the place of ``path`` if all goes well.

    The temporary file is in the same folder, since only within one file system is renaming a single step. It
    reaches the disk before it is renamed; otherwise a power failure could leave a new name on old blocks.
    Whatever is raised meanwhile, an interrupt included, leaves the old file as it was. A symbolic link is
    followed, and an existing file passes on its permissions.
    """
    target = os.path.realpath(os.fsdecode(path))
    folder = os.path.dirname(target)
    temporary = os.path.join(folder, f".calibrant-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "x+b") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        with suppress(FileNotFoundError):
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _flush_folder(folder)


def _flush_folder(folder: str) -> None:
    # The file is whole by now; where a folder cannot be opened, its entry is written when the system likes.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
