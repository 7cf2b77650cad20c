"""Confidence-ECE and maximum calibration error: binned calibration errors of the predicted class."""

from typing import Any

from calibrant.binning import BinningScheme
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.binned_metric import BinnedMetric, Norm, NumberOfBins, Strategy, chosen_scheme
from calibrant.metrics.declaration import MetricTraits, metric
from calibrant.metrics.events import PredictedClass

__all__ = ["confidence_ece", "maximum_calibration_error"]


def _confidence_ece(
    n_bins: NumberOfBins, strategy: Strategy, norm: Norm, binning: BinningScheme | None
) -> BinnedMetric:
    return BinnedMetric(PredictedClass(), chosen_scheme(n_bins, strategy, binning), norm)


@metric(MetricTraits(positive_by_noise=True), parts=_confidence_ece)
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
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two. With two classes this is still
        about the *predicted* class, whose confidence is at least one half.
    sample_weight : array of shape (n,), optional
        Weights of the rows.
    n_bins : int or "cube_root", default=15
        Number of bins from 0 to 1; ``"cube_root"`` is the cube root of the number of rows.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of equal weight (adaptive ECE; equal scores share a bin).
    norm : 1, 2, other number of at least 1, or "max", default=1
        p: 1 is the expected calibration error, 2 its root-mean-square form, ``"max"`` the maximum
        calibration error over non-empty bins.
    binning : scheme, optional
        Replaces ``n_bins`` and ``strategy``: :class:`~calibrant.binning.EqualWidth`,
        :class:`~calibrant.binning.EqualMass`, :class:`~calibrant.binning.FixedEdges`, or a function of
        scores and weights that returns one of these.

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
    parts = _confidence_ece(n_bins, strategy, norm, binning)
    return parts(LabelledPredictions.parse(y_proba, y_true, sample_weight))


def _maximum_calibration_error(
    n_bins: NumberOfBins, strategy: Strategy, binning: BinningScheme | None
) -> BinnedMetric:
    return _confidence_ece(n_bins, strategy, "max", binning)


@metric(MetricTraits(positive_by_noise=True), parts=_maximum_calibration_error)
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

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two.
    sample_weight : array of shape (n,), optional
        Weights of the rows.
    n_bins : int or "cube_root", default=15
        Number of bins from 0 to 1; ``"cube_root"`` is the cube root of the number of rows.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of equal weight (equal scores share a bin).
    binning : scheme, optional
        Replaces ``n_bins`` and ``strategy``; see :func:`confidence_ece`.

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
    parts = _maximum_calibration_error(n_bins, strategy, binning)
    return parts(LabelledPredictions.parse(y_proba, y_true, sample_weight))
