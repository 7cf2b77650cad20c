"""Units of work of a study, and the tasks by which a worker runs them within their limits."""

import signal
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import parent_process
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from calibrant.errors import StoreError, StudyDataError, StudyError
from calibrant.numerics.row_blocks import SharedContext, one_blas_thread, one_thread
from calibrant.persistence.limits import REPEAT_SECONDS, TimeIsUpError, repeated_at_the_end, watched
from calibrant.studies.calibration import calibrate
from calibrant.studies.measures import measure_all
from calibrant.studies.outputs import BaseOutputs, OutputsCache, OutputsRequest, base_outputs
from calibrant.studies.own_code import load_object
from calibrant.studies.results import DONE, FAILED, TOO_SLOW, Outcome
from calibrant.studies.specifications import CalibratorSpec, MeasureSpec
from calibrant.studies.splits import split_seed

__all__ = [
    "Answer",
    "Context",
    "GridWork",
    "Pause",
    "Task",
    "TimeIsUpError",
    "Training",
    "TrialWork",
    "Unit",
    "UnitTask",
    "counted_warnings",
    "limited",
    "perform",
]


@contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """Stop what runs inside after so many seconds of processor time, by :class:`TimeIsUpError`.

    It counts the whole process in its main thread, and the thread alone in another. What is stopped is Python: a long
    call into compiled code ends first. Work that catches the error gets it again from time to time, and once more at
    its end, so that it is never taken for work that kept within its time.

    >>> with limited(0.05):
    ...     while True:
    ...         pass
    Traceback (most recent call last):
    calibrant.persistence.limits.TimeIsUpError
    """
    if seconds is None:
        yield
    elif hasattr(signal, "SIGPROF") and threading.current_thread() is threading.main_thread():
        with _by_signal(seconds):
            yield
    else:
        with watched(seconds):
            yield


@contextmanager
def _by_signal(seconds: float) -> Iterator[None]:
    is_up, over = threading.Event(), threading.Event()

    def stop(*_: object) -> None:
        if not over.is_set():
            is_up.set()
            raise TimeIsUpError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds, REPEAT_SECONDS)
    try:
        with repeated_at_the_end(is_up, over):
            yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


class _Counts(threading.local):
    """Where the warnings of this thread go."""

    counter: Counter[str] | None = None


