"""One class against the rest: sums of all other entries of a row, without loss of digits."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray, Vector
from calibrant.numerics.reductions import NARROW, row_maxima, row_sums

__all__ = ["Rest", "rest_of_classes", "rest_of_largest"]


class Rest(NamedTuple):
    """The largest entry of every row, its column, and the sum of the other entries; of logits its logarithm."""

    largest: Vector
    column: NDArray[np.intp]
    rest: Vector


def rest_of_largest(scores: FloatArray, *, logits: bool) -> Rest:
    """Return the largest entry of every row of a block and the sum of the others, added up without it.

    >>> rest_of_largest(np.array([[1.0, 1e-20, 1e-20]]), logits=False).rest
    array([2.e-20])
    """
    rows, column = np.arange(len(scores)), scores.argmax(axis=1)
    others = scores.astype(np.float64)
    largest = others[rows, column]
    if logits:
        others[rows, column] = -np.inf
        second = row_maxima(others)
        others -= second[:, np.newaxis]
        np.exp(others, out=others)
        rest: Vector = np.asarray(second + np.log(row_sums(others)), dtype=np.float64)
    else:
        others[rows, column] = 0.0
        rest = np.asarray(row_sums(others), dtype=np.float64)
    return Rest(largest, column, rest)


def rest_of_classes(scores: FloatArray, *, logits: bool) -> Vector:
    """Return the sum of all other entries of the row in every column of a block; of logits its logarithm.

    The rest of a class is the total minus the class, except for the largest entry of a row: where a class has nearly
    all of the probability, the difference would have lost its digits.

    >>> rest_of_classes(np.array([[0.2, 0.5, 0.3], [1.0, 1e-20, 1e-20]]), logits=False)
    array([[8.e-01, 5.e-01, 7.e-01],
           [2.e-20, 1.e+00, 1.e+00]])
    """
    if not logits and scores.shape[1] <= NARROW:
        wide = scores.astype(np.float64, copy=False)
        largest = row_maxima(wide)[:, np.newaxis]
        is_largest = wide == largest
        if np.count_nonzero(is_largest) == len(wide):  # no ties
            rest = row_sums(np.where(is_largest, 0.0, wide))[:, np.newaxis]
            differences: Vector = np.subtract(largest + rest, wide)
            np.copyto(differences, rest, where=is_largest)
            return differences
    largest, column, rest = rest_of_largest(scores, logits=logits)
    rows = np.arange(len(scores))
    if logits:
        total = np.logaddexp(largest, rest)[:, np.newaxis]
        # log(total - own), for an entry of at most half of the total.
        rests: Vector = np.subtract(scores, total, dtype=np.float64)
        np.minimum(rests, 0.0, out=rests)
        np.exp(rests, out=rests)
        rests[rows, column] = 0.0
        np.negative(rests, out=rests)
        np.log1p(rests, out=rests)
        rests += total
    else:
        rests = (largest + rest)[:, np.newaxis] - scores
    rests[rows, column] = rest
    return rests
