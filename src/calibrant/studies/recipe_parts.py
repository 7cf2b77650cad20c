"""The parts of a recipe, from the tables of its file to specifications."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from calibrant.errors import RecipeError
from calibrant.studies.measures import higher_by_default
from calibrant.studies.recipe_section import Section, close_to
from calibrant.studies.specifications import (
    CalibratorSpec,
    ClassifierSpec,
    DataSpec,
    MeasureSpec,
    SplitSpec,
    TrialSpec,
)

__all__ = [
    "calibrator_for",
    "read_calibrators",
    "read_classifiers",
    "read_data",
    "read_measures",
    "read_splits",
    "read_trials",
    "splits_for",
]

SOURCES = {"features": "features", "scores": "scores", "top_label": "top-label", "generator": "generated"}

# What each kind of data may say about its file, besides what all may.
OPTIONS: dict[str, dict[str, str]] = {
    "features": {"standardise": "true or false", "label": "text"},
    "scores": {
        "space": "text",
        "label": "text",
        "columns": "a list or text",
        "positive": "text",
        "normalise": "true or false",
        "truth": "text",
        "test": "text",
    },
    "top-label": {"label": "text"},
    "generated": {"parameters": "a table", "standardise": "true or false", "files": "a list"},
}

# Keys of splits that mean nothing for a kind of them.
MEANINGLESS: dict[str, tuple[str, ...]] = {
    "folds": ("calibration_rows", "test_rows", "stratified"),
    "given": ("folds", "inner", "combine"),
    "random": ("folds", "inner", "combine"),
}

# Columns of the table of all units, besides labels and measures.
COLUMNS = ("status", "message", "seconds", "fit_seconds", "predict_seconds")

# Labels that the plan gives itself, and names that would be those of two columns.
RESERVED = (
    "data",
    "classifier",
    "calibrator",
    "repeat",
    "fold",
    "calibration_rows",
    "trial",
    "seed",
    "measure",
    *COLUMNS,
)

# Parameters that every trial is given, and labels of other units.
OF_TRIALS = ("seed", "data_folder", "trial", "measure", "repeat", "fold")


def read_data(
    content: Any, classifiers: tuple[str, ...], calibrators: tuple[str, ...]
) -> tuple[DataSpec, ...]:
    """Return the data sets of a recipe."""
    found = tuple(_data(entry, classifiers, calibrators) for entry in _entries("data", content))
    _check_different("data sets", [spec.name for spec in found])
    return found


def _data(entry: Any, classifiers: tuple[str, ...], calibrators: tuple[str, ...]) -> DataSpec:
    section = Section("a data set", entry)
    name = section.text("name")
    section.where = f"the data set {name!r}"
    given = [key for key in SOURCES if section.take(key, "text") is not None]
    if len(given) != 1:
        raise RecipeError(
            f"{section.where} must have one of {', '.join(SOURCES)}, which says where it comes from; "
            f"it has {', '.join(given) or 'none of them'}."
        )
    kind = SOURCES[given[0]]
    options = {
        key: value
        for key, wanted in OPTIONS[kind].items()
        if (value := section.take(key, wanted)) is not None
    }
    labels = dict(section.table("labels"))
    if (group := section.take("group", "text")) is not None:
        labels["group"] = group
    _check_labels(section.where, labels)
    parameters = section.table("calibrator_parameters")
    for calibrator, values in parameters.items():
        if calibrator not in calibrators:
            raise RecipeError(
                f"{section.where} has parameters for {calibrator!r}, which is no calibrator of the recipe; "
                f"{close_to(calibrator, calibrators)}."
            )
        if not isinstance(values, Mapping):
            raise RecipeError(
                f"{section.where}: parameters of {calibrator!r} must be a table, not {values!r}."
            )
    spec = DataSpec(
        name=name,
        kind=kind,
        source=section.text(given[0]),
        options=options,
        splits=section.table("splits"),
        labels=labels,
        optional=section.flag("optional"),
        classifiers=section.names("classifiers", classifiers),
        calibrators=section.names("calibrators", calibrators),
        calibrator_parameters=parameters,
    )
    section.finish()
    if spec.classifiers and kind not in ("features", "generated"):
        raise RecipeError(
            f"{section.where} holds outputs of a classifier already; leave its classifiers out."
        )
    return spec


def _check_labels(where: str, labels: Mapping[str, Any]) -> None:
    for key, value in labels.items():
        if key in RESERVED:
            raise RecipeError(
                f"{where} has a label {key!r}, which the study gives itself; choose another name."
            )
        if not isinstance(value, str | int | float | bool):
            raise RecipeError(f"{where}: the label {key!r} must be text or a number, not {value!r}.")


def read_classifiers(content: Any) -> tuple[ClassifierSpec, ...]:
    """Return the classifiers of a recipe, in its order."""
    found = []
    for name, entry in Section("classifiers", content).content.items():
        if isinstance(entry, str):
            entry = {"estimator": entry}
        section = Section(f"the classifier {name!r}", entry)
        found.append(ClassifierSpec(name, section.text("estimator"), section.table("parameters")))
        section.finish()
    return tuple(found)


def read_calibrators(content: Any) -> tuple[CalibratorSpec, ...]:
    """Return the calibrators of a recipe, in its order."""
    return tuple(_calibrator(name, entry) for name, entry in Section("calibrators", content).content.items())


def _calibrator(name: str, entry: Any) -> CalibratorSpec:
    section = Section(f"the calibrator {name!r}", {"method": entry} if isinstance(entry, str) else entry)
    parts = section.take("parts", "a list", [])
    spec = CalibratorSpec(
        name=name,
        method=section.text("method", ""),
        parameters=section.table("parameters"),
        parts=tuple(_calibrator_part(section.where, part) for part in parts),
        grid=section.table("grid"),
        select=section.choice("select", ("cross-validation", "training"), "cross-validation"),
        folds=section.whole("folds", 5, least=2),
        refit=section.choice("refit", ("whole", "average"), "whole"),
    )
    section.finish()
    if bool(spec.method) is bool(spec.parts):
        raise RecipeError(f"{section.where} must have a method or parts, and not both.")
    for key, values in spec.grid.items():
        if not isinstance(values, list) or not values:
            raise RecipeError(
                f"{section.where}: the grid of {key!r} must be a list of values, not {values!r}."
            )
    return spec


def _calibrator_part(where: str, entry: Any) -> Mapping[str, Any]:
    section = Section(
        f"a part of {where.removeprefix('the ')}", {"method": entry} if isinstance(entry, str) else entry
    )
    part = {"method": section.text("method"), "parameters": section.table("parameters")}
    section.finish()
    return part


def calibrator_for(data: DataSpec, calibrator: CalibratorSpec) -> CalibratorSpec:
    """Return a calibrator with what a data set says about its parameters.

    >>> data = DataSpec("abalone", "features", "abalone.npz", calibrator_parameters={"T": {"loss": "brier"}})
    >>> dict(calibrator_for(data, CalibratorSpec("T", "temperature")).parameters)
    {'loss': 'brier'}
    """
    own = dict(data.calibrator_parameters.get(calibrator.name, {}))
    if calibrator.parts and "parts" in own:
        where = f"the calibrator {calibrator.name!r} of the data set {data.name!r}"
        return replace(calibrator, parts=tuple(_calibrator_part(where, part) for part in own["parts"]))
    return replace(calibrator, parameters={**calibrator.parameters, **own}) if own else calibrator


def read_splits(content: Any, where: str = "splits") -> SplitSpec:
    """Return how rows are divided.

    >>> read_splits({"kind": "given", "calibration_rows": 500}).calibration_rows
    (500,)
    """
    section = Section(where, content)
    kind = section.choice("kind", tuple(MEANINGLESS), "folds")
    for key in MEANINGLESS[kind]:
        if key in section.content:
            raise RecipeError(f'{where}: {key} means nothing with kind = "{kind}"; leave it out.')
    listed = isinstance(section.content.get("calibration_rows"), list)
    sizes = section.take("calibration_rows", "a list" if listed else "a number", [])
    sizes = sizes if isinstance(sizes, list) else [sizes]
    for size in sizes:
        number = isinstance(size, int | float) and not isinstance(size, bool)
        if not number or size <= 0 or (size >= 1 and isinstance(size, float)):
            raise RecipeError(
                f"{where}: calibration_rows must be numbers of rows, or shares below one, not {size!r}."
            )
    spec = SplitSpec(
        kind=kind,
        repeats=section.whole("repeats", 1),
        folds=section.whole("folds", 5, least=2),
        inner=section.whole("inner", 3, least=2),
        combine=section.choice("combine", ("average", "pooled"), "average"),
        calibration_rows=tuple(sizes),
        test_rows=section.whole("test_rows", 0, least=0) or None,
        stratified=section.flag("stratified"),
    )
    section.finish()
    return spec


def splits_for(data: DataSpec, content: Mapping[str, Any], form: Mapping[str, Any]) -> SplitSpec:
    """Return the splits of one data set: those of the recipe, with what the set and then the form say.

    Where the set is of another kind than the recipe, what means nothing for it is not taken over.

    >>> data = DataSpec("c10", "scores", "c10.npz", splits={"kind": "given"})
    >>> splits_for(data, {"kind": "folds", "inner": 3, "repeats": 5}, {"repeats": 1})  # doctest: +ELLIPSIS
    SplitSpec(kind='given', repeats=1, ...
    """
    merged = {**content, **data.splits, **form}
    for key in MEANINGLESS.get(merged.get("kind", "folds"), ()):
        if key not in data.splits:
            merged.pop(key, None)
    return read_splits(merged, f"the splits of {data.name!r}")


def read_measures(content: Any) -> tuple[MeasureSpec, ...]:
    """Return the measures of a recipe, in its order."""
    found = []
    for name, entry in Section("measures", content).content.items():
        if name in COLUMNS:
            raise RecipeError(f"the measure {name!r} is always there; choose another name.")
        section = Section(f"the measure {name!r}", {"metric": entry} if isinstance(entry, str) else entry)
        metric, test = section.text("metric", ""), section.text("test", "")
        if bool(metric) is bool(test):
            raise RecipeError(f"{section.where} must have a metric or a test, and not both.")
        better = section.choice("better", ("higher", "lower", ""), "")
        spec = MeasureSpec(
            name=name,
            metric=metric or test,
            parameters=section.table("parameters"),
            test=bool(test),
            resamples=section.whole("resamples", 1000),
            higher_is_better=better == "higher" if better else higher_by_default(metric or test, bool(test)),
        )
        section.finish()
        found.append(spec)
    return tuple(found)


def read_trials(content: Any) -> tuple[TrialSpec, ...]:
    """Return the trials of a recipe."""
    found = []
    for entry in _entries("trials", content):
        section = Section("a trial", entry)
        name = section.text("name")
        section.where = f"the trial {name!r}"
        parameters = section.table("parameters")
        for key, value in parameters.items():
            # Lists become labels.
            if key in OF_TRIALS or (key in COLUMNS and isinstance(value, list)):
                raise RecipeError(
                    f"{section.where} has a parameter {key!r}, which the study gives itself; rename it."
                )
        spec = TrialSpec(
            name=name,
            function=section.text("function"),
            parameters=parameters,
            seeds=section.whole("seeds", 1),
            files=section.names("files") or (),
            optional=section.flag("optional"),
        )
        section.finish()
        found.append(spec)
    _check_different("trials", [spec.name for spec in found])
    return tuple(found)


def _entries(key: str, content: Any) -> list[Any]:
    if not isinstance(content, list):
        raise RecipeError(f"{key} must be written as [[{key}]], once for each.")
    return content


def _check_different(what: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise RecipeError(f"two {what} are called {name!r}; give each a name of its own.")
