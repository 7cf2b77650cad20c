"""Proper scoring rules, and calibration gain: the reduction of a proper score by calibration."""

from typing import Any, Literal

import numpy as np

from calibrant.errors import ParameterError, PredictionError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.declaration import MetricTraits, metric
from calibrant.metrics.row_losses import (
    Loss,
    LossesOf,
    MeanMetric,
    check_loss,
    log_loss_ceiling,
    prepared_losses,
    row_losses,
)
from calibrant.predictions import Predictions
from calibrant.shared_parameters import documented

__all__ = ["brier_score", "calibration_gain", "log_loss", "spherical_loss"]


PROPER = MetricTraits(proper=True, two_sided=True)


def _log_loss(floor: Any) -> MeanMetric:
    ceiling = log_loss_ceiling(floor)

    def losses_of(predictions: Predictions) -> LossesOf:
        losses = prepared_losses(predictions, "log")
        return lambda labels: np.minimum(losses(labels), ceiling)

    return MeanMetric(lambda data: np.minimum(row_losses(data, "log"), ceiling), losses_of)


@metric(PROPER, parts=_log_loss)
def log_loss(y_true: Any, y_proba: Any, *, sample_weight: Any = None, floor: float = 0.0) -> float:
    r"""Log-loss (cross-entropy): mean negative log-probability of the true class.

    .. math:: -\frac{1}{W} \sum_i w_i \log \max(p_{i y_i}, f), \qquad W = \sum_i w_i

    Also called negative log-likelihood (NLL).

    Parameters
    ----------
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two. Pass logits through
        ``Predictions.from_logits``: they are never converted to probabilities, so the loss is exact and finite
        even where the softmax underflows to zero.
    floor : float, default=0.0
        Lower limit f for the probability of the true class.

    Returns
    -------
    float
        From 0 to infinity; lower is better. Infinite if a true class has probability zero and there is
        no floor.

    Notes
    -----
    scikit-learn clips probabilities at the machine epsilon of their float type, so a true class with probability
    zero costs 36.0 in float64 and 15.9 in float32. ``floor=np.finfo(p.dtype).eps`` reproduces its values
    (it also clips at one minus epsilon, which changes the result by at most that). Up to scikit-learn 1.1
    the value was ``floor=1e-15``, which published tables of that time contain. The ``floor`` of a
    :class:`~calibrant.predictions.Predictions` is for calibrators and has no effect here.

    Costs O(n), for logits O(nK); memory O(n).

    Examples
    --------
    >>> loss = log_loss([0, 1], [[0.5, 0.5], [0.75, 0.25]])
    >>> round(loss / float(np.log(2)), 12)      # one bit for the first row, two for the second
    1.5
    >>> log_loss([0, 1], [[0.5, 0.5], [1.0, 0.0]])
    inf
    >>> from calibrant import Predictions
    >>> log_loss([1], Predictions.from_logits([[2000.0, 0.0]]))
    2000.0
    """
    return _log_loss(floor)(LabelledPredictions.parse(y_proba, y_true, sample_weight))


def _brier_score(scale_by_half: bool | Literal["auto"]) -> MeanMetric:
    if scale_by_half not in (True, False, "auto"):
        raise ParameterError(f"scale_by_half must be True, False or 'auto', not {scale_by_half!r}.")

    def factor(n_classes: int) -> float:
        """Return the factor that converts losses, already halved for two classes, to the requested scale."""
        halved = n_classes == 2
        halve = halved if scale_by_half == "auto" else scale_by_half
        return (0.5 if halve else 1.0) / (0.5 if halved else 1.0)

    def losses_of(predictions: Predictions) -> LossesOf:
        losses = prepared_losses(predictions, "brier")
        return lambda labels: factor(predictions.n_classes) * losses(labels)

    return MeanMetric(lambda data: factor(data.n_classes) * row_losses(data, "brier"), losses_of)


@metric(PROPER, parts=_brier_score)
def brier_score(
    y_true: Any, y_proba: Any, *, sample_weight: Any = None, scale_by_half: bool | Literal["auto"] = "auto"
) -> float:
    r"""Brier score: mean squared distance between the probabilities and the one-hot true class.

    .. math:: \frac{1}{W} \sum_i w_i \sum_{k=1}^{K} (p_{ik} - [y_i = k])^2, \qquad W = \sum_i w_i

    with a factor of one half for two classes by default :cite:`brier1950`.

    Parameters
    ----------
    scale_by_half : bool or "auto", default="auto"
        Whether to halve the sum over classes; ``"auto"`` does so for two classes only, as in scikit-learn.
        The binary score is then the familiar :math:`(p_i - y_i)^2` of the positive class.

    Returns
    -------
    float
        From 0 to 2, or from 0 to 1 if halved; lower is better.

    Notes
    -----
    Some tables, including those of :cite:`kull2019`, print the mean over rows *and* classes: divide the
    result with ``scale_by_half=False`` by the number of classes. Others, such as :cite:`valk2022`, print
    the sum as here. Costs O(nK), in blocks of rows.

    Examples
    --------
    >>> p = [[0.5, 0.25, 0.25]]
    >>> brier_score([0], p)
    0.375
    >>> brier_score([0], p) / 3      # mean over classes
    0.125
    >>> brier_score([1], [0.5])      # two classes
    0.25
    """
    return _brier_score(scale_by_half)(LabelledPredictions.parse(y_proba, y_true, sample_weight))


def _spherical_loss() -> MeanMetric:
    return MeanMetric(
        lambda data: row_losses(data, "spherical"),
        lambda predictions: prepared_losses(predictions, "spherical"),
    )


@metric(PROPER, parts=_spherical_loss)
def spherical_loss(y_true: Any, y_proba: Any, *, sample_weight: Any = None) -> float:
    r"""Spherical loss: one minus the cosine of the angle between the probabilities and the one-hot true class.

    .. math::

        \frac{1}{W} \sum_i w_i \Bigl( 1 - \frac{p_{iy_i}}{\lVert p_i \rVert_2} \Bigr), \qquad W = \sum_i w_i

    A proper score. Like the Brier score it is bounded; like the log-loss it grows fast when a likely class was
    wrong :cite:`gneiting2007`. The spherical score itself, where higher is better, is one minus this.

    Returns
    -------
    float
        From 0 to 1; lower is better. Costs O(nK), in blocks of rows.

    Examples
    --------
    >>> loss = spherical_loss([0], [[0.5, 0.5]])
    >>> round(1 - loss, 6) == round(0.5**0.5, 6)      # 45 degrees
    True
    """
    return _spherical_loss()(LabelledPredictions.parse(y_proba, y_true, sample_weight))


@documented
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
    before, after : array, frame or Predictions
        Probabilities (n, K) of the same rows and classes, or (n,) or (n, 1) for the positive class of two.
        ``after`` must come from a calibrator that was fitted on other rows.
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
    losses_before, losses_after = row_losses(old, loss), row_losses(new, loss)
    with np.errstate(invalid="ignore"):  # infinity minus infinity is NaN
        gain = float(np.average(losses_before - losses_after, weights=old.weights))
    # Row losses halve the Brier loss of two classes.
    return 2 * gain if loss == "brier" and old.n_classes == 2 else gain
