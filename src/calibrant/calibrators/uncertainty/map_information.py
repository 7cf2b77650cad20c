"""The Hessian of the log-loss in the parameters of a logit map, exact also where rows are nearly certain."""

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.structured.structured_map import StructuredMap
from calibrant.objective import DiagonalMap, FullMap, LogitMap, ScalarMap

__all__ = ["information"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


def information(logit_map: LogitMap, probabilities: Matrix, weights: Vector, features: Matrix) -> Matrix:
    r"""Return :math:`\sum_i w_i J_i^\top (\mathrm{diag}(p_i) - p_i p_i^\top) J_i`, (P, P).

    A solver does with ``fisher``, in which :math:`p_k - p_k^2` of a sure row is a difference of nearly equal numbers. An
    inverse needs it exactly: here it is :math:`p_k (1 - p_k)` with the sum of the others in the place of
    :math:`1 - p_k`.

    >>> sure = np.array([[1.0, 1e-20]])
    >>> information(DiagonalMap(2, bias=False), sure, np.ones(1), np.ones((1, 2)))
    array([[ 1.e-20, -1.e-20], [-1.e-20,  1.e-20]])
    """
    weighted = probabilities * weights[:, np.newaxis]
    whole: Matrix = logit_map.fisher(probabilities, weighted, features).astype(np.float64, copy=False)
    if isinstance(logit_map, StructuredMap):
        if logit_map.class_map is not None:
            size = logit_map.n_parameters - logit_map.class_map.n_parameters
            whole[size:, size:] = information(logit_map.class_map, probabilities, weights, features)
        return whole
    spread = weighted * _complements(probabilities)
    each = np.arange(logit_map.n_classes)
    if isinstance(logit_map, ScalarMap):
        centred = features - np.einsum("ik,ik->i", probabilities, features)[:, np.newaxis]
        moments = weighted * centred
        whole[0, 0] = np.einsum("ik,ik->", moments, centred)
        if logit_map.bias:
            whole[each + 1, each + 1] = spread.sum(axis=0)
            whole[0, 1:] = whole[1:, 0] = moments.sum(axis=0)
    elif isinstance(logit_map, DiagonalMap):
        moments = spread * features
        whole[each, each] = (moments * features).sum(axis=0)
        if logit_map.bias:
            intercepts = each + logit_map.n_classes
            whole[intercepts, intercepts] = spread.sum(axis=0)
            whole[each, intercepts] = whole[intercepts, each] = moments.sum(axis=0)
    elif isinstance(logit_map, FullMap):
        if logit_map.bias:
            features = np.hstack([features, np.ones((len(features), 1))])
        blocks = whole.reshape(logit_map.n_classes, features.shape[1], logit_map.n_classes, -1)
        for column in each:
            blocks[column, :, column] = (features * spread[:, [column]]).T @ features
    return whole


def _complements(probabilities: Matrix) -> Matrix:
    """Return one minus every probability; of the largest of a row, the sum of the others."""
    complements = 1 - probabilities
    rows, largest = np.arange(len(probabilities)), probabilities.argmax(axis=1)
    others = probabilities.copy()
    others[rows, largest] = 0.0
    complements[rows, largest] = others.sum(axis=1)
    return complements
