"""Store: one file that holds what came of every unit."""

import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from calibrant.errors import StoreError
from calibrant.studies.results import DONE, FAILED, TOO_SLOW, Record

__all__ = [
    "Run",
    "Store",
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


FORMAT = 2  # of which 1 has no checksums
APPLICATION = 0x63616C62  # "calb", so that other databases are not taken for ours

SCHEMA = """
CREATE TABLE runs (
    number INTEGER PRIMARY KEY, study TEXT NOT NULL, form TEXT, started TEXT NOT NULL, updated TEXT NOT NULL,
    seconds REAL NOT NULL, finished INTEGER NOT NULL, jobs INTEGER NOT NULL, backend TEXT NOT NULL,
    processors INTEGER NOT NULL, versions TEXT NOT NULL, checksum TEXT
);
CREATE TABLE records (
    key TEXT PRIMARY KEY NOT NULL, labels TEXT NOT NULL, status TEXT NOT NULL, numbers TEXT NOT NULL,
    details TEXT NOT NULL, message TEXT NOT NULL, seconds REAL NOT NULL, run INTEGER, checksum TEXT
) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Run:
    """One run of a study: when, how long, on what, and how many units came of it."""

    study: str
    form: str | None
    started: str
    updated: str
    seconds: float
    finished: int
    jobs: int
    backend: str
    processors: int
    versions: Mapping[str, str]


class Store:
    """What came of every unit, in one SQLite file.

    Parameters
    ----------
    path : str or Path
        The file; it is made if it is not there.
    create : bool, default=True
        Whether it may be made.

    Notes
    -----
    Why SQLite and not Parquet: a record is written once, when its unit is whole, in a transaction of its own; the key is
    the primary key, so that nothing is there twice; and a process that is killed in the midst of writing leaves a file
    that the next one reads and goes on with. A Parquet file cannot be appended to: it would have to be written anew for every
    record, or be a folder of thousands of small ones. Its columns would be read faster, which does not count for some
    ten thousand short rows.

    The journal is SQLite's oldest, a file beside it during a transaction, and every commit waits for the disk. Thus there is
    one file when nothing is written, it may be on a network drive, and it survives a power failure. A commit takes some
    milliseconds, during which the next units run; those that end meanwhile are written together. Only the process
    that started the run writes; others may read meanwhile.

    Numbers are kept as JSON with all their digits, and with Python's words for infinities and what is no number. Every row has a
    checksum, which is compared when it is read. Stores of calibrant before format 2 have none; they are read as they are, and
    get checksums when something is written to them.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, Store(Path(folder, "study.sqlite")) as store:
    ...     store.add(Record("5f2a", {"data": "abalone"}, "done", {"log_loss": 1.5}))
    ...     [record.values["log_loss"] for record in store.records()]
    [1.5]
    """

    def __init__(self, path: str | Path, *, create: bool = True) -> None:
        self.path = Path(path)
        self._lock = threading.RLock()
        self._is_ours = self._has_checksums = False
        if not create and not self.path.exists():
            raise StoreError(f"there is no store {self.path}; run the study first, or name another file.")
        if not self.path.parent.is_dir():
            raise StoreError(
                f"there is no folder {self.path.parent} for the store {self.path.name}; make it first."
            )
        if self.path.is_dir():
            raise StoreError(f"{self.path} is a folder and cannot be opened as a store; name a file.")
        with self._told():
            # Transactions are begun and ended by us alone; a lock keeps the threads of this process apart.
            self._connection = sqlite3.connect(
                self.path, timeout=30.0, isolation_level=None, check_same_thread=False
            )
            try:
                self._open()
            except BaseException:
                self._connection.close()
                raise

    @property
    def outputs_folder(self) -> Path:
        """Where outputs of classifiers are kept: a folder beside the file, named after it."""
        return self.path.with_name(f"{self.path.name}.outputs")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def keys(self, status: str | None = None) -> set[str]:
        """Return the keys of all records, or of those with this status."""
        chosen = "" if status is None else " WHERE status = ?"
        with self._told():
            rows = self._connection.execute(
                f"SELECT key FROM records{chosen}", () if status is None else (status,)
            )
            return {key for (key,) in rows}

    def keys_of_study(self, study: str) -> set[str]:
        """Return the keys of all records that runs of a study wrote; others may keep theirs in the same file."""
        with self._told():
            rows = self._connection.execute(
                "SELECT key FROM records JOIN runs ON records.run = runs.number WHERE runs.study = ?",
                (study,),
            )
            return {key for (key,) in rows}

    def add(self, *records: Record, run: int | None = None, seconds: float = 0.0) -> None:
        """Keep records, all of them or none, in the place of those with the same keys.

        ``run`` is the number of the run that they come from, which has lasted for so many ``seconds``.
        """
        rows = [
            (
                record.key,
                _encoded(record.labels),
                record.status,
                _encoded(record.values),
                _encoded(record.details),
                record.message,
                float(record.seconds),
                run,
            )
            for record in records
        ]
        with self._transaction() as connection:
            connection.executemany(
                f"INSERT OR REPLACE INTO records VALUES ({', '.join('?' * (len(RECORD_COLUMNS) + 1))})",
                [(*row, checksum(row)) for row in rows],
            )
            if run is not None:
                connection.execute(
                    "UPDATE runs SET updated = ?, seconds = ?, finished = finished + ? WHERE number = ?",
                    (_now(), seconds, len(rows), run),
                )
                _seal_runs(connection, run)

    def records(self, keys: Iterable[str] | None = None) -> list[Record]:
        """Return all records, or those of some keys that are there, sorted by key; refuse one that has been changed."""
        wanted = None if keys is None else set(keys)
        found: list[Record] = []
        with self._told():
            for row in self._rows("records", RECORD_COLUMNS, "key"):
                key, labels, status, numbers, details, message, seconds, _ = row
                what = f"the record {str(key)[:8]!r}"
                if (
                    not all(isinstance(text, str) for text in (key, message))
                    or status not in (DONE, FAILED, TOO_SLOW)
                    or not isinstance(seconds, float)
                    or (found and found[-1].key == key)
                ):
                    raise DamagedError(f"{what} cannot be read")
                record = Record(
                    key,
                    mapping_in(labels, what),
                    status,
                    mapping_in(numbers, what),
                    mapping_in(details, what),
                    message,
                    seconds,
                )
                if wanted is None or key in wanted:
                    found.append(record)
        return found

    def forget(self, keys: Iterable[str]) -> int:
        """Remove the records of some keys, and return how many there were; no run may be under way."""
        with self.locked(), self._transaction() as connection:
            return sum(
                connection.execute("DELETE FROM records WHERE key = ?", (key,)).rowcount for key in set(keys)
            )

    def begin_run(
        self,
        study: str,
        form: str | None,
        *,
        jobs: int,
        backend: str,
        processors: int,
        versions: Mapping[str, str],
    ) -> int:
        """Note that a run begins, and return its number."""
        now = _now()
        with self._transaction() as connection:
            cursor = connection.execute(
                "INSERT INTO runs (study, form, started, updated, seconds, finished, jobs, backend, processors, versions)"
                " VALUES (?, ?, ?, ?, 0, 0, ?, ?, ?, ?)",
                (study, form, now, now, jobs, backend, processors, _encoded(dict(versions))),
            )
            assert cursor.lastrowid is not None
            _seal_runs(connection, cursor.lastrowid)
            return cursor.lastrowid

    def runs(self) -> list[Run]:
        """Return all runs that wrote to this store, in their order."""
        with self._told():
            found = []
            for number, *row in self._rows("runs", RUN_COLUMNS, "number"):
                columns = dict(zip(RUN_COLUMNS[1:], row, strict=True))
                columns["versions"] = mapping_in(columns["versions"], f"run {number}")
                found.append(Run(**columns))
            return found

    def _rows(self, table: str, columns: Sequence[str], order: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a table, each of which is what was written."""
        kept = "checksum" if self._has_checksums else "NULL"
        rows = self._connection.execute(f"SELECT {', '.join(columns)}, {kept} FROM {table} ORDER BY {order}")
        for *row, sum_kept in rows:
            if self._has_checksums:
                check_row(row, sum_kept, f"the row {str(row[0])[:8]!r} of the table {table}")
            yield tuple(row)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Return a context in which no other process runs a study with this store.

        The lock is that of an empty database among the outputs, which the system takes back when a process dies.
        """
        file = self.outputs_folder / "lock"
        try:
            self.outputs_folder.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(file, timeout=0.0, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"{file} cannot be written: {reason_of(error)}.") from error
        try:
            try:
                connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                if "locked" in str(error):
                    raise StoreError(
                        f"another run is writing to {self.path}; wait until it ends, or name another store."
                    ) from None
                raise StoreError(f"{file} cannot be written: {reason_of(error)}.") from error
            yield
        finally:
            connection.close()

    def _open(self) -> None:
        connection = self._connection
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA synchronous = FULL")
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if application == APPLICATION:
            if version > FORMAT:
                raise StoreError(
                    f"{self.path} was written by a later calibrant, in format {version}, and this one knows {FORMAT}; "
                    "update calibrant, or name another store."
                )
            self._has_checksums = check_tables(connection)
            check_pages(connection)
            self._is_ours = True
            return
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise StoreError(f"{self.path} is a database of something else; name another file for the store.")
        with self._transaction():
            # Another process may have been faster.
            if connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION:
                self._has_checksums = check_tables(connection)
                return
            for statement in SCHEMA.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {FORMAT}")
            self._has_checksums = True

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Return a context whose changes are all kept, or none of them."""
        with self._told():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                if not self._has_checksums and self._is_ours:
                    self._add_checksums()
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _add_checksums(self) -> None:
        """Bring a store of format 1 to the present one; another process may have done so meanwhile."""
        connection = self._connection
        if not check_tables(connection):
            for table in ("runs", "records"):
                connection.execute(f"ALTER TABLE {table} ADD COLUMN checksum TEXT")
            for row in connection.execute(f"SELECT {', '.join(RECORD_COLUMNS)} FROM records").fetchall():
                connection.execute("UPDATE records SET checksum = ? WHERE key = ?", (checksum(row), row[0]))
            _seal_runs(connection)
            connection.execute(f"PRAGMA user_version = {FORMAT}")
        self._has_checksums = True

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Say in one sentence what is wrong with the file."""
        try:
            with self._lock:
                yield
        except (DamagedError, sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise StoreError(f"{self.path} {complaint(error)}") from error


def _seal_runs(connection: sqlite3.Connection, number: int | None = None) -> None:
    """Write the checksum of one run, or of all."""
    chosen, values = ("", ()) if number is None else (" WHERE number = ?", (number,))
    for row in connection.execute(f"SELECT {', '.join(RUN_COLUMNS)} FROM runs{chosen}", values).fetchall():
        connection.execute("UPDATE runs SET checksum = ? WHERE number = ?", (checksum(row), row[0]))


def _encoded(content: Mapping[str, Any]) -> str:
    return json.dumps(dict(content), default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "tolist"):  # of numpy
        return value.tolist()
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    return str(value)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
