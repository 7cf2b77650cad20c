"""Recipe: what a study runs and shows, read from a TOML file and checked before anything runs."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from calibrant.errors import RecipeError, StudyError
from calibrant.studies.calibration import check_calibrator, needs_own_code
from calibrant.studies.classifiers import check_classifier
from calibrant.studies.measures import check_measure
from calibrant.studies.outputs import needs_training
from calibrant.studies.own_code import check_function, check_reference, is_reference, load_function
from calibrant.studies.pictures.options import PictureOptions
from calibrant.studies.recipe_parts import (
    calibrator_for,
    read_calibrators,
    read_classifiers,
    read_data,
    read_measures,
    read_splits,
    read_trials,
    splits_for,
)
from calibrant.studies.recipe_section import Section, close_to
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

__all__ = [
    "FILE_NAME",
    "Recipe",
    "check_own_code",
    "read_recipe",
]

FILE_NAME = "recipe.toml"


@dataclass(frozen=True)
class Recipe:
    """What a study runs and shows.

    Attributes
    ----------
    name : str
        Of the folder that holds the recipe.
    title, paper : str
        What it is about, and the key of the publication in the bibliography.
    folder : Path
        Where the recipe and its own code are.
    form : str or None
        Which of its forms this is, None for the whole.
    seed : int
        Of all that is random.
    limit_seconds : float or None
        Most processor time of one unit, and of one training of a classifier; no part of a result's key.
    data, classifiers, calibrators, measures, trials : tuple
        What is crossed.
    splits : mapping
        How rows are divided, where a data set does not say otherwise; :meth:`Recipe.splits_of` has the whole.
    tables, pictures : tuple of mapping
        What the report shows.
    forms : tuple of str
        Names of the forms that the file describes.
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
    tables: tuple[Mapping[str, Any], ...] = ()
    pictures: tuple[Mapping[str, Any], ...] = ()
    forms: tuple[str, ...] = ()
    form_splits: Mapping[str, Any] | None = None

    def splits_of(self, data: DataSpec) -> SplitSpec:
        """Return how the rows of a data set are divided."""
        return splits_for(data, self.splits or {}, self.form_splits or {})

    def classifiers_of(self, data: DataSpec) -> tuple[ClassifierSpec | None, ...]:
        """Return the classifiers for a data set; None stands for no classifier, where scores are given."""
        if data.kind in ("scores", "top-label") or (data.kind == "generated" and data.classifiers is None):
            return (None,)
        wanted = data.classifiers
        return tuple(each for each in self.classifiers if wanted is None or each.name in wanted)

    def calibrators_of(self, data: DataSpec) -> tuple[CalibratorSpec, ...]:
        """Return the calibrators for a data set, with the parameters that are its own."""
        wanted = data.calibrators
        return tuple(
            calibrator_for(data, each) for each in self.calibrators if wanted is None or each.name in wanted
        )


def read_recipe(path: str | Path, form: str | None = None) -> Recipe:
    """Return the recipe of a folder, or of a TOML file, in one of its forms.

    All that can be checked without data and without running code is: keys, names, methods and their parameters, measures,
    tables and pictures. Own code of the recipe is read as text and not imported; :func:`~calibrant.studies.run` imports it.

    Parameters
    ----------
    path : str or Path
        Folder with a ``recipe.toml``, or such a file of another name.
    form : str, optional
        A smaller or larger form that the recipe describes under ``[forms]``; the whole if absent.

    Raises
    ------
    RecipeError
        If something in it has no meaning; one sentence says what and where.

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
        _check_shown(recipe)  # as a whole: a form may lack what a table shows
        recipe = _in_form(recipe, content.get("forms", {}), form)
        _check(recipe)
    except StudyError as error:
        raise type(error)(f"{file}: {error}") from error
    return recipe


def check_own_code(recipe: Recipe) -> None:
    """Import the code that a recipe names and refuse what cannot be used.

    This runs the files beside the recipe, and so is done only where the study itself is to be run.

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
    section = Section("the recipe", content)
    limit = section.take("limit_seconds", "a number")
    if limit is not None and limit <= 0:
        raise RecipeError(f"limit_seconds must be above zero, not {limit!r}.")
    classifiers = read_classifiers(section.table("classifiers"))
    calibrators = read_calibrators(section.table("calibrators"))
    splits = section.table("splits")
    read_splits(splits)
    folder = file.parent.resolve()
    recipe = Recipe(
        name=folder.name if file.name == FILE_NAME else file.stem,
        title=section.text("title"),
        folder=folder,
        paper=section.text("paper", ""),
        seed=section.whole("seed", 0, least=0),
        limit_seconds=None if limit is None else float(limit),
        data=read_data(section.take("data", "a list", []), _names(classifiers), _names(calibrators)),
        classifiers=classifiers,
        calibrators=calibrators,
        splits=splits,
        measures=read_measures(section.table("measures")),
        trials=read_trials(section.take("trials", "a list", [])),
        tables=tuple(section.take("tables", "a list", [])),
        pictures=tuple(section.take("pictures", "a list", [])),
        forms=tuple(section.table("forms")),
    )
    section.finish()
    return recipe


