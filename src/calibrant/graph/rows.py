"""Row operations: softmax, sums over a row, normalisation, matrix products and mixtures."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import expit, logit

from calibrant.arrays import FloatArray, Vector
from calibrant.graph.operation import FEW_ROWS, GraphError, Kernel, Operation, same_width
from calibrant.numerics.reductions import NARROW, contiguous_row_sums, row_maxima, row_sums
from calibrant.numerics.row_order import argmax_restored

__all__ = ["Dense", "LogSoftmax", "Mixture", "Normalise", "RowReduce", "Softmax", "normalised"]


def row_tops(x: FloatArray) -> FloatArray:
    """Return the largest entry of every row, (n, 1).

    >>> row_tops(np.array([[1.0, 2.0], [4.0, 3.0]]))
    array([[2.], [4.]])
    """
    if len(x) > FEW_ROWS:
        return row_maxima(x)[:, np.newaxis]
    tops: FloatArray = np.maximum.reduce(x, axis=1, keepdims=True)
    return tops


def row_totals(x: FloatArray) -> FloatArray:
    """Return the sum of every row, (n, 1).

    >>> row_totals(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[3.], [7.]])
    """
    if len(x) > FEW_ROWS:
        return row_sums(x)[:, np.newaxis]
    if x.shape[1] > NARROW:
        totals: FloatArray = np.add.reduce(x, axis=1, keepdims=True)
        return totals
    # From left to right, the order in which sums of many narrow rows are computed.
    return np.add.accumulate(x, axis=1)[:, -1:]


@dataclass(frozen=True, eq=False)
class Softmax(Operation):
    r"""Softmax: :math:`y_k = e^{x_k - m} / \sum_j e^{x_j - m}` with m the largest entry of the row."""

    name: ClassVar[str] = "softmax"
    overwrites: ClassVar[bool] = True

    def kernel(self, kind: np.dtype[Any]) -> Kernel:  # noqa: ARG002
        return softmax_into


# Relative to the largest entry of a row; larger entries may be equal to it but for rounding.
CLOSE = {np.dtype(kind).char: 1 - 8 * np.finfo(kind).eps for kind in (np.float32, np.float64)}


def softmax_into(out: FloatArray | None, x: FloatArray) -> FloatArray:
    """Return the softmax of every row, in ``out`` if given."""
    y, totals = _exponentials(out, x)
    y /= totals
    return y


def _exponentials(out: FloatArray | None, x: FloatArray) -> tuple[FloatArray, FloatArray | float]:
    """Return the exponentials of a softmax, and the sum of every row."""
    if len(x) > 1:
        y = np.subtract(x, row_tops(x), out=out)
        np.exp(y, out=y)
        return y, row_totals(y)
    # With plain numbers in the place of arrays of one entry, which take longer.
    y = np.subtract(x, x.item(x.argmax()), out=out)
    np.exp(y, out=y)
    if x.shape[1] > NARROW:
        return y, row_totals(y)
    return y, np.add.accumulate(y, axis=1).item(-1)


def softmax_with_argmax(out: FloatArray | None, x: FloatArray, reference: FloatArray) -> FloatArray:
    """Return the softmax of every row with the arg-max of the reference, of which ``x`` is an increasing function.

    An entry that is the largest by more than rounding is the arg-max of the reference too. Other rows are compared with the
    reference.
    """
    y, totals = _exponentials(out, x)
    n_close = np.count_nonzero(y > CLOSE[y.dtype.char])
    y /= totals
    if n_close != len(y):
        argmax_restored(y, reference)
    return y


@dataclass(frozen=True, eq=False)
class LogSoftmax(Operation):
    r"""Logarithm of the softmax: :math:`y_k = x_k - m - \log \sum_j e^{x_j - m}`."""

    name: ClassVar[str] = "log-softmax"
    overwrites: ClassVar[bool] = True

    def kernel(self, kind: np.dtype[Any]) -> Kernel:  # noqa: ARG002
        def kernel(out: FloatArray | None, x: FloatArray) -> Any:
            y = np.subtract(x, row_tops(x), out=out)
            y -= np.log(row_totals(np.exp(y)))
            return y

        return kernel


Reduction = Literal["sum", "mean", "max"]


def _row_means(x: FloatArray) -> FloatArray:
    return row_totals(x) / x.dtype.type(x.shape[1])


REDUCTIONS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "sum": row_totals,
    "mean": _row_means,
    "max": row_tops,
}


@dataclass(frozen=True, eq=False)
class RowReduce(Operation):
    """Sum, mean or largest entry of every row, one column."""

    function: Reduction

    name: ClassVar[str] = "row-reduce"

    def width(self, widths: Sequence[int]) -> int:  # noqa: ARG002
        return 1

    def kernel(self, kind: np.dtype[Any]) -> Kernel:  # noqa: ARG002
        function = REDUCTIONS[self.function]
        return lambda out, x: function(x)  # noqa: ARG005


@dataclass(frozen=True, eq=False)
class Dense(Operation):
    """Matrix product and intercept: y = x W + b, with W (columns of x, columns of y)."""

    weights: Vector
    intercept: Vector

    name: ClassVar[str] = "dense"
    axes: ClassVar[Mapping[str, tuple[int, ...]]] = {"weights": (2,)}

    def width(self, widths: Sequence[int]) -> int:
        if self.weights.ndim != 2 or self.weights.shape[0] != widths[0]:
            raise GraphError(f"dense has weights of shape {self.weights.shape} for {widths[0]} columns")
        if self.intercept.shape != self.weights.shape[1:]:
            raise GraphError(
                f"dense has intercepts of shape {self.intercept.shape} for {self.weights.shape[1]} columns"
            )
        return int(self.weights.shape[1])

    def kernel(self, kind: np.dtype[Any]) -> Kernel:
        # In Fortran order, as fitted weights are stored.
        weights = np.ascontiguousarray(self.weights.T.astype(kind)).T
        intercept, has_intercept = self.intercept.astype(kind), bool(self.intercept.any())

        def kernel(out: FloatArray | None, x: FloatArray) -> Any:
            if len(x) == 1:
                y = x.dot(weights, out)
            elif x.flags.f_contiguous and (out is None or out.flags.f_contiguous):
                y = np.matmul(
                    weights.T, x.T, out=None if out is None else out.T
                ).T  # stored by columns, as x is
            else:
                y = np.matmul(x, weights, out=out)
            if has_intercept:
                y += intercept
            return y

        return kernel


@dataclass(frozen=True, eq=False)
class Mixture(Operation):
    r"""Weighted sum of values of one width: :math:`y = \sum_i w_i x_i`."""

    weights: Vector

    name: ClassVar[str] = "mixture"
    n_values: ClassVar[int | None] = None
    overwrites: ClassVar[bool] = True

    def width(self, widths: Sequence[int]) -> int:
        if self.weights.shape != (len(widths),):
            raise GraphError(f"mixture has weights of shape {self.weights.shape} for {len(widths)} values")
        return same_width(self.name, widths)

    def kernel(self, kind: np.dtype[Any]) -> Kernel:
        weights = self.weights.astype(kind)

        def kernel(out: FloatArray | None, *values: FloatArray) -> Any:
            y = np.multiply(values[0], weights[0], out=out)
            for value, weight in zip(values[1:], weights[1:], strict=True):
                y += value * weight
            return y

        return kernel


Normalisation = Literal["divide", "shift", "project"]

# Log-odds of a one: just beyond the 36.7 of the largest float64 below one.
CERTAIN = 40.0

# Largest distance below the largest log-odds of a row; zeros lie there. As a probability it is e^-80.
SPREAD = 80.0


def _divided(values: Vector) -> Vector:
    # In the order of summation of the papers' programs, row by row, since equal scores lie on the edges of bins.
    values /= contiguous_row_sums(values)[:, np.newaxis]
    return values


def _shifted(values: Vector) -> Vector:
    """Subtract from all log-odds of a row the shift with which its probabilities sum to one.

    The sum decreases in the shift, so the root is bracketed; Newton steps that leave the bracket are replaced by bisection.
    """
    # Rows may sum to slightly more than one, and then an entry may exceed one.
    odds = np.minimum(logit(np.minimum(values, 1.0)), CERTAIN)
    largest = odds.max(axis=1)
    odds = np.maximum(odds - largest[:, np.newaxis], -SPREAD)
    # With the largest log-odds at -log(K - 1) no entry exceeds 1/K; with the smallest there none is below.
    base = float(np.log(max(values.shape[1] - 1, 1)))
    low, high = odds.min(axis=1) + base, np.full(len(odds), base)
    shift = np.clip(-largest, low, high)
    for _ in range(100):
        shifted: Vector = expit(odds - shift[:, np.newaxis])
        excess = shifted.sum(axis=1) - 1
        low, high = np.where(excess > 0, shift, low), np.where(excess > 0, high, shift)
        if np.abs(excess).max() < 1e-14 * values.shape[1]:
            break
        slope = (shifted * (1 - shifted)).sum(axis=1)
        newton = shift + excess / slope
        shift = np.where((newton > low) & (newton < high), newton, (low + high) / 2)
    return _divided(shifted)


def _projected(values: Vector) -> Vector:
    """Return the Euclidean projection onto the simplex."""
    n_classes = values.shape[1]
    descending = -np.sort(-values, axis=1)
    excess = (np.cumsum(descending, axis=1) - 1) / np.arange(1, n_classes + 1)
    n_positive = (descending > excess).sum(axis=1, keepdims=True)
    return _divided(np.maximum(values - np.take_along_axis(excess, n_positive - 1, axis=1), 0.0))


NORMALISATIONS: dict[str, Callable[[Vector], Vector]] = {
    "divide": _divided,
    "shift": _shifted,
    "project": _projected,
}


def normalised(values: FloatArray, how: Normalisation, fallback: FloatArray) -> FloatArray:
    r"""Return rows that sum to one, in the float type of ``values``; see :class:`Normalise`.

    >>> separate, own = np.array([[0.9, 0.6], [0.0, 0.0]]), np.array([[0.7, 0.3], [0.8, 0.2]])
    >>> normalised(separate, "divide", own)
    array([[0.6, 0.4], [0.8, 0.2]])
    >>> normalised(separate, "project", own).round(3)
    array([[0.65, 0.35], [0.8 , 0.2 ]])
    >>> normalised(separate, "shift", own).round(3)
    array([[0.71, 0.29], [0.8 , 0.2 ]])
    """
    rows: FloatArray = _normalised_in_place(values.astype(np.float64), how, fallback)
    return rows.astype(values.dtype, copy=False)


def _normalised_in_place(values: Any, how: Normalisation, fallback: FloatArray) -> Any:
    """Return :func:`normalised` rows of float64, which may overwrite ``values``."""
    if how == "divide":
        totals = contiguous_row_sums(values)
        empty = totals == 0
        if not empty.any():
            values /= totals[:, np.newaxis]
            return values
    else:
        empty = row_maxima(values) == 0
    values[empty] = fallback[empty]
    return NORMALISATIONS[how](values)


@dataclass(frozen=True, eq=False)
class Normalise(Operation):
    r"""Normalisation of K one-vs-rest probabilities g to sum one; where all are zero, the row of the second value.

    - ``"divide"`` gives :math:`g_j / \sum_k g_k`;
    - ``"shift"`` gives :math:`\sigma(o_j - \lambda)` with the one :math:`\lambda` for which they sum to one, the row nearest
      to g in the sum of binary Kullback-Leibler divergences. The log-odds are bounded,
      :math:`o_j = \max(l_j, \max_k l_k - 80)` with :math:`l_j = \min(\operatorname{logit} \min(g_j, 1), 40)`: a one has
      log-odds of 40, and a zero lies 80 below the largest;
    - ``"project"`` gives :math:`\max(g_j - \tau, 0)` with the one :math:`\tau` for which they sum to one, the row nearest to
      g in the sense of least squares, which may have zeros.

    All are computed in float64, and the result of the second and the third is divided by its sum again. It has the float
    type of g.

    All three leave rows that sum to one unchanged and preserve the order, "shift" for entries up to 80 nats below the
    largest of their row. O(nK), for "project" O(nK log K).
    """

    how: Normalisation

    name: ClassVar[str] = "normalise"
    n_values: ClassVar[int | None] = 2
    overwrites: ClassVar[bool] = True

    def width(self, widths: Sequence[int]) -> int:
        if widths[0] != widths[1]:
            raise GraphError(f"normalise takes values of one width, not of {list(widths)}")
        return widths[0]

    def kernel(self, kind: np.dtype[Any]) -> Kernel:  # noqa: ARG002
        def kernel(out: FloatArray | None, values: FloatArray, fallback: FloatArray) -> Any:
            if out is None or out.dtype != np.float64:
                return normalised(values, self.how, fallback)
            if out is not values:
                np.copyto(out, values)
            return _normalised_in_place(out, self.how, fallback)

        return kernel
