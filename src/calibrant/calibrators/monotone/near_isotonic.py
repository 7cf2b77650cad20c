"""Near-isotonic calibration (ENIR): a Bayesian average of nearly isotonic maps."""

from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlog1py, xlogy

from calibrant.arrays import IntArray, Vector
from calibrant.calibrator import Traits
from calibrant.calibrators.reductions.binary_method import BinaryMethod
from calibrant.calibrators.reductions.event_scores import EventScores
from calibrant.errors import ParameterError
from calibrant.graph import Event
from calibrant.graph.curves import Piecewise
from calibrant.numerics.isotonic import levels
from calibrant.options import check_choice, check_not_negative, is_whole

__all__ = ["NearIsotonicCalibration"]

Criterion = Literal["bic", "aic"]

# Upper bound on the total weight of the models that are left out of the average.
NEGLIGIBLE = 1e-12


@dataclass(frozen=True, eq=False)
class Groups:
    """Neighbouring levels that share one value, at one penalty.

    Attributes
    ----------
    first : ndarray of shape (g,)
        Number of the first level of each group, increasing.
    weight, outcome_sum : ndarray of shape (g,)
        Total weight, and weighted sum of the outcomes, of each group.
    value : ndarray of shape (g,)
        Fitted value of each group.
    """

    first: IntArray
    weight: Vector
    outcome_sum: Vector
    value: Vector


@dataclass(frozen=True, eq=False)
class NearIsotonicPath:
    r"""All solutions of a nearly-isotonic regression, as the forest of its groups.

    Between two knots every group moves on a straight line, and from knot to knot groups only merge. So the
    whole path is a list of at most 2m - 1 groups, each with the span of knots in which it exists.

    Attributes
    ----------
    penalty : ndarray of shape (L,)
        The knots :math:`\lambda`, increasing from 0: where groups merge. From the last one on the solution is
        isotonic regression.
    first, weight, outcome_sum : ndarray of shape (N,)
        First level, total weight and sum of outcomes of every group that ever exists.
    drift : ndarray of shape (N,)
        1 if the group is pulled up by its lower neighbour, -1 if down by its upper one, 0 if both or neither.
    born, gone : ndarray of shape (N,)
        The group exists from knot ``born`` to the one before ``gone``; equal where it never does, because
        more than two groups merge at once.
    """

    penalty: Vector
    first: IntArray
    weight: Vector
    outcome_sum: Vector
    drift: Vector
    born: IntArray
    gone: IntArray

    @cached_property
    def n_groups(self) -> IntArray:
        """Number of groups at every knot, (L,)."""
        return self.total(np.ones(len(self.first))).astype(np.intp)

    def total(self, of_group: Vector) -> Vector:
        """Return, for every knot, the sum of ``of_group`` (N,) over the groups that exist there, (L,)."""
        length = len(self.penalty) + 1
        change = np.bincount(self.born, of_group, length) - np.bincount(self.gone, of_group, length)
        return np.cumsum(change)[:-1]

    def groups(self, knot: int) -> Groups:
        """Return the groups at one knot, from low to high; costs O(m)."""
        return self._solution(knot, float(self.penalty[knot]))

    def at(self, penalty: float) -> Groups:
        """Return the groups at any penalty of at least 0; costs O(m).

        >>> path = near_isotonic_path(np.ones(3), np.array([0.0, 1.0, 0.0]))
        >>> path.at(0.25).value, path.at(100.0).value
        (array([0.  , 0.75, 0.25]), array([0. , 0.5]))
        """
        return self._solution(int(np.searchsorted(self.penalty, penalty, side="right")) - 1, penalty)

    def _solution(self, knot: int, penalty: float) -> Groups:
        here = np.flatnonzero((self.born <= knot) & (knot < self.gone))
        here = here[np.argsort(self.first[here])]
        weight, outcome_sum, drift = self.weight[here], self.outcome_sum[here], self.drift[here]
        # From the last knot on nothing drifts; the product would be NaN for an infinite penalty.
        moved = outcome_sum + drift * penalty if drift.any() else outcome_sum
        return Groups(self.first[here], weight, outcome_sum, moved / weight)


