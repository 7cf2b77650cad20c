"""Execution: the units of a plan that a store has not are run, and each is written when it is whole."""

import platform
import re
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self

import calibrant
from calibrant.persistence.replacing import sweep
from calibrant.studies.outputs import OutputsCache
from calibrant.studies.plan import Plan
from calibrant.studies.recipe import check_own_code
from calibrant.studies.results import DONE, FAILED, TOO_SLOW, Record
from calibrant.studies.store import Store
from calibrant.studies.units import Answer, Context, GridWork, Pause, Task, Training, Unit, UnitTask
from calibrant.studies.workers import WorkerDiedError, Workers, opened, processors

__all__ = [
    "Progress",
    "Schedule",
    "Summary",
    "TimeLeft",
    "run",
]


Group = tuple[Hashable, ...]


class TimeLeft:
    """Estimates how long the rest will take.

    Every piece of work belongs to a group, such as a data set and a calibrator; where nothing of the group is done yet, the
    mean is that of all with the same calibrator, and then of all.

    Examples
    --------
    >>> left = TimeLeft(jobs=2)
    >>> for data in ("abalone", "abalone", "car"):
    ...     left.expect({"data": data, "calibrator": "beta"})
    >>> left.seconds() is None
    True
    >>> left.ended({"data": "abalone", "calibrator": "beta"}, 3.0)
    >>> left.seconds()
    3.0
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = max(1, jobs)
        self._expected: Counter[Group] = Counter()
        self._sums: defaultdict[Group, list[float]] = defaultdict(lambda: [0.0, 0.0])

    def expect(self, labels: Mapping[str, Any]) -> None:
        """Count a piece of work that is to be done."""
        self._expected[_levels(labels)[0]] += 1

    def seen(self, labels: Mapping[str, Any], seconds: float) -> None:
        """Learn from a piece of work that was not expected, such as one of an earlier run."""
        for group in _levels(labels):
            sums = self._sums[group]
            sums[0] += seconds
            sums[1] += 1

    def ended(self, labels: Mapping[str, Any], seconds: float | None) -> None:
        """Learn from a piece of work that was expected; one that was not run has no seconds."""
        self._expected[_levels(labels)[0]] -= 1
        if seconds is not None:
            self.seen(labels, seconds)

    def seconds(self) -> float | None:
        """Return the seconds left, None as long as nothing is known."""
        total, known = 0.0, False
        for group, count in self._expected.items():
            mean = self._mean(_coarser(group)) if count > 0 else None
            if mean is not None:
                known = True
                total += count * mean
        if not known and any(count > 0 for count in self._expected.values()):
            return None
        return total / self.jobs

    def _mean(self, groups: Iterable[Group]) -> float | None:
        for group in groups:
            if group in self._sums:
                total, count = self._sums[group]
                return total / count
        return None


def _levels(labels: Mapping[str, Any]) -> tuple[Group, ...]:
    """Return the groups of a piece of work, the finest first; trainings are apart from units."""
    if "calibrator" in labels:
        finest: Group = ("unit", labels["calibrator"], labels.get("data"))
    elif "trial" in labels:
        finest = ("trial", labels["trial"], None)
    else:
        finest = ("training", labels.get("classifier"), labels.get("data"))
    return tuple(_coarser(finest))


def _coarser(group: Group) -> Iterable[Group]:
    for length in range(len(group), 0, -1):
        yield group[:length]


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


@dataclass(frozen=True)
class Progress:
    """How far a run has come.

    Attributes
    ----------
    done, failed, total : int
        Units that are done, that failed or were too slow, those of earlier runs included, and all.
    label : str
        What ended last.
    seconds : float
        Since the run began.
    seconds_left : float or None
        At the mean seconds of what has been run; None as long as nothing is known.
    """

    done: int
    failed: int
    total: int
    label: str
    seconds: float
    seconds_left: float | None


@dataclass(frozen=True)
class Summary:
    """What came of a run: numbers of units by what became of them, and how many were there before."""

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
    """Run the units of a plan that the store does not have; this imports and runs the own code of the recipe.

    Parameters
    ----------
    plan : Plan
        From :func:`~calibrant.studies.plan`.
    store : Store
        Takes each record as soon as its unit is whole. A run that was stopped, in whatever way, goes on where it was.
    jobs : int, default=1
        Workers, each with one thread; -1 for one on each processor. The numbers do not hang on it. With one, units run in
        this process itself, and a unit that kills its process ends the run. With two or more, each in a process of its
        own, a unit whose process dies is recorded as failed and the rest goes on.
    backend : str, default="loky"
        Of joblib: ``"loky"`` for processes, ``"threading"``, or ``"dask"`` for a cluster, whose workers must see the files
        of the data, of the recipe and of the outputs beside the store under the same names.
    scheduler : str, optional
        Address of the scheduler of Dask; the client of this process if absent.
    retry_failed : bool, default=False
        Whether units that failed, or were too slow, are run again. Those that were too slow under a smaller limit than
        that of the recipe are run again in any case.
    on_progress : callable, optional
        Is called with a :class:`Progress` at the beginning and after every unit.

    Returns
    -------
    Summary
        Numbers of units; those that failed have records that say why.

    Raises
    ------
    RecipeError
        If own code of the recipe cannot be imported or called; nothing is run then.
    StoreError
        If the store or the outputs cannot be written, or another run uses them; what is finished is kept.

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
    """One run: what is open, what has come in, and what is said about it."""

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
        self.schedule = Schedule(self.open.values(), lambda key: cache.path(key).exists())
        self.counts = {DONE: 0, FAILED: 0, TOO_SLOW: 0}
        self.earlier_done = sum(record.status == DONE for record in earlier.values())
        self.n_earlier = len(earlier)
        self.left = TimeLeft(workers.jobs)
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
                versions=_versions(),
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
            # Closed at once if a record cannot be written, so that no worker goes on for nothing.
            given = self.workers.answers(self.schedule.tasks(), self.context)
            with suppress(WorkerDiedError), closing(given) as answers:
                for answer in answers:
                    self._take(answer)
            lost = self.schedule.lost()
            # One of them may have been too much for its worker, and is found by being alone.
            for task in lost:
                self._take(self.workers.alone(task, self.context))
            if not lost:
                break

    def _take(self, answer: Answer) -> None:
        task = answer.task
        if isinstance(task, Training):
            units = self.schedule.finished(task, failed=answer.status != DONE)
            self.left.ended(_without_calibrator(self._labels_of(task)), answer.seconds)
            for unit in units:  # none of them can be run
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
    """Tell whether a unit was too slow under a smaller limit than this one."""
    if record.status != TOO_SLOW:
        return False
    if limit is None:
        return True
    earlier = record.details.get("limit_seconds")
    if earlier is None:  # of a version that kept it in the message alone
        said = re.search(r"took more than (\S+) seconds", record.message)
        earlier = None if said is None else float(said[1])
    return earlier is not None and earlier < limit


def _without_calibrator(labels: Mapping[str, Any]) -> dict[str, Any]:
    return {key: labels[key] for key in ("data", "classifier") if key in labels}


def _versions() -> dict[str, str]:
    """Return what may change numbers besides the recipe."""
    found = {"python": platform.python_version(), "calibrant": calibrant.__version__}
    for name in ("numpy", "scipy", "scikit-learn", "joblib"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    found["system"] = f"{platform.system()} {platform.machine()}"
    return found
