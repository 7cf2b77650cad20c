"""What a recipe says: data, classifiers, calibrators, splits, measures and trials as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

__all__ = [
    "CalibratorSpec",
    "ClassifierSpec",
    "DataSpec",
    "MeasureSpec",
    "SplitSpec",
    "TrialSpec",
]


@dataclass(frozen=True)
class Specification:
    """A part of a recipe, with a form that can be hashed."""

    def canonical(self) -> dict[str, Any]:
        """Return the content as values that JSON knows, the same for the same content."""
        return {each.name: _plain(getattr(self, each.name)) for each in fields(self)}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


@dataclass(frozen=True)
class DataSpec(Specification):
    """A data set.

    ``kind`` is ``"features"`` (rows for classifiers), ``"scores"`` (outputs of a classifier), ``"top-label"``
    (confidences alone) or ``"generated"``; ``source`` a file or a function; ``splits`` replaces keys of the splits of the
    recipe; ``labels`` are further labels of its units. ``classifiers`` and ``calibrators`` name the ones that are run on
    this set, None for all; ``calibrator_parameters`` extends the parameters of calibrators, by name, for this set alone.
    """

    name: str
    kind: str
    source: str
    options: Mapping[str, Any] = field(default_factory=dict)
    splits: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, Any] = field(default_factory=dict)
    optional: bool = False
    classifiers: tuple[str, ...] | None = None
    calibrators: tuple[str, ...] | None = None
    calibrator_parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class ClassifierSpec(Specification):
    """A classifier that is trained on features: a name of ours, ``package.module:Class`` or ``file.py:Class``."""

    name: str
    estimator: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CalibratorSpec(Specification):
    """A calibrator: ``method`` is a registry name, names joined by ``+``, or a class of one's own.

    ``parts`` takes the place of ``method`` where the parts of a composition have parameters: each is a mapping with
    ``method`` and ``parameters``. A ``grid`` is searched by the log-loss: ``select`` is ``"cross-validation"`` over ``folds``
    of the calibration rows, or ``"training"`` on the rows the classifier was trained on; ``refit`` is ``"whole"`` (one fit
    to all calibration rows with the best parameters) or ``"average"`` (the mean of the models of the folds).
    """

    name: str
    method: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[Mapping[str, Any], ...] = ()
    grid: Mapping[str, Any] = field(default_factory=dict)
    select: str = "cross-validation"
    folds: int = 5
    refit: str = "whole"


@dataclass(frozen=True)
class SplitSpec(Specification):
    """How rows are divided.

    ``kind`` is ``"folds"`` (``repeats`` times ``folds`` stratified outer folds, ``inner`` folds for calibration,
    ``combine`` either ``"average"`` or ``"pooled"``), ``"given"`` (the calibration and test rows of the file) or
    ``"random"`` (``repeats`` random divisions). ``calibration_rows`` holds numbers of rows, or shares below one; empty is
    all or half.
    """

    kind: str
    repeats: int = 1
    folds: int = 5
    inner: int = 3
    combine: str = "average"
    calibration_rows: tuple[float, ...] = ()
    test_rows: int | None = None
    stratified: bool = False


@dataclass(frozen=True)
class MeasureSpec(Specification):
    """A number about calibrated test rows.

    ``metric`` is a name of :mod:`calibrant.metrics` or ``convention.name``; with ``test`` the measure is the p-value of
    the consistency test of that metric.
    """

    name: str
    metric: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    test: bool = False
    resamples: int = 1000
    higher_is_better: bool = False


@dataclass(frozen=True)
class TrialSpec(Specification):
    """A function of one's own that is run for every combination of ``parameters`` and for so many seeds.

    ``files`` are those that it reads; a trial whose files are absent is left out if it is ``optional``.
    """

    name: str
    function: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seeds: int = 1
    files: tuple[str, ...] = ()
    optional: bool = False
