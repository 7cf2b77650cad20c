"""Store: one file that holds what came of every unit."""

import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from calibrant.errors import StoreError
from calibrant.studies.record import Record

__all__ = ["FORMAT", "Run", "Store"]

FORMAT = 1
APPLICATION = 0x63616C62  # "calb", so that other databases are not taken for ours

SCHEMA = """
CREATE TABLE runs (
    number INTEGER PRIMARY KEY, study TEXT NOT NULL, form TEXT, started TEXT NOT NULL, updated TEXT NOT NULL,
    seconds REAL NOT NULL, finished INTEGER NOT NULL, jobs INTEGER NOT NULL, backend TEXT NOT NULL,
    processors INTEGER NOT NULL, versions TEXT NOT NULL
);
CREATE TABLE records (
    key TEXT PRIMARY KEY NOT NULL, labels TEXT NOT NULL, status TEXT NOT NULL, numbers TEXT NOT NULL,
    details TEXT NOT NULL, message TEXT NOT NULL, seconds REAL NOT NULL, run INTEGER
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

    Numbers are kept as JSON with all their digits, and with Python's words for infinities and what is no number.

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
            connection.executemany("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
            if run is not None:
                connection.execute(
                    "UPDATE runs SET updated = ?, seconds = ?, finished = finished + ? WHERE number = ?",
                    (_now(), seconds, len(rows), run),
                )

    def records(self, keys: Iterable[str] | None = None) -> list[Record]:
        """Return all records, or those of some keys that are there, sorted by key."""
        wanted = None if keys is None else set(keys)
        found = []
        with self._told():
            rows = self._connection.execute(
                "SELECT key, labels, status, numbers, details, message, seconds FROM records ORDER BY key"
            )
            for key, labels, status, numbers, details, message, seconds in rows:
                if wanted is None or key in wanted:
                    found.append(
                        Record(
                            key,
                            json.loads(labels),
                            status,
                            json.loads(numbers),
                            json.loads(details),
                            message,
                            seconds,
                        )
                    )
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
            return cursor.lastrowid

    def runs(self) -> list[Run]:
        """Return all runs that wrote to this store, in their order."""
        with self._told():
            rows = self._connection.execute(
                "SELECT study, form, started, updated, seconds, finished, jobs, backend, processors, versions"
                " FROM runs ORDER BY number"
            )
            names = [column[0] for column in rows.description]
            found = [dict(zip(names, row, strict=True)) for row in rows]
        return [Run(**{**row, "versions": json.loads(row["versions"])}) for row in found]

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
            raise StoreError(f"{file} cannot be written: {_reason(error)}.") from error
        try:
            try:
                connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                if "locked" in str(error):
                    raise StoreError(
                        f"another run is writing to {self.path}; wait until it ends, or name another store."
                    ) from None
                raise StoreError(f"{file} cannot be written: {_reason(error)}.") from error
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
            return
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise StoreError(f"{self.path} is a database of something else; name another file for the store.")
        with self._transaction():
            # Another process may have been faster.
            if connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION:
                return
            for statement in SCHEMA.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {FORMAT}")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Return a context whose changes are all kept, or none of them."""
        with self._told():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Say in one sentence what is wrong with the file."""
        try:
            with self._lock:
                yield
        except sqlite3.DatabaseError as error:
            reason = _reason(error)
            if "not a database" in reason or "malformed" in reason:
                raise StoreError(f"{self.path} is not a store of calibrant; name another file.") from error
            if "full" in reason:
                raise StoreError(
                    f"{self.path} cannot be written, since the disk is full; make room and run again: "
                    "what is finished is kept."
                ) from error
            if "locked" in reason:
                raise StoreError(
                    f"{self.path} is held by another process; wait until it ends, or name another store."
                ) from error
            if "unable to open" in reason:
                raise StoreError(
                    f"{self.path} cannot be opened as a store; name another file, in a folder that can be written."
                ) from error
            if "readonly" in reason:
                raise StoreError(
                    f"{self.path} cannot be written, since it is for reading only; name another file."
                ) from error
            raise StoreError(
                f"{self.path} cannot be used: {reason}; what was written before is kept."
            ) from error


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


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return os.strerror(error.errno) if error.errno else str(error)
    return str(error)
