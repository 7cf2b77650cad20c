"""Refits of a calibrator to randomly weighted rows, and the probabilities that each of them gives."""

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from functools import partial, singledispatch

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from calibrant.arrays import Cube
from calibrant.calibrator import Calibrator
from calibrant.calibrators.combinators.auto import AutoCalibration
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import gathered, held_back
from calibrant.numerics.threads import in_threads
from calibrant.predictions import Predictions

__all__ = ["refits", "refitted_probabilities"]


# Of the probabilities of a block of rows under all refits.
BLOCK_BYTES = 2**25
MIN_ROWS = 256

# Of a random weight relative to that of its row: no row, and with it no class, ever vanishes.
LEAST_WEIGHT = 1e-9


def refits(
    calibrator: Calibrator, data: LabelledPredictions, n_draws: int, generator: np.random.Generator
) -> list[Calibrator]:
    r"""Return a fitted calibrator fitted anew to the rows with random weights, so many times: the Bayesian bootstrap.

    A row has an exponential weight, a row of weight w one that is Gamma-distributed with shape w, which is the same as w
    rows have together; all are divided by their mean :cite:`rubin1981`. Unlike rows drawn with replacement, none is
    left out: no class can vanish, and no copies of a row end up in different folds of an inner cross-validation. Every
    refit has random numbers of its own, so the result does not depend on the number of threads.
    """
    shapes = np.ones(data.n_rows) if data.weights is None else data.weights

    def refit(source: np.random.Generator) -> Calibrator:
        weights = np.maximum(source.standard_gamma(shapes), LEAST_WEIGHT * shapes)
        weights *= shapes.sum() / weights.sum()
        return _refitted(calibrator, replace(data, weights=weights))

    with gathered(n_draws, "refit"):
        return in_threads(refit, generator.spawn(n_draws), data.n_rows * data.n_classes)


@singledispatch
def _refitted(calibrator: Calibrator, data: LabelledPredictions) -> Calibrator:
    """Return what a fitted calibrator would have become with these rows."""
    fitted: Calibrator = clone(calibrator).fit_labelled(data, warn_of_absent=False)
    return fitted


@_refitted.register
def _(calibrator: AutoCalibration, data: LabelledPredictions) -> Calibrator:
    """Keep the choice and its weights: to try all candidates anew would take several times as long."""
    refitted = copy(calibrator)
    with held_back():
        refitted.calibrators_ = [_refitted(part, data) for part in calibrator.calibrators_]
    return refitted


def refitted_probabilities(
    calibrators: list[Calibrator], predictions: Predictions
) -> Iterator[tuple[slice, Cube]]:
    """Go through blocks of rows, each with its probabilities by every calibrator, (n_draws, rows, K)."""
    step = max(MIN_ROWS, BLOCK_BYTES // (8 * predictions.n_classes * len(calibrators)))
    for start in range(0, predictions.n_rows, step):
        rows = slice(start, min(start + step, predictions.n_rows))
        block = predictions.take(rows)
        by_refit = in_threads(partial(_probabilities, block), calibrators, block.n_rows * block.n_classes)
        yield rows, np.stack(by_refit)


def _probabilities(predictions: Predictions, calibrator: Calibrator) -> NDArray[np.float64]:
    return calibrator.transform(predictions).probabilities.astype(np.float64)
