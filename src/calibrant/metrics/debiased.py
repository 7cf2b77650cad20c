"""Debiased ECE: a binned calibration error with its noise bias subtracted."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from calibrant.arrays import Float64Array, FloatArray, IntArray
from calibrant.binning import BinningScheme, Partition
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.binned_metric import (
    NumberOfBins,
    Strategy,
    check_fixed,
    chosen_partition,
    chosen_scheme,
)
from calibrant.metrics.declaration import Evaluator, MetricTraits, metric
from calibrant.metrics.events import Kind, check_kind, events
from calibrant.options import check_choice
from calibrant.predictions import Predictions

__all__ = ["debiased_ece"]


Correction = Literal["variance", "pairs", "tcal"]

# With an effective sample size below one plus this, the variance in a bin is unknown: it has one row, or the weights of
# the others are lost in rounding.
EFFECTIVE_ROWS_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class BinMoments:
    """Sums over the rows of each bin, of shape (B,) or (E, B) for several events; sums over disjoint sets of rows add up."""

    weight: Float64Array
    square_weight: Float64Array
    residual: Float64Array  # sum of w r, with r the outcome minus the score
    square_residual: Float64Array
    outcome: Float64Array  # sum of w o, with o the outcome

    @classmethod
    def of(
        cls,
        partition: Partition,
        scores: FloatArray,
        outcomes: NDArray[np.bool_],
        weights: Float64Array | None,
    ) -> Self:
        """Add up the rows of one event, in O(n)."""
        return cls(*(each[0] for each in cls.of_parts(partition, scores, outcomes, weights)))

    @classmethod
    def of_parts(
        cls,
        partition: Partition,
        scores: NDArray[np.floating],
        outcomes: NDArray[np.bool_],
        weights: Float64Array | None,
        part: IntArray | None = None,
        n_parts: int = 1,
    ) -> tuple[Float64Array, ...]:
        """Add up the rows of one event for every part, (n_parts, B) each; ``part`` is that of every row."""
        index, n_bins = partition.index(scores), len(partition.bin_edges()) - 1
        if part is not None:
            index = index + n_bins * part

        def sums(values: Float64Array) -> Float64Array:
            found = np.bincount(index, values, n_parts * n_bins)
            return found.reshape(n_parts, n_bins).astype(np.float64, copy=False)

        residuals: Float64Array = np.subtract(outcomes, scores, dtype=np.float64)
        if weights is None:
            weights = np.ones(len(index))
        return (
            sums(weights),
            sums(weights * weights),
            sums(weights * residuals),
            sums(np.square(weights * residuals)),
            sums(weights * outcomes),
        )

    @classmethod
    def stacked(cls, parts: Sequence[Self]) -> Self:
        """Stack the sums of several events with the same number of bins."""
        return cls(*(np.stack([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def __add__(self, other: Self) -> Self:
        return type(self)(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    def square_error(self, correction: Correction) -> Float64Array:
        """Return the mean squared gap minus its noise bias, for each event."""
        all_pairs = self.weight * self.weight
        pairs = all_pairs - self.square_weight  # weight of all pairs of two different rows
        if correction == "variance":
            # The effective sample size minus one is pairs / self.square_weight.
            gap = _ratio(self.residual, self.weight)
            squares = gap * gap - _ratio(self._outcome_spread * self.square_weight, pairs)
        else:
            divisor = pairs if correction == "pairs" else all_pairs
            squares = _ratio(self.residual * self.residual - self.square_residual, divisor)
        return self._mean(squares)

    def absolute_error(self) -> Float64Array:
        """Return twice the mean absolute gap minus its expectation under redrawn noise, for each event."""
        gap = _ratio(np.abs(self.residual), self.weight)
        deviation = _ratio(np.sqrt(self._outcome_spread * self.square_weight), self.weight)
        # A bin without variance keeps its gap.
        ratio = np.divide(gap, deviation, out=np.full_like(gap, np.inf), where=deviation > 0)
        folded = np.sqrt(2 / np.pi) * deviation * np.exp(-ratio * ratio / 2) + gap * erf(ratio / np.sqrt(2))
        return self._mean(2 * gap - folded)

    @property
    def _outcome_spread(self) -> Float64Array:
        """Variance of one outcome if all rows of a bin have the same probability."""
        mean = _ratio(self.outcome, self.weight)
        return np.maximum(mean * (1 - mean), 0.0)

    def _mean(self, values: Float64Array) -> Float64Array:
        """Return the weighted mean over bins; bins with one row, whose variance is unknown, count as zero."""
        several = self.weight * self.weight > (1 + EFFECTIVE_ROWS_TOLERANCE) * self.square_weight
        total = np.where(several, self.weight * values, 0.0).sum(axis=-1)
        means: Float64Array = total / self.weight.sum(axis=-1)
        return means


def _ratio(numerator: Float64Array, denominator: Float64Array) -> Float64Array:
    """Return the quotient, or zero where the denominator is zero."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


