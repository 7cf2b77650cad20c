"""Writing records while the next units run, as many at a time as there are."""

import threading
import time
from queue import SimpleQueue
from types import TracebackType
from typing import Self

from calibrant.studies.record import Record
from calibrant.studies.store import Store

__all__ = ["Writer"]


class Writer:
    """A thread that writes records to a store.

    A record is written as soon as it comes; those that come while the disk is busy are written together. Thus a slow disk
    holds nothing up, and a run that is killed loses no more than what came within its last few milliseconds.

    Parameters
    ----------
    store : Store
        Is written by this thread alone.
    run : int or None
        Number of the run.
    start : float
        When it began, by ``time.perf_counter``.
    """

    def __init__(self, store: Store, run: int | None, start: float) -> None:
        self._store, self._run, self._start = store, run, start
        self._queue: SimpleQueue[Record | None] = SimpleQueue()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._write, name="calibrant-writer")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait until all is written, also after an error or an interrupt, since it is finished work."""
        self._queue.put(None)
        self._thread.join()
        if kind is None:
            self._check()

    def put(self, record: Record) -> None:
        """Have a record written; raise what went wrong with an earlier one."""
        self._check()
        self._queue.put(record)

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _write(self) -> None:
        last = False
        while not last:
            waiting = [self._queue.get()]
            while not self._queue.empty():
                waiting.append(self._queue.get())
            records = [record for record in waiting if record is not None]
            last = len(records) < len(waiting)
            if not records:
                continue
            try:
                self._store.add(*records, run=self._run, seconds=time.perf_counter() - self._start)
            except BaseException as error:
                self._error = error
                return
