"""Parity: whether an exported file computes what the fitted calibrator does."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrator import Calibrator
from calibrant.errors import ExportError, FileFormatError, MissingExtraError
from calibrant.export.backend import Backend, backend_for
from calibrant.export.parity_rows import parity_rows, rounding_errors
from calibrant.graph import MapGraph
from calibrant.persistence.schema import quoted

__all__ = ["Parity", "compared", "measured", "verify"]

TOLERANCES = {"float32": 1e-6, "float64": 1e-12}
"""How far probabilities may differ."""

ROUNDING = 4.0
"""Multiple of the rounding error of a row that an export may have; matters where the map is steep, and for huge weights."""


@dataclass(frozen=True)
class Parity:
    """Difference between an exported file and the calibrator on test rows.

    The rows follow from the graph: the probe rows of files, zeros, ties, saturated and random scores, and rows in every segment
    of curves and trees. Each row has a tolerance: 1e-12 in float64 and 1e-6 in float32, or four times what rounding does to the
    row if that is more.

    Attributes
    ----------
    backend : str
        Kind of file.
    dtype : str
        Float type of the file.
    n_rows : int
        Number of rows compared.
    largest_difference : float
        Largest absolute difference of two probabilities, in the row where it is largest relative to the tolerance.
    tolerance : float
        Largest difference that is accepted in that row.
    same_argmax : bool
        Whether the predicted class of every row is the same, but for ties of rounding.
    """

    backend: str
    dtype: str
    n_rows: int
    largest_difference: float
    tolerance: float
    same_argmax: bool

    @property
    def holds(self) -> bool:
        """Whether the file computes what the calibrator does."""
        return self.same_argmax and self.largest_difference <= self.tolerance

    def __str__(self) -> str:
        classes = "the same predicted classes" if self.same_argmax else "other predicted classes"
        return (
            f"largest difference {self.largest_difference:.2g} (at most {self.tolerance:.2g} allowed) in "
            f"{self.n_rows} rows of {self.dtype}, {classes}"
        )


def verify(path: str | os.PathLike[str], calibrator: Calibrator) -> Parity:
    """Compare an exported file with the fitted calibrator that it was made of, on test rows.

    Parameters
    ----------
    path : path-like
        The exported file.
    calibrator : Calibrator
        Fitted, or loaded.

    Returns
    -------
    Parity
        The largest difference.

    Raises
    ------
    ExportError
        If the two differ.
    FileFormatError
        If the file is damaged, or is something else.
    MissingExtraError
        If the runtime of the file is not installed.
    """
    path = Path(os.fsdecode(path))
    backend = backend_for(path)
    if not stat.S_ISREG(path.stat().st_mode):
        raise FileFormatError(f"{path} is not a regular file; give the file that was exported.")
    space = None
    if backend.metadata is not None:
        try:
            told = backend.metadata(path)
        except (MissingExtraError, FileFormatError):
            raise
        except Exception as error:
            raise _unusable(path, backend, error) from error
        space = str(told["space"])
        known = [str(label) for label in calibrator.classes_.tolist()]
        if list(told["classes"]) != known:
            raise ExportError(
                f"{path} is for the classes {quoted(list(told['classes']))}, but the calibrator is for "
                f"{quoted(known)}; compare it with the calibrator that it was exported from."
            )
    parity = measured(path, backend, calibrator.graph(space))
    if not parity.holds:
        raise ExportError(
            f"{path} does not compute what the calibrator does: {parity}; export the calibrator again, or compare it with "
            "the one that it was exported from."
        )
    return parity


def measured(path: Path, backend: Backend, graph: MapGraph) -> Parity:
    """Return the difference between a file and a graph on test rows."""
    if backend.run is None:
        raise ExportError(
            f"calibrant cannot run files of {backend.name}; apply {path.name} where it belongs."
        )
    rows = parity_rows(graph)
    try:
        found = np.asarray(backend.run(path, rows))
    except (MissingExtraError, FileFormatError):
        raise
    except Exception as error:
        raise _unusable(path, backend, error) from error
    if found.shape != rows.shape or found.dtype.name not in TOLERANCES:
        raise FileFormatError(
            f"{path} gives {found.dtype} of shape {found.shape} for scores of shape {rows.shape}, and no probabilities; "
            "export the calibrator again."
        )
    return compared(backend.name, graph, rows.astype(found.dtype), found)


def compared(name: str, graph: MapGraph, rows: NDArray[Any], found: NDArray[np.floating]) -> Parity:
    """Return the difference between the results of a file for some rows and those of a graph."""
    expected = graph(rows)
    with np.errstate(invalid="ignore"):
        differences = np.abs(found.astype(np.float64) - expected).max(axis=1)
    differences = np.where(np.isnan(differences), np.inf, differences)
    rounding = ROUNDING * rounding_errors(graph, rows, expected)
    allowed = np.maximum(TOLERANCES[rows.dtype.name], rounding)
    worst = int(np.argmax(differences / allowed))
    # The first of equal probabilities, as rounding leaves them.
    chosen = np.take_along_axis(expected, found.argmax(axis=1)[:, np.newaxis], axis=1)[:, 0]
    behind = expected.max(axis=1).astype(np.float64) - chosen
    return Parity(
        name,
        found.dtype.name,
        len(rows),
        float(differences[worst]),
        float(allowed[worst]),
        bool((behind <= np.maximum(8 * np.finfo(rows.dtype).eps, rounding)).all()),
    )


def _unusable(path: Path, backend: Backend, error: Exception) -> FileFormatError:
    return FileFormatError(
        f"{path} cannot be used as a file of {backend.name} ({type(error).__name__}: {quoted(str(error))}); "
        "export the calibrator again."
    )
