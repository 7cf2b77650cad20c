"""Array types for signatures: float64 by number of axes, any float type, integers, anything."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["AnyArray", "Cube", "Float64Array", "FloatArray", "IntArray", "Matrix", "Vector"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Cube = NDArray[np.float64]
Float64Array = NDArray[np.float64]
FloatArray = NDArray[np.floating]
IntArray = NDArray[np.intp]
AnyArray = NDArray[Any]