class NearIsotonicCalibration(BinaryMethod):
    r"""Ensemble of near-isotonic regressions (ENIR): a Bayesian average of all nearly isotonic maps of an event.

    Nearly-isotonic regression :cite:`tibshirani2011` penalises decreases, which isotonic regression forbids,

    .. math:: \min_g \; \tfrac12 \sum_i w_i (o_i - g(p_i))^2
       + \lambda \sum_l \bigl(g(s_l) - g(s_{l+1})\bigr)_+

    where :math:`o_i` is the outcome, 1 for the event, and :math:`s_1 < s_2 < \dots` are the distinct scores. As
    :math:`\lambda` grows, groups of adjacent scores merge, from the raw outcomes to the isotonic fit.
    Every :math:`\lambda` at which groups merge gives one model :math:`M` :cite:`naeini2016,naeini2018`, and the map is

    .. math:: \hat q = \frac{\sum_M e^{-\mathrm{BIC}_M / 2} \, \tilde g_M(p)}{\sum_M e^{-\mathrm{BIC}_M / 2}},
       \qquad \mathrm{BIC}_M = -2 \log L_M + G_M \log n

    with the likelihood :math:`L_M` of the calibration set, the number of groups :math:`G_M` and the
    total weight n. More than two classes are calibrated one-vs-rest.

    Parameters
    ----------
    criterion : {"bic", "aic"}, default="bic"
        Penalty per group: log n, or 2, which keeps far more groups and over-fits.
    smoothing : float, default=1.0
        Weight of a pseudo-row, half an event, in every group: a group of weight W has the value
        :math:`\tilde g = (W g + \tfrac12 \mathit{smoothing}) / (W + \mathit{smoothing})` in the average, which is
        never 0 or 1. The weights of the models are not affected. 0 for the raw map, whose log-loss can be infinite.
    max_levels : int or None, default=20_000
        If there are more distinct scores, adjacent ones are first pooled into that many levels of about equal
        weight; None pools only equal scores.

    Attributes
    ----------
    scores_ : ndarray of shape (m,)
        Scores of the knots of the map, strictly increasing; for two classes.
    values_ : ndarray of shape (m,)
        Probabilities at the knots; linear in between and constant beyond, so that ``numpy.interp`` applies the map.
    penalties_ : ndarray of shape (M,)
        The :math:`\lambda` of the models in the average, increasing.
    n_groups_ : ndarray of shape (M,)
        Number of groups of each model, decreasing.
    model_weights_ : ndarray of shape (M,)
        Weights of the models in the average, with sum 1.
    one_vs_rest_ : OneVsRest
        For more than two classes, whose ``calibrators_`` have the attributes above for every class.

    Notes
    -----
    *When to use it.* If the order of the scores is not entirely reliable. On a large calibration set and for a sound
    classifier it is almost equal to isotonic calibration. It does not preserve the arg-max nor, since decreases are
    allowed, the ranking.

    *The first model of the path* has the mean outcome of every distinct score. The papers leave it out, since for
    distinct scores it only repeats the labels; with ties it is a valid model, and the only one that fits a true
    decrease without shrinkage. Here it is included, and each distinct score counts as one parameter, even if adjacent
    means are equal by chance: with distinct scores its weight vanishes.

    *Programs.* The authors' program has a penalty of :math:`\log n + \log 2\pi` per group and smooths by at most
    one row with the mean score of the group, which does not help where scores are 0, or nearly 0 and wrong.
    In netcal 1.4.0 consecutive models share arrays that are modified in place, so models have the groups from before
    a merge and the values from after it; it loses rows if more than two groups merge at once, and averages only a
    selection of the models, by an elbow rule.

    *Weights* are frequencies: weights with sum 1 are one row, and no evidence.

    *Cost.* The path takes one sort and O(m log m) for m levels. The likelihood of a model takes O(m). The likelihood of the
    best map on the same groups is an upper bound, which is accumulated along the path and leaves few models to
    evaluate. The models that are left out have a total weight below 1e-12. Memory O(n); prediction O(log m) per row.

    Examples
    --------
    >>> p = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    >>> y = [0, 0, 1, 0, 0, 1, 0, 1, 1]
    >>> fitted = NearIsotonicCalibration().fit(p, y)
    >>> fitted.n_groups_, fitted.model_weights_.round(3)
    (array([6, 5, 4]), array([0.064, 0.363, 0.573]))
    >>> fitted.predict_proba([0.1, 0.4, 0.65, 0.95])[:, 1].round(3)
    array([0.167, 0.347, 0.5  , 0.833])

    Three of four events at 0.2 and one of four at 0.7 may be chance; with a hundred times as many rows they are not:

    >>> p, y = [0.2] * 4 + [0.7] * 4, [1, 1, 1, 0, 1, 0, 0, 0]
    >>> NearIsotonicCalibration().fit(p, y).values_.round(3)
    array([0.6, 0.4])
    >>> NearIsotonicCalibration().fit(p * 100, y * 100).values_.round(3)
    array([0.749, 0.251])
    """

    traits = Traits()
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {"enir": {}}

    scores_: Vector
    values_: Vector
    penalties_: Vector
    n_groups_: IntArray
    model_weights_: Vector

    def __init__(
        self, criterion: Criterion = "bic", smoothing: float = 1.0, max_levels: int | None = 20_000
    ) -> None:
        self.criterion = criterion
        self.smoothing = smoothing
        self.max_levels = max_levels

    def _check_parameters(self) -> None:
        check_choice("criterion", self.criterion, ("bic", "aic"))
        check_not_negative("smoothing", self.smoothing, "such as 1 row")
        if self.max_levels is not None and not is_whole(self.max_levels, 2):
            raise ParameterError(
                f"max_levels must be a whole number of at least 2, or None, not {self.max_levels!r}."
            )

    def _fit_event(self, scores: EventScores, outcomes: NDArray[np.bool_], weights: Vector | None) -> None:
        rows = levels(scores.probability, outcomes, weights)
        starts = _level_starts(rows.weight, self.max_levels)
        path = near_isotonic_path(
            np.add.reduceat(rows.weight, starts), np.add.reduceat(rows.outcome_sum, starts)
        )
        models = _likely_models(path, len(starts), self.criterion, float(rows.weight.sum()))
        self.penalties_ = path.penalty[[model.knot for model in models]]
        self.n_groups_ = np.array([len(model.groups.first) for model in models])
        evidence = np.array([model.score for model in models])
        relative = np.exp((evidence.min() - evidence) / 2)
        self.model_weights_ = relative / relative.sum()

        # Groups only merge along the path, so the groups of the first model are the finest.
        first = models[0].groups.first
        value = np.zeros(len(first))
        for model, share in zip(models, self.model_weights_, strict=True):
            groups = model.groups
            smoothed = (groups.weight * groups.value + self.smoothing / 2) / (groups.weight + self.smoothing)
            value += share * smoothed[np.searchsorted(groups.first, first, side="right") - 1]
        begin = starts[first]
        end = np.append(begin[1:], len(rows.score)) - 1
        ends = np.column_stack([rows.score[begin], rows.score[end]]).ravel()
        distinct = np.append(True, ends[1:] > ends[:-1])  # a group of one score is one knot
        self.scores_, self.values_ = ends[distinct], np.clip(np.repeat(value, 2)[distinct], 0.0, 1.0)

    def _traced_event(self, event: Event) -> Event:
        curve = Piecewise.linear(self.scores_, self.values_)
        return event.with_probability(event.probability.then(curve))


