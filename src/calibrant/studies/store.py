"""Store: the results of all units in one SQLite file."""

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
from calibrant.studies.own_code import one_line
from calibrant.studies.results import DONE, FAILED, TOO_SLOW, Record

__all__ = ["Run", "Store"]


RUN_COLUMNS = (
    *("number", "study", "form", "started", "updated", "seconds", "finished", "jobs", "backend"),
    *("processors", "versions"),
)
RECORD_COLUMNS = ("key", "labels", "status", "numbers", "details", "message", "seconds", "run")
TABLES = {"runs": RUN_COLUMNS, "records": RECORD_COLUMNS}


DAMAGE = ("malformed", "decode", "no such table", "no such column", "too big", "unsupported file format")
"""Words in SQLite's messages about damaged files."""

COMPLAINTS = {
    "not a database": "is not a store of calibrant; name another file.",
    **dict.fromkeys(
        DAMAGE,
        "is damaged, or is not a store of calibrant; restore it from a backup, or name another file.",
    ),
    "full": "cannot be written because the disk is full; free some space and run again: finished units are kept.",
    "locked": "is locked by another process; wait until it ends, or name another store.",
    "unable to open": "cannot be opened as a store; name another file, in a writable folder.",
    "readonly": "cannot be written because it is read-only; name another file.",
}
"""Words in SQLite's messages -> the rest of a sentence that begins with the name of the file."""


class DamagedError(Exception):
    """The store is damaged; the message is the reason."""


def check_tables(connection: sqlite3.Connection) -> bool:
    """Refuse a database with other tables, triggers or computed columns; return whether rows have checksums.

    Stores of format 1 have no checksums.
    """
    connection.execute("PRAGMA trusted_schema = OFF")
    found = connection.execute("SELECT type, name, tbl_name FROM sqlite_master").fetchall()
    ours = {(kind, name) for kind, name, table in found if not (kind == "index" and table in TABLES)}
    if ours != {("table", name) for name in TABLES}:
        raise DamagedError("it has other tables than a store")
    with_checksums = set()
    for table, columns in TABLES.items():
        rows = connection.execute(f"PRAGMA table_xinfo({table})").fetchall()
        names, computed = tuple(row[1] for row in rows), any(row[6] for row in rows)
        if computed or names not in (columns, (*columns, "checksum")):
            raise DamagedError(f"the table {table} has unexpected columns")
        with_checksums.add(names != columns)
    if len(with_checksums) > 1:
        raise DamagedError("only one of its tables has checksums")
    return with_checksums.pop()


def check_pages(connection: sqlite3.Connection) -> None:
    """Refuse a file whose pages are inconsistent; takes about as long as reading it."""
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise DamagedError("its pages are inconsistent")


def checksum(row: Iterable[Any]) -> str:
    """Return the checksum of the columns of a row.

    >>> checksum(("5f2a", 1, 0.5, None)) == checksum(("5f2a", 1, 0.25, None))
    False
    """
    return hashlib.blake2b(json.dumps(list(row)).encode(), digest_size=16).hexdigest()


def check_row(row: Sequence[Any], stored: Any, what: str) -> None:
    """Refuse a row whose checksum does not match."""
    try:
        sound = stored == checksum(row)
    except (TypeError, ValueError):  # bytes instead of text
        sound = False
    if not sound:
        raise DamagedError(f"the checksum of {what} does not match")


