"""Calibration maps from fitted calibrators, including a random forest fitted to real logits."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from calibrant.arrays import Matrix
from calibrant.calibrator import Calibrator
from calibrant.calibrators.neighbourhood.random_forest import RandomCalibrationForest
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.options import is_number
from calibrant.predictions import Predictions
from calibrant.synthetic.maps import CalibrationMap

__all__ = ["LearntMap", "learnt_map"]

# Aeroplane, car, bird, cat; deer, dog, frog; horse, ship, truck.
GROUPS_OF_TEN = ((0, 1, 2, 3), (4, 5, 6), (7, 8, 9))


@dataclass(frozen=True)
class LearntMap(CalibrationMap):
    """The map of a fitted calibrator, used as the true calibration map.

    Parameters
    ----------
    calibrator : Calibrator
        A calibrator fitted on probabilities.

    Examples
    --------
    >>> from calibrant import TemperatureScaling
    >>> LearntMap(TemperatureScaling().fit([[0.9, 0.1]] * 4, [0, 0, 0, 1]))([[0.5, 0.5], [0.9, 0.1]]).round(3)
    array([[0.5 , 0.5 ], [0.75, 0.25]])
    """

    calibrator: Calibrator

    def __post_init__(self) -> None:
        if not isinstance(self.calibrator, Calibrator) or not hasattr(self.calibrator, "classes_"):
            raise ParameterError(f"calibrator must be a fitted Calibrator, not {self.calibrator!r}.")

    @property
    def n_classes(self) -> int:
        """Number of classes of the calibrator."""
        return len(self.calibrator.classes_)

    def _map(self, rows: Matrix) -> Matrix:
        return np.asarray(self.calibrator.predict_proba(rows), dtype=np.float64)


def learnt_map(
    logits: Any,
    labels: Any,
    *,
    groups: Sequence[Sequence[int]] | None = GROUPS_OF_TEN,
    temperature: float = 2.3,
    n_bins: int = 512,
    n_trees: int = 250,
    random_state: Any = 0,
) -> LearntMap:
    r"""Fit a realistic calibration map to the logits of a classifier, as in :cite:`valk2022`, section 4.2.1.

    Logits are divided by a temperature and converted to probabilities, and classes are merged into groups:

    .. math:: p_g = \sum_{k \in g} \operatorname{softmax}(z / T)_k

    A :class:`~calibrant.RandomCalibrationForest` of deep trees is then fitted to the rows; its map is the true map.

    Parameters
    ----------
    logits : array of shape (n, K) or Predictions
        Logits of rows that the classifier was not trained on, about a hundred times as many rows as bins. For
        :class:`~calibrant.Predictions` that are probabilities, their logarithms are used.
    labels : array of shape (n,)
        True classes, column numbers, or names if the predictions have them.
    groups : sequence of sequences of int, optional
        Columns to merge, each exactly once; by default the three groups of ten classes used in the thesis. None keeps
        the classes as they are.
    temperature : float, default=2.3
        :math:`T > 0`; lower than the optimal temperature, so that miscalibration remains.
    n_bins, n_trees : int, default=512 and 250
        Number of bins and trees of the forest.
    random_state : int or Generator, default=0
        Seed of the forest.

    Notes
    -----
    The thesis used five million rows. With fewer rows, more of the map is noise. It is still a valid true map, but with more
    detail than any calibration set can resolve; use fewer bins.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> labels = generator.integers(4, size=400)
    >>> logits = generator.normal(0, 1, (400, 4)) + 2 * np.eye(4)[labels]
    >>> truth = learnt_map(logits, labels, groups=[[0, 1], [2], [3]], temperature=1.0, n_bins=8, n_trees=5)
    >>> truth([[0.6, 0.2, 0.2]]).shape
    (1, 3)
    """
    if not is_number(temperature) or not 0 < temperature < np.inf:
        raise ParameterError(f"temperature must be a positive number, not {temperature!r}.")
    given = logits if isinstance(logits, Predictions) else Predictions.from_logits(logits)
    data = LabelledPredictions.parse(given, labels)
    scores = data.predictions.logits
    scaled = Predictions.from_logits(scores / scores.dtype.type(temperature))
    membership = _membership(groups, data.n_classes)
    grouped = scaled.probabilities.astype(np.float64) @ membership
    # No check that the forest lowers a loss: its map is the truth by definition.
    forest = RandomCalibrationForest(n_trees=n_trees, n_bins=n_bins, random_state=random_state, guard=False)
    return LearntMap(forest.fit(grouped, membership[data.labels].argmax(axis=1)))


def _membership(groups: Sequence[Sequence[int]] | None, n_classes: int) -> Matrix:
    """Return the membership of columns in groups as ones and zeros, (K, number of groups)."""
    if groups is None:
        return np.eye(n_classes)
    members = [list(group) for group in groups]
    if len(members) < 2 or sorted(chain.from_iterable(members)) != list(range(n_classes)):
        raise ParameterError(
            f"groups must be two or more that contain each of the columns 0 to {n_classes - 1} exactly once."
        )
    return np.stack([np.isin(np.arange(n_classes), group) for group in members], axis=1).astype(np.float64)
