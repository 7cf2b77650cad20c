"""Checks of a calibrator that was read from a file: its fitted state, and probe rows with their predictions.

A class checks its own structure in an optional method ``_check_fitted()``, which raises ``ValueError`` with a message that
continues a sentence starting with the name of the class. Methods need one if predictions follow indices in the fitted
state from one to the next, as through the splits of a tree; NumPy detects indices out of range.

Fitted arrays of floats must be finite: attributes, items of lists and tuples, and the ``theta`` of a solution. Dicts are tables
about the fit, on which no prediction depends, and may contain anything. A class for which NaN or infinity has a meaning
names such attributes in the class attribute ``_non_finite_state``.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray
from calibrant.calibrator import Calibrator
from calibrant.graph import MapGraph
from calibrant.numerics.row_blocks import one_thread
from calibrant.numerics.simplex import softmax
from calibrant.persistence.limits import TimeIsUpError, watched
from calibrant.persistence.schema import UnreadableError, quoted
from calibrant.predictions import ROW_SUM_TOLERANCE, Predictions
from calibrant.solvers import Solution
from calibrant.space import Space

__all__ = ["MAX_ROWS", "Probe", "UnsoundError", "check_fitted", "probe_inputs"]

MAX_ROWS = 8
TOLERANCE = 1e-6
"""Tolerance on predictions: far above rounding errors, far below differences that matter."""

SECONDS = 30.0
SECONDS_PER_MEGABYTE = 1.0
"""Limit on the processor time of a probe, which grows with the size of the file."""


@dataclass(frozen=True)
class Probe:
    """Probe rows and their calibrated probabilities."""

    inputs: FloatArray  # (r, K): scores in the space of the fit
    outputs: FloatArray | None  # (r, K): calibrated probabilities; None if the predictions are random

    @classmethod
    def of(cls, calibrator: Calibrator) -> "Probe":
        """Predict rows that depend only on the space and the number of classes of ``calibrator``."""
        inputs = probe_inputs(len(calibrator.classes_), Space(calibrator.space_))
        first, second = (_predicted(calibrator, inputs) for _ in range(2))
        return cls(inputs, first if np.array_equal(first, second, equal_nan=True) else None)

    def check(self, calibrator: Calibrator, n_bytes: int = 0) -> None:
        """Raise :class:`UnreadableError` unless ``calibrator`` reproduces ``outputs`` in bounded time.

        The predictions must be probabilities in any case.
        """
        self._check(lambda: _predicted(calibrator, self.inputs), "calibrator", n_bytes)

    def check_graph(self, graph: MapGraph, n_bytes: int = 0) -> None:
        """Raise :class:`UnreadableError` unless ``graph`` reproduces ``outputs``, as :meth:`check` does."""
        n_outputs = (self.inputs if self.outputs is None else self.outputs).shape[1]
        if graph.n_columns != self.inputs.shape[1] or graph.n_outputs != n_outputs:
            raise UnreadableError("is damaged: the graph in it has another number of classes")
        self._check(lambda: graph(self.inputs), "graph", n_bytes)

    def _check(self, predict: Callable[[], FloatArray], what: str, n_bytes: int) -> None:
        seconds = SECONDS + SECONDS_PER_MEGABYTE * n_bytes / 2**20
        try:
            # In one thread, because the limit applies to one thread.
            with watched(seconds), one_thread():
                predicted = predict()
        except TimeIsUpError:
            raise UnreadableError(
                f"is damaged: the {what} in it takes more than {seconds:.0f} seconds for {len(self.inputs)} rows"
            ) from None
        except Exception as error:
            raise UnreadableError(
                f"is damaged: the {what} in it does not predict "
                f"({type(error).__name__}: {quoted(str(error))})"
            ) from error
        if not _are_probabilities(predicted):
            raise UnreadableError(f"is damaged: the {what} in it does not predict probabilities")
        if self.outputs is None:
            return
        if not np.allclose(predicted, self.outputs, rtol=0, atol=TOLERANCE):
            raise UnreadableError(
                f"is damaged: the {what} in it does not reproduce the predictions that were saved with it"
            )


def probe_inputs(n_classes: int, space: Space) -> FloatArray:
    r"""Return five rows: nearly uniform, mixed, mixed in reverse order, confident in the first class, and in the last.

    The logits are multiples of :math:`\{k \varphi\} - 1/2` with the golden ratio :math:`\varphi`. No two of a row are
    equal and none is a round number, so that no probability is a tie or on the edge of a bin, where the last bit of an
    exponential would matter.

    >>> probe_inputs(3, Space.PROBABILITIES).round(3)
    array([[0.335, 0.322, 0.343],
           [0.328, 0.159, 0.513],
           [0.113, 0.855, 0.032],
           [0.998, 0.   , 0.001],
           [0.008, 0.002, 0.99 ]])
    """
    golden_ratio = (1 + np.sqrt(5)) / 2
    spread = np.modf(np.arange(1, n_classes + 1) * golden_ratio)[0] - 0.5
    logits: FloatArray = np.outer([0.1, 1.9, -5.3, 2.3, 4.1], spread)
    logits[3, 0] += np.log(n_classes) + 6.1
    logits[4, -1] += np.log(n_classes) + 2.7
    if space is Space.PROBABILITIES:
        return softmax(logits)
    logits += np.array([[0.0], [1.7], [-2.9], [0.3], [-0.7]])  # raw logits need not be centred
    return logits


def _are_probabilities(rows: FloatArray) -> bool:
    sums = rows.sum(axis=1, dtype=np.float64)
    return bool((rows >= 0).all() and (np.abs(sums - 1) <= ROW_SUM_TOLERANCE).all())  # not so for NaN


def _predicted(calibrator: Calibrator, inputs: FloatArray) -> FloatArray:
    if calibrator.space_ == Space.LOGITS:
        predictions = Predictions.from_logits(inputs)
    else:
        predictions = Predictions.from_probabilities(inputs)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        predicted = np.asarray(calibrator.predict_proba(predictions))
    if predicted.shape != inputs.shape:
        raise ValueError(f"predictions have shape {predicted.shape} instead of {inputs.shape}")
    return predicted


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
