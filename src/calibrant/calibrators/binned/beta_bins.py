"""Bins whose unknown frequency has a beta distribution."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln

from calibrant.calibrators.binned.equal_mass_models import Partitions, bin_boundaries
from calibrant.numerics.isotonic import Levels

__all__ = ["BetaBins", "BinPrior", "LevelCounts"]

Vector = NDArray[np.float64]

# A beta distribution wants positive parameters, also for a bin of no width at 0 or 1.
SMALLEST_PARAMETER = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class BetaBins:
    r"""Bins of several models, each with its rows by outcome and a beta prior for the frequency of the event.

    Attributes
    ----------
    happened, failed : ndarray of shape (bins of all models,)
        Weight of the rows of each bin with the event and without.
    alpha, beta : ndarray of the same shape
        Parameters of the priors.
    """

    happened: Vector
    failed: Vector
    alpha: Vector
    beta: Vector

    @property
    def log_evidence(self) -> Vector:
        r"""Logarithm of the probability of the outcomes in each bin, averaged over the prior.

        .. math:: \log \int_0^1 \theta^m (1 - \theta)^{n - m}\, \mathrm{Beta}(\theta; \alpha, \beta)\, d\theta
            = \log \frac{\mathrm{B}(m + \alpha, n - m + \beta)}{\mathrm{B}(\alpha, \beta)}
        """
        evidence: Vector = betaln(self.happened + self.alpha, self.failed + self.beta) - betaln(
            self.alpha, self.beta
        )
        return evidence

    @property
    def posterior_mean(self) -> tuple[Vector, Vector]:
        """Mean probability that the event does not happen and that it does, given the rows; never zero."""
        failed, happened = self.failed + self.beta, self.happened + self.alpha
        return failed / (failed + happened), happened / (failed + happened)

    @property
    def accuracy(self) -> tuple[Vector, Vector]:
        """Share of the rows without and with the event."""
        total = self.failed + self.happened
        # A bin of no weight, but for the rounding of sums of very unequal weights, has no share.
        counted = np.where(total > 0, total, 1.0)
        happened = np.where(total > 0, self.happened / counted, 0.5)
        return np.where(total > 0, self.failed / counted, 0.5), happened


@dataclass(frozen=True)
class BinPrior:
    """Beta priors that believe the middle of each bin.

    Attributes
    ----------
    weight : float
        How many rows the priors count for.
    per_bin : bool
        Whether each bin counts for so many, or all bins of a model together, with equal parts.
    margin : float
        How far the means stay away from 0 and 1.
    """

    weight: float
    per_bin: bool
    margin: float

    def parameters(
        self, n_bins: NDArray[np.intp], middle: Vector, complement: Vector
    ) -> tuple[Vector, Vector]:
        """Return the parameters of the bins of models that have ``n_bins`` each, one model after the other.

        >>> middle, complement = np.array([0.25, 0.75]), np.array([0.75, 0.25])
        >>> BinPrior(2.0, per_bin=False, margin=0.0).parameters(np.array([2]), middle, complement)
        (array([0.25, 0.75]), array([0.75, 0.25]))
        """
        share = self.weight / (1 if self.per_bin else np.repeat(n_bins, n_bins))
        alpha, beta = (
            np.maximum(share * np.clip(mean, self.margin, 1 - self.margin), SMALLEST_PARAMETER)
            for mean in (middle, complement)
        )
        return alpha, beta


@dataclass(frozen=True, eq=False)
class LevelCounts:
    """Rows below each of m levels by outcome, so that those of any bin are a difference.

    Attributes
    ----------
    boundaries : ndarray of shape (m + 1,)
        What separates the levels, from 0 to 1.
    happened, failed : ndarray of shape (m + 1,)
        Weight of the rows below each level, and last of all rows, with the event and without.
    """

    boundaries: Vector
    happened: Vector
    failed: Vector

    @classmethod
    def of(cls, rows: Levels) -> Self:
        """Add up the rows of levels whose scores lie between 0 and 1; O(m)."""
        # Both added up for themselves: a difference of two long sums could be a little below zero.
        failures = np.maximum(rows.weight - rows.outcome_sum, 0.0)
        happened, failed = (np.concatenate([[0.0], np.cumsum(sums)]) for sums in (rows.outcome_sum, failures))
        return cls(bin_boundaries(rows.score.astype(np.float64)), happened, failed)

    @property
    def mass(self) -> Vector:
        """Weight of the rows below each level, and last of all rows, (m + 1,)."""
        return self.happened + self.failed

    def bins(self, models: Partitions, prior: BinPrior) -> BetaBins:
        """Return the bins of some models with their priors; O(1) for each."""
        left, right = self.boundaries[models.low], self.boundaries[models.high]
        # Not one minus the middle, which near one would lose its digits.
        alpha, beta = prior.parameters(models.n_bins, (left + right) / 2, ((1 - left) + (1 - right)) / 2)
        happened = self.happened[models.high] - self.happened[models.low]
        failed = self.failed[models.high] - self.failed[models.low]
        return BetaBins(happened, failed, alpha, beta)
