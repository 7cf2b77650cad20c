"""Venn-Abers calibration: isotonic regression with the test row added, once with each outcome."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays import Vector
from calibrant.calibrator import Traits
from calibrant.calibrators.reductions.binary_method import BinaryMethod
from calibrant.calibrators.reductions.event_scores import AgainstRest, EventScores
from calibrant.errors import ParameterError
from calibrant.graph import Event, Value
from calibrant.graph.apply import evaluated
from calibrant.graph.curves import Piecewise
from calibrant.numerics.curves import StepFunctions
from calibrant.numerics.folds import content_seed, folds_by_content
from calibrant.numerics.isotonic import Levels, block_starts, levels
from calibrant.numerics.rounding import rounded_to, with_bits
from calibrant.numerics.row_blocks import in_threads
from calibrant.options import check_choice, is_whole
from calibrant.predictions import Predictions

__all__ = ["VennAbersCalibration"]


# Bits of a score that count. All of a float32 do; in a float64 the last twelve are left to rounding, so that logits
# and their softmax meet at the same steps.
SCORE_BITS = 40


class VennAbersCalibration(BinaryMethod):
    r"""Venn-Abers predictor: isotonic regression with the test row added, once with each outcome.

    Let :math:`p_0` and :math:`p_1` be the values, at the score s of a test row, of the isotonic fits to the calibration
    set and the test row, once as a non-event (s, 0) and once as an event (s, 1). One of the two fits has used the true
    outcome. They are merged into one probability between them :cite:`vovk2015`:

    .. math:: \hat q = \frac{p_1}{1 - p_0 + p_1}

    More than two classes are calibrated one-vs-rest.

    Parameters
    ----------
    cv : int, optional
        None is the inductive predictor on the complete calibration set. An integer from 2 to the number of rows (their
        total weight, if weights are frequencies) is the cross form: one predictor per fold, with merged predictions, see
        the notes.
    loss : {"log", "brier"}, default="log"
        Loss for which the merged :math:`\hat q` is minimax-regret: the formula above for log-loss,
        or :math:`p_1 + p_0^2/2 - p_1^2/2` for the squared error.

    Attributes
    ----------
    lower_scores_, lower_values_ : ndarray of shape (a,), (a + 1,)
        For two classes, the scores at which :math:`p_0` rises and its values below, between and above, merged over
        the predictors as in :meth:`predict_interval`; at such a score the higher value holds.
    upper_scores_, upper_values_ : ndarray of shape (b,), (b + 1,)
        The same for :math:`p_1`; at such a score the lower value holds.
    lower_parts_, upper_parts_ : ndarray of shape (a + 1,), (b + 1,), or None
        In the cross form, the terms of :math:`\hat q` at these steps: :math:`G(1 - p_0)` and :math:`G(p_1)`,
        or for the Brier score the means of :math:`p_0^2/2` and :math:`p_1 - p_1^2/2`.
    one_vs_rest_ : OneVsRest
        For more than two classes, whose ``calibrators_`` have the steps of every class.

    Notes
    -----
    *Validity.* If the row and the calibration rows are exchangeable, :math:`p_y` with y the outcome is perfectly
    calibrated, :math:`\mathrm{E}(y \mid p_y) = p_y`, for any number of rows and any classifier. The merged
    :math:`\hat q` only approximates that, but it is never 0 or 1: with n rows, :math:`p_1 \ge 1/(n+1)` and
    :math:`p_0 \le n/(n+1)`, so that the log-loss is finite without clipping. A wide interval means that there are few rows
    around s. It is no confidence interval: the true probability need not lie between :math:`p_0` and :math:`p_1`, and for
    narrow intervals it mostly does not. For intervals with a level see :class:`~calibrant.WithIntervals` with
    ``method="bootstrap"``.

    *Cross form.* Every row belongs to one fold, every predictor is fitted to one fold, and

    .. math:: \hat q = \frac{G(p_1)}{G(1 - p_0) + G(p_1)}

    with G the geometric mean over the predictors; for the Brier score, the mean of the separate values. In
    :cite:`vovk2015` predictor k also has its own classifier, trained on all other folds. Here the classifier
    is given, so the cross form only merges several maps, each fitted to a part of the rows: smaller steps, wider
    intervals, and seldom a better log-loss than the inductive form. A predictor on m rows is bounded by
    :math:`1/(m + 2)` and :math:`(m + 1)/(m + 2)`, so small folds shrink every prediction towards 1/2: use hundreds of
    rows per fold.
    ``CalibratedClassifier(estimator, method="venn-abers", cv=5)`` also trains one classifier per fold, and
    returns the arithmetic mean of their predictions. Folds depend on the content of the rows and not on their order.

    *Weights* are frequencies; the test row has weight 1. Weights with a mean below 1 are rescaled to mean 1.

    *Order.* The map depends only on the order of the scores, rounded to 40 bits; rows that float32 has rounded to a
    probability of 1 are ties. The arg-max may change.

    *Programs.* The package ``venn-abers`` gives the same numbers. Its option ``precision`` does not: it rounds the
    calibration scores but not those that are looked up, which are then compared with the wrong steps.

    Costs O(n log n) per class for the fit, in the cross form O(cv n log n): the values are tabulated as functions of the
    score. Prediction takes two look-ups, O(log n), for any number of folds.

    *Size.* A table has one entry per step, at scores of calibration rows, so up to n for each end. With many classes each is
    rare, and nearly every row of another class is a step of its :math:`p_1`, but few are steps of its :math:`p_0`: the
    tables of all classes then take about 16 nK bytes, twice the size of the calibration set in float64, and 24 nK bytes
    in the cross form; the maximum is twice that.

    Examples
    --------
    >>> p, y = [0.1, 0.2, 0.3, 0.4, 0.6, 0.8], [0, 0, 1, 0, 1, 1]
    >>> fitted = VennAbersCalibration().fit(p, y)
    >>> lower, upper = fitted.predict_interval([0.35, 0.9])
    >>> lower[:, 1].round(3), upper[:, 1].round(3)
    (array([0.333, 0.667]), array([0.667, 1.   ]))
    >>> fitted.predict_proba([0.35, 0.9])[:, 1].round(3)
    array([0.5 , 0.75])
    """

    traits = Traits()
    structure: ClassVar[tuple[str, ...]] = ("loss",)
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {"venn-abers": {}, "cross-venn-abers": {"cv": 5}}

    lower_scores_: Vector
    lower_values_: Vector
    lower_parts_: Vector | None
    upper_scores_: Vector
    upper_values_: Vector
    upper_parts_: Vector | None

    def __init__(self, cv: int | None = None, loss: Literal["log", "brier"] = "log") -> None:
        self.cv = cv
        self.loss = loss

    def predict_interval(self, X: Any) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        r"""Return :math:`p_0` and :math:`p_1` of every class, two arrays (n, K) in the float type of ``X``.

        For two classes, the interval of the first is one minus that of the second, and contains ``predict_proba``. For
        more, class j has its one-vs-rest interval. The probabilities :math:`p_1 / (1 - p_0 + p_1)`, each inside its
        interval, do not sum to one; predict_proba divides them by their sum and may be outside the intervals if the sum
        is far from one.

        In the cross form the ends are the geometric means of the odds :math:`p_0 / (1 - p_0)` and
        :math:`p_1 / (1 - p_1)`, between which the merged odds lie; for the Brier score they are arithmetic means. Both
        are averages of intervals and have no guarantee of their own.

        A class without calibration rows keeps the probability p that the classifier gives it, and has the interval
        [p, p], since the rows have no information on it. The ends of the other classes are multiplied by the remaining
        probability.
        """
        check_is_fitted(self)
        predictions = self._parsed(X).with_floor(self.floor_)
        columns = self.present_columns_
        if columns is None:
            return self._intervals(predictions)
        as_given = evaluated(self._as_given, predictions)
        lower, upper = as_given.copy(), as_given.copy()
        share = lower[:, columns].sum(axis=1, keepdims=True)
        for ends, given_seen in zip(
            (lower, upper), self._intervals(predictions.restricted_to(columns)), strict=True
        ):
            ends[:, columns] = share * given_seen
        return lower, upper

    def _check_parameters(self) -> None:
        if self.cv is not None and not is_whole(self.cv, 2):
            raise ParameterError(
                f"cv must be None or a number of folds of at least 2, not {self.cv!r}; "
                "None fits one predictor to all rows."
            )
        check_choice("loss", self._setting("loss"), ("log", "brier"))

    def _fit_event(self, scores: EventScores, outcomes: NDArray[np.bool_], weights: Vector | None) -> None:
        places = _places(scores)
        if self.cv is None:
            only = AddedPoint.to(places, outcomes, weights)
            self.lower_scores_, self.lower_values_ = only.zero_scores, only.zero_values
            self.upper_scores_, self.upper_values_ = only.one_scores, only.one_values
            self.lower_parts_ = self.upper_parts_ = None
            return
        points = [
            AddedPoint.to(places[rows], outcomes[rows], row_weights)
            for rows, row_weights in _dealt_out(places, outcomes, weights, int(self.cv))
        ]
        merged = _means_for_brier if self._setting("loss") == "brier" else _means_for_log
        self.lower_scores_, self.lower_values_, self.lower_parts_ = merged(
            [(point.zero_scores, point.zero_values) for point in points], of_event=False
        )
        self.upper_scores_, self.upper_values_, self.upper_parts_ = merged(
            [(point.one_scores, point.one_values) for point in points], of_event=True
        )

    def _traced_event(self, event: Event) -> Event:
        is_brier = self._setting("loss") == "brier"
        if self.lower_parts_ is None or self.upper_parts_ is None:
            lower, upper = self._steps(event, self.lower_values_, self.upper_values_)
            if is_brier:
                other = lower.function("square") * 0.5
                happens = upper - upper.function("square") * 0.5
            else:
                other, happens = 1 - lower, upper
        else:
            other, happens = self._steps(event, self.lower_parts_, self.upper_parts_)
        total = other + happens
        return (
            event.with_probability(total)
            if is_brier
            else event.with_probability(happens / total, other / total)
        )

    def _steps(self, event: Event, lower: Vector, upper: Vector) -> tuple[Value, Value]:
        """Return one table at the steps of p_0 and one at those of p_1, for scores with the bits that count."""
        zeros = Piecewise.steps(rounded_to(self.lower_scores_, SCORE_BITS, "left"), lower)
        ones = Piecewise.steps(rounded_to(self.upper_scores_, SCORE_BITS, "right"), upper, "right")
        return event.probability.then(zeros), event.probability.then(ones)

    def _intervals(self, predictions: Predictions) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        lower, upper = np.empty_like(predictions.scores), np.empty_like(predictions.scores)
        if predictions.n_classes == 2:
            lower[:, 1], upper[:, 1] = self._event_interval(EventScores(predictions))
            lower[:, 0], upper[:, 0] = 1 - upper[:, 1], 1 - lower[:, 1]
            return lower, upper
        against = AgainstRest(predictions)

        def fill(column: int) -> None:
            calibrator = self.one_vs_rest_.calibrators_[column]
            assert isinstance(calibrator, VennAbersCalibration)
            ends = calibrator._event_interval(EventScores(against.column(column)))
            lower[:, column], upper[:, column] = ends

        in_threads(fill, range(predictions.n_classes), predictions.n_rows)
        return lower, upper

    def _event_interval(self, scores: EventScores) -> tuple[Vector, Vector]:
        """Return the ends for the event, merged over the predictors, (n,) each."""
        return self._looked_up(scores, self.lower_values_, self.upper_values_)

    def _looked_up(self, scores: EventScores, lower: Vector, upper: Vector) -> tuple[Vector, Vector]:
        """Return the entries for some rows of one table at the steps of p_0 and one at those of p_1, (n,) each."""
        places = _places(scores)
        # In order they come by the steps one after the other: much faster than to jump about in a long table.
        order = np.argsort(places)
        ordered = places[order]
        found = np.empty((2, len(places)))
        found[0, order] = lower[np.searchsorted(self.lower_scores_, ordered, side="right")]
        found[1, order] = upper[np.searchsorted(self.upper_scores_, ordered, side="left")]
        return found[0], found[1]


def _means_for_log(tables: list[tuple[Vector, Vector]], of_event: bool) -> tuple[Vector, Vector, Vector]:
    """Merge steps of several predictors: the steps, the probability with the mean odds, and one geometric mean.

    That mean is of the probabilities of the event, or of their complements.
    """
    with np.errstate(divide="ignore"):  # the mean is zero where there is a zero
        logarithms = [StepFunctions(scores, np.log([values, 1 - values])) for scores, values in tables]
    total = StepFunctions.total(logarithms)
    event, other = np.exp(total.values / len(tables))
    # Both are zero where one predictor is certain of the event and another one of its complement.
    shares = np.divide(event, other + event, out=np.full_like(event, 0.5), where=other + event > 0)
    return _distinct(total.places, shares, event if of_event else other)


def _means_for_brier(tables: list[tuple[Vector, Vector]], of_event: bool) -> tuple[Vector, Vector, Vector]:
    """Merge steps of several predictors: the steps, the mean, and the mean of what squared errors make of it."""
    halves = [
        StepFunctions(scores, np.stack([values, values - values**2 / 2 if of_event else values**2 / 2]))
        for scores, values in tables
    ]
    total = StepFunctions.total(halves)
    mean, part = total.values / len(tables)
    return _distinct(total.places, mean, part)


def _distinct(places: Vector, values: Vector, parts: Vector) -> tuple[Vector, Vector, Vector]:
    """Leave out steps at which neither changes."""
    steps = StepFunctions(places, np.stack([values, parts])).distinct()
    return steps.places, steps.values[0], steps.values[1]


def _places(scores: EventScores) -> Vector:
    """Return the scores with the bits that count."""
    return with_bits(scores.probability, SCORE_BITS)


def _dealt_out(
    places: Vector, outcomes: NDArray[np.bool_], weights: Vector | None, n_folds: int
) -> list[tuple[NDArray[np.intp], Vector | None]]:
    """Return rows and weights of every fold; the same if the two classes change places."""
    most = len(places) if weights is None else max(len(places), weights.sum())
    if n_folds > most:
        raise _too_many(n_folds, len(places))
    certainty = np.maximum(places, 1 - places).round(12)
    hits = (places > 0.5) == outcomes
    groups = levels(certainty, hits, weights)
    # Among rows that differ in nothing but the outcome, this decides their order; one seed for all data sets would
    # fix the share of events in each fold.
    mixed = (groups.outcome_sum > 0) & (groups.outcome_sum < groups.weight)
    # Of weights divided by a number the sums differ in their last digits.
    seed = content_seed(with_bits(groups.outcome_sum, SCORE_BITS)) if mixed.any() else 0
    folds = folds_by_content((certainty, hits.astype(np.float64), places), weights, n_folds, seed)
    if not all(len(fold.test_rows) for fold in folds):
        raise _too_many(n_folds, len(places))
    return [(fold.test_rows, fold.test_weights) for fold in folds]


def _too_many(n_folds: int, n_rows: int) -> ParameterError:
    return ParameterError(
        f"cv must be at most the number of calibration rows, {n_rows}, not {n_folds}; "
        "None fits one predictor on all rows."
    )


@dataclass(frozen=True, eq=False)
class AddedPoint:
    r"""Value of an isotonic fit at a point that is added to its rows, as two step functions of the score.

    With rows :math:`(s_i, o_i)` of weight :math:`w_i`, and outcomes between 0 and 1,

    .. math:: g_v(s) = \text{value at } s \text{ of the isotonic fit to all rows and } (s, v), \qquad v = 0, 1

    where the added point has weight 1. Both functions are non-decreasing, and :math:`g_0 < g_1`.

    Attributes
    ----------
    zero_scores, zero_values : ndarray of shape (a,), (a + 1,)
        Where :math:`g_0` rises, and its values below, between and above; a step belongs to what is above it.
        Neighbouring values differ, and a is at most the number of distinct scores.
    one_scores, one_values : ndarray of shape (b,), (b + 1,)
        The same for :math:`g_1`; a step belongs to what is below it.

    Notes
    -----
    *Ties.* A further 0 is never above the row before it, so that both are pooled: between two scores of the rows,
    the fit is that with the point at the lower of them. A further 1 goes with the upper one in the same way.
    So each function has a step at scores of rows only, and the two kinds of place, at a score and between two
    of them, differ in nothing but the side of that step.

    *Sweep.* Add a 1 in front of level a, within a block of the fit to the rows alone. Pooled with what comes
    next, it is never below the value of that block, hence never pooled across the block's beginning; and since it
    only pushes upwards, what it is pooled with ends where some block ends. With :math:`W` and :math:`S` the
    weight and the sum of outcomes up to a level, and e through the ends of blocks after a,

    .. math:: g_1 = \max_{a' \le a} \min_e \frac{S_e - S_{a'} + 1}{W_e - W_{a'} + 1}

    The minimum is where the slope of the next block is no longer less, which bisection finds for all levels at
    once; the maximum is a running one. The case of a 0 is its mirror image. This replaces the two stacks of
    :cite:`vovk2015`, which go from level to level. Costs a sort and O(m log B) for m distinct scores and B
    blocks. Values are exact to the last bits for whole-number weights, otherwise to 1e-16 times their sum.

    Examples
    --------
    >>> added = AddedPoint.to(np.array([0.2, 0.4, 0.6]), np.array([0, 1, 1]))
    >>> with_zero, with_one = added(np.array([0.1, 0.4, 0.5, 0.7]))
    >>> with_zero.round(3), with_one
    (array([0.   , 0.5  , 0.5  , 0.667]), array([0.5, 1. , 1. , 1. ]))
    """

    zero_scores: Vector
    zero_values: Vector
    one_scores: Vector
    one_values: Vector

    @classmethod
    def to(cls, scores: Vector, outcomes: NDArray[np.generic], weights: Vector | None = None) -> Self:
        """Tabulate both functions for some rows, of positive weights if they have any."""
        rows = levels(scores, outcomes, weights)
        places = rows.score.astype(np.float64)
        reversed_rows = Levels(rows.score[::-1], rows.weight[::-1], (rows.weight - rows.outcome_sum)[::-1])
        return cls(*_steps(places, 1 - _with_one(reversed_rows)[::-1]), *_steps(places, _with_one(rows)))

    def __call__(self, scores: Vector) -> tuple[Vector, Vector]:
        """Return the values of both functions at some scores; costs O(log m) each."""
        return (
            self.zero_values[np.searchsorted(self.zero_scores, scores, side="right")],
            self.one_values[np.searchsorted(self.one_scores, scores, side="left")],
        )


def _with_one(rows: Levels) -> Vector:
    """Return the value of a 1 in front of every level and behind the last, (m + 1,)."""
    starts = block_starts(rows.weight, rows.outcome_sum)
    value = np.add.reduceat(rows.outcome_sum, starts) / np.add.reduceat(rows.weight, starts)
    weight_before, sum_before = (
        np.append(0.0, np.cumsum(entries)) for entries in (rows.weight, rows.outcome_sum)
    )
    ends = np.append(starts[1:], len(rows.weight))
    weight_at_end, sum_at_end = weight_before[ends], sum_before[ends]

    def pooled(block: NDArray[np.intp]) -> Vector:
        """Mean of the added 1 and all levels from its own to the last of a block."""
        mean: Vector = (sum_at_end[block] - sum_before[:-1] + 1) / (
            weight_at_end[block] - weight_before[:-1] + 1
        )
        return mean

    last = len(ends) - 1
    low = np.repeat(np.arange(len(ends)), np.diff(np.append(starts, len(rows.weight))))
    high = np.full_like(low, last)
    for _ in range(last.bit_length()):
        middle = (low + high) // 2
        further = value[np.minimum(middle + 1, last)] < pooled(middle)
        low, high = np.where(further, np.minimum(middle + 1, high), low), np.where(further, high, middle)
    # The ends of the range can only be missed by the rounding of weights.
    return np.append(np.clip(np.maximum.accumulate(pooled(low)), 0.0, 1.0), 1.0)


def _steps(scores: Vector, values: Vector) -> tuple[Vector, Vector]:
    """Return the scores at which one of m + 1 values is followed by another, and the different values."""
    steps = StepFunctions(scores, values[np.newaxis]).distinct()
    return steps.places, steps.values[0]