def mapping_in(text: Any, what: str) -> dict[str, Any]:
    """Return the content of a JSON column."""
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
    'is locked by another process; wait until it ends, or name another store.'
    """
    if isinstance(error, DamagedError):
        return f"is damaged: {error}; restore it from a backup, or remove it and run the study again."
    reason = reason_of(error)
    for words, sentence in COMPLAINTS.items():
        if words in reason:
            return sentence
    return f"cannot be used: {reason}; earlier results are kept."


def reason_of(error: Exception) -> str:
    """Return the message of the operating system or of SQLite in one line."""
    if isinstance(error, OSError):
        return os.strerror(error.errno) if error.errno else str(error)
    return one_line(error)


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
    """One run of a study: its times, its environment and the number of units that it finished."""

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
    """The results of all units, in one SQLite file.

    Parameters
    ----------
    path : str or Path
        The file; created if it does not exist.
    create : bool, default=True
        Whether a new file may be created.

    Notes
    -----
    SQLite writes each record in its own transaction as soon as the unit is finished. The key is the primary key, so there are
    no duplicates. A process that is killed while writing leaves a file that the next run can read and continue. Parquet files
    cannot be appended to: each record would need a rewrite or a file of its own. Their faster columns do not matter for some
    ten thousand short rows.

    The store uses a rollback journal and waits for the disk at every commit. It is therefore a single file between
    transactions, works on network drives, and survives a power failure. A commit takes some milliseconds, during which the
    next units run; units that finish meanwhile are written together. Only the process that started the run writes; others
    can read at any time.

    Numbers are stored as JSON with full precision, and infinities and NaN as Python spells them. Every row has a checksum,
    which is verified when it is read. Stores of format 1 have no checksums; they can be read, and get checksums at the
    next write.

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
                f"there is no folder {self.path.parent} for the store {self.path.name}; create it first."
            )
        if self.path.is_dir():
            raise StoreError(f"{self.path} is a folder and cannot be opened as a store; name a file.")
        with self._naming_file():
            # Transactions are explicit; a lock serialises the threads of this process.
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
        """Folder of the cached predictions of classifiers, beside the file and named after it."""
        return self.path.with_name(f"{self.path.name}.outputs")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def keys(self, status: str | None = None) -> set[str]:
        """Return the keys of all records, or of those with a given status."""
        chosen = "" if status is None else " WHERE status = ?"
        with self._naming_file():
            rows = self._connection.execute(
                f"SELECT key FROM records{chosen}", () if status is None else (status,)
            )
            return {key for (key,) in rows}

    def keys_of_study(self, study: str) -> set[str]:
        """Return the keys of all records written by runs of a study; several studies can share a file."""
        with self._naming_file():
            rows = self._connection.execute(
                "SELECT key FROM records JOIN runs ON records.run = runs.number WHERE runs.study = ?",
                (study,),
            )
            return {key for (key,) in rows}

    def add(self, *records: Record, run: int | None = None, seconds: float = 0.0) -> None:
        """Write records in one transaction; they replace those with the same keys.

        ``run`` is the number of the run that produced them, and ``seconds`` the duration of that run so far.
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
        """Return all records, or those with the given keys, sorted by key; refuse records that were altered."""
        wanted = None if keys is None else set(keys)
        found: list[Record] = []
        with self._naming_file():
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
        """Remove the records with the given keys and return their number; no run may be active."""
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
        """Record the start of a run and return its number."""
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
        """Return all runs that wrote to this store, in order."""
        with self._naming_file():
            found = []
            for number, *row in self._rows("runs", RUN_COLUMNS, "number"):
                columns = dict(zip(RUN_COLUMNS[1:], row, strict=True))
                columns["versions"] = mapping_in(columns["versions"], f"run {number}")
                found.append(Run(**columns))
            return found

    def _rows(self, table: str, columns: Sequence[str], order: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a table after verifying their checksums."""
        stored = "checksum" if self._has_checksums else "NULL"
        rows = self._connection.execute(
            f"SELECT {', '.join(columns)}, {stored} FROM {table} ORDER BY {order}"
        )
        for *row, sum_kept in rows:
            if self._has_checksums:
                check_row(row, sum_kept, f"the row {str(row[0])[:8]!r} of the table {table}")
            yield tuple(row)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Return a context in which no other process can run a study with this store.

        The lock is that of an empty database in the outputs folder; the operating system releases it when the process ends.
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
                    f"{self.path} was written by a later version of calibrant, in format {version}, and this version reads "
                    f"up to {FORMAT}; update calibrant, or name another store."
                )
            self._has_checksums = check_tables(connection)
            check_pages(connection)
            self._is_ours = True
            return
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise StoreError(
                f"{self.path} is a database of another program; name another file for the store."
            )
        with self._transaction():
            # Another process may have created it meanwhile.
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
        """Return a context whose changes are committed together or rolled back."""
        with self._naming_file():
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
        """Upgrade a store of format 1, unless another process did so meanwhile."""
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
    def _naming_file(self) -> Iterator[None]:
        """Raise one-sentence errors about the file."""
        try:
            with self._lock:
                yield
        except (DamagedError, sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise StoreError(f"{self.path} {complaint(error)}") from error


def _seal_runs(connection: sqlite3.Connection, number: int | None = None) -> None:
    """Write the checksum of one run, or of all runs."""
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
