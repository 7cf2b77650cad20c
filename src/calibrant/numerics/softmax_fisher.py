"""Fisher matrix of a softmax of linear scores, from products of pairs of classes and pairs of features."""

from typing import Any

import numpy as np

from calibrant.arrays import FloatArray

__all__ = ["SoftmaxFisher"]

# Columns of products, so that those of a few dozen pairs stay in the cache.
BLOCK_COLUMNS = 512


class SoftmaxFisher:
    r"""The matrix :math:`\sum_i w_i (\mathrm{diag}(p_i) - p_i p_i^\top) \otimes x_i x_i^\top`, (K F, K F).

    Every pair of classes has a block :math:`-\sum_i w_i p_{ik} p_{il}\, x_i x_i^\top`; the blocks of a class sum to zero.
    One matrix product computes all of them, of K(K-1)/2 products of probabilities and F(F+1)/2 products of features: a
    quarter of the multiplications of the full matrix.

    Parameters
    ----------
    n_classes, n_features, n_rows : int
        K, F and the expected number of rows; memory for products is kept between calls.
    dtype : dtype
        Float type.

    Examples
    --------
    >>> fisher = SoftmaxFisher(2, 1, 1, np.float64)
    >>> p, x = np.array([[0.75], [0.25]]), np.array([[2.0]])
    >>> fisher(p, p, x)                                             # 0.75 * 0.25 * 4
    array([[ 0.75, -0.75], [-0.75,  0.75]])
    """

    def __init__(self, n_classes: int, n_features: int, n_rows: int, dtype: Any) -> None:
        self._classes, self._features = np.triu_indices(n_classes, 1), np.triu_indices(n_features)
        self._place = np.empty((n_features, n_features), dtype=np.intp)
        left, right = self._features
        self._place[left, right] = self._place[right, left] = np.arange(len(left))
        # Fresh memory would take longer than the products.
        shape = 2, len(self._classes[0]) + len(left), min(BLOCK_COLUMNS, n_rows)
        self._room = np.empty(shape, dtype)
        self._shape = n_classes, n_features

    def __call__(self, probabilities: FloatArray, weighted: FloatArray, features: FloatArray) -> FloatArray:
        """Return the matrix for probabilities (K, n), the same times the weight of the row, and features (F, n)."""
        n_classes, n_features = self._shape
        first, second = self._classes
        sums = np.zeros((len(first), len(self._features[0])), self._room.dtype)
        for start in range(0, features.shape[1], BLOCK_COLUMNS):
            columns = slice(start, start + BLOCK_COLUMNS)
            x = features[:, columns]
            room = self._room
            if x.shape[1] != room.shape[2]:
                room = np.empty((*room.shape[:2], x.shape[1]), room.dtype)
            of_classes = _products(
                probabilities[:, columns], weighted[:, columns], self._classes, room[:, : len(first)]
            )
            sums -= of_classes @ _products(x, x, self._features, room[:, len(first) :]).T
        blocks = np.zeros((n_classes, n_classes, sums.shape[1]), sums.dtype)
        blocks[first, second] = blocks[second, first] = sums
        each = np.arange(n_classes)
        blocks[each, each] = -blocks.sum(axis=1)
        by_class_and_feature = blocks[:, :, self._place].transpose(0, 2, 1, 3)
        fisher: FloatArray = by_class_and_feature.reshape(n_classes * n_features, -1)
        return fisher


def _products(left: FloatArray, right: FloatArray, pairs: tuple[Any, ...], room: FloatArray) -> FloatArray:
    """Return the products of rows of two matrices, one for every pair of row numbers."""
    left.take(pairs[0], axis=0, out=room[0], mode="clip")
    right.take(pairs[1], axis=0, out=room[1], mode="clip")
    products: FloatArray = room[0]
    products *= room[1]
    return products
