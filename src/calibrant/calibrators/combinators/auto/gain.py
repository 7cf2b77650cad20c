"""Gain over the uncalibrated predictions, with an interval that includes the variance of the fits."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from calibrant.arrays import Vector
from calibrant.calibrators.combinators.auto.trials import Trials
from calibrant.numerics.fit_error import FEW_MISTAKES, FitMargins
from calibrant.presentation.sentences import counted

__all__ = ["Gain", "gain_in_words"]


@dataclass(frozen=True)
class Gain:
    """Reduction of the held-out log-loss, compared with the uncalibrated predictions.

    Attributes
    ----------
    identity_loss, loss : float
        Mean log-loss of the uncalibrated predictions and of the selection.
    standard_error : float
        Standard error of their difference over rows or groups, given the fits.
    n_mistakes : int
        Rows that the classifier itself misclassifies.
    n_observations : float
        Number of rows, or of groups.
    optimism : float
        Held-out loss minus the loss of the fit on its own rows, in nats per row; NaN if nothing was fitted.
    """

    identity_loss: float
    loss: float
    standard_error: float
    n_mistakes: int
    n_observations: float
    optimism: float = np.nan

    @classmethod
    def of(cls, losses: Vector, trials: Trials) -> "Gain":
        """Compare held-out losses with those of the first candidate, the identity."""
        identity = trials.evaluated[0].losses
        assert identity is not None
        return cls(
            float(np.average(identity, weights=trials.weights)),
            float(np.average(losses, weights=trials.weights)),
            trials.standard_error(identity - losses),
            trials.n_mistakes,
            float(trials.weights.sum()),
        )

    def of_fit(self, own_losses: Vector, trials: Trials) -> "Gain":
        """Return the gain of maps with these losses on their own rows."""
        own = float(np.average(own_losses[trials.rows], weights=trials.weights))
        return replace(self, optimism=max(self.loss - own, 0.0))

    @property
    def value(self) -> float:
        """Reduction of the log-loss, in nats per row."""
        return self.identity_loss - self.loss

    def interval(self, level: float = 0.95) -> tuple[float, float] | None:
        """Return the interval of the gain of the fitted maps on new rows; None where there is no valid one.

        The sampling error of the rows and the margins of the fit, see :class:`FitMargins`, are added as squares.
        """
        if self.n_mistakes < FEW_MISTAKES or not np.isfinite(self.standard_error + self.optimism):
            return None
        sampling = -float(ndtri((1 - level) / 2)) * self.standard_error
        margins = FitMargins.of(self.optimism, self.n_observations, level)
        return (
            self.value - float(np.hypot(sampling, margins.below)),
            self.value + float(np.hypot(sampling, margins.above)),
        )


def gain_in_words(subject: str, gain: Gain, n_rows: int, n_folds: int) -> str:
    """Return a sentence on the gain over the uncalibrated predictions, with its confidence interval."""
    rows = f"{counted(n_rows, 'row')} in {counted(n_folds, 'fold')}"
    losses = f"Held-out log-loss of the {subject} {gain.loss:.4f}, uncalibrated {gain.identity_loss:.4f}"
    ends = gain.interval()
    if gain.n_mistakes < FEW_MISTAKES or not np.isfinite(gain.standard_error):
        mistakes = counted(gain.n_mistakes, "misclassified row")
        return f"{losses}; {mistakes} among {rows} are too few for a confidence interval."
    if ends is None:
        return f"{losses} ({rows})."
    low, high = ends
    interval = f"gain {gain.value:.4f}, 95 % confidence interval {low:.4f} to {high:.4f}, {rows}"
    if low <= 0 <= high:
        return f"{losses}: no significant difference ({interval})."
    return f"{losses}: significantly {'better' if gain.value > 0 else 'worse'} ({interval})."
