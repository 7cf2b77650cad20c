"""Checks of tables and figures against the labels and measures of a recipe, before anything runs."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from calibrant.errors import RecipeError, StudyError
from calibrant.studies.calibration import make_calibrator, needs_own_code
from calibrant.studies.pictures.options import Bars, Chosen, CriticalDifference, PictureOptions
from calibrant.studies.recipe import FILE_NAME, Recipe, read_recipe
from calibrant.studies.results import MEASURE, AnyPlan, label_text
from calibrant.studies.schema import check_measures, close_to
from calibrant.studies.splits import splits_of
from calibrant.studies.tables import read_figures
from calibrant.studies.tables.options import TableOptions

__all__ = ["check_shown"]

MOST_NAMES = 12
ANYTHING = "\0"
"""Marks a label that has further values, which are unknown before the run."""

LABELS_OF_PICTURES = {
    "critical-difference": ("tasks", "columns"),
    "pass-rate": ("by",),
    "lines": ("x", "series"),
    "measures": ("series",),
    "series": ("by",),
    "bars": ("by", "series"),
    "chosen": ("by",),
    "probabilities": (),
    "fitted maps": (),
}
"""Options of figures that are labels of units."""

Levels = dict[str, dict[str, None]]


def check_shown(plan: AnyPlan) -> None:
    """Refuse tables and figures with labels or values that no unit has, and unreadable files of published numbers.

    Units of the complete recipe and of all forms count, including those of missing data, because a form need not contain
    everything that a table shows. If the recipe file no longer exists, only the published numbers are checked.

    Parameters
    ----------
    plan : Plan

    Raises
    ------
    RecipeError
        If a table or figure is invalid.
    """
    recipe = plan.recipe
    for table in recipe.tables:
        if table.figures:
            try:
                read_figures(Path(recipe.folder) / table.figures, table.rows)
            except RecipeError as error:
                raise RecipeError(f"the table {table.name!r}: {error}") from error
    forms = _all_forms(recipe) if isinstance(recipe, Recipe) else []
    if not forms:
        return
    levels = _levels([unit.labels for unit in plan.units])
    for form in forms:
        _add(levels, form)
    measures = None if any(form.trials for form in forms) else [each.name for each in recipe.measures]
    for table in recipe.tables:
        _check_table(table, levels)
    for picture in recipe.pictures:
        check_measures(f"the picture {picture.name!r}", picture.all_measures, measures)
        _check_picture(picture, levels, forms)


def _all_forms(recipe: Recipe) -> list[Recipe]:
    """Return the complete recipe and all its forms, which are read from the file."""
    file = recipe.folder / FILE_NAME
    if recipe.folder.name != recipe.name or not file.is_file():
        file = recipe.folder / f"{recipe.name}.toml"
    try:
        return [recipe, *(read_recipe(file, form) for form in (None, *recipe.forms) if form != recipe.form)]
    except StudyError:
        return [] if recipe.form else [recipe]


def _levels(labels: Iterable[Mapping[str, Any]]) -> Levels:
    levels: Levels = {}
    for each in labels:
        for name, value in each.items():
            levels.setdefault(name, {}).setdefault(label_text(value))
    return levels


def _add(levels: Levels, recipe: Recipe) -> None:
    """Add all labels of the units of a recipe, with their values."""

    def add(name: str, values: Iterable[Any]) -> None:
        levels.setdefault(name, {}).update(dict.fromkeys(map(label_text, values)))

    for data in recipe.data:
        add("data", [data.name])
        add("calibrator", [each.name for each in recipe.calibrators_of(data)])
        trained = [each.name for each in recipe.classifiers_of(data) if each is not None]
        if trained:
            add("classifier", trained)
        for name, value in data.labels.items():
            add(name, [value])
        for split in splits_of(recipe.splits_of(data)):
            for name, value in split.labels().items():
                add(name, [value])
    for trial in recipe.trials:
        add("trial", [trial.name])
        add("seed", range(recipe.seed, recipe.seed + trial.seeds))
        for name, values in trial.parameters.items():
            if isinstance(values, list):
                add(name, [ANYTHING if isinstance(value, list | Mapping) else value for value in values])


def _check_table(table: TableOptions, levels: Levels) -> None:
    where = f"the table {table.name!r}"
    for key, labels in (("rows", table.rows), ("columns", (table.columns,))):
        for label in labels:
            _check_label(where, f"{key} by", label, levels)
    _check_conditions(where, table.where, levels)
    columns = _columns(table.columns, levels, table.where, table.all_measures)
    everything = _columns(table.columns, levels, {}, table.all_measures)
    for key, names, known in (
        ("control", [table.control], columns),
        ("relative_to", [table.relative_to], columns),
        ("unranked", table.unranked, everything),  # One list may serve several tables.
    ):
        for name in names:
            if name:
                _check_name(f"{where} has {key} = {name!r}, which is none of its columns", name, known)


def _check_picture(picture: PictureOptions, levels: Levels, forms: list[Recipe]) -> None:
    where = f"the picture {picture.name!r}"
    for key in LABELS_OF_PICTURES[picture.kind]:
        asked = getattr(picture, key)
        for label in [asked] if isinstance(asked, str) else asked:
            if label:
                _check_label(where, f"{key} =", label, levels)
    _check_conditions(where, picture.where, levels)
    for key, (label, asked) in picture.selections.items():
        _check_conditions(where, {label: asked}, levels, key)
    if isinstance(picture, Bars) and picture.relative_to:
        known = [
            name
            for label in (picture.by, picture.series)
            for name in _columns(label, levels, picture.where, [picture.measure])
        ]
        problem = f"{where} has relative_to = {picture.relative_to!r}, which is none of its bars"
        _check_name(problem, picture.relative_to, known)
    if isinstance(picture, CriticalDifference) and picture.control:
        columns = _columns(picture.columns or "calibrator", levels, picture.where, ())
        problem = f"{where} has control = {picture.control!r}, which is none of its columns"
        _check_name(problem, picture.control, columns)
    if isinstance(picture, Chosen):
        _check_parameter(where, picture, forms)


def _columns(label: str, levels: Levels, where: Mapping[str, Any], measures: Iterable[str]) -> list[str]:
    """Return the values of a label that satisfy the conditions."""
    if label == MEASURE:
        return list(measures)
    wanted = _texts(where[label]) if label in where else None
    return [text for text in levels.get(label, {}) if wanted is None or text in wanted]


def _check_label(where: str, how: str, label: str, levels: Levels) -> None:
    if label != MEASURE:
        _check_name(f"{where} asks for {how} {label!r}, which no unit has", label, [*levels, MEASURE])


def _check_conditions(
    where: str, conditions: Mapping[str, Any], levels: Levels, key: str | None = None
) -> None:
    for label, asked in conditions.items():
        if label not in levels:
            _check_name(f"{where} asks for units by {key or label!r}, which no unit has", label, levels)
        for text in _texts(asked):
            problem = f"{where} asks for {key or label} = {text!r}, which no unit has"
            _check_name(problem, text, levels[label])


def _check_parameter(where: str, picture: Chosen, forms: list[Recipe]) -> None:
    """Refuse a parameter that the calibrators do not have."""
    names: dict[str, None] = {}
    for form in forms:
        for spec in form.calibrators:
            if spec.name in picture.calibrator:
                names.update(dict.fromkeys(spec.grid))
                if needs_own_code(spec):  # Its parameters are unknown until it runs.
                    return
                names.update(dict.fromkeys(_parameters(make_calibrator(spec, form.folder, 0))))
    calibrators = " and ".join(picture.calibrator)
    problem = f"{where} asks for the parameter {picture.parameter!r}, which {calibrators} does not have"
    _check_name(problem, picture.parameter, names)


def _parameters(calibrator: Any, prefix: str = "") -> list[str]:
    """Return the names of parameters as in records; those of a chain are prefixed by the stage."""
    names = [f"{prefix}{name}" for name in getattr(calibrator, "get_params", dict)()]
    for place, stage in enumerate(getattr(calibrator, "calibrators", None) or ()):
        names += _parameters(stage, f"{prefix}{place}.")
    return names


def _texts(asked: Any) -> list[str]:
    return [label_text(each) for each in (asked if isinstance(asked, list | tuple) else [asked])]


def _check_name(problem: str, name: str, known: Iterable[str]) -> None:
    names = list(known)
    if name not in names and ANYTHING not in names:
        raise RecipeError(f"{problem}; {close_to(name, names, MOST_NAMES)}")
