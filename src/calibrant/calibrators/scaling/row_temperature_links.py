"""From the output of a network to a temperature that is positive and within bounds."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import expit

from calibrant.arrays import Vector
from calibrant.graph import Value

__all__ = ["Link", "TemperatureLink"]

Link = Literal["softplus", "absolute", "exponential"]

SOFTPLUS_OF_THIS_IS_ONE = math.log(math.e - 1)


@dataclass(frozen=True)
class TemperatureLink:
    r"""A row's temperature as a multiple of the single temperature, :math:`\rho(g) = T / T_0` with :math:`\rho(0) = 1`.

    =========== =====================================================
    link        :math:`\rho(g)`
    =========== =====================================================
    softplus    :math:`\log(1 + e^{g + c})`, :math:`c = \log(e - 1)`
    absolute    :math:`|1 + g|`
    exponential :math:`e^g`
    =========== =====================================================

    Multiples outside ``bounds`` count as the nearer bound, where the slope is zero.

    Examples
    --------
    >>> link = TemperatureLink("absolute", (0.1, 10.0))
    >>> np.exp(link(np.array([0.0, 1.0, 99.0]))[0]).round(6)
    array([ 1.,  2., 10.])
    """

    kind: Link
    bounds: tuple[float, float]

    @property
    def limits(self) -> tuple[float, float]:
        """Logarithms of the bounds."""
        return float(np.log(self.bounds[0])), float(np.log(self.bounds[1]))

    def __call__(self, outputs: Vector) -> tuple[Vector, Vector]:
        """Return the logarithms of the multiples and their derivatives in ``outputs``."""
        multiples, slopes = _LINKS[self.kind](outputs)
        inside = (multiples > self.bounds[0]) & (multiples < self.bounds[1])
        multiples = np.clip(multiples, *self.bounds)
        return np.log(multiples), np.where(inside, slopes / multiples, 0.0)

    def traced(self, outputs: Value) -> Value:
        """Return the logarithms of the multiples of symbolic outputs."""
        if self.kind == "softplus":
            multiples = (outputs + SOFTPLUS_OF_THIS_IS_ONE).function("softplus")
        elif self.kind == "absolute":
            multiples = (outputs + 1.0).function("absolute")
        else:
            multiples = outputs.function("exp")
        return multiples.clip(*self.bounds).log(min(self.bounds[0], 0.5))


def _softplus(outputs: Vector) -> tuple[Vector, Vector]:
    shifted = outputs + SOFTPLUS_OF_THIS_IS_ONE
    return np.logaddexp(0, shifted), expit(shifted)


def _absolute(outputs: Vector) -> tuple[Vector, Vector]:
    shifted = 1 + outputs
    return np.abs(shifted), np.sign(shifted)


def _exponential(outputs: Vector) -> tuple[Vector, Vector]:
    with np.errstate(over="ignore"):
        multiples = np.exp(outputs)
    # Infinite ones lie outside every bound, where slopes are not used.
    return multiples, np.minimum(multiples, np.finfo(np.float64).max)


_LINKS: dict[str, Callable[[Vector], tuple[Vector, Vector]]] = {
    "softplus": _softplus,
    "absolute": _absolute,
    "exponential": _exponential,
}
