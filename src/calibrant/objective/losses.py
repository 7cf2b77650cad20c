"""The two losses of the field: log-loss and Brier score."""

import numpy as np

from calibrant.numerics.reductions import row_maxima, row_sums
from calibrant.objective.loss import FloatArray, Labels, Loss, softmax_in_place

__all__ = ["BrierLoss", "CrossEntropy"]


class CrossEntropy(Loss):
    r"""Negative log-likelihood, :math:`\ell(u, y) = \log\sum_k e^{u_k} - u_y`.

    Gradient :math:`p - e_y`, Hessian :math:`\mathrm{diag}(p) - pp^\top`: convex.
    """

    def expand(self, scores: FloatArray, labels: Labels) -> tuple[FloatArray, FloatArray, FloatArray]:
        rows = np.arange(len(labels))
        of_label = scores[rows, labels]
        losses = softmax_in_place(scores) - of_label
        gradients = scores.copy()
        gradients[rows, labels] -= 1
        return losses, scores, gradients

    def curvature_product(
        self,
        probabilities: FloatArray,
        labels: Labels,  # noqa: ARG002 (this Hessian is the same for every label)
        direction: FloatArray,
    ) -> FloatArray:
        mean = np.einsum("ik,ik->i", probabilities, direction)
        product: FloatArray = direction - mean[:, np.newaxis]
        product *= probabilities
        return product

    def values(self, scores: FloatArray, labels: Labels) -> FloatArray:
        of_label = scores[np.arange(len(labels)), labels]
        tops = row_maxima(scores)
        scores -= tops[:, np.newaxis]
        losses: FloatArray = np.log(row_sums(np.exp(scores, out=scores))) + tops - of_label
        return losses


class BrierLoss(Loss):
    r"""Squared error summed over classes, :math:`\ell(u, y) = \sum_k (p_k - 1[k = y])^2`.

    With :math:`r = 2(p - e_y)` and :math:`J = \mathrm{diag}(p) - pp^\top` the gradient is :math:`Jr`.
    Not convex in u.
    """

    def expand(self, scores: FloatArray, labels: Labels) -> tuple[FloatArray, FloatArray, FloatArray]:
        softmax_in_place(scores)
        probabilities = scores
        residuals = self._residuals(probabilities, labels)
        losses = np.einsum("ik,ik->i", residuals, residuals)
        mean = np.einsum("ik,ik->i", probabilities, residuals)
        gradients = 2 * probabilities * (residuals - mean[:, np.newaxis])
        return losses, probabilities, gradients

    def curvature_product(
        self, probabilities: FloatArray, labels: Labels, direction: FloatArray
    ) -> FloatArray:
        residuals = self._residuals(probabilities, labels)
        centred = residuals - np.einsum("ik,ik->i", probabilities, residuals)[:, np.newaxis]
        moved = CrossEntropy().curvature_product(probabilities, labels, direction)  # change of p
        change = moved - np.einsum("ik,ik->i", probabilities, moved)[:, np.newaxis]
        change -= np.einsum("ik,ik->i", moved, residuals)[:, np.newaxis]
        product: FloatArray = 2 * (moved * centred + probabilities * change)
        return product

    def values(self, scores: FloatArray, labels: Labels) -> FloatArray:
        softmax_in_place(scores)
        residuals = self._residuals(scores, labels)
        losses: FloatArray = np.einsum("ik,ik->i", residuals, residuals)
        return losses

    @staticmethod
    def _residuals(probabilities: FloatArray, labels: Labels) -> FloatArray:
        residuals = probabilities.copy()
        residuals[np.arange(len(labels)), labels] -= 1
        return residuals
