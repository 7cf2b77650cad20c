"""Intervals and draws of the probabilities of rows, from the distribution of the parameters of a map."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.uncertainty.fitted_family import FittedFamily
from calibrant.calibrators.uncertainty.log_odds import LogOdds
from calibrant.objective.losses import softmax_in_place
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["drawn_probabilities", "first_order_interval", "percentile_interval"]

Matrix = NDArray[np.float64]
Cube = NDArray[np.float64]

# Of one array (rows, K, r): large enough for a product of matrices to pay, small enough to have several.
BLOCK_BYTES = 2**24
MIN_ROWS = 8


def first_order_interval(
    family: FittedFamily, factor: Matrix, predictions: Predictions, calibrated: Predictions, level: float
) -> tuple[Matrix, Matrix]:
    """Return both ends for every probability, (n, K), by the delta method on the log-odds of each class.

    ``factor`` (P, r) times its transpose is the covariance of the parameters. Exact for two classes; O(nKr) time beyond
    the product of the Jacobian with the factor, memory for the result and a block of rows.
    """
    lower, upper = np.empty((2, predictions.n_rows, predictions.n_classes))
    for rows in _blocks(predictions, factor.shape[1]):
        log_odds = LogOdds.of(calibrated.take(rows))
        directions = family.directions(family.features(predictions.take(rows)), factor)
        lower[rows], upper[rows] = log_odds.ends(log_odds.deviations(directions), level)
    return lower, upper


def drawn_probabilities(
    family: FittedFamily, changes: Matrix, predictions: Predictions, calibrated: Predictions
) -> Iterator[tuple[slice, Cube]]:
    """Go through blocks of rows, each with its probabilities under every draw, (n_draws, rows, K).

    ``changes`` (n_draws, P) are those of the parameters from the fit, which itself gives ``calibrated``.
    """
    for rows in _blocks(predictions, len(changes)):
        moved = family.moved(family.features(predictions.take(rows)), changes.T)
        fitted = _logarithms(calibrated.take(rows))
        by_draw = np.ascontiguousarray((fitted[:, :, np.newaxis] + moved).transpose(2, 0, 1))
        softmax_in_place(by_draw.reshape(-1, predictions.n_classes))
        yield rows, by_draw


def percentile_interval(draws: Cube, level: float) -> tuple[Matrix, Matrix]:
    """Return the percentiles of draws (n_draws, n, K) between which a further one lies with probability ``level``.

    That is a little further out than the share ``level`` of the draws themselves; the ends are (n, K) each.
    """
    tail = (1 - level) / 2
    lower, upper = np.quantile(draws, [tail, 1 - tail], axis=0, method="weibull")
    return lower, upper


def _logarithms(predictions: Predictions) -> Matrix:
    """Return scores whose softmax the predictions are, in float64."""
    scores = predictions.scores.astype(np.float64)
    if predictions.space is Space.PROBABILITIES:
        with np.errstate(divide="ignore"):
            np.log(scores, out=scores)
    return scores


def _blocks(predictions: Predictions, width: int) -> list[slice]:
    step = max(MIN_ROWS, BLOCK_BYTES // (8 * predictions.n_classes * width))
    n_rows = predictions.n_rows
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
