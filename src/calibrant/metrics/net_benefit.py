"""Net benefit of acting above a probability threshold (decision curve analysis)."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Float64Array
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.declaration import MetricTraits, metric
from calibrant.metrics.row_losses import MeanMetric
from calibrant.options import check_share
from calibrant.predictions import Predictions

__all__ = ["net_benefit"]


def _benefits(predictions: Predictions, threshold: float) -> Callable[[NDArray[np.intp]], Float64Array]:
    if predictions.n_classes != 2:
        raise ParameterError(
            f"net benefit is for two classes, but there are {predictions.n_classes}; pass the probability of one class "
            "and whether it is the true one, or use realised_cost."
        )
    treated = predictions.probabilities[:, 1] >= threshold
    odds = threshold / (1 - threshold)
    return lambda labels: np.where(treated, np.where(labels == 1, 1.0, -odds), 0.0)


def _net_benefit(threshold: float) -> MeanMetric:
    check_share("threshold", threshold, 0.2)
    return MeanMetric(
        lambda data: _benefits(data.predictions, threshold)(data.labels),
        lambda predictions: _benefits(predictions, threshold),
    )


@metric(
    MetricTraits(higher_is_better=True, commutes_with_permutations=False, two_sided=True), parts=_net_benefit
)
def net_benefit(y_true: Any, y_proba: Any, *, threshold: float, sample_weight: Any = None) -> float:
    r"""Net benefit: true positives minus false positives at the odds of a probability threshold, per row.

    .. math:: \frac{1}{W} \sum_i w_i \, [p_i \ge t] \Bigl( y_i - (1 - y_i) \frac{t}{1 - t} \Bigr)

    for the probability :math:`p_i` of the second class and the outcome :math:`y_i` :cite:`vickers2006`.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns; two classes.
    y_proba : array, frame or Predictions
        Probabilities (n, 2), or (n,) or (n, 1) for the positive class.
    threshold : float
        Probability t, between 0 and 1, from which on one acts (treats, investigates, alerts). It expresses the costs: at
        :math:`t = 0.1` one accepts nine false positives for one true positive.
    sample_weight : array of shape (n,), optional
        Weights of the rows.

    Returns
    -------
    float
        In true positives per row; higher is better. Acting on no row has a net benefit of 0, acting on all rows of
        :math:`\pi - (1 - \pi) t / (1 - t)` at a prevalence :math:`\pi`. Costs O(n).

    Notes
    -----
    If acting on a row without the event costs :math:`c_\mathrm{FP}`, and not acting on a row with it costs
    :math:`c_\mathrm{FN}`, the threshold of least expected cost for calibrated probabilities is
    :math:`t = c_\mathrm{FP} / (c_\mathrm{FP} + c_\mathrm{FN})`. :math:`c_\mathrm{FN}` times the net benefit is then the
    saving against never acting. :func:`~calibrant.intervals.decision_curve` has all thresholds, with intervals.

    Examples
    --------
    Above 0.2 are two true positives and one false one, which costs a quarter of a true one:

    >>> net_benefit([1, 1, 0, 0], [0.9, 0.3, 0.4, 0.1], threshold=0.2)      # (2 - 1/4) / 4
    0.4375
    """
    return _net_benefit(threshold)(LabelledPredictions.parse(y_proba, y_true, sample_weight))
