"""Whether a store is whole: its tables, its pages, and a checksum for every row."""

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = [
    "RECORD_COLUMNS",
    "RUN_COLUMNS",
    "DamagedError",
    "check_pages",
    "check_row",
    "check_tables",
    "checksum",
    "mapping_in",
]

RUN_COLUMNS = (
    *("number", "study", "form", "started", "updated", "seconds", "finished", "jobs", "backend"),
    *("processors", "versions"),
)
RECORD_COLUMNS = ("key", "labels", "status", "numbers", "details", "message", "seconds", "run")
TABLES = {"runs": RUN_COLUMNS, "records": RECORD_COLUMNS}


DAMAGE = ("malformed", "decode", "no such table", "no such column", "too big", "unsupported file format")
"""Words by which SQLite speaks of a file that is not as it was written."""

COMPLAINTS = {
    "not a database": "is not a store of calibrant; name another file.",
    **dict.fromkeys(
        DAMAGE,
        "is damaged, or no store of calibrant; restore it from a copy, or name another file.",
    ),
    "full": "cannot be written, since the disk is full; make room and run again: what is finished is kept.",
    "locked": "is held by another process; wait until it ends, or name another store.",
    "unable to open": "cannot be opened as a store; name another file, in a folder that can be written.",
    "readonly": "cannot be written, since it is for reading only; name another file.",
}
"""What SQLite says, and the rest of a sentence that begins with the name of the file."""


class DamagedError(Exception):
    """What is wrong with a store: the rest of a sentence that says that it is damaged."""


def check_tables(connection: sqlite3.Connection) -> bool:
    """Refuse a database with other tables than ours, or with code among them; return whether rows have checksums.

    Stores of format 1 have none, and are read as they are.
    """
    connection.execute("PRAGMA trusted_schema = OFF")
    found = connection.execute("SELECT type, name, tbl_name FROM sqlite_master").fetchall()
    ours = {(kind, name) for kind, name, table in found if not (kind == "index" and table in TABLES)}
    if ours != {("table", name) for name in TABLES}:
        raise DamagedError("its tables are not those of a store")
    with_checksums = set()
    for table, columns in TABLES.items():
        rows = connection.execute(f"PRAGMA table_xinfo({table})").fetchall()
        names, computed = tuple(row[1] for row in rows), any(row[6] for row in rows)
        if computed or names not in (columns, (*columns, "checksum")):
            raise DamagedError(f"the table {table} has other columns than it should")
        with_checksums.add(names != columns)
    if len(with_checksums) > 1:
        raise DamagedError("one of its tables has checksums and the other has none")
    return with_checksums.pop()


def check_pages(connection: sqlite3.Connection) -> None:
    """Refuse a file whose pages contradict each other; takes about as long as reading it."""
    (said,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if said != "ok":
        raise DamagedError("its pages contradict each other")


def checksum(row: Iterable[Any]) -> str:
    """Return the checksum of the columns of a row.

    >>> checksum(("5f2a", 1, 0.5, None)) == checksum(("5f2a", 1, 0.25, None))
    False
    """
    return hashlib.blake2b(json.dumps(list(row)).encode(), digest_size=16).hexdigest()


def check_row(row: Sequence[Any], kept: Any, what: str) -> None:
    """Refuse a row that is not what was written."""
    try:
        sound = kept == checksum(row)
    except (TypeError, ValueError):  # bytes in the place of text
        sound = False
    if not sound:
        raise DamagedError(f"{what} is not what was written, as its checksum tells")


def mapping_in(text: Any, what: str) -> dict[str, Any]:
    """Return the content of a column of JSON."""
    try:
        content = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise DamagedError(f"{what} cannot be read") from error
    if not isinstance(content, dict):
        raise DamagedError(f"{what} cannot be read")
    return content


def complaint(error: Exception) -> str:
    """Return the rest of a sentence that begins with the name of the store.

    >>> complaint(sqlite3.OperationalError("database is locked"))
    'is held by another process; wait until it ends, or name another store.'
    """
    if isinstance(error, DamagedError):
        return f"is damaged: {error}; restore it from a copy, or remove it and run the study again."
    reason = reason_of(error)
    for words, sentence in COMPLAINTS.items():
        if words in reason:
            return sentence
    return f"cannot be used: {reason}; what was written before is kept."


def reason_of(error: Exception) -> str:
    """Return in a few words what the system, or SQLite, says."""
    if isinstance(error, OSError):
        return os.strerror(error.errno) if error.errno else str(error)
    return " ".join(str(error).split())
