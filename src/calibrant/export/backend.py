"""Export back ends: what they receive and provide, the list of all, and limits on the files that they run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import ParameterError
from calibrant.graph import MapGraph

__all__ = ["LARGEST_VALUE", "MOST_ENTRIES", "MOST_WORK", "Backend", "Exportable", "backend_for", "backends"]

FIRST = ("onnx", "torch", "sql")
"""Modules whose back ends come first in messages; the others follow by name."""

ENTRY_POINT_GROUP = "calibrant.exports"


@dataclass(frozen=True, eq=False)
class Exportable:
    """A fitted map with the names and the float type that an exported file needs.

    Attributes
    ----------
    graph : MapGraph
        The fitted map to probabilities; its ``space`` is that of the input.
    classes : tuple of str
        Labels as strings, in the order of the columns.
    columns : tuple of str
        Names of the columns of scores; a single one for a graph of one column, see :func:`~calibrant.export.export`.
    dtype : numpy dtype
        Float type of input and output, float32 or float64.
    """

    graph: MapGraph
    classes: tuple[str, ...]
    columns: tuple[str, ...]
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class Backend:
    """An export format.

    Attributes
    ----------
    name : str
        Name in messages and tables, such as "ONNX".
    endings : tuple of str
        File endings, such as ".onnx".
    extra : str
        Extra of calibrant that installs the libraries of the back end; empty if it needs none.
    write : callable
        ``write(exportable, path, options)`` writes the file, with the options that ``options`` names.
    run : callable or None
        ``run(path, scores)`` applies an exported file to float64 scores, which it casts to the float type of the file.
        The result has that float type. Raises :class:`~calibrant.errors.MissingExtraError` without its runtime.
    metadata : callable or None
        ``metadata(path)`` returns the metadata of the file: ``space`` and ``classes``, and ``n_columns`` if the number of
        score columns may differ from that of the classes.
    options : tuple of str
        Names of options beyond those of all back ends.
    dtype : str
        Default float type.
    """

    name: str
    endings: tuple[str, ...]
    extra: str
    write: Callable[[Exportable, Path, Mapping[str, Any]], None]
    run: Callable[[Path, NDArray[np.floating]], NDArray[np.floating]] | None
    metadata: Callable[[Path], Mapping[str, Any]] | None = None
    options: tuple[str, ...] = ()
    dtype: str = "float64"


@cache
def backends() -> tuple[Backend, ...]:
    """Return all back ends: those of the modules of this package that define a ``BACKEND``, then those of plug-ins.

    A package adds its own by an entry point of the group ``calibrant.exports`` that names a :class:`Backend`. Where two have
    the same ending, the first one counts.
    """
    files = {found.name for found in iter_modules(import_module("calibrant.export").__path__)}
    modules = [import_module(f"calibrant.export.{name}") for name in (*FIRST, *sorted(files - {*FIRST}))]
    own = [module.BACKEND for module in modules if hasattr(module, "BACKEND")]
    return (*own, *map(_plugin, entry_points(group=ENTRY_POINT_GROUP)))


def _plugin(entry_point: EntryPoint) -> Backend:
    backend = entry_point.load()
    if not isinstance(backend, Backend):
        raise ParameterError(
            f"the plug-in {entry_point.name!r} of group {ENTRY_POINT_GROUP!r} is not a Backend; name a Backend in its "
            "entry point, or uninstall it."
        )
    return backend


def backend_for(path: Path) -> Backend:
    """Return the back end for the ending of a path."""
    for backend in backends():
        if path.suffix.lower() in backend.endings:
            return backend
    known = ", ".join(f"{ending} ({backend.name})" for backend in backends() for ending in backend.endings)
    raise ParameterError(f"the ending of {path.name!r} is no export format; use one of {known}.")


LARGEST_VALUE = 2**25
"""Maximum entries of a value for the test rows; more is refused before it is computed."""

MOST_ENTRIES = 2**29
"""Maximum entries of all values together."""

MOST_WORK = 2**36
"""Maximum products and sums of all operators together."""
