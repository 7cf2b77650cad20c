"""Vector scaling: one weight and one intercept per class."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrator import Traits
from calibrant.calibrators.partial_fitting import PartialFitting
from calibrant.calibrators.scaling.remembered_loss import RememberedLoss, softmax_loss
from calibrant.calibrators.scaling.temperature_fit import start_temperature
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.objective import CrossEntropy, DiagonalMap, Objective
from calibrant.predictions import Predictions
from calibrant.solvers import Solution, newton_cg
from calibrant.space import Space

__all__ = ["VectorScaling"]


class VectorScaling(PartialFitting):
    r"""Scale and shift the logit of every class.

    .. math:: \hat q = \mathrm{softmax}(w \circ z + b), \qquad w, b \in \mathbb{R}^K

    with w and b minimising the log-loss on the calibration set :cite:`guo2017`. For probabilities z is their
    logarithm, which makes it the diagonal case of Dirichlet calibration :cite:`kull2019`; raw logits carry
    more information and give another map.

    Parameters
    ----------
    bias : bool, default=True
        Whether to fit b.

    Attributes
    ----------
    weights_ : ndarray of shape (K,)
    intercept_ : ndarray of shape (K,)
        Sums to zero; adding a constant would change nothing.
    solution_ : Solution
        How the fit went.

    Notes
    -----
    A convex problem in 2K parameters without a penalty, solved by Newton's method to the optimum from the
    fitted temperature: O(nK^2) per step, about six steps. The figures published in :cite:`kull2019` come
    from a stochastic optimiser that stopped early, which acts as a little regularisation: they can differ
    from the optimum by a few units in the fourth digit, either way.

    *Batches.* ``partial_fit`` keeps the loss of past rows as the quadratic function that it is near the last estimate,
    O(K^2) numbers; see :doc:`/online`. A class that has not come by then keeps its share of probability until it does.

    Examples
    --------
    >>> p = [[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.3, 0.6, 0.1], [0.5, 0.2, 0.3]] * 4
    >>> y = [0, 1, 1, 0, 2, 0, 1, 1, 0, 1, 2, 1, 1, 0, 2, 0, 1, 2, 0, 2]
    >>> VectorScaling().fit(p, y).predict_proba(p).mean(axis=0).round(4)   # the shares of the classes
    array([0.35, 0.4 , 0.25])
    """

    traits = Traits(contains_identity=True, uses_raw_logits=True)
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {"vector": {}}

    def __init__(self, bias: bool = True) -> None:
        self.bias = bias

    def _fit(self, data: LabelledPredictions) -> None:
        self._set_parameters(self._solved(data), np.arange(data.n_classes))

    def _condense(self, data: LabelledPredictions, n_rows: float) -> None:
        if self.present_columns_ is not None:
            # What is remembered is of all columns, and a class that is still to come has half a row that says nothing
            # of x. Given the other classes the map is that of the fit, and the class keeps its share until it comes.
            late = np.setdiff1d(np.arange(data.n_classes), self.present_columns_)
            data = _with_half_rows(data, late)
            self._set_parameters(self._solved(data), self.present_columns_)
        loss = softmax_loss(self._objective(data))
        self.memory_ = RememberedLoss.of(loss, self.solution_.theta, data.total_weight).memory(n_rows)

    def _update(self, data: LabelledPredictions, kept: float, n_rows: float) -> None:
        remembered = RememberedLoss.from_memory(self.memory_).faded(kept)
        objective = self._objective(data)
        with objective.open():
            solution, remembered = remembered.updated(softmax_loss(objective), data.total_weight)
        self.memory_ = remembered.memory(n_rows)
        present = np.arange(data.n_classes)
        if self.present_columns_ is not None:
            present = np.union1d(self.present_columns_, data.labels)
            self.present_columns_ = present if len(present) < data.n_classes else None
        self._set_parameters(solution, present)

    def _rough_parameters(self, n_classes: int) -> int:
        return n_classes * (1 + bool(self.bias))

    def _objective(self, data: LabelledPredictions) -> Objective:
        logit_map = DiagonalMap(data.n_classes, self.bias)
        return Objective(CrossEntropy(), logit_map, data.predictions.logits, data.labels, data.weights)

    def _solved(self, data: LabelledPredictions) -> Solution:
        objective = self._objective(data)
        return newton_cg(objective, start_temperature(data) * objective.map.identity())

    def _set_parameters(self, solution: Solution, columns: NDArray[np.intp]) -> None:
        """Set the map of the columns that have rows; of others nothing is known."""
        self.solution_ = solution
        n_classes = len(solution.theta) // (1 + bool(self.bias))
        self.weights_ = solution.theta[:n_classes][columns]
        self.intercept_ = solution.theta[n_classes:][columns] if self.bias else np.zeros(len(columns))
        self.intercept_ = self.intercept_ - self.intercept_.mean()
        solution.warn_unless_converged("VectorScaling")

    def _transform(self, predictions: Predictions) -> Predictions:
        if self._waits:
            return predictions.without_zeros()
        logits = predictions.logits
        scaled = logits * self.weights_.astype(logits.dtype) + self.intercept_.astype(logits.dtype)
        return Predictions(scaled, Space.LOGITS, predictions.classes)


def _with_half_rows(data: LabelledPredictions, late: NDArray[np.intp]) -> LabelledPredictions:
    """Return the rows and, for each of some classes, half a row of that class that is the mean of all rows."""
    logits = data.predictions.logits
    mean = np.average(logits, axis=0, weights=data.weights).astype(logits.dtype)
    weights = np.ones(data.n_rows) if data.weights is None else data.weights
    return LabelledPredictions(
        Predictions(
            np.vstack([logits, np.tile(mean, (len(late), 1))]), Space.LOGITS, data.predictions.classes
        ),
        np.concatenate([data.labels, late]),
        data.classes,
        np.concatenate([weights, np.full(len(late), 0.5)]),
    )
