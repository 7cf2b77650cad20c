"""Whether a file has the kind of scores that a calibrator was fitted on, if nobody says."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrator import Calibrator
from calibrant.cli.notes import note
from calibrant.errors import PredictionError
from calibrant.predictions import ROW_SUM_TOLERANCE, Predictions
from calibrant.space import Space
from calibrant.tables.score_columns import ScoreColumns

__all__ = ["check_meaning", "noting_probabilities"]

MEANINGS = {
    Space.PROBABILITIES: {"probabilities", "probability", "probs", "prob", "proba"},
    Space.LOGITS: {"logits", "logit"},
}


def check_meaning(path: Path, calibrator: Calibrator, columns: ScoreColumns, space: str | None) -> None:
    """Refuse columns, or an array, whose names say another kind of scores than the calibrator was fitted on."""
    if space is not None:
        return  # somebody says so
    expected = Space(calibrator.space_)
    other = Space.PROBABILITIES if expected is Space.LOGITS else Space.LOGITS
    for name in columns.names:
        if MEANINGS[other].intersection(re.split(r"[^a-z]+", name.lower())):
            raise PredictionError(
                f"{path}: {name!r} is a name for {other.value}, but the calibrator was fitted on {expected.value}; say "
                f"--space {other.value} or --space {expected.value}, whichever they are."
            )


def noting_probabilities(calibrator: Calibrator) -> Callable[[Predictions], NDArray[np.floating]]:
    """Return what calibrates rows, with a note if the first ones look like probabilities taken for logits."""
    is_first = calibrator.space_ == Space.LOGITS.value

    def calibrated(predictions: Predictions) -> NDArray[np.floating]:
        nonlocal is_first
        if is_first and _look_like_probabilities(predictions.scores):
            note(
                "these look like probabilities, but the calibrator was fitted on logits; say --space probabilities if "
                "they are."
            )
        is_first = False
        return calibrator.predict_proba(predictions)

    return calibrated


def _look_like_probabilities(scores: NDArray[np.floating]) -> bool:
    if scores.min() < 0 or scores.max() > 1:
        return False
    return bool(np.abs(scores.sum(axis=1, dtype=np.float64) - 1).max() <= ROW_SUM_TOLERANCE)
