"""The parts of a recipe as values: data sets, classifiers, calibrators, splits, measures and trials.

Their annotations are also the schema of the recipe's tables, see :mod:`calibrant.studies.schema`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal

from calibrant.studies.schema import Count, Names, Rule

__all__ = ["CalibratorSpec", "ClassifierSpec", "DataSpec", "MeasureSpec", "SplitSpec", "TrialSpec"]

TwoOrMore = Annotated[int, Rule(ge=2)]


@dataclass(frozen=True)
class Specification:
    """A part of a recipe that can be hashed."""

    def canonical(self) -> dict[str, Any]:
        """Return the fields as values for JSON, the same for equal parts."""
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

    ``kind`` is ``"features"`` (rows on which classifiers are trained), ``"scores"`` (predictions of a classifier),
    ``"top-label"`` (confidences only) or ``"generated"``. ``source`` is a file or a function. ``splits`` overrides keys of
    the recipe's splits. ``labels`` are additional labels of the units. ``classifiers`` and ``calibrators`` name those that run on
    this data set, None for all. ``calibrator_parameters`` extends the parameters of calibrators, by name, on this data set.
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
    """A classifier to train: a name of :data:`~calibrant.studies.classifiers.CLASSIFIERS`, or a class.

    A class is written as ``package.module:Class`` or ``file.py:Class``.
    """

    name: str
    estimator: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CalibratorSpec(Specification):
    """A calibrator: ``method`` is a registry name, several joined by ``+``, or your own class.

    ``parts`` replaces ``method`` if the parts of a composition have parameters: each is a mapping with ``method`` and
    ``parameters``. A ``grid`` is searched for the lowest log-loss: ``select`` is ``"cross-validation"`` over ``folds``
    of the calibration set, or ``"training"`` on the training set of the classifier. ``refit`` is ``"whole"`` (refit on
    the calibration set with the best parameters) or ``"average"`` (average the models of the folds).
    """

    name: str
    method: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    parts: Annotated[tuple[Mapping[str, Any], ...], Rule(strict=False)] = ()
    grid: Mapping[str, Annotated[list[Any], Rule(min_length=1)]] = field(default_factory=dict)
    select: Literal["cross-validation", "training"] = "cross-validation"
    folds: TwoOrMore = 5
    refit: Literal["whole", "average"] = "whole"


@dataclass(frozen=True)
class SplitSpec(Specification):
    """How rows are split.

    ``kind`` is ``"folds"`` (``repeats`` times ``folds`` stratified outer folds, with ``inner`` folds for calibration whose
    models are combined by ``"average"`` or ``"pooled"``), ``"given"`` (the calibration and test sets of the file) or
    ``"random"`` (``repeats`` random splits). ``calibration_rows`` holds sizes of the calibration set, or fractions below
    one; empty means all rows, or half of them.
    """

    kind: Literal["folds", "given", "random"]
    repeats: Count = 1
    folds: TwoOrMore = 5
    inner: TwoOrMore = 3
    combine: Literal["average", "pooled"] = "average"
    calibration_rows: Annotated[tuple[Any, ...], Rule(alone=True, strict=False)] = ()
    test_rows: Annotated[int, Rule(ge=0)] | None = None
    stratified: bool = False


@dataclass(frozen=True)
class MeasureSpec(Specification):
    """A number computed from the calibrated test set.

    ``metric`` is a name of :mod:`calibrant.metrics` or ``convention.name``. With ``test`` the measure is the p-value of
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
    """Your own function, called with every combination of ``parameters`` and ``seeds`` random seeds.

    ``files`` are the files that it reads; an ``optional`` trial is skipped if one of them does not exist.
    """

    name: str
    function: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seeds: Count = 1
    files: Names = ()
    optional: bool = False
