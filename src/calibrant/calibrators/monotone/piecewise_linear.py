"""Piecewise-linear calibration: an increasing piecewise-linear function of the log-odds."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit

from calibrant.arrays import FloatArray, Matrix, Vector
from calibrant.calibrator import Traits
from calibrant.calibrators.identity_check import (
    is_clearly_better_than_identity,
    is_worse_than_identity,
)
from calibrant.calibrators.parametric import EventScaling, as_targets
from calibrant.calibrators.reductions.event_scores import EventScores
from calibrant.calibrators.scaling.temperature_fit import bounded_steepness, event_temperature
from calibrant.graph import Event, Value
from calibrant.graph.apply import computed_columns
from calibrant.graph.curves import Piecewise
from calibrant.numerics.linear_segments import LinearSegments, Range, summed_quantiles
from calibrant.objective import Block, Family, QuadraticPenalty, RowSource
from calibrant.objective.family import EventFeatures
from calibrant.options import check_not_negative, check_whole
from calibrant.predictions import Predictions
from calibrant.solvers import Solution, Status

__all__ = ["PiecewiseLinearCalibration"]


# As a share of the slope of temperature scaling: flat to the eye, and still increasing.
LEAST_SLOPE = 1e-3


@dataclass(frozen=True, eq=False)
class SegmentMaps:
    r"""The functions :math:`u(x) = b + \sum_j s_j\, g_j(x)` of given knots, in the parameters :math:`\theta = (b, s)`.

    :math:`g_j` are the features of :class:`~calibrant.numerics.linear_segments.LinearSegments`, so that b is the
    value at the first knot, or at zero without knots.

    Attributes
    ----------
    knots : ndarray of shape (m - 1,)
        Strictly increasing.

    Examples
    --------
    >>> maps = SegmentMaps(np.array([-1.0, 0.0, 3.0]))
    >>> maps.middle, maps.unchanged
    (0.0, array([-1.,  1.,  1.,  1.,  1.]))
    >>> maps.unchanged @ maps.columns(np.array([-2.0, 0.5, 4.0]))
    array([-2. ,  0.5,  4. ])

    A function that is shifted by two, wherever it is looked at, costs four:

    >>> away = np.array([2.0, 0.0, 0.0, 0.0, 0.0])
    >>> float(away @ maps.strengths(1.0, 1.0, 1.0) @ away)
    4.0
    """

    knots: Vector

    @cached_property
    def segments(self) -> LinearSegments:
        """The functions without their value b."""
        return LinearSegments(self.knots)

    @property
    def n_slopes(self) -> int:
        """Number of slopes, m."""
        return self.segments.n_segments

    @property
    def middle(self) -> float:
        """Where the shift is measured: the median of the knots; zero without knots.

        If the two classes change places the knots change their signs, and so does this.
        """
        return float(np.median(self.knots)) if len(self.knots) else 0.0

    @property
    def unchanged(self) -> Vector:
        """The parameters of the identity, (m + 1,)."""
        return np.append(self.knots[0] if len(self.knots) else 0.0, np.ones(self.n_slopes))

    @property
    def lower(self) -> Vector:
        """Lower bounds of the parameters, (m + 1,)."""
        return np.append(-np.inf, np.full(self.n_slopes, LEAST_SLOPE))

    def columns(self, x: Vector) -> Matrix:
        """Return what every parameter is multiplied by, (m + 1, n); O(nm)."""
        return computed_columns(self.traced_columns, x[:, np.newaxis]).T

    def traced_columns(self, x: Value) -> list[Value]:
        """Return what every parameter is multiplied by, m + 1 values of one column."""
        knots = self.knots.tolist()
        starts, ends = [-np.inf, *knots], [*knots, np.inf]
        zeros = [*knots[:1], *knots] if knots else [0.0]
        parts = [x.clip(low, high) - zero for low, high, zero in zip(starts, ends, zeros, strict=True)]
        return [x.constant(1.0), *parts]

    def strengths(self, intercept_penalty: float, slope_penalty: float, difference_penalty: float) -> Matrix:
        r"""Return the matrix M, (m + 1, m + 1), of a penalty on what differs from the identity, :math:`d^\top M d`.

        .. math:: \lambda_b \big(u(c) - c\big)^2 + \lambda_s \sum_j (s_j - 1)^2 + \lambda_d \sum_j (s_{j+1} - s_j)^2

        with c the :attr:`middle`.
        """
        at_middle = self.columns(np.array([self.middle]))[:, 0]
        differences = np.diff(np.eye(self.n_slopes), axis=0)
        strengths: Matrix = intercept_penalty * np.outer(at_middle, at_middle)
        strengths[1:, 1:] += slope_penalty * np.eye(self.n_slopes)
        strengths[1:, 1:] += difference_penalty * differences.T @ differences
        return strengths


def mixed_log_odds(log_odds: Value, steepness: float, share: float) -> Value:
    r"""Return the logit of :math:`(1 - \alpha)\, \sigma(\beta s) + \alpha / 2` for log-odds s."""
    scaled = log_odds * steepness
    if share == 0:
        return scaled
    happens, fails = (
        part.function("sigmoid").affine(1 - share, share / 2).log(TINY) for part in (scaled, -scaled)
    )
    return happens - fails


TINY = float(np.finfo(np.float64).tiny)
ROUNDING = 1e-12  # relative, within which two mean losses are the same


class PiecewiseLinearCalibration(EventScaling):
    r"""Piecewise-linear calibration: an increasing piecewise-linear function of the log-odds of an event.

    .. math:: \hat q = \sigma(u), \qquad u = b + \sum_{j=1}^m s_j\, g_j(x), \qquad s_j \ge \varepsilon, \qquad
              x = \mathrm{logit}\bigl((1 - \alpha)\, \sigma(s / T) + \alpha / 2\bigr), \qquad s = \ln \frac{p}{1 - p}

    where :math:`g_j` is the length of the j-th of m segments that lies below x, so that :math:`s_j` is the slope between
    adjacent knots :math:`k_1 < \dots < k_{m-1}`, or beyond the outer ones, and b the value at :math:`k_1`. T is the
    best temperature. Slopes and b minimise, over n rows,

    .. math:: \frac1n \Bigl[ \sum_i \ell(u_i, o_i) + \lambda_b \bigl(u(c) - c\bigr)^2 + \lambda_s \sum_j (s_j - 1)^2
              + \lambda_d \sum_j (s_{j+1} - s_j)^2 \Bigr]

    with the log-loss :math:`\ell`, the outcome :math:`o_i`, 1 for the event, and the median c of the knots.
    Piecewise-linear functions from log-odds to log-odds are the family of :cite:`kangsepp2025`. Here they are increasing, and
    the penalty is centred at slopes of one, which are temperature scaling. More than two classes are calibrated one-vs-rest.

    Parameters
    ----------
    n_segments : int, default=6
        Number of slopes, m; fewer if there are too few distinct scores for m - 1 knots. One segment is penalised Platt
        scaling.
    slope_penalty : float, default=1.0
        Regularisation strength :math:`\lambda_s` of the deviation of slopes from one, in rows.
    difference_penalty : float, default=1.0
        Regularisation strength :math:`\lambda_d` of the differences between adjacent slopes, in rows.
    intercept_penalty : float, default=1.0
        Regularisation strength :math:`\lambda_b` of the shift at the median of the knots, in rows.
    mixing : float, default=1.0
        Number of pseudo-rows with probability 1/2 that are mixed in after the temperature: :math:`\alpha` = ``mixing`` /
        (n + ``mixing``). One row is Laplace's rule; 0 for none.

    Attributes
    ----------
    temperature_ : float
        T for two classes; below 1 if the classifier was under-confident; 1 if the temperature fit diverges. For
        more classes see the ``calibrators_`` of ``one_vs_rest_``.
    mixing_ : float
        :math:`\alpha`; 0 if mixing would increase the training loss, see the notes.
    knots_ : ndarray of shape (m - 1,)
        Knots, on the scale of x.
    slopes_ : ndarray of shape (m,)
        Slopes between the knots, and beyond the outer ones.
    intercept_ : float
        Value b at the first knot; at zero if there are no knots.
    solution_ : Solution
        How the fit went; ``theta`` are b and the slopes.
    one_vs_rest_ : OneVsRest
        The maps of all classes, if there are more than two.

    Notes
    -----
    *Knots* are the quantiles j / m of x, with rows weighted by :math:`\hat p (1 - \hat p)`, so that all segments have
    equal information.

    *Symmetry.* If the classes are exchanged, x, the knots and c change their signs, and the map is the same. The published
    form has neither bounds nor a penalty; it also fits the positions of the knots, and selects their number by
    cross-validation.

    *Order.* Slopes are at least a thousandth of that of temperature scaling, so the order of the scores of an event, and the
    AUC, is preserved up to rounding; mixing makes very large log-odds equal. The predicted class may change.

    *Mixing* bounds log-odds, and with them the loss of a single row; for a nearly perfect classifier the bound itself
    can increase the loss. If the training log-loss exceeds that of the uncalibrated predictions, the map is refitted
    without mixing. Then the family contains temperature scaling with zero penalty, so the training loss never exceeds that
    of the uncalibrated predictions.

    A convex problem, solved to its optimum by a bounded Newton method. With positive penalties it is finite even if scores
    separate the outcomes. Costs O(n m^2) time per step, about ten of them including those of the temperature, and O(n)
    memory; prediction O(log m) per row. Knots, slopes and intercept define the map.

    Examples
    --------
    High scores are over-confident and low ones are calibrated, which one temperature cannot correct.

    >>> p = np.repeat([0.02, 0.1, 0.3, 0.7, 0.9, 0.98], 1000)
    >>> y = np.concatenate([np.arange(1000) < n for n in (20, 100, 300, 600, 700, 800)]).astype(int)
    >>> fitted = PiecewiseLinearCalibration().fit(p, y)
    >>> fitted.predict_proba([0.02, 0.1, 0.3, 0.7, 0.9, 0.98])[:, 1].round(2)
    array([0.02, 0.1 , 0.3 , 0.6 , 0.7 , 0.8 ])
    >>> bool((fitted.slopes_ > 0).all()), len(fitted.knots_)
    (True, 5)
    """

    traits = Traits(contains_identity=True)
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {"piecewise-linear": {}}

    temperature_: float
    mixing_: float
    knots_: Vector
    slopes_: Vector
    intercept_: float
    solution_: Solution

    def __init__(
        self,
        n_segments: int = 6,
        slope_penalty: float = 1.0,
        difference_penalty: float = 1.0,
        intercept_penalty: float = 1.0,
        mixing: float = 1.0,
    ) -> None:
        self.n_segments = n_segments
        self.slope_penalty = slope_penalty
        self.difference_penalty = difference_penalty
        self.intercept_penalty = intercept_penalty
        self.mixing = mixing

    def _check_parameters(self) -> None:
        check_whole("n_segments", self.n_segments)
        for name in ("slope_penalty", "difference_penalty", "intercept_penalty"):
            check_not_negative(name, getattr(self, name), "the weight of the identity in rows")
        check_not_negative("mixing", self.mixing, "the weight of the even chance in rows")

    def _event_family(self) -> Family:
        maps = SegmentMaps(vars(self).get("knots_", np.empty(0)))

        def design(event: Event) -> list[Value]:
            return maps.traced_columns(self._tempered(event))

        strengths = maps.strengths(self.intercept_penalty, self.slope_penalty, self.difference_penalty)
        unchanged = maps.unchanged
        return Family.of_event(
            design,
            unchanged,
            maps.lower,
            penalty_in_rows=QuadraticPenalty(np.zeros(len(unchanged)), unchanged, strengths),
            free_direction=unchanged,
        )

    def _n_parameters(self, n_classes: int) -> int:
        return (1 + int(self.n_segments)) * (1 if n_classes == 2 else n_classes)

    def _tempered(self, event: Event) -> Value:
        return mixed_log_odds(event.log_odds, 1 / self.temperature_, self.mixing_)

    def _fit_event_source(self, source: RowSource) -> None:
        best = event_temperature(source, _log_odds)
        self.temperature_ = 1 / bounded_steepness(best)
        share = float(self.mixing / (source.total_weight + self.mixing))
        if not self._fit_slopes(source, share, best.identity_loss) and share > 0:
            self._fit_slopes(source, 0.0, best.identity_loss)
        found = self.solution_
        scores = source.summed(lambda data: Range.of(_log_odds(data.predictions)))
        if not is_clearly_better_than_identity(found, source, max(-scores.low, scores.high)) and (
            self._is_harmful(found) or is_worse_than_identity(source, self._transform)
        ):
            # Only rounding, or scores too large for their float type, can lead here.
            self._keep_identity()
        self.solution_.warn_unless_converged("PiecewiseLinearCalibration")

    def _fit_slopes(self, source: RowSource, share: float, identity_loss: float) -> bool:
        """Fit the map with this mixing; return whether its loss does not exceed that of the identity."""
        self.mixing_ = share
        self.knots_ = self._knots(source)
        family = self._event_family()
        found = self._solved(family, source.features(family.features, labels=as_targets))
        self._use(replace(found, identity_loss=identity_loss))
        return not self._is_harmful(self.solution_)

    def _knots(self, source: RowSource) -> Vector:
        """Return up to m - 1 knots that divide the scores into m parts of equal information."""

        def information(block: Block) -> FloatArray:
            return block.weighted(expit(block.features) * expit(-block.features))

        rows = source.features(EventFeatures(lambda event: [self._tempered(event)]))
        shares = np.arange(1, self.n_segments) / self.n_segments
        with rows.passes(1) as summed:
            rounding = float(np.finfo(np.float64).eps)
            return summed_quantiles(summed, lambda block: block.features, information, shares, rounding)

    def _keep_identity(self) -> None:
        nothing = self.solution_.identity_loss
        self.temperature_, self.mixing_ = 1.0, 0.0
        unchanged = SegmentMaps(self.knots_).unchanged
        kept = replace(self.solution_, theta=unchanged, value=nothing, loss=nothing, status=Status.IDENTITY)
        self._use(kept)

    def _set_parameters(self, theta: Vector) -> None:
        self.intercept_, self.slopes_ = float(theta[0]), theta[1:]

    @property
    def _theta(self) -> Vector:
        return np.append(self.intercept_, self.slopes_)

    @staticmethod
    def _is_harmful(solution: Solution) -> bool:
        return not solution.loss <= solution.identity_loss * (1 + ROUNDING)

    def _traced_event(self, event: Event) -> Event:
        curve = Piecewise.sloped(self.knots_, self.slopes_)
        return event.with_log_odds(self._tempered(event).then(curve) + self.intercept_)


def _log_odds(predictions: Predictions) -> Vector:
    return EventScores(predictions).log_odds
