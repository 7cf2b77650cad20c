"""Family: what a normal approximation needs to know of a fitted map."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from calibrant.predictions import Predictions

__all__ = ["Family", "without_direction"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Cube = NDArray[np.float64]
Labels = NDArray[np.intp]


class Family(ABC):
    r"""A fitted map as the softmax of scores :math:`u(\theta; x)`, with the derivatives of its loss at the fit.

    Attributes
    ----------
    theta : ndarray of shape (P,)
        Fitted parameters.
    lower : ndarray of shape (P,)
        Lower bounds of the parameters; minus infinity where there is none.
    """

    theta: Vector
    lower: Vector
    is_likelihood: ClassVar[bool] = True

    @property
    def n_parameters(self) -> int:
        """Number of parameters, P."""
        return len(self.theta)

    @property
    @abstractmethod
    def n_classes(self) -> int:
        """Number of classes, K."""

    @abstractmethod
    def penalty_hessian(self, total_weight: float) -> Matrix:
        """Return the second derivatives of the penalty on the *sum* of losses of so many rows, (P, P)."""

    @abstractmethod
    def penalty_gradient(self, total_weight: float) -> Vector:
        """Return its first derivatives at the fit, (P,); only those of parameters at a bound matter."""

    @abstractmethod
    def features(self, predictions: Predictions) -> Any:
        """Return what the other methods take: the numbers x of these rows that u depends on, in float64."""

    @abstractmethod
    def gradients(self, features: Any, labels: Labels) -> Matrix:
        """Return the gradient of the loss of every row, (n, P)."""

    @abstractmethod
    def information(self, features: Any, weights: Vector) -> Matrix:
        """Return the Hessian of the weighted sum of losses, (P, P)."""

    def expected_squares(self, features: Any, weights: Vector) -> Matrix:
        """Return the covariance that the sum of gradients has if the map is true, (P, P).

        For a likelihood that is the Hessian itself, and :attr:`is_likelihood` says so.
        """
        return self.information(features, weights)

    @abstractmethod
    def directions(self, features: Any, changes: Matrix) -> Cube:
        """Return the first-order change of u, (n, K, r), for r changes of the parameters, (P, r)."""

    def moved(self, features: Any, changes: Matrix) -> Cube:
        """Return the change of u, (n, K, r), for r changes of the parameters; exact, not to first order."""
        return self.directions(features, changes)


def without_direction(hessian: Matrix, direction: Vector) -> Matrix:
    r"""Return the Hessian :math:`\Lambda` of a penalty whose centre may lie anywhere along a direction d.

    .. math:: \Lambda - \frac{\Lambda d d^\top \Lambda}{d^\top \Lambda d}

    A penalty that pulls to temperature scaling says nothing about the temperature, which was found from the same rows. This
    is the prior with all temperatures taken to be equally likely.

    >>> without_direction(np.diag([1.0, 3.0]), np.array([1.0, 0.0]))
    array([[0., 0.], [0., 3.]])
    """
    pulled = hessian @ direction
    strength = float(direction @ pulled)
    return hessian if strength == 0 else hessian - np.outer(pulled, pulled) / strength
