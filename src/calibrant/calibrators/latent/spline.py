"""Spline calibration: correct a probability by the slope of a spline through cumulative differences."""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.special import expit, logit
from sklearn.base import clone

from calibrant.arrays import Matrix, Vector
from calibrant.calibrator import Traits
from calibrant.calibrators.combinators.top_label import TopLabel
from calibrant.calibrators.identity_check import is_worse_than_identity
from calibrant.calibrators.reductions.binary_method import BinaryMethod
from calibrant.calibrators.reductions.event_scores import AgainstRest, EventScores
from calibrant.calibrators.reductions.one_vs_rest import OneVsRest
from calibrant.calibrators.scaling.temperature_fit import bounded_steepness, fit_inverse_temperature
from calibrant.errors import CalibrationWarning, ParameterError
from calibrant.graph import Event, TracedPredictions
from calibrant.graph.curves import Piecewise
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import held_back, warn_user
from calibrant.numerics.curves import KnottedCurve
from calibrant.numerics.isotonic import isotonic_fit, levels
from calibrant.numerics.row_blocks import in_threads
from calibrant.options import check_choice, check_flag, check_whole, is_number
from calibrant.predictions import Predictions
from calibrant.solvers import Status
from calibrant.space import Space

__all__ = ["SplineCalibration"]

# Shorter stretches lose the digits of a difference; over them Simpson's rule is exact for a parabola, and off by
# about the square of their length where a knot lies inside.
SHORT = 1e-6

# Directions in which the data say less than this, relative to the clearest, say nothing.
RANK_TOLERANCE = 1e-8


def natural_basis(knots: Vector, x: Vector, order: int = 0) -> Matrix:
    r"""Return the values at x of the m natural splines that are one at one knot and zero at all others, (n, m).

    They are cubic between knots, with two continuous derivatives of which the second is zero at both ends, and straight
    lines beyond the first and the last knot. ``order`` is that of the derivative, 0 or 1. Costs O(nm) time and memory.

    >>> natural_basis(np.array([0.0, 1.0]), np.array([0.25, 2.0]))
    array([[ 0.75,  0.25], [-1.  ,  2.  ]])
    >>> natural_basis(np.array([0.0, 1.0]), np.array([0.25]), order=1)
    array([[-1.,  1.]])
    """
    basis = CubicSpline(knots, np.eye(len(knots)), bc_type="natural")
    inside = np.clip(x, knots[0], knots[-1])
    slopes: Matrix = basis(inside, 1)
    if order == 1:
        return slopes
    values: Matrix = basis(inside)
    # scipy would continue the outermost cubics.
    values += (x - inside)[:, np.newaxis] * slopes
    return values


def mean_slope_basis(knots: Vector, starts: Vector, ends: Vector) -> Matrix:
    """Return the mean slope of each basis spline from every start to its end, (n, m); of one place the slope there.

    >>> mean_slope_basis(np.array([0.0, 1.0]), np.array([0.25, 0.5]), np.array([0.75, 0.5]))
    array([[-1.,  1.], [-1.,  1.]])
    """
    length = ends - starts
    long = length > SHORT
    means = np.empty((len(starts), len(knots)))
    difference = natural_basis(knots, ends[long]) - natural_basis(knots, starts[long])
    means[long] = difference / length[long, np.newaxis]
    if not long.all():
        starts, ends = starts[~long], ends[~long]
        middle = natural_basis(knots, (starts + ends) / 2, order=1)
        outer = natural_basis(knots, starts, order=1) + natural_basis(knots, ends, order=1)
        means[~long] = (outer + 4 * middle) / 6
    return means


@dataclass(frozen=True, eq=False)
class NaturalSpline:
    """A piecewise cubic with two continuous derivatives, straight from its outermost knots on.

    Attributes
    ----------
    knots : ndarray of shape (m,)
        Where the pieces meet, strictly increasing, two or more.
    values : ndarray of shape (m,)
        Values there.

    Examples
    --------
    >>> spline = NaturalSpline(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 0.0]))
    >>> spline(np.array([0.5, 1.0, 3.0])), spline.slope(np.array([1.0]))
    (array([ 0.6875,  1.    , -1.5   ]), array([0.]))
    """

    knots: Vector
    values: Vector

    @classmethod
    def fit(cls, knots: Vector, basis: Matrix, targets: Vector, weights: Vector) -> tuple[Self, int]:
        r"""Return the spline of least squares, and how many of its m values the data determine.

        .. math:: \min_y \sum_i w_i (t_i - (B y)_i)^2

        where the rows of B are :func:`natural_basis` for targets that are values, or :func:`mean_slope_basis` for
        targets that are mean slopes. Of several solutions that with the least sum of squares at the knots is taken.
        """
        root = np.sqrt(weights)
        values, _, rank, _ = np.linalg.lstsq(
            basis * root[:, np.newaxis], targets * root, rcond=RANK_TOLERANCE
        )
        return cls(knots, values.astype(np.float64)), int(rank)

    def __call__(self, x: Vector) -> Vector:
        """Return the value at every x, (n,)."""
        values: Vector = natural_basis(self.knots, x) @ self.values
        return values

    def slope(self, x: Vector) -> Vector:
        """Return the first derivative at every x, (n,)."""
        slopes: Vector = natural_basis(self.knots, x, order=1) @ self.values
        return slopes


