"""Places between neighbouring floats."""

import numpy as np

from calibrant.arrays import FloatArray

__all__ = ["midway"]


def midway(below: FloatArray, above: FloatArray) -> FloatArray:
    """Return places midway between two, or the upper one where no float lies between them.

    So whatever is not above ``below`` is less than the place, and ``above`` is not.

    >>> midway(np.array([0.2, 1.0]), np.array([0.4, np.nextafter(1.0, 2.0)])) > np.array([0.2, 1.0])
    array([ True,  True])
    """
    middle = below + (above - below) / 2
    return np.where(middle > below, middle, above)
