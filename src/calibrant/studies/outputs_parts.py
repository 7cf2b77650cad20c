"""BaseOutputs: scores of calibration and test rows, in one part or in one for every inner fold."""

from dataclasses import dataclass

import numpy as np

from calibrant.arrays import IntArray
from calibrant.predictions import Predictions
from calibrant.space import Space
from calibrant.studies.data_rows import Truth

__all__ = ["BaseOutputs", "Part", "averaged"]


@dataclass(frozen=True, eq=False)
class Part:
    """What one classifier says.

    Attributes
    ----------
    calibration : Predictions
        Of rows that a calibrator is fitted to.
    calibration_labels : ndarray of shape (n,)
        True classes of these rows, as column numbers.
    test : Predictions
        Of the test rows.
    training : Predictions or None
        Of the rows that the classifier was trained on, where they are asked for.
    training_labels : ndarray of shape (m,) or None
    """

    calibration: Predictions
    calibration_labels: IntArray
    test: Predictions
    training: Predictions | None = None
    training_labels: IntArray | None = None


@dataclass(frozen=True, eq=False)
class BaseOutputs:
    """What the classifiers of a split say.

    Attributes
    ----------
    parts : tuple of Part
        One for every inner fold whose calibrated probabilities are averaged; otherwise one.
    test_labels : ndarray of shape (n,)
        True classes of the test rows, the same for all parts.
    n_classes : int
    truth : ndarray of shape (n, K), SyntheticTask or None
        True probabilities of the test rows, or where they come from.
    train_seconds : float
        Wall clock of training and of scoring.
    """

    parts: tuple[Part, ...]
    test_labels: IntArray
    n_classes: int
    truth: Truth | None = None
    train_seconds: float = 0.0

    def uncalibrated(self) -> Predictions:
        """Return what is said of the test rows before calibration, averaged over parts."""
        return averaged([part.test for part in self.parts])


def averaged(predictions: list[Predictions]) -> Predictions:
    """Return the mean of several probabilities of the same rows, in float64; a single one stays as it is.

    >>> one, other = Predictions.parse([[0.2, 0.8]]), Predictions.parse([[0.4, 0.6]])
    >>> averaged([one, other]).probabilities.round(2)
    array([[0.3, 0.7]])
    >>> averaged([one]) is one
    True
    """
    if len(predictions) == 1:
        return predictions[0]
    total = np.zeros(predictions[0].scores.shape)
    for each in predictions:
        total += each.probabilities
    return Predictions(total / len(predictions), Space.PROBABILITIES)