MOST_CELLS = 1024
"""More distinct scores than this are pooled with their neighbours on the axis.

Beside the distance of the knots of a spline a cell is then a point, and neither a fit nor what it stores grows with the
number of rows.
"""

FARTHEST = 64.0  # log-odds beyond which scores are not told apart


@dataclass(frozen=True, eq=False)
class AxisCells:
    """Neighbouring scores of one event on the axis of a spline, from the lowest to the highest.

    Attributes
    ----------
    score : ndarray of shape (m,)
        Mean score of each, strictly increasing.
    weight : ndarray of shape (m,)
        Total weight of its rows.
    starts, ends : ndarray of shape (m,)
        Stretch of the axis from 0 to 1 that belongs to it.
    rises : ndarray of shape (m,)
        How much the cumulative difference between outcomes and scores rises along it.
    total : float
        What the axis counts, over all cells.
    least_variance : float
        What it counts at least for a row.

    Examples
    --------
    >>> cells = AxisCells.of(np.array([0.5, 0.1, 0.5]), np.array([True, False, False]), None, least_variance=1.0)
    >>> cells.score, cells.weight, cells.ends.round(3), cells.rises.round(3), cells.total
    (array([0.1, 0.5]), array([1., 2.]), array([0.333, 1.   ]), array([-0.033,  0.   ]), 3.0)
    """

    score: Vector
    weight: Vector
    starts: Vector
    ends: Vector
    rises: Vector
    total: float
    least_variance: float

    @classmethod
    def of(
        cls, scores: Vector, outcomes: NDArray[np.bool_], weights: Vector | None, least_variance: float
    ) -> Self:
        """Sort scores, and pool those that share a cell of the axis; costs the sort.

        The axis counts variances p (1 - p) of outcomes, but at least ``least_variance`` for a row: rows if it is 1.
        """
        groups = levels(scores, outcomes, weights)
        score, weight = groups.score.astype(np.float64), groups.weight
        length = weight * np.maximum(score * (1 - score), least_variance)
        ends = np.cumsum(length)
        total = float(ends[-1])
        # A score whose rows weigh nothing against all others has no stretch of its own, and joins the one before.
        begins = np.append(True, ends[1:] / total > ends[:-1] / total)
        if len(score) > MOST_CELLS:
            # Scores next to 0 or 1 that differ by a factor differ much in what a small correction means for them.
            log_odds = np.floor(np.clip(logit(score), -FARTHEST, FARTHEST))
            number = np.floor((ends - length / 2) / total * MOST_CELLS) + log_odds
            begins[1:] &= number[1:] > number[:-1]
        first = np.flatnonzero(begins)
        last = np.append(first[1:], len(score)) - 1
        weight_of_cells = np.add.reduceat(weight, first)
        mean_score = np.add.reduceat(weight * score, first) / weight_of_cells
        return cls(
            # Rounding must not move a mean out of its cell.
            score=np.clip(mean_score, score[first], score[last]),
            weight=weight_of_cells,
            starts=np.append(0.0, ends[last[:-1]] / total),
            ends=ends[last] / total,
            rises=np.add.reduceat(groups.outcome_sum - weight * score, first) / total,
            total=total,
            least_variance=least_variance,
        )


NEXT_TO_NOTHING = 1e-9  # weight of a score that no row has


