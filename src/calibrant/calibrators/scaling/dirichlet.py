"""Dirichlet calibration: an affine map of the log-probabilities."""

from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays import Float64Array
from calibrant.calibrator import Traits
from calibrant.calibrators.scaling.affine import AffineScaling
from calibrant.errors import ParameterError
from calibrant.numerics.simplex import softmax
from calibrant.objective.family import log_probabilities
from calibrant.predictions import FLOOR_WITHOUT_ZEROS

__all__ = ["DirichletCalibration"]


class LinearParameters(NamedTuple):
    r""":math:`\mu(q) = \mathrm{softmax}(W \ln q + b)` with any W (K, K) and b (K,); not unique.

    Examples
    --------
    Temperature scaling is the diagonal case (Proposition 1 of :cite:`kull2019`).

    >>> LinearParameters(np.eye(2) / 2, np.zeros(2)).map([[0.9, 0.1]])
    array([[0.75, 0.25]])
    """

    weights: Float64Array
    intercept: Float64Array

    def map(self, probabilities: ArrayLike) -> Float64Array:
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
    is unique, and the one to interpret: c is the image of the centre of the simplex, and a larger
    :math:`a_{ij}` favours class i more strongly as the predicted probability of class j grows.
    """

    matrix: Float64Array
    center: Float64Array

    def map(self, probabilities: ArrayLike) -> Float64Array:
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
    ``concentrations`` (K, K), all positive, belongs to class i; ``priors`` (K,) is the class prior.
    """

    concentrations: Float64Array
    priors: Float64Array

    def map(self, probabilities: ArrayLike) -> Float64Array:
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


def _softmax(scores: Float64Array) -> Float64Array:
    return softmax(scores).astype(np.float64, copy=False)


def _log_beta(concentrations: Float64Array) -> Float64Array:
    """Return ln B of every row."""
    log_beta: Float64Array = gammaln(concentrations).sum(axis=1) - gammaln(concentrations.sum(axis=1))
    return log_beta


