"""What the automatic choice decided, as a table and in words."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.automatic.candidates import IDENTITY
from calibrant.calibrators.automatic.pooling import Pool
from calibrant.calibrators.automatic.trials import Trials
from calibrant.wording import counted

__all__ = ["Gain", "decision_table", "in_words"]

Vector = NDArray[np.float64]

# Two-sided, for intervals in words.
NORMAL_95 = 1.959964
SHOWN = 4  # how many components are named
# Mistakes of the classifier below which the losses of a few rows decide, and a normal interval of their mean says little.
FEW_MISTAKES = 10


@dataclass(frozen=True)
class Gain:
    """How much lower than that of doing nothing the log-loss of rows held out is.

    Attributes
    ----------
    identity_loss, loss : float
        Mean log-loss of doing nothing and of the choice.
    standard_error : float
        Of their difference, over rows or groups of them, for the fits as they are.
    n_mistakes : int
        Rows that the classifier itself gets wrong.
    """

    identity_loss: float
    loss: float
    standard_error: float
    n_mistakes: int

    @classmethod
    def of(cls, pool: Pool, trials: Trials) -> "Gain":
        """Compare a pool with the first candidate, the identity."""
        identity = trials.judged[0].losses
        assert identity is not None
        return cls(
            float(np.average(identity, weights=trials.weights)),
            float(np.average(pool.losses, weights=trials.weights)),
            trials.standard_error(identity - pool.losses),
            trials.n_mistakes,
        )

    @property
    def value(self) -> float:
        """How much is gained, in nats a row."""
        return self.identity_loss - self.loss


def decision_table(trials: Trials, weights: Vector) -> dict[str, Any]:
    """Return a table of all candidates as columns, see ``AutoCalibration.decision_``."""
    identity = trials.judged[0].losses
    assert identity is not None
    of_name = dict(zip([trial.candidate.name for trial in trials.judged], weights, strict=True))
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
    """Return a few sentences: what was chosen, how much it gains, how sure that is.

    ``rejected`` says why the identity was kept in place of what the rows held out would choose; empty if it was not.
    ``measured`` says where losses are not those of the probabilities as they are given.
    """
    order = np.argsort(-table["weight"], kind="stable")
    chosen = [place for place in order if table["weight"][place] > 0]
    names = [table["candidate"][place] for place in chosen]
    left_out = sum(note != "" for note in table["note"])
    missing = f" {counted(left_out, 'candidate')} could not be judged, see decision_." if left_out else ""
    if rejected:
        what = f"Probabilities are left as they are: {rejected}."
        subject = "What would have been chosen"
    elif names == [IDENTITY]:
        what = "Probabilities are left as they are: nothing that was tried is clearly better."
        subject = "What such a choice gives"
    elif len(names) == 1:
        what = f"Chosen is {names[0]}."
        subject = "Such a choice"
    else:
        parts = [
            f"{100 * table['weight'][place]:.0f} % {name}" for name, place in zip(names, chosen, strict=True)
        ]
        more = f" and {len(parts) - SHOWN} more" if len(parts) > SHOWN else ""
        what = f"Chosen is a pool: {', '.join(parts[:SHOWN])}{more}."
        subject = "The pool"
    losses = f" Losses are measured {measured}." if measured else ""
    return f"{what} {_of_rows_held_out(subject, gain, n_rows, n_folds)}{losses}{missing}"


def _of_rows_held_out(subject: str, gain: Gain, n_rows: int, n_folds: int) -> str:
    """Return a sentence on the gain over doing nothing, with its interval."""
    rows = f"{counted(n_rows, 'row')} in {counted(n_folds, 'fold')}"
    losses = f"{subject} has a log-loss of {gain.loss:.4f} on rows held out, doing nothing {gain.identity_loss:.4f}"
    half = NORMAL_95 * gain.standard_error
    low, high = gain.value - half, gain.value + half
    interval = f"gain {gain.value:.4f}, 95 % interval {low:.4f} to {high:.4f}, {rows}"
    if gain.n_mistakes < FEW_MISTAKES or not np.isfinite(half):
        mistakes = counted(gain.n_mistakes, "mistake")
        return f"{losses}: with {mistakes} of the classifier in {rows}, too few to say how sure that is."
    if low <= 0 <= high:
        return f"{losses}: no difference that these rows can tell from chance ({interval})."
    return f"{losses}: {'better' if gain.value > 0 else 'worse'} beyond chance ({interval})."
