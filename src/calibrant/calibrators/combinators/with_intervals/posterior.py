"""Laplace approximation: normal posterior of a fitted family, truncated at the bounds of its parameters."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag, cho_factor, cho_solve, cholesky, solve_triangular
from scipy.special import expit, log_expit

from calibrant.arrays import Cube, IntArray, Matrix, Vector
from calibrant.calibrator import Calibrator
from calibrant.calibrators.parametric import Parametric
from calibrant.calibrators.reductions.binary_method import BinaryMethod
from calibrant.calibrators.reductions.event_scores import AgainstRest
from calibrant.calibrators.reductions.one_vs_rest import OneVsRest
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.row_blocks import row_blocks
from calibrant.numerics.truncated_normal import TruncatedNormal
from calibrant.objective import Family
from calibrant.predictions import Predictions

__all__ = [
    "Covariance",
    "FittedFamily",
    "OneVsRestFamily",
    "Posterior",
    "SoftmaxFamily",
    "fitted_family",
    "is_penalised",
    "laplace",
    "n_parameters_of",
]


class FittedFamily(ABC):
    r"""A fitted map as the softmax of scores :math:`u(\theta; x)`, with the derivatives of its loss at the fit.

    Attributes
    ----------
    theta : ndarray of shape (P,)
        Fitted parameters.
    lower : ndarray of shape (P,)
        Lower bounds of the parameters; minus infinity where there is none.
    n_classes : int
        Number of classes, K.
    """

    theta: Vector
    lower: Vector
    n_classes: int
    is_likelihood: ClassVar[bool] = True

    @property
    def n_parameters(self) -> int:
        """Number of parameters, P."""
        return len(self.theta)

    @abstractmethod
    def penalty_hessian(self, total_weight: float) -> Matrix:
        """Return the second derivatives of the penalty on the *sum* of losses of so many rows, (P, P)."""

    @abstractmethod
    def penalty_gradient(self, total_weight: float) -> Vector:
        """Return its first derivatives at the fit, (P,); only those of parameters at a bound matter."""

    @abstractmethod
    def features(self, predictions: Predictions) -> Any:
        """Return what the other methods take: the features of these rows, in float64."""

    @abstractmethod
    def gradients(self, features: Any, labels: IntArray) -> Matrix:
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


class SoftmaxFamily(FittedFamily):
    r"""A :class:`~calibrant.objective.Family` at the fit; :math:`u = J(x)\,\theta` is linear in the parameters."""

    def __init__(self, family: Family, theta: Vector) -> None:
        self.family, self.theta, self.lower = family, theta, family.lower()
        self.n_classes = family.map.n_classes

    def penalty_hessian(self, total_weight: float) -> Matrix:
        hessian = self.family.summed_penalty(total_weight).hessian()
        free = self.family.free_direction
        return hessian if free is None else without_direction(hessian, free)

    def penalty_gradient(self, total_weight: float) -> Vector:
        return self.family.summed_penalty(total_weight).gradient(self.theta)

    def features(self, predictions: Predictions) -> Matrix:
        return self.family.features(predictions).astype(np.float64)

    def gradients(self, features: Any, labels: IntArray) -> Matrix:
        targets = (labels == 1).astype(np.float64) if self.family.is_event else labels
        scores = self.family.map.forward(self.theta, features)
        _, _, gradients = self.family.loss.expand(scores, targets)
        return self.family.map.row_adjoints(gradients, features)

    def information(self, features: Any, weights: Vector) -> Matrix:
        logit_map = self.family.map
        nobody = np.zeros(len(features), dtype=np.intp)  # the Hessian does not depend on the labels
        _, state, _ = self.family.loss.expand(logit_map.forward(self.theta, features), nobody)
        return logit_map.information(state, weights, features)

    def directions(self, features: Any, changes: Matrix) -> Cube:
        return self.family.map.row_directions(features, changes)

    def log_odds(self, features: Matrix) -> Vector:
        """Return the log-odds of an event, (n,)."""
        return np.asarray(self.family.map.forward(self.theta, features), dtype=np.float64)


class OneVsRestFamily(FittedFamily):
    r"""A map of each class against the rest, divided by their sum: :math:`u_k = \ln \sigma(x_k^\top \theta_k)`.

    The K fits are estimates from the same rows, and where one class is found too often another is found too seldom. Their
    errors are taken together, as those of one estimate that solves all K equations: the Hessian has a block for each
    class, the covariance of the gradients has entries between classes as well.
    """

    is_likelihood: ClassVar[bool] = False

    def __init__(self, events: Sequence[SoftmaxFamily]) -> None:
        self.events = events
        self.theta = np.concatenate([event.theta for event in events])
        self.lower = np.concatenate([event.lower for event in events])
        self.n_classes = len(events)

    def penalty_hessian(self, total_weight: float) -> Matrix:
        return np.asarray(block_diag(*[event.penalty_hessian(total_weight) for event in self.events]))

    def penalty_gradient(self, total_weight: float) -> Vector:
        return np.concatenate([event.penalty_gradient(total_weight) for event in self.events])

    def features(self, predictions: Predictions) -> list[Matrix]:
        against = AgainstRest(predictions)
        return [event.features(against.column(column)) for column, event in enumerate(self.events)]

    def gradients(self, features: Any, labels: IntArray) -> Matrix:
        return np.hstack(
            [
                event.gradients(of_class, (labels == column).astype(np.intp))
                for column, (event, of_class) in enumerate(zip(self.events, features, strict=True))
            ]
        )

    def information(self, features: Any, weights: Vector) -> Matrix:
        whole = np.zeros((self.n_parameters, self.n_parameters))
        for part, event, of_class in zip(self._parts, self.events, features, strict=True):
            whole[part, part] = event.information(of_class, weights)
        return whole

    def expected_squares(self, features: Any, weights: Vector) -> Matrix:
        separate = np.column_stack([expit(log_odds) for log_odds in self._log_odds(features)])
        probabilities = separate / separate.sum(axis=1, keepdims=True)
        # Of labels that follow the map: diag(p) - p p^T between the classes of a row.
        spread = np.hstack([p[:, np.newaxis] * c for p, c in zip(probabilities.T, features, strict=True)])
        whole: Matrix = -(spread.T @ (spread * weights[:, np.newaxis]))
        for part, columns, p in zip(self._parts, features, probabilities.T, strict=True):
            whole[part, part] += columns.T @ (columns * (weights * p)[:, np.newaxis])
        return whole

    def directions(self, features: Any, changes: Matrix) -> Cube:
        return self._by_class(
            features, changes, lambda log_odds, moved: expit(-log_odds)[:, np.newaxis] * moved
        )

    def moved(self, features: Any, changes: Matrix) -> Cube:
        return self._by_class(
            features,
            changes,
            lambda log_odds, moved: (
                log_expit(log_odds[:, np.newaxis] + moved) - log_expit(log_odds)[:, np.newaxis]
            ),
        )

    def _by_class(
        self, features: list[Matrix], changes: Matrix, change_of: Callable[[Vector, Matrix], Matrix]
    ) -> Cube:
        result = np.empty((len(features[0]), len(features), changes.shape[1]))
        log_odds = self._log_odds(features)
        for column, (part, columns) in enumerate(zip(self._parts, features, strict=True)):
            result[:, column] = change_of(log_odds[column], columns @ changes[part])
        return result

    def _log_odds(self, features: list[Matrix]) -> list[Vector]:
        return [event.log_odds(of_class) for event, of_class in zip(self.events, features, strict=True)]

    @cached_property
    def _parts(self) -> list[slice]:
        ends = np.cumsum([event.n_parameters for event in self.events]).tolist()
        return [slice(end - event.n_parameters, end) for end, event in zip(ends, self.events, strict=True)]


def n_parameters_of(calibrator: Calibrator, n_classes: int) -> int | None:
    """Return the number of parameters of a calibrator for K classes; None if it has no normal approximation.

    >>> from calibrant import TemperatureScaling, VectorScaling
    >>> n_parameters_of(VectorScaling(), 3), n_parameters_of(TemperatureScaling(loss="brier"), 3)
    (6, None)
    """
    if isinstance(calibrator, OneVsRest):
        # Other ways to make rows sum to one have other derivatives.
        divided = calibrator.normalisation == "divide" and isinstance(calibrator.base, BinaryMethod)
        return n_parameters_of(calibrator.base, n_classes) if n_classes == 2 or divided else None
    return calibrator._n_parameters(n_classes) if isinstance(calibrator, Parametric) else None


def fitted_family(calibrator: Calibrator) -> FittedFamily:
    """Return the family of a fitted calibrator for which :func:`n_parameters_of` gave a number."""
    one_vs_rest = calibrator if isinstance(calibrator, OneVsRest) else vars(calibrator).get("one_vs_rest_")
    if one_vs_rest is not None:
        if len(one_vs_rest.calibrators_) == 1:
            return fitted_family(one_vs_rest.calibrators_[0])
        return OneVsRestFamily([_of_map(of_class) for of_class in one_vs_rest.calibrators_])
    return _of_map(calibrator)


def is_penalised(calibrator: Parametric) -> bool:
    """Return whether a fitted map of one family has a penalty."""
    return bool(_of_map(calibrator).penalty_hessian(1.0).any())


def _of_map(calibrator: Any) -> SoftmaxFamily:
    present = calibrator.present_columns_
    n_classes = len(calibrator.classes_) if present is None else len(present)
    return SoftmaxFamily(calibrator.family(n_classes), calibrator._theta)


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


Covariance = Literal["model", "sandwich"]

# Curvature, relative to that of each parameter, of a prior that only matters where rows say nothing: there deviations
# are finite, but so large that intervals reach from 0 to 1.
RIDGE = 1e-10

# Share of the variance of the ridge alone beyond which a parameter counts as unknown.
FLAT = 0.01

# Bounds further away than this, in standard deviations, are never met.
FAR = 4.0

# Curvature per row below which a parameter counts as unknown.
LEAST_CURVATURE = 1e-16

# Of the rows, that parameters may leave free at the least; with fewer rows than parameters nothing can be said.
LEAST_SHARE = 0.25

MIN_ROWS = 256  # at a time


@dataclass(frozen=True, eq=False)
class Posterior:
    r"""Normal distribution of the change of the parameters from their fitted values.

    Attributes
    ----------
    factor : ndarray of shape (P, P)
        R with :math:`R R^\top` the covariance.
    centre : ndarray of shape (P,)
        Mean before the distribution is cut off: zero, unless the fit is pressed against a bound.
    lower : ndarray of shape (P,)
        Least change that the bounds allow, at most zero.
    flat : ndarray of shape (P,)
        Whether the rows say nothing about a parameter, so that its deviation is that of the ridge.
    is_penalised : bool
        Whether the fit has a penalty.
    """

    factor: Matrix
    centre: Vector
    lower: Vector
    flat: NDArray[np.bool_]
    is_penalised: bool = False

    @property
    def is_cut(self) -> bool:
        """Whether the bound of a parameter is within reach, so that the distribution is not normal.

        A bound is no knowledge: what rows leave open stays open, and such parameters do not count.
        """
        return bool((self._within_reach & ~self.flat).any())

    @property
    def _within_reach(self) -> NDArray[np.bool_]:
        deviations = np.sqrt(np.einsum("pr,pr->p", self.factor, self.factor))
        return np.asarray(self.centre - FAR * deviations < self.lower)

    def draws(self, generator: np.random.Generator, n_draws: int) -> Matrix:
        """Return changes of the parameters, (n_draws, P), none of them beyond a bound.

        Every second draw mirrors the one before, which cancels errors of odd order, unless the distribution is cut.
        """
        if not self._within_reach.any():
            halves = generator.standard_normal(((n_draws + 1) // 2, self.factor.shape[1])) @ self.factor.T
            return np.stack([halves, -halves], axis=1).reshape(-1, len(self.factor))[:n_draws]
        bounded = np.isfinite(self.lower)
        covariance = self.factor @ self.factor.T
        own = covariance[np.ix_(bounded, bounded)]
        room = -self.lower[bounded]
        within = np.maximum(room, 0.1 * np.sqrt(np.diag(own)))
        cut = TruncatedNormal(self.centre[bounded] + room, own, 0.0, within).draws(generator, n_draws) - room
        # The others given these: a draw of all, moved by what its bounded part differs from the one that is kept.
        free = self.centre + generator.standard_normal((n_draws, self.factor.shape[1])) @ self.factor.T
        scale = np.sqrt(np.diag(own))
        correlation = own / np.outer(scale, scale)
        correlation[np.diag_indices_from(correlation)] += RIDGE
        slopes = cho_solve(cho_factor(correlation), covariance[bounded] / scale[:, np.newaxis])
        changes: Matrix = free + ((cut - free[:, bounded]) / scale) @ slopes
        changes[:, bounded] = cut
        return changes


def laplace(family: FittedFamily, data: LabelledPredictions, covariance: Covariance) -> Posterior:
    r"""Return the normal distribution around a fit to these rows.

    With A the Hessian of the sum of losses and of the penalty, :math:`\Lambda` the part of the penalty in it and B the
    sum of the squared gradients of the rows,

    .. math:: \Sigma_{\text{model}} = A^{-1}, \qquad
              \Sigma_{\text{sandwich}} = A^{-1} \Bigl(\frac{n}{n - d} B + \Lambda + g g^\top\Bigr) A^{-1}.

    A penalty counts as the normal prior whose logarithm it is. If the family is right B tends to the Hessian of the losses,
    and the two agree. The parameters have fitted themselves to the gradients; :math:`d = P - \mathrm{tr}(A^{-1} \Lambda)`,
    the number of those that the rows and not the prior determine, makes up for that. A truth that the prior thinks unlikely is
    missed by the bias of the penalty: :math:`A^{-1} g`, with g the gradient of the penalty at the fit, estimates it, and the
    variance has its square besides. Without a penalty g is zero. For estimates that are not those of
    one likelihood, such as K maps one against the rest, the model's form has the covariance that the gradients have
    if the map is true in the place of B. Costs :math:`O(n P^2 + P^3)` time, memory for a few matrices (P, P) and a
    block of rows.
    """
    size = family.n_parameters
    weights = np.ones(data.n_rows) if data.weights is None else data.weights
    hessian, squares, gradient = np.zeros((size, size)), np.zeros((size, size)), np.zeros(size)
    for rows in row_blocks(data.n_rows, family.n_classes + size, min_rows=MIN_ROWS):
        features = family.features(data.predictions.take(rows))
        gradients = family.gradients(features, data.labels[rows])
        gradient += weights[rows] @ gradients
        hessian += family.information(features, weights[rows])
        if covariance == "sandwich":
            squares += (gradients * weights[rows, np.newaxis]).T @ gradients
        else:
            squares += family.expected_squares(features, weights[rows])
    prior = family.penalty_hessian(data.total_weight)
    at_bound = family.theta <= family.lower
    # Where a penalised fit stands still, the rows pull as much as the penalty does.
    pull = np.where(at_bound, 0.0, gradient) if prior.any() else np.zeros(size)
    gradient += family.penalty_gradient(data.total_weight)

    whole = hessian + prior
    scale = np.sqrt(np.maximum(np.diag(whole), LEAST_CURVATURE * data.total_weight))
    between = np.outer(scale, scale)
    root = _root(whole / between)
    hessian /= between
    if covariance == "sandwich":
        n_determined = float(np.trace(cho_solve((root, True), hessian)))
        squares *= 1 / max(1 - n_determined / data.total_weight, LEAST_SHARE)
        squares += np.outer(pull, pull)
    if covariance == "model" and family.is_likelihood:
        factor = solve_triangular(root, np.eye(size), lower=True).T
    else:
        factor = cho_solve((root, True), _root((squares + prior) / between))
    # A fit at a bound is where the loss would still fall if it could.
    pressing = np.where(at_bound & (gradient > 0), gradient, 0.0)
    centre = -cho_solve((root, True), pressing / scale) / scale
    flat = np.einsum("pr,pr->p", factor, factor) > FLAT / RIDGE
    return Posterior(
        factor / scale[:, np.newaxis], centre, family.lower - family.theta, flat, bool(prior.any())
    )


def _root(matrix: Matrix) -> Matrix:
    """Return the Cholesky factor of a positive semidefinite matrix with a diagonal of about one, and of its ridge."""
    ridge = RIDGE
    while True:
        lifted = matrix + ridge * np.eye(len(matrix))
        try:
            root: Matrix = cholesky(lifted, lower=True)
            return root
        except np.linalg.LinAlgError:
            ridge *= 10  # rounding made a flat direction negative
