"""Binned calibration errors of class probabilities: classwise ECE, ECE of one class, thresholded adaptive ECE."""

from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np

from calibrant.arrays import AnyArray, Float64Array, IntArray
from calibrant.binning import BinningScheme, Bins, EqualMass
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.binned_metric import (
    BinnedMetric,
    Norm,
    NumberOfBins,
    Reduction,
    Strategy,
    check_fixed,
    check_norm,
    chosen_scheme,
)
from calibrant.metrics.declaration import Evaluator, MetricTraits, metric
from calibrant.metrics.events import EveryClass, SingleClass, columns
from calibrant.options import check_whole, is_number
from calibrant.predictions import Predictions

__all__ = ["class_ece", "classwise_ece", "thresholded_adaptive_ece"]


def _classwise_ece(
    n_bins: NumberOfBins, strategy: Strategy, norm: Norm, binning: BinningScheme | None, reduction: Reduction
) -> BinnedMetric:
    return BinnedMetric(EveryClass(), chosen_scheme(n_bins, strategy, binning), norm, reduction)


@overload
def classwise_ece(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    n_bins: NumberOfBins = 15,
    strategy: Strategy = "uniform",
    norm: Norm = 1,
    binning: BinningScheme | None = None,
    reduction: Literal["mean", "sum"] = "mean",
) -> float: ...


@overload
def classwise_ece(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    n_bins: NumberOfBins = 15,
    strategy: Strategy = "uniform",
    norm: Norm = 1,
    binning: BinningScheme | None = None,
    reduction: Literal["none"],
) -> Float64Array: ...


@metric(MetricTraits(positive_by_noise=True), parts=_classwise_ece)
def classwise_ece(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    n_bins: NumberOfBins = 15,
    strategy: Strategy = "uniform",
    norm: Norm = 1,
    binning: BinningScheme | None = None,
    reduction: Reduction = "mean",
) -> float | Float64Array:
    r"""Classwise ECE: mean over classes of the binned gap between predicted probability and class frequency.

    For class k, with rows in bins by :math:`p_{ik}`, the error is

    .. math::

        E_k = \Bigl( \sum_b \frac{W_b}{W} \, | \bar y_b - \bar p_b |^p \Bigr)^{1/p},

    where :math:`\bar p_b` and :math:`\bar y_b` are the weighted means of :math:`p_{ik}` and of
    :math:`[y_i = k]` in bin b, and :math:`W_b` is its weight. The result is the mean over classes,
    :math:`\frac{1}{K} \sum_k E_k` :cite:`kull2019`.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns. Classes without rows count as well.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two, of which both columns count.
    sample_weight : array of shape (n,), optional
        Weights of the rows.
    n_bins : int or "cube_root", default=15
        Number of bins from 0 to 1; ``"cube_root"`` is the cube root of the number of rows.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of equal weight within each class (equal scores share a bin).
    norm : 1, 2, other number of at least 1, or "max", default=1
        p, for each class separately; ``"max"`` is the largest gap of a non-empty bin.
    binning : scheme, optional
        Replaces ``n_bins`` and ``strategy``: :class:`~calibrant.binning.EqualWidth`,
        :class:`~calibrant.binning.EqualMass`, :class:`~calibrant.binning.FixedEdges`, or a function of
        scores and weights that returns one of these. Called once for each class.
    reduction : {"mean", "sum", "none"}, default="mean"
        Mean or sum of the errors of the classes, or one error per class.

    Returns
    -------
    float, or ndarray of shape (K,) for ``reduction="none"``
        From 0 to 1 for each class; lower is better.

    Notes
    -----
    The tables of :cite:`kull2019` print the *sum* over classes, with fourteen bins [a, b) of equal width and a
    fifteenth for probabilities of exactly one: ``reduction="sum"`` and
    ``binning=FixedEdges((*np.linspace(0, 1, 15), 1.0))``. With many classes nearly all probabilities of a
    class fall into the first bin of equal width; ``strategy="quantile"`` resolves them.

    Costs O(nK), plus K sorts of n numbers for quantiles; memory beyond the probabilities O(n).

    Examples
    --------
    >>> p = [[0.8, 0.1, 0.1]] * 10
    >>> classwise_ece([0] * 9 + [1], p, reduction="none").round(6)
    array([0.1, 0. , 0.1])
    >>> round(classwise_ece([0] * 9 + [1], p), 6)
    0.066667
    """
    parts = _classwise_ece(n_bins, strategy, norm, binning, reduction)
    return parts.result(LabelledPredictions.parse(y_proba, y_true, sample_weight))


