"""Project file: defaults of the options for columns, from calibrant.toml or [tool.calibrant] of pyproject.toml."""

import os
import tomllib
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from calibrant.cli.options import SPACES
from calibrant.errors import FileFormatError

__all__ = ["project_of"]

TEXTS = ("label", "columns", "space", "weight", "group", "positive", "separator", "decimal")
SWITCHES = ("normalise", "drop-missing")

COMMANDS = {
    **dict.fromkeys(("evaluate", "fit", "compare", "report"), (*TEXTS, *SWITCHES)),
    "apply": ("separator", "decimal", "normalise"),
}
"""Commands, with the options that a project file sets."""


class Project(NamedTuple):
    """Options that a project file sets."""

    path: Path
    options: dict[str, Any]  # Values by the name of the option

    def defaults(self) -> dict[str, dict[str, Any]]:
        """Return the default options of every command, as click expects them."""
        return {
            command: {name.replace("-", "_"): value for name, value in self.options.items() if name in names}
            for command, names in COMMANDS.items()
        }


def project_of(folder: Path, arguments: Iterable[str]) -> Project | None:
    """Return the project file of a folder, or of the nearest folder above, if a command uses one."""
    if not COMMANDS.keys() & set(arguments):
        return None
    for place in (folder, *folder.parents):
        own, shared = place / "calibrant.toml", place / "pyproject.toml"
        if own.is_file():
            return Project(own, _checked(own, _table(own)))
        if shared.is_file() and b"tool.calibrant" in shared.read_bytes():
            table = _table(shared).get("tool", {}).get("calibrant")
            if table is not None:
                return Project(shared, _checked(shared, table))
    return None


def _table(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{os.path.relpath(path)} is not TOML: {str(error).rstrip('.')}.") from error


def _checked(path: Path, table: dict[str, Any]) -> dict[str, Any]:
    """Return the options; reject unknown ones and wrong values."""
    found = {}
    path = Path(os.path.relpath(path))  # as the user would write it
    for name, value in table.items():
        if name in SWITCHES:
            found[name] = _expected(path, name, value, lambda one: isinstance(one, bool), "true or false")
        elif name == "columns" and isinstance(value, list) and all(isinstance(one, str) for one in value):
            found[name] = ",".join(value)
        elif name == "space":
            found[name] = _expected(path, name, value, SPACES.__contains__, " or ".join(map(repr, SPACES)))
        elif name in TEXTS:
            found[name] = _expected(path, name, value, lambda one: isinstance(one, str), "text")
        else:
            known = (*TEXTS, *SWITCHES)
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}."
            raise FileFormatError(f"{path}: unknown key {name!r}; {hint}")
    return found


def _expected(path: Path, name: str, value: Any, is_fine: Callable[[Any], bool], what: str) -> Any:
    if not is_fine(value):
        raise FileFormatError(f"{path}: {name} must be {what}, not {value!r}.")
    return value
