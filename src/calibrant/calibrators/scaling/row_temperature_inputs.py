"""What a row's temperature may depend on: its largest scores in their order, or its entropy."""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Vector
from calibrant.graph import TracedPredictions, Value
from calibrant.graph.apply import evaluated
from calibrant.graph.order import SortDescending
from calibrant.predictions import Predictions

__all__ = ["Inputs", "StandardInputs", "row_inputs", "traced_row_inputs"]

Inputs = Literal["gaps", "logits", "entropy"]


def traced_row_inputs(
    given: TracedPredictions, kind: Inputs, top_k: int, inverse_temperature: float
) -> Value:
    r"""Return the inputs of the network as float64, one column per input.

    For "logits" the largest ``top_k`` of a row in falling order, all if there are fewer classes; for "gaps" how far each
    of them but the first lies below the first; for "entropy" the entropy of :math:`\mathrm{softmax}(\beta z)`
    divided by its largest possible value, :math:`\log K`, at the given inverse temperature.
    """
    logits = given.logits
    if kind == "entropy":
        gaps = (logits - logits.row("max")) * inverse_temperature
        terms = gaps.function("exp")
        total = terms.row("sum")
        entropies = total.log(TINY) - (terms * gaps).row("sum") / total
        return entropies.widened * float(1 / np.log(given.n_classes))
    falling = logits.then(SortDescending(min(top_k, given.n_classes))).widened
    if kind == "logits":
        return falling
    return falling.columns([0]) - falling.columns(np.arange(1, falling.width))


def row_inputs(
    predictions: Predictions, kind: Inputs, top_k: int, inverse_temperature: float
) -> NDArray[np.float64]:
    """Return the inputs of the network for predictions, (n, inputs); see :func:`traced_row_inputs`.

    >>> row_inputs(Predictions.from_logits([[1.0, 4.0, 2.0]]), "gaps", 10, 1.0)
    array([[2., 3.]])
    """
    return evaluated(lambda given: traced_row_inputs(given, kind, top_k, inverse_temperature), predictions)


TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True, eq=False)
class StandardInputs:
    """How inputs are brought to mean zero and variance one, and kept within what the calibration rows have shown.

    Attributes
    ----------
    means, scales : ndarray of shape (d,)
        Mean and standard deviation over calibration rows; 1 for an input that does not vary.
    smallest, largest : ndarray of shape (d,)
        Range over calibration rows; inputs outside count as its nearer end.
    """

    means: Vector
    scales: Vector
    smallest: Vector
    largest: Vector

    @classmethod
    def of(cls, inputs: NDArray[np.float64], weights: Vector | None) -> Self:
        """Return the standard of these rows.

        >>> standard = StandardInputs.of(np.array([[1.0, 5.0], [3.0, 5.0]]), None)
        >>> standard(np.array([[3.0, 5.0], [100.0, 7.0]]))
        array([[1., 0.], [1., 0.]])
        """
        means = np.average(inputs, axis=0, weights=weights)
        scales = np.sqrt(np.average((inputs - means) ** 2, axis=0, weights=weights))
        # What differs by rounding only does not vary.
        scales[scales <= 1e-12 * np.abs(inputs).max(axis=0)] = 1.0
        return cls(means, scales, inputs.min(axis=0), inputs.max(axis=0))

    def __call__(self, inputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the same inputs in units of their spread."""
        standard: NDArray[np.float64] = (
            np.clip(inputs, self.smallest, self.largest) - self.means
        ) / self.scales
        return standard
