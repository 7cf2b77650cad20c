"""Kolmogorov-Smirnov and Kuiper calibration errors: cumulative residuals sorted by score, without bins."""

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Float64Array, FloatArray, IntArray
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.declaration import Evaluator, MetricTraits, metric
from calibrant.metrics.events import (
    Kind,
    check_kind,
    check_two_classes,
    columns,
    confidences,
    mean_over_events,
)
from calibrant.numerics.cumulative import MAXIMUM, RANGE, PathStatistic, ScoreGroups
from calibrant.options import check_choice
from calibrant.predictions import Predictions

__all__ = ["ks_calibration_error", "kuiper_calibration_error"]

CumulativeStatistic = Literal["kuiper", "ks"]
"""``"kuiper"``: the range of the cumulative residuals. ``"ks"``: their largest absolute value."""


def chosen_statistic(statistic: CumulativeStatistic) -> PathStatistic:
    """Return the statistic of this name."""
    check_choice("statistic", statistic, get_args(CumulativeStatistic))
    return RANGE if statistic == "kuiper" else MAXIMUM


def _prepared(statistic: PathStatistic) -> Callable[..., Evaluator]:
    """Return a function that sorts the scores once, for any number of label vectors; O(n) memory per event."""

    def prepare(predictions: Predictions, *, kind: Kind) -> Evaluator:
        check_kind(kind)
        events: list[tuple[_Event, IntArray | int]]
        if kind == "confidence":
            events = [(_Event(confidences(predictions)), predictions.predicted)]
        elif kind == "positive":
            check_two_classes(predictions.n_classes)
            events = [(_Event(predictions.probabilities[:, 1]), 1)]
        else:
            events = [(_Event(column), k) for k, column in enumerate(columns(predictions))]

        def evaluate(labels: IntArray, weights: Float64Array | None) -> float:
            errors = [statistic.measure(event.path(labels == column, weights)) for event, column in events]
            return float(np.mean(errors))

        return evaluate

    return prepare


class _Event:
    """The probabilities of an event, sorted."""

    def __init__(self, scores: FloatArray) -> None:
        # Rows sum to one only up to rounding; probabilities are capped at one.
        self.scores = np.minimum(scores, 1.0, dtype=np.float64)
        self.groups = ScoreGroups.of(self.scores)

    def path(self, outcomes: NDArray[np.bool_], weights: Float64Array | None) -> Float64Array:
        """Return the cumulative residuals, observed minus predicted."""
        return self.groups.path(outcomes - self.scores, weights)


def _error(data: LabelledPredictions, kind: Kind, statistic: PathStatistic) -> float:
    return mean_over_events(
        data,
        kind,
        lambda scores, outcomes, weights: statistic.measure(_Event(scores).path(outcomes, weights)),
    )


@metric(MetricTraits(positive_by_noise=True), prepare=_prepared(MAXIMUM))
def ks_calibration_error(
    y_true: Any, y_proba: Any, *, sample_weight: Any = None, kind: Kind = "confidence"
) -> float:
    r"""Kolmogorov-Smirnov (KS) calibration error: largest cumulative residual when rows are sorted by score.

    With scores :math:`s_i`, outcomes :math:`o_i \in \{0, 1\}` and :math:`W = \sum_i w_i`,

    .. math:: \max_t |C(t)|, \qquad C(t) = \frac{1}{W} \sum_{i :\, s_i \le t} w_i \, (o_i - s_i)

    after Kolmogorov and Smirnov :cite:`gupta2021,arrieta2022` (ECCE-MAD in the latter).

    Returns
    -------
    float
        From 0 to 1; lower is better. Between one half and all of :func:`kuiper_calibration_error`.

    Notes
    -----
    There are no bins and no smoothing parameter. Rows of equal score enter together, so their order does not
    matter. Unlike in a binned error, over- and underconfidence at neighbouring scores cancel. Under perfect
    calibration the error is about :math:`1.25 \sigma` with :math:`\sigma^2 = \sum_i w_i^2 s_i (1 - s_i) / W^2`; see
    :func:`~calibrant.hypothesis_tests.cumulative_test`.

    Costs O(n log n) for each class, plus O(nK); memory O(n).

    Examples
    --------
    Nine of ten predictions are correct at a confidence of 80 %:

    >>> round(ks_calibration_error([0] * 9 + [1], [[0.8, 0.2]] * 10), 6)
    0.1
    """
    check_kind(kind)
    return _error(LabelledPredictions.parse(y_proba, y_true, sample_weight), kind, MAXIMUM)


@metric(MetricTraits(positive_by_noise=True), prepare=_prepared(RANGE))
def kuiper_calibration_error(
    y_true: Any, y_proba: Any, *, sample_weight: Any = None, kind: Kind = "confidence"
) -> float:
    r"""Kuiper calibration error: largest sum of residuals over any interval of scores (cutoff calibration error).

    With scores :math:`s_i`, outcomes :math:`o_i \in \{0, 1\}` and :math:`W = \sum_i w_i`,

    .. math::

        \max_{a \le b} \Bigl| \frac{1}{W} \sum_{i :\, a \le s_i \le b} w_i \, (o_i - s_i) \Bigr|
        = \max_t C(t) - \min_t C(t),

    where C is the cumulative residual, zero before the first score. The right side is Kuiper's statistic
    :cite:`arrieta2022` (ECCE-R), the left side the cutoff calibration error :cite:`rossellini2025`.

    Returns
    -------
    float
        From 0 to 1; lower is better.

    Notes
    -----
    There are no bins and no smoothing parameter. Rows of equal score enter together, so their order does not
    matter. Interpretation: if you act on all rows with scores in some interval, the expected and the observed number
    of events among them differ by at most this fraction of all rows. Under perfect calibration the error is about
    :math:`1.6 \sigma` with :math:`\sigma^2 = \sum_i w_i^2 s_i (1 - s_i) / W^2`; see
    :func:`~calibrant.hypothesis_tests.cumulative_test` for the test and
    :func:`~calibrant.hypothesis_tests.smallest_detectable_error` for what n rows can show.

    Costs O(n log n) for each class, plus O(nK); memory O(n).

    Examples
    --------
    Underconfident at 60 % (two rows, both correct), overconfident at 90 % (one of two correct). The path rises by 0.8
    of four rows, then falls by the same amount:

    >>> p = [[0.6, 0.4], [0.6, 0.4], [0.9, 0.1], [0.9, 0.1]]
    >>> round(kuiper_calibration_error([0, 0, 0, 1], p), 6)
    0.2
    """
    check_kind(kind)
    return _error(LabelledPredictions.parse(y_proba, y_true, sample_weight), kind, RANGE)
