"""Check that the scores of a file have the declared space, or the space of the fit of a calibrator."""

from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from calibrant.calibrator import Calibrator
from calibrant.cli.console import note
from calibrant.cli.definitions import AS_DECLARED
from calibrant.errors import PredictionError
from calibrant.predictions import Predictions
from calibrant.space import Space, log_odds_look_like_probabilities, look_like_probabilities
from calibrant.tables.columns import ScoreColumns
from calibrant.tables.roles import space_in_name

__all__ = ["check_declared", "check_meaning", "noting_probabilities"]


def check_declared(path: Path, predictions: Predictions) -> None:
    """Reject scores declared as logits that look like probabilities, unless the user insists."""
    context = click.get_current_context(silent=True)
    if predictions.space is not Space.LOGITS or (context is not None and context.meta.get(AS_DECLARED)):
        return
    if look_like_probabilities(predictions.scores):
        raise PredictionError(
            f"{path}: these look like probabilities, all between 0 and 1 with rows that sum to 1; say --space probabilities, "
            "or add --as-declared if they are logits."
        )
    if log_odds_look_like_probabilities(predictions.scores):
        note("all log-odds are between 0 and 1, like probabilities; say --space probabilities if they are.")


def check_meaning(path: Path, calibrator: Calibrator, columns: ScoreColumns, space: str | None) -> None:
    """Reject columns, or an array, whose names indicate another space than that of the fit."""
    if space is not None:
        return  # the user has declared it
    expected = Space(calibrator.space_)
    other = Space.PROBABILITIES if expected is Space.LOGITS else Space.LOGITS
    for name in columns.names:
        if space_in_name(name) is other:
            raise PredictionError(
                f"{path}: the name {name!r} suggests {other.value}, but the calibrator was fitted to {expected.value}; say "
                f"--space {other.value} or --space {expected.value}."
            )


def noting_probabilities(calibrator: Calibrator) -> Callable[[Predictions], NDArray[np.floating]]:
    """Return the function that calibrates rows; it prints a note if logits look like probabilities."""
    is_first = calibrator.space_ == Space.LOGITS.value

    def calibrated(predictions: Predictions) -> NDArray[np.floating]:
        nonlocal is_first
        if is_first and look_like_probabilities(predictions.scores):
            note(
                "these look like probabilities, but the calibrator was fitted to logits; say --space probabilities if "
                "they are."
            )
        is_first = False
        return np.asarray(calibrator.predict_proba(predictions))

    return calibrated
