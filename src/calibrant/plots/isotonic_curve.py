"""Isotonic reliability curve with its band, reduced to few points for a plot."""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from calibrant.arrays import Vector
from calibrant.numerics.isotonic import IsotonicFit, isotonic_fit
from calibrant.plots.score_cells import ScoreCells

__all__ = ["IsotonicCurve", "Mode"]

Mode = Literal["confidence", "consistency"]
"""``"confidence"``: confidence intervals of the observed frequencies. ``"consistency"``: range of the observed frequencies
under calibration."""


MOST_VERTICES, MOST_PLACES = 400, 100

# Largest number of distinct scores for resampling.
MOST_CELLS = 1000


@dataclass(frozen=True, eq=False)
class IsotonicCurve:
    """Vertices of the isotonic curve, and its band on a grid.

    Attributes
    ----------
    score, outcome : ndarray of shape (m,)
        Vertices from left to right.
    band_score, band_low, band_high : ndarray of shape (g,)
        Pointwise limits; of length zero without a band.
    """

    score: Vector
    outcome: Vector
    band_score: Vector
    band_low: Vector
    band_high: Vector

    @classmethod
    def of(
        cls,
        scores: NDArray[np.floating],
        happened: NDArray[np.bool_],
        weights: Vector | None,
        *,
        level: float,
        mode: Mode,
        n_resamples: int,
        generator: np.random.Generator,
    ) -> Self:
        """Fit the curve, and its band if the number of resamples is positive."""
        vertices = _vertices(isotonic_fit(scores, happened, weights))
        if n_resamples == 0:
            return cls(*vertices, np.empty(0), np.empty(0), np.empty(0))
        cells = ScoreCells.of(scores, happened, weights, MOST_CELLS)
        places = _places(cells.score)
        curves = np.empty((n_resamples, len(places)))
        drawn = _if_true if mode == "consistency" else _rows_again
        for start in range(0, n_resamples, 100):  # in batches of a hundred, to limit memory
            block = curves[start : start + 100]
            for number, (score, outcome) in enumerate(drawn(cells, len(block), generator)):
                block[number] = np.interp(places, score, outcome)
        low, high = np.quantile(curves, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return cls(*vertices, places, low, high)


def _vertices(fit: IsotonicFit) -> tuple[Vector, Vector]:
    """Return both ends of every plateau, or an evenly spaced subset along the curve."""
    score = np.column_stack([fit.low, fit.high]).ravel().astype(np.float64)
    outcome = np.repeat(fit.value, 2)
    keep = np.concatenate([[True], (score[1:] != score[:-1]) | (outcome[1:] != outcome[:-1])])
    score, outcome = score[keep], outcome[keep]
    if len(score) > MOST_VERTICES:
        along = score + outcome  # increasing, since both are; a measure of arc length
        wanted = np.linspace(along[0], along[-1], MOST_VERTICES)
        chosen = np.unique(np.clip(np.searchsorted(along, wanted), 0, len(along) - 1))
        score, outcome = score[chosen], outcome[chosen]
    return score, outcome


def _places(scores: Vector) -> Vector:
    """Return at most a hundred of the scores: half evenly spaced over the rows, half over their range."""
    half = MOST_PLACES // 2
    of_rows = scores[np.linspace(0, len(scores) - 1, min(half, len(scores))).round().astype(np.intp)]
    return np.unique(np.concatenate([of_rows, np.linspace(scores[0], scores[-1], half)]))


Curves = list[tuple[Vector, Vector]]


def _if_true(cells: ScoreCells, n_draws: int, generator: np.random.Generator) -> Curves:
    """Return curves of outcomes simulated from the scores."""
    weight = cells.total_weight
    outcomes = cells.outcomes_if_true(n_draws, generator)
    return [(cells.score, isotonic_regression(row, weights=weight).x) for row in outcomes]


def _rows_again(cells: ScoreCells, n_draws: int, generator: np.random.Generator) -> Curves:
    """Return curves of bootstrap resamples of the rows."""
    curves = []
    for weight, outcome in zip(*cells.rows_again(n_draws, generator), strict=True):
        seen = weight > 0
        fitted = isotonic_regression(outcome[seen] / weight[seen], weights=weight[seen]).x
        curves.append((cells.score[seen], fitted))
    return curves
