"""Schedule: which task comes next, with every classifier trained once and before its units."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from calibrant.studies.tasks import Pause, Task, Training, UnitTask
from calibrant.studies.units import GridWork, Unit

__all__ = ["Schedule"]


class Schedule:
    """Tasks in an order that keeps workers busy.

    Units whose outputs are there come first, then the next training, and a pause where all that is left waits for
    trainings under way. There are no waves at whose ends workers would wait for each other.

    Parameters
    ----------
    units : iterable of Unit
        To be run; those of the first repeat come first, so that a run that is stopped leaves whole tables.
    is_there : callable
        Tells of the key of a training whether its outputs are in the cache.
    """

    def __init__(self, units: Iterable[Unit], is_there: Callable[[str], bool]) -> None:
        # A worker asks for tasks while the main thread hands in answers.
        self._lock = threading.Lock()
        self._ready: deque[UnitTask] = deque()
        self._trainings: deque[Training] = deque()
        self._waiting: dict[str, list[Unit]] = {}
        self._under_way: dict[tuple[str, str], Training | UnitTask] = {}
        for unit in sorted(units, key=_turn):
            work = unit.work
            training = work.training if isinstance(work, GridWork) else None
            if training is None or (training not in self._waiting and is_there(training)):
                self._ready.append(UnitTask(unit.key, work))
                continue
            if training not in self._waiting:
                assert isinstance(work, GridWork)
                self._trainings.append(Training(training, work.request, work.outputs))
            self._waiting.setdefault(training, []).append(unit)

    def tasks(self) -> Iterator[Task]:
        """Yield tasks until all are given out and none can follow."""
        while (task := self._next()) is not None:
            yield task

    def _next(self) -> Task | None:
        with self._lock:
            task: Training | UnitTask
            if self._ready:
                task = self._ready.popleft()
            elif self._trainings:
                task = self._trainings.popleft()
            elif self._waiting:
                return Pause()
            else:
                return None
            self._under_way[_name(task)] = task
            return task

    def finished(self, task: Task, failed: bool = False) -> list[Unit]:
        """Take note that a task has ended; return the units that cannot be run now, if it was a training that failed."""
        if isinstance(task, Pause):
            return []
        with self._lock:
            self._under_way.pop(_name(task), None)
            if isinstance(task, UnitTask):
                return []
            units = self._waiting.pop(task.key, [])
            if failed:
                return units
            self._ready.extend(UnitTask(unit.key, unit.work) for unit in units)
            return []

    def lost(self) -> list[Training | UnitTask]:
        """Return tasks that were given out and never ended, after their workers have died."""
        with self._lock:
            return list(self._under_way.values())

    def waiting(self) -> list[list[Unit]]:
        """Return the units of every training that is to be done."""
        return list(self._waiting.values())


def _name(task: Training | UnitTask) -> tuple[str, str]:
    return type(task).__name__, task.key


def _turn(unit: Unit) -> int:
    return int(unit.labels.get("repeat", 0))
