"""Execution: run the units of a plan that a store lacks, and write each result as soon as it is finished."""

import platform
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self

import calibrant
from calibrant.persistence.replacing import sweep
from calibrant.studies.forecast import Sizes, TimeLeft, sizes_of
from calibrant.studies.outputs import OutputsCache
from calibrant.studies.plan import Plan
from calibrant.studies.recipe import check_own_code
from calibrant.studies.results import DONE, FAILED, TOO_SLOW, Record
from calibrant.studies.store import Store
from calibrant.studies.units import Answer, Context, GridWork, Pause, Task, Training, Unit, UnitTask
from calibrant.studies.workers import WorkerDiedError, Workers, opened, processors

__all__ = ["Progress", "Schedule", "Summary", "run", "versions"]


class Schedule:
    """A queue of tasks that trains each classifier once, before the units that need it, and keeps workers busy.

    Units whose predictions are cached come first, then the next training; workers pause only if all remaining units depend on
    trainings in progress. There is no barrier at which all workers wait.

    Parameters
    ----------
    units : iterable of Unit
        Units to run. Those of the first repeat and fold come first, so that an interrupted run leaves complete tables. Of these,
        the units of the smallest and the largest data set come first, so that the times of all others lie between known ones.
    is_there : callable
        Whether the predictions of a training, given by its key, are cached.
    sizes : callable, optional
        Number of rows and of classes of a data set by its name, see :func:`~calibrant.studies.forecast.sizes_of`.
    """

    def __init__(
        self, units: Iterable[Unit], is_there: Callable[[str], bool], sizes: Sizes | None = None
    ) -> None:
        units = list(units)
        extremes = [] if sizes is None else _extremes(units, sizes)
        # Another thread asks for tasks while the main thread reports results.
        self._lock = threading.Lock()
        self._ready: deque[UnitTask] = deque()
        self._trainings: deque[Training] = deque()
        self._waiting: dict[str, list[Unit]] = {}
        self._under_way: dict[tuple[str, str], Training | UnitTask] = {}
        for unit in sorted(units, key=lambda unit: _turn(unit, extremes)):
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
        """Yield tasks until none is left and none can follow."""
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
        """Record the end of a task; return the units that can never run if it was a training that failed."""
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
        """Return tasks that were started and never finished because their workers died."""
        with self._lock:
            return list(self._under_way.values())

    def waiting(self) -> list[list[Unit]]:
        """Return the units that wait for each training."""
        return list(self._waiting.values())


def _name(task: Training | UnitTask) -> tuple[str, str]:
    return type(task).__name__, task.key


def _turn(unit: Unit, first: Sequence[Any]) -> tuple[int, int, int]:
    data = unit.labels.get("data")
    place = first.index(data) if data in first else len(first)
    return int(unit.labels.get("repeat", 0)), int(unit.labels.get("fold", 0)), place


def _extremes(units: Iterable[Unit], sizes: Sizes) -> list[Any]:
    """Return the data sets with the fewest and the most rows."""
    names = dict.fromkeys(unit.labels["data"] for unit in units if "data" in unit.labels)
    rows = {name: size[0] for name in names if (size := sizes(name)) is not None}
    return [min(rows, key=rows.__getitem__), max(rows, key=rows.__getitem__)] if rows else []


