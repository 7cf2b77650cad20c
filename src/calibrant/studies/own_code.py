"""The recipe's own code: its classes and functions, checked as text before they are imported."""

import ast
import hashlib
import importlib
import importlib.util
import inspect
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from calibrant.errors import RecipeError

__all__ = [
    "check_function",
    "check_reference",
    "code_fingerprint",
    "is_reference",
    "load_function",
    "load_object",
    "one_line",
    "source_of",
]


Definition = ast.FunctionDef | ast.AsyncFunctionDef
EMPTY = inspect.Parameter.empty


def one_line(error: BaseException) -> str:
    """Return the message of an error on one line, without its full stop."""
    return " ".join(str(error).split()).removesuffix(".")


def reference_parts(reference: str) -> tuple[str, str]:
    """Return the file or module, and the name, of a reference.

    >>> reference_parts("own.py:Method")
    ('own.py', 'Method')
    """
    place, _, name = reference.rpartition(":")
    if not place or not name.isidentifier():
        raise RecipeError(
            f"code is written as file.py:name or package.module:name, not {reference!r}; the name follows the colon."
        )
    return place, name


def source_of(reference: str, recipe_folder: Path) -> Path | None:
    """Return the file of a reference, None for a built-in module; nothing is imported.

    >>> source_of("json:loads", Path(".")).name, source_of("sys:path", Path("."))
    ('__init__.py', None)
    """
    place, _ = reference_parts(reference)
    if place.endswith(".py"):
        path = recipe_folder / place
        if not path.is_file():
            raise RecipeError(
                f"{reference}: there is no file {path.name} in {path.parent}; paths are relative to the folder of the "
                "recipe."
            )
        return path
    spec = _spec(place)
    if spec is not None:
        return Path(spec.origin) if spec.has_location and spec.origin else None
    # Some modules, such as os.path, exist only after another one is imported.
    loaded = sys.modules.get(place)
    if loaded is None:
        raise RecipeError(f"{reference}: there is no module {place}; install it, or name a file.")
    origin = getattr(loaded, "__file__", None)
    return None if origin is None else Path(origin)


def check_reference(reference: str, recipe_folder: Path) -> None:
    """Refuse a reference whose file does not exist, is not Python, or does not define the name."""
    defined_name(reference, recipe_folder)


def check_function(where: str, reference: str, parameters: Mapping[str, Any], recipe_folder: Path) -> None:
    """Refuse a function that cannot be called with a seed, the data folder and the given parameters.

    Only functions without decorators that the file itself defines can be checked by their source.
    """
    try:
        node = defined_name(reference, recipe_folder)
    except RecipeError as error:
        raise RecipeError(f"{where}: {error}") from error
    if isinstance(node, ast.Constant):
        raise RecipeError(f"{where}: {reference} is not a function, but {type(node.value).__name__}.")
    if not isinstance(node, Definition) or node.decorator_list:
        return
    _check_call(where, reference, _signature(node.args), parameters)


def defined_name(reference: str, recipe_folder: Path) -> ast.AST | None:
    """Return the definition of a name in a file; None if the source does not show it.

    Raises
    ------
    RecipeError
        If the file does not exist, is not Python, or does not define the name.
    """
    place, name = reference_parts(reference)
    path = source_of(reference, recipe_folder)
    if not place.endswith(".py") or path is None:
        return None  # An installed module can define its names dynamically.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise RecipeError(
            f"{reference}: {place} cannot be read, {type(error).__name__}: {one_line(error)}."
        ) from error
    except OSError as error:
        raise RecipeError(f"{reference}: {place} cannot be read: {error.strerror or error}.") from error
    found: ast.AST | None = None
    names = dict(_definitions(tree.body))
    if name in names:
        found = names[name]
    elif "*" not in names and "__getattr__" not in names:
        raise RecipeError(f"{reference}: there is no {name!r} in {place}; define it there.")
    return found


def _definitions(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.AST | None]]:
    """Yield the names that statements bind, with their nodes; ``import *`` yields a star."""
    for node in body:
        if isinstance(node, Definition | ast.ClassDef):
            yield node.name, node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                yield (alias.asname or alias.name).split(".")[0], None
        else:
            value = getattr(node, "value", None)
            single = isinstance(node, ast.Assign | ast.AnnAssign)
            for part in _targets(node):
                yield part, value if single and isinstance(value, ast.Constant) else None
            for block in ("body", "orelse", "finalbody"):
                yield from _definitions(getattr(node, block, []))
            for handler in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
                yield from _definitions(handler.body)


