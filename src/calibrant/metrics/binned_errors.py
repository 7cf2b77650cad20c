"""Expected calibration errors in bins: of the predicted class, of every class, per predicted class and per rank."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypedDict, Unpack, overload

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
    binned_error,
    check_fixed,
    check_norm,
    chosen_scheme,
)
from calibrant.metrics.declaration import Evaluator, MetricTraits, metric
from calibrant.metrics.events import EveryClass, PredictedClass, SingleClass, TopRanks, columns
from calibrant.options import check_whole, is_number
from calibrant.predictions import Predictions

__all__ = [
    "class_ece",
    "classwise_ece",
    "confidence_ece",
    "maximum_calibration_error",
    "thresholded_adaptive_ece",
    "top_k_confidence_ece",
    "top_k_label_ece",
    "top_label_ece",
]

PLUG_IN = MetricTraits(positive_by_noise=True)


class BinOptions(TypedDict, total=False):
    """Options of all binned errors."""

    n_bins: NumberOfBins
    strategy: Strategy
    norm: Norm
    binning: BinningScheme | None


class OptionsOfClasses(BinOptions, total=False):
    """Options of errors of every class, except the one that decides the type of the result."""

    sample_weight: Any


class OptionsOfRanks(OptionsOfClasses, total=False):
    """The same for errors of every rank."""

    k: int


@metric(PLUG_IN, parts=partial(binned_error, PredictedClass()))
def confidence_ece(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    n_bins: NumberOfBins = 15,
    strategy: Strategy = "uniform",
    norm: Norm = 1,
    binning: BinningScheme | None = None,
) -> float:
    r"""ECE of the predicted class (expected calibration error): binned gap between confidence and accuracy.

    With rows in bins :math:`B_b` by their confidence :math:`c_i = \max_k p_{ik}`, weight
    :math:`W_b = \sum_{i \in B_b} w_i` and :math:`W = \sum_b W_b`,

    .. math::

        \Bigl( \sum_b \frac{W_b}{W} \, | \mathrm{acc}_b - \mathrm{conf}_b |^p \Bigr)^{1/p},

    where :math:`\mathrm{acc}_b` and :math:`\mathrm{conf}_b` are the weighted means of
    :math:`[\arg\max_k p_{ik} = y_i]` and of :math:`c_i` :cite:`naeini2015,guo2017`.

    Parameters
    ----------
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two. With two classes this is still
        about the *predicted* class, whose confidence is at least one half.
    norm : 1, 2, other number of at least 1, or "max", default=1
        p: 1 is the expected calibration error, 2 its root-mean-square form, ``"max"`` the maximum
        calibration error over non-empty bins.

    Returns
    -------
    float
        From 0 to 1; lower is better.

    Notes
    -----
    Bins are half-open, [a, b), with a closed last one. :cite:`kull2019` and :cite:`guo2017` close them on the
    right: ``binning=EqualWidth(15, closed="right")``. The estimate depends on the bins, and with norm 1 it is
    biased upwards when bins hold few rows. Costs O(nK), plus a sort of n numbers for quantiles.

    Examples
    --------
    Nine of ten predictions are correct at a confidence of 80 %:

    >>> round(confidence_ece([0] * 9 + [1], [[0.8, 0.2]] * 10), 6)
    0.1
    """
    error = binned_error(PredictedClass(), n_bins, strategy, norm, binning)
    return error(LabelledPredictions.parse(y_proba, y_true, sample_weight))


@metric(PLUG_IN, parts=partial(binned_error, PredictedClass(), norm="max"))
def maximum_calibration_error(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    n_bins: NumberOfBins = 15,
    strategy: Strategy = "uniform",
    binning: BinningScheme | None = None,
) -> float:
    r"""Maximum calibration error (MCE): largest gap between confidence and accuracy over all bins.

    .. math:: \max_{b:\, W_b > 0} | \mathrm{acc}_b - \mathrm{conf}_b |

    with the bins of :func:`confidence_ece`, of which this is the case ``norm="max"`` :cite:`naeini2015`.

    Returns
    -------
    float
        From 0 to 1; lower is better.

    Notes
    -----
    A bin with a single row can decide the value, so with equal-width bins this says little about a classifier.
    ``strategy="quantile"`` gives all bins the same weight. For the tables of :cite:`kull2019`, use
    ``binning=EqualWidth(15, closed="right")``. Costs O(nK), plus a sort of n numbers for quantiles.

    Examples
    --------
    Nine of ten correct at a confidence of 80 %, and one row that is wrong at 60 %:

    >>> p = [[0.8, 0.2]] * 10 + [[0.4, 0.6]]
    >>> round(maximum_calibration_error([0] * 9 + [1, 0], p), 6)
    0.6
    """
    error = binned_error(PredictedClass(), n_bins, strategy, "max", binning)
    return error(LabelledPredictions.parse(y_proba, y_true, sample_weight))


@overload
def classwise_ece(
    y_true: Any,
    y_proba: Any,
    *,
    reduction: Literal["mean", "sum"] = "mean",
    **options: Unpack[OptionsOfClasses],
) -> float: ...


@overload
def classwise_ece(
    y_true: Any, y_proba: Any, *, reduction: Literal["none"], **options: Unpack[OptionsOfClasses]
) -> Float64Array: ...


@metric(PLUG_IN, parts=partial(binned_error, EveryClass()))
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
    error = binned_error(EveryClass(), n_bins, strategy, norm, binning, reduction)
    return error.result(LabelledPredictions.parse(y_proba, y_true, sample_weight))


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


@metric(PLUG_IN, parts=_class_ece)
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
    label : label
        The class, as it is called in ``y_true``.

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


@metric(PLUG_IN)
def thresholded_adaptive_ece(
    y_true: Any, y_proba: Any, *, sample_weight: Any = None, n_bins: int = 15, threshold: float = 0.01
) -> float:
    r"""Thresholded adaptive calibration error (TACE): mean gap in equal-mass bins of each class, above a threshold.

    .. math:: \frac{1}{K} \sum_k \frac{1}{W_k} \sum_b W_{kb} \, | \bar y_{kb} - \bar p_{kb} |,

    where only rows with :math:`p_{ik} > \epsilon` count for class k: :math:`W_k` is their weight and :math:`W_{kb}` that in bin
    b of at most B with equal weight :cite:`nixon2019`.

    Parameters
    ----------
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


