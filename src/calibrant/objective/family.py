"""Family: a parametric calibration map together with the function that its fit minimises."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import Self

import numpy as np

from calibrant.arrays import FloatArray, Vector
from calibrant.graph import Event, TracedPredictions, Value
from calibrant.graph.apply import evaluated, evaluated_columns
from calibrant.objective.losses import CrossEntropy, LogisticLoss, Loss
from calibrant.objective.maps import EventMap, LogitMap
from calibrant.objective.objective import Objective
from calibrant.objective.penalty import QuadraticPenalty
from calibrant.objective.rows import FeatureRows
from calibrant.predictions import Predictions

__all__ = ["EventFeatures", "Family", "Features", "log_probabilities", "logits"]


@dataclass(frozen=True, eq=False)
class Features:
    r"""Features of a row, written as a formula on symbolic predictions; call them on predictions for numbers.

    Attributes
    ----------
    formula : callable
        From :class:`~calibrant.graph.TracedPredictions` to a value of one column per class.

    Examples
    --------
    >>> halved = Features(lambda given: given.logits * 0.5)
    >>> halved(Predictions.from_logits([[0.0, 2.0]]))
    array([[0., 1.]])
    """

    formula: Callable[[TracedPredictions], Value]

    def __call__(self, predictions: Predictions) -> FloatArray:
        """Return the features of every row, (n, K), in the float type of the scores."""
        return evaluated(self.formula, predictions)


class _Attribute(Features):
    """Features that predictions keep themselves once they are computed."""

    def __call__(self, predictions: Predictions) -> FloatArray:
        features: FloatArray = self.formula(predictions)  # type: ignore[arg-type, assignment]
        return features


logits = _Attribute(lambda given: given.logits)
"""Logits, (n, K): as given, or the logarithms of probabilities."""

log_probabilities = _Attribute(lambda given: given.log_probabilities)
"""Logarithms of probabilities, (n, K)."""


@dataclass(frozen=True, eq=False)
class EventFeatures:
    """Columns of the design matrix of one event, as a formula on a symbolic event.

    Attributes
    ----------
    formula : callable
        From :class:`~calibrant.graph.Event` to B values of one column.
    mixing : ndarray of shape (B, P) or None
        The design matrix is the product of these columns and this matrix; None for the columns themselves.
    """

    formula: Callable[[Event], list[Value]]
    mixing: Vector | None = None

    def __call__(self, predictions: Predictions) -> Vector:
        """Return the design matrix of predictions of two classes, (n, P), stored column by column."""
        columns = evaluated_columns(self.formula, predictions)
        return columns if self.mixing is None else (self.mixing.T @ columns.T).T

    def log_odds(self, theta: Vector, event: Event) -> Value:
        """Return the product of the design matrix and theta for a symbolic event."""
        factors = theta if self.mixing is None else self.mixing @ theta
        constant = 0.0
        total: Value | None = None
        for column, factor in zip(self.formula(event), factors.tolist(), strict=True):
            number = column.constant_number
            if number is not None:
                constant += factor * number
            else:
                total = column * factor if total is None else total + column * factor
        assert total is not None
        return total + constant


@dataclass(frozen=True, eq=False)
class Family:
    r"""The calibration maps :math:`\hat q = \mathrm{softmax}(u(\theta; x))` with features :math:`x = \phi(p)` of a row.

    A method states its formula here once. Fit, ``partial_fit``, intervals, plots and predictions are functions of it.

    Attributes
    ----------
    features : Features or EventFeatures
        :math:`\phi`, a formula; called on :class:`~calibrant.predictions.Predictions` it gives one row per row.
    map : LogitMap
        Scores u, their adjoint, curvature, lower bounds and the identity.
    loss : Loss
        Loss of a row; fits minimise its mean.
    penalty : QuadraticPenalty or None
        Penalty on the mean loss that does not depend on the number of rows.
    penalty_in_rows : QuadraticPenalty or None
        Penalty on the *sum* of losses: on the mean loss it is divided by the total weight of the rows.
    free_direction : ndarray of shape (P,) or None
        Direction along which the centre of the penalty was itself estimated from the rows, such as the temperature.
    upper : float
        Upper bound of the parameter, for families of one.
    contains_identity : bool
        Whether ``map.identity()`` is the identity map; otherwise it is only the start of a fit.

    Examples
    --------
    >>> from calibrant.objective import ScalarMap
    >>> temperature = Family(logits, ScalarMap(2, bias=False))
    >>> temperature.scores(np.array([0.5]), Predictions.from_logits([[0.0, 2.0]]))
    array([[0., 1.]])
    """

    features: Features | EventFeatures
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
        columns: Callable[[Event], list[Value]],
        identity: Vector,
        lower: Vector,
        *,
        bias: bool = False,
        mixing: Vector | None = None,
        contains_identity: bool = True,
        penalty_in_rows: QuadraticPenalty | None = None,
        free_direction: Vector | None = None,
    ) -> Self:
        """Return the logistic maps of one event from the P columns of a design matrix.

        ``bias`` says that the last column of the design matrix is all ones; for ``mixing`` see :class:`EventFeatures`.
        """
        return cls(
            EventFeatures(columns, mixing),
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

    def traced_scores(self, theta: Vector, given: TracedPredictions) -> Value:
        """Return u of symbolic predictions."""
        assert isinstance(self.features, Features)
        return self.map.traced(theta, self.features.formula(given))

    def traced_log_odds(self, theta: Vector, event: Event) -> Value:
        """Return the log-odds of a symbolic event: the columns of the design matrix times theta."""
        assert isinstance(self.features, EventFeatures)
        return self.features.log_odds(theta, event)