def _names(specifications: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(each.name for each in specifications)


def _in_form(recipe: Recipe, forms: Any, form: str | None) -> Recipe:
    """Return a form of the recipe; all forms are checked, whichever is asked for."""
    found = {name: _form(recipe, name, content) for name, content in forms.items()}
    if form is None:
        return recipe
    if form not in found:
        raise RecipeError(f"there is no form {form!r}; {close_to(form, recipe.forms)}.")
    return found[form]


def _form(recipe: Recipe, name: str, content: Any) -> Recipe:
    section = Section(f"the form {name!r}", content)
    changes: dict[str, Any] = {"form": name}
    for key in ("data", "classifiers", "calibrators", "trials"):
        everything = getattr(recipe, key)
        wanted = section.names(key, _names(everything))
        if wanted is not None:
            changes[key] = tuple(each for each in everything if each.name in wanted)
    limit = section.take("limit_seconds", "a number")
    if limit is not None:
        if limit <= 0:
            raise RecipeError(f"{section.where}: limit_seconds must be above zero, not {limit!r}.")
        changes["limit_seconds"] = float(limit)
    changes["form_splits"] = section.table("splits")
    section.finish()
    small = replace(recipe, **changes)
    for data in small.data:
        small.splits_of(data)
    return small


def _check(recipe: Recipe) -> None:
    """Refuse what cannot be run: names and parameters that nothing knows, and parts that lack each other."""
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
            if isinstance(value, list):  # which becomes a label
                _check_label(recipe, f"the trial {trial.name!r}", name)


def _check_shown(recipe: Recipe) -> None:
    """Refuse tables and pictures that mean nothing."""
    measured = None if recipe.trials else _names(recipe.measures)
    for table in recipe.tables:
        TableOptions.parse(Section("a table", table).content, measured)
    for picture in recipe.pictures:
        PictureOptions.parse(Section("a picture", picture).content)
    for what, entries in (("tables", recipe.tables), ("pictures", recipe.pictures)):
        names = [entry.get("name") for entry in entries]
        for name in names:
            if names.count(name) > 1:
                raise RecipeError(f"two {what} are called {name!r}; give each a name of its own.")


def _check_data(recipe: Recipe, data: DataSpec) -> None:
    where = f"the data set {data.name!r}"
    if not recipe.calibrators_of(data):
        raise RecipeError(f"{where} has no calibrator to be run; add one to [calibrators].")
    if not recipe.classifiers_of(data):
        raise RecipeError(
            f"{where} holds features, but there is no classifier for it; add one to [classifiers]."
        )
    if not recipe.measures:
        raise RecipeError(f"{where} is run for nothing, since there is no measure; add one to [measures].")
    splits = recipe.splits_of(data)
    if data.kind in ("scores", "top-label") and splits.kind == "folds":
        raise RecipeError(
            f"{where} holds outputs of a classifier, which have no folds to be trained on; "
            'set the kind of its splits to "given" or "random".'
        )
    for calibrator in recipe.calibrators_of(data):
        check_calibrator(calibrator, recipe.folder, own_code=False)
        if needs_training(calibrator) and recipe.classifiers_of(data) == (None,):
            raise RecipeError(
                f"{where} has no rows that a classifier was trained on, by which the calibrator {calibrator.name!r} is "
                'chosen; set its select to "cross-validation", or name the calibrators of the data set without it.'
            )
    for name in data.labels:
        _check_label(recipe, where, name)
    if data.kind == "generated":
        check_function(where, data.source, data.options.get("parameters", {}), recipe.folder)
    files = [data.source, str(data.options.get("test", ""))] if data.kind == "scores" else []
    if "space" not in data.options and any(file and is_table(file) for file in files):
        raise RecipeError(
            f'{where} is a table of scores; say what they are by space = "probabilities" or space = "logits".'
        )


def _check_label(recipe: Recipe, where: str, name: str) -> None:
    if name in _names(recipe.measures):
        raise RecipeError(
            f"{where} has a label {name!r}, which is the name of a measure; rename one of them."
        )
