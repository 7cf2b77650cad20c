"""Units of a study: what each computes, and how a worker runs it with limits of time and counted warnings."""

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
from calibrant.studies.own_code import load_object, one_line
from calibrant.studies.results import DONE, FAILED, TOO_SLOW, Outcome
from calibrant.studies.specifications import CalibratorSpec, MeasureSpec
from calibrant.studies.splits import split_seed

__all__ = [
    "Answer",
    "Context",
    "GridWork",
    "Pause",
    "Task",
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
    """Limit the processor time of the code inside; beyond it, :class:`TimeIsUpError` is raised.

    In the main thread the time of the process counts, in other threads that of the thread. A long call into compiled code
    finishes first. Code that catches the error gets it again periodically, and once more at its end, so that it cannot
    pass for work within the limit.

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
    """The counter of this thread."""

    counter: Counter[str] | None = None


@contextmanager
def _collected() -> Iterator[None]:
    """Return a context in which warnings are counted per thread, and shown in threads that do not count.

    Warning filters are global to the process, so threads cannot have their own.
    """
    with warnings.catch_warnings():
        otherwise = warnings.showwarning

        def show(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
            if _COUNTS.counter is None:
                otherwise(message, category, *rest, **more)
            else:
                _COUNTS.counter[category.__name__] += 1

        warnings.simplefilter("always")
        # Raised by the garbage collector, at times unrelated to the current unit.
        warnings.simplefilter("ignore", ResourceWarning)
        warnings.showwarning = show
        yield


_COUNTS = _Counts()
_COLLECTOR = SharedContext(_collected)


@contextmanager
def counted_warnings() -> Iterator[Counter[str]]:
    """Return a context that counts the warnings of this thread by category.

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
    """What all units of a run share: the folder of cached outputs, and the limit of processor time per unit."""

    cache_folder: Path
    limit_seconds: float | None = None


class Work(Protocol):
    """The computation of a unit, which can run in any process."""

    @property
    def subject(self) -> str:
        """A few words that name it in messages."""

    def run(self, context: Context) -> Outcome:
        """Compute the result."""


@dataclass(frozen=True)
class Unit:
    """One unit of a study: the key of its result, its labels and its computation."""

    key: str
    labels: Mapping[str, Any]
    work: Work


class PartFailedError(Exception):
    """A step failed that is not the subject of the unit, such as its classifier."""

    def __init__(self, subject: str, error: BaseException) -> None:
        super().__init__(subject, error)
        self.subject, self.error = subject, error


@contextmanager
def failing(subject: str) -> Iterator[None]:
    """Return a context whose errors are attributed to a subject; the recipe's own code can raise anything."""
    try:
        yield
    except (StoreError, MemoryError, TimeIsUpError, PartFailedError):
        raise
    except BaseException as error:
        raise PartFailedError(subject, error) from error


def rows_text(request: OutputsRequest) -> str:
    """Return a few words on where the predictions come from."""
    if request.classifier is None:
        return _data_text(request)
    return f"the classifier {request.classifier.name!r} on {request.data.name!r}"


def _data_text(request: OutputsRequest) -> str:
    return f"the data set {request.data.name!r}"


class _LastOutputs(threading.local):
    """The outputs that this worker used last; consecutive units often share them."""

    _kept: tuple[str, bool, BaseOutputs] | None = None

    def get(self, request: OutputsRequest, key: str, context: Context) -> BaseOutputs:
        kept = self._kept
        # The key does not tell whether predictions for the training set are included.
        if kept is not None and kept[0] == key and (kept[1] or not request.keep_training):
            return kept[2]
        self._kept = kept = None  # Frees memory before the next outputs are made.
        cache = None if request.classifier is None else OutputsCache(context.cache_folder)
        outputs = base_outputs(request, cache, key)
        self._kept = (key, request.keep_training, outputs)
        return outputs


_LAST = _LastOutputs()


def outputs_of(request: OutputsRequest, key: str, context: Context) -> BaseOutputs:
    """Return the predictions of a classifier from memory, from the cache, or by training it."""
    try:
        return _LAST.get(request, key, context)
    except StudyDataError as error:  # not caused by the classifier
        raise PartFailedError(_data_text(request), error) from error


@dataclass(frozen=True)
class GridWork:
    """Fit a calibrator to the predictions of a classifier and evaluate it on the test set.

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
        """The calibrator, the data set and the classifier."""
        classifier = "" if self.request.classifier is None else f" with {self.request.classifier.name!r}"
        return f"the calibrator {self.calibrator.name!r} on {self.request.data.name!r}{classifier}"

    def run(self, context: Context) -> Outcome:
        """Fit, predict and evaluate."""
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
    """Call the recipe's own function with one combination of parameters and one seed."""

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
        """Call the function and check what it returns."""
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
    """Train a classifier and cache its predictions; ``key`` identifies the training, ``outputs`` the predictions."""

    key: str
    request: OutputsRequest
    outputs: str

    @property
    def subject(self) -> str:
        """The classifier and the data set."""
        return rows_text(self.request)

    def run(self, context: Context) -> Outcome:
        """Train, unless the predictions are cached."""
        outputs_of(self.request, self.outputs, context)
        return Outcome({})


@dataclass(frozen=True)
class UnitTask:
    """Run a unit."""

    key: str
    work: Work

    @property
    def subject(self) -> str:
        """A few words that name the unit in messages."""
        return self.work.subject

    def run(self, context: Context) -> Outcome:
        """Compute the result."""
        return self.work.run(context)


@dataclass(frozen=True)
class Pause:
    """Wait briefly, because all remaining units depend on trainings that other workers run."""


Task = Training | UnitTask | Pause


@dataclass(frozen=True)
class Answer:
    """Result of a task; it has values only if the status is ``"done"``."""

    task: Task
    status: str = DONE
    values: Mapping[str, float] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""
    seconds: float = 0.0


def perform(task: Task, context: Context) -> Answer:
    """Run a task and return its result; only errors of the store and signals from outside are raised.

    The recipe's own code can raise anything, including exceptions that would end the process. Every task runs in one thread, so
    that results do not depend on the number of threads.
    """
    if isinstance(task, Pause):
        time.sleep(PAUSE_SECONDS)
        return Answer(task)
    _leave_interrupts_to_the_parent()
    start = time.perf_counter()
    status, message, outcome = DONE, "", Outcome({})
    with signal_exceptions() as interrupts, one_thread(), one_blas_thread(), counted_warnings() as counts:
        try:
            with limited(context.limit_seconds):
                outcome = task.run(context)
        except TimeIsUpError:
            status = TOO_SLOW
            message = f"{task.subject} took more than {context.limit_seconds:g} seconds of processor time."
        except StoreError:
            raise
        except MemoryError:
            status, message = FAILED, f"{task.subject} failed: out of memory."
        except PartFailedError as part:
            status, message = FAILED, f"{part.subject} failed: {_reason(part.error)}."
        except BaseException as error:
            status, message = FAILED, f"{task.subject} failed: {_reason(error)}."
    if interrupts:
        raise interrupts[0]
    details = dict(outcome.details)
    if status == TOO_SLOW:
        details["limit_seconds"] = context.limit_seconds
    if counts:
        details["warnings"] = dict(sorted(counts.items()))
    return Answer(task, status, outcome.values, details, message, time.perf_counter() - start)


def _reason(error: BaseException) -> str:
    text = one_line(error)
    if isinstance(error, StudyError):  # a complete sentence
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _leave_interrupts_to_the_parent() -> None:
    """Ignore Ctrl-C in worker processes; it reaches all processes of the terminal, and the parent stops the workers."""
    if parent_process() is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def signal_exceptions() -> Iterator[list[BaseException]]:
    """Return a context with a list of exceptions raised by signals, to tell them from those that the task raises itself.

    Signals reach only the main thread.
    """
    raised: list[BaseException] = []
    before: dict[signal.Signals, Callable[[int, FrameType | None], Any]] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(number)
            if callable(handler):
                before[number] = handler

    def record(number: int, frame: FrameType | None) -> None:
        try:
            before[signal.Signals(number)](number, frame)
        except BaseException as error:
            raised.append(error)
            raise

    try:
        for number in before:
            signal.signal(number, record)
        yield raised
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
