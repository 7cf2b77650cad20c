"""export: write a fitted calibrator to ONNX, torch, SQL or JSON, and compare the file with it."""

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
from calibrant.graph import of_one_column
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
    """Export a fitted calibrator to the format that the ending of the path selects.

    If the runtime of the format is installed, the file is compared with the calibrator on test rows before it replaces an
    older one. A file with different probabilities is not written.

    Parameters
    ----------
    calibrator : Calibrator
        Fitted.
    path : path-like
        Such as ``calibrator.onnx``.
    dtype : {"float32", "float64"}, optional
        Float type of scores and probabilities; the default depends on the format.
    space : {"probabilities", "logits"}, optional
        Input of the exported map; by default the space of the fit.
    columns : sequence of K strings, optional
        Names of the score columns. By default those of the fit; without names, or for another ``space``, the labels with the
        prefix ``p_`` (probabilities) or ``z_`` (logits). For two classes, a single name is the column of the second class, and
        the exported map takes this column alone.
    **options
        Further options of the format.

    Returns
    -------
    Parity or None
        Difference from the calibrator on test rows; None if the runtime of the format is not installed.

    Raises
    ------
    NoGraphError
        If the fitted map is not a list of row operations.
    ExportError
        If the exported file would give different probabilities.
    MissingExtraError
        If a library that writes the format is not installed.
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
    """Return the input of back ends for a fitted calibrator; parameters as in ``export``."""
    graph = calibrator.graph(space)
    classes = tuple(str(label) for label in calibrator.classes_.tolist())
    names = _default_columns(calibrator, graph.space, classes) if columns is None else _names(columns)
    if names is not None and len(names) == 1 and len(classes) == 2:
        graph = of_one_column(graph)
    elif names is None or len(names) != len(classes) or len(set(names)) < len(names):
        single = ", or one name for the second class alone" if len(classes) == 2 else ""
        raise ParameterError(
            f"columns must be {len(classes)} different names, one per class{single}, not {columns!r}."
        )
    return Exportable(graph, classes, names, _float_type(dtype))


def _default_columns(calibrator: Calibrator, space: Space, classes: tuple[str, ...]) -> tuple[str, ...]:
    names = calibrator.column_names_
    if (
        names is not None
        and names.dtype.kind == "U"
        and (len(names) == len(classes) or (len(names), len(classes)) == (1, 2))
        and space == calibrator.space_
    ):
        return tuple(str(name) for name in names)
    return tuple(PREFIXES[space] + label for label in classes)


def _names(columns: Any) -> tuple[str, ...] | None:
    """Return names as a tuple, or None if they are not names."""
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
        known = f"options are {', '.join(backend.options)}" if backend.options else "it has none of its own"
        raise ParameterError(f"{backend.name} has no option {unknown[0]!r}; {known}.")


def _checked(draft: Path, backend: Backend, content: Exportable, name: str) -> Parity | None:
    """Return the difference on test rows, None without a runtime; raise an error if it is too large."""
    if backend.run is None:
        return None
    try:
        parity = measured(draft, backend, content.graph)
    except MissingExtraError:
        return None
    if not parity.holds:
        raise ExportError(
            f"{name} was not written, because its probabilities in {backend.name} would differ from those of the calibrator: "
            f"{parity}; try dtype='float64', or another format."
        )
    return parity