@metric(PLUG_IN, parts=partial(binned_error, PredictedClass(binned_by_class=True)))
def top_label_ece(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    n_bins: NumberOfBins = 15,
    strategy: Strategy = "uniform",
    norm: Norm = 1,
    binning: BinningScheme | None = None,
) -> float:
    r"""Top-label ECE: binned gap between confidence and accuracy within each predicted class.

    .. math::

        \Bigl( \sum_{k, b} \frac{W_{kb}}{W} \, | \mathrm{acc}_{kb} - \mathrm{conf}_{kb} |^p \Bigr)^{1/p}

    with rows in cells by their predicted class k and their confidence. :func:`confidence_ece` assesses
    :math:`P(y = \hat y \mid c) = c`; top-label ECE also conditions on :math:`\hat y`. A classifier that is
    overconfident for cats and underconfident for dogs can be calibrated on average, but not here
    :cite:`gupta2022,valk2022`.

    Parameters
    ----------
    n_bins : int or "cube_root", default=15
        Number of bins for each predicted class.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of equal weight within each predicted class.
    norm : 1, 2, other number of at least 1, or "max", default=1
        p; ``"max"`` is the largest gap of a non-empty cell.
    binning : scheme, optional
        Replaces ``n_bins`` and ``strategy``; see :func:`confidence_ece`. A scheme that chooses bins from the
        scores is called once per predicted class.

    Returns
    -------
    float
        From 0 to 1, never below :func:`confidence_ece` with the same fixed bins; lower is better.

    Notes
    -----
    With K times as many cells of K times fewer rows, the estimate is noisier and more biased than that of
    :func:`confidence_ece`. Some programs call confidence calibration "top-label", which is a different property.
    Costs O(nK), plus sorts for quantiles.

    Examples
    --------
    Overconfident for the first class, underconfident for the second:

    >>> from calibrant.metrics import confidence_ece
    >>> p = [[0.8, 0.2]] * 10 + [[0.2, 0.8]] * 10
    >>> y = [0] * 7 + [1] * 3 + [1] * 9 + [0]
    >>> round(confidence_ece(y, p), 6), round(top_label_ece(y, p), 6)
    (0.0, 0.1)
    """
    error = binned_error(PredictedClass(binned_by_class=True), n_bins, strategy, norm, binning)
    return error(LabelledPredictions.parse(y_proba, y_true, sample_weight))


def _top_k(binned_by_class: bool, k: int, reduction: Reduction, **bins: Unpack[BinOptions]) -> BinnedMetric:
    check_whole("k", k)
    return binned_error(TopRanks(k, binned_by_class), reduction=reduction, **bins)


@overload
def top_k_confidence_ece(
    y_true: Any,
    y_proba: Any,
    *,
    reduction: Literal["mean", "sum"] = "mean",
    **options: Unpack[OptionsOfRanks],
) -> float: ...


