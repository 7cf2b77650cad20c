"""The curve a + b / n: how a loss goes on with more rows to learn from."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Hyperbola"]

Vector = NDArray[np.float64]

# Sizes smaller than the largest by more than this factor say little of how the curve goes on.
MOST_BACK = 8

# Share by which rounding may move a loss.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Hyperbola:
    r"""The loss a + b / n, the law of the excess loss of a fixed number of parameters for many rows n.

    Attributes
    ----------
    asymptote, slope : float
        a and b, neither of them negative: a loss is not, and more rows do no harm on average.
    covariance : ndarray of shape (2, 2)
        Of a and b; infinite where fewer than three points leave nothing to judge the fit by.
    """

    asymptote: float
    slope: float
    covariance: Vector

    @classmethod
    def through(cls, sizes: NDArray[np.intp], losses: Vector) -> Self:
        """Fit by least squares with weights n to sizes of at least an eighth of the largest: the law is one of many rows.

        Infinite and unknown losses are left out, and so are sizes from which the loss falls faster than the law allows:
        by more than a factor m when the rows grow by m.

        >>> fitted = Hyperbola.through(np.array([10, 20, 40]), np.array([0.6, 0.55, 0.525]))
        >>> round(fitted.asymptote, 6), round(fitted.slope, 6)
        (0.5, 1.0)
        """
        known = np.isfinite(losses)
        if known.any():
            known &= MOST_BACK * sizes >= sizes[known].max()
        n, y = sizes[known].astype(np.float64), losses[known]
        # What is left has n y increasing with n; a is the slope of n y on n, and so not negative but by rounding.
        lawless = np.flatnonzero(n[:-1] * y[:-1] > n[1:] * y[1:] * (1 + ROUNDING))
        if len(lawless) and y.min() >= 0:
            n, y = n[lawless[-1] + 1 :], y[lawless[-1] + 1 :]
        unknown = np.diag([np.inf, np.inf])
        if len(n) == 0:
            return cls(np.nan, np.nan, unknown)
        shares, inverse = n / n.sum(), 1 / n
        centred = shares * (inverse - shares @ inverse)
        slope = float(max(centred @ y / (centred @ inverse), 0.0)) if len(n) > 1 else 0.0
        asymptote = max(float(shares @ (y - slope * inverse)), min(float(y.min()), 0.0))
        if len(n) < 3:
            return cls(asymptote, slope, unknown)
        scale = float(n @ (y - asymptote - slope * inverse) ** 2) / (len(n) - 2)
        if slope == 0:
            return cls(asymptote, slope, np.diag([scale / n.sum(), 0.0]))
        design = np.column_stack([np.ones_like(inverse), inverse])
        information = design.T @ (n[:, np.newaxis] * design)
        return cls(asymptote, slope, scale * np.linalg.inv(information).astype(np.float64))

    @property
    def is_supported(self) -> bool:
        """Whether at least three points follow the law, with a fall of more than two standard errors or none."""
        error = float(np.sqrt(self.covariance[1, 1]))
        return bool(np.isfinite(error)) and (self.slope == 0 or self.slope > 2 * error)

    def __call__(self, n_rows: float) -> tuple[float, float]:
        """Return the loss for so many rows, and its standard error."""
        variance = (
            self.covariance[0, 0] + 2 * self.covariance[0, 1] / n_rows + self.covariance[1, 1] / n_rows**2
        )
        return self.asymptote + self.slope / n_rows, float(np.sqrt(max(variance, 0.0)))
