"""Ensemble temperature scaling (ETS): a mixture of tempered, uncalibrated and uniform predictions."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from calibrant.arrays import FloatArray, Matrix, Vector
from calibrant.calibrator import Calibrator, Traits
from calibrant.calibrators.scaling.temperature_fit import fit_inverse_temperature
from calibrant.graph import TracedPredictions, Value
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.reductions import row_maxima, row_sums
from calibrant.numerics.row_blocks import BlockSums
from calibrant.objective import ArraySource, RowSource, logits
from calibrant.options import check_around_one, check_choice
from calibrant.predictions import Predictions
from calibrant.solvers import Solution, least_squares_weights, likeliest_weights
from calibrant.solvers.simplex_weights import likeliest_weights_of_sums
from calibrant.space import Space

__all__ = ["EnsembleTemperatureScaling"]


# Weight of the uniform predictions if the uncalibrated ones would get all weight: too little to change a loss, and enough
# to make probabilities of zero positive.
TRACE = 1e-10


def fit_mixture_weights(
    source: RowSource, inverse_temperature: float, loss: Literal["log", "brier"]
) -> Solution:
    """Return the optimal weights of the three parts at this temperature as theta, in the order of the formula.

    ``identity_loss`` is that of the uncalibrated probabilities; NaN if they are 0 for an observed class.
    """
    fit = _likeliest if loss == "log" else _least_squares
    solution = fit(source, inverse_temperature)
    if solution.theta[1] > 1 - TRACE:
        solution = replace(solution, theta=np.array([0, 1 - TRACE, TRACE]))
    return solution


def _likeliest(source: RowSource, inverse_temperature: float) -> Solution:
    def likelihoods(data: LabelledPredictions) -> Matrix:
        found = np.full((data.n_rows, 3), 1 / data.n_classes)

        def fill(rows: slice) -> int:
            part, labels = data.predictions.take(rows), data.labels[rows]
            own = np.arange(len(labels)), labels
            found[rows, 0] = _tempered(data.predictions.logits[rows], inverse_temperature)[own]
            found[rows, 1] = _given(part)[own]
            return 1

        with BlockSums.over(data.n_rows, data.n_classes, data.predictions.scores.itemsize) as in_all_blocks:
            in_all_blocks(fill)
        return found

    if isinstance(source, ArraySource):
        known = likelihoods(source.data)
        solution = likeliest_weights(known, source.data.weights)
        given, weights = known[:, 1], source.data.weights
        if given.min() == 0:
            return solution
        return replace(solution, identity_loss=-float(np.average(np.log(given), weights=weights)))

    def summed(contribution: Callable[[Matrix, Vector | None], Vector]) -> Vector:
        return source.summed(lambda data: contribution(likelihoods(data), data.weights))

    solution = likeliest_weights_of_sums(summed, 3, source.total_weight)

    def surprise(rows: Matrix, weights: Vector | None) -> Vector:
        with np.errstate(divide="ignore"):
            losses = -np.log(rows[:, 1])
        return np.array([losses.sum() if weights is None else weights @ losses])

    given_loss = float(summed(surprise)[0]) / source.total_weight
    return solution if np.isinf(given_loss) else replace(solution, identity_loss=given_loss)


def _least_squares(source: RowSource, inverse_temperature: float) -> Solution:
    def of_batch(data: LabelledPredictions) -> Vector:
        def block(rows: slice) -> Vector:
            given, labels = _given(data.predictions.take(rows)), data.labels[rows]
            # The weights depend on differences of sums, which lose digits in float32.
            parts = np.empty((2, *given.shape))
            parts[0] = _tempered(data.predictions.logits[rows], inverse_temperature)
            parts[1] = given
            counted = parts if data.weights is None else data.weights[rows, np.newaxis] * parts
            products = counted.reshape(2, -1) @ parts.reshape(2, -1).T
            return np.append(products, counted[:, np.arange(len(labels)), labels].sum(axis=1))

        with BlockSums.over(data.n_rows, data.n_classes, data.predictions.scores.itemsize) as sums:
            return sums(block)

    totals = source.summed(of_batch) / source.total_weight
    n_classes = source.n_classes
    # Products of a distribution with the uniform one are always 1 / K.
    gram, linear = np.full((3, 3), 1 / n_classes), np.full(3, 1 / n_classes)
    gram[:2, :2], linear[:2] = totals[:4].reshape(2, 2), totals[4:]
    gram[1, 0] = gram[0, 1]
    solution = least_squares_weights(gram, linear, 1.0)
    return replace(solution, identity_loss=float(gram[1, 1] - 2 * linear[1] + 1))


def _tempered(logits: FloatArray, inverse_temperature: float) -> FloatArray:
    """Return softmax(beta z)."""
    block = logits - row_maxima(logits)[:, np.newaxis]
    with np.errstate(over="ignore"):
        block *= block.dtype.type(inverse_temperature)
    np.exp(block, out=block)
    block /= row_sums(block)[:, np.newaxis]
    return block


def _given(part: Predictions) -> FloatArray:
    """Return the uncalibrated probabilities, every row divided by its sum."""
    if part.space is Space.LOGITS:
        return _tempered(part.scores, 1.0)
    normalised: FloatArray = part.scores / row_sums(part.scores)[:, np.newaxis]
    return normalised


TINY = float(np.finfo(np.float64).tiny)


class EnsembleTemperatureScaling(Calibrator):
    r"""Ensemble temperature scaling (ETS): a mixture of tempered, uncalibrated and uniform predictions.

    .. math:: \hat q = w_1 \,\mathrm{softmax}(z / T) + w_2 \,\mathrm{softmax}(z) + w_3 \,\frac{1}{K}, \qquad
              w \ge 0, \quad w_1 + w_2 + w_3 = 1

    The temperature is fitted first, as in :class:`~calibrant.TemperatureScaling`. Then the weights minimise the same loss
    at that temperature, a convex problem that is solved exactly :cite:`zhang2020`.

    Parameters
    ----------
    loss : {"brier", "log"}, default="brier"
        Loss of both steps: the squared error summed over classes, or log-loss.
    bounds : tuple of float, default=(1e-3, 1e3)
        Bounds of the inverse temperature; a fit at a bound warns.

    Attributes
    ----------
    temperature_ : float
        Fitted T of the first part.
    inverse_temperature_ : float
        1 / T.
    weights_ : ndarray of shape (3,)
        Weights of the tempered, the uncalibrated and the uniform predictions. A weight can be exactly zero; with T = 1 the
        first two parts are identical and share their weight.
    solution_ : Solution
        Result of the solver; ``theta`` holds the inverse temperature and the three weights, and ``decrement`` is an upper
        bound on the possible improvement by other weights.

    Notes
    -----
    All parts have the same class order in every row, so the mixture is arg-max-preserving, also in float32, where
    rounding could make two classes equal. The uncalibrated predictions and temperature scaling are special cases, so
    neither has a lower training loss. The uniform part limits the loss of a confident mistake: no class gets less
    than :math:`w_3 / K`.

    Costs temperature scaling plus one pass; the weights take O(n) per step for log-loss and no pass over the rows for
    the Brier score. Prediction works in blocks of rows.

    Probabilities of zero stay zero in the second part, and are raised to the floor of :class:`~calibrant.Predictions` in
    the first. No result is zero: if the second part would get all weight, the third gets 1e-10.

    The ``loss`` argument in the program of :cite:`zhang2020` has no effect: it minimises the squared error, with T
    between 0.05 and 5 (``bounds=(0.2, 20)`` here). :cite:`tomani2022` used it unchanged, while the text says that T
    minimises the log-loss. The default follows the program.

    Examples
    --------
    Ten confident predictions of which eight are correct, and ten less confident ones that are calibrated. A temperature that
    corrects the first harms the second; a uniform part of a quarter harms them less.

    >>> from calibrant import TemperatureScaling
    >>> p = [[0.98, 0.01, 0.01]] * 10 + [[0.5, 0.3, 0.2]] * 10
    >>> y = [0, 0, 0, 0, 0, 0, 0, 0, 1, 2] + [0, 0, 0, 0, 0, 1, 1, 1, 2, 2]
    >>> fitted = EnsembleTemperatureScaling().fit(p, y)
    >>> fitted.weights_.round(3)
    array([0.   , 0.741, 0.259])
    >>> fitted.predict_proba(p[9:11]).round(3)
    array([[0.812, 0.094, 0.094], [0.457, 0.309, 0.235]])
    >>> TemperatureScaling(loss="brier").fit(p, y).predict_proba(p[9:11]).round(3)
    array([[0.824, 0.088, 0.088], [0.413, 0.322, 0.264]])
    """

    traits = Traits(keeps_argmax=True, contains_identity=True, shares_parameters=True)
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {"ets": {}}

    def __init__(
        self, loss: Literal["brier", "log"] = "brier", bounds: tuple[float, float] = (1e-3, 1e3)
    ) -> None:
        self.loss = loss
        self.bounds = bounds

    def fit_rows(self, source: RowSource) -> Self:
        """Fit rows that need not be in memory; see :meth:`calibrant.TemperatureScaling.fit_rows`."""
        return self._fit_from(source, self._fit_source)

    def _fit(self, data: LabelledPredictions) -> None:
        self._fit_source(ArraySource(data))

    def _fit_source(self, source: RowSource) -> None:
        check_choice("loss", self.loss, ("log", "brier"))
        check_around_one("bounds", self.bounds)
        temperature = fit_inverse_temperature(source.features(logits), self.loss, self.bounds)
        self.inverse_temperature_ = float(temperature.theta[0])
        self.temperature_ = 1 / self.inverse_temperature_
        mixture = fit_mixture_weights(source, self.inverse_temperature_, self.loss)
        self.weights_ = mixture.theta
        self.solution_ = replace(
            mixture,
            theta=np.append(self.inverse_temperature_, self.weights_),
            # For a zero of an observed class, the temperature's fit has the loss with the floor instead.
            identity_loss=(
                temperature.identity_loss if np.isnan(mixture.identity_loss) else mixture.identity_loss
            ),
            n_iterations=temperature.n_iterations + mixture.n_iterations,
            n_evaluations=temperature.n_evaluations + mixture.n_evaluations,
            status=mixture.status if temperature.converged else temperature.status,
        )
        self.solution_.warn_unless_converged("EnsembleTemperatureScaling")

    def _traced(self, given: TracedPredictions) -> TracedPredictions:
        tempered, as_given, uniform = self.weights_.tolist()
        mixed: Value | None = None
        if tempered > 0:
            mixed = given.logits.affine(self.inverse_temperature_).softmax() * tempered
        if as_given > 0:
            scores = given.scores
            own = scores.softmax() if given.space is Space.LOGITS else scores / scores.row("sum")
            mixed = own * as_given if mixed is None else mixed + own * as_given
        share = uniform / given.n_classes
        together = given.scores.constant(np.full(given.n_classes, share)) if mixed is None else mixed + share
        # No entry underflows to zero.
        return given.with_probabilities(together, "argmax").with_floor(TINY).without_zeros()
