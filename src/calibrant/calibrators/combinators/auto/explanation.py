"""The table of all candidates, and the explanation of a choice in a few sentences."""

from typing import Any

import numpy as np

from calibrant.arrays import Vector
from calibrant.calibrators.combinators.auto.gain import Gain, gain_in_words
from calibrant.calibrators.combinators.auto.trials import GIVEN_UP, IDENTITY, Trials
from calibrant.presentation.sentences import counted

__all__ = ["decision_table", "in_words"]


SHOWN = 4  # components in the explanation


def decision_table(trials: Trials, weights: Vector) -> dict[str, Any]:
    """Return a table of all candidates as columns, see ``AutoCalibration.decision_``."""
    identity = trials.evaluated[0].losses
    assert identity is not None
    of_name = dict(zip([trial.candidate.name for trial in trials.evaluated], weights, strict=True))
    loss, gain, error = np.full((3, len(trials.trials)), np.nan)
    for place, trial in enumerate(trials.trials):
        if trial.losses is not None:
            gains = identity - trial.losses
            loss[place] = np.average(trial.losses, weights=trials.weights)
            gain[place] = np.average(gains, weights=trials.weights)
            error[place] = trials.standard_error(gains)
    return {
        "candidate": [trial.candidate.name for trial in trials.trials],
        "weight": np.array([of_name.get(trial.candidate.name, 0.0) for trial in trials.trials]),
        "loss": loss,
        "gain": gain,
        "standard_error": error,
        "seconds": np.array([trial.seconds for trial in trials.trials]),
        "note": [trial.note for trial in trials.trials],
    }


def in_words(
    table: dict[str, Any], gain: Gain, rejected: str, n_rows: int, n_folds: int, measured: str = ""
) -> str:
    """Return a few sentences: the selection, its gain and the confidence interval of the gain.

    ``rejected`` is the reason to keep the identity instead of the selection, or empty. ``measured`` says how the losses
    differ from those of the given probabilities, or is empty.
    """
    order = np.argsort(-table["weight"], kind="stable")
    chosen = [place for place in order if table["weight"][place] > 0]
    names = [table["candidate"][place] for place in chosen]
    left_out = sum(note not in ("", GIVEN_UP) for note in table["note"])
    missing = f" {counted(left_out, 'candidate')} could not be evaluated, see decision_." if left_out else ""
    if rejected:
        what = f"The identity map is kept: {rejected}."
        subject = "rejected selection"
    elif names == [IDENTITY]:
        what = "The identity map is kept: no candidate is clearly better."
        subject = "selection procedure"
    elif len(names) == 1:
        what = f"Selected: {names[0]}."
        subject = "selection procedure"
    else:
        parts = [
            f"{100 * table['weight'][place]:.0f} % {name}" for name, place in zip(names, chosen, strict=True)
        ]
        more = f" and {len(parts) - SHOWN} more" if len(parts) > SHOWN else ""
        what = f"Selected: a pool of {', '.join(parts[:SHOWN])}{more}."
        subject = "pool"
    losses = f" Losses are measured {measured}." if measured else ""
    return f"{what} {gain_in_words(subject, gain, n_rows, n_folds)}{losses}{missing}"
