"""Recipe: what a study runs and reports, read from a TOML file and checked before anything runs."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from calibrant.errors import RecipeError, StudyError
from calibrant.studies.calibration import check_calibrator, needs_own_code
from calibrant.studies.classifiers import check_classifier
from calibrant.studies.measures import check_measure, higher_by_default
from calibrant.studies.outputs import needs_training
from calibrant.studies.own_code import check_function, check_reference, is_reference, load_function
from calibrant.studies.pictures.options import PictureOptions
from calibrant.studies.schema import Count, Names, Rule, check_known, check_unique, checked, close_to, parsed
from calibrant.studies.sources import is_table
from calibrant.studies.specifications import (
    CalibratorSpec,
    ClassifierSpec,
    DataSpec,
    MeasureSpec,
    SplitSpec,
    TrialSpec,
)
from calibrant.studies.tables.options import TableOptions

__all__ = ["FILE_NAME", "Recipe", "check_own_code", "read_recipe", "shipped_recipes"]

FILE_NAME = "recipe.toml"

Table = Mapping[str, Any]

Seconds = Annotated[float, Rule(gt=0)]

# The keys of tables that do not become a dataclass as they are, with their types.
RECIPE: Table = {
    "title": str,
    "paper": str,
    "seed": Annotated[int, Rule(ge=0)],
    "limit_seconds": Seconds,
    "data": list[Table],
    **dict.fromkeys(("classifiers", "calibrators", "splits", "measures"), Table),
    **dict.fromkeys(("trials", "tables", "pictures"), list[Table]),
    "forms": Table,
}
FORM: Table = {
    **dict.fromkeys(("data", "classifiers", "calibrators", "trials"), Names),
    "limit_seconds": Seconds,
    "splits": Table,
}
MEASURE: Table = {
    "metric": str,
    "test": str,
    "parameters": Table,
    "resamples": Count,
    "better": Literal["higher", "lower", ""],
}
STAGE: Table = {"method": str, "parameters": Table}
DATA: Table = {
    "name": str,
    "group": str,
    "labels": Table,
    "splits": Table,
    "optional": bool,
    "classifiers": Names,
    "calibrators": Names,
    "calibrator_parameters": Mapping[str, Table],
}
SCORES: Table = {
    **dict.fromkeys(("space", "label", "positive", "truth", "test"), str),
    "columns": Any,
    "normalise": bool,
}
SOURCES: dict[str, tuple[str, Table]] = {
    "features": ("features", {"standardise": bool, "label": str}),
    "scores": ("scores", SCORES),
    "top_label": ("top-label", {"label": str}),
    "generator": ("generated", {"parameters": Table, "standardise": bool, "files": list[Any]}),
}
"""Key of a source of data -> kind of data, and the keys of its options."""

# Keys of splits that have no meaning for a kind of them.
MEANINGLESS: dict[str, tuple[str, ...]] = {
    "folds": ("calibration_rows", "test_rows", "stratified"),
    "given": ("folds", "inner", "combine"),
    "random": ("folds", "inner", "combine"),
}

# Columns of the table of all units, besides labels and measures.
COLUMNS = ("status", "message", "seconds", "fit_seconds", "predict_seconds")

# Labels that the plan sets, and names that would occur twice among the columns.
PLANNED = (
    "data",
    "classifier",
    "calibrator",
    "repeat",
    "fold",
    "calibration_rows",
    "trial",
    "seed",
    "measure",
)
RESERVED = (*PLANNED, *COLUMNS)

# Arguments that every trial receives, and labels of other units.
OF_TRIALS = ("seed", "data_folder", "trial", "measure", "repeat", "fold")


@dataclass(frozen=True)
class Recipe:
    """What a study runs and reports.

    Attributes
    ----------
    name : str
        Name of the recipe's folder.
    title, paper : str
        Title of the study, and key of the publication in the bibliography.
    folder : Path
        Folder of the recipe and its own code.
    form : str or None
        Name of the form; None for the complete recipe.
    seed : int
        Random seed.
    limit_seconds : float or None
        Largest processor time of a unit, and of training a classifier; not part of a result's key.
    data, classifiers, calibrators, measures, trials : tuple
        The parts to be crossed.
    splits : mapping
        Default splits; :meth:`Recipe.splits_of` combines them with those of a data set.
    tables, pictures : tuple
        Tables and figures of the report.
    forms : tuple of str
        Names of all forms in the file.
    """

    name: str
    title: str
    folder: Path
    paper: str = ""
    form: str | None = None
    seed: int = 0
    limit_seconds: float | None = None
    data: tuple[DataSpec, ...] = ()
    classifiers: tuple[ClassifierSpec, ...] = ()
    calibrators: tuple[CalibratorSpec, ...] = ()
    splits: Mapping[str, Any] | None = None
    measures: tuple[MeasureSpec, ...] = ()
    trials: tuple[TrialSpec, ...] = ()
    tables: tuple[TableOptions, ...] = ()
    pictures: tuple[PictureOptions, ...] = ()
    forms: tuple[str, ...] = ()
    form_splits: Mapping[str, Any] | None = None

    def splits_of(self, data: DataSpec) -> SplitSpec:
        """Return how the rows of a data set are split."""
        return splits_for(data, self.splits or {}, self.form_splits or {})

    def classifiers_of(self, data: DataSpec) -> tuple[ClassifierSpec | None, ...]:
        """Return the classifiers for a data set; None for one that already holds predictions."""
        if data.kind in ("scores", "top-label") or (data.kind == "generated" and data.classifiers is None):
            return (None,)
        wanted = data.classifiers
        return tuple(each for each in self.classifiers if wanted is None or each.name in wanted)

    def calibrators_of(self, data: DataSpec) -> tuple[CalibratorSpec, ...]:
        """Return the calibrators for a data set, with the parameters that it gives them."""
        wanted = data.calibrators
        return tuple(
            calibrator_for(data, each) for each in self.calibrators if wanted is None or each.name in wanted
        )


def read_recipe(path: str | Path, form: str | None = None) -> Recipe:
    """Read a recipe from a folder or a TOML file, in one of its forms.

    Everything that needs neither data nor running code is checked: keys, names, methods and their parameters, measures,
    tables and figures. The recipe's own code is parsed but not imported; :func:`~calibrant.studies.run` imports it.

    Parameters
    ----------
    path : str or Path
        Folder with a ``recipe.toml``, or a TOML file.
    form : str, optional
        A form of the recipe, from its ``[forms]``; the complete recipe by default.

    Raises
    ------
    RecipeError
        If the recipe is invalid; one sentence says what is wrong and where.
    MissingExtraError
        If pydantic is not installed, which the extra ``studies`` brings.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "recipe.toml").write_text('''
    ... title = "Temperature scaling on my network"
    ... [[data]]
    ... name = "mine"
    ... scores = "mine.npz"
    ... [calibrators]
    ... Uncal = "uncalibrated"
    ... TempS = "temperature"
    ... [splits]
    ... kind = "given"
    ... [measures]
    ... log_loss = "log_loss"
    ... ''')
    ...     recipe = read_recipe(folder)
    >>> recipe.title, [each.method for each in recipe.calibrators]
    ('Temperature scaling on my network', ['uncalibrated', 'temperature'])
    """
    path = Path(path)
    file = path / FILE_NAME if path.is_dir() else path
    content = _read(file)
    try:
        recipe = _parsed(file, content)
        recipe = _in_form(recipe, content.get("forms", {}), form)
        _check(recipe)
    except StudyError as error:
        raise type(error)(f"{file}: {error}") from error
    return recipe


def check_own_code(recipe: Recipe) -> None:
    """Import the recipe's own code and raise if it cannot be used.

    This executes the files beside the recipe, so call it only before running the study.

    Raises
    ------
    RecipeError
        If a file cannot be imported, or a class or function cannot be called with its parameters.
    """
    for data in recipe.data:
        if data.kind == "generated":
            parameters = data.options.get("parameters", {})
            load_function(f"the data set {data.name!r}", data.source, parameters, recipe.folder)
        for calibrator in recipe.calibrators_of(data):
            if needs_own_code(calibrator):
                check_calibrator(calibrator, recipe.folder)
    for classifier in recipe.classifiers:
        if is_reference(classifier.estimator):
            check_classifier(classifier, recipe.folder)
    for trial in recipe.trials:
        load_function(f"the trial {trial.name!r}", trial.function, trial.parameters, recipe.folder)


def _read(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as opened:
            return tomllib.load(opened)
    except FileNotFoundError:
        raise RecipeError(
            f"there is no recipe {file}; name a folder with a {FILE_NAME}, or a TOML file."
        ) from None
    except OSError as error:
        raise RecipeError(f"{file} cannot be read: {error.strerror or error}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{file} is not TOML: {str(error).rstrip('.')}.") from error


def _parsed(file: Path, content: Mapping[str, Any]) -> Recipe:
    found = checked(RECIPE, "the recipe", content, ["title"])
    parts = {name: dict(found.pop(name, {})) for name in ("classifiers", "calibrators", "measures", "forms")}
    entries = {name: found.pop(name, []) for name in ("data", "trials", "tables", "pictures")}
    classifiers = tuple(
        parsed(ClassifierSpec, f"the classifier {name!r}", _in_full(entry, "estimator"), name=name)
        for name, entry in parts["classifiers"].items()
    )
    calibrators = tuple(_calibrator(name, entry) for name, entry in parts["calibrators"].items())
    _splits(found.setdefault("splits", {}), "splits")
    measures = tuple(_measure(name, entry) for name, entry in parts["measures"].items())
    measured = None if entries["trials"] else _names(measures)
    several: dict[str, Any] = {
        "data": tuple(_data(entry, _names(classifiers), _names(calibrators)) for entry in entries["data"]),
        "trials": tuple(map(_trial, entries["trials"])),
        "tables": tuple(TableOptions.parse(entry, measured) for entry in entries["tables"]),
        "pictures": tuple(map(PictureOptions.parse, entries["pictures"])),
    }
    for name, listed in several.items():
        check_unique("data sets" if name == "data" else name, _names(listed))
    return Recipe(
        name=file.parent.resolve().name if file.name == FILE_NAME else file.stem,
        folder=file.parent.resolve(),
        classifiers=classifiers,
        calibrators=calibrators,
        measures=measures,
        forms=tuple(parts["forms"]),
        **several,
        **found,
    )


def _names(parts: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(each.name for each in parts)


def _in_full(entry: Any, key: str) -> Any:
    """Return the table that a name is short for."""
    return {key: entry} if isinstance(entry, str) else entry


def _data(entry: Table, classifiers: tuple[str, ...], calibrators: tuple[str, ...]) -> DataSpec:
    where = f"the data set {entry['name']!r}" if "name" in entry else "a data set"
    keys = [key for key in SOURCES if key in entry]
    if len(keys) != 1:
        raise RecipeError(
            f"{where} must have one of {', '.join(SOURCES)}, which says where it comes from; "
            f"it has {', '.join(keys) or 'none of them'}."
        )
    source = keys[0]
    kind, options = SOURCES[source]
    found = checked({**DATA, source: str, **options}, where, entry, ["name"])
    labels = dict(found.pop("labels", {}))
    if "group" in found:
        labels["group"] = found.pop("group")
    for key, value in labels.items():
        if key in RESERVED:
            raise RecipeError(
                f"{where} has a label {key!r}, which the study sets itself; choose another name."
            )
        if not isinstance(value, str | int | float | bool):
            raise RecipeError(f"{where}: the label {key!r} must be text or a number, not {value!r}.")
    for calibrator in found.get("calibrator_parameters", ()):
        if calibrator not in calibrators:
            raise RecipeError(
                f"{where} has parameters for {calibrator!r}, which is no calibrator of the recipe; "
                f"{close_to(calibrator, calibrators)}"
            )
    check_known(where, "classifiers", found.get("classifiers", ()), classifiers)
    check_known(where, "calibrators", found.get("calibrators", ()), calibrators)
    if not isinstance(found.get("columns", ""), str | list):
        raise RecipeError(f"{where}: columns must be text or a list, not {found['columns']!r}.")
    if found.get("classifiers") and kind not in ("features", "generated"):
        raise RecipeError(f"{where} already holds predictions of a classifier; remove its classifiers.")
    own = {key: found.pop(key) for key in options if key in found}
    return DataSpec(kind=kind, source=found.pop(source), options=own, labels=labels, **found)


def _calibrator(name: str, entry: Any) -> CalibratorSpec:
    where, content = f"the calibrator {name!r}", _in_full(entry, "method")
    if isinstance(content, Mapping) and isinstance(content.get("parts"), list):
        content = {**content, "parts": [_stage(name, part) for part in content["parts"]]}
    spec = parsed(CalibratorSpec, where, content, name=name)
    if bool(spec.method) is bool(spec.parts):
        raise RecipeError(f"{where} must have a method or parts, and not both.")
    return spec


def _stage(calibrator: str, entry: Any) -> Mapping[str, Any]:
    found = checked(STAGE, f"a part of calibrator {calibrator!r}", _in_full(entry, "method"), ["method"])
    return {"parameters": {}, **found}


def calibrator_for(data: DataSpec, calibrator: CalibratorSpec) -> CalibratorSpec:
    """Return a calibrator with the parameters that a data set gives it.

    >>> data = DataSpec("abalone", "features", "abalone.npz", calibrator_parameters={"T": {"loss": "brier"}})
    >>> dict(calibrator_for(data, CalibratorSpec("T", "temperature")).parameters)
    {'loss': 'brier'}
    """
    own = dict(data.calibrator_parameters.get(calibrator.name, {}))
    if calibrator.parts and "parts" in own:
        return replace(calibrator, parts=tuple(_stage(calibrator.name, part) for part in own["parts"]))
    return replace(calibrator, parameters={**calibrator.parameters, **own}) if own else calibrator


def _splits(content: Table, where: str) -> SplitSpec:
    spec = parsed(SplitSpec, where, {"kind": "folds", **content})
    for key in MEANINGLESS[spec.kind]:
        if key in content:
            raise RecipeError(f'{where}: {key} has no meaning with kind = "{spec.kind}"; remove it.')
    for size in spec.calibration_rows:
        number = isinstance(size, int | float) and not isinstance(size, bool)
        if not number or size <= 0 or (size >= 1 and isinstance(size, float)):
            raise RecipeError(
                f"{where}: calibration_rows must be numbers of rows, or fractions below one, not {size!r}."
            )
    return replace(spec, test_rows=spec.test_rows or None)


def splits_for(data: DataSpec, content: Table, form: Table) -> SplitSpec:
    """Return the splits of one data set: those of the recipe, updated by the data set and then by the form.

    If the kind differs from that of the recipe, keys that have no meaning for it are dropped.

    >>> data = DataSpec("c10", "scores", "c10.npz", splits={"kind": "given"})
    >>> splits_for(data, {"kind": "folds", "inner": 3, "repeats": 5}, {"repeats": 1})  # doctest: +ELLIPSIS
    SplitSpec(kind='given', repeats=1, ...
    """
    merged = {**content, **data.splits, **form}
    for key in MEANINGLESS.get(merged.get("kind", "folds"), ()):
        if key not in data.splits:
            merged.pop(key, None)
    return _splits(merged, f"the splits of {data.name!r}")


def _measure(name: str, entry: Any) -> MeasureSpec:
    where = f"the measure {name!r}"
    if name in COLUMNS:
        raise RecipeError(f"{where} is always there; choose another name.")
    found = checked(MEASURE, where, _in_full(entry, "metric"))
    metric, test = found.pop("metric", ""), found.pop("test", "")
    if bool(metric) is bool(test):
        raise RecipeError(f"{where} must have a metric or a test, and not both.")
    better = found.pop("better", "")
    higher = better == "higher" if better else higher_by_default(metric or test, bool(test))
    return MeasureSpec(name, metric or test, test=bool(test), higher_is_better=higher, **found)


def _trial(entry: Table) -> TrialSpec:
    where = f"the trial {entry['name']!r}" if "name" in entry else "a trial"
    spec = parsed(TrialSpec, where, entry)
    for key, value in spec.parameters.items():
        # Lists become labels.
        if key in OF_TRIALS or (key in COLUMNS and isinstance(value, list)):
            raise RecipeError(f"{where} has a parameter {key!r}, which the study sets itself; rename it.")
    return spec


def _in_form(recipe: Recipe, forms: Table, form: str | None) -> Recipe:
    """Return a form of the recipe; all forms are checked, whichever is requested."""
    found = {name: _form(recipe, name, content) for name, content in forms.items()}
    if form is None:
        return recipe
    if form not in found:
        raise RecipeError(f"there is no form {form!r}; {close_to(form, recipe.forms)}")
    return found[form]


def _form(recipe: Recipe, name: str, content: Any) -> Recipe:
    where = f"the form {name!r}"
    changes: dict[str, Any] = checked(FORM, where, content)
    for key in ("data", "classifiers", "calibrators", "trials"):
        if key in changes:
            wanted, everything = changes[key], getattr(recipe, key)
            check_known(where, key, wanted, _names(everything))
            changes[key] = tuple(each for each in everything if each.name in wanted)
    changes |= {"form": name, "form_splits": changes.pop("splits", {})}
    small = replace(recipe, **changes)
    for data in small.data:
        small.splits_of(data)
    return small


def _check(recipe: Recipe) -> None:
    """Refuse unknown names and parameters, and combinations that cannot run."""
    if not recipe.data and not recipe.trials:
        raise RecipeError("there is nothing to run; add [[data]] or [[trials]].")
    for data in recipe.data:
        _check_data(recipe, data)
    for classifier in recipe.classifiers:
        if is_reference(classifier.estimator):
            check_reference(classifier.estimator, recipe.folder)
        else:
            check_classifier(classifier, recipe.folder)
    for measure in recipe.measures:
        check_measure(measure)
    for trial in recipe.trials:
        if not is_reference(trial.function):
            raise RecipeError(
                f"the trial {trial.name!r} names the function {trial.function!r}; write it as file.py:function."
            )
        check_function(f"the trial {trial.name!r}", trial.function, trial.parameters, recipe.folder)
        for name, value in trial.parameters.items():
            if isinstance(value, list):  # It becomes a label.
                _check_label(recipe, f"the trial {trial.name!r}", name)


def _check_data(recipe: Recipe, data: DataSpec) -> None:
    where = f"the data set {data.name!r}"
    if not recipe.calibrators_of(data):
        raise RecipeError(f"{where} has no calibrator; add one to [calibrators].")
    if not recipe.classifiers_of(data):
        raise RecipeError(
            f"{where} holds features, but there is no classifier for it; add one to [classifiers]."
        )
    if not recipe.measures:
        raise RecipeError(
            f"{where} is evaluated by nothing, since there is no measure; add one to [measures]."
        )
    splits = recipe.splits_of(data)
    if data.kind in ("scores", "top-label") and splits.kind == "folds":
        raise RecipeError(
            f"{where} holds predictions of a classifier, which have no folds to be trained on; "
            'set the kind of its splits to "given" or "random".'
        )
    for calibrator in recipe.calibrators_of(data):
        check_calibrator(calibrator, recipe.folder, own_code=False)
        if needs_training(calibrator) and recipe.classifiers_of(data) == (None,):
            raise RecipeError(
                f"{where} has no training set of a classifier, on which the calibrator {calibrator.name!r} is "
                'selected; set its select to "cross-validation", or leave it out of the calibrators of the data set.'
            )
    for name in data.labels:
        _check_label(recipe, where, name)
    if data.kind == "generated":
        check_function(where, data.source, data.options.get("parameters", {}), recipe.folder)
    files = [data.source, str(data.options.get("test", ""))] if data.kind == "scores" else []
    if "space" not in data.options and any(file and is_table(file) for file in files):
        raise RecipeError(f'{where} is a table of scores; add space = "probabilities" or space = "logits".')


def _check_label(recipe: Recipe, where: str, name: str) -> None:
    if name in _names(recipe.measures):
        raise RecipeError(
            f"{where} has a label {name!r}, which is the name of a measure; rename one of them."
        )


HERE = Path(__file__).parent


def shipped_recipes() -> dict[str, Path]:
    """Return the folders of the recipes that come with the package, by name.

    A wheel has them in this package, a checkout in its folder ``studies``.

    >>> "kull2019-uci" in shipped_recipes()
    True
    """
    for folder in (HERE / "recipes", HERE.parents[2] / "studies"):
        found = {path.parent.name: path.parent for path in sorted(folder.glob(f"*/{FILE_NAME}"))}
        if found:
            return found
    return {}
