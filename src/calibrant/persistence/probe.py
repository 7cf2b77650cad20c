"""Probe rows: predictions that are stored with a calibrator and reproduced when it is loaded."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from calibrant.arrays import FloatArray
from calibrant.calibrator import Calibrator
from calibrant.graph import MapGraph
from calibrant.numerics.row_blocks import one_thread
from calibrant.numerics.simplex import softmax
from calibrant.persistence.limits import TimeIsUpError, watched
from calibrant.persistence.schema import UnreadableError, quoted
from calibrant.predictions import ROW_SUM_TOLERANCE, Predictions
from calibrant.space import Space

__all__ = ["MAX_ROWS", "TOLERANCE", "Probe", "probe_inputs"]

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
