"""Mean losses of points, and what is known about them without any calibration."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Matrix, Vector
from calibrant.calibrators.neighbourhood.crop import Crop, cropped
from calibrant.calibrators.neighbourhood.points import Points
from calibrant.graph import TracedPredictions
from calibrant.graph.apply import mapped
from calibrant.graph.columns import Floor
from calibrant.numerics.weighted_means import standard_error_of_mean
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["PointLosses", "as_they_came", "better_floor", "doing_nothing"]


# Stands in for an exact zero, which one of the ways to crop leaves, while losses are compared.
LEAST = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class PointLosses:
    """Loss of every point, averaged over the labels of its rows, and the weights of the points.

    Attributes
    ----------
    log, brier : ndarray of shape (u,)
        Log-loss, and Brier score summed over classes.
    weights : ndarray of shape (u,)
        Total weight of the rows of every point.
    """

    log: Vector
    brier: Vector
    weights: Vector

    @classmethod
    def of(cls, labels: Matrix, weights: Vector, calibrated: Matrix) -> Self:
        """Return the losses of calibrated points, given the mean labels of their rows (u, K)."""
        log = -np.einsum("ik,ik->i", labels, np.log(np.maximum(calibrated, LEAST)))
        squares = np.einsum("ik,ik->i", calibrated, calibrated - 2 * labels)
        return cls(log, squares + 1.0, weights)

    @classmethod
    def joined(cls, parts: "list[PointLosses]") -> Self:
        """Return the losses of several sets of points as one."""
        return cls(
            np.concatenate([part.log for part in parts]),
            np.concatenate([part.brier for part in parts]),
            np.concatenate([part.weights for part in parts]),
        )

    @property
    def mean_log(self) -> float:
        """Mean log-loss."""
        return float(np.average(self.log, weights=self.weights))

    def excess(self, other: "PointLosses") -> tuple[tuple[float, float], tuple[float, float]]:
        """Return by how much log-loss and Brier score are above those of another prediction, each with its error.

        Points are the units of the standard error: what several equal rows say about it is no more than one of them.
        """
        differences = self.log - other.log, self.brier - other.brier
        log, brier = (
            (float(np.average(terms, weights=self.weights)), standard_error_of_mean(terms, self.weights))
            for terms in differences
        )
        return log, brier


def doing_nothing(points: Points, floor: float, crop: Crop, epsilon: float) -> PointLosses:
    """Return the losses of points as they came, with zeros read in the way that is better for them.

    Either they count as the floor, as they do for all methods, or they are cropped, as they will be after a correction.
    If only one of the two were looked at, a correction could seem to gain by nothing but another reading of zeros.
    """
    labels = points.labels()
    raised = Predictions(points.probabilities, Space.PROBABILITIES).with_floor(floor).without_zeros()
    readings = [
        PointLosses.of(labels, points.weights, raised.probabilities.astype(np.float64)),
        PointLosses.of(
            labels, points.weights, cropped(points.probabilities.astype(np.float64), crop, epsilon)
        ),
    ]
    return min(readings, key=lambda losses: losses.mean_log)


def better_floor(points: Points, floor: float, epsilon: float) -> float:
    """Return what an exact zero should count as where predictions stay as they are: epsilon, or the floor if better."""
    labels = points.labels()
    given = Predictions(points.probabilities, Space.PROBABILITIES)
    losses = {
        least: PointLosses.of(labels, points.weights, _floored(given, least).astype(np.float64)).mean_log
        for least in (epsilon, floor)
    }
    return floor if losses[floor] < losses[epsilon] else epsilon


def _floored(predictions: Predictions, floor: float) -> NDArray[np.floating]:
    return mapped(lambda given: as_they_came(given, floor), predictions).probabilities


def as_they_came(given: TracedPredictions, floor: float) -> TracedPredictions:
    """Return predictions as they are, but for rows with exact zeros, of which one could be refuted: these get a floor."""
    if given.space is Space.LOGITS:
        return given.without_zeros()
    return given.with_probabilities(given.scores.then(Floor(floor, only_zeros=True)))
