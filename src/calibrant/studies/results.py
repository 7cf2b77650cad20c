"""Results: the units of a plan with their results, as one long table."""

import csv
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from io import StringIO
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from calibrant.tabular import Tabular

__all__ = [
    "DONE",
    "FAILED",
    "MEASURE",
    "OPEN",
    "SPLIT_LABELS",
    "TOO_SLOW",
    "AnyPlan",
    "Line",
    "Outcome",
    "PlannedUnit",
    "Record",
    "Results",
    "columns_text",
    "csv_text",
    "label_text",
]


DONE = "done"
FAILED = "failed"
TOO_SLOW = "too slow"


@dataclass(frozen=True)
class Outcome:
    """Result of a unit's work: numbers by name, and details that can be written as JSON."""

    values: Mapping[str, float]
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Record:
    """Result of one unit.

    Attributes
    ----------
    key : str
        Key of the unit: a hash of everything that determines the result.
    labels : mapping
        Data set, classifier, calibrator, repeat, fold and so on.
    status : str
        ``"done"``, ``"failed"`` or ``"too slow"``.
    values : mapping
        Measures by name; empty unless the status is ``"done"``.
    details : mapping
        Selected parameters, series, warnings; the limit if the unit was too slow.
    message : str
        Why the unit failed; empty otherwise.
    seconds : float
        Wall-clock time of the unit.
    """

    key: str
    labels: Mapping[str, Any]
    status: str
    values: Mapping[str, float] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""
    seconds: float = 0.0


OPEN = "open"
"""Status of a unit that has not run."""

SPLIT_LABELS = ("repeat", "fold", "seed")
"""Labels that distinguish the splits of a task."""

MEASURE = "measure"
"""Pseudo-label of tables whose values are the names of measures."""

SUBJECT = re.compile(r"^the (calibrator|classifier|trial) '.*?' (?:on '.*?' )?(?:with '.*?' )?(failed|took)")

STATUSES = (DONE, FAILED, TOO_SLOW, OPEN)


class PlannedUnit(Protocol):
    """The attributes of a unit that results need."""

    @property
    def key(self) -> str: ...
    @property
    def labels(self) -> Mapping[str, Any]: ...


class AnyPlan(Protocol):
    """The attributes of a plan that results need; ``absent`` has the skipped data sets and the reasons."""

    @property
    def recipe(self) -> Any: ...
    @property
    def units(self) -> Sequence[PlannedUnit]: ...
    @property
    def absent(self) -> Sequence[tuple[str, str]]: ...


@dataclass(frozen=True)
class Line:
    """One unit of the plan with its result; ``status`` is ``"open"`` if it has not run."""

    key: str
    labels: Mapping[str, Any]
    status: str = OPEN
    values: Mapping[str, float] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""
    seconds: float = 0.0

    @property
    def done(self) -> bool:
        """Whether the unit has values."""
        return self.status == DONE

    @cached_property
    def texts(self) -> dict[str, str]:
        """Labels as text."""
        return {label: label_text(value) for label, value in self.labels.items()}

    @cached_property
    def split(self) -> tuple[Any, ...]:
        """Labels that distinguish this unit from others of its task."""
        return tuple(self.labels.get(label) for label in SPLIT_LABELS)

    def value(self, measure: str) -> float:
        """Return a measure, NaN if it does not exist."""
        found = self.values.get(measure)
        return math.nan if found is None else float(found)