@contextmanager
def _collected() -> Iterator[None]:
    """Return a context in which the warnings of all threads are counted, or shown if their thread does not count.

    The list of filters belongs to the whole process, so that threads cannot each have their own.
    """
    with warnings.catch_warnings():
        otherwise = warnings.showwarning

        def show(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
            if _COUNTS.counter is None:
                otherwise(message, category, *rest, **more)
            else:
                _COUNTS.counter[category.__name__] += 1

        warnings.simplefilter("always")
        # These come when Python tidies up, which has nothing to do with the unit that runs at the time.
        warnings.simplefilter("ignore", ResourceWarning)
        warnings.showwarning = show
        yield


_COUNTS = _Counts()
_COLLECTOR = SharedContext(_collected)


@contextmanager
def counted_warnings() -> Iterator[Counter[str]]:
    """Return a context that counts the warnings of this thread by their categories.

    >>> with counted_warnings() as counts:
    ...     warnings.warn("once", UserWarning)
    ...     warnings.warn("twice", UserWarning)
    >>> dict(counts)
    {'UserWarning': 2}
    """
    counts: Counter[str] = Counter()
    with _COLLECTOR.entered():
        before, _COUNTS.counter = _COUNTS.counter, counts
        try:
            yield counts
        finally:
            _COUNTS.counter = before


@dataclass(frozen=True)
class Context:
    """What is the same for all units of a run: where outputs are kept, and how much processor time each may take."""

    cache_folder: Path
    limit_seconds: float | None = None


class Work(Protocol):
    """What a unit does, in whatever process."""

    @property
    def subject(self) -> str:
        """What fails if it fails, in a few words."""

    def run(self, context: Context) -> Outcome:
        """Do it."""


@dataclass(frozen=True)
class Unit:
    """One piece of work: the key of its result, what it is of, and what is to be done."""

    key: str
    labels: Mapping[str, Any]
    work: Work


class PartFailedError(Exception):
    """A part of the work failed that is not what the work is named after."""

    def __init__(self, subject: str, error: BaseException) -> None:
        super().__init__(subject, error)
        self.subject, self.error = subject, error


@contextmanager
def failing(subject: str) -> Iterator[None]:
    """Return a context whose errors are those of a part of the work, in these words; code of one's own may raise any."""
    try:
        yield
    except (StoreError, MemoryError, TimeIsUpError, PartFailedError):
        raise
    except BaseException as error:
        raise PartFailedError(subject, error) from error


def rows_text(request: OutputsRequest) -> str:
    """Return where rows with scores come from, in a few words."""
    if request.classifier is None:
        return _data_text(request)
    return f"the classifier {request.classifier.name!r} on {request.data.name!r}"


def _data_text(request: OutputsRequest) -> str:
    return f"the data set {request.data.name!r}"


class _LastOutputs(threading.local):
    """The outputs that were used last by this worker, since units of the same ones follow each other."""

    _kept: tuple[str, bool, BaseOutputs] | None = None

    def get(self, request: OutputsRequest, key: str, context: Context) -> BaseOutputs:
        kept = self._kept
        # The key does not tell whether the rows of the training are among them.
        if kept is not None and kept[0] == key and (kept[1] or not request.keep_training):
            return kept[2]
        self._kept = kept = None  # so that there are never two of them in memory
        cache = None if request.classifier is None else OutputsCache(context.cache_folder)
        outputs = base_outputs(request, cache, key)
        self._kept = (key, request.keep_training, outputs)
        return outputs


_LAST = _LastOutputs()


def outputs_of(request: OutputsRequest, key: str, context: Context) -> BaseOutputs:
    """Return the outputs of a classifier, from memory, from the cache or by training it."""
    try:
        return _LAST.get(request, key, context)
    except StudyDataError as error:  # no fault of the classifier
        raise PartFailedError(_data_text(request), error) from error


@dataclass(frozen=True)
class GridWork:
    """A calibrator on the outputs of a classifier, measured on the test rows.

    ``outputs`` is the key of the outputs, by which units share them, and ``training`` that of the trained classifier in the
    cache, None without a classifier: several splits may share one.
    """

    request: OutputsRequest
    outputs: str
    training: str | None
    calibrator: CalibratorSpec
    measures: tuple[MeasureSpec, ...]

    @property
    def subject(self) -> str:
        """The calibrator and the data set."""
        classifier = "" if self.request.classifier is None else f" with {self.request.classifier.name!r}"
        return f"the calibrator {self.calibrator.name!r} on {self.request.data.name!r}{classifier}"

    def run(self, context: Context) -> Outcome:
        """Calibrate and measure."""
        with failing(rows_text(self.request)):
            outputs = outputs_of(self.request, self.outputs, context)
        seed = split_seed(self.request.seed, self.request.split)
        calibrated = calibrate(outputs, self.calibrator, self.request.recipe_folder, seed)
        with failing(f"a measure of {self.subject}"):
            values = measure_all(self.measures, outputs, calibrated, seed)
        details: dict[str, Any] = {
            "rows": len(outputs.test_labels),
            "calibration_rows": sum(len(part.calibration_labels) for part in outputs.parts),
            "classes": outputs.n_classes,
        }
        if self.training is not None:
            details["train_seconds"] = float(outputs.train_seconds)
        if calibrated.chosen:
            details["chosen"] = calibrated.chosen
        seconds = {
            "fit_seconds": float(calibrated.fit_seconds),
            "predict_seconds": float(calibrated.predict_seconds),
        }
        return Outcome({**{name: float(value) for name, value in values.items()}, **seconds}, details)


@dataclass(frozen=True)
class TrialWork:
    """A function of one's own with one combination of parameters and one seed."""

    name: str
    function: str
    parameters: Mapping[str, Any]
    seed: int
    data_folder: Path | None
    recipe_folder: Path

    @property
    def subject(self) -> str:
        """The trial by its name."""
        return f"the trial {self.name!r}"

    def run(self, context: Context) -> Outcome:  # noqa: ARG002 - the same for all work
        """Call the function and look at what it returns."""
        function = load_object(self.function, self.recipe_folder)
        folder = self.recipe_folder if self.data_folder is None else self.data_folder
        found = function(seed=self.seed, data_folder=folder, **self.parameters)
        if not isinstance(found, Mapping):
            raise StudyError(f"{self.function} must return a dict of numbers, not {type(found).__name__}.")
        values = {str(name): _number(str(name), value) for name, value in found.items() if name != "series"}
        series = {
            str(name): [_number(str(name), value) for value in line]
            for name, line in dict(found.get("series", {})).items()
        }
        return Outcome(values, {"series": series} if series else {})


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise StudyError(f"{name!r} must be a number, not {value!r}.") from None


PAUSE_SECONDS = 0.03


@dataclass(frozen=True)
class Training:
    """Train a classifier and keep its outputs; ``key`` is that of the training, ``outputs`` that of its outputs."""

    key: str
    request: OutputsRequest
    outputs: str

    @property
    def subject(self) -> str:
        """The classifier and the data set."""
        return rows_text(self.request)

    def run(self, context: Context) -> Outcome:
        """Train, unless the outputs are there."""
        outputs_of(self.request, self.outputs, context)
        return Outcome({})


@dataclass(frozen=True)
class UnitTask:
    """Run the unit of a key."""

    key: str
    work: Work

    @property
    def subject(self) -> str:
        """What the work is of."""
        return self.work.subject

    def run(self, context: Context) -> Outcome:
        """Do the work."""
        return self.work.run(context)


@dataclass(frozen=True)
class Pause:
    """Wait a moment, where all that is left waits for a training that is under way elsewhere."""


Task = Training | UnitTask | Pause


@dataclass(frozen=True)
class Answer:
    """What came of a task; numbers and details only if it is done."""

    task: Task
    status: str = DONE
    values: Mapping[str, float] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""
    seconds: float = 0.0


def perform(task: Task, context: Context) -> Answer:
    """Do a task and say what came of it; only a store that cannot be written is an error, and a signal from outside.

    Code of one's own may raise what it likes, also what would end the process. All work has one thread, so that numbers do
    not hang on how many there are.
    """
    if isinstance(task, Pause):
        time.sleep(PAUSE_SECONDS)
        return Answer(task)
    _leave_interrupts_to_the_parent()
    start = time.perf_counter()
    status, message, outcome = DONE, "", Outcome({})
    with noticed_interrupts() as interrupts, one_thread(), one_blas_thread(), counted_warnings() as counts:
        try:
            with limited(context.limit_seconds):
                outcome = task.run(context)
        except TimeIsUpError:
            status = TOO_SLOW
            message = f"{task.subject} took more than {context.limit_seconds:g} seconds of processor time."
        except StoreError:
            raise
        except MemoryError:
            status, message = FAILED, f"{task.subject} failed: there was not enough memory."
        except PartFailedError as part:
            status, message = FAILED, f"{part.subject} failed: {_said(part.error)}."
        except BaseException as error:
            status, message = FAILED, f"{task.subject} failed: {_said(error)}."
    if interrupts:
        raise interrupts[0]
    details = dict(outcome.details)
    if status == TOO_SLOW:
        details["limit_seconds"] = context.limit_seconds
    if counts:
        details["warnings"] = dict(sorted(counts.items()))
    return Answer(task, status, outcome.values, details, message, time.perf_counter() - start)


def _said(error: BaseException) -> str:
    text = " ".join(str(error).split()).rstrip(".")
    if isinstance(error, StudyError):  # says all that there is to say
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _leave_interrupts_to_the_parent() -> None:
    """Ignore the key that interrupts, which reaches all processes of a terminal; the first of them stops the others."""
    if parent_process() is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def noticed_interrupts() -> Iterator[list[BaseException]]:
    """Return a context with a list of what signals from outside raised, so that what work raises itself is told apart.

    Signals reach the main thread alone.
    """
    noticed: list[BaseException] = []
    before: dict[signal.Signals, Callable[[int, FrameType | None], Any]] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(number)
            if callable(handler):
                before[number] = handler

    def notice(number: int, frame: FrameType | None) -> None:
        try:
            before[signal.Signals(number)](number, frame)
        except BaseException as error:
            noticed.append(error)
            raise

    try:
        for number in before:
            signal.signal(number, notice)
        yield noticed
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