@dataclass(frozen=True)
class _DebiasedError:
    """A debiased error with validated options."""

    kind: Kind
    scheme: BinningScheme
    norm: Literal[1, 2]
    correction: Correction
    signed: bool

    def __call__(self, data: LabelledPredictions) -> float:
        # Relative to the largest, so that squared weights neither underflow nor overflow.
        weights = None if data.weights is None else data.weights / data.weights.max()
        errors = [
            self._errors(BinMoments.of(chosen_partition(self.scheme, scores, weights), scores, hits, weights))
            for scores, hits in events(data, self.kind)
        ]
        return float(np.mean(errors))

    def of(self, data: LabelledPredictions) -> BinMoments:
        """Return the sums of these rows for every event, (E, B)."""
        self.check_batches()
        assert isinstance(self.scheme, Partition)
        partition = self.scheme
        return BinMoments.stacked(
            [BinMoments.of(partition, scores, hits, data.weights) for scores, hits in events(data, self.kind)]
        )

    def of_parts(self, data: LabelledPredictions, part: IntArray, n_parts: int) -> tuple[Float64Array, ...]:
        """Return the sums of every part for every event, (n_parts, E, B) each."""
        self.check_batches()
        assert isinstance(self.scheme, Partition)
        partition = self.scheme
        found = [
            BinMoments.of_parts(partition, scores, hits, data.weights, part, n_parts)
            for scores, hits in events(data, self.kind)
        ]
        return tuple(np.stack(each, axis=1) for each in zip(*found, strict=True))

    def from_arrays(self, *arrays: Float64Array) -> BinMoments:
        return BinMoments(*arrays)

    def check_batches(self) -> None:
        check_fixed(self.scheme)

    def value(self, sums: BinMoments) -> float:
        return float(np.mean(self._errors(sums)))

    def prepared(self, predictions: Predictions) -> Evaluator:
        classes = np.arange(predictions.n_classes)
        _ = predictions.predicted  # computed once; rows taken below keep it

        def evaluate(labels: IntArray, weights: Float64Array | None) -> float:
            data = LabelledPredictions(predictions, labels, classes, weights)
            return self(data if weights is None or weights.all() else data.take(weights > 0))

        return evaluate

    def _errors(self, sums: BinMoments) -> Float64Array:
        estimate = sums.absolute_error() if self.norm == 1 else sums.square_error(self.correction)
        return estimate if self.signed else np.maximum(estimate, 0.0) ** (1 / self.norm)


def _debiased_ece(
    kind: Kind,
    n_bins: NumberOfBins,
    strategy: Strategy,
    norm: Literal[1, 2],
    binning: BinningScheme | None,
    correction: Correction,
    signed: bool,
) -> _DebiasedError:
    if norm not in (1, 2):
        raise ParameterError(f"norm must be 1 or 2, for which the bias is known, not {norm!r}.")
    check_choice("correction", correction, get_args(Correction))
    if norm == 1 and correction != "variance":
        raise ParameterError(f"correction={correction!r} is for norm=2; leave it out for norm=1.")
    check_kind(kind)
    return _DebiasedError(kind, chosen_scheme(n_bins, strategy, binning), norm, correction, signed)