@dataclass(frozen=True, eq=False)
class _Model:
    """The groups at one knot of the path, and their criterion; smaller is better."""

    knot: int
    groups: Groups
    score: float


def _likely_models(
    path: NearIsotonicPath, n_levels: int, criterion: Criterion, total_weight: float
) -> list[_Model]:
    """Return all models of the path that are not negligible, in the order of the path."""
    n_knots = len(path.penalty)
    n_parameters = path.n_groups.copy()
    if n_knots > 1:
        n_parameters[0] = n_levels
    cost_per_parameter = max(np.log(total_weight), 0.0) if criterion == "bic" else 2.0
    penalties = cost_per_parameter * n_parameters
    # On given groups, their mean outcomes have the largest likelihood.
    best_likelihood = _log_likelihood(path.outcome_sum, path.weight, path.outcome_sum / path.weight)
    bounds = penalties - 2 * path.total(best_likelihood)
    margin = 2 * np.log(n_knots / NEGLIGIBLE)
    models: list[_Model] = []
    best = np.inf
    for knot in np.argsort(bounds, kind="stable").tolist():
        if bounds[knot] > best + margin:
            break
        groups = path.groups(knot)
        likelihood = float(_log_likelihood(groups.outcome_sum, groups.weight, groups.value).sum())
        models.append(_Model(knot, groups, float(penalties[knot]) - 2 * likelihood))
        best = min(best, models[-1].score)
    return sorted((model for model in models if model.score <= best + margin), key=lambda model: model.knot)


