"""PictureOptions: what a recipe says about one picture."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from calibrant.errors import RecipeError
from calibrant.options import is_number
from calibrant.studies.tables.options import check_measures, check_name, check_options, texts_of

__all__ = [
    "PictureOptions",
]

ALWAYS = ("name", "title", "source", "kind", "where", "note")
KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "critical-difference": (
        ("measure",),
        ("tasks", "columns", "test", "control", "alpha", "better", "level"),
    ),
    "pass-rate": (("measure",), ("by", "level")),
    "lines": (("x", "measure"), ("series", "band", "log_x", "log_y", "scale", "label_x", "label_y")),
    "measures": (("x", "measures"), ("series", "band", "log_x", "log_y", "scale", "label_x", "label_y")),
    "series": (("trial", "x", "y"), ("by", "band", "log_x", "log_y", "scale", "label_x", "label_y")),
    "bars": (("measure", "by"), ("series", "relative_to", "band", "scale", "label_y")),
    "chosen": (("calibrator", "parameter"), ("by",)),
    "probabilities": (("data",), ("classifier", "calibrators", "display", "class", "repeat", "fold")),
}
"""Kinds of pictures: the keys that each must have, and those that it may have."""

CHOICES = {
    "band": ("", "sd"),
    "display": ("boxes", "reliability", "classwise"),
    "test": ("nemenyi", "bonferroni-dunn"),
    "better": ("", "higher", "lower"),
}
FLAGS = ("log_x", "log_y")
NUMBERS = ("level", "alpha", "scale", "repeat", "fold")
LISTS = ("tasks", "measures", "calibrators")


@dataclass(frozen=True)
class PictureOptions:
    """A picture of a recipe; see the guide on recipes for what every option means."""

    name: str
    kind: str
    title: str = ""
    source: str = ""
    note: str = ""
    where: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, entry: Mapping[str, Any], measures: Collection[str] | None = None) -> Self:
        """Check what a recipe says.

        Parameters
        ----------
        entry : mapping
            A picture of the recipe.
        measures : collection of str, optional
            Names of the measures; None if trials may give any.

        Raises
        ------
        RecipeError
            If something has no meaning.

        Examples
        --------
        >>> PictureOptions.parse({"name": "figure-03b", "kind": "pass-rate", "measure": "p"}).options
        {'measure': 'p'}
        """
        name = check_name("picture", entry)
        where = f"the picture {name!r}"
        kind = entry.get("kind")
        if kind not in KINDS:
            raise RecipeError(f"{where}: kind must be one of {', '.join(KINDS)}, not {kind!r}.")
        needed, allowed = KINDS[kind]
        check_options(f"{where} of kind {kind!r}", entry, [*ALWAYS, *needed, *allowed])
        for key in needed:
            if key not in entry:
                raise RecipeError(f"{where} of kind {kind!r} needs {key} = ...; add it.")
        options = {key: value for key, value in entry.items() if key not in ALWAYS}
        _check_values(where, kind, options)
        if not isinstance(entry.get("where", {}), Mapping):
            raise RecipeError(f"{where}: where must be a table of labels, not {entry['where']!r}.")
        named = [*options.get("measures", []), *([options["measure"]] if "measure" in options else [])]
        check_measures(where, named, measures)
        own = {each.name for each in fields(cls)} - {"options"}
        return cls(**{key: value for key, value in entry.items() if key in own}, options=options)

    @property
    def caption(self) -> str:
        """The title, or the name where there is none."""
        return self.title or self.name

    def get(self, key: str, default: Any = None) -> Any:
        """Return an option of this kind of picture."""
        return self.options.get(key, default)


def _check_values(where: str, kind: str, options: dict[str, Any]) -> None:
    for key, value in options.items():
        if key in CHOICES and value not in CHOICES[key]:
            known = ", ".join(repr(choice) for choice in CHOICES[key] if choice)
            raise RecipeError(f"{where}: {key} must be one of {known}, not {value!r}.")
        if key in FLAGS and not isinstance(value, bool):
            raise RecipeError(f"{where}: {key} must be true or false, not {value!r}.")
        if key in NUMBERS and not is_number(value):
            raise RecipeError(f"{where}: {key} must be a number, not {value!r}.")
        if key in LISTS:
            options[key] = list(texts_of(where, options, key))
    if kind == "measures":
        places = options["x"]
        if not isinstance(places, list | tuple) or not all(map(is_number, places)):
            raise RecipeError(f"{where}: x must be a list of numbers, one for every measure, not {places!r}.")
        if len(places) != len(options["measures"]):
            raise RecipeError(
                f"{where} has {len(places)} places x for {len(options['measures'])} measures; give one for each."
            )
    if options.get("control") and options.setdefault("test", "bonferroni-dunn") != "bonferroni-dunn":
        raise RecipeError(
            f"{where}: the Nemenyi test compares all pairs and has no control; drop control, or set "
            'test = "bonferroni-dunn".'
        )
    if options.get("test") == "bonferroni-dunn" and "control" not in options:
        options["control"] = ""  # the best
