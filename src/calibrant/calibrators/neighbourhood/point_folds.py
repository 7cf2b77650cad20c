"""Folds of calibration points, so that equal predictions are all on the same side."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.class_order import canonical_class_order
from calibrant.calibrators.inner_folds import check_cv_parameter, folds_of
from calibrant.calibrators.neighbourhood.points import Points
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.folds import fold_numbers
from calibrant.numerics.row_blocks import row_blocks
from calibrant.objective import ArraySource
from calibrant.options import is_whole

__all__ = ["PointFold", "point_folds"]

DECIMALS = 12  # to which sums of squares do not depend on the order of their terms


@dataclass(frozen=True, eq=False)
class PointFold:
    """One fold of the points; both sides are copied when asked for, so that not all folds are in memory at once.

    Attributes
    ----------
    train, test : callable
        Return the points to learn from and the points to judge by.
    train_weight : float
        Total weight of the points to learn from.
    """

    train: Callable[[], Points]
    test: Callable[[], Points]
    train_weight: float


def point_folds(points: Points, data: LabelledPredictions, cv: Any) -> list[PointFold]:
    """Return points to learn from and points to judge by, for every fold.

    A neighbourhood that holds a copy of the very row it is judged by knows its label. A number of folds therefore
    deals out points, not rows: rows that are given twice, that count twice, or that only look the same, stay
    together. What weighs two and what is given twice are dealt out alike, in any order of rows and of classes. A
    splitter of scikit-learn, or splits, are taken at their word. Keeps one or two bytes per point, and a block in memory.

    Parameters
    ----------
    points : Points
        Those of ``data``.
    data : LabelledPredictions
        Calibration rows.
    cv : int, splitter or iterable of splits
        What the user asks for.
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
    """Yield what points are sorted by: numbers that do not depend on the order of the classes, each if it is needed."""
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
