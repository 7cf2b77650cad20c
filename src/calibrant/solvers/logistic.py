"""Logistic regression on a few columns, with lower bounds on coefficients and safe where outcomes are separated."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from itertools import combinations
from math import e, prod
from operator import attrgetter
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dgesv
from scipy.special import entr, logit

from calibrant.arrays import Matrix, Vector
from calibrant.numerics.row_blocks import one_thread
from calibrant.objective import Block, EventMap, FeatureRows, LogisticLoss
from calibrant.solvers.solution import Solution, Status

__all__ = ["logistic_newton", "outcome_logistic", "smoothed_targets"]


# Nats per unit of weight that the next step may still promise; that step is taken, and squares the error.
TOLERANCE = 1e-10
LARGEST_NUMBER_OF_STEPS = 100
SUFFICIENT_DECREASE = 1e-4
SMALLEST_LENGTH = 2.0**-30

# A step to a minimum leaves nothing of the slope along it. Where the loss falls exponentially for ever it leaves one
# part in e, and where scores of many orders of magnitude become saturated one after the other, still more.
SLOPE_LEFT, LONG = 0.1, 1e-3
EXTEND = 0.3

ROUNDING = 4 * float(np.finfo(np.float64).eps)

# Directions in which a matrix scaled to a diagonal of ones bends less than this are as good as flat, and columns
# of a relative spread like that are as good as constant.
FLAT = 1e-11
CONSTANT = 1e-12
SMALLEST_SIZE = 1e-290  # of a column that a finite coefficient can still make matter

# Of standardised columns the bend is at most 1/4; where it is less than this all rows are saturated.
SMALLEST_BEND = 1e-30

# Log-odds at which less than a nat per 1e10 rows is left to gain.
CERTAIN = 25.0

# So many short steps are taken with each block that threads would mostly wait for each other's Python.
BLOCK_ROWS = 2**14

# A sample finds the neighbourhood when there are many rows, and saves most of the passes over all of them.
SAMPLE_ROWS, SAMPLE_TOLERANCE = 4000, 1e-5


def smoothed_targets(n_others: float, n_events: float) -> tuple[float, float]:
    r"""Return Platt's targets for rows without and with the event: :math:`1/(N_- + 2)` and :math:`(N_+ + 1)/(N_+ + 2)`.

    With them every fit is finite. Weights count as numbers of rows.

    >>> smoothed_targets(1, 2)
    (0.3333333333333333, 0.75)
    """
    return 1 / (n_others + 2), (n_events + 1) / (n_events + 2)


def outcome_logistic(
    rows: FeatureRows,
    start: Vector,
    lower: Vector,
    *,
    bias: bool,
    smoothed: bool = False,
    keep_start: bool = True,
) -> Solution:
    """Fit ``logistic_newton`` to outcomes, or to smoothed targets if asked for or if nothing else is finite.

    If the columns separate the outcomes, no maximum-likelihood estimate exists. Then the status is SEPARATED, and the
    coefficients are those of Platt's targets, or the start if that has the lower loss. With
    ``keep_start=False`` the start is never returned and its loss is NaN, and so with smoothed targets.

    >>> from calibrant.objective import ArrayRows
    >>> x = np.array([[-2.0, 1.0], [-1.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
    >>> rows = ArrayRows(x, np.array([0.0, 0.0, 1.0, 1.0]))
    >>> fit = outcome_logistic(rows, np.array([1.0, 0.0]), np.full(2, -np.inf), bias=True)
    >>> fit.theta.round(3), fit.status.name
    (array([1., 0.]), 'IDENTITY')
    """
    known = np.nan
    if not smoothed:
        fit = logistic_newton(rows, start, lower, bias=bias)
        known = fit.identity_loss if keep_start else np.nan
        if fit.status is not Status.RUNNING_AWAY:
            return replace(fit, identity_loss=known)
    with rows.passes(1, min_rows=BLOCK_ROWS) as summed:
        events = summed(lambda block: float(block.weighted(block.labels).sum()))
    without, with_event = smoothed_targets(rows.total_weight - events, events)
    targets = rows.mapped(labels=lambda outcomes: np.where(outcomes > 0.5, with_event, without))
    moderate = logistic_newton(targets, start, lower, bias=bias)
    with ExitStack() as stack:
        loss = _Loss.over(rows, stack)(moderate.theta).value
    if loss > known:
        return replace(fit, theta=start, value=known, loss=known, identity_loss=known, status=Status.IDENTITY)
    status = moderate.status if smoothed else Status.SEPARATED
    return replace(moderate, loss=loss, identity_loss=known, status=status)


def logistic_newton(rows: FeatureRows, start: Vector, lower: Vector, *, bias: bool) -> Solution:
    r"""Minimise the mean cross-entropy of targets in [0, 1] and :math:`\sigma(\theta^\top x)`.

    .. math:: \min_\theta \frac{1}{\sum_i w_i} \sum_i w_i \left[\ln(1 + e^{u_i}) - t_i u_i\right], \qquad
              \theta_j \ge l_j

    Parameters
    ----------
    rows : FeatureRows
        Design matrix of at most about five columns, of any size, also constant or multiples of each other; targets
        from 0 to 1 as labels.
    start : ndarray of shape (P,)
        Feasible starting point; the result has no higher loss. Coefficients of constant columns, which an intercept can
        replace, keep their start value.
    lower : ndarray of shape (P,)
        Lower bounds; minus infinity for none.
    bias : bool
        Whether the last column is all ones.

    Notes
    -----
    Newton's method on standardised columns, from the start or, where that is worse or saturated, from a constant. The
    quadratic model of a step is minimised exactly under the bounds, so that a bound that matters is met exactly.
    Where outcomes are separated and no finite optimum exists, the loss falls by a factor of e or more with each
    step, and twenty of them end it. Costs O(n d^2) per pass and about eight passes, of which most see a sample only
    if there are many rows; memory O(n d) for rows in memory. The ``identity_loss`` of the solution is that of the start.

    Examples
    --------
    Of four rows at x = 1 three are events, of four at x = -1 one is.

    >>> from calibrant.objective import ArrayRows
    >>> x = np.column_stack([np.repeat([1.0, -1.0], 4), np.ones(8)])
    >>> rows = ArrayRows(x, np.array([1.0, 1, 1, 0, 1, 0, 0, 0]))
    >>> np.exp(logistic_newton(rows, np.zeros(2), np.full(2, -np.inf), bias=True).theta).round(6)
    array([3., 1.])
    """
    start = np.array(start, dtype=np.float64)
    stride = rows.n_rows // SAMPLE_ROWS
    with one_thread():
        scaled = _Standardised.of(rows, bias)
        begin, floor = scaled.forwards(start), lower * scaled.spreads
        standardised = rows.mapped(features=scaled.columns)
        with ExitStack() as stack:
            loss = _Loss.over(standardised, stack)
            at_start = current = loss(begin)
            null = scaled.constant(begin, floor)
            if at_start.value > float(entr([scaled.mean_target, 1 - scaled.mean_target]).sum()):
                current = min(current, loss(null), key=attrgetter("value"))
            if stride >= 4:
                sample = _Loss.over(standardised.every(stride), stack)
                found = _descend(sample, sample(current.theta), floor, SAMPLE_TOLERANCE).end
                current = min(current, loss(found.theta), key=attrgetter("value"))
            descent = _descend(loss, current, floor, TOLERANCE)
            if descent.status is Status.OUT_OF_PRECISION:
                # A low loss with all rows saturated is no place to start from: nothing there tells how far to go.
                descent = _descend(loss, loss(null), floor, TOLERANCE)
    end = min(at_start, descent.end, key=attrgetter("value"))
    return Solution(
        theta=start if end is at_start else np.maximum(scaled.backwards(end.theta), lower),
        value=end.value,
        loss=end.value,
        identity_loss=at_start.value,
        decrement=descent.decrement,
        n_iterations=descent.n_iterations,
        n_evaluations=loss.n_evaluations,
        status=descent.status,
    )


def _median(values: Vector) -> float:
    """Return the median; numpy's own takes several times as long for a thousand numbers."""
    places = [(len(values) - 1) // 2, len(values) // 2]
    low, high = np.partition(values, places)[places]
    return float((low + high) / 2)


class _Largest(NamedTuple):
    """Largest size of every column, of which that of two sets of rows is the larger one."""

    sizes: Vector

    def __add__(self, other: Self) -> Self:  # type: ignore[override]
        return type(self)(np.maximum(self.sizes, other.sizes))


class _Standardised:
    """Columns of median zero and spread one, the last one left alone if it is the intercept, and the way back."""

    def __init__(
        self, sizes: Vector, centres: Vector, spreads: Vector, bias: bool, mean_target: float
    ) -> None:
        self.bias, self.mean_target = bias, mean_target
        self.empty = (spreads <= CONSTANT) | (sizes < SMALLEST_SIZE)
        self.sizes, self.shifts = np.where(sizes > 0, sizes, 1.0), centres
        self.relative = np.where(self.empty, 1.0, spreads)
        self.centres = centres * sizes
        self.spreads = np.where(self.empty, 1.0, spreads * sizes)

    @classmethod
    def of(cls, rows: FeatureRows, bias: bool) -> Self:
        """Find sizes, medians and spreads of the columns, and the mean target, from two passes and a sample."""
        with rows.passes(2 * rows.n_columns, min_rows=BLOCK_ROWS) as summed:
            sizes = np.ones(rows.n_columns)
            own = slice(rows.n_columns - bias)  # the columns that are not all ones

            def largest(block: Block) -> _Largest:
                columns = block.features.T[own]
                return _Largest(np.array([max(column.max(), -column.min()) for column in columns]))

            sizes[own] = summed(largest).sizes
            divisors = np.where(sizes > 0, sizes, 1.0)
            centres = np.zeros(rows.n_columns)
            if bias:
                # Unlike the mean it is amid the rows that are left when those far out are saturated.
                some = rows.every(1 + rows.n_rows // SAMPLE_ROWS).features.T[own]
                centres[own] = [_median(column) for column in some] / divisors[own]

            def squares(block: Block) -> Vector:
                sums = [block.weighted(block.labels).sum()]
                for column, divisor, centre in zip(block.features.T[own], divisors, centres, strict=False):
                    # Divided first, so that squares neither overflow nor vanish.
                    standard = column / divisor - centre
                    sums.append(block.weighted(standard) @ standard)
                return np.array(sums)

            target, *found = summed(squares) / rows.total_weight
        spreads = np.ones(rows.n_columns)
        spreads[own] = np.sqrt(found)
        return cls(sizes, centres, spreads, bias, float(target))

    def columns(self, features: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return the standardised columns; those without content become zero."""
        standard = np.empty(features.shape[::-1])
        for column, (own, size, shift, spread, empty) in enumerate(
            zip(standard, self.sizes, self.shifts, self.relative, self.empty, strict=True)
        ):
            np.divide(features[:, column], size, out=own)
            own -= shift
            own /= spread
            if empty:
                own[:] = 0.0
        return standard.T

    def forwards(self, theta: Vector) -> Vector:
        """Return the coefficients of the standardised columns that give the same scores."""
        scaled: Vector = theta * self.spreads
        if self.bias:
            scaled[-1] += theta[:-1] @ self.centres[:-1]
        return scaled

    def backwards(self, scaled: Vector) -> Vector:
        """Return the coefficients of the columns as they were given."""
        theta: Vector = scaled / self.spreads
        if self.bias:
            theta[-1] -= theta[:-1] @ self.centres[:-1]
        return theta

    def constant(self, begin: Vector, floor: Vector) -> Vector:
        """Return coefficients that give every row the mean of the targets, as nearly as the bounds allow."""
        null = np.maximum(0.0, floor)
        if self.bias:
            null[-1] = np.clip(logit(self.mean_target), -CERTAIN, CERTAIN)
        null[self.empty] = begin[self.empty]
        return null


class _Expansion(NamedTuple):
    """Mean loss at one place, with its gradient and Hessian."""

    theta: Vector
    value: float
    gradient: Vector
    hessian: Matrix


class _Loss:
    """Mean cross-entropy as a function of the coefficients; counts its evaluations."""

    def __init__(self, rows: FeatureRows, summed: Callable[[Callable[[Block], Any]], Any]) -> None:
        self.rows, self.summed = rows, summed
        size = rows.n_columns
        self.map = EventMap(np.zeros(size), np.full(size, -np.inf))
        self.n_evaluations = 0

    @classmethod
    def over(cls, rows: FeatureRows, stack: ExitStack) -> Self:
        """Open passes over the rows until the stack is closed."""
        return cls(rows, stack.enter_context(rows.passes(2 * rows.n_columns + 4, min_rows=BLOCK_ROWS)))

    def __call__(self, theta: Vector) -> _Expansion:
        self.n_evaluations += 1
        size = len(theta)
        sums = self.summed(lambda block: self.map.second_order(theta, LogisticLoss(), block))
        totals = sums / self.rows.total_weight
        return _Expansion(
            theta, float(totals[0]), totals[1 : size + 1], totals[size + 1 :].reshape(size, size)
        )


class _Descent(NamedTuple):
    end: _Expansion
    decrement: float
    n_iterations: int
    status: Status


def _descend(loss: _Loss, current: _Expansion, floor: Vector, tolerance: float) -> _Descent:
    """Do Newton's steps under lower bounds until the next one promises less than the tolerance."""
    decrement = np.inf
    for n_iterations in range(1, LARGEST_NUMBER_OF_STEPS + 1):
        step, at_floor = _bounded_step(current, floor)
        slope = float(current.gradient @ step)
        decrement = max(0.0, -slope - float(step @ current.hessian @ step) / 2)
        theta = np.maximum(current.theta + step, floor)
        theta[at_floor] = floor[at_floor]
        tried = loss(theta)
        if decrement <= tolerance:
            left = float(tried.gradient @ step) < SLOPE_LEFT * slope
            long = bool(np.abs(step).max() > LONG * (np.abs(current.theta).max() + LONG))
            # Values that differ by rounding say nothing; the step then goes to the nearer of the two.
            end = tried if tried.value <= current.value * (1 + ROUNDING) else current
            status = Status.RUNNING_AWAY if left and long else Status.CONVERGED
            return _Descent(end, decrement, n_iterations, status)
        length = 1.0
        while tried.value > current.value + SUFFICIENT_DECREASE * length * slope:
            length /= 2
            if length < SMALLEST_LENGTH:
                return _Descent(current, decrement, n_iterations, Status.OUT_OF_PRECISION)
            tried = loss(np.maximum(current.theta + length * step, floor))
        while length >= 1 and float(tried.gradient @ step) < min(EXTEND * slope, -tolerance / length):
            length *= 2
            further = loss(np.maximum(current.theta + length * step, floor))
            if further.value >= tried.value:
                break
            tried = further
        current = tried
    return _Descent(current, decrement, LARGEST_NUMBER_OF_STEPS, Status.OUT_OF_ITERATIONS)


def _bounded_step(at: _Expansion, floor: Vector) -> tuple[Vector, list[int]]:
    """Return the step that minimises the quadratic model above the bounds, and which bounds it ends on.

    The minimiser lies inside some face of the feasible set and minimises the model on the plane of that
    face. So of the minimisers on all planes, those that are feasible, the lowest is the one.
    """
    if (step := _plain_step(at)) is not None and (at.theta + step >= floor).all():
        return step, []
    # A column without content moves nothing and is not moved.
    moving = [i for i in range(len(floor)) if at.hessian[i, i] > 0 or at.gradient[i] != 0]
    bend = np.zeros_like(at.hessian)
    bend[np.ix_(moving, moving)] = _positive_definite(at.hessian[np.ix_(moving, moving)])
    room = floor - at.theta
    bounded = [i for i in moving if room[i] > -np.inf]
    lowest, best, best_fixed = np.inf, np.zeros_like(room), bounded
    for n_fixed in range(len(bounded) + 1):
        for chosen in combinations(bounded, n_fixed):
            fixed, free = list(chosen), [i for i in moving if i not in chosen]
            step = np.zeros_like(room)
            step[fixed] = room[fixed]
            pull = at.gradient[free] + bend[np.ix_(free, fixed)] @ room[fixed]
            step[free] = -np.linalg.solve(bend[np.ix_(free, free)], pull)
            if (step[bounded] < room[bounded]).any():
                continue
            if not n_fixed:
                return step, fixed
            model = float(at.gradient @ step + step @ bend @ step / 2)
            if model < lowest:
                lowest, best, best_fixed = model, step, fixed
    return best, best_fixed


def _plain_step(at: _Expansion) -> Vector | None:
    """Return Newton's step where the Hessian is far from singular, as it mostly is; None where it need not be."""
    scales = np.sqrt(np.diag(at.hessian))
    if scales.min() <= SMALLEST_BEND:
        return None
    scaled = at.hessian / scales / scales[:, np.newaxis]
    # One factorisation for determinant and solution; with ones on the diagonal all other eigenvalues multiply to no more
    # than e.
    factors, swaps, solved, _ = dgesv(scaled, at.gradient / scales)
    determinant = prod(factors.diagonal().tolist())
    is_odd = sum(place != swap for place, swap in enumerate(swaps.tolist())) % 2
    if (-determinant if is_odd else determinant) < e * FLAT:
        return None
    step: Vector = -solved.ravel() / scales
    return step


def _positive_definite(hessian: Matrix) -> Matrix:
    """Return the Hessian with a little bend where it has none, for columns that say the same or nothing.

    There the gradient vanishes and the step with it; where rows are saturated it does not, and the step is long.
    """
    scales = np.sqrt(np.maximum(np.diag(hessian), SMALLEST_BEND))
    bends, axes = np.linalg.eigh(hessian / np.outer(scales, scales))
    if len(bends) == 0 or bends[0] >= FLAT:
        return hessian
    raised: Matrix = (axes * np.maximum(bends, FLAT)) @ axes.T * np.outer(scales, scales)
    return raised