class DirichletCalibration(AffineScaling):
    r"""Dirichlet calibration: an affine map of the log-probabilities before the softmax.

    .. math:: \hat q = \mathrm{softmax}(W \ln p + b), \qquad W \in \mathbb{R}^{K \times K},\ b \in \mathbb{R}^K

    This is the posterior if the predictions for each class have a Dirichlet distribution
    :cite:`kull2019`, a native multi-class method for any classifier. For two classes it is beta calibration,
    and temperature scaling is the case :math:`W = I/T`, :math:`b = 0`. W and b minimise the mean log-loss plus

    * ``penalty="odir"``: :math:`\frac{\lambda}{K(K-1)} \sum_{i \ne j} w_{ij}^2 + \frac{\mu}{K} \sum_j b_j^2`;
    * ``penalty="l2"``: :math:`\lambda \lVert W - \beta I \rVert^2 + \mu \lVert b \rVert^2`;
    * ``penalty=None``: no penalty; only with many rows per class.

    Parameters
    ----------
    penalty : {"odir", "l2", None}, default="odir"
    reg_lambda : float, sequence of float or "auto", default="auto"
        :math:`\lambda`: a number, a grid for cross-validation, or a search around a value that depends on the number
        of classes and rows.
    reg_mu : float, sequence of float, "auto" or None, default="auto"
        :math:`\mu`, likewise; None ties it to ``reg_lambda``.
    cv : int, splitter or iterable of splits, default=5
        Folds of the search. A number gives folds that do not depend on the order of the rows.
    average_folds : bool, default=True
        After a search, average the probabilities of the models of all folds, as the paper does; if False, refit
        one model to all rows with the selected strengths. Averaging is slightly better on new data and has one map
        per fold. A fit with given strengths is always a single map.
    center : {"temperature", "identity", "zero"}, default="temperature"
        For ``"l2"``: the multiple :math:`\beta` of the identity towards which W shrinks: the fitted inverse
        temperature, 1 or 0.

    Attributes
    ----------
    weights_ : ndarray of shape (K, K)
        W; the mean over folds if models are averaged. Only for classes with calibration rows (``present_columns_``).
    intercept_ : ndarray of shape (K,)
        b; the mean over folds if models are averaged.
    fold_weights_, fold_intercepts_ : ndarray of shape (F, K, K) and (F, K)
        The averaged models; F = 1 for a single map.
    reg_lambda_, reg_mu_ : float
        The regularisation strengths of the fit.
    search_ : dict of ndarray
        Results of the search: ``reg_lambda``, ``reg_mu``, held-out ``loss`` and its ``standard_error`` over folds.
    solution_ : Solution
        Result of the solver.

    Notes
    -----
    The problem is convex and is solved to its optimum by Newton's method with exact Hessian products, from
    the fitted temperature, to better than 1e-8 in the objective: O(nK^2) per product. A fit whose training log-loss would
    exceed that of the uncalibrated predictions returns the identity.

    *Batches.* For up to 34 classes, ``partial_fit`` keeps a quadratic approximation of the loss of earlier batches, O(K^4)
    numbers. For more classes, and until every class has been observed, it keeps a sample of up to 10,000 rows and refits it
    with every batch. A search for strengths uses the first rows, and the penalty keeps the weight that it has relative to
    them. After the first rows there is one map, not an average. See :doc:`/online`.

    Differences from the authors' programs, and how to reproduce them:

    * Their network program stops early on the training loss, which acts as extra regularisation; a converged
      fit can differ in the third digit of the log-loss, mostly for the better.
    * That program penalises sums, not means. Its tuned :math:`\lambda` and :math:`\mu` are the paper's divided by
      K(K-1) and K: multiply them by these factors.
    * Their package subtracts the last row of [W | b] before it applies the penalty, and so penalises the identity for its
      own diagonal. We follow the paper's formula.
    * The paper gives no formula for L2. The programs shrink all of [W | b] to zero: ``center="zero"`` and
      ``reg_mu=None``. A strong penalty then makes all predictions uniform, so we shrink to the temperature.
    * Their grids, for the neural experiments on the scale of plain sums: :math:`\lambda \in \{1, \frac14,
      \frac12\} \cdot 10^i`, :math:`\mu \in 10^i`, i from -5 to 6; pass them times K(K-1) and K as sequences.
    * Zeros count as ``floor``, see :class:`~calibrant.predictions.Predictions`.

    Examples
    --------
    >>> p = [[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.3, 0.6, 0.1], [0.5, 0.2, 0.3]] * 20
    >>> y = [0, 1, 1, 0, 2] * 20
    >>> fitted = DirichletCalibration(reg_lambda=0.1, reg_mu=0.01).fit(p, y)
    >>> round(float(fitted.predict_proba(p).sum(axis=1).max()), 6)
    1.0
    >>> matrix, center = fitted.canonical()
    >>> bool((matrix >= 0).all()), round(float(center.sum()), 6)
    (True, 1.0)
    """

    traits = Traits(contains_identity=True)
    _features = log_probabilities
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {
        "dirichlet-odir": {"penalty": "odir"},
        "dirichlet-l2": {"penalty": "l2"},
        "dirichlet": {"penalty": None},
    }

    @classmethod
    def from_parameters(
        cls,
        parameters: LinearParameters | CanonicalParameters | GenerativeParameters,
        classes: ArrayLike | None = None,
        floor: float = FLOOR_WITHOUT_ZEROS,
    ) -> Self:
        """Return a fitted calibrator with given linear, canonical or generative parameters.

        Examples
        --------
        >>> half = LinearParameters(np.eye(2) / 2, np.zeros(2))
        >>> DirichletCalibration.from_parameters(half).predict_proba([[0.9, 0.1]])
        array([[0.75, 0.25]])
        """
        linear = parameters if isinstance(parameters, LinearParameters) else parameters.linear()
        weights = np.array(linear.weights, dtype=np.float64)
        intercept = np.array(linear.intercept, dtype=np.float64)
        n_classes = len(intercept)
        if weights.shape != (n_classes, n_classes) or n_classes < 2:
            raise ParameterError(
                f"weights and intercept must be of shape (K, K) and (K,), not {weights.shape} and "
                f"{intercept.shape}."
            )
        calibrator = cls(penalty=None)
        calibrator.classes_ = np.arange(n_classes) if classes is None else np.asarray(classes)
        calibrator.space_ = "probabilities"
        calibrator.floor_ = floor
        calibrator.present_columns_ = None
        calibrator._set_maps(weights[np.newaxis], intercept[np.newaxis])
        return calibrator

    def linear(self) -> LinearParameters:
        """Return (W, b); if models are averaged, their mean, whose map is close to the average of their maps."""
        check_is_fitted(self)
        return LinearParameters(self.weights_, self.intercept_)

    def canonical(self) -> CanonicalParameters:
        """Return (A, c) of :meth:`linear`, the unique :class:`~.dirichlet_parameters.CanonicalParameters`."""
        return self.linear().canonical()

    def generative(self) -> GenerativeParameters:
        """Return (alpha, pi) of :meth:`linear`: one Dirichlet density per class and the class prior."""
        return self.linear().generative()

    def interpretation_points(
        self, epsilon: float = 1e-4, *, limit: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        r"""Return K + 1 points and their images, both (K + 1, K), to interpret the map.

        Point j has :math:`\varepsilon` for class j and equal shares for the others; the last is the centre.
        With ``limit=True`` the first K images are the paper's
        :math:`(\varepsilon^{a_{1j}}, \dots, \varepsilon^{a_{Kj}})` over its sum, which omits factors that are bounded as
        :math:`\varepsilon \to 0`; otherwise they are exact, those of the averaged map if models are averaged. K counts the
        classes with calibration rows (``present_columns_``).
        """
        matrix, center = self.canonical()
        n_classes = len(center)
        if not 0 < epsilon < 1:
            raise ParameterError(f"epsilon must lie strictly between 0 and 1, not {epsilon}.")
        points = np.full((n_classes + 1, n_classes), (1 - epsilon) / (n_classes - 1))
        points[np.arange(n_classes), np.arange(n_classes)] = epsilon
        points[-1] = 1 / n_classes
        maps = zip(self.fold_weights_, self.fold_intercepts_, strict=True)
        images = np.mean([LinearParameters(*parameters).map(points) for parameters in maps], axis=0)
        if limit:
            powers = epsilon**matrix.T
            images[:-1] = powers / powers.sum(axis=1, keepdims=True)
        return points, images
