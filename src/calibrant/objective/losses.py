"""Losses of one row as functions of its scores: log-loss and Brier score after a softmax, log-loss of one event."""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray, IntArray, Vector
from calibrant.numerics.reductions import row_maxima, row_sums

__all__ = ["BrierLoss", "CrossEntropy", "LogisticLoss", "Loss", "MultilabelLoss", "softmax_in_place"]


# The product of this many numbers between 1/2 and 1 is still a normal float64.
FACTORS = 1000


class Loss(ABC):
    """A proper loss as a function of the scores u of a row, with its derivatives in u."""

    fisher_is_hessian: ClassVar[bool] = True
    """Whether the Fisher matrix of a score map is the Hessian of the loss in its parameters."""

    @abstractmethod
    def expand(self, scores: FloatArray, labels: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return losses (n,), the state that :meth:`curvature_product` needs, and gradients in u.

        ``scores`` may be overwritten. State and gradients have the shape of the scores.
        """

    @abstractmethod
    def values(self, scores: FloatArray, labels: IntArray) -> FloatArray:
        """Return the losses alone, (n,); ``scores`` may be overwritten."""

    @abstractmethod
    def curvature_product(self, state: FloatArray, labels: IntArray, direction: FloatArray) -> FloatArray:
        """Return every row's Hessian in u times that row of ``direction``."""

    def along(
        self, scale: np.floating, gaps: FloatArray, label_gaps: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return loss, first and second derivative of every row in a common factor of its scores.

        ``gaps`` (n, K) are the scores minus the largest of their row, ``label_gaps`` (n,) those of the true class.
        """
        del scale, gaps, label_gaps
        raise TypeError(f"{type(self).__name__} has no common factor of several scores")


class CrossEntropy(Loss):
    r"""Negative log-likelihood, :math:`\ell(u, y) = \log\sum_k e^{u_k} - u_y`.

    Gradient :math:`p - e_y`, Hessian :math:`\mathrm{diag}(p) - pp^\top`: convex. The state is p, (n, K).
    """

    def expand(self, scores: FloatArray, labels: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        rows = np.arange(len(labels))
        of_label = scores[rows, labels]
        losses = softmax_in_place(scores) - of_label
        gradients = scores.copy()
        gradients[rows, labels] -= 1
        return losses, scores, gradients

    def curvature_product(
        self,
        state: FloatArray,
        labels: IntArray,  # noqa: ARG002 (this Hessian is the same for every label)
        direction: FloatArray,
    ) -> FloatArray:
        mean = np.einsum("ik,ik->i", state, direction)
        product: FloatArray = direction - mean[:, np.newaxis]
        product *= state
        return product

    def values(self, scores: FloatArray, labels: IntArray) -> FloatArray:
        of_label = scores[np.arange(len(labels)), labels]
        tops = row_maxima(scores)
        scores -= tops[:, np.newaxis]
        losses: FloatArray = np.log(row_sums(np.exp(scores, out=scores))) + tops - of_label
        return losses

    def along(
        self, scale: np.floating, gaps: FloatArray, label_gaps: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        # With gaps <= 0 the exponentials cannot overflow and their sum is at least one.
        terms = np.multiply(gaps, scale)
        np.exp(terms, out=terms)
        ones = np.ones(gaps.shape[1], gaps.dtype)
        total = terms @ ones
        terms *= gaps
        mean = (terms @ ones) / total
        terms *= gaps
        square = (terms @ ones) / total
        return np.log(total) - scale * label_gaps, mean - label_gaps, square - mean**2


class BrierLoss(Loss):
    r"""Squared error summed over classes, :math:`\ell(u, y) = \sum_k (p_k - 1[k = y])^2`.

    With :math:`r = 2(p - e_y)` and :math:`J = \mathrm{diag}(p) - pp^\top` the gradient is :math:`Jr`.
    Not convex in u. The state is p, (n, K).
    """

    fisher_is_hessian: ClassVar[bool] = False

    def expand(self, scores: FloatArray, labels: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        softmax_in_place(scores)
        probabilities = scores
        residuals = self._residuals(probabilities, labels)
        losses = np.einsum("ik,ik->i", residuals, residuals)
        mean = np.einsum("ik,ik->i", probabilities, residuals)
        gradients = 2 * probabilities * (residuals - mean[:, np.newaxis])
        return losses, probabilities, gradients

    def curvature_product(self, state: FloatArray, labels: IntArray, direction: FloatArray) -> FloatArray:
        residuals = self._residuals(state, labels)
        centred = residuals - np.einsum("ik,ik->i", state, residuals)[:, np.newaxis]
        moved = CrossEntropy().curvature_product(state, labels, direction)  # change of p
        change = moved - np.einsum("ik,ik->i", state, moved)[:, np.newaxis]
        change -= np.einsum("ik,ik->i", moved, residuals)[:, np.newaxis]
        product: FloatArray = 2 * (moved * centred + state * change)
        return product

    def values(self, scores: FloatArray, labels: IntArray) -> FloatArray:
        softmax_in_place(scores)
        residuals = self._residuals(scores, labels)
        losses: FloatArray = np.einsum("ik,ik->i", residuals, residuals)
        return losses

    def along(
        self, scale: np.floating, gaps: FloatArray, label_gaps: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        # With m the mean of z under p and v its variance: p' = p (z - m) and p'' = p ((z - m)^2 - v).
        probabilities = np.exp(scale * gaps)
        total = row_sums(probabilities)
        probabilities /= total[:, np.newaxis]
        centred = gaps - row_sums(probabilities * gaps)[:, np.newaxis]
        first = probabilities * centred
        variance = np.einsum("ik,ik->i", first, centred)
        square = np.einsum("ik,ik->i", probabilities, probabilities)
        first_square = np.einsum("ik,ik->i", first, first)
        # The label's own column, from its gap alone.
        own = np.exp(scale * label_gaps) / total
        own_centred = label_gaps - (gaps[:, 0] - centred[:, 0])
        return (
            square - 2 * own + 1,
            2 * (np.einsum("ik,ik->i", probabilities, first) - own * own_centred),
            2 * (2 * first_square - variance * square - own * (own_centred**2 - variance)),
        )

    @staticmethod
    def _residuals(probabilities: FloatArray, labels: IntArray) -> FloatArray:
        residuals = probabilities.copy()
        residuals[np.arange(len(labels)), labels] -= 1
        return residuals


class LogisticLoss(Loss):
    r"""Log-loss of one event, :math:`\ell(u, t) = \ln(1 + e^u) - t u`, for log-odds u and a target t in [0, 1].

    Scores, targets, state and gradients are (n,). The gradient is :math:`\sigma(u) - t`; the state is the Hessian
    :math:`\sigma(u) \sigma(-u)`. Nothing overflows, and a certain row that is right keeps all digits.

    Examples
    --------
    >>> losses, bends, gradients = LogisticLoss().expand(np.log([3.0, 3.0]), np.array([1.0, 0.0]))
    >>> np.exp(losses).round(6), bends, gradients
    (array([1.333333, 4.      ]), array([0.1875, 0.1875]), array([-0.25,  0.75]))
    """

    def expand(self, scores: FloatArray, labels: NDArray) -> tuple[FloatArray, FloatArray, FloatArray]:  # type: ignore[type-arg]
        losses, larger, bends, gradients = self._parts(scores, labels)
        return losses - np.log(larger), bends, gradients

    def sums(
        self, scores: Vector, targets: Vector, weights: Vector | None
    ) -> tuple[float, FloatArray, FloatArray]:
        """Return the sum of losses, and gradients and bends of every row times its weight."""
        losses, larger, bends, gradients = self._parts(scores, targets)
        if weights is None:
            # The logarithm of a product takes a fraction of the time of all the logarithms.
            products = np.multiply.reduceat(larger, np.arange(0, len(larger), FACTORS))
            return float(losses.sum() - np.log(products).sum()), gradients, bends
        return float(weights @ (losses - np.log(larger))), gradients * weights, bends * weights

    def values(self, scores: FloatArray, labels: NDArray) -> FloatArray:  # type: ignore[type-arg]
        losses, larger, _, _ = self._parts(scores, labels)
        return losses - np.log(larger)

    def curvature_product(self, state: FloatArray, labels: IntArray, direction: FloatArray) -> FloatArray:  # noqa: ARG002
        product: FloatArray = state * direction
        return product

    @staticmethod
    def _parts(scores: FloatArray, targets: FloatArray) -> tuple[FloatArray, ...]:
        """Return the loss without its logarithm, the larger of p and 1 - p, their product, and p - t."""
        small = np.abs(scores)
        np.negative(small, out=small)
        np.exp(small, out=small)  # at most one: nothing overflows
        larger = 1 + small
        np.divide(1, larger, out=larger)
        small *= larger  # the smaller of p and 1 - p
        # p is 1 - small or small. Its integer part comes first, so that a right row keeps all digits.
        part = (scores >= 0).astype(scores.dtype)
        gradients = np.subtract(part, targets, dtype=scores.dtype)
        losses = scores * gradients
        part *= small
        part += part
        part -= small  # small where the integer part is 1, else -small: faster than a copied sign
        gradients -= part
        small *= larger
        return losses, larger, small, gradients


class MultilabelLoss(Loss):
    r"""Log-loss summed over labels, :math:`\ell(u, t) = \sum_l \ln(1 + e^{u_l}) - t_l u_l`; a missing target adds nothing.

    Scores, targets, state and gradients are (n, L); targets are 0, 1 or NaN for a missing one. The state is the diagonal of
    the Hessian.

    Examples
    --------
    >>> losses, bends, gradients = MultilabelLoss().expand(np.log([[3.0, 3.0]]), np.array([[1.0, np.nan]]))
    >>> np.exp(losses).round(6), bends, gradients
    (array([1.333333]), array([[0.1875, 0.    ]]), array([[-0.25,  0.  ]]))
    """

    fisher_is_hessian: ClassVar[bool] = False

    def expand(self, scores: FloatArray, labels: NDArray) -> tuple[FloatArray, FloatArray, FloatArray]:  # type: ignore[type-arg]
        known = ~np.isnan(labels)
        losses, bends, gradients = LogisticLoss().expand(scores, np.where(known, labels, 0.0))
        return row_sums(losses * known), bends * known, gradients * known

    def values(self, scores: FloatArray, labels: NDArray) -> FloatArray:  # type: ignore[type-arg]
        known = ~np.isnan(labels)
        losses: FloatArray = row_sums(LogisticLoss().values(scores, np.where(known, labels, 0.0)) * known)
        return losses

    def curvature_product(self, state: FloatArray, labels: IntArray, direction: FloatArray) -> FloatArray:  # noqa: ARG002
        product: FloatArray = state * direction
        return product


def softmax_in_place(scores: FloatArray) -> FloatArray:
    """Turn ``scores`` into probabilities; return log-sum-exp of every row, (n,)."""
    tops = row_maxima(scores)
    scores -= tops[:, np.newaxis]
    np.exp(scores, out=scores)
    totals = row_sums(scores)
    scores *= (1 / totals)[:, np.newaxis]
    log_sums: FloatArray = np.log(totals) + tops
    return log_sums
