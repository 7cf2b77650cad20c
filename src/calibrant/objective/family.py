"""Family: a parametric calibration map together with the function that its fit minimises."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibrant.objective.losses import CrossEntropy, LogisticLoss, Loss
from calibrant.objective.maps import EventMap, LogitMap
from calibrant.objective.objective import Objective
from calibrant.objective.penalty import QuadraticPenalty
from calibrant.objective.rows import FeatureRows
from calibrant.predictions import Predictions

__all__ = ["Family", "logits"]

FloatArray = NDArray[np.floating]
Vector = NDArray[np.float64]


def logits(predictions: Predictions) -> FloatArray:
    """Return the logits of predictions, (n, K): as given, or the logarithms of probabilities."""
    return predictions.logits


@dataclass(frozen=True, eq=False)
class Family:
    r"""The calibration maps :math:`\hat q = \mathrm{softmax}(u(\theta; x))` with features :math:`x = \phi(p)` of a row.

    A method states its formula here once. Fit, ``partial_fit``, intervals, plots and predictions are functions of it.

    Attributes
    ----------
    features : callable
        :math:`\phi`: from :class:`~calibrant.predictions.Predictions` to an array with one row per row.
    map : LogitMap
        Scores u, their adjoint, curvature, lower bounds and the identity.
    loss : Loss
        What is minimised on average.
    penalty : QuadraticPenalty or None
        Penalty on the mean loss that does not depend on the number of rows.
    penalty_in_rows : QuadraticPenalty or None
        Penalty on the *sum* of losses: on the mean loss it is divided by the total weight of the rows.
    free_direction : ndarray of shape (P,) or None
        Direction along which the centre of the penalty was itself estimated from the rows, such as the temperature.
    upper : float
        Upper bound of the parameter, for families of one.
    contains_identity : bool
        Whether ``map.identity()`` leaves predictions as they are; else it is only where a fit starts.

    Examples
    --------
    >>> from calibrant.objective import ScalarMap
    >>> temperature = Family(logits, ScalarMap(2, bias=False))
    >>> temperature.scores(np.array([0.5]), Predictions.from_logits([[0.0, 2.0]]))
    array([[0., 1.]])
    """

    features: Callable[[Predictions], FloatArray]
    map: LogitMap
    loss: Loss = field(default_factory=CrossEntropy)
    penalty: QuadraticPenalty | None = None
    penalty_in_rows: QuadraticPenalty | None = None
    free_direction: Vector | None = None
    upper: float = np.inf
    contains_identity: bool = True

    @classmethod
    def of_event(
        cls,
        columns: Callable[[Predictions], Vector],
        identity: Vector,
        lower: Vector,
        *,
        bias: bool = False,
        contains_identity: bool = True,
        penalty_in_rows: QuadraticPenalty | None = None,
        free_direction: Vector | None = None,
    ) -> Self:
        """Return the logistic maps of one event from a design matrix, (n, P), of two columns of predictions.

        ``bias`` says that the last column of the design matrix is all ones.
        """
        return cls(
            columns,
            EventMap(identity, lower, bias),
            LogisticLoss(),
            contains_identity=contains_identity,
            penalty_in_rows=penalty_in_rows,
            free_direction=free_direction,
        )

    @property
    def n_parameters(self) -> int:
        """Number of parameters, P."""
        return self.map.n_parameters

    @property
    def is_event(self) -> bool:
        """Whether the scores are the log-odds of one event."""
        return isinstance(self.map, EventMap)

    def lower(self) -> Vector:
        """Return the lower bounds of the parameters, (P,)."""
        return self.map.lower()

    def mean_penalty(self, total_weight: float) -> QuadraticPenalty:
        """Return the penalty on the mean loss of rows of this total weight."""
        return self.summed_penalty(total_weight).times(1 / total_weight)

    def summed_penalty(self, total_weight: float, multiple: float = 1.0) -> QuadraticPenalty:
        """Return the penalty on the sum of losses; ``multiple`` multiplies the part that is counted in rows."""
        parts = []
        if self.penalty is not None:
            parts.append(self.penalty.times(total_weight))
        if self.penalty_in_rows is not None:
            parts.append(self.penalty_in_rows.times(multiple))
        return reduce(add, parts) if parts else QuadraticPenalty.none(self.n_parameters)

    def without_penalty(self) -> "Family":
        """Return the family with no penalty at all."""
        return replace(self, penalty=None, penalty_in_rows=None)

    def objective(self, rows: FeatureRows, *, exact: bool = True) -> Objective:
        """Return the function of theta that a fit to these rows minimises."""
        return Objective(self.loss, self.map, rows, self.mean_penalty(rows.total_weight), exact=exact)

    def scores(self, theta: Vector, predictions: Predictions) -> FloatArray:
        """Return u, (n, K), or the log-odds of an event, (n,)."""
        return self.map.forward(theta, self.features(predictions))
