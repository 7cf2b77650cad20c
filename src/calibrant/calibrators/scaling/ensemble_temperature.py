"""Ensemble temperature scaling: tempered, unchanged and uniform predictions in one mixture."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from calibrant.arrays import FloatArray, Matrix, Vector
from calibrant.calibrator import Calibrator, Traits
from calibrant.calibrators.parametric import fit_source
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


# Weight of the uniform predictions where the given ones would be alone: too little to be seen in a loss, and
# enough for a class to which the classifier gave nothing not to be called impossible.
TRACE = 1e-10


def fit_mixture_weights(
    source: RowSource, inverse_temperature: float, loss: Literal["log", "brier"]
) -> Solution:
    """Return the best weights of the three parts at this temperature as theta, the parts in that order.

    ``identity_loss`` is that of the given probabilities; NaN where they call impossible what happened.
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
            # In float32 sums lose digits, and the weights depend on differences of these sums.
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
    """Return the probabilities as the classifier gave them, every row divided by its sum."""
    if part.space is Space.LOGITS:
        return _tempered(part.scores, 1.0)
    normalised: FloatArray = part.scores / row_sums(part.scores)[:, np.newaxis]
    return normalised


TINY = float(np.finfo(np.float64).tiny)


class EnsembleTemperatureScaling(Calibrator):
    r"""Mix predictions at a fitted temperature with the given ones and with uniform ones (ETS).

    .. math:: \hat q = w_1 \,\mathrm{softmax}(z / T) + w_2 \,\mathrm{softmax}(z) + w_3 \,\frac{1}{K}, \qquad
              w \ge 0, \quad w_1 + w_2 + w_3 = 1

    The temperature is fitted first and alone, as :class:`~calibrant.TemperatureScaling` does it; then the
    weights minimise the same loss at that temperature, a convex problem that is solved exactly
    :cite:`zhang2020`.

    Parameters
    ----------
    loss : {"brier", "log"}, default="brier"
        What both steps minimise: the squared error summed over classes, or log-loss.
    bounds : tuple of float, default=(1e-3, 1e3)
        Range in which the inverse temperature is sought; a fit at the edge warns.

    Attributes
    ----------
    temperature_ : float
        Fitted T of the first part.
    inverse_temperature_ : float
        1 / T.
    weights_ : ndarray of shape (3,)
        Weights of the tempered, the given and the uniform predictions. A part that does not help has a weight
        of exactly zero; with T = 1 the first two are the same and share their weight.
    solution_ : Solution
        How the fit went; its ``theta`` holds the inverse temperature and the three weights, and its
        ``decrement`` bounds how much better other weights could be.

    Notes
    -----
    Every part orders the classes of a row alike, so the mixture keeps the arg-max, also in float32, where
    rounding would make two classes equal now and then. Doing nothing and temperature scaling alone are among
    the mixtures, so neither has a lower loss on the calibration rows. What the uniform part adds is a limit
    to the loss of a confident mistake: no class gets less than :math:`w_3 / K`.

    Costs what temperature scaling costs and one pass more; the weights themselves take O(n) per step for
    log-loss and no pass over rows for the Brier score. Predicting works in blocks of rows.

    Zeros among the given probabilities count as zeros in the second part and, as always in logarithms, as the
    floor of :class:`~calibrant.Predictions` in the first. No result is ever zero: should the second part be
    best alone, it leaves a weight of 1e-10 to the third.

    The program of :cite:`zhang2020` has a ``loss`` argument that changes nothing: it minimises the squared
    error, with T between 0.05 and 5 (``bounds=(0.2, 20)`` here), and :cite:`tomani2022` ran it as it is,
    while the text there says that T minimises the log-loss. The default follows the program.

    Examples
    --------
    Ten sure predictions of which eight are right, and ten unsure ones that are honest. A temperature that
    mends the first spoils the second; to give a quarter of every row to all classes alike spoils them less.

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
        fit_source(self, source, self._fit_source)
        return self

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
            # Of a zero that did happen the temperature's fit has the loss with the floor in its place.
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
        # No entry is zero, not even by underflow.
        return given.with_probabilities(together, "argmax").with_floor(TINY).without_zeros()
