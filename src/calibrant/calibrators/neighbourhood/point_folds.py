"""Folds of calibration points, so that equal predictions are all on the same side."""

from typing import Any

import numpy as np

from calibrant.calibrators.inner_folds import check_cv_parameter, folds_of
from calibrant.calibrators.neighbourhood.points import Points
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.folds import folds_by_content
from calibrant.options import is_whole

__all__ = ["point_folds"]

Split = tuple[Points, Points]


def point_folds(points: Points, data: LabelledPredictions, cv: Any) -> list[Split]:
    """Return points to learn from and points to judge by, for every fold.

    A neighbourhood that holds a copy of the very row it is judged by knows its label. A number of folds therefore
    deals out points, not rows: rows that are given twice, that count twice, or that only look the same, stay
    together. What weighs two and what is given twice are dealt out alike, in any order of rows and of classes. A
    splitter of scikit-learn, or splits, are taken at their word.

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
        return [
            (
                Points.of(data.take(fold.train_rows, fold.train_weights)),
                Points.of(data.take(fold.test_rows, fold.test_weights)),
            )
            for fold in folds_of(cv, data)
        ]
    if points.n_points < 2:
        return []
    p = points.probabilities.astype(np.float64)
    # Numbers that do not depend on the order of the classes; the last one parts what these leave equal.
    keys = (p.max(axis=1), p.min(axis=1), (p * p).sum(axis=1), p @ np.arange(1, p.shape[1] + 1))
    folds = folds_by_content(keys, None, min(int(cv), points.n_points))
    return [(points.take(fold.train_rows), points.take(fold.test_rows)) for fold in folds]