@dataclass(frozen=True, eq=False)
class SplineFit:
    """A natural spline through the cumulative differences between outcomes and scores.

    Attributes
    ----------
    cells : AxisCells
        What it was fitted to.
    spline : NaturalSpline
    slopes : ndarray of shape (m,)
        Its mean slope along every cell.
    rank : int
        How many slopes the cells determine.

    Examples
    --------
    >>> cells = AxisCells.of(np.full(4, 0.5), np.array([True, True, True, False]), None, least_variance=0.1)
    >>> fit = SplineFit.to_steps(np.linspace(0, 1, 3), cells)
    >>> scores, corrections, _ = fit.corrections()
    >>> scores, corrections.round(3)
    (array([0. , 0.5, 1. ]), array([0.1 , 0.25, 0.1 ]))
    """

    cells: AxisCells
    spline: NaturalSpline
    slopes: Vector
    rank: int

    @classmethod
    def to_steps(cls, knots: Vector, cells: AxisCells) -> Self:
        """Fit mean slopes along the cells, each with the length of its cell as weight."""
        basis = mean_slope_basis(knots, cells.starts, cells.ends)
        length = cells.ends - cells.starts
        spline, rank = NaturalSpline.fit(knots, basis, cells.rises / length, length)
        return cls(cells, spline, basis @ spline.values, rank)

    @classmethod
    def to_sums(cls, knots: Vector, cells: AxisCells) -> Self:
        """Fit the sums at the ends of the cells, with as much weight as there are rows."""
        basis = natural_basis(knots, cells.ends)
        spline, rank = NaturalSpline.fit(knots, basis, np.cumsum(cells.rises), cells.weight)
        slopes = mean_slope_basis(knots, cells.starts, cells.ends) @ spline.values
        return cls(cells, spline, slopes, rank)

    @property
    def chi_squared(self) -> float:
        """Weighted sum of the squared slopes; about the rank, by chance alone, on an axis of variance."""
        length = self.cells.ends - self.cells.starts
        return self.cells.total * float(length @ self.slopes**2)

    def corrections(self, share: float = 1.0) -> tuple[Vector, Vector, Vector]:
        """Return scores from 0 to 1, what this share of the slopes adds there, and how much each score weighs."""
        score, weight = self.cells.score, self.cells.weight
        first, last = self.spline.slope(self.spline.knots[[0, -1]])[:, np.newaxis]
        at_zero, at_one = score[:1] > 0, score[-1:] < 1
        scores = np.concatenate([np.zeros(1)[at_zero], score, np.ones(1)[at_one]])
        slopes = np.concatenate([first[at_zero], self.slopes, last[at_one]])
        # No row has these two scores: they are to follow their neighbours.
        unseen = np.full(1, NEXT_TO_NOTHING * weight.min())
        weights = np.concatenate([unseen[at_zero], weight, unseen[at_one]])
        variance = np.maximum(scores * (1 - scores), self.cells.least_variance)
        return scores, share * slopes * variance, weights


Form = Literal["one-vs-rest", "top-label"]

Estimate = Literal["weighted", "plain"]

BOUNDS = (1e-6, 1e6)  # of the inverse temperature, for logits of any size

MOST_HALVINGS = 10  # of a correction that does harm on its own rows, before there is none