def _log_likelihood(outcome_sum: Vector, weight: Vector, value: Vector) -> Vector:
    """Return the log-likelihood of each group, with 0 log 0 = 0."""
    # Values of groups with both outcomes can be 0 or 1 only by rounding.
    value = np.clip(value, np.finfo(np.float64).tiny, 1 - np.finfo(np.float64).epsneg)
    of_events: Vector = xlogy(outcome_sum, value)
    of_non_events: Vector = xlog1py(weight - outcome_sum, -value)
    return of_events + of_non_events


def _level_starts(weight: Vector, max_levels: int | None) -> IntArray:
    """Return the first distinct score of every level; pool to levels of about equal weight if there are too many.

    >>> _level_starts(np.ones(6), 3), _level_starts(np.array([4.0, 1, 1, 1, 1]), 2)
    (array([0, 2, 4]), array([0, 1]))
    """
    if max_levels is None or len(weight) <= max_levels:
        return np.arange(len(weight))
    middle = np.cumsum(weight) - weight / 2
    level = (middle * (max_levels / weight.sum())).astype(np.intp)
    return np.flatnonzero(np.append(True, level[1:] > level[:-1]))


# Penalties that differ by less than this times the total weight are equal up to rounding, and one knot.
ROUNDING = 1e-13


def near_isotonic_path(weight: Vector, outcome_sum: Vector) -> NearIsotonicPath:
    r"""Compute the complete path of nearly-isotonic regression.

    .. math:: \min_z \; \tfrac12 \sum_i w_i (\bar o_i - z_i)^2 + \lambda \sum_i (z_i - z_{i+1})_+

    for all :math:`\lambda \ge 0` at once :cite:`tibshirani2011`. A level is given by its total weight
    :math:`w_i` and its weighted sum of outcomes :math:`w_i \bar o_i`; at :math:`\lambda = 0` each has its own
    mean, and beyond the last knot the fit is isotonic.

    The sign of the difference between adjacent groups cannot change before the two merge, and merged groups never split. So
    a group A has the value

    .. math:: z_A(\lambda) = \frac{\sum_{i \in A} w_i \bar o_i + \lambda d_A}{\sum_{i \in A} w_i},
       \qquad d_A = [\text{falls before } A] - [\text{falls after } A]

    in which all three terms are additive over merged groups, so errors do not accumulate along the path. The penalty at
    which two neighbours merge has a closed form; a heap gives the next merge. Costs O(m log m) for m levels, O(m) memory.

    >>> path = near_isotonic_path(np.ones(4), np.array([0.0, 1.0, 0.0, 1.0]))
    >>> path.penalty, path.n_groups
    (array([0. , 0.5]), array([4, 3]))
    >>> path.groups(1).first, path.groups(1).value
    (array([0, 1, 3]), array([0. , 0.5, 1. ]))
    """
    # Neighbours of equal mean are merged at the start; cross products compare means without a division.
    differ = outcome_sum[:-1] * weight[1:] != outcome_sum[1:] * weight[:-1]
    starts = np.flatnonzero(np.concatenate([[True], differ]))
    weights, sums = np.add.reduceat(weight, starts), np.add.reduceat(outcome_sum, starts)
    falls = np.concatenate([[0.0], sums[:-1] * weights[1:] > sums[1:] * weights[:-1], [0.0]])
    return _merged(starts, weights, sums, falls[:-1] - falls[1:])


