"""Numbers with fewer digits, so that what differs by rounding only is equal."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["with_bits"]


def with_bits(values: NDArray[np.float64], bits: int) -> NDArray[np.float64]:
    """Return numbers rounded to so many binary digits, whatever their size.

    >>> third = np.array([1 / 3, (1 / 3) * (1 + 1e-15)])
    >>> third[0] == third[1], with_bits(third, 40)[0] == with_bits(third, 40)[1]
    (np.False_, np.True_)
    """
    fraction, exponent = np.frexp(values)
    rounded: NDArray[np.float64] = np.ldexp(np.rint(np.ldexp(fraction, bits)), exponent - bits)
    return rounded
