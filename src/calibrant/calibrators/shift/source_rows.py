"""What the labelled rows of the source say about the classes, and what they say when some are left out."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrator import Calibrator
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.predictions import Predictions

__all__ = ["SourceSummary", "dealt_groups", "predicted_classes"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SourceSummary:
    """Averages of calibrated predictions over labelled rows.

    Attributes
    ----------
    mean : ndarray of shape (K,)
        Mean prediction.
    label_shares : ndarray of shape (K,)
    soft, hard : ndarray of shape (K, K)
        Column k: mean prediction, and frequency of every predicted class, among rows of class k.
    """

    mean: Vector
    label_shares: Vector
    soft: Matrix
    hard: Matrix

    @classmethod
    def of(cls, calibrator: Calibrator, data: LabelledPredictions) -> Self:
        """Return the averages of what a fitted calibrator says about these rows."""
        calibrated = calibrator.transform(data.predictions)
        weights = np.ones(data.n_rows) if data.weights is None else data.weights
        totals = np.maximum(data.class_weights, np.finfo(np.float64).tiny)
        size = data.n_classes
        soft = np.zeros((size, size))
        for column, scores in enumerate(calibrated.probabilities.T):
            soft[column] = np.bincount(data.labels, weights * scores, minlength=size)
        hard = np.bincount(calibrated.predicted * size + data.labels, weights, minlength=size**2)
        return cls(
            mean=soft.sum(axis=1) / soft.sum(),
            label_shares=data.class_weights / data.total_weight,
            soft=soft / totals,
            hard=hard.reshape(size, size) / totals,
        )


def predicted_classes(predictions: Predictions) -> Matrix:
    """Return one for the predicted class of every row and zero for the others.

    >>> predicted_classes(Predictions.parse([[0.2, 0.8], [0.6, 0.4]]))
    array([[0., 1.], [1., 0.]])
    """
    return np.eye(predictions.n_classes)[predictions.predicted]


def dealt_groups(labels: NDArray[np.intp], n_groups: int, generator: np.random.Generator) -> NDArray[np.intp]:
    """Deal rows out to groups, class by class; rows that are alone in their class belong to none, -1.

    >>> dealt_groups(np.array([0, 0, 0, 0, 1, 1, 2]), 2, np.random.default_rng(0))
    array([ 0,  1,  0,  1,  0,  1, -1])
    """
    order = generator.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    groups = np.full(len(labels), -1)
    counts = np.bincount(labels)
    several = order[counts[labels[order]] > 1]
    groups[several] = np.arange(len(several)) % n_groups
    return groups
