"""Plan: the units of a recipe, each with its key."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Protocol

import calibrant
from calibrant.studies.outputs import OutputsRequest, needs_training, outputs_key, training_key
from calibrant.studies.own_code import code_fingerprint, is_reference
from calibrant.studies.recipe import Recipe
from calibrant.studies.results import Record
from calibrant.studies.sources import AbsentDataError, check_source, file_hash, find_file, place_of
from calibrant.studies.specifications import CalibratorSpec, DataSpec, MeasureSpec, TrialSpec
from calibrant.studies.splits import splits_of
from calibrant.studies.units import GridWork, TrialWork, Unit

__all__ = ["Plan", "plan"]


FORMAT = 1
"""Version of the computation; raise it when the same unit would give another result, so that old results are not reused."""


def digest(content: Any) -> str:
    """Return the SHA-256 of a value, independent of the order of its keys.

    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    """
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)  # dates and times, which TOML has and JSON lacks


def calibrator_identity(spec: CalibratorSpec, folder: Path) -> dict[str, Any]:
    """Return what determines the result of a calibrator, which its name in the recipe does not.

    Options of the search count only if there is a grid.

    >>> one = CalibratorSpec("T", "temperature")
    >>> calibrator_identity(one, Path(".")) == calibrator_identity(CalibratorSpec("TempS", "temperature"), Path("."))
    True
    """
    content = spec.canonical()
    del content["name"]
    if not spec.grid:
        for key in ("grid", "select", "folds", "refit"):
            del content[key]
    methods = [spec.method, *(str(part.get("method", "")) for part in spec.parts)]
    pieces = [piece.strip() for method in methods for piece in method.split("+")]
    content["code"] = [code_fingerprint(piece, folder) for piece in pieces if is_reference(piece)]
    return content


def measures_identity(specs: Iterable[MeasureSpec], folder: Path) -> dict[str, Any]:
    """Return what determines the numbers of a unit: the measures by name, in any order.

    Adding a measure changes the key, so that a record always has all measures of its recipe.
    """
    found = {}
    for spec in specs:
        content = spec.canonical()
        del content["name"], content["higher_is_better"]
        if not spec.test:
            del content["resamples"]
        content["code"] = code_fingerprint(spec.metric, folder) if is_reference(spec.metric) else ""
        found[spec.name] = content
    return found


def grid_key(outputs: str, calibrator: str, measures: str, seed: int) -> str:
    """Return the key of a calibrator on the predictions of a classifier, from the hashes of both."""
    return digest(
        {
            "format": FORMAT,
            "calibrant": calibrant.__version__,
            "outputs": outputs,
            "calibrator": calibrator,
            "measures": measures,
            "seed": seed,
        }
    )


def trial_key(function: str, parameters: Mapping[str, Any], seed: int, files: list[str], folder: Path) -> str:
    """Return the key of a trial, from its function, the hash of its code and the hashes of the files that it reads."""
    return digest(
        {
            "format": FORMAT,
            "calibrant": calibrant.__version__,
            "function": function,
            "code": code_fingerprint(function, folder),
            "parameters": parameters,
            "seed": seed,
            "files": files,
        }
    )


class _HasRecords(Protocol):
    def records(self, keys: Iterable[str] | None = None) -> list[Record]: ...


@dataclass(frozen=True)
class Plan:
    """The units of a recipe.

    Attributes
    ----------
    recipe : Recipe
    units : tuple of Unit
        Ordered by data, classifiers, splits and calibrators as in the recipe, then trials. Identical units under different
        names have the same key and are run once.
    absent : tuple of (str, str)
        Optional data sets and trials that were skipped, with the reason.
    """

    recipe: Recipe
    units: tuple[Unit, ...]
    absent: tuple[tuple[str, str], ...] = ()

    def records(self, store: _HasRecords) -> list[Record]:
        """Return the records of these units in a store, in the order and with the labels of this plan."""
        found = {record.key: record for record in store.records({unit.key for unit in self.units})}
        return [
            replace(found[unit.key], labels=dict(unit.labels)) for unit in self.units if unit.key in found
        ]


def plan(recipe: Recipe, data_folder: str | Path | None = None) -> Plan:
    """List the units of a recipe without running them; all files must exist.

    Parameters
    ----------
    recipe : Recipe
        From :func:`~calibrant.studies.read_recipe`.
    data_folder : str or Path, optional
        Folder of the data files; by default the folder of the recipe.

    Returns
    -------
    Plan
        Units with keys. A key is a hash of the data, the classifier, the split, the calibrator, the measures, the seed, the
        recipe's own code and the version of calibrant. It does not depend on names, labels, the order of the recipe, other
        splits or the time limit. A small form therefore shares its units with the complete recipe, and a changed recipe
        runs only new units.

    Raises
    ------
    StudyDataError
        If the file of a required data set does not exist, or a table lacks its label column.
    """
    folder = None if data_folder is None else Path(data_folder).resolve()
    units: list[Unit] = []
    absent: list[tuple[str, str]] = []
    measures = digest(measures_identity(recipe.measures, recipe.folder))
    for data in recipe.data:
        try:
            check_source(data, folder, recipe.folder)
            units.extend(list(_grid(recipe, data, folder, measures)))
        except AbsentDataError:
            if not data.optional:
                raise
            absent.append((data.name, _reason(_files_of(data), folder, recipe.folder)))
    for trial in recipe.trials:
        try:
            units.extend(list(_trials(recipe, trial, folder)))
        except AbsentDataError:
            if not trial.optional:
                raise
            absent.append((trial.name, _reason(trial.files, folder, recipe.folder)))
    return Plan(recipe, tuple(units), tuple(absent))


def _grid(recipe: Recipe, data: DataSpec, folder: Path | None, measures: str) -> Iterator[Unit]:
    splits = recipe.splits_of(data)
    calibrators = recipe.calibrators_of(data)
    identities = [digest(calibrator_identity(each, recipe.folder)) for each in calibrators]
    keep_training = any(needs_training(each) for each in calibrators)
    for classifier, split in product(recipe.classifiers_of(data), splits_of(splits)):
        request = OutputsRequest(data, classifier, splits, split, recipe.seed, folder, recipe.folder)
        # Keeping predictions for the training set as well does not change the others.
        identity = outputs_key(request)
        outputs = identity
        if keep_training:
            request = replace(request, keep_training=True)
            outputs = outputs_key(request)
        training = training_key(request)
        labels: dict[str, Any] = {**data.labels, "data": data.name}
        if classifier is not None:
            labels["classifier"] = classifier.name
        for calibrator, its_identity in zip(calibrators, identities, strict=True):
            yield Unit(
                grid_key(identity, its_identity, measures, recipe.seed),
                {**labels, "calibrator": calibrator.name, **split.labels()},
                GridWork(request, outputs, training, calibrator, recipe.measures),
            )


def _trials(recipe: Recipe, trial: TrialSpec, folder: Path | None) -> Iterator[Unit]:
    hashes = [
        file_hash(find_file(name, f"trial {trial.name!r}", folder, recipe.folder)) for name in trial.files
    ]
    crossed = [name for name, value in trial.parameters.items() if isinstance(value, list)]
    for combination in product(*(trial.parameters[name] for name in crossed)):
        chosen = dict(zip(crossed, combination, strict=True))
        parameters = {**trial.parameters, **chosen}
        labels = {"trial": trial.name, **{name: _label(value) for name, value in chosen.items()}}
        for seed in range(recipe.seed, recipe.seed + trial.seeds):
            yield Unit(
                trial_key(trial.function, parameters, seed, hashes, recipe.folder),
                {**labels, "seed": seed},
                TrialWork(trial.name, trial.function, parameters, seed, folder, recipe.folder),
            )


def _label(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool) else _text(value)


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_text(each)}" for key, each in value.items())
    if isinstance(value, list):
        return " ".join(_text(each) for each in value)
    return str(value)


def _files_of(data: DataSpec) -> list[str]:
    names = [*data.options.get("files", []), *([data.options["test"]] if "test" in data.options else [])]
    return [str(name) for name in (names if data.kind == "generated" else [data.source, *names])]


def _reason(names: Iterable[str], *folders: Path | None) -> str:
    """Return which files do not exist, in a few words for a report."""
    missing = [name for name in names if place_of(name, folders) is None]
    return f"there is no file {', '.join(missing)}"
