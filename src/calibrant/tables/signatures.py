"""Check that the first bytes of a file agree with its extension."""

import zipfile
from pathlib import Path

from calibrant.errors import FileFormatError

__all__ = ["check_signature"]

SIGNATURES = {
    b"PAR1": ("Parquet", (".parquet", ".pq")),
    b"ARROW1": ("Feather", (".feather", ".arrow")),
    b"PK\x03\x04": ("a ZIP archive", (".npz",)),
    b"\x1f\x8b": ("text compressed by gzip", (".csv.gz", ".tsv.gz")),
}
BYTES_LOOKED_AT = 4096


def check_signature(path: Path) -> None:
    """Reject a file whose first bytes are the signature of another format than its extension.

    Files without a known signature, possibly damaged, are left to the reader of the format.
    """
    with path.open("rb") as stream:
        start = stream.read(BYTES_LOOKED_AT)
    name = path.name.lower()
    for signature, (what, endings) in SIGNATURES.items():
        if start.startswith(signature):
            if name.endswith(endings):
                return
            if what == "a ZIP archive" and not _has_arrays(path):
                raise FileFormatError(
                    f"{path} looks like a ZIP archive, such as an Excel file, not like {_said(path)}; save it as "
                    "CSV."
                )
            shown = "NPZ" if what == "a ZIP archive" else what
            raise FileFormatError(f"{path} looks like {shown}; give it the extension {endings[0]}.")
    if start and not name.endswith((".csv", ".tsv", ".gz")) and _is_text(start):
        raise FileFormatError(
            f"{path} looks like text, not like {_said(path)}; give it the extension .csv, or .tsv if it has tabs."
        )


def _said(path: Path) -> str:
    """Return the format of the file extension."""
    found = (what for what, endings in SIGNATURES.values() if path.name.lower().endswith(endings))
    what = next(found, "text")
    return "NPZ" if what == "a ZIP archive" else what


def _has_arrays(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith(".npy") for name in archive.namelist())
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OverflowError, OSError):
        return False


def _is_text(start: bytes) -> bool:
    first, _, _ = start.partition(b"\n")
    return first.isascii() and b"\x00" not in start and first.decode("ascii").strip().isprintable()
