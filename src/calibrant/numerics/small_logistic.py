"""Logistic regression on a few columns, with lower bounds on coefficients and safe where outcomes are separated."""

from collections.abc import Sequence
from itertools import combinations
from operator import attrgetter
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, logit

from calibrant.numerics.row_blocks import BlockSums, one_thread

__all__ = ["LogisticFit", "small_logistic"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

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

# Of so many numbers between 1/2 and 1 the product is no smaller than a float64 can be.
FACTORS = 1000

# So many short steps are taken with each block that threads would mostly wait for each other's Python.
BLOCK_ROWS = 2**14

# A sample finds the neighbourhood when there are many rows, and saves most of the passes over all of them.
SAMPLE_ROWS, SAMPLE_TOLERANCE = 4000, 1e-5

Ending = Literal[
    "CONVERGED", "RUNNING_AWAY", "SEPARATED", "OUT_OF_PRECISION", "OUT_OF_ITERATIONS", "IDENTITY"
]
"""How a fit ends, by the names of ``solvers.Status``, of which this layer does not know."""


class LogisticFit(NamedTuple):
    """Where a fit ended.

    ``theta`` holds a coefficient for each column, then the intercept. ``value`` is what was minimised, ``loss`` the mean
    log-loss of the outcomes, the same unless targets were smoothed, and ``start_loss`` that at the start. ``decrement``
    is what the last step promised to gain. ``ending`` is running away if there is no finite optimum, or none
    within reach, and the identity if it was best to keep the start.
    """

    theta: Vector
    value: float
    loss: float
    start_loss: float
    decrement: float
    n_iterations: int
    n_evaluations: int
    ending: Ending


def small_logistic(
    columns: Sequence[Vector],
    targets: NDArray[np.floating] | NDArray[np.bool_],
    weights: Vector | None = None,
    *,
    start: Sequence[float] | Vector,
    intercept: bool = True,
    lower: Sequence[float] | None = None,
) -> LogisticFit:
    r"""Minimise the mean cross-entropy of targets in [0, 1] and :math:`\sigma(\theta^\top x + \theta_0)`.

    .. math:: \min_\theta \frac{1}{\sum_i w_i} \sum_i w_i \left[\ln(1 + e^{u_i}) - t_i u_i\right], \qquad
              \theta_j \ge l_j

    Parameters
    ----------
    columns : sequence of ndarray, each (n,)
        Features, at most about five; any size, also constant or multiples of each other.
    targets : ndarray of shape (n,)
        Outcomes, or numbers between 0 and 1.
    weights : ndarray of shape (n,), optional
        Positive numbers.
    start : sequence of float
        A coefficient for each column, then the intercept if there is one; what comes back has no higher loss.
        Coefficients of constant columns, which an intercept can replace, stay as they are there.
    intercept : bool
        Whether to fit :math:`\theta_0`.
    lower : sequence of float, optional
        Bound :math:`l_j` for the coefficient of each column; minus infinity for none. The start obeys it.

    Notes
    -----
    Newton's method on standardised columns, from the start or, where that is worse or saturated, from a constant. The
    quadratic model of a step is minimised exactly under the bounds, so that a bound that matters is met exactly.
    Where outcomes are separated and no finite optimum exists, the loss falls by a factor of e or more with each
    step, and twenty of them end it. Costs O(n d^2) per pass and about eight passes, of which most see a sample only
    if there are many rows; memory O(n d).

    Examples
    --------
    Of four rows at x = 1 three are events, of four at x = -1 one is.

    >>> x = np.repeat([1.0, -1.0], 4)
    >>> fit = small_logistic([x], np.array([1, 1, 1, 0, 1, 0, 0, 0]), start=[0.0, 0.0])
    >>> np.exp(fit.theta).round(6)
    array([3., 1.])
    """
    scaled = _Standardised(columns, weights, intercept)
    theta = np.asarray(start, dtype=np.float64)
    bounds = np.full(len(theta), -np.inf)
    if lower is not None:
        bounds[: len(columns)] = lower
    targets = np.asarray(targets, dtype=np.float64)
    begin, floor = scaled.forwards(theta), bounds * scaled.spreads
    with one_thread(), BlockSums.over(len(targets), 2 * len(theta) + 4, min_rows=BLOCK_ROWS) as sums:
        loss = _MeanLoss(scaled.features, targets, weights, sums)
        at_start = current = loss(begin)
        null = scaled.constant(begin, loss.mean_target, floor)
        if at_start.value > float(entr([loss.mean_target, 1 - loss.mean_target]).sum()):
            current = min(current, loss(null), key=attrgetter("value"))
        stride = len(targets) // SAMPLE_ROWS
        if stride >= 4:
            rows = slice(None, None, stride)
            few = None if weights is None else weights[rows]
            sample = _MeanLoss(np.ascontiguousarray(scaled.features[:, rows]), targets[rows], few)
            found = _descend(sample, sample(current.theta), floor, SAMPLE_TOLERANCE).end
            current = min(current, loss(found.theta), key=attrgetter("value"))
        descent = _descend(loss, current, floor, TOLERANCE)
        if descent.ending == "OUT_OF_PRECISION":
            # A low loss with all rows saturated is no place to start from: nothing there tells how far to go.
            descent = _descend(loss, loss(null), floor, TOLERANCE)
    end = min(at_start, descent.end, key=attrgetter("value"))
    return LogisticFit(
        theta=theta.copy() if end is at_start else np.maximum(scaled.backwards(end.theta), bounds),
        value=end.value,
        loss=end.value,
        start_loss=at_start.value,
        decrement=descent.decrement,
        n_iterations=descent.n_iterations,
        n_evaluations=loss.n_evaluations,
        ending=descent.ending,
    )


class _Standardised:
    """Columns of median zero and spread one, with a row of ones for the intercept, and the way back."""

    def __init__(self, columns: Sequence[Vector], weights: Vector | None, intercept: bool) -> None:
        n_columns, n_rows = len(columns), len(columns[0])
        self.features = np.ones((n_columns + intercept, n_rows))
        self.centres = np.zeros(n_columns)
        self.spreads = np.ones(n_columns + intercept)
        self.intercept = intercept
        for index, column in enumerate(columns):
            feature = self.features[index]
            size = max(float(column.max()), -float(column.min()))
            np.divide(column, size or 1.0, out=feature)  # so that squares neither overflow nor vanish
            if intercept:
                # Unlike the mean it is amid the rows that are left when those far out are saturated.
                centre = float(np.median(feature[:: 1 + n_rows // SAMPLE_ROWS]))
                feature -= centre
                self.centres[index] = centre * size
            spread = float(np.sqrt(np.average(feature**2, weights=weights)))
            if spread <= CONSTANT or size < SMALLEST_SIZE:
                feature[:] = 0.0
            else:
                feature /= spread
                self.spreads[index] = spread * size

    def forwards(self, theta: Vector) -> Vector:
        """Return the coefficients of the standardised columns that give the same scores."""
        scaled: Vector = theta * self.spreads
        if self.intercept:
            scaled[-1] += theta[:-1] @ self.centres
        return scaled

    def backwards(self, scaled: Vector) -> Vector:
        """Return the coefficients of the columns as they were given."""
        theta: Vector = scaled / self.spreads
        if self.intercept:
            theta[-1] -= theta[:-1] @ self.centres
        return theta

    def constant(self, begin: Vector, mean_target: float, floor: Vector) -> Vector:
        """Return coefficients that give every row the mean of the targets, as nearly as the bounds allow."""
        null = np.maximum(0.0, floor)
        if self.intercept:
            null[-1] = np.clip(logit(mean_target), -CERTAIN, CERTAIN)
        empty = ~self.features.any(axis=1)
        null[empty] = begin[empty]
        return null


class _Expansion(NamedTuple):
    """Mean loss at one place, with its gradient and Hessian."""

    theta: Vector
    value: float
    gradient: Vector
    hessian: Matrix


class _MeanLoss:
    """Mean cross-entropy as a function of the coefficients, summed over row blocks."""

    def __init__(
        self, features: Matrix, targets: Vector, weights: Vector | None, sums: BlockSums | None = None
    ) -> None:
        self.features, self.targets, self.weights, self.sums = features, targets, weights, sums
        self.total = float(len(targets) if weights is None else weights.sum())
        self.mean_target = float(np.average(targets, weights=weights))
        self.n_evaluations = 0

    def __call__(self, theta: Vector) -> _Expansion:
        def block(rows: slice) -> Vector:
            return self._block(theta, rows)

        self.n_evaluations += 1
        totals = (block(slice(None)) if self.sums is None else self.sums(block)) / self.total
        size = len(theta)
        return _Expansion(
            theta, float(totals[0]), totals[1 : size + 1], totals[size + 1 :].reshape(size, size)
        )

    def _block(self, theta: Vector, rows: slice) -> Vector:
        """Return sums of loss, gradient and Hessian over some rows in one flat array."""
        features, targets = self.features[:, rows], self.targets[rows]
        scores = theta @ features
        small = np.exp(-np.abs(scores))  # at most one: nothing overflows
        larger = 1 / (1 + small)
        losses = np.maximum(scores, 0.0) - targets * scores
        smaller = small * larger
        residuals = np.where(scores >= 0, larger, smaller) - targets
        bends = smaller * larger
        if self.weights is None:
            # The logarithm of a product takes a fraction of the time of all the logarithms.
            products = np.multiply.reduceat(larger, np.arange(0, len(larger), FACTORS))
            total = losses.sum() - np.log(products).sum()
        else:
            weights = self.weights[rows]
            total = weights @ (losses - np.log(larger))
            residuals *= weights
            bends *= weights
        bent = features * bends
        # Of matrices as flat as these, products row by row are faster than one with the transpose.
        return np.concatenate([[total], features @ residuals, *(bent @ feature for feature in features)])


class _Descent(NamedTuple):
    end: _Expansion
    decrement: float
    n_iterations: int
    ending: Ending


def _descend(loss: _MeanLoss, current: _Expansion, floor: Vector, tolerance: float) -> _Descent:
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
            return _Descent(end, decrement, n_iterations, "RUNNING_AWAY" if left and long else "CONVERGED")
        length = 1.0
        while tried.value > current.value + SUFFICIENT_DECREASE * length * slope:
            length /= 2
            if length < SMALLEST_LENGTH:
                return _Descent(current, decrement, n_iterations, "OUT_OF_PRECISION")
            tried = loss(np.maximum(current.theta + length * step, floor))
        while length >= 1 and float(tried.gradient @ step) < min(EXTEND * slope, -tolerance / length):
            length *= 2
            further = loss(np.maximum(current.theta + length * step, floor))
            if further.value >= tried.value:
                break
            tried = further
        current = tried
    return _Descent(current, decrement, LARGEST_NUMBER_OF_STEPS, "OUT_OF_ITERATIONS")


def _bounded_step(at: _Expansion, floor: Vector) -> tuple[Vector, list[int]]:
    """Return the step that minimises the quadratic model above the bounds, and which bounds it ends on.

    The minimiser lies inside some face of the feasible set and minimises the model on the whole plane of that
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
    # With ones on the diagonal all other eigenvalues multiply to no more than e.
    if np.linalg.det(scaled) < np.e * FLAT:
        return None
    step: Vector = -np.linalg.solve(scaled, at.gradient / scales) / scales
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