@overload
def top_k_confidence_ece(
    y_true: Any, y_proba: Any, *, reduction: Literal["none"], **options: Unpack[OptionsOfRanks]
) -> Float64Array: ...


@metric(PLUG_IN, parts=partial(_top_k, False))
def top_k_confidence_ece(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    k: int = 5,
    n_bins: NumberOfBins = 15,
    strategy: Strategy = "uniform",
    norm: Norm = 1,
    binning: BinningScheme | None = None,
    reduction: Reduction = "mean",
) -> float | Float64Array:
    r"""Top-k confidence ECE: binned gap between the probability of the class at each rank and its frequency.

    For rank j, with rows in bins by their j-th largest probability :math:`p_{i(j)}`,

    .. math:: E_j = \Bigl( \sum_b \frac{W_b}{W} \, | \bar o_b - \bar p_b |^p \Bigr)^{1/p},

    where :math:`\bar p_b` and :math:`\bar o_b` are the means of :math:`p_{i(j)}` and of the indicator that the
    class at rank j is the true one. The result is the mean over ranks 1 to k :cite:`valk2022`. For k = 1 it is
    :func:`confidence_ece`.

    Parameters
    ----------
    k : int, default=5
        Number of ranks; all ranks if there are fewer classes.
    n_bins : int or "cube_root", default=15
        Number of bins for each rank.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of equal weight within each rank.
    norm : 1, 2, other number of at least 1, or "max", default=1
        p, for each rank separately.
    reduction : {"mean", "sum", "none"}, default="mean"
        Mean or sum of the errors of the ranks, or one error per rank.

    Returns
    -------
    float, or ndarray of shape (k,) for ``reduction="none"``
        From 0 to 1 for each rank; lower is better.

    Notes
    -----
    Ties are ranked by column number. Costs O(nK) for small k, else O(nK log K).

    Examples
    --------
    >>> p = [[0.6, 0.3, 0.1]] * 10
    >>> top_k_confidence_ece([0] * 5 + [1] * 4 + [2], p, reduction="none").round(6)
    array([0.1, 0.1, 0. ])
    """
    error = _top_k(False, k, reduction, n_bins=n_bins, strategy=strategy, norm=norm, binning=binning)
    return error.result(LabelledPredictions.parse(y_proba, y_true, sample_weight))


@overload
def top_k_label_ece(
    y_true: Any,
    y_proba: Any,
    *,
    reduction: Literal["mean", "sum"] = "mean",
    **options: Unpack[OptionsOfRanks],
) -> float: ...


@overload
def top_k_label_ece(
    y_true: Any, y_proba: Any, *, reduction: Literal["none"], **options: Unpack[OptionsOfRanks]
) -> Float64Array: ...


@metric(PLUG_IN, parts=partial(_top_k, True))
def top_k_label_ece(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    k: int = 5,
    n_bins: NumberOfBins = 15,
    strategy: Strategy = "uniform",
    norm: Norm = 1,
    binning: BinningScheme | None = None,
    reduction: Reduction = "mean",
) -> float | Float64Array:
    r"""Top-k label ECE: binned gap between the probability of the class at each rank and its frequency, per class.

    With rows in cells by the class l at rank j and by their j-th largest probability, the error of rank j is

    .. math:: E_j = \Bigl( \sum_{l, b} \frac{W_{lb}}{W} \, | \bar o_{lb} - \bar p_{lb} |^p \Bigr)^{1/p},

    and the result is the mean over ranks 1 to k :cite:`valk2022`. For k = 1 it is :func:`top_label_ece`.

    Parameters
    ----------
    k : int, default=5
        Number of ranks; all ranks if there are fewer classes.
    n_bins, strategy, norm, binning, reduction
        As for :func:`top_k_confidence_ece`; a scheme that chooses bins from the scores is called for each class
        at each rank.

    Returns
    -------
    float, or ndarray of shape (k,) for ``reduction="none"``
        From 0 to 1 for each rank; lower is better. Costs as for :func:`top_k_confidence_ece`.

    Examples
    --------
    >>> p = [[0.8, 0.2]] * 10 + [[0.2, 0.8]] * 10
    >>> y = [0] * 7 + [1] * 3 + [1] * 9 + [0]
    >>> top_k_confidence_ece(y, p, reduction="none").round(6)
    array([0., 0.])
    >>> top_k_label_ece(y, p, reduction="none").round(6)
    array([0.1, 0.1])
    """
    error = _top_k(True, k, reduction, n_bins=n_bins, strategy=strategy, norm=norm, binning=binning)
    return error.result(LabelledPredictions.parse(y_proba, y_true, sample_weight))