class Results(Tabular):
    """Units of a plan with their results.

    Labels are those of the plan, so you can rename a data set or a calibrator without running it again. Records of units that
    are not in the plan are ignored. Units without a record are open.

    Parameters
    ----------
    plan : Plan
    records : iterable of Record

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> units = [SimpleNamespace(key=key, labels={"data": "iris", "calibrator": key}) for key in ("none", "beta")]
    >>> plan = SimpleNamespace(recipe=None, units=units, absent=())
    >>> results = Results(plan, [Record("beta", {}, "done", {"log_loss": 0.25})])
    >>> results.columns()["log_loss"], results.counts()
    (array([ nan, 0.25]), {'done': 1, 'failed': 0, 'too slow': 0, 'open': 1})
    """

    def __init__(self, plan: AnyPlan, records: Iterable[Record]) -> None:
        self.plan = plan
        self.recipe: Any = plan.recipe
        self.absent = tuple(plan.absent)
        found = {record.key: record for record in records}
        self.lines: tuple[Line, ...] = tuple(_line(unit, found.get(unit.key)) for unit in plan.units)

    def __len__(self) -> int:
        return len(self.lines)

    def counts(self) -> dict[str, int]:
        """Return the number of units by status."""
        statuses = [line.status for line in self.lines]
        return {status: statuses.count(status) for status in STATUSES}

    @property
    def seconds(self) -> float:
        """Sum of the times of all units."""
        return math.fsum(line.seconds for line in self.lines)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Names of all labels, in the order of the plan, with those of splits last."""
        names = dict.fromkeys(name for line in self.lines for name in line.labels)
        return (
            *(name for name in names if name not in SPLIT_LABELS),
            *(n for n in names if n in SPLIT_LABELS),
        )

    @cached_property
    def measures(self) -> tuple[str, ...]:
        """Names of all values; the measures of the recipe come first, in its order."""
        named = [spec.name for spec in getattr(self.recipe, "measures", None) or ()]
        found = dict.fromkeys([*named, *(name for line in self.lines for name in line.values)])
        return tuple(found)

    def levels(self, label: str, where: Mapping[str, Any] | None = None) -> list[Any]:
        """Return the values of a label in the order of the plan."""
        chosen = self.lines if where is None else list(self.where(where))
        return list(dict.fromkeys(line.labels[label] for line in chosen if label in line.labels))

    def higher_is_better(self, measure: str) -> bool:
        """Whether larger values of a measure are better; for values of trials only if a table says so."""
        for spec in getattr(self.recipe, "measures", None) or ():
            if spec.name == measure:
                return bool(spec.higher_is_better)
        return False

    def where(self, conditions: Mapping[str, Any]) -> Iterator[Line]:
        """Yield the units whose labels have one of the given values."""
        wanted = {
            label: {label_text(one) for one in (value if isinstance(value, list | tuple) else [value])}
            for label, value in conditions.items()
        }
        for line in self.lines:
            if all(line.texts.get(label) in texts for label, texts in wanted.items()):
                yield line

    def may_have(self, line: Line, measure: str) -> bool:
        """Whether a unit has a measure, or would have it once it is done.

        Trials can return any numbers. An open one counts if another unit of the same trial has the measure, or if none is done.
        """
        if measure in line.values:
            return True
        trial = line.labels.get("trial")
        if trial is None:
            return True
        known = self._values_of_trials.get(trial)
        return not line.done and (known is None or measure in known)

    @cached_property
    def _values_of_trials(self) -> dict[Any, set[str]]:
        found: dict[Any, set[str]] = {}
        for line in self.lines:
            if line.done and "trial" in line.labels:
                found.setdefault(line.labels["trial"], set()).update(line.values)
        return found

    def failures(self) -> dict[tuple[str, str], list[Line]]:
        """Return the units that failed or were too slow by status and message, most frequent first."""
        found: dict[tuple[str, str], list[Line]] = {}
        for line in self.lines:
            if line.status in (FAILED, TOO_SLOW):
                found.setdefault((line.status, _reason(line.message)), []).append(line)
        return dict(sorted(found.items(), key=lambda entry: -len(entry[1])))

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return one row per unit: labels, status, values, seconds and message."""
        columns: dict[str, NDArray[Any]] = {}
        for name in self.labels:
            columns[name] = np.array([line.labels.get(name) for line in self.lines], dtype=object)
        columns["status"] = np.array([line.status for line in self.lines], dtype=object)
        for name in self.measures:
            columns[name] = np.array([line.value(name) for line in self.lines], dtype=np.float64)
        columns["seconds"] = np.array([line.seconds for line in self.lines], dtype=np.float64)
        columns["message"] = np.array([line.message for line in self.lines], dtype=object)
        return columns


def label_text(value: Any) -> str:
    """Format the value of a label for tables and files.

    >>> label_text("iris"), label_text(1000.0), label_text(0.5), label_text(True), label_text(None)
    ('iris', '1000', '0.5', 'yes', '')
    """
    if value is None:
        return ""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        return f"{value:.12g}"
    return str(value)


def _reason(message: str) -> str:
    """Return a message without names of data sets and methods, so that equal failures can be grouped.

    >>> _reason("the calibrator 'Beta' on 'iris' failed: ValueError: too few rows.")
    'the calibrator failed: ValueError: too few rows.'
    """
    return SUBJECT.sub(r"the \1 \2", " ".join(message.split()))


def _line(unit: PlannedUnit, record: Record | None) -> Line:
    if record is None:
        return Line(unit.key, unit.labels)
    return Line(
        unit.key, unit.labels, record.status, record.values, record.details, record.message, record.seconds
    )


def csv_text(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    r"""Return comma-separated values; floats have ten significant digits, and an empty field stands for NaN.

    >>> csv_text(["data", "loss", "ece"], [["iris", 1 / 3, float("nan")], ["car", 2.0, 4]])
    'data,loss,ece\niris,0.3333333333,\ncar,2,4\n'
    """
    stream = StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_field(value) for value in row] for row in rows)
    return stream.getvalue()


def _field(value: Any) -> str:
    if isinstance(value, float):  # Ten digits are the same on every machine.
        return "" if math.isnan(value) else f"{value:.10g}"
    return label_text(value)


def columns_text(table: Tabular) -> str:
    """Return the columns of a table as comma-separated values."""
    columns = table.columns()
    return csv_text(columns, zip(*(column.tolist() for column in columns.values()), strict=True))