@metric(MetricTraits(weights_are_counts=False), parts=_debiased_ece)
def debiased_ece(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    kind: Kind = "confidence",
    n_bins: NumberOfBins = 15,
    strategy: Strategy = "quantile",
    norm: Literal[1, 2] = 2,
    binning: BinningScheme | None = None,
    correction: Correction = "variance",
    signed: bool = False,
) -> float:
    r"""Debiased ECE: binned calibration error minus an estimate of its noise bias.

    With score s and outcome o of an event (for example the confidence, and whether the prediction is correct),
    :math:`n_b` rows in bin b and their means :math:`\bar s_b`, :math:`\bar o_b`, the default is the root of

    .. math::

        \sum_b \frac{n_b}{n} \Bigl[ (\bar o_b - \bar s_b)^2
        - \frac{\bar o_b (1 - \bar o_b)}{n_b - 1} \Bigr],

    or zero if this is negative :cite:`kumar2019`. The squared gap of a bin contains the variance of its mean outcome;
    the second term is an unbiased estimate of that variance.

    Parameters
    ----------
    sample_weight : array of shape (n,), optional
        Importance of each row. Rows are independent observations, so a weight of two is *not* a duplicated row;
        see the notes.
    n_bins : int or "cube_root", default=15
        Number of bins; ``"cube_root"`` is the cube root of the number of rows, see :class:`~calibrant.binning.CubeRoot`.
    strategy : {"quantile", "uniform"}, default="quantile"
        Bins of equal weight, or of equal width from 0 to 1.
    norm : 1 or 2, default=2
        Root mean square, or mean absolute gap; see the notes for the latter.
    binning : scheme, optional
        Replaces ``n_bins`` and ``strategy``, as in :func:`~calibrant.metrics.confidence_ece`.
    correction : {"variance", "pairs", "tcal"}, default="variance"
        What is subtracted for ``norm=2``: the variance of the mean outcome as above; with ``"pairs"`` the products
        of a residual :math:`r_i = o_i - s_i` with itself,
        :math:`\sum_b \frac{n_b}{n} \frac{1}{n_b (n_b - 1)} [(\sum r_i)^2 - \sum r_i^2]`, a U-statistic; with
        ``"tcal"`` the same divided by :math:`n_b^2`, as in the test of :cite:`lee2023`.
    signed : bool, default=False
        Return the estimate before clipping and before taking the root. It is negative where gaps are smaller
        than expected from noise. Only the signed estimate can be averaged or compared without bias.

    Returns
    -------
    float
        From 0 to 1, lower is better; from -1 to 1 if ``signed``.

    Notes
    -----
    **Bias.** The default treats the scores of a bin as equal. If they vary, the true probabilities vary too, and
    slightly too much is subtracted: the variance of the true probabilities within the bin divided by
    :math:`n_b - 1`, which is negligible for fifteen bins. ``"pairs"`` has no such term: given the scores, its
    expectation for calibrated predictions is exactly zero, for any bins that depend on the scores alone. Clipping
    and taking the root make both estimates positive on average again.

    **Norm 1** is :math:`2 E - E'` with the plug-in error :math:`E = \sum_b \frac{n_b}{n} |\bar o_b - \bar s_b|` and
    the mean :math:`E'` of the errors after redrawing every :math:`\bar o_b` from a normal distribution with mean
    :math:`\bar o_b` and variance :math:`\sigma_b^2 = \bar o_b (1 - \bar o_b) / n_b`. The authors' program draws a
    thousand times. Here the mean is in closed form, the limit of infinitely many draws: for a gap d,
    :math:`\sqrt{2 / \pi} \, \sigma e^{-d^2 / 2 \sigma^2} + d \, \mathrm{erf}(d / \sigma \sqrt 2)`. This reduces the
    bias but does not remove it.

    **Bins with one row** have no variance estimate and contribute zero to the sum, as in the authors' program for
    norm 2. For norm 1 that program rejects them; here they contribute zero too.

    **Weights** w replace :math:`n_b` in the corrections by the effective sample size :math:`W_b^2 / \sum w_i^2` and
    the fraction of rows by :math:`W_b / W`; sums over pairs weight each pair by :math:`w_i w_j`. The statements on bias
    hold exactly for ``"pairs"`` and approximately for the others. Only ratios of weights matter.

    **Classwise** is the mean over classes, as everywhere in this library. The marginal calibration error of
    :cite:`kumar2019` is the root mean square over classes: ``max(0, debiased_ece(..., kind="classwise",
    signed=True)) ** 0.5``, except that the authors' program sets the negative estimate of a class to zero before
    averaging.

    Costs O(n) for each event, plus a sort for quantiles; memory O(n).

    Examples
    --------
    Nine of ten correct at a confidence of 80 %: a gap of 0.1, but no evidence of an error, since the squared gap
    equals the estimated variance.

    >>> y, p = [0] * 9 + [1], [[0.8, 0.2]] * 10
    >>> round(debiased_ece(y, p, norm=2), 6)
    0.0
    >>> round(debiased_ece(y * 10, p * 10, norm=2), 6)      # a hundred rows: the square is 0.01 - 0.09 / 99
    0.095346
    >>> round(debiased_ece(y * 10, p * 10, norm=2, signed=True), 6)
    0.009091
    """
    parts = _debiased_ece(kind, n_bins, strategy, norm, binning, correction, signed)
    return parts(LabelledPredictions.parse(y_proba, y_true, sample_weight))