def _merged(starts: IntArray, weights: Vector, sums: Vector, drifts: Vector) -> NearIsotonicPath:
    """Merge groups in the order of their penalties.

    Plain lists are faster than arrays for reading and writing single elements.
    """
    n_start = len(starts)
    first, weight, total, drift = starts.tolist(), weights.tolist(), sums.tolist(), drifts.tolist()
    left, right = list(range(-1, n_start - 1)), [*range(1, n_start), -1]
    born, gone = [0] * n_start, [-1] * n_start
    meets = [*_meeting_penalties(weights, sums, drifts).tolist(), inf]
    heap = [(penalty, group) for group, penalty in enumerate(meets) if penalty < inf]
    heapify(heap)
    knots, tolerance = [0.0], ROUNDING * float(weights.sum())

    while heap:
        penalty, lower = heappop(heap)
        if meets[lower] != penalty:
            continue  # outdated: a neighbour has changed, or the group was merged
        if penalty > knots[-1] + tolerance:
            knots.append(penalty)
        knot, upper, merged = len(knots) - 1, right[lower], len(first)
        before, after = left[lower], right[upper]
        gone[lower] = gone[upper] = knot
        meets[lower] = meets[upper] = -1.0
        first.append(first[lower])
        weight.append(weight[lower] + weight[upper])
        total.append(total[lower] + total[upper])
        drift.append(drift[lower] + drift[upper])
        left.append(before)
        right.append(after)
        born.append(knot)
        gone.append(-1)
        meets.append(inf)
        if before >= 0:
            right[before] = merged
        if after >= 0:
            left[after] = merged
        for group, neighbour in ((before, merged), (merged, after)):
            if group < 0 or neighbour < 0:
                continue
            speed = drift[neighbour] * weight[group] - drift[group] * weight[neighbour]
            here, there = total[group] * weight[neighbour], total[neighbour] * weight[group]
            if speed:
                meeting = max((here - there) / speed, penalty)  # earlier only by rounding
            else:
                # No relative movement: they have just merged, or never will.
                meeting = penalty if abs(here - there) <= ROUNDING * (abs(here) + abs(there)) else inf
            if meeting < inf and meeting != meets[group]:
                heappush(heap, (meeting, group))
            meets[group] = meeting

    ends = np.array(gone)
    return NearIsotonicPath(
        penalty=np.array(knots),
        first=np.array(first),
        weight=np.array(weight),
        outcome_sum=np.array(total),
        drift=np.array(drift),
        born=np.array(born),
        gone=np.where(ends < 0, len(knots), ends),
    )


def _meeting_penalties(weights: Vector, sums: Vector, drifts: Vector) -> Vector:
    """Return the penalty at which each group would merge with the next if no other groups merged, (m - 1,)."""
    speed = drifts[1:] * weights[:-1] - drifts[:-1] * weights[1:]
    gap = sums[:-1] * weights[1:] - sums[1:] * weights[:-1]
    meeting: Vector = np.divide(gap, speed, out=np.full(len(gap), inf), where=speed != 0)
    return meeting
