"""Checks the tables of a recipe against dataclasses, and says in one sentence what is wrong.

The annotations of the dataclasses are the schema, and pydantic checks them: it takes them as they are, can be told not to
convert types, and reports place, value and violated rule of each error as data. msgspec is faster, but its errors are a
text without the value. attrs with cattrs converts ``"5"`` to 5 unless each field has a validator of its own.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, TypeVar, get_type_hints

from calibrant.errors import MissingExtraError, RecipeError

__all__ = [
    "Count",
    "Names",
    "NamesOrOne",
    "Rule",
    "check_known",
    "check_measures",
    "check_name",
    "check_unique",
    "checked",
    "close_to",
    "parsed",
]

Part = TypeVar("Part")

FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
ALWAYS_MEASURED = ("fit_seconds", "predict_seconds")

MUST_BE = {
    "string_type": "text",
    "int_type": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "dict_type": "a table",
    "list_type": "a list",
    "tuple_type": "a list",
    "greater_than_equal": "at least {ge}",
    "greater_than": "above {gt:g}",
    "less_than_equal": "at most {le}",
    "too_short": "a list with at least one value",
}
"""Type of an error of pydantic -> what the value must be."""

ENTRIES = {"str": "names", "float": "numbers", "collections": "tables"}
"""Type of the values of a list, as its annotation begins -> their name."""


class Rule:
    """Limits of an annotated type in the words of pydantic; with ``alone``, a value stands for a list of one."""

    def __init__(self, *, alone: bool = False, **limits: Any) -> None:
        self.alone, self.limits = alone, limits

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        schema = {**handler(source), **self.limits}
        if not self.alone:
            return schema
        return {
            "type": "function-before",
            "function": {"type": "no-info", "function": _listed},
            "schema": schema,
        }


def _listed(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


Count = Annotated[int, Rule(ge=1)]

# Not strict, because TOML has lists and no tuples.
Names = Annotated[tuple[str, ...], Rule(strict=False)]
NamesOrOne = Annotated[tuple[str, ...], Rule(alone=True, strict=False, min_length=1)]


def checked(
    keys: Mapping[str, Any], where: str, content: Any, required: Collection[str] = ()
) -> dict[str, Any]:
    """Return the content of a table of a recipe.

    Parameters
    ----------
    keys : mapping
        The type of each key.
    where : str
        The table, as an error calls it.
    content : mapping
        The table.
    required : collection of str
        Keys that it must have.

    Raises
    ------
    MissingExtraError
        If pydantic is not installed.
    RecipeError
        If a key is unknown or missing, or a value has the wrong type or is out of range.

    Examples
    --------
    >>> checked({"estimator": str, "parameters": dict}, "the classifier '3-NN'", {"parmeters": {}})
    Traceback (most recent call last):
    calibrant.errors.RecipeError: the classifier '3-NN' has an unknown key 'parmeters'; did you mean 'parameters'? Known are
    estimator, parameters.
    """
    try:
        from pydantic import ValidationError
    except ModuleNotFoundError as error:
        raise MissingExtraError("pydantic", "studies") from error
    if not isinstance(content, Mapping):
        raise RecipeError(f"{where} must be a table, not {content!r}.")
    model = _model(tuple(keys.items()), frozenset(required))
    try:
        found = model.model_validate(content)
    except ValidationError as error:
        errors: list[Any] = error.errors(include_url=False)
        # An unknown key comes first, since a mis-spelt one explains the one that is missing.
        first = min(errors, key=lambda each: each["type"] != "extra_forbidden")
        raise RecipeError(f"{where}{_complaint(first, model)}") from None
    return {key: getattr(found, key) for key in keys if key in found.model_fields_set}


@cache
def _model(keys: tuple[tuple[str, Any], ...], required: frozenset[str]) -> Any:
    """Return the model of pydantic for a table."""
    from pydantic import ConfigDict, create_model

    content: dict[str, Any] = {key: (kind, ... if key in required else None) for key, kind in keys}
    return create_model("Table", __config__=ConfigDict(extra="forbid", strict=True), **content)


def parsed(kind: type[Part], where: str, content: Any, **given: Any) -> Part:
    """Return a dataclass with the content of a table, see :func:`checked`.

    The fields are the keys, without a trailing underscore; ``given`` are fields that the table does not set.
    """
    hints = get_type_hints(kind, include_extras=True)
    names = {each.name.rstrip("_"): each for each in fields(kind) if each.name not in given}  # type: ignore[arg-type]
    required = [key for key, each in names.items() if each.default is each.default_factory is MISSING]
    found = checked({key: hints[each.name] for key, each in names.items()}, where, content, required)
    return kind(**given, **{names[key].name: value for key, value in found.items()})


def _complaint(error: Mapping[str, Any], model: Any) -> str:
    """Return the rest of a sentence that begins with the table."""
    kind, value = error["type"], error["input"]
    key, *inside = error["loc"]
    if kind == "extra_forbidden":
        return f" has an unknown key {key!r}; {close_to(str(key), model.model_fields)}"
    if kind == "missing":
        return f' has no {key}; add {key} = "...".'
    if kind == "list_type" and isinstance(value, Mapping) and not inside:
        return f": {key} must be written as [[{key}]], once for each."
    if kind == "literal_error":
        choices = [choice for choice in re.findall("'([^']*)'", error["ctx"]["expected"]) if choice]
        must_be = f"one of {', '.join(choices)}" if len(choices) > 1 else choices[0]
    elif kind in MUST_BE:
        must_be = MUST_BE[kind].format(**error.get("ctx", {})).replace("above 0", "above zero")
    else:  # No annotation leads here today.
        must_be = f"valid ({error['msg']})"
    entries = ENTRIES.get(
        "".join(re.findall(r"(?:list|tuple)\[(\w+)", repr(model.model_fields[key].annotation)))
    )
    if entries and must_be == "a list":
        must_be += f" of {entries}"
    if not inside:
        return f": {key} must be {must_be}, not {value!r}."
    if isinstance(inside[0], int):
        return f": {key} must be a list of {entries}, but holds {value!r}."
    return f": the {key} of {inside[0]!r} must be {must_be}, not {value!r}."


def close_to(name: str, known: Iterable[str], most: int | None = None, *, brief: bool = False) -> str:
    """Return a clause with the nearest of the known names, if one is near, and with all of them or the first few.

    >>> close_to("abalon", ["abalone", "car"])
    "did you mean 'abalone'? Known are abalone, car."
    >>> close_to("abalon", ["abalone", "car"], brief=True), close_to("x", ["abalone", "car"], most=1)
    ("did you mean 'abalone'?", 'known are abalone and 1 more.')
    """
    known = list(known)
    near = get_close_matches(name, known, 1)
    if near and brief:
        return f"did you mean {near[0]!r}?"
    listed = ", ".join(known[:most]) or "none"
    if most is not None and len(known) > most:
        listed += f" and {len(known) - most} more"
    return f"did you mean {near[0]!r}? Known are {listed}." if near else f"known are {listed}."


def check_known(where: str, key: str, names: Sequence[str], known: Sequence[str]) -> None:
    """Refuse names that the recipe does not have, or that occur twice."""
    for name in names:
        if name not in known:
            raise RecipeError(
                f"{where}: {key} names {name!r}, which the recipe does not have; {close_to(name, known)}"
            )
        if names.count(name) > 1:
            raise RecipeError(f"{where}: {key} names {name!r} twice; remove one.")


def check_unique(what: str, names: Sequence[str]) -> None:
    """Refuse a name that several parts of a recipe have."""
    for name in names:
        if names.count(name) > 1:
            raise RecipeError(f"two {what} are called {name!r}; give each a name of its own.")


def check_name(kind: str, entry: Mapping[str, Any]) -> str:
    """Return the name of a table or figure if it can be the name of a file."""
    name = entry.get("name")
    if not isinstance(name, str) or not FILE_NAME.fullmatch(name):
        raise RecipeError(
            f"a {kind} must have a name of letters, digits, hyphens and dots, which becomes the name of a file; "
            f"it is {name!r}."
        )
    return name


def check_measures(where: str, named: Iterable[str], measures: Iterable[str] | None) -> None:
    """Refuse measures that the recipe does not have; None means that any may exist."""
    if measures is None:
        return
    known = [*measures, *ALWAYS_MEASURED]
    for name in named:
        if name not in known:
            raise RecipeError(
                f"{where} asks for the measure {name!r}, which the recipe does not have; {close_to(name, known)}"
            )
