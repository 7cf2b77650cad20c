"""Out-of-fold predictions: what an estimator says about rows that it was not trained on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import _safe_split

from calibrant.calibrators.combinators.estimator_response import (
    estimator_response,
    known_columns,
    response_method,
)
from calibrant.calibrators.combinators.training_rows import TrainingRows
from calibrant.predictions import Predictions

__all__ = ["HeldOut", "asked", "hold_out", "pool"]

Rows = NDArray[np.intp]


@dataclass(frozen=True, eq=False, repr=False)
class HeldOut:
    """One trained estimator and what it says about rows kept from it.

    Attributes
    ----------
    estimator : classifier
        Trained on other rows.
    response : str
        The method it was asked with.
    rows : ndarray of shape (m,)
        The held-out rows whose class the estimator knows.
    predictions : Predictions of m rows
        For all K classes.
    unknown_rows : ndarray
        The held-out rows of a class that the estimator was trained without. They cannot count: whatever
        the row, it gives their class no probability, which says nothing on how it errs elsewhere, but would
        outweigh all other rows in a log-loss.
    """

    estimator: Any
    response: str
    rows: Rows
    predictions: Predictions
    unknown_rows: Rows


def hold_out(estimator: Any, training: TrainingRows, train: Rows, test: Rows, response: str) -> HeldOut:
    """Train a clone of ``estimator`` on the rows ``train`` and ask it about the rows ``test``."""
    X, _ = _safe_split(estimator, training.X, None, test, train)
    return asked(training.trained(estimator, train), X, training, test, response)


def asked(estimator: Any, X: Any, training: TrainingRows, rows: Rows, response: str) -> HeldOut:
    """Ask a trained estimator about ``X``, which are the given rows of the training data."""
    method = response_method(estimator, response)
    predictions = estimator_response(estimator, X, method, training.classes)
    known = np.isin(training.codes[rows], known_columns(estimator, training.classes))
    if known.all():
        return HeldOut(estimator, method, rows, predictions, rows[:0])
    return HeldOut(estimator, method, rows[known], predictions.take(known), rows[~known])


def pool(parts: Sequence[HeldOut], n_rows: int) -> tuple[Rows, Predictions]:
    r"""Return the rows held out at least once, and the mean of what was said about each.

    .. math:: \bar z_i = \frac{1}{|S_i|} \sum_{s \in S_i} z_i^{(s)}

    where :math:`S_i` are the splits that hold row i out and z are probabilities or logits, as the
    estimators gave them. Splits may overlap and need not cover all rows; where they do neither, this is
    scikit-learn's ``cross_val_predict``. Costs O(nK) beyond the predictions.
    """
    first = parts[0].predictions
    totals = np.zeros((n_rows, first.n_classes))
    times = np.zeros(n_rows)
    for part in parts:
        # Not "+=", since a bootstrap may hold the same row out twice in one split.
        np.add.at(totals, part.rows, part.predictions.scores)
        np.add.at(times, part.rows, 1)
    rows = np.flatnonzero(times)
    means = totals[rows] / times[rows, np.newaxis]
    return rows, Predictions(means.astype(first.scores.dtype), first.space)
