"""Folds of calibration points, and their mean losses with and without calibration."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Matrix, Vector
from calibrant.calibrators.inner_folds import canonical_class_order, check_cv_parameter, folds_of
from calibrant.calibrators.neighbourhood.points import Crop, Points, cropped
from calibrant.graph import TracedPredictions
from calibrant.graph.apply import mapped
from calibrant.graph.columns import Floor
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.folds import fold_numbers
from calibrant.numerics.reductions import standard_error_of_mean
from calibrant.numerics.row_blocks import row_blocks
from calibrant.objective import ArraySource
from calibrant.options import is_whole
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["PointFold", "PointLosses", "as_they_came", "better_floor", "point_folds", "uncalibrated_losses"]


DECIMALS = 12  # to which sums of squares do not depend on the order of their terms


@dataclass(frozen=True, eq=False)
class PointFold:
    """One fold of the points; both sides are copied on demand, so that not all folds are in memory at once.

    Attributes
    ----------
    train, test : callable
        Return the training points and the test points.
    train_weight : float
        Total weight of the training points.
    """

    train: Callable[[], Points]
    test: Callable[[], Points]
    train_weight: float


def point_folds(points: Points, data: LabelledPredictions, cv: Any) -> list[PointFold]:
    """Return training and test points of every fold.

    A training neighbourhood must not contain a duplicate of a test row, whose label it would reveal. So folds are over
    points, not rows: rows with equal predictions fall into the same fold. A row of weight 2 is equivalent to a repeated
    row, in any order of rows and classes. Splits of a splitter, or given splits, are used as they are. Keeps one or two bytes
    per point, and a block in memory.

    Parameters
    ----------
    points : Points
        Those of ``data``.
    data : LabelledPredictions
        Calibration rows.
    cv : int, splitter or iterable of splits
        The user's choice.
    """
    check_cv_parameter(cv)
    if not is_whole(cv, 2):

        def of_rows(rows: Any, weights: Any) -> Points:
            return Points.of(data.take(rows, weights))

        return [
            PointFold(
                partial(of_rows, fold.train_rows, fold.train_weights),
                partial(of_rows, fold.test_rows, fold.test_weights),
                float(len(fold.train_rows) if fold.train_weights is None else fold.train_weights.sum()),
            )
            for fold in folds_of(cv, data)
        ]
    if points.n_points < 2:
        return []
    numbers = fold_numbers(_keys(points, data), None, min(int(cv), points.n_points))
    assert numbers.fold_of is not None
    fold_of = numbers.fold_of
    return [
        PointFold(
            partial(lambda fold: points.take(fold_of != fold), fold),
            partial(lambda fold: points.take(fold_of == fold), fold),
            float(points.weights[fold_of != fold].sum()),
        )
        for fold in range(numbers.n_folds)
    ]


def _keys(points: Points, data: LabelledPredictions) -> Iterator[NDArray[np.float64]]:
    """Yield sort keys of points, lazily; they do not depend on the order of the classes."""
    p = points.probabilities.astype(np.float64, copy=False)
    yield p.max(axis=1)
    yield p.min(axis=1)
    squares = np.einsum("ik,ik->i", p, p)
    yield squares.round(DECIMALS)
    order = canonical_class_order(ArraySource(data))
    factors = np.random.default_rng(0).uniform(1, 2, p.shape[1])
    yield np.concatenate(
        [
            np.multiply(p[rows][:, order], factors, order="C").sum(axis=1)
            for rows in row_blocks(len(p), p.shape[1])
        ]
    )


# Replaces exact zeros, which ``crop="outside"`` leaves, in the comparison of losses.
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
        """Return the excess of log-loss and Brier score over another prediction, each with its standard error.

        Standard errors are clustered by points, since equal rows are dependent.
        """
        differences = self.log - other.log, self.brier - other.brier
        log, brier = (
            (float(np.average(terms, weights=self.weights)), standard_error_of_mean(terms, self.weights))
            for terms in differences
        )
        return log, brier


def uncalibrated_losses(points: Points, floor: float, crop: Crop, epsilon: float) -> PointLosses:
    """Return the losses of uncalibrated points, with the better treatment of zeros.

    Zeros are either raised to the floor, as for all methods, or cropped, as after a correction. With only one of the two, a
    correction could gain merely by another treatment of zeros.
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
    """Return the replacement of exact zeros for the identity: epsilon, or the floor if that has a lower loss."""
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
    """Return uncalibrated predictions, with a floor in rows with exact zeros."""
    if given.space is Space.LOGITS:
        return given.without_zeros()
    return given.with_probabilities(given.scores.then(Floor(floor, only_zeros=True)))