class Writer:
    """A thread that writes records to a store as soon as they arrive.

    Records that arrive while the disk is busy are written together. A slow disk therefore does not delay the run, and a run
    that is killed loses only the records of its last few milliseconds.

    Parameters
    ----------
    store : Store
        No other thread may write to it.
    run : int or None
        Number of the run.
    start : float
        Start of the run, by ``time.perf_counter``.
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
        """Wait until all records are written, even after an error or an interrupt."""
        self._queue.put(None)
        self._thread.join()
        if kind is None:
            self._check()

    def put(self, record: Record) -> None:
        """Queue a record; raise the error of an earlier one."""
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


@dataclass(frozen=True)
class Progress:
    """Progress of a run.

    Attributes
    ----------
    done, failed, total : int
        Number of units that are done, that failed or were too slow, and of all units; earlier runs included.
    label : str
        The unit that finished last.
    seconds : float
        Time since the start of the run.
    seconds_left : float or None
        Forecast from the times of finished units; None before the first one.
    """

    done: int
    failed: int
    total: int
    label: str
    seconds: float
    seconds_left: float | None


@dataclass(frozen=True)
class Summary:
    """Summary of a run: number of units by status, number of units reused from earlier runs, total and duration."""

    done: int
    failed: int
    too_slow: int
    reused: int
    total: int
    seconds: float


def run(
    plan: Plan,
    store: Store,
    *,
    jobs: int = 1,
    backend: str = "loky",
    scheduler: str | None = None,
    retry_failed: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> Summary:
    """Run the units of a plan that the store lacks; this imports and executes the recipe's own code.

    Parameters
    ----------
    plan : Plan
        From :func:`~calibrant.studies.plan`.
    store : Store
        Receives each record as soon as its unit is finished, so an interrupted run can be continued.
    jobs : int, default=1
        Number of workers with one thread each; -1 for one per processor. Results do not depend on it. With one job, units run
        in this process, and a unit that kills it ends the run. With more, each worker is a process: a unit whose process dies
        is recorded as failed, and the run continues.
    backend : str, default="loky"
        Backend of joblib: ``"loky"`` for processes, ``"threading"``, or ``"dask"`` for a cluster, whose workers must see the
        files of the data, the recipe and the outputs folder of the store under the same paths.
    scheduler : str, optional
        Address of the Dask scheduler; by default the Dask client of this process.
    retry_failed : bool, default=False
        Whether to run units again that failed or were too slow. Units that were too slow under a lower limit than the
        recipe's run again in any case.
    on_progress : callable, optional
        Called with a :class:`Progress` at the start and after every unit.

    Returns
    -------
    Summary
        Number of units by status; the records of failed units contain the reason.

    Raises
    ------
    RecipeError
        If the recipe's own code cannot be imported or called; nothing runs then.
    StoreError
        If the store or the outputs cannot be written, or another run uses them; finished units are kept.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from pathlib import Path
    >>> from calibrant.studies import Store, plan, read_recipe
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "dice.py").write_text('''
    ... def throw(*, seed, data_folder, sides):
    ...     return {"mean": (sides + 1) / 2}
    ... ''')
    ...     _ = Path(folder, "recipe.toml").write_text('''
    ... title = "Dice"
    ... [[trials]]
    ... name = "dice"
    ... function = "dice.py:throw"
    ... parameters = { sides = [6, 20] }
    ... ''')
    ...     planned = plan(read_recipe(folder))
    ...     with Store(Path(folder, "dice.sqlite")) as store:
    ...         first, second = run(planned, store), run(planned, store)
    ...         means = [record.values["mean"] for record in planned.records(store)]
    >>> first.done, second.reused, means
    (2, 2, [3.5, 10.5])
    """
    check_own_code(plan.recipe)
    with store.locked(), opened(backend, jobs, scheduler) as workers:
        sweep(store.outputs_folder)
        session = _Session(plan, store, workers, backend, retry_failed, on_progress)
        return session.go()


class _Session:
    """State of one run: open units, counts and progress."""

    def __init__(
        self,
        plan: Plan,
        store: Store,
        workers: Workers,
        backend: str,
        retry_failed: bool,
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self.plan, self.store, self.workers, self.backend = plan, store, workers, backend
        self.on_progress = on_progress
        self.context = Context(store.outputs_folder.resolve(), plan.recipe.limit_seconds)
        earlier = {record.key: record for record in plan.records(store)}
        earlier = {
            key: record
            for key, record in earlier.items()
            if record.status == DONE
            or not (retry_failed or _has_more_time(record, plan.recipe.limit_seconds))
        }
        self.units = {unit.key: unit for unit in plan.units}
        self.open = {key: unit for key, unit in self.units.items() if key not in earlier}
        cache = OutputsCache(self.context.cache_folder)
        sizes = sizes_of(plan.units)
        self.schedule = Schedule(self.open.values(), lambda key: cache.path(key).exists(), sizes)
        self.counts = {DONE: 0, FAILED: 0, TOO_SLOW: 0}
        self.earlier_done = sum(record.status == DONE for record in earlier.values())
        self.n_earlier = len(earlier)
        self.left = TimeLeft(workers.jobs, sizes)
        self._expect(earlier)
        self.start = time.perf_counter()
        self.number: int | None = None

    def _expect(self, earlier: Mapping[str, Record]) -> None:
        for record in earlier.values():
            self.left.seen(record.labels, record.seconds)
            if "train_seconds" in record.details:
                self.left.seen(_without_calibrator(record.labels), record.details["train_seconds"])
        for unit in self.open.values():
            self.left.expect(unit.labels)
        for units in self.schedule.waiting():
            self.left.expect(_without_calibrator(units[0].labels))

    def go(self) -> Summary:
        if self.open:
            self.number = self.store.begin_run(
                self.plan.recipe.name,
                self.plan.recipe.form,
                jobs=self.workers.jobs,
                backend=self.backend,
                processors=processors(),
                versions=versions(),
            )
        self._say("")
        with Writer(self.store, self.number, self.start) as self.writer:
            self._run_all()
        return Summary(
            self.counts[DONE],
            self.counts[FAILED],
            self.counts[TOO_SLOW],
            self.n_earlier,
            len(self.units),
            time.perf_counter() - self.start,
        )

    def _run_all(self) -> None:
        while self.open:
            # Closed at once if a record cannot be written, so that the workers stop.
            given = self.workers.answers(self.schedule.tasks(), self.context)
            with suppress(WorkerDiedError), closing(given) as answers:
                for answer in answers:
                    self._take(answer)
            lost = self.schedule.lost()
            # One of them may have killed its worker; running them one at a time finds it.
            for task in lost:
                self._take(self.workers.alone(task, self.context))
            if not lost:
                break

    def _take(self, answer: Answer) -> None:
        task = answer.task
        if isinstance(task, Training):
            units = self.schedule.finished(task, failed=answer.status != DONE)
            self.left.ended(_without_calibrator(self._labels_of(task)), answer.seconds)
            for unit in units:  # None of them can run.
                kept = {name: value for name, value in answer.details.items() if name == "limit_seconds"}
                failed = replace(answer, details=kept, values={}, seconds=0.0)
                self._keep(unit, failed, None)
        elif isinstance(task, UnitTask):
            self.schedule.finished(task)
            self._keep(self.open[task.key], answer, answer.seconds)

    def _keep(self, unit: Unit, answer: Answer, seconds: float | None) -> None:
        record = Record(
            unit.key,
            dict(unit.labels),
            answer.status,
            dict(answer.values),
            dict(answer.details),
            answer.message,
            answer.seconds,
        )
        self.writer.put(record)
        self.counts[answer.status] += 1
        self.left.ended(unit.labels, seconds)
        self._say(" ".join(str(value) for value in unit.labels.values()))

    def _labels_of(self, task: Training) -> Mapping[str, Any]:
        assert task.request.classifier is not None
        return {"data": task.request.data.name, "classifier": task.request.classifier.name}

    def _say(self, label: str) -> None:
        if self.on_progress is not None:
            done = self.earlier_done + self.counts[DONE]
            failed = self.n_earlier - self.earlier_done + self.counts[FAILED] + self.counts[TOO_SLOW]
            elapsed = time.perf_counter() - self.start
            self.on_progress(Progress(done, failed, len(self.units), label, elapsed, self.left.seconds()))


def _has_more_time(record: Record, limit: float | None) -> bool:
    """Return whether a unit was too slow under a lower limit than this one."""
    if record.status != TOO_SLOW:
        return False
    if limit is None:
        return True
    earlier = record.details.get("limit_seconds")
    if earlier is None:  # Earlier versions wrote it only into the message.
        limit_text = re.search(r"took more than (\S+) seconds", record.message)
        earlier = None if limit_text is None else float(limit_text[1])
    return earlier is not None and earlier < limit


def _without_calibrator(labels: Mapping[str, Any]) -> dict[str, Any]:
    return {key: labels[key] for key in ("data", "classifier") if key in labels}


def versions() -> dict[str, str]:
    """Return the versions and the system, which can change results besides the recipe."""
    found = {"python": platform.python_version(), "calibrant": calibrant.__version__}
    for name in ("numpy", "scipy", "scikit-learn", "joblib"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    found["system"] = f"{platform.system()} {platform.machine()}"
    return found