class SplineCalibration(BinaryMethod):
    r"""Spline calibration: correct a probability by the slope of a spline through cumulative differences.

    .. math:: h(t_k) = \frac{1}{V} \sum_{i \le k} (o_i - p_i), \qquad t_k = \frac{1}{V} \sum_{i \le k} v(p_i), \qquad
              \hat q = p + v(p) \, h'(t(p))

    for rows in the order of their scores :math:`p_i`, with outcomes :math:`o_i`, 1 for the event, and V the
    sum of all :math:`v(p_i)`. With v = 1 the axis t is the percentile of a score, and the largest :math:`|h|` is the
    Kolmogorov-Smirnov calibration error :cite:`gupta2021`. The slope of h is the local difference between event
    frequency and prediction, estimated by a natural cubic spline with a few knots.

    Parameters
    ----------
    form : {"one-vs-rest", "top-label"}, default="one-vs-rest"
        Events for more than two classes: each class, with a separate one-vs-rest spline, or that the predicted class is
        correct, with one spline for all rows, as mostly in the paper. For two classes the event of ``"one-vs-rest"`` is the
        second class.
    n_knots : int, default=6
        Knots of the spline, evenly spaced on the axis; 6 as in the paper, 2 for a line.
    temperature : bool, default=True
        Whether to apply temperature scaling first.
    estimate : {"weighted", "plain"}, default="weighted"
        Estimator of the spline: ``"plain"`` is the paper's, ``"weighted"`` uses the variance of each step of h; see the
        notes.
    shrinkage : float, optional
        Factor of the correction, from 0 for none to 1 for all of it. By default it is estimated from the rows for
        ``"weighted"``, and 1 for ``"plain"``.
    monotone : bool, default=True
        Replace a map that decreases somewhere by its isotonic regression.

    Attributes
    ----------
    scores_ : ndarray of shape (m,)
        Probabilities with a tabulated correction, strictly increasing; for two classes.
    corrections_ : ndarray of shape (m,)
        Corrections at ``scores_``; linear in between.
    smallest_ : float
        1 / (W + 2) for calibration rows of total weight W, Laplace's rule of succession: no correction lowers a probability,
        or its complement, below this; smaller ones are never lowered.
    knots_, knot_values_ : ndarray of shape (n_knots,)
        The spline of h before ``shrinkage_``.
    shrinkage_ : float
        Factor of its slope, from 0 to 1; shared by all classes.
    inverse_temperature_ : float
        Factor of all logits before the spline, with ``temperature``.
    one_vs_rest_ : OneVsRest
        The maps of all classes, with ``form="one-vs-rest"`` and more than two of them.
    top_label_ : TopLabel
        The map of the largest probability, with ``form="top-label"``.
    identity_kept_ : bool
        Whether the top-label map is not used because it would increase the training loss; only the temperature is applied.

    Notes
    -----
    *Plain.* v = 1, and the spline is the least-squares fit to the points of h. These are cumulative sums with correlated
    errors, and if most scores are close to 0, as those of one class of many, most knots are where the scores have no
    information. *Weighted.* :math:`v(p) = \max(p (1 - p), 1 / (W + 2))` for rows of total weight W. On this axis the knots
    are placed by information, h is a Brownian motion for calibrated scores, and its slope is to first order the shift of
    log-odds that calibrates them. Increments of a Brownian motion are independent: the mean slope of the spline over each
    step is fitted to that of h, with the length of the step as weight. Let :math:`\chi^2` be V times the mean squared
    slope, which for calibrated scores is about the number d of identified slopes. The correction is then shrunk by

    .. math:: \max(0, 1 - d / \chi^2)

    the empirical Bayes estimate, so that calibrated scores change little, often not at all, and badly miscalibrated ones
    much. One-vs-rest splines share one such factor, with the sums of their d and :math:`\chi^2`, which is far more
    precise for a hundred classes than separate factors. If the correction of an event still increases its training loss,
    it is halved until it does not.

    *Ties.* Equal scores share one interval of the axis, with the mean slope along it. More than 1,024 distinct scores are
    pooled into about as many cells of the axis.

    *Program.* The authors' program calibrates the r-th largest score of a row, or the sum of the r largest, without
    normalisation. It clips the result to [0, 1], where the log-loss may be infinite, and its interpolation between two
    calibration scores exchanges their weights, so the map is a sawtooth. Here weights are correct and no event has
    probability 0. The paper's map of the largest score, except for that, is
    ``SplineCalibration(form="top-label", temperature=False, estimate="plain", monotone=False)``, with the name
    ``spline-paper``. Without a temperature the classes that are not predicted stay over-confident, which increases the
    log-loss, and the variances of the weighted estimate are far too small; use the plain one then.

    *Other classes.* With ``form="top-label"`` they share the remainder in proportion to their probabilities after
    temperature scaling. Neither form preserves the arg-max.

    Costs a sort per event, two for one-vs-rest, O(n log n) time and O(n) memory; prediction O(log m) per event.

    Examples
    --------
    Events that happen more often than predicted, by p (1 - p) / 2:

    >>> p = np.repeat([0.1, 0.3, 0.5, 0.7, 0.9], 1000)
    >>> y = np.concatenate([np.arange(1000) < share for share in (145, 405, 625, 805, 945)]).astype(int)
    >>> fitted = SplineCalibration(temperature=False).fit(p, y)
    >>> fitted.predict_proba([0.1, 0.3, 0.5, 0.9])[:, 1].round(3)
    array([0.144, 0.403, 0.622, 0.944])
    >>> round(fitted.shrinkage_, 2)
    0.98

    The frequency of wrong predictions is twice the predicted one:

    >>> p = [[0.8, 0.15, 0.05]] * 100 + [[0.05, 0.7, 0.25]] * 100
    >>> y = [0] * 60 + [1] * 30 + [2] * 10 + [1] * 40 + [2] * 40 + [0] * 20
    >>> fitted = SplineCalibration(form="top-label").fit(p, y)
    >>> fitted.predict_proba([p[0], p[-1]]).max(axis=1).round(2)
    array([0.58, 0.44])
    """

    structure: ClassVar[tuple[str, ...]] = ("form", "temperature")
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {
        "spline": {},
        "spline-top-label": {"form": "top-label"},
        "spline-paper": {"form": "top-label", "temperature": False, "estimate": "plain", "monotone": False},
    }

    scores_: Vector
    corrections_: Vector
    smallest_: float
    knots_: Vector
    knot_values_: Vector
    shrinkage_: float
    inverse_temperature_: float
    top_label_: TopLabel
    identity_kept_: bool

    def __init__(
        self,
        form: Form = "one-vs-rest",
        n_knots: int = 6,
        temperature: bool = True,
        estimate: Estimate = "weighted",
        shrinkage: float | None = None,
        monotone: bool = True,
    ) -> None:
        self.form = form
        self.n_knots = n_knots
        self.temperature = temperature
        self.estimate = estimate
        self.shrinkage = shrinkage
        self.monotone = monotone

    @property
    def traits(self) -> Traits:  # type: ignore[override]
        """The plain estimate may do harm; one map of the largest probability belongs to no class."""
        return Traits(
            contains_identity=self.estimate == "weighted",
            shares_parameters=self._setting("form") == "top-label",
        )

    def _check_parameters(self) -> None:
        check_choice("form", self._setting("form"), ("one-vs-rest", "top-label"))
        check_whole("n_knots", self.n_knots, 2)
        check_flag("temperature", self._setting("temperature"))
        check_choice("estimate", self.estimate, ("weighted", "plain"))
        if self.shrinkage is not None and not (is_number(self.shrinkage) and 0 <= self.shrinkage <= 1):
            raise ParameterError(
                f"shrinkage must be a number from 0 to 1, or None to estimate it, not {self.shrinkage!r}."
            )
        check_flag("monotone", self.monotone)

    def _fit(self, data: LabelledPredictions) -> None:
        self._check_parameters()
        data = data.with_counting_weights()
        if self._setting("temperature"):
            self.inverse_temperature_ = bounded_steepness(fit_inverse_temperature(data, bounds=BOUNDS))
            data = replace(data, predictions=self._tempered(data.predictions))
        of_event = clone(self).set_params(form="one-vs-rest", temperature=False)
        if self._setting("form") == "top-label":
            self._fit_top_label(TopLabel(of_event, by_class=False), data)
        elif data.n_classes > 2:
            self.shrinkage_ = self._shared_shrinkage(data)
            one_vs_rest = OneVsRest(of_event.set_params(shrinkage=self.shrinkage_))
            # Without any correction the identity is what was asked for; it is no news that it is kept, as rounding
            # decides then.
            with nullcontext() if self.shrinkage_ > 0 else held_back():
                self.one_vs_rest_ = one_vs_rest.fit_labelled(data, warn_of_absent=False)
        else:
            self._fit_event(EventScores(data.predictions), data.labels == 1, data.weights)

    def _fit_top_label(self, top_label: TopLabel, data: LabelledPredictions) -> None:
        self.top_label_ = top_label.fit_labelled(data, warn_of_absent=False)
        # The spline does no harm, but predictions that are all right or all wrong have a constant instead.
        is_constant = self.top_label_.calibrators_[0] is None
        self.identity_kept_ = (
            self.traits.contains_identity
            and is_constant
            and is_worse_than_identity(data, self.top_label_.transform)
        )
        if self.identity_kept_:
            warn_user(
                f"SplineCalibration, top label: after the temperature, {Status.IDENTITY.value}.",
                CalibrationWarning,
            )

    def _shared_shrinkage(self, data: LabelledPredictions) -> float:
        """Return the share of the corrections of all classes that is used."""
        if self.shrinkage is not None or self.estimate == "plain":
            return self._shrinkage_for(0.0, 0.0)
        against = AgainstRest(data.predictions)

        def strength(column: int) -> tuple[float, int]:
            pair = _pair(EventScores(against.column(column)))
            fit = self._spline_fit(pair[1], data.labels == column, data.weights)
            return fit.chi_squared, fit.rank

        strengths = np.array(in_threads(strength, range(data.n_classes), data.n_rows))
        return self._shrinkage_for(*strengths.sum(axis=0).tolist())

    def _shrinkage_for(self, chi_squared: float, rank: float) -> float:
        if self.shrinkage is not None:
            return float(self.shrinkage)
        if self.estimate == "plain":
            return 1.0
        return 1 - rank / chi_squared if chi_squared > rank else 0.0

    def _spline_fit(self, scores: Vector, outcomes: NDArray[np.bool_], weights: Vector | None) -> SplineFit:
        knots = np.linspace(0.0, 1.0, self.n_knots)
        if self.estimate == "plain":
            return SplineFit.to_sums(knots, AxisCells.of(scores, outcomes, weights, least_variance=1.0))
        least_variance = _smallest(outcomes, weights)
        return SplineFit.to_steps(knots, AxisCells.of(scores, outcomes, weights, least_variance))

    def _fit_event(self, scores: EventScores, outcomes: NDArray[np.bool_], weights: Vector | None) -> None:
        pair = _pair(scores)
        fit = self._spline_fit(pair[1], outcomes, weights)
        self.smallest_ = _smallest(outcomes, weights)
        self.knots_, self.knot_values_ = fit.spline.knots, fit.spline.values
        self._use(fit, self._shrinkage_for(fit.chi_squared, fit.rank))
        if self.estimate == "plain":
            return
        own = outcomes.astype(np.intp), np.arange(len(outcomes))
        nothing = -np.average(np.log(pair[own]), weights=weights)
        for halvings in range(MOST_HALVINGS + 1):
            with np.errstate(divide="ignore"):  # a probability of zero that was refuted is an infinite loss
                loss = -np.average(np.log(self._corrected(pair)[own]), weights=weights)
            if loss <= nothing:
                break
            self._use(fit, self.shrinkage_ / 2 if halvings < MOST_HALVINGS else 0.0)

    def _use(self, fit: SplineFit, shrinkage: float) -> None:
        """Set the table of corrections for a part of the slopes."""
        score, correction, weight = fit.corrections(shrinkage)
        correction = _limited(correction, 1 - score, score, self.smallest_)
        if self.monotone and shrinkage > 0:
            correction = isotonic_fit(score, score + correction, weight)(score) - score
        self.shrinkage_, self.scores_, self.corrections_ = shrinkage, score, correction

    def _traced(self, given: TracedPredictions) -> TracedPredictions:
        if self._setting("temperature"):
            given = given.with_logits(given.logits * self.inverse_temperature_).with_floor(given.least)
        if self._setting("form") == "top-label":
            return given.without_zeros() if self.identity_kept_ else self.top_label_._trace(given)
        return super()._traced(given)

    def _traced_event(self, event: Event) -> Event:
        log_odds = event.log_odds
        complement, probability = (
            (log_odds * sign).function("sigmoid").clip(low=TINY) for sign in (-1.0, 1.0)
        )
        correction = probability.then(Piecewise.linear(self.scores_, self.corrections_))
        # Neither probability falls below the smallest; those below are not lowered.
        lowest = (probability - self.smallest_).clip(low=0.0) * -1.0
        highest = (complement - self.smallest_).clip(low=0.0)
        correction = correction.maximum(lowest).minimum(highest)
        return event.with_probability(probability + correction, complement - correction)

    def _corrected(self, pair: Vector) -> Vector:
        complement, probability = pair
        correction = KnottedCurve(self.scores_, self.corrections_)(probability)
        correction = _limited(correction, complement, probability, self.smallest_)
        return np.stack([complement - correction, probability + correction])

    def _tempered(self, predictions: Predictions) -> Predictions:
        logits: NDArray[np.floating] = predictions.logits
        scaled = logits * logits.dtype.type(self.inverse_temperature_)
        return Predictions(scaled, Space.LOGITS, predictions.classes)


TINY = float(np.finfo(np.float64).tiny)


def _pair(scores: EventScores) -> Vector:
    """Return the probabilities that the event does not happen and that it does, (2, n), never zero in their type."""
    tiny = float(np.finfo(scores.predictions.scores.dtype).tiny)
    pair: Vector = expit(np.stack([-scores.log_odds, scores.log_odds]))
    return np.maximum(pair, tiny, out=pair)


def _limited(correction: Vector, complement: Vector, probability: Vector, smallest: float) -> Vector:
    """Return corrections that take neither probability below the smallest; those below are not lowered."""
    return np.clip(
        correction, -np.maximum(probability - smallest, 0.0), np.maximum(complement - smallest, 0.0)
    )


def _smallest(outcomes: NDArray[np.bool_], weights: Vector | None) -> float:
    """Return the probability of what never happened, for so many rows: that of Laplace's rule."""
    return 1 / (float(len(outcomes) if weights is None else weights.sum()) + 2)
