"""Calibration gain: the loss removed by a calibrator."""

from typing import Any

import numpy as np

from calibrant.errors import PredictionError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.row_losses import Loss, check_loss, row_losses

__all__ = ["calibration_gain"]


def calibration_gain(
    y_true: Any, before: Any, after: Any, *, sample_weight: Any = None, loss: Loss = "brier"
) -> float:
    r"""Calibration gain: mean reduction of a proper loss from before to after calibration.

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
        ``after`` must come from a calibrator that was fitted on other rows.
    sample_weight : array of shape (n,), optional
        Weights of the rows.
    loss : {"brier", "log", "spherical"}, default="brier"
        Which loss. The Brier loss is the *sum* over classes, for two classes too.

    Returns
    -------
    float
        Positive if calibration reduced the loss, negative if it increased it; higher is better. The log-loss may
        be infinite: the gain is infinite if a true class had probability zero only before calibration, minus
        infinity if only after, and NaN if both before and after, even in different rows.

    Notes
    -----
    A proper loss is calibration error plus refinement. A one-to-one map, such as temperature scaling, leaves
    the refinement unchanged. The gain then *is* the reduction of the calibration error, for any number of classes
    and without bins. Preserving the arg-max is not sufficient: a map that merges predictions, such as isotonic
    regression or binning, also loses refinement, and the gain is the net effect. Table 3 of :cite:`tomani2022`
    prints it for the Brier loss times 100.

    :func:`~calibrant.intervals.loss_difference` gives the same mean with an interval, but as second minus first, so
    *negative* is better there, and it halves the Brier loss of two classes. For two classes this gain is minus twice
    its Brier estimate, for more classes minus its estimate, and for the other losses always minus its estimate.
    Infinities are treated in the same way.

    Costs O(nK) time, O(n) memory.

    Examples
    --------
    Three of four correct; the confidence changes from 90 % to 75 %:

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
    with np.errstate(invalid="ignore"):  # infinity minus infinity is NaN
        gain = float(np.average(lost - left, weights=old.weights))
    # Row losses halve the Brier loss of two classes.
    return 2 * gain if loss == "brier" and old.n_classes == 2 else gain
