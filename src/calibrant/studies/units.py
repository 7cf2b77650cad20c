"""Units: the pieces of work of a study, each of which gives one record."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from calibrant.errors import StoreError, StudyDataError, StudyError
from calibrant.studies.calibration import calibrate
from calibrant.studies.limits import TimeIsUpError
from calibrant.studies.measures import measure_all
from calibrant.studies.outputs import BaseOutputs, OutputsCache, OutputsRequest, base_outputs
from calibrant.studies.own_code import load_object
from calibrant.studies.record import Outcome
from calibrant.studies.specifications import CalibratorSpec, MeasureSpec
from calibrant.studies.splits import split_seed

__all__ = ["Context", "GridWork", "PartFailedError", "TrialWork", "Unit", "Work", "outputs_of", "rows_text"]


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
