"""Miscalibration (MCB): the loss removed by isotonic recalibration of the scores."""

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, logsumexp

from calibrant.arrays import Float64Array, FloatArray, IntArray
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.declaration import MetricTraits, metric
from calibrant.metrics.events import Kind, check_kind, mean_over_events
from calibrant.numerics.isotonic import isotonic_fit
from calibrant.numerics.row_blocks import row_blocks
from calibrant.numerics.simplex import log_softmax
from calibrant.options import check_choice
from calibrant.space import Space

__all__ = ["miscalibration"]

Loss = Literal["brier", "log"]


@metric(MetricTraits(positive_by_noise=True))
def miscalibration(
    y_true: Any, y_proba: Any, *, sample_weight: Any = None, kind: Kind = "confidence", loss: Loss = "brier"
) -> float:
    r"""Miscalibration (MCB): reduction of a proper loss by isotonic regression, without bins (CORP).

    With score s and outcome o of an event (for example the confidence, and whether the prediction is correct),

    .. math::

        \mathrm{MCB} = \frac{1}{W} \sum_i w_i \, \ell(s_i, o_i) - \frac{1}{W} \sum_i w_i \, \ell(g(s_i), o_i),
        \qquad W = \sum_i w_i,

    where g is the isotonic regression of the outcomes on the scores. This is the first term of the
    CORP decomposition of a proper score :cite:`dimitriadis2021`. The losses are

    .. math::

        \ell_{\text{Brier}}(s, o) = (s - o)^2, \qquad
        \ell_{\text{log}}(s, o) = -o \log s - (1 - o) \log (1 - s) .

    Parameters
    ----------
    loss : {"brier", "log"}, default="brier"
        Which loss; the function g is the same for both. The Brier loss is in squared probability, like the square
        of ECE with ``norm=2``, and the log-loss in nats.

    Returns
    -------
    float
        At least 0; lower is better. At most 1 for the Brier loss. With the log-loss it is infinite if and only if
        an outcome with probability zero occurred. If a class at probability one is wrong, the probabilities of the
        other classes in the row decide, and logits are never converted to probabilities that round to zero or one.

    Notes
    -----
    Never negative, since the identity is one of the candidates for g. Zero only if the scores already equal the mean
    outcome of each block of g. The estimate is in-sample, and therefore positive for calibrated predictions too,
    of the order :math:`n^{-2/3}`. Scores that rank events in the wrong order are not corrected, since no
    non-decreasing map could do so.

    Within a block of g with mean outcome v, the second term is :math:`v (1 - v)` or the entropy of v, and
    needs no sum over rows. Costs a sort of n numbers for each event and O(n) memory.

    Examples
    --------
    Nine of ten correct at a confidence of 80 %; a confidence of 90 % would have been optimal:

    >>> round(miscalibration([0] * 9 + [1], [[0.8, 0.2]] * 10), 6)      # (0.8 - 0.9) ** 2
    0.01
    >>> loss = miscalibration([0] * 9 + [1], [[0.8, 0.2]] * 10, loss="log")
    >>> round(loss, 6) == round(0.9 * float(np.log(0.9 / 0.8)) + 0.1 * float(np.log(0.1 / 0.2)), 6)
    True
    """
    check_choice("loss", loss, get_args(Loss))
    check_kind(kind)
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)

    def error(scores: FloatArray, outcomes: NDArray[np.bool_], weights: Float64Array | None) -> float:
        fit = isotonic_fit(scores, outcomes, weights)
        value = fit.value
        if loss == "brier":
            losses = np.square(scores.astype(np.float64) - outcomes)
            best = value * (1 - value)
        else:
            losses = _log_losses(data, scores, outcomes)
            best = entr(value) + entr(1 - value)
        excess = np.average(losses, weights=weights) - np.average(best, weights=fit.weight)
        return max(float(excess), 0.0)  # rounding can make a zero negative

    return mean_over_events(data, kind, error)


def _log_losses(data: LabelledPredictions, scores: FloatArray, outcomes: NDArray[np.bool_]) -> Float64Array:
    """Return the log-loss of every row, (n,), exact also where a score is rounded to zero or one."""
    of_outcome = scores.astype(np.float64)
    np.subtract(1, of_outcome, out=of_outcome, where=~outcomes)
    rounded = np.flatnonzero(of_outcome <= 0)
    of_outcome[rounded] = 1.0
    # Rows sum to one only up to rounding; probabilities are capped at one.
    losses: Float64Array = -np.log(np.minimum(of_outcome, 1.0))
    for block in row_blocks(len(rounded), data.n_classes):
        rows = rounded[block]
        losses[rows] = _exact_log_losses(data, rows, outcomes[rows])
    return losses


def _exact_log_losses(data: LabelledPredictions, rows: IntArray, outcomes: NDArray[np.bool_]) -> Float64Array:
    """Return losses of events that occurred at a score of zero, or did not occur at a score of one.

    If the event occurred, its class is the true class. An event at a score of one is that of the predicted
    class; if it did not occur, one of the other classes did.
    """
    scores = data.predictions.scores[rows].astype(np.float64)
    with np.errstate(divide="ignore"):
        given = data.predictions.space is Space.PROBABILITIES
        logarithms = np.log(scores) if given else log_softmax(scores)
        every_row = np.arange(len(rows))
        true_class = logarithms[every_row, data.labels[rows]]
        logarithms[every_row, data.predictions.predicted[rows]] = -np.inf
        return np.where(outcomes, -true_class, -logsumexp(logarithms, axis=1))
