"""Members of a folder or of an uncompressed zip file, read one by one."""

import io
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from calibrant.persistence.schema import UnreadableError, quoted

__all__ = ["Members", "content_of", "members_in", "members_of"]

Members = dict[str, Callable[[], bytes]]
"""Name -> function that reads the member."""


def members_of(path: Path) -> Members:
    """Return the members of a folder or zip file."""
    if path.is_dir():
        return {file.name: file.read_bytes for file in path.iterdir() if file.is_file()}
    return members_in(path.read_bytes())


def members_in(content: bytes) -> Members:
    """Return the members of a zip file from its bytes."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
    except zipfile.BadZipFile as error:
        raise UnreadableError("is neither a folder nor a zip file that save wrote") from error
    members: Members = {}
    for info in archive.infolist():
        if info.compress_type != zipfile.ZIP_STORED or info.file_size > len(content):
            raise UnreadableError(
                f"contains {quoted(info.filename)} in compressed form, which is not allowed"
            )
        members[info.filename] = partial(archive.read, info)
    return members


def content_of(members: Members, name: str, what: str, largest: int | None = None) -> bytes:
    """Return the bytes of one member of a saved ``what``."""
    if name not in members:
        raise UnreadableError(f"is not a saved {what}, or is damaged: {name} is missing")
    try:
        content = members[name]()
    except (zipfile.BadZipFile, EOFError, ValueError) as error:
        raise UnreadableError(f"is damaged: {name} cannot be read") from error
    if largest is not None and len(content) > largest:
        raise UnreadableError(f"is damaged: {name} has more than {largest} bytes")
    return content
