"""Calibration errors estimated from bins of the score."""

from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from calibrant.binning import BinningScheme
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.bin_errors import Norm, Strategy, binned_error, check_norm, chosen_scheme

__all__ = ["classwise_ece", "confidence_ece"]

# Columns are read in groups: one column of a row-major array would touch as much memory as sixteen.
COLUMNS_AT_A_TIME = 16


def confidence_ece(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    norm: Norm = 1,
    binning: BinningScheme | None = None,
) -> float:
    r"""Gap between the confidence in the predicted class and how often it is right.

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
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two. Also for two classes this is
        about the *predicted* class, of confidence at least one half.
    sample_weight : array of shape (n,), optional
        Weights of the rows.
    n_bins : int, default=15
        Number of bins from 0 to 1.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of equal weight (adaptive ECE; equal scores share a bin).
    norm : 1, 2, other number of at least 1, or "max", default=1
        p: 1 is the expected calibration error, 2 its root-mean-square form, ``"max"`` the maximum
        calibration error over filled bins.
    binning : scheme, optional
        Takes the place of ``n_bins`` and ``strategy``: :class:`~calibrant.binning.EqualWidth`,
        :class:`~calibrant.binning.EqualMass`, :class:`~calibrant.binning.FixedEdges`, or a function of
        scores and weights that returns one of these.

    Returns
    -------
    float
        From 0 to 1; lower is better.

    Notes
    -----
    Bins are half-open, [a, b), with a closed last one; :cite:`kull2019` and :cite:`guo2017` close them on
    the right: ``binning=EqualWidth(15, closed="right")``. The estimate depends on the bins and, with norm 1,
    is biased upwards when bins hold few rows. Costs O(nK), plus a sort of n numbers for quantiles.

    Examples
    --------
    Nine of ten right at a confidence of 80 %:

    >>> round(confidence_ece([0] * 9 + [1], [[0.8, 0.2]] * 10), 6)
    0.1
    """
    check_norm(norm)
    scheme = chosen_scheme(n_bins, strategy, binning)
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    predicted = data.predictions.predicted
    confidence = data.predictions.probabilities[np.arange(data.n_rows), predicted]
    return binned_error(confidence, predicted == data.labels, data.weights, scheme, norm)


@overload
def classwise_ece(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    n_bins: int = 15,
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
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    norm: Norm = 1,
    binning: BinningScheme | None = None,
    reduction: Literal["none"],
) -> NDArray[np.float64]: ...


def classwise_ece(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    norm: Norm = 1,
    binning: BinningScheme | None = None,
    reduction: Literal["mean", "sum", "none"] = "mean",
) -> float | NDArray[np.float64]:
    r"""Gap between the probability of each class and how often it occurs.

    For class k, with rows in bins by :math:`p_{ik}`, the error is

    .. math::

        E_k = \Bigl( \sum_b \frac{W_b}{W} \, | \bar y_b - \bar p_b |^p \Bigr)^{1/p},

    where :math:`\bar p_b` and :math:`\bar y_b` are the weighted means of :math:`p_{ik}` and of
    :math:`[y_i = k]` in bin b and :math:`W_b` its weight; the result is their mean over classes,
    :math:`\frac{1}{K} \sum_k E_k` :cite:`kull2019`.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns. Classes without rows count too.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two, of which both columns count.
    sample_weight : array of shape (n,), optional
        Weights of the rows.
    n_bins : int, default=15
        Number of bins from 0 to 1.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of equal weight within each class (equal scores share a bin).
    norm : 1, 2, other number of at least 1, or "max", default=1
        p, for each class by itself; ``"max"`` is the largest gap of a filled bin.
    binning : scheme, optional
        Takes the place of ``n_bins`` and ``strategy``: :class:`~calibrant.binning.EqualWidth`,
        :class:`~calibrant.binning.EqualMass`, :class:`~calibrant.binning.FixedEdges`, or a function of
        scores and weights that returns one of these. Called once for each class.
    reduction : {"mean", "sum", "none"}, default="mean"
        Mean or sum of the errors of the classes, or all of them.

    Returns
    -------
    float, or ndarray of shape (K,) for ``reduction="none"``
        From 0 to 1 for each class; lower is better.

    Notes
    -----
    The tables of :cite:`kull2019` print the *sum* over classes, of bins that are fourteen of equal width,
    [a, b), and a fifteenth for probabilities of exactly one: ``reduction="sum"`` and
    ``binning=FixedEdges((*np.linspace(0, 1, 15), 1.0))``. With many classes nearly all probabilities of a
    class are close to zero, in the first bin of equal width; ``strategy="quantile"`` resolves them.

    Costs O(nK), plus K sorts of n numbers for quantiles; memory beyond the probabilities O(n).

    Examples
    --------
    >>> p = [[0.8, 0.1, 0.1]] * 10
    >>> classwise_ece([0] * 9 + [1], p, reduction="none").round(6)
    array([0.1, 0. , 0.1])
    >>> round(classwise_ece([0] * 9 + [1], p), 6)
    0.066667
    """
    check_norm(norm)
    if reduction not in ("mean", "sum", "none"):
        raise ParameterError(f"reduction must be 'mean', 'sum' or 'none', not {reduction!r}.")
    scheme = chosen_scheme(n_bins, strategy, binning)
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    errors = np.empty(data.n_classes)
    for first in range(0, data.n_classes, COLUMNS_AT_A_TIME):
        group = data.predictions.probabilities[:, first : first + COLUMNS_AT_A_TIME]
        for column, scores in enumerate(np.ascontiguousarray(group.T), start=first):
            errors[column] = binned_error(scores, data.labels == column, data.weights, scheme, norm)
    if reduction == "none":
        return errors
    return float(errors.mean() if reduction == "mean" else errors.sum())
