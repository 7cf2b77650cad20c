"""Checks of the fitted state of a calibrator that was read from a file, before its first prediction.

A class checks its own structure in an optional method ``_check_fitted()``, which raises ``ValueError`` with a message that
continues a sentence starting with the name of the class. Methods need one if predictions follow indices in the fitted
state from one to the next, as through the splits of a tree; NumPy detects indices out of range.

Fitted arrays of floats must be finite: attributes, items of lists and tuples, and the ``theta`` of a solution. Dicts are tables
about the fit, on which no prediction depends, and may contain anything. A class for which NaN or infinity has a meaning
names such attributes in the class attribute ``_non_finite_state``.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrator import Calibrator
from calibrant.persistence.schema import quoted
from calibrant.solvers import Solution

__all__ = ["UnsoundError", "check_fitted"]

NON_FINITE: Final[dict[str, tuple[str, ...]]] = {
    "IntraOrderPreserving": ("weight_decays_",),  # an infinite penalty is the identity
    "TopLabel": ("constants_",),  # NaN for a class that has a map
}
"""Attributes of classes of calibrant that may contain NaN or infinity."""


class UnsoundError(ValueError):
    """A fitted state is invalid; the message has no full stop."""


def check_fitted(calibrator: Calibrator) -> None:
    """Raise :class:`UnsoundError` unless the fitted state of a calibrator and of its parts is valid."""
    name = type(calibrator).__name__
    exempt = {*NON_FINITE.get(name, ()), *getattr(calibrator, "_non_finite_state", ())}
    for attribute, value in vars(calibrator).items():
        fitted = attribute.endswith("_")
        _check(value, f"{attribute} of {name}", finite=fitted and attribute not in exempt)
    _check_columns(calibrator, name)
    hook = getattr(calibrator, "_check_fitted", None)
    if hook is None or "classes_" not in vars(calibrator):
        return
    try:
        hook()
    except ValueError as error:
        raise UnsoundError(f"{name} {str(error).rstrip('.')}") from error
    except Exception as error:
        raise UnsoundError(
            f"the state of {name} is invalid ({type(error).__name__}: {quoted(str(error))})"
        ) from error


def _check(value: Any, where: str, finite: bool) -> None:
    if isinstance(value, np.ndarray):
        if finite and value.dtype.kind == "f" and not np.isfinite(value).all():
            raise UnsoundError(f"{where} has numbers that are not finite")
    elif isinstance(value, Calibrator):
        check_fitted(value)
    elif isinstance(value, list | tuple):
        for item in value:
            _check(item, where, finite)
    elif isinstance(value, dict):
        for item in value.values():
            _check(item, where, finite=False)
    elif isinstance(value, Solution):
        _check(value.theta, where, finite)


def _check_columns(calibrator: Calibrator, name: str) -> None:
    """Check the columns of the classes that were present in the fit."""
    columns, classes = vars(calibrator).get("present_columns_"), vars(calibrator).get("classes_")
    if columns is None or classes is None:
        return
    if not _is_increasing(columns, len(np.atleast_1d(classes))):
        raise UnsoundError(f"present_columns_ of {name} must be increasing column numbers")


def _is_increasing(columns: NDArray[Any] | Any, end: int) -> bool:
    return (
        isinstance(columns, np.ndarray)
        and columns.ndim == 1
        and columns.dtype.kind in "iu"
        and len(columns) > 0
        and bool((np.diff(columns.astype(np.int64)) > 0).all())
        and int(columns[0]) >= 0
        and int(columns[-1]) < end
    )
