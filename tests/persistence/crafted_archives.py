"""Take saved files apart and put them together in ways that save never does."""

import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from calibrant import TemperatureScaling, load
from calibrant.errors import FileFormatError

Members = dict[str, bytes]


def three_of_four() -> TemperatureScaling:
    """Return a fit whose temperature is 2: three of four right at 90 %, and sqrt(9) = 3."""
    return TemperatureScaling().fit([[0.9, 0.1]] * 4, ["bee", "bee", "bee", "cat"])


def members_of(path: Path) -> Members:
    """Return name -> content of a zip archive."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_members(path: Path, members: Members, compression: int = zipfile.ZIP_STORED) -> None:
    """Write an archive with correct checksums, whatever is in it."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def edit_member(path: Path, name: str, content: bytes) -> None:
    """Replace or add one member."""
    write_members(path, {**members_of(path), name: content})


def edit_header(path: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    """Let ``edit`` change the header in place."""
    header = json.loads(members_of(path)["header.json"])
    edit(header)
    edit_member(path, "header.json", json.dumps(header).encode())


def npy(description: str, shape: str, data: bytes, version: int = 1) -> bytes:
    """Return an npy member that declares whatever is asked for."""
    header = f"{{'descr': {description}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H", len(header)) + header + data


def npy_of(array: NDArray[Any]) -> bytes:
    """Return an honest npy member."""
    return npy(repr(array.dtype.str), repr(array.shape), np.ascontiguousarray(array).tobytes())


def local_header(name: str, content: bytes) -> bytes:
    """Return what stands before a stored member."""
    sizes = (zlib.crc32(content), len(content), len(content), len(name), 0)
    return struct.pack("<4s5H3I2H", b"PK\x03\x04", 20, 0, 0, 0, 33, *sizes) + name.encode()


def directory_entry(name: str, content: bytes, offset: int) -> bytes:
    """Return what stands in the directory for a stored member whose local header is at ``offset``."""
    sizes = (zlib.crc32(content), len(content), len(content), len(name), 0)
    fixed = struct.pack("<4s6H3I5H2I", b"PK\x01\x02", 20, 20, 0, 0, 0, 33, *sizes, 0, 0, 0, 0, offset)
    return fixed + name.encode()


def end_record(n_members: int, directory_size: int, directory_start: int) -> bytes:
    """Return the last 22 bytes of an archive."""
    return struct.pack(
        "<4s4H2IH", b"PK\x05\x06", 0, 0, n_members, n_members, directory_size, directory_start, 0
    )


def assert_refused(path: Path, reason: str) -> None:
    """Fail unless the file is refused with ``reason``, in one sentence that begins with the path."""
    with pytest.raises(FileFormatError, match=reason) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{path} ")
    assert message.endswith(".")
    assert "\n" not in message
    assert len(message) < len(str(path)) + 250
