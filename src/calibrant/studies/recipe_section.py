"""Section: one table of a recipe, of which every key must be asked for."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from calibrant.errors import RecipeError

__all__ = [
    "Section",
    "close_to",
]

KINDS: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "a whole number": (int,),
    "a number": (int, float),
    "true or false": (bool,),
    "a table": (Mapping,),
    "a list": (list,),
    "a list or text": (list, str),
}


class Section:
    """Keys of a table of the recipe; what nobody asks for is a mistake that :meth:`finish` reports.

    Examples
    --------
    >>> section = Section("splits", {"kind": "folds", "repeat": 5})
    >>> section.text("kind"), section.whole("repeats", 1)
    ('folds', 1)
    >>> section.finish()
    Traceback (most recent call last):
    calibrant.errors.RecipeError: splits has an unknown key 'repeat'; did you mean 'repeats'? Known are kind, repeats.
    """

    def __init__(self, where: str, content: Any) -> None:
        if not isinstance(content, Mapping):
            raise RecipeError(f"{where} must be a table, not {content!r}.")
        self.where = where
        self.content = content
        self._asked: list[str] = []

    def take(self, key: str, kind: str, default: Any = None) -> Any:
        """Return what stands under a key, which must be of this kind if it is there."""
        self._asked.append(key)
        if key not in self.content:
            return default
        value = self.content[key]
        wanted = KINDS[kind]
        if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
            raise RecipeError(f"{self.where}: {key} must be {kind}, not {value!r}.")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """Return text; without a default it must be there."""
        value = self.take(key, "text", default)
        if value is None:
            raise RecipeError(f'{self.where} has no {key}; add {key} = "...".')
        return str(value)

    def whole(self, key: str, default: int, least: int = 1) -> int:
        """Return a whole number of at least so much."""
        value = self.take(key, "a whole number", default)
        if value < least:
            raise RecipeError(f"{self.where}: {key} must be at least {least}, not {value!r}.")
        return int(value)

    def flag(self, key: str) -> bool:
        """Return true or false, which is the default."""
        return bool(self.take(key, "true or false", False))

    def table(self, key: str) -> Mapping[str, Any]:
        """Return a table, empty by default."""
        return dict(self.take(key, "a table", {}))

    def choice(self, key: str, choices: tuple[str, ...], default: str) -> str:
        """Return one of some words."""
        value = self.text(key, default)
        if value not in choices:
            raise RecipeError(f"{self.where}: {key} must be one of {', '.join(choices)}, not {value!r}.")
        return value

    def names(self, key: str, known: tuple[str, ...] | None = None) -> tuple[str, ...] | None:
        """Return a list of names, each of them among the known ones; None if there is no such key."""
        value = self.take(key, "a list")
        if value is None:
            return None
        for each in value:
            if not isinstance(each, str):
                raise RecipeError(f"{self.where}: {key} must be a list of names, but holds {each!r}.")
            if known is not None and each not in known:
                raise RecipeError(
                    f"{self.where}: {key} names {each!r}, which the recipe does not have; "
                    f"{close_to(each, known)}."
                )
        if len(set(value)) < len(value):
            raise RecipeError(f"{self.where}: {key} names something twice; leave one out of {value}.")
        return tuple(value)

    def finish(self) -> None:
        """Refuse keys that nobody asked for."""
        for key in self.content:
            if key not in self._asked:
                raise RecipeError(f"{self.where} has an unknown key {key!r}; {close_to(key, self._asked)}.")


def close_to(name: str, known: Any) -> str:
    """Return a clause with the known names, and the nearest one if there is any.

    >>> close_to("abalon", ["abalone", "car"])
    "did you mean 'abalone'? Known are abalone, car"
    """
    near = get_close_matches(name, known, 1)
    advice = f"did you mean {near[0]!r}? Known are" if near else "known are"
    return f"{advice} {', '.join(known) or 'none'}"
