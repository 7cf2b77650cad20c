"""Isotonic calibration: the least-squares non-decreasing map of a probability."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Vector
from calibrant.calibrator import Traits
from calibrant.calibrators.monotone.monotone_curve import (
    ROWS_AT_ENDS,
    Interpolation,
    PooledScores,
    Ties,
    fitted_curve,
)
from calibrant.calibrators.reductions.binary_method import BinaryMethod
from calibrant.calibrators.reductions.event_scores import EventScores
from calibrant.errors import ParameterError
from calibrant.graph import Event
from calibrant.graph.curves import Piecewise
from calibrant.options import check_choice, check_not_negative

__all__ = ["IsotonicCalibration"]


class IsotonicCalibration(BinaryMethod):
    r"""Isotonic calibration: isotonic regression of the outcome on the probability of an event.

    .. math:: \min_g \sum_i w_i (o_i - g(p_i))^2, \qquad g \text{ non-decreasing}

    where :math:`o_i` is the outcome, 1 for the event :cite:`zadrozny2002`. The same function minimises the
    log-loss and every other proper loss. It is constant on blocks of rows, with the event frequency in each.
    More than two classes are calibrated one-vs-rest.

    Parameters
    ----------
    interpolation : {"linear", "step"}, default="linear"
        Between two blocks, linear as in scikit-learn, or a step at the midpoint as in the papers.
    ties : {"keep", "centered", "strict"}, default="keep"
        Treatment of scores that fall into one block:

        - ``"keep"``: all get the value of the block, so the ranking of their rows is lost;
        - ``"centered"``: centred isotonic regression :cite:`oron2017`: the value of a block holds at the weighted mean of its
          scores, with linear interpolation between blocks. Beyond the outermost blocks the map is linear up to half of the
          first value at 0, and half of the last one's distance from 1 at 1. Different scores stay different (unless
          ``smoothing=0`` leaves ends of 0 or 1), so ranking and AUC are preserved up to rounding;
        - ``"strict"``: as ``"keep"``, plus 1e-9 times the score, over 1 + 1e-9, as in Mix-n-Match
          :cite:`zhang2020`; this breaks ties too, but only in float64, and not among the smallest scores, whose
          differences are lost to rounding.
    smoothing : float, default=1.0
        Weight of the pseudo-row that keeps the ends away from 0 and 1, see the notes; 0 for the raw map.

    Attributes
    ----------
    scores_ : ndarray of shape (m,)
        Scores of the knots of the map, strictly increasing; for two classes.
    values_ : ndarray of shape (m,)
        Probabilities at the knots. The map is linear between knots and constant beyond them, so the two arrays
        define it; with ``interpolation="step"`` each value holds from its score up to the next.
    one_vs_rest_ : OneVsRest
        For more than two classes, whose ``calibrators_`` have the knots of every class.

    Notes
    -----
    *Ends.* If the lowest block has no event, the raw map is exactly 0 there, and a later event makes the log-loss infinite;
    likewise at the other end. Therefore an event of weight ``smoothing``, less the weight of the events in the lowest
    block, is added below all rows, and a non-event above all rows; then blocks are pooled again. A lowest block of n rows
    without an event becomes 1 / (n + 1) and stays below its neighbour. An end block whose contrary outcomes have
    weight ``smoothing`` or more is not changed.

    *Weights* are frequencies: a row of weight 2 is equivalent to a repeated row. Weights with a mean below 1 are rescaled to
    mean 1.

    *Programs.* The papers describe a step function; their programs interpolate as scikit-learn does, without clipping,
    and the metric clips the infinite log-loss. :cite:`wenger2020` adds an unspecified small number in the text, and
    nothing in the program. ``smoothing=0`` reproduces them, and with ``ties="strict"`` Mix-n-Match's IROvA, except that
    its rows do not sum to one: see :meth:`~calibrant.OneVsRest.class_probabilities`.

    The predicted class may change, even with two classes. On a small calibration set the map over-fits; a parametric one
    such as temperature scaling is then better. Costs one sort, O(n log n) time and O(n) memory, for each class;
    prediction takes O(log m) per row.

    Examples
    --------
    >>> p, y = [0.1, 0.2, 0.3, 0.4, 0.6, 0.8], [0, 0, 1, 0, 1, 1]
    >>> fitted = IsotonicCalibration().fit(p, y)
    >>> fitted.scores_, fitted.values_.round(3)
    (array([0.1, 0.2, 0.3, 0.4, 0.6, 0.8]), array([0.333, 0.333, 0.5 , 0.5 , 0.667, 0.667]))
    >>> fitted.predict_proba([0.35, 0.5])[:, 1].round(3)
    array([0.5 , 0.583])
    >>> IsotonicCalibration(smoothing=0).fit(p, y).values_
    array([0. , 0. , 0.5, 0.5, 1. , 1. ])
    >>> centered = IsotonicCalibration(ties="centered").fit(p, y)
    >>> centered.scores_.round(3), centered.values_.round(3)
    (array([0.  , 0.15, 0.35, 0.7 , 1.  ]), array([0.167, 0.333, 0.5 , 0.667, 0.833]))
    """

    traits = Traits()
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {
        "isotonic": {},
        "isotonic-centered": {"ties": "centered"},
        "irova": {"ties": "strict"},
    }

    scores_: Vector
    values_: Vector

    def __init__(
        self, interpolation: Interpolation = "linear", ties: Ties = "keep", smoothing: float = 1.0
    ) -> None:
        self.interpolation = interpolation
        self.ties = ties
        self.smoothing = smoothing

    def _check_parameters(self) -> None:
        check_choice("interpolation", self.interpolation, ("linear", "step"))
        check_choice("ties", self.ties, ("keep", "centered", "strict"))
        if self.interpolation == "step" and self.ties != "keep":
            raise ParameterError(
                f"steps cannot break ties; use interpolation='linear' with ties={self.ties!r}, or ties='keep'."
            )
        check_not_negative("smoothing", self.smoothing, ROWS_AT_ENDS)

    def _fit_event(self, scores: EventScores, outcomes: NDArray[np.bool_], weights: Vector | None) -> None:
        groups = PooledScores.of_event(scores.probability, outcomes, weights)
        curve = fitted_curve(groups, self.smoothing, self.ties, self.interpolation)
        self.scores_, self.values_ = curve.knots, curve.values

    def _traced_event(self, event: Event) -> Event:
        is_step = self._setting("interpolation") == "step"
        if is_step:
            curve = Piecewise.steps(self.scores_[1:], self.values_)
        else:
            curve = Piecewise.linear(self.scores_, self.values_)
        return event.with_probability(event.probability.then(curve))
