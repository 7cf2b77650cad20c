"""Top-label ECE and top-k calibration errors, per predicted class or per rank."""

from operator import index
from typing import Any, Literal, overload

from calibrant.arrays import Float64Array
from calibrant.binning import BinningScheme
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.binned_metric import (
    BinnedMetric,
    Norm,
    NumberOfBins,
    Reduction,
    Strategy,
    chosen_scheme,
)
from calibrant.metrics.declaration import MetricTraits, metric
from calibrant.metrics.events import PredictedClass, TopRanks

__all__ = ["top_k_confidence_ece", "top_k_label_ece", "top_label_ece"]


def _top_label_ece(
    n_bins: NumberOfBins, strategy: Strategy, norm: Norm, binning: BinningScheme | None
) -> BinnedMetric:
    return BinnedMetric(PredictedClass(binned_by_class=True), chosen_scheme(n_bins, strategy, binning), norm)


@metric(MetricTraits(positive_by_noise=True), parts=_top_label_ece)
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
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two.
    sample_weight : array of shape (n,), optional
        Weights of the rows.
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
    parts = _top_label_ece(n_bins, strategy, norm, binning)
    return parts(LabelledPredictions.parse(y_proba, y_true, sample_weight))


def _top_k(
    k: int,
    n_bins: NumberOfBins,
    strategy: Strategy,
    norm: Norm,
    binning: BinningScheme | None,
    reduction: Reduction,
    binned_by_class: bool,
) -> BinnedMetric:
    try:
        valid = index(k) >= 1
    except TypeError:
        valid = False
    if not valid:
        raise ParameterError(f"k must be an integer of at least 1, but is {k!r}.")
    scheme = chosen_scheme(n_bins, strategy, binning)
    return BinnedMetric(TopRanks(k, binned_by_class), scheme, norm, reduction)


def _top_k_confidence_ece(
    k: int,
    n_bins: NumberOfBins,
    strategy: Strategy,
    norm: Norm,
    binning: BinningScheme | None,
    reduction: Reduction,
) -> BinnedMetric:
    return _top_k(k, n_bins, strategy, norm, binning, reduction, binned_by_class=False)


def _top_k_label_ece(
    k: int,
    n_bins: NumberOfBins,
    strategy: Strategy,
    norm: Norm,
    binning: BinningScheme | None,
    reduction: Reduction,
) -> BinnedMetric:
    return _top_k(k, n_bins, strategy, norm, binning, reduction, binned_by_class=True)


@overload
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
    reduction: Literal["mean", "sum"] = "mean",
) -> float: ...


@overload
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
    reduction: Literal["none"],
) -> Float64Array: ...


@metric(MetricTraits(positive_by_noise=True), parts=_top_k_confidence_ece)
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
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two.
    sample_weight : array of shape (n,), optional
        Weights of the rows.
    k : int, default=5
        Number of ranks; all ranks if there are fewer classes.
    n_bins : int or "cube_root", default=15
        Number of bins for each rank.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of equal weight within each rank.
    norm : 1, 2, other number of at least 1, or "max", default=1
        p, for each rank separately.
    binning : scheme, optional
        Replaces ``n_bins`` and ``strategy``; see :func:`confidence_ece`.
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
    parts = _top_k_confidence_ece(k, n_bins, strategy, norm, binning, reduction)
    return parts.result(LabelledPredictions.parse(y_proba, y_true, sample_weight))


@overload
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
    reduction: Literal["mean", "sum"] = "mean",
) -> float: ...


@overload
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
    reduction: Literal["none"],
) -> Float64Array: ...


@metric(MetricTraits(positive_by_noise=True), parts=_top_k_label_ece)
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
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two.
    sample_weight : array of shape (n,), optional
        Weights of the rows.
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
    parts = _top_k_label_ece(k, n_bins, strategy, norm, binning, reduction)
    return parts.result(LabelledPredictions.parse(y_proba, y_true, sample_weight))
