"""What a row's temperature may depend on: its largest scores in their order, or its entropy."""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.numerics.reductions import row_maxima, row_sums
from calibrant.numerics.row_blocks import BlockSums
from calibrant.predictions import Predictions

__all__ = ["Inputs", "StandardInputs", "row_inputs"]

FloatArray = NDArray[np.floating]
Vector = NDArray[np.float64]
Inputs = Literal["gaps", "logits", "entropy"]


def row_inputs(
    predictions: Predictions, kind: Inputs, top_k: int, inverse_temperature: float
) -> NDArray[np.float64]:
    r"""Return the inputs of the network, one row for each of the predictions, in float64.

    For "logits" the largest ``top_k`` of a row in falling order, all if there are fewer classes; for "gaps" how far each
    of them but the first lies below the first; for "entropy" the entropy of :math:`\mathrm{softmax}(\beta z)`
    divided by its largest possible value, :math:`\log K`, at the given inverse temperature.

    >>> row_inputs(Predictions.from_logits([[1.0, 4.0, 2.0]]), "gaps", 10, 1.0)
    array([[2., 3.]])
    """
    logits = predictions.logits
    n_classes = predictions.n_classes
    kept = min(top_k, n_classes)
    result = np.empty((predictions.n_rows, {"gaps": kept - 1, "logits": kept, "entropy": 1}[kind]))

    def fill(rows: slice) -> int:
        block = logits[rows]
        if kind == "entropy":
            result[rows, 0] = _entropies(block, inverse_temperature) / np.log(n_classes)
            return 1
        if kept < n_classes:
            block = np.partition(block, n_classes - kept, axis=1)[:, n_classes - kept :]
        falling = np.sort(block, axis=1)[:, ::-1].astype(np.float64)
        result[rows] = falling if kind == "logits" else falling[:, :1] - falling[:, 1:]
        return 1

    with BlockSums.over(predictions.n_rows, n_classes, logits.itemsize) as in_all_blocks:
        in_all_blocks(fill)
    return result


def _entropies(logits: FloatArray, inverse_temperature: float) -> FloatArray:
    gaps = logits - row_maxima(logits)[:, np.newaxis]
    gaps *= gaps.dtype.type(inverse_temperature)
    terms = np.exp(gaps)
    total = row_sums(terms)
    terms *= gaps
    entropies: FloatArray = np.log(total) - row_sums(terms) / total
    return entropies


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
