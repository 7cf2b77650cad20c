"""The learning curve a + b / n, to extrapolate a loss to more rows."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Vector

__all__ = ["Hyperbola"]


# Sizes smaller than the largest by more than this factor are not fitted.
MOST_BACK = 8

# Relative rounding error of a loss.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Hyperbola:
    r"""The loss a + b / n: the asymptotic excess loss of a model with a fixed number of parameters and n rows.

    Attributes
    ----------
    asymptote, slope : float
        a and b, both non-negative: losses are, and more rows do no harm on average.
    covariance : ndarray of shape (2, 2)
        Covariance of a and b; infinite for fewer than three points.
    """

    asymptote: float
    slope: float
    covariance: Vector

    @classmethod
    def through(cls, sizes: NDArray[np.intp], losses: Vector) -> Self:
        """Fit by least squares with weights n to sizes of at least an eighth of the largest, since the law is asymptotic.

        Infinite and missing losses are dropped, and so are sizes from which the loss falls faster than the law allows: by
        more than a factor m if the number of rows grows by m.

        >>> fitted = Hyperbola.through(np.array([10, 20, 40]), np.array([0.6, 0.55, 0.525]))
        >>> round(fitted.asymptote, 6), round(fitted.slope, 6)
        (0.5, 1.0)
        """
        known = np.isfinite(losses)
        if known.any():
            known &= MOST_BACK * sizes >= sizes[known].max()
        n, y = sizes[known].astype(np.float64), losses[known]
        # For the remaining points n y increases with n, so a, the slope of n y on n, is non-negative up to rounding.
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
        """Whether at least three points follow the law, with b either above two standard errors or zero."""
        error = float(np.sqrt(self.covariance[1, 1]))
        return bool(np.isfinite(error)) and (self.slope == 0 or self.slope > 2 * error)

    def __call__(self, n_rows: float) -> tuple[float, float]:
        """Return the loss for a number of rows, and its standard error."""
        variance = (
            self.covariance[0, 0] + 2 * self.covariance[0, 1] / n_rows + self.covariance[1, 1] / n_rows**2
        )
        return self.asymptote + self.slope / n_rows, float(np.sqrt(max(variance, 0.0)))
