"""Code of one's own: classes and functions that a recipe names by file or by module."""

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from calibrant.errors import RecipeError
from calibrant.studies.static_code import reference_parts, source_of

__all__ = ["code_fingerprint", "is_reference", "load_function", "load_object"]


def is_reference(text: str) -> bool:
    """Tell whether text names code, by a file or a module, and not a thing of ours.

    >>> is_reference("own.py:Method"), is_reference("sklearn.svm:SVC"), is_reference("temperature")
    (True, True, False)
    """
    return ":" in text


def load_object(reference: str, recipe_folder: Path) -> Any:
    """Return what ``file.py:name``, relative to the folder of the recipe, or ``package.module:name`` stands for.

    A file stands alone: it may import what is installed, but not the files beside it, so that its content is all that
    determines what it does.

    >>> load_object("math:sqrt", Path("."))(9.0)
    3.0
    """
    place, name = reference_parts(reference)
    module = _module(place, reference, recipe_folder)
    try:
        return getattr(module, name)
    except AttributeError:
        raise RecipeError(f"{reference}: there is no {name!r} in {place}; define it there.") from None


def load_function(
    where: str, reference: str, parameters: Mapping[str, Any], recipe_folder: Path
) -> Callable[..., Any]:
    """Return a function that takes a seed, the folder of the data and these parameters; refuse any other thing.

    >>> load_function("the trial 'a'", "builtins:dict", {"level": 2}, Path("."))(seed=0, level=2)
    {'seed': 0, 'level': 2}
    """
    try:
        function = load_object(reference, recipe_folder)
    except RecipeError as error:
        raise RecipeError(f"{where}: {error}") from error
    if not callable(function):
        raise RecipeError(f"{where}: {reference} is no function, but {type(function).__name__}.")
    names = ["seed", "data_folder", *parameters]
    try:
        inspect.signature(function).bind(**dict.fromkeys(names))
    except TypeError as error:
        raise RecipeError(
            f"{where}: {reference} cannot be called with {', '.join(names)}: {error}."
        ) from error
    except ValueError:  # of compiled code, which does not tell
        pass
    return function  # type: ignore[no-any-return]


def code_fingerprint(reference: str, recipe_folder: Path) -> str:
    """Return a hash of the file that holds a piece of code, which is not run; nothing for names of ours.

    >>> code_fingerprint("temperature", Path("."))
    ''
    """
    if not is_reference(reference):
        return ""
    path = source_of(reference, recipe_folder)
    if path is None:  # built in
        place, _ = reference_parts(reference)
        return hashlib.sha256(f"{place} {sys.version}".encode()).hexdigest()
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _module(place: str, reference: str, recipe_folder: Path) -> ModuleType:
    try:
        if place.endswith(".py"):
            path = source_of(reference, recipe_folder)
            assert path is not None
            return _from_file(path)
        return importlib.import_module(place)
    except RecipeError:
        raise
    except (Exception, SystemExit) as error:
        text = " ".join(str(error).split()).removesuffix(".")
        raise RecipeError(
            f"{reference}: {place} cannot be imported, {type(error).__name__}: {text}."
        ) from error


def _from_file(path: Path) -> ModuleType:
    content = path.read_bytes()
    # By content: the same file gives the same classes, a changed one gives new ones.
    digest = hashlib.sha256(str(path.resolve()).encode() + b"\0" + content).hexdigest()
    name = f"calibrant_study_{path.stem}_{digest[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before it runs: dataclasses look their module up
    try:
        exec(compile(content, str(path), "exec"), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module
