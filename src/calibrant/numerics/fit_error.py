"""Error of a held-out gain as an estimate of the gain of the fitted map: what fitting costs is random."""

from typing import NamedTuple

from scipy.special import chdtri, ndtri

__all__ = ["FEW_MISTAKES", "FitMargins"]

# With fewer misclassified rows a few large losses dominate, and an interval of their mean is not valid.
FEW_MISTAKES = 10


class FitMargins(NamedTuple):
    """Distances of the gain on new rows below and above its held-out estimate that estimation error explains."""

    below: float
    above: float

    @classmethod
    def of(cls, optimism: float, n_observations: float, level: float) -> "FitMargins":
        r"""Return the margins for a two-sided level.

        Let P be the number of parameters that the rows determine. A fit to n rows loses :math:`\chi^2_P / (2 n)` nats per new
        row against the best map, and gains as much on its own rows. The held-out gain is an estimate of the gain on the own
        rows minus P / n. So its error has, besides the sampling error of the rows, the part :math:`(\chi^2_P - P) / n`, with
        variance :math:`2 P / n^2`. The optimism, the held-out loss minus the loss on the rows of the fit, is about P / n. The
        margin below is a quantile of :math:`\chi^2_P`, since fits that seem best by chance lose most; the margin above is
        that of the normal approximation, which is larger.

        >>> margins = FitMargins.of(optimism=0.02, n_observations=200, level=0.95)
        >>> round(margins.below, 4), round(margins.above, 4)           # 4 parameters
        (0.0357, 0.0277)
        """
        if optimism <= 0:
            return cls(0.0, 0.0)
        tail = (1 - level) / 2
        n_parameters = max(optimism * n_observations, 1.0)
        below = float(chdtri(n_parameters, tail)) - n_parameters
        above = -float(ndtri(tail)) * (2 * n_parameters) ** 0.5
        return cls(below / n_observations, above / n_observations)
