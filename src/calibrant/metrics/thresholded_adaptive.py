"""Thresholded adaptive calibration error (TACE): equal-mass bins per class, small probabilities left out."""

from typing import Any

import numpy as np

from calibrant.binning import EqualMass
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.declaration import MetricTraits, metric
from calibrant.metrics.events import columns
from calibrant.options import check_whole, is_number

__all__ = ["thresholded_adaptive_ece"]


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
