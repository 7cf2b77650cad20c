"""Products of the Jacobian of a logit map with matrices, for many rows at a time."""

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.structured.structured_map import StructuredMap
from calibrant.objective import DiagonalMap, FullMap, LogitMap, ScalarMap

__all__ = ["row_adjoints", "row_directions"]

Matrix = NDArray[np.float64]
Cube = NDArray[np.float64]


def row_directions(logit_map: LogitMap, features: Matrix, changes: Matrix) -> Cube:
    """Return the change of the scores of every row, (n, K, r), for r changes of the parameters, (P, r).

    Written out for the maps of this library; for any other map that is linear in its parameters, one pass for each change.

    >>> row_directions(ScalarMap(2, bias=False), np.array([[3.0, 1.0]]), np.array([[1.0, 2.0]]))
    array([[[3., 6.], [1., 2.]]])
    """
    n_classes = logit_map.n_classes
    if isinstance(logit_map, ScalarMap):
        moved: Cube = features[:, :, np.newaxis] * changes[0]
        return moved + changes[1:] if logit_map.bias else moved
    if isinstance(logit_map, DiagonalMap):
        moved = features[:, :, np.newaxis] * changes[:n_classes]
        return moved + changes[n_classes:] if logit_map.bias else moved
    if isinstance(logit_map, FullMap):
        # One product with the matrix of all classes and changes side by side.
        by_feature = changes.reshape(n_classes, -1, changes.shape[1]).transpose(1, 0, 2)
        product: Matrix = _with_ones(logit_map, features) @ by_feature.reshape(len(by_feature), -1)
        return product.reshape(len(features), n_classes, -1)
    if isinstance(logit_map, StructuredMap) and logit_map.class_map is not None:
        own = row_directions(logit_map.class_map, features, changes[_n_shared(logit_map) :])
        return own + _shared_jacobian(logit_map, features) @ changes[: _n_shared(logit_map)]
    return np.stack([logit_map.forward(change, features) for change in changes.T], axis=2)


def row_adjoints(logit_map: LogitMap, cotangent: Matrix, features: Matrix) -> Matrix:
    """Return the transposed Jacobian of every row times that row of ``cotangent``, (n, P).

    >>> row_adjoints(DiagonalMap(2, bias=True), np.array([[0.5, -0.5]]), np.array([[3.0, 1.0]]))
    array([[ 1.5, -0.5,  0.5, -0.5]])
    """
    if isinstance(logit_map, ScalarMap):
        slope: Matrix = np.einsum("ik,ik->i", cotangent, features)[:, np.newaxis]
        return np.hstack([slope, cotangent]) if logit_map.bias else slope
    if isinstance(logit_map, DiagonalMap):
        slopes: Matrix = cotangent * features
        return np.hstack([slopes, cotangent]) if logit_map.bias else slopes
    if isinstance(logit_map, FullMap):
        products: Cube = cotangent[:, :, np.newaxis] * _with_ones(logit_map, features)[:, np.newaxis]
        return products.reshape(len(features), -1)
    if isinstance(logit_map, StructuredMap) and logit_map.class_map is not None:
        shared = np.einsum("ik,ikp->ip", cotangent, _shared_jacobian(logit_map, features))
        return np.hstack([shared, row_adjoints(logit_map.class_map, cotangent, features)])
    jacobian = row_directions(logit_map, features, np.eye(logit_map.n_parameters))
    adjoints: Matrix = np.einsum("ik,ikp->ip", cotangent, jacobian)
    return adjoints


def _with_ones(logit_map: LogitMap, features: Matrix) -> Matrix:
    return np.hstack([features, np.ones((len(features), 1))]) if logit_map.bias else features


def _n_shared(logit_map: StructuredMap) -> int:
    of_classes = 0 if logit_map.class_map is None else logit_map.class_map.n_parameters
    return logit_map.n_parameters - of_classes


def _shared_jacobian(logit_map: StructuredMap, features: Matrix) -> Cube:
    """Return the derivatives of the scores in the parameters that all classes share, which come first, (n, K, m)."""
    jacobian = np.empty((*features.shape, _n_shared(logit_map)))
    for place, unit in enumerate(np.eye(logit_map.n_parameters)[: jacobian.shape[2]]):
        jacobian[:, :, place] = logit_map.forward(unit, features)
    return jacobian
