"""Calibration gain: how much loss a calibration map removed."""

from typing import Any

import numpy as np

from calibrant.errors import PredictionError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.row_losses import Loss, check_loss, row_losses

__all__ = ["calibration_gain"]


def calibration_gain(
    y_true: Any, before: Any, after: Any, *, sample_weight: Any = None, loss: Loss = "brier"
) -> float:
    r"""Reduction of a proper loss from the predictions before to those after calibration.

    .. math::

        \frac{1}{W} \sum_i w_i \bigl( \ell(f_i, y_i) - \ell(g_i, y_i) \bigr), \qquad
        \ell(p, y) = \sum_{k=1}^{K} (p_k - [y = k])^2, \qquad W = \sum_i w_i

    with f before and g after :cite:`zhang2020,tomani2022`.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    before, after : array, frame or Predictions
        Probabilities (n, K) of the same rows and classes, or (n,) or (n, 1) for the positive class of two.
        ``after`` must come from a map that was fitted on other rows.
    sample_weight : array of shape (n,), optional
        Weights of the rows.
    loss : {"brier", "log", "spherical"}, default="brier"
        Which loss; the Brier loss is the *sum* over classes, for two classes too.

    Returns
    -------
    float
        Above 0 if calibration helped, below if it did harm; higher is better. With the logarithmic loss,
        infinite if some true class had the probability zero before calibration and none after it; minus infinity
        if some had after and none before; NaN if some had before and some after, even in the same rows, since
        infinity less infinity is no number.

    Notes
    -----
    A proper loss is calibration error plus refinement. A one-to-one map, such as temperature scaling, leaves
    the refinement as it is, since it forgets nothing of the predictions; then the gain *is* the reduction of the
    calibration error, whatever the number of classes, and without bins. That a map keeps the predicted class
    is not quite enough: one that merges predictions, such as isotonic regression or binning, also loses
    refinement, and the gain is what is left of the two. Table 3 of :cite:`tomani2022` prints it for the Brier
    loss times 100.

    :func:`~calibrant.intervals.loss_difference` gives the same mean with an interval, but second minus first, so
    that there *negative* is better, and with the Brier loss of two classes halved: for two classes this gain is
    minus twice its Brier estimate, for more minus its estimate, and for the other losses always minus its estimate.
    Infinities are treated alike.

    Costs O(nK) time, O(n) memory.

    Examples
    --------
    Three of four right; from 90 % to 75 %:

    >>> before, after = [[0.9, 0.1]] * 4, [[0.75, 0.25]] * 4
    >>> round(calibration_gain([0, 0, 0, 1], before, after), 6)      # 2 * (0.9 - 0.75) ** 2
    0.045
    """
    check_loss(loss)
    old = LabelledPredictions.parse(before, y_true, sample_weight)
    new = LabelledPredictions.parse(after, y_true, sample_weight)
    if old.n_classes != new.n_classes:
        raise PredictionError(
            f"there are {old.n_classes} classes before calibration but {new.n_classes} after it; "
            "pass the same columns."
        )
    lost, left = row_losses(old, loss), row_losses(new, loss)
    with np.errstate(invalid="ignore"):  # infinity less infinity: no value
        gain = float(np.average(lost - left, weights=old.weights))
    # Row losses halve the Brier loss of two classes.
    return 2 * gain if loss == "brier" and old.n_classes == 2 else gain
