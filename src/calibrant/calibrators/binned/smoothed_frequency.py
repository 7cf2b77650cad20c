"""Smoothed frequency: the share of rows with the event, with a few rows added that nobody saw."""

from dataclasses import dataclass

import numpy as np

from calibrant.arrays import Vector

__all__ = ["SmoothedFrequency"]


@dataclass(frozen=True)
class SmoothedFrequency:
    r"""Frequency of the event among the rows of a bin and :math:`2 s` imagined ones.

    .. math:: v = \frac{P + 2 s m}{W + 2 s}

    for weight W, of which P with the event. With m = 1/2 and s = 1 this is Laplace's rule of succession.

    Attributes
    ----------
    prior : float
        Frequency m of the event among the imagined rows.
    smoothing : float
        Half of their number, s; zero for raw frequencies.

    Examples
    --------
    >>> SmoothedFrequency(0.5, 1.0)(np.array([0.0, 3.0, 0.0]), np.array([2.0, 3.0, 0.0]), 0.9)
    array([0.25, 0.8 , 0.9 ])
    """

    prior: float
    smoothing: float

    def __call__(self, positives: Vector, weight: Vector, if_empty: Vector | float) -> Vector:
        """Return the value of every bin; that of a bin without weight is ``if_empty``."""
        added = 2 * self.smoothing
        filled = weight > 0
        frequency = (positives + added * self.prior) / (np.where(filled, weight, 1.0) + added)
        return np.where(filled, frequency, if_empty)

    def extremes(self, total: float) -> tuple[float, float]:
        """Return the lowest and the highest value that any bin of these rows can have."""
        added = 2 * self.smoothing
        return added * self.prior / (total + added), (total + added * self.prior) / (total + added)
