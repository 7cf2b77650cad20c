"""Area under the ROC curve with DeLong intervals, also clustered by group and for paired differences."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from calibrant.arrays import Vector
from calibrant.report.contents import Estimate
from calibrant.report.rows import Rows

__all__ = ["RocArea", "area_estimate", "roc_area"]


@dataclass(frozen=True, eq=False)
class RocArea:
    """Area under the ROC curve with its influence function.

    Attributes
    ----------
    value : float
        Area for the second class of two, or the mean over the classes that occur, each one vs rest.
    influence : ndarray of shape (n,)
        Influence of each row, of mean zero; the sum of squares is DeLong's variance of the area.
    """

    value: float
    influence: Vector


def roc_area(rows: Rows) -> RocArea | None:
    r"""Return the area under the ROC curve; None if only one class occurs.

    For a class with rows i and other rows j of weights w, scores s and :math:`\psi(a, b) = [b < a] + [a = b] / 2`,

    .. math:: A = \sum_{ij} \frac{w_i w_j}{W_1 W_0} \psi(s_i, s_j), \qquad
        h_i = \frac{w_i}{W_1} \Bigl(\sum_j \frac{w_j}{W_0} \psi(s_i, s_j) - A\Bigr), \quad
        h_j = \frac{w_j}{W_0} \Bigl(\sum_i \frac{w_i}{W_1} \psi(s_i, s_j) - A\Bigr) .

    Costs one sort per class.
    """
    if rows.n_present < 2:
        return None
    weights = np.ones(rows.n_rows) if rows.weights is None else rows.weights
    present = np.flatnonzero(np.bincount(rows.data.labels, minlength=rows.n_classes))
    chosen = [1] if rows.n_classes == 2 else present.tolist()
    value, influence = 0.0, np.zeros(rows.n_rows)
    for column in chosen:
        scores = np.ascontiguousarray(rows.predictions.probabilities[:, column])
        area, moved = _one_class(scores, rows.data.labels == column, weights)
        value += area / len(chosen)
        influence += moved / len(chosen)
    return RocArea(value, influence)


def _one_class(
    scores: NDArray[np.floating], positive: NDArray[np.bool_], weights: Vector
) -> tuple[float, Vector]:
    _, place = np.unique(scores, return_inverse=True)
    place = place.reshape(-1)
    of_positive = np.bincount(place, weights * positive)
    of_negative = np.bincount(place, weights * ~positive)
    total_positive, total_negative = float(of_positive.sum()), float(of_negative.sum())
    negative_below = (np.cumsum(of_negative) - of_negative / 2) / total_negative
    positive_above = 1 - (np.cumsum(of_positive) - of_positive / 2) / total_positive
    area = float(of_positive @ negative_below) / total_positive
    influence = np.where(
        positive,
        (negative_below[place] - area) / total_positive,
        (positive_above[place] - area) / total_negative,
    )
    return area, weights * influence


def area_estimate(
    name: str, area: RocArea, minus: RocArea | None, rows: Rows, level: float, definition: str
) -> Estimate:
    """Return an area, or the difference of two areas on the same rows, with a t interval over rows or groups."""
    value = area.value - (0.0 if minus is None else minus.value)
    influence = area.influence - (0.0 if minus is None else minus.influence)
    sums = influence if rows.groups is None else np.bincount(rows.groups, influence)
    low = high = None
    if len(sums) > 1:
        error = float(np.sqrt(len(sums) / (len(sums) - 1) * (sums @ sums)))
        margin = float(stdtrit(len(sums) - 1, (1 + level) / 2)) * error
        least, most = (0.0, 1.0) if minus is None else (-1.0, 1.0)
        low, high = max(value - margin, least), min(value + margin, most)
    by = "DeLong interval" if rows.groups is None else "DeLong interval clustered by group"
    return Estimate(name, value, low, high, level, f"{definition}; {by}", higher_is_better=True)
