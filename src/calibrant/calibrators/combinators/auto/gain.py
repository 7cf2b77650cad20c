"""Gain over the uncalibrated predictions, with an interval that includes the variance of the fits."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtri, ndtri

from calibrant.arrays import Vector
from calibrant.calibrators.combinators.auto.trials import Trials
from calibrant.presentation.sentences import counted

__all__ = ["FEW_MISTAKES", "Gain", "gain_in_words"]

# With fewer misclassified rows a few large losses dominate, and a normal interval of their mean is not valid.
FEW_MISTAKES = 10


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
        r"""Return the interval of the gain of the fitted maps on new rows; None where there is no valid one.

        Let P be the number of parameters that the rows determine. A fit to n rows loses :math:`\chi^2_P / (2 n)` nats per
        new row against the best map, and gains as much on its own rows. The held-out gain is an estimate of the gain on the
        own rows minus P / n, so its error has, besides the sampling error of the rows, the part
        :math:`(\chi^2_P - P) / n` with the variance :math:`2 P / n^2`. The rows' own differences tell P: the loss on
        held-out rows minus that on the rows of the fit is about P / n. Both parts are added as squares; below, the
        quantile of :math:`\chi^2_P` replaces the normal one, since fits that seem best by chance lose most.
        """
        if self.n_mistakes < FEW_MISTAKES or not np.isfinite(self.standard_error + self.optimism):
            return None
        tail = (1 - level) / 2
        sampling = -float(ndtri(tail)) * self.standard_error
        n_parameters = max(self.optimism * self.n_observations, 1.0) if self.optimism > 0 else 0.0
        below = float(chdtri(n_parameters, tail)) - n_parameters if n_parameters else 0.0
        above = -float(ndtri(tail)) * (2 * n_parameters) ** 0.5
        return (
            self.value - float(np.hypot(sampling, below / self.n_observations)),
            self.value + float(np.hypot(sampling, above / self.n_observations)),
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
