"""Murphy diagram: mean elementary score at every decision threshold."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Float64Array
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.events import Kind, check_kind, events
from calibrant.shared_parameters import documented
from calibrant.tabular import Tabular

__all__ = ["MurphyCurve", "murphy_curve"]


@dataclass(frozen=True, eq=False)
class MurphyCurve(Tabular):
    """Mean elementary score, a step function of the threshold.

    Attributes
    ----------
    threshold : ndarray of shape (m + 1,)
        0, the distinct probabilities in increasing order, and 1.
    false_positive, false_negative : ndarray of shape (m + 1,)
        From this threshold to the next: fraction of rows above it without the event, and of rows up to it with the event.
    """

    threshold: Float64Array
    false_positive: Float64Array
    false_negative: Float64Array

    @property
    def score(self) -> Float64Array:
        """Mean elementary score at each threshold, (m + 1,)."""
        t = self.threshold
        return t * self.false_positive + (1 - t) * self.false_negative

    @property
    def brier(self) -> float:
        """Brier score of the event: twice the area under the curve."""
        # Within a step the score is linear in the threshold, so the trapezoid of its two ends is exact.
        left, right = self.threshold[:-1], self.threshold[1:]
        middle = 0.5 * (left + right)
        areas = (right - left) * (middle * self.false_positive[:-1] + (1 - middle) * self.false_negative[:-1])
        return 2 * float(areas.sum())

    def at(self, thresholds: Any) -> Float64Array:
        """Return the mean elementary score at any thresholds between 0 and 1."""
        t = np.asarray(thresholds, dtype=np.float64)
        place = np.searchsorted(self.threshold, t, side="right") - 1
        scores: Float64Array = t * self.false_positive[place] + (1 - t) * self.false_negative[place]
        return scores

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return one row per threshold."""
        return {
            "threshold": self.threshold,
            "false_positive": self.false_positive,
            "false_negative": self.false_negative,
            "score": self.score,
        }


@documented
def murphy_curve(
    y_true: Any, y_proba: Any, *, sample_weight: Any = None, kind: Kind = "confidence"
) -> MurphyCurve:
    r"""Murphy diagram: mean elementary score of the probabilities of an event as a function of the decision threshold.

    .. math:: S_\theta(p, y) = \theta \, [p > \theta, \, y = 0] + (1 - \theta) \, [p \le \theta, \, y = 1]

    is the regret of acting on :math:`p > \theta` if a false positive costs :math:`\theta` and a miss :math:`1 - \theta`. Every
    proper score is a mixture of these; the Brier score is :math:`2 \int_0^1 S_\theta \, d\theta` :cite:`ehm2016`.

    Parameters
    ----------
    kind : {"confidence", "classwise", "positive"}, default="confidence"
        The predicted class by its confidence; all pairs of a row and a class; or the second class of two.

    Returns
    -------
    MurphyCurve

    Notes
    -----
    If the curve of one model is nowhere above that of another, it is at least as good under every proper score. Curves that
    cross tell for which costs which model is better. Costs O(n log n), for ``kind="classwise"`` O(nK log nK).

    Examples
    --------
    >>> curve = murphy_curve([1, 0], [0.8, 0.4], kind="positive")
    >>> curve.at([0.2, 0.5, 0.9])                # 0.2 / 2, 0, 0.1 / 2
    array([0.1 , 0.  , 0.05])
    >>> round(curve.brier, 6)                    # (0.04 + 0.16) / 2
    0.1
    """
    check_kind(kind)
    data = LabelledPredictions.parse(y_proba, y_true, sample_weight)
    parts = list(events(data, kind))
    scores = np.clip(np.concatenate([part for part, _ in parts]), 0.0, 1.0).astype(np.float64)
    outcomes = np.concatenate([part for _, part in parts])
    weights = np.tile(np.ones(data.n_rows) if data.weights is None else data.weights, len(parts))
    values, level = np.unique(np.concatenate([scores, [0.0, 1.0]]), return_inverse=True)
    level = level[: len(scores)]
    total = weights.sum()
    hits = np.bincount(level, weights * outcomes, minlength=len(values)) / total
    misses = np.bincount(level, weights * ~outcomes, minlength=len(values)) / total
    # Rows are acted on if their probability is above the threshold.
    return MurphyCurve(values, misses.sum() - np.cumsum(misses), np.cumsum(hits))
