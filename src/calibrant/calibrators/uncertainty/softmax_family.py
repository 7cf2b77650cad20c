"""Maps whose scores are linear in their parameters: temperature, vector, matrix and their like."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.uncertainty.family import Cube, Family, Labels, Matrix, Vector
from calibrant.calibrators.uncertainty.map_information import information
from calibrant.calibrators.uncertainty.map_jacobian import row_adjoints, row_directions
from calibrant.numerics.simplex import softmax
from calibrant.objective import LogitMap
from calibrant.predictions import Predictions

__all__ = ["SoftmaxFamily"]


@dataclass(frozen=True, eq=False)
class SoftmaxFamily(Family):
    r"""softmax(u) with :math:`u = J(x)\,\theta`, for any :class:`~calibrant.objective.LogitMap`.

    The gradient of the log-loss is :math:`J^\top (p - e_y)`, its Hessian
    :math:`J^\top (\mathrm{diag}(p) - pp^\top) J`.

    Attributes
    ----------
    logit_map : LogitMap
    features_of : callable
        Returns x of predictions.
    hessian_of_penalty, gradient_of_penalty : callable or None
        Return those of the penalty on the sum of losses of so many rows; None for no penalty.
    """

    logit_map: LogitMap
    theta: Vector
    features_of: Callable[[Predictions], NDArray[np.floating]]
    lower: Vector
    hessian_of_penalty: Callable[[float], Matrix] | None = None
    gradient_of_penalty: Callable[[float], Vector] | None = None

    @property
    def n_classes(self) -> int:
        return self.logit_map.n_classes

    def penalty_hessian(self, total_weight: float) -> Matrix:
        if self.hessian_of_penalty is None:
            return np.zeros((self.n_parameters, self.n_parameters))
        return self.hessian_of_penalty(total_weight)

    def penalty_gradient(self, total_weight: float) -> Vector:
        if self.gradient_of_penalty is None:
            return np.zeros(self.n_parameters)
        return self.gradient_of_penalty(total_weight)

    def features(self, predictions: Predictions) -> Matrix:
        return self.features_of(predictions).astype(np.float64)

    def gradients(self, features: Any, labels: Labels) -> Matrix:
        residuals = self._probabilities(features)
        residuals[np.arange(len(labels)), labels] -= 1
        return row_adjoints(self.logit_map, residuals, features)

    def information(self, features: Any, weights: Vector) -> Matrix:
        return information(self.logit_map, self._probabilities(features), weights, features)

    def directions(self, features: Any, changes: Matrix) -> Cube:
        return row_directions(self.logit_map, features, changes)

    def _probabilities(self, features: Matrix) -> Matrix:
        return softmax(self.logit_map.forward(self.theta, features)).astype(np.float64, copy=False)
