"""Hashes of rows by their content, from which folds, parts and samples follow wherever the rows are."""

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray

__all__ = ["content_hash", "mixed", "part_of"]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64 bits: the finaliser of splitmix64, in which every bit depends on all others.

    >>> mixed(np.arange(2, dtype=np.uint64)).tolist()
    [16294208416658607535, 10451216379200822465]
    """
    values = values + GOLDEN
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: NDArray[np.uint64] = values ^ (values >> np.uint64(31))
    return found


def content_hash(scores: FloatArray, labels: NDArray[np.intp]) -> NDArray[np.uint64]:
    """Return a hash of the scores and the label of every row; float32 scores and the same in float64 give one hash."""
    hashes = labels.astype(np.uint64)
    for column in scores.T:
        bits = (column.astype(np.float64) + 0.0).view(np.uint64)  # plus zero: -0.0 is 0.0
        hashes = mixed(hashes ^ bits)
    return hashes


def part_of(hashes: NDArray[np.uint64], n_parts: int, salt: int) -> NDArray[np.intp]:
    """Return one of n parts for every row, as good as random and independent for different salts.

    >>> np.bincount(part_of(np.arange(1000, dtype=np.uint64), 4, 0)).tolist()
    [239, 274, 233, 254]
    """
    salted = mixed(hashes ^ mixed(np.array([salt], dtype=np.uint64)))
    return (salted % np.uint64(n_parts)).astype(np.intp)
