"""Piecewise-linear calibration: an increasing function of the log-odds with a few slopes."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from calibrant.calibrator import Traits
from calibrant.calibrators.monotone.segment_maps import SegmentMaps, mixed_log_odds
from calibrant.calibrators.reductions.binary_method import BinaryMethod
from calibrant.calibrators.reductions.binary_problem import binary_problem
from calibrant.calibrators.reductions.doing_nothing import is_worse_than_nothing
from calibrant.calibrators.reductions.event_scores import EventScores
from calibrant.calibrators.scaling.quadratic_objective import EventRows, PenalisedLogOdds
from calibrant.calibrators.scaling.temperature_fit import bounded_steepness
from calibrant.numerics.linear_segments import weighted_quantiles
from calibrant.options import check_not_negative, check_whole
from calibrant.predictions import Predictions
from calibrant.solvers import Solution, Status

__all__ = ["PiecewiseLinearCalibration"]

Vector = NDArray[np.float64]

ROUNDING = 1e-12  # relative, within which two mean losses are the same


class PiecewiseLinearCalibration(BinaryMethod):
    r"""Map the log-odds of an event by an increasing function that is linear between a few knots.

    .. math:: \hat q = \sigma(u), \qquad u = b + \sum_{j=1}^m s_j\, g_j(x), \qquad s_j \ge \varepsilon, \qquad
              x = \mathrm{logit}\bigl((1 - \alpha)\, \sigma(s / T) + \alpha / 2\bigr), \qquad s = \ln \frac{p}{1 - p}

    where :math:`g_j` measures how far x has come on the j-th of m segments, so that :math:`s_j` is the slope between two
    neighbouring knots :math:`k_1 < \dots < k_{m-1}`, or beyond the outer ones, and b the value at :math:`k_1`. T is the
    best temperature. Slopes and b minimise, over n rows,

    .. math:: \frac1n \Bigl[ \sum_i \ell(u_i, o_i) + \lambda_b \bigl(u(c) - c\bigr)^2 + \lambda_s \sum_j (s_j - 1)^2
              + \lambda_d \sum_j (s_{j+1} - s_j)^2 \Bigr]

    with the log-loss :math:`\ell`, :math:`o_i` telling whether the event happened, and c the median of the knots.
    Functions that are linear between knots, log-odds against log-odds, are the family of :cite:`kangsepp2025`; here
    they increase, and slopes of one, which are temperature scaling, are where the penalty pulls to. More than two
    classes are calibrated one against the rest.

    Parameters
    ----------
    n_segments : int, default=6
        Number of slopes, m; fewer where scores are too few or too equal to be parted by m - 1 knots. One segment is
        Platt scaling with a penalty.
    slope_penalty : float, default=1.0
        Weight :math:`\lambda_s` of the distance of slopes from one, in rows.
    difference_penalty : float, default=1.0
        Weight :math:`\lambda_d` of changes from one slope to the next, in rows.
    intercept_penalty : float, default=1.0
        Weight :math:`\lambda_b` of the shift at the median of the knots, in rows.
    mixing : float, default=1.0
        Weight, in rows, of the even chance that is mixed in after the temperature: :math:`\alpha` = ``mixing`` /
        (n + ``mixing``). One row is Laplace's rule; 0 for none.

    Attributes
    ----------
    temperature_ : float
        T, of two classes; below 1 if the classifier was under-confident; 1 where no temperature is steep enough. For
        more classes see the ``calibrators_`` of ``one_vs_rest_``.
    mixing_ : float
        :math:`\alpha`; 0 where mixing would do harm, see the notes.
    knots_ : ndarray of shape (m - 1,)
        Where the slope changes, on the scale of x.
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
    *Knots* are the quantiles j / m of x, each row weighted by :math:`\hat p (1 - \hat p)`, so that every segment holds
    the same share of what rows can tell.

    *Either class may be called the event.* If they change places, x, the knots and c change their signs, and the map is the
    same. The published form has neither bounds nor a penalty; it finds the places of the knots as well, and their number by
    cross-validation.

    *Order.* Slopes are at least a thousandth of that of temperature scaling, flat to the eye, so the order of the
    scores of an event, and the AUC, is kept as far as the digits go; very large log-odds become equal by mixing.
    The predicted class may change.

    *Mixing* bounds log-odds, and with them the loss of a single surprise; for a nearly perfect classifier the bound itself
    can be the greater loss. Where the calibration rows end with a higher log-loss than without any calibration, nothing is
    mixed in. Then temperature scaling, which is never worse than nothing, is a member of the family that costs no
    penalty, and neither is the fit.

    A convex problem, solved to its optimum by Newton's method under bounds. With positive penalties it is finite
    also where scores separate the outcomes. Costs O(n m^2) time a step, about ten of them with those of the
    temperature, and O(n) memory; prediction O(log m) a row. Knots and slopes are all it takes to apply the map elsewhere.

    Examples
    --------
    High scores are over-confident and low ones are honest, which one temperature cannot mend.

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

    def _fit_event(self, scores: EventScores, outcomes: NDArray[np.bool_], weights: Vector | None) -> None:
        rows = EventRows(scores.log_odds, outcomes, weights)
        steepness = bounded_steepness(rows.temperature())
        share = float(self.mixing / (rows.total_weight + self.mixing))
        if not self._fit_slopes(rows, steepness, share) and share > 0:
            share = 0.0
            self._fit_slopes(rows, steepness, share)
        self.temperature_, self.mixing_ = 1 / steepness, share
        if self._is_harmful(self.solution_) or is_worse_than_nothing(
            binary_problem(scores.predictions, outcomes, weights), self._calibrated(scores)
        ):
            # Only rounding, or scores too large for their float type, can lead here.
            self._keep_identity()
        self.solution_.warn_unless_converged("PiecewiseLinearCalibration")

    def _fit_slopes(self, rows: EventRows, steepness: float, share: float) -> bool:
        """Fit the map of tempered scores with so much mixed in; tell whether it is no worse than nothing."""
        x = mixed_log_odds(rows.log_odds, steepness, share)
        maps = SegmentMaps(_knots(x, rows.weights, self.n_segments))
        strengths = maps.strengths(self.intercept_penalty, self.slope_penalty, self.difference_penalty)
        objective = PenalisedLogOdds(rows, lambda block: maps.columns(x[block]), maps.unchanged, strengths)
        self.solution_ = objective.minimum(maps.unchanged, maps.lower)
        self.knots_ = maps.knots
        self.intercept_, self.slopes_ = float(self.solution_.theta[0]), self.solution_.theta[1:]
        return not self._is_harmful(self.solution_)

    def _keep_identity(self) -> None:
        nothing = self.solution_.identity_loss
        self.temperature_, self.mixing_ = 1.0, 0.0
        unchanged = SegmentMaps(self.knots_).unchanged
        self.intercept_, self.slopes_ = float(unchanged[0]), unchanged[1:]
        self.solution_ = replace(
            self.solution_,
            theta=unchanged,
            value=nothing,
            loss=nothing,
            status=Status.IDENTITY,
        )

    @staticmethod
    def _is_harmful(solution: Solution) -> bool:
        return not solution.loss <= solution.identity_loss * (1 + ROUNDING)

    def _calibrated(self, scores: EventScores) -> Predictions:
        x = mixed_log_odds(scores.log_odds, 1 / self.temperature_, self.mixing_)
        curve = SegmentMaps(self.knots_).segments.values(self.slopes_, x)
        return scores.with_log_odds(self.intercept_ + np.asarray(curve, dtype=np.float64))


def _knots(x: Vector, weights: Vector | None, n_segments: int) -> Vector:
    """Return places that part the scores into as many parts of equal information, at most ``n_segments`` - 1."""
    column = x[:, np.newaxis]

    def information(rows: slice) -> Vector:
        variances: Vector = expit(column[rows]) * expit(-column[rows])
        return variances if weights is None else variances * weights[rows, np.newaxis]

    return weighted_quantiles(column, information, np.arange(1, n_segments) / n_segments)
