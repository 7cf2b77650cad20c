"""export: a fitted calibrator into a file of another system, checked on test rows."""

import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from calibrant.calibrator import Calibrator
from calibrant.errors import ExportError, MissingExtraError, ParameterError
from calibrant.export.backend import Backend, Exportable, backend_for
from calibrant.export.parity import Parity, measured
from calibrant.options import check_choice
from calibrant.persistence.replacing import replacing
from calibrant.space import Space

__all__ = ["export", "exportable"]

PREFIXES = {Space.PROBABILITIES: "p_", Space.LOGITS: "z_"}


def export(
    calibrator: Calibrator,
    path: str | os.PathLike[str],
    *,
    dtype: Any = None,
    space: str | None = None,
    columns: Sequence[str] | None = None,
    **options: Any,
) -> Parity | None:
    """Write a fitted calibrator to a file for another system; the ending of the path says for which.

    Where the runtime of the file is installed, the file is applied to test rows before it takes the place of an
    older one. A file that gives other probabilities is not left behind.

    Parameters
    ----------
    calibrator : Calibrator
        Fitted.
    path : path-like
        Such as ``calibrator.onnx``.
    dtype : {"float32", "float64"}, optional
        Float type of scores and probabilities. By default that which is usual for the kind of file.
    space : {"probabilities", "logits"}, optional
        What the file takes; that of the fit by default.
    columns : sequence of K strings, optional
        Names of the columns of scores. By default those in the fit; if they had none, or ``space`` is another, the labels with
        ``p_`` (probabilities) or ``z_`` (logits) before them.
    **options
        Further options of the kind of file.

    Returns
    -------
    Parity or None
        Difference to the calibrator on test rows; None if the runtime of the file is not installed.

    Raises
    ------
    NoGraphError
        If the fitted map is not a list of row operations.
    ExportError
        If the file would not compute what the calibrator does.
    MissingExtraError
        If a library that writes the file is not installed.
    """
    target = Path(os.fsdecode(path))
    backend = backend_for(target)
    _check_options(backend, options)
    content = exportable(
        calibrator, dtype=backend.dtype if dtype is None else dtype, space=space, columns=columns
    )
    with TemporaryDirectory(prefix="calibrant-") as folder:
        draft = Path(folder, f"draft{target.suffix.lower()}")
        backend.write(content, draft, options)
        parity = _checked(draft, backend, content, target.name)
        with replacing(target) as stream, open(draft, "rb") as written:
            shutil.copyfileobj(written, stream)
    return parity


def exportable(
    calibrator: Calibrator,
    *,
    dtype: Any = "float64",
    space: str | None = None,
    columns: Sequence[str] | None = None,
) -> Exportable:
    """Return what back ends get of a fitted calibrator; parameters as in ``export``."""
    graph = calibrator.graph(space)
    classes = tuple(str(label) for label in calibrator.classes_.tolist())
    names = _default_columns(calibrator, graph.space, classes) if columns is None else _names(columns)
    if names is None or len(names) != len(classes) or len(set(names)) < len(names):
        raise ParameterError(
            f"columns must be {len(classes)} different names, one per class, not {columns!r}."
        )
    return Exportable(graph, classes, names, _float_type(dtype))


def _default_columns(calibrator: Calibrator, space: Space, classes: tuple[str, ...]) -> tuple[str, ...]:
    names = calibrator.column_names_
    if (
        names is not None
        and names.dtype.kind == "U"
        and len(names) == len(classes)
        and space == calibrator.space_
    ):
        return tuple(str(name) for name in names)
    return tuple(PREFIXES[space] + label for label in classes)


def _names(columns: Any) -> tuple[str, ...] | None:
    """Return names as a tuple, None if they are no names."""
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        return None
    names = tuple(columns)
    return names if all(isinstance(name, str) and name for name in names) else None


def _float_type(dtype: Any) -> np.dtype[Any]:
    try:
        name = np.dtype(dtype).name
    except TypeError:
        name = dtype
    check_choice("dtype", name, ("float32", "float64"))
    kind: np.dtype[Any] = np.dtype(name)
    return kind


def _check_options(backend: Backend, options: dict[str, Any]) -> None:
    unknown = [name for name in options if name not in backend.options]
    if unknown:
        known = f"has {', '.join(backend.options)}" if backend.options else "has none of its own"
        raise ParameterError(f"{backend.name} has no option {unknown[0]!r}; it {known}.")


def _checked(draft: Path, backend: Backend, content: Exportable, name: str) -> Parity | None:
    """Return the difference on test rows, None without a runtime; refuse a file that is wrong."""
    if backend.run is None:
        return None
    try:
        parity = measured(draft, backend, content.graph)
    except MissingExtraError:
        return None
    if not parity.holds:
        raise ExportError(
            f"{name} was not written, because {backend.name} would not compute what the calibrator does: {parity}; "
            "try dtype='float64', or another kind of file."
        )
    return parity
