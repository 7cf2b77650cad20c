"""Calibration points: the different predictions, how much each weighs, and how wrong it was on average."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.kernels import content_order, starts_of_equals

__all__ = ["Points"]


@dataclass(frozen=True, eq=False)
class Points:
    """Equal predictions put together, in an order that depends on what they contain alone.

    A row given twice and a row of weight two are the same point, so a method that knows points alone cannot tell them
    apart, nor the order in which the rows came.

    Attributes
    ----------
    probabilities : ndarray of shape (u, K)
        The different predictions, in their float type.
    errors : ndarray of shape (u, K)
        Weighted mean of prediction less label, as one-hot rows, over the calibration rows with this prediction.
    weights : ndarray of shape (u,)
        Total weight of these rows.

    Examples
    --------
    >>> data = LabelledPredictions.parse([[0.75, 0.25], [0.25, 0.75], [0.75, 0.25]], [0, 1, 1])
    >>> points = Points.of(data)
    >>> points.probabilities, points.weights
    (array([[0.75, 0.25], [0.25, 0.75]]), array([2., 1.]))
    >>> points.errors
    array([[ 0.25, -0.25], [ 0.25, -0.25]])
    """

    probabilities: NDArray[np.floating]
    errors: NDArray[np.float64]
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, data: LabelledPredictions) -> Self:
        """Put equal rows together. Costs one sort."""
        probabilities = data.predictions.probabilities
        weights = np.ones(data.n_rows) if data.weights is None else data.weights
        order = content_order(probabilities, (data.labels, weights))
        starts = starts_of_equals(probabilities, order)
        # In float64, so that what is learnt does not depend on the float type in which predictions come.
        errors = probabilities[order].astype(np.float64)
        errors[np.arange(data.n_rows), data.labels[order]] -= 1
        if len(starts) == data.n_rows:
            return cls(probabilities[order], errors, weights[order])
        totals = np.add.reduceat(weights[order], starts)
        errors *= weights[order, np.newaxis]
        means = np.add.reduceat(errors, starts, axis=0)
        means /= totals[:, np.newaxis]
        return cls(probabilities[order[starts]], means, totals)

    def labels(self) -> NDArray[np.float64]:
        """Return the mean label of every point, (u, K): the share of its rows in every class."""
        labels: NDArray[np.float64] = np.subtract(self.probabilities, self.errors, dtype=np.float64)
        return labels

    def take(self, places: Any) -> Self:
        """Return some of the points (an index array, boolean mask or slice)."""
        return type(self)(self.probabilities[places], self.errors[places], self.weights[places])

    @property
    def n_points(self) -> int:
        """Number of different predictions, u."""
        return len(self.weights)
