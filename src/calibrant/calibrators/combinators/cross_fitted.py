"""What a calibrator gives out for rows that it was not fitted on, for the stage that comes after it."""

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from calibrant.calibrator import Calibrator
from calibrant.calibrators.inner_folds import folds_of
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.folds import Fold
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["cross_fitted"]


def cross_fitted(
    calibrator: Calibrator, data: LabelledPredictions, folds: Any, space: Space
) -> LabelledPredictions:
    """Return the rows with what clones of a calibrator say about them, each fitted on the other folds.

    Parameters
    ----------
    calibrator : Calibrator
        Cloned for every fold.
    data : LabelledPredictions
        Calibration rows.
    folds : int, splitter or splits
        As in :func:`~calibrant.calibrators.inner_folds.folds_of`. A row that several splits hold out comes as often,
        one that none does not come at all; a row whose weight is shared between two folds comes twice.
    space : Space
        Whether probabilities or logits are wanted: what the calibrator gives when fitted on all rows.
    """
    parts = [
        _held_out(calibrator, data, fold, number)
        for number, fold in enumerate(folds_of(folds, data, "cross_fit"))
    ]
    scores = [
        part.predictions.probabilities if space is Space.PROBABILITIES else part.predictions.logits
        for part in parts
    ]
    weights = None if data.weights is None else np.concatenate([part.weights for part in parts])
    return LabelledPredictions(
        Predictions(np.concatenate(scores), space, data.predictions.classes),
        np.concatenate([part.labels for part in parts]),
        data.classes,
        weights,
        None if data.groups is None else np.concatenate([part.groups for part in parts]),
    )


def _held_out(
    calibrator: Calibrator, data: LabelledPredictions, fold: Fold, number: int
) -> LabelledPredictions:
    train = data.take(fold.train_rows, fold.train_weights)
    if np.count_nonzero(train.class_weights) < 2:
        raise ParameterError(
            f"cross_fit leaves one class only to fit on when fold {number} is held out; "
            "take fewer folds, or cross_fit=None."
        )
    fitted = clone(calibrator).fit_labelled(train, warn_of_absent=False)
    test = data.take(fold.test_rows, fold.test_weights)
    return replace(test, predictions=fitted.transform(test.predictions))
