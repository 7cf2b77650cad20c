"""Predictions at temperatures that a network gives, row by row."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.scaling.row_temperature_inputs import Inputs, StandardInputs, row_inputs
from calibrant.calibrators.scaling.row_temperature_links import TemperatureLink
from calibrant.numerics.dense_network import DenseNetwork
from calibrant.numerics.kept_order import restore_argmax
from calibrant.numerics.reductions import row_maxima
from calibrant.numerics.row_blocks import BlockSums
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["RowTemperatureMap"]

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RowTemperatureMap:
    """Divide the logits of every row by a temperature that depends on the row.

    Attributes
    ----------
    inverse_temperature : float
        That of all rows together, of whose temperature those of rows are multiples.
    kind : {"gaps", "logits", "entropy"}
        What of a row is looked at.
    top_k : int
        How many of the largest scores are.
    standard : StandardInputs
        Units of the inputs.
    network : DenseNetwork
        From inputs to one output.
    theta : ndarray
        Parameters of the network.
    link : TemperatureLink
        From outputs to multiples.
    """

    inverse_temperature: float
    kind: Inputs
    top_k: int
    standard: StandardInputs
    network: DenseNetwork
    theta: Vector
    link: TemperatureLink

    def temperatures(self, predictions: Predictions) -> Vector:
        """Return the temperature of every row, (n,)."""
        inputs = row_inputs(predictions, self.kind, self.top_k, self.inverse_temperature)
        logarithms = np.empty(len(inputs))

        def fill(rows: slice) -> int:
            run = self.network.run(self.theta, self.standard(inputs[rows]))
            logarithms[rows], _ = self.link(run.outputs[:, 0].astype(np.float64, copy=False))
            return 1

        with BlockSums.over(len(inputs), sum(self.network.widths)) as in_all_blocks:
            in_all_blocks(fill)
        temperatures: Vector = np.exp(logarithms, out=logarithms) / self.inverse_temperature
        return temperatures

    def __call__(self, predictions: Predictions) -> Predictions:
        """Return calibrated logits; the largest of every row is zero and stays where it was."""
        logits = predictions.logits
        inverse = (1 / self.temperatures(predictions)).astype(logits.dtype)
        predicted = predictions.predicted
        scaled = np.empty(logits.shape, logits.dtype)

        def fill(rows: slice) -> int:
            block = np.subtract(logits[rows], row_maxima(logits[rows])[:, np.newaxis], out=scaled[rows])
            block *= inverse[rows, np.newaxis]
            restore_argmax(block, predicted[rows])
            return 1

        with BlockSums.over(predictions.n_rows, predictions.n_classes, scaled.itemsize) as in_all_blocks:
            in_all_blocks(fill)
        return Predictions(scaled, Space.LOGITS, predictions.classes)
