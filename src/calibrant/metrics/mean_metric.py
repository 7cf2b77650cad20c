"""MeanMetric: a metric that is the weighted mean of one value per row."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import IntArray, Vector
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.declaration import Evaluator
from calibrant.metrics.prepared_losses import LossesOf
from calibrant.predictions import Predictions

__all__ = ["MeanMetric", "MeanSums"]


@dataclass(frozen=True)
class MeanSums:
    """Weighted sums over rows; sums over disjoint sets of rows add up."""

    weight: float
    total: float

    def __add__(self, other: Self) -> Self:
        return type(self)(self.weight + other.weight, self.total + other.total)


@dataclass(frozen=True)
class MeanMetric:
    r"""The mean :math:`\frac{1}{W} \sum_i w_i v_i` of a value v of each row.

    Attributes
    ----------
    values : function
        Returns the values of labelled rows, (n,).
    values_of : function
        Returns a function of labels that gives the values for fixed predictions.
    """

    values: Callable[[LabelledPredictions], Vector]
    values_of: Callable[[Predictions], LossesOf]

    def __call__(self, data: LabelledPredictions) -> float:
        """Return the metric."""
        return float(np.average(self.values(data), weights=data.weights))

    def of(self, data: LabelledPredictions) -> MeanSums:
        """Return the sums of these rows."""
        values = self.values(data)
        total = values.sum() if data.weights is None else data.weights @ values
        return MeanSums(data.total_weight, float(total))

    def of_parts(self, data: LabelledPredictions, part: IntArray, n_parts: int) -> tuple[Vector, Vector]:
        """Return weight and total of every part."""
        values = self.values(data)
        if data.weights is not None:
            values = data.weights * values
        return (
            np.bincount(part, data.weights, n_parts).astype(np.float64),
            np.bincount(part, values, n_parts),
        )

    def from_arrays(self, weight: Vector, total: Vector) -> MeanSums:
        """Return the sums of one part."""
        return MeanSums(float(weight), float(total))

    def check_batches(self) -> None:
        """Do nothing: sums over rows always add up."""

    def value(self, sums: MeanSums) -> float:
        """Return the metric from the sums of all rows."""
        return sums.total / sums.weight

    def prepared(self, predictions: Predictions) -> Evaluator:
        """Return the metric as a function of labels and weights alone."""
        values_of = self.values_of(predictions)

        def evaluate(labels: NDArray[np.intp], weights: Vector | None) -> float:
            values = values_of(labels)
            if weights is None:
                return float(values.mean())
            # A row that was not drawn has weight zero, and must not count even if its loss is infinite.
            total = weights @ np.where(weights > 0, values, 0.0)
            return float(total / weights.sum())

        return evaluate