@dataclass(frozen=True)
class _ClassError:
    """The binned error of one class, whose column is looked up once the classes are known."""

    label: Any
    scheme: BinningScheme
    norm: Norm

    def __post_init__(self) -> None:
        check_norm(self.norm)

    def of(self, data: LabelledPredictions) -> Bins:
        return self.in_classes(data.classes).of(data)

    def of_parts(self, data: LabelledPredictions, part: IntArray, n_parts: int) -> tuple[Float64Array, ...]:
        return self.in_classes(data.classes).of_parts(data, part, n_parts)

    def from_arrays(self, *arrays: Float64Array) -> Bins:
        return BinnedMetric(SingleClass(0), self.scheme, self.norm).from_arrays(*arrays)

    def check_batches(self) -> None:
        check_fixed(self.scheme)

    def value(self, bins: Bins) -> float:
        # The sums are already those of one class, so the column number is irrelevant here.
        return BinnedMetric(SingleClass(0), self.scheme, self.norm).value(bins)

    def prepared(self, predictions: Predictions) -> Evaluator:
        classes = predictions.classes
        named = np.arange(predictions.n_classes) if classes is None else classes
        return self.in_classes(named).prepared(predictions)

    def in_classes(self, classes: AnyArray) -> BinnedMetric:
        column = np.flatnonzero(classes == self.label)
        if len(column) != 1:
            raise ParameterError(f"label must be one of the classes {classes.tolist()}, not {self.label!r}.")
        return BinnedMetric(SingleClass(int(column[0])), self.scheme, self.norm)


def _class_ece(
    label: Any, n_bins: NumberOfBins, strategy: Strategy, norm: Norm, binning: BinningScheme | None
) -> _ClassError:
    return _ClassError(label, chosen_scheme(n_bins, strategy, binning), norm)


@metric(MetricTraits(positive_by_noise=True), parts=_class_ece)
def class_ece(
    y_true: Any,
    y_proba: Any,
    *,
    label: Any,
    sample_weight: Any = None,
    n_bins: NumberOfBins = 15,
    strategy: Strategy = "uniform",
    norm: Norm = 1,
    binning: BinningScheme | None = None,
) -> float:
    r"""ECE of one class: binned gap between its predicted probability and its frequency.

    .. math:: E_k = \Bigl( \sum_b \frac{W_b}{W} \, | \bar y_b - \bar p_b |^p \Bigr)^{1/p}

    with rows in bins by :math:`p_{ik}`, as in :func:`classwise_ece`, for one class k :cite:`kull2019`. With two
    classes and the positive one as ``label`` this is the usual binary ECE.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two.
    label : label
        The class, as it is called in ``y_true``.
    sample_weight : array of shape (n,), optional
        Weights of the rows.
    n_bins, strategy, norm, binning
        As for :func:`classwise_ece`.

    Returns
    -------
    float
        From 0 to 1; lower is better. Costs O(n), plus a sort of n numbers for quantiles.

    Examples
    --------
    >>> p = [[0.8, 0.1, 0.1]] * 10
    >>> round(class_ece(["ant"] * 8 + ["bee", "cat"], p, label="ant"), 6)
    0.0
    >>> round(class_ece([0] * 9 + [1], p, label=2), 6)
    0.1
    """
    parts = _class_ece(label, n_bins, strategy, norm, binning)
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    return parts.in_classes(data.classes)(data)


@metric(MetricTraits(positive_by_noise=True))
def thresholded_adaptive_ece(
    y_true: Any, y_proba: Any, *, sample_weight: Any = None, n_bins: int = 15, threshold: float = 0.01
) -> float:
    r"""Thresholded adaptive calibration error (TACE): mean gap in equal-mass bins of each class, above a threshold.

    .. math:: \frac{1}{K} \sum_k \frac{1}{W_k} \sum_b W_{kb} \, | \bar y_{kb} - \bar p_{kb} |,

    where only rows with :math:`p_{ik} > \epsilon` count for class k: :math:`W_k` is their weight and :math:`W_{kb}` that in bin
    b of at most B with equal weight :cite:`nixon2019`.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two.
    sample_weight : array of shape (n,), optional
        Weights of the rows.
    n_bins : int, default=15
        Number of bins per class, B.
    threshold : float, default=0.01
        Probabilities up to this are left out, :math:`\epsilon`. With 0 only exact zeros are, and the error is the adaptive
        calibration error (ACE).

    Returns
    -------
    float
        From 0 to 1; lower is better. A class without a probability above the threshold contributes 0.

    Notes
    -----
    With many classes most probabilities are close to zero, where every gap is small; the threshold keeps them from hiding the
    others. The value depends strongly on it. Equal probabilities share a bin, so with ties there are fewer bins, which are
    weighted by their weight. Costs O(nK + n' log n') for n' probabilities above the threshold.

    Examples
    --------
    The third class is never above the threshold; both others have a gap of 0.1:

    >>> p = [[0.795, 0.2, 0.005]] * 10
    >>> round(thresholded_adaptive_ece([0] * 9 + [1], p), 6)      # (0.105 + 0.1 + 0) / 3
    0.068333
    """
    check_whole("n_bins", n_bins)
    if not is_number(threshold) or not 0 <= threshold < 1:
        raise ParameterError(f"threshold must be at least 0 and below 1, such as 0.01, not {threshold!r}.")
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    scheme = EqualMass(n_bins)
    errors = np.zeros(data.n_classes)
    for k, column in enumerate(columns(data.predictions)):
        rows = np.flatnonzero(column > threshold)
        if len(rows) == 0:
            continue
        scores = column[rows]
        weights = None if data.weights is None else data.weights[rows]
        bins = scheme(scores, weights).bins(scores, data.labels[rows] == k, weights)
        errors[k] = bins.share @ np.abs(bins.gap)
    return float(errors.mean())