def _targets(node: ast.stmt) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.stmt):
            for part in ast.walk(child):
                if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                    yield part.id


def _signature(arguments: ast.arguments) -> inspect.Signature:
    """Return the signature of a definition, with None for all defaults."""
    kinds = inspect.Parameter
    positional = [*arguments.posonlyargs, *arguments.args]
    first_default = len(positional) - len(arguments.defaults)
    parameters = []
    for number, argument in enumerate(positional):
        kind = kinds.POSITIONAL_ONLY if number < len(arguments.posonlyargs) else kinds.POSITIONAL_OR_KEYWORD
        default = None if number >= first_default else EMPTY
        parameters.append(kinds(argument.arg, kind, default=default))
    if arguments.vararg is not None:
        parameters.append(kinds(arguments.vararg.arg, kinds.VAR_POSITIONAL))
    for argument, given in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        parameters.append(kinds(argument.arg, kinds.KEYWORD_ONLY, default=EMPTY if given is None else None))
    if arguments.kwarg is not None:
        parameters.append(kinds(arguments.kwarg.arg, kinds.VAR_KEYWORD))
    return inspect.Signature(parameters)


def _spec(module: str) -> ModuleSpec | None:
    """Return the spec of a module without importing its parents, which ``importlib.util.find_spec`` would do."""
    path: Iterable[str] | None = None
    spec: ModuleSpec | None = None
    pieces = module.split(".")
    for number in range(1, len(pieces) + 1):
        name = ".".join(pieces[:number])
        spec = next(
            (
                found
                for finder in sys.meta_path
                if (found := finder.find_spec(name, None if path is None else list(path))) is not None
            ),
            None,
        )
        if spec is None:
            return None
        path = spec.submodule_search_locations
        if path is None and number < len(pieces):
            return None
    return spec


def is_reference(text: str) -> bool:
    """Return whether a name refers to code in a file or module, and not to a method of calibrant.

    >>> is_reference("own.py:Method"), is_reference("sklearn.svm:SVC"), is_reference("temperature")
    (True, True, False)
    """
    return ":" in text


def load_object(reference: str, recipe_folder: Path) -> Any:
    """Import the object of ``file.py:name``, relative to the folder of the recipe, or of ``package.module:name``.

    A file can import installed packages but not the files beside it, so that its hash determines what it does.

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
    """Import a function and check that it accepts a seed, the data folder and the given parameters.

    >>> load_function("the trial 'a'", "builtins:dict", {"level": 2}, Path("."))(seed=0, level=2)
    {'seed': 0, 'level': 2}
    """
    try:
        function = load_object(reference, recipe_folder)
    except RecipeError as error:
        raise RecipeError(f"{where}: {error}") from error
    if not callable(function):
        raise RecipeError(f"{where}: {reference} is not a function, but {type(function).__name__}.")
    try:
        signature = inspect.signature(function)
    except ValueError:  # Compiled code has no signature.
        return function  # type: ignore[no-any-return]
    _check_call(where, reference, signature, parameters)
    return function  # type: ignore[no-any-return]


def _check_call(
    where: str, reference: str, signature: inspect.Signature, parameters: Mapping[str, Any]
) -> None:
    """Refuse a function that cannot be called with a seed, the data folder and the parameters."""
    names = ["seed", "data_folder", *parameters]
    try:
        signature.bind(**dict.fromkeys(names))
    except TypeError as error:
        raise RecipeError(
            f"{where}: {reference} cannot be called with {', '.join(names)}: {error}."
        ) from error


def code_fingerprint(reference: str, recipe_folder: Path) -> str:
    """Return a hash of the file of a reference, without running it; empty for methods of calibrant.

    >>> code_fingerprint("temperature", Path("."))
    ''
    """
    if not is_reference(reference):
        return ""
    path = source_of(reference, recipe_folder)
    if path is None:  # a built-in module
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
        raise RecipeError(
            f"{reference}: {place} cannot be imported, {type(error).__name__}: {one_line(error)}."
        ) from error


def _from_file(path: Path) -> ModuleType:
    content = path.read_bytes()
    # Named by content: an unchanged file gives the same classes, a changed file new ones.
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
