"""Scores of a file as predictions, with errors that name the place in the file."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import PredictionError
from calibrant.predictions import ROW_SUM_TOLERANCE, Predictions
from calibrant.space import Space
from calibrant.tables.batch import Batch
from calibrant.tables.score_columns import ScoreColumns, listed

__all__ = ["parsed_scores"]

ADVICE = "declare the space as logits if these are logits, or choose the columns"


def parsed_scores(path: Path, batch: Batch, columns: ScoreColumns, space: Space) -> Predictions:
    """Return the scores of a batch as predictions; one column is the positive class of two."""
    scores = batch.scores(columns.names)
    if space is Space.LOGITS:
        return Predictions.from_logits(scores)
    _check_probabilities(path, batch, columns, scores)
    return Predictions.from_probabilities(scores)


def _check_probabilities(
    path: Path, batch: Batch, columns: ScoreColumns, scores: NDArray[np.floating]
) -> None:
    """Refuse what is no probability here, where rows and columns have the numbers and names of the file."""
    outside = (scores < 0) | (scores > 1 + ROW_SUM_TOLERANCE)
    if outside.any():
        row, number = divmod(int(np.argmax(outside)), scores.shape[1])
        raise PredictionError(
            f"{path}: {batch.place(row)}, column {_name(columns, number)} is {scores[row, number]:.6g}, which is no "
            f"probability; {ADVICE}."
        )
    if scores.shape[1] == 1:
        if scores.max() > 1:
            np.minimum(scores, 1, out=scores)
        return
    totals = scores.sum(axis=1, dtype=np.float64)
    wrong = np.abs(totals - 1) > ROW_SUM_TOLERANCE
    if wrong.any():
        row = int(np.argmax(wrong))
        raise PredictionError(
            f"{path}: the probabilities in {batch.place(row)} sum to {totals[row]:.6g} and not to 1, over the columns "
            f"{listed(columns.classes)}; {ADVICE}."
        )


def _name(columns: ScoreColumns, number: int) -> str:
    """Return a column by its name, or by its number within an array."""
    return repr(columns.names[number]) if len(columns.names) == len(columns.classes) else str(number)
