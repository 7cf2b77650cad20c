"""Whether a file has the kind of scores that was declared, or that a calibrator was fitted on."""

import re
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from calibrant.calibrator import Calibrator
from calibrant.cli.notes import note
from calibrant.cli.options import AS_DECLARED
from calibrant.errors import PredictionError
from calibrant.mistaken_space import log_odds_look_like_probabilities, look_like_probabilities
from calibrant.predictions import Predictions
from calibrant.space import Space
from calibrant.tables.score_columns import ScoreColumns

__all__ = ["check_declared", "check_meaning", "noting_probabilities"]

MEANINGS = {
    Space.PROBABILITIES: {"probabilities", "probability", "probs", "prob", "proba"},
    Space.LOGITS: {"logits", "logit"},
}


def check_declared(path: Path, predictions: Predictions) -> None:
    """Refuse probabilities that were declared as logits, unless the user insists."""
    context = click.get_current_context(silent=True)
    if predictions.space is not Space.LOGITS or (context is not None and context.meta.get(AS_DECLARED)):
        return
    if look_like_probabilities(predictions.scores):
        raise PredictionError(
            f"{path}: these look like probabilities, all between 0 and 1 with rows that sum to 1; say --space probabilities, "
            "or add --as-declared if they are logits."
        )
    if log_odds_look_like_probabilities(predictions.scores):
        note(
            "all log-odds are between 0 and 1, as probabilities are; say --space probabilities if that is what they are."
        )


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
        if is_first and look_like_probabilities(predictions.scores):
            note(
                "these look like probabilities, but the calibrator was fitted on logits; say --space probabilities if "
                "they are."
            )
        is_first = False
        return calibrator.predict_proba(predictions)

    return calibrated
