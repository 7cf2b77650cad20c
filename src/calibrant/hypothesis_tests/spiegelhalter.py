"""Spiegelhalter's test: the Brier score compared with its expectation under the predictions."""

from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
from scipy.special import ndtr

from calibrant.errors import ParameterError
from calibrant.hypothesis_tests.result import TestResult, small_sample_caution
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.events import float64_probabilities
from calibrant.numerics.row_blocks import BlockSums

__all__ = ["SpiegelhalterSums", "spiegelhalter_test"]

Alternative = Literal["two-sided", "greater", "less"]

# A probability this close to the mean of its row differs from it only by rounding.
ROUNDING = 8 * float(np.finfo(np.float64).eps)


def spiegelhalter_test(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    alternative: Alternative = "two-sided",
) -> TestResult:
    r"""Spiegelhalter's z-test: Brier score against its expectation under the predictions, in closed form.

    If labels are drawn from the predicted probabilities, the Brier score :math:`B` has a known mean and
    standard deviation, and :math:`z = (B - \mathrm{E} B) / \mathrm{sd}(B)` is approximately standard normal. For
    two classes with :math:`y_i \in \{0, 1\}` and :math:`p_i` of the second :cite:`spiegelhalter1986`, and for
    any number of classes with :math:`s_i = \sum_k p_{ik}^2`,

    .. math::

        z = \frac{\sum_i w_i (y_i - p_i)(1 - 2 p_i)}{\sqrt{\sum_i w_i^2 (1 - 2 p_i)^2 p_i (1 - p_i)}},
        \qquad
        z = \frac{\sum_i w_i (s_i - p_{i y_i})}{\sqrt{\sum_i w_i^2 \sum_k p_{ik} (p_{ik} - s_i)^2}} ;

    which agree for K = 2.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two. Rows are divided by their sums.
    sample_weight : array of shape (n,), optional
        Importance of each row; only ratios matter. Rows are independent observations: a row of weight two
        is one observation, not two.
    alternative : {"two-sided", "greater", "less"}, default="two-sided"
        ``"greater"``: only a score worse than expected is evidence against calibration, which indicates
        overconfidence. ``"less"``: only a better one, which indicates underconfidence.

    Returns
    -------
    TestResult
        The statistic is z: positive if predictions are overconfident, negative if underconfident.

    Notes
    -----
    Detects overall over- and underconfidence, not errors that cancel in the sum. A row with equal probabilities for all
    classes has the same score for any outcome, and hence contributes nothing. If the score has no
    variance, z is 0 with p = 1; if in addition a true class has probability zero, z is infinite with p = 0.
    The level is approximate; :doc:`/promises` has simulations. The normal approximation needs a hundred or more rows that are
    neither certain nor uniform. Below ten rows the result has a ``caution``;
    :func:`~calibrant.hypothesis_tests.consistency_test` with :func:`~calibrant.metrics.brier_score` is the same test by
    simulation.

    Costs O(nK) in blocks of rows.

    Examples
    --------
    Nine of ten correct at a confidence of 60 %: :math:`z = (6 - 9) \cdot 0.2 / \sqrt{10 \cdot 0.04 \cdot 0.24}`.

    >>> result = spiegelhalter_test([0] * 9 + [1], [[0.6, 0.4]] * 10)
    >>> round(result.statistic, 4), round(result.p_value, 4)
    (-1.9365, 0.0528)
    """
    if alternative not in get_args(Alternative):
        raise ParameterError(f"alternative must be 'two-sided', 'greater' or 'less', not {alternative!r}.")
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    return SpiegelhalterSums.of(data).result(data.n_rows, alternative)


@dataclass(frozen=True)
class SpiegelhalterSums:
    """Difference of the Brier score from its expectation (both halved), and its variance; those of two sets of rows add up."""

    excess: float
    variance: float

    @classmethod
    def of(cls, data: LabelledPredictions) -> Self:
        """Add up all rows, in blocks."""
        with BlockSums.over(data.n_rows, data.n_classes) as total:
            return total(lambda rows: cls._of_block(data, rows))

    @classmethod
    def _of_block(cls, data: LabelledPredictions, rows: slice) -> Self:
        probabilities = float64_probabilities(data.predictions, rows)
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        squares = np.einsum("ik,ik->i", probabilities, probabilities)
        deviations = probabilities - squares[:, np.newaxis]
        # Otherwise rows of thirds would have a z that is rounding divided by rounding.
        deviations[np.abs(deviations) < ROUNDING] = 0.0
        variances = np.einsum("ik,ik,ik->i", probabilities, deviations, deviations)
        excesses = -deviations[np.arange(len(deviations)), data.labels[rows]]
        if data.weights is None:
            return cls(float(excesses.sum()), float(variances.sum()))
        weights = data.weights[rows]
        return cls(float(weights @ excesses), float((weights * weights) @ variances))

    def __add__(self, other: Self) -> Self:
        return type(self)(self.excess + other.excess, self.variance + other.variance)

    def result(self, n_rows: int, alternative: Alternative = "two-sided") -> TestResult:
        """Return the test of this many rows."""
        z = self._standardised()
        p_value = {
            "two-sided": 2 * float(ndtr(-abs(z))),
            "greater": float(ndtr(-z)),
            "less": float(ndtr(z)),
        }[alternative]
        return TestResult(
            statistic=z,
            p_value=p_value,
            test=f"Spiegelhalter's test ({alternative})",
            null_hypothesis="every label was drawn from the predicted probabilities of its row",
            n_rows=n_rows,
            caution=small_sample_caution(n_rows) if self.variance > 0 else None,
        )

    def _standardised(self) -> float:
        if self.variance > 0:
            return self.excess / float(np.sqrt(self.variance))
        return 0.0 if self.excess == 0 else float(np.copysign(np.inf, self.excess))
