"""The three ways to write one Dirichlet calibration map, and how to get from each to the others."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from calibrant.errors import ParameterError
from calibrant.numerics.simplex import softmax

__all__ = ["CanonicalParameters", "GenerativeParameters", "LinearParameters"]

Array = NDArray[np.float64]


class LinearParameters(NamedTuple):
    r""":math:`\mu(q) = \mathrm{softmax}(W \ln q + b)` with any W (K, K) and b (K,); not unique.

    Examples
    --------
    Temperature scaling is the diagonal case (Proposition 1 of :cite:`kull2019`).

    >>> LinearParameters(np.eye(2) / 2, np.zeros(2)).map([[0.9, 0.1]])
    array([[0.75, 0.25]])
    """

    weights: Array
    intercept: Array

    def map(self, probabilities: ArrayLike) -> Array:
        """Return the calibrated rows; entries must be positive."""
        return _softmax(np.log(np.asarray(probabilities, dtype=np.float64)) @ self.weights.T + self.intercept)

    def canonical(self) -> "CanonicalParameters":
        r"""Return :math:`a_{ij} = w_{ij} - \min_i w_{ij}` and :math:`c = \mu(1/K, \dots, 1/K)`."""
        n_classes = len(self.intercept)
        matrix = self.weights - self.weights.min(axis=0)
        at_center = self.intercept - self.weights.sum(axis=1) * np.log(n_classes)
        return CanonicalParameters(matrix, _softmax(at_center[np.newaxis])[0])

    def generative(self) -> "GenerativeParameters":
        """Return the parameters of K Dirichlet densities with this posterior, by way of the canonical ones."""
        return self.canonical().generative()


class CanonicalParameters(NamedTuple):
    r""":math:`\mu(q) = \mathrm{softmax}(A \ln(Kq) + \ln c)`.

    A is not negative and has a zero in every column, c lies on the simplex. The only one of the three that
    is unique, and made to be read: c is what the centre of the simplex is mapped to, and a larger
    :math:`a_{ij}` favours class i the more, the likelier class j was said to be.
    """

    matrix: Array
    center: Array

    def map(self, probabilities: ArrayLike) -> Array:
        """Return the calibrated rows; entries must be positive."""
        with np.errstate(divide="ignore"):
            log_center = np.log(self.center)
        logarithms = np.log(np.asarray(probabilities, dtype=np.float64) * len(self.center))
        return _softmax(logarithms @ self.matrix.T + log_center)

    def linear(self) -> LinearParameters:
        r"""Return :math:`W = A`, :math:`b = \ln c + A \mathbf{1} \ln K`."""
        with np.errstate(divide="ignore"):
            log_center = np.log(self.center)
        intercept = log_center + self.matrix.sum(axis=1) * np.log(len(self.center))
        return LinearParameters(self.matrix.copy(), intercept)

    def generative(self) -> "GenerativeParameters":
        r"""Return :math:`\alpha = A + 1` and :math:`\pi_i \propto e^{b_i} B(\alpha^{(i)})`."""
        concentrations = self.matrix + 1
        log_priors = self.linear().intercept + _log_beta(concentrations)
        return GenerativeParameters(concentrations, _softmax(log_priors[np.newaxis])[0])


class GenerativeParameters(NamedTuple):
    r""":math:`\mu_i(q) \propto \pi_i\, \mathrm{Dir}(q; \alpha^{(i)})`.

    Bayes' rule for predictions that are Dirichlet-distributed within each class. Row i of
    ``concentrations`` (K, K), all positive, belongs to class i; ``priors`` (K,) are the shares of the classes.
    """

    concentrations: Array
    priors: Array

    def map(self, probabilities: ArrayLike) -> Array:
        """Return the calibrated rows by Bayes' rule; entries must be positive."""
        logarithms = np.log(np.asarray(probabilities, dtype=np.float64))
        log_densities = logarithms @ (self.concentrations - 1).T - _log_beta(self.concentrations)
        with np.errstate(divide="ignore"):
            return _softmax(log_densities + np.log(self.priors))

    def linear(self) -> LinearParameters:
        r"""Return :math:`W = \alpha - 1`, :math:`b_i = \ln \pi_i - \ln B(\alpha^{(i)})`."""
        if not (self.concentrations > 0).all():
            raise ParameterError("the concentrations of a Dirichlet density must be positive.")
        return LinearParameters(self.concentrations - 1, np.log(self.priors) - _log_beta(self.concentrations))

    def canonical(self) -> CanonicalParameters:
        """Return the unique canonical parameters of the same map."""
        return self.linear().canonical()


def _softmax(scores: Array) -> Array:
    return softmax(scores).astype(np.float64, copy=False)


def _log_beta(concentrations: Array) -> Array:
    """Return ln B of every row."""
    log_beta: Array = gammaln(concentrations).sum(axis=1) - gammaln(concentrations.sum(axis=1))
    return log_beta
