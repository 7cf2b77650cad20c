"""What the automatic choice decided, as a table and in words."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.automatic.candidates import IDENTITY
from calibrant.calibrators.automatic.pooling import Pool
from calibrant.calibrators.automatic.trials import Trials
from calibrant.numerics.weighted_means import standard_error_of_mean
from calibrant.wording import counted

__all__ = ["Gain", "decision_table", "in_words"]

Vector = NDArray[np.float64]

# Two-sided, for intervals in words.
NORMAL_95 = 1.959964
SHOWN = 4  # how many components are named


@dataclass(frozen=True)
class Gain:
    """How much lower than that of doing nothing the log-loss of rows held out is.

    Attributes
    ----------
    identity_loss, loss : float
        Mean log-loss of doing nothing and of the choice.
    standard_error : float
        Of their difference, over rows.
    """

    identity_loss: float
    loss: float
    standard_error: float

    @classmethod
    def of(cls, pool: Pool, trials: Trials) -> "Gain":
        """Compare a pool with the first candidate, the identity."""
        identity = trials.judged[0].losses
        assert identity is not None
        return cls(
            float(np.average(identity, weights=trials.weights)),
            float(np.average(pool.losses, weights=trials.weights)),
            standard_error_of_mean(identity - pool.losses, trials.weights),
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
            error[place] = standard_error_of_mean(gains, trials.weights) if gains.any() else 0.0
    return {
        "candidate": [trial.candidate.name for trial in trials.trials],
        "weight": np.array([of_name.get(trial.candidate.name, 0.0) for trial in trials.trials]),
        "loss": loss,
        "gain": gain,
        "standard_error": error,
        "seconds": np.array([trial.seconds for trial in trials.trials]),
        "note": [trial.note for trial in trials.trials],
    }


def in_words(table: dict[str, Any], gain: Gain, identity_kept: str, n_rows: int, n_folds: int) -> str:
    """Return a few sentences: what was chosen, how much it gains, how sure that is."""
    held_out = _of_rows_held_out(gain, n_rows, n_folds)
    if identity_kept:
        return f"Probabilities are left as they are: {identity_kept}. {held_out}"
    order = np.argsort(-table["weight"], kind="stable")
    chosen = [place for place in order if table["weight"][place] > 0]
    names = [table["candidate"][place] for place in chosen]
    if names == [IDENTITY]:
        return f"Probabilities are left as they are: nothing that was tried does better. {held_out}"
    if len(names) == 1:
        return f"Chosen is {names[0]}. {held_out}"
    parts = [f"{table['weight'][place]:.0%} {name}" for name, place in zip(names, chosen, strict=True)]
    more = f" and {len(parts) - SHOWN} more" if len(parts) > SHOWN else ""
    return f"Chosen is a pool: {', '.join(parts[:SHOWN])}{more}. {held_out}"


def _of_rows_held_out(gain: Gain, n_rows: int, n_folds: int) -> str:
    """Return a sentence on the gain over doing nothing, with its interval."""
    half = NORMAL_95 * gain.standard_error
    rows = f"{counted(n_rows, 'row')} in {counted(n_folds, 'fold')}"
    loss = f"On rows held out its log-loss is {gain.loss:.4f}, that of doing nothing {gain.identity_loss:.4f}"
    if not np.isfinite(half):
        return f"{loss}; {rows} do not say how sure that is."
    low, high = gain.value - half, gain.value + half
    interval = f"gain {gain.value:.4f}, 95 % interval {low:.4f} to {high:.4f}, {rows}"
    if low <= 0 <= high:
        return f"{loss}: no difference that these rows can tell from chance ({interval})."
    return f"{loss}: {'better' if gain.value > 0 else 'worse'} beyond chance ({interval})."
