"""Features of structured scaling: logarithms of tempered probabilities with a little of the uniform mixed in."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.scaling.temperature_fit import bounded_steepness, fit_inverse_temperature
from calibrant.calibrators.structured.row_scales import RowScales, mean_features
from calibrant.calibrators.structured.shared_segments import SharedSegments
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.linear_segments import LinearSegments, weighted_quantiles
from calibrant.numerics.reductions import row_maxima, row_sums
from calibrant.numerics.row_blocks import BlockSums
from calibrant.predictions import Predictions

__all__ = ["MixedScores", "mixed_scores"]

FloatArray = NDArray[np.floating]
Vector = NDArray[np.float64]

# How far from usual an inverse temperature may be.
REACH = 1e3

# Distances below the largest logit beyond this count as this, so that products with them stay finite in float32.
FURTHEST = 1e30

# Of more features than this, knots are found from a half, a third, ... of the rows.
KNOT_ENTRIES = 2**22

# A part of the uniform distribution smaller than this would drown, or vanish, as a number of float32.
LEAST_FLOOR = 1e-30


def mixed_scores(predictions: Predictions, inverse_temperature: float, uniform_share: float) -> FloatArray:
    r"""Return x = log q, (n, K), a new array in the float type of the scores.

    .. math:: q = (1 - \varepsilon) \,\mathrm{softmax}(a z) + \varepsilon / K

    Never overflows; the same for logits and for their softmax.

    >>> predictions = Predictions.from_logits([[0.0, -1e6]])
    >>> np.exp(mixed_scores(predictions, 1.0, 0.02))
    array([[0.99, 0.01]])
    """
    logits = predictions.logits
    result = np.empty(logits.shape, logits.dtype)  # row by row, however the logits are stored
    kind = logits.dtype.type
    floor = uniform_share / logits.shape[1]

    def fill(rows: slice) -> int:
        block = result[rows]
        with np.errstate(over="ignore"):
            np.subtract(logits[rows], row_maxima(logits[rows])[:, np.newaxis], out=block)
            block *= kind(inverse_temperature)
        np.maximum(block, kind(-FURTHEST), out=block)
        terms = np.exp(block)
        totals = row_sums(terms)
        if floor > LEAST_FLOOR:
            terms *= ((1 - uniform_share) / totals).astype(kind)[:, np.newaxis]
            terms += kind(floor)
            np.log(terms, out=block)
            return 1
        block -= np.log(totals)[:, np.newaxis]
        if floor > 0:
            np.logaddexp(block, kind(np.log(floor)), out=block)
        return 1

    with BlockSums.over(len(logits), logits.shape[1], logits.itemsize) as in_all_blocks:
        in_all_blocks(fill)
    return result


@dataclass(frozen=True, eq=False)
class MixedScores:
    """Calibration rows at their best temperature with the uniform mixed in: the centre of structured scaling.

    Attributes
    ----------
    inverse_temperature : float
        The best one; 1 where rows are all right and none is steep enough.
    uniform_share : float
        Weight of the uniform distribution.
    features : ndarray of shape (n, K)
        See :func:`mixed_scores`.
    labels : ndarray of shape (n,)
        Column number of the true class.
    weights : ndarray of shape (n,) or None
        Weights of the rows, which average at least one.
    identity_loss : float
        Mean log-loss of doing nothing.
    """

    inverse_temperature: float
    uniform_share: float
    features: FloatArray
    labels: NDArray[np.intp]
    weights: Vector | None
    identity_loss: float

    @classmethod
    def of(cls, data: LabelledPredictions, mixing: float) -> Self:
        """Find the temperature, apply it and mix."""
        tempered = fit_inverse_temperature(data, bounds=_bounds(data.predictions.logits))
        inverse_temperature = bounded_steepness(tempered)
        uniform_share = mixing / (data.total_weight + mixing)
        return cls(
            inverse_temperature,
            uniform_share,
            mixed_scores(data.predictions, inverse_temperature, uniform_share),
            data.labels,
            data.weights,
            tempered.identity_loss,
        )

    @property
    def total_weight(self) -> float:
        """Number of rows, or the sum of their weights."""
        return float(len(self.labels) if self.weights is None else self.weights.sum())

    def information(self, rows: slice) -> FloatArray:
        """Return the weight of every feature in some rows, (rows, K): q (1 - q), its variance, times that of the row."""
        features = self.features[rows].astype(np.float64)
        information: Vector = np.exp(features) * -np.expm1(features)
        if self.weights is not None:
            information *= self.weights[rows, np.newaxis]
        return information

    def segments(self, n_segments: int, row_knots: int) -> SharedSegments:
        """Return segments of equal information, at most so many, and knots among the means of the rows."""
        shares = np.arange(1, n_segments) / n_segments
        sample = self.thinned(max(1, self.features.size // KNOT_ENTRIES))
        segments = LinearSegments(weighted_quantiles(sample.features, sample.information, shares))
        return SharedSegments(segments, self._scales(row_knots) if row_knots else None)

    def thinned(self, step: int) -> Self:
        """Return one of every ``step`` rows, evenly from all kinds of them, whatever their order; all rows for one.

        The rows are sorted by what they hold, the mean feature first, and every ``step``-th is taken.
        """
        if step == 1:
            return self
        rows = self._sorted_rows[step // 2 :: step]
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, features=self.features[rows], labels=self.labels[rows], weights=weights)

    @cached_property
    def _sorted_rows(self) -> NDArray[np.intp]:
        """The rows in an order that depends on what they hold alone: mean, feature of the true class, and class."""
        totals = np.empty(len(self.labels))

        def fill(rows: slice) -> int:
            # In float64 and one row after the other: the sum of a row does not depend on where it is.
            self.features[rows].sum(axis=1, dtype=np.float64, out=totals[rows])
            return 1

        with BlockSums.over(len(totals), self.features.shape[1], self.features.itemsize) as in_all_blocks:
            in_all_blocks(fill)
        own = self.features[np.arange(len(totals)), self.labels]
        return np.lexsort((self.labels, own, totals))

    def _scales(self, n_knots: int) -> RowScales | None:
        """Return knots in the middle of so many parts of the rows, by their means; None where all rows have the same."""
        of_rows = np.empty((len(self.labels), 1), self.features.dtype)

        def fill(rows: slice) -> int:
            of_rows[rows, 0] = mean_features(self.features[rows])
            return 1

        with BlockSums.over(len(of_rows), self.features.shape[1], self.features.itemsize) as in_all_blocks:
            in_all_blocks(fill)

        def weights(rows: slice) -> FloatArray:
            return np.ones_like(of_rows[rows]) if self.weights is None else self.weights[rows, np.newaxis]

        knots = weighted_quantiles(of_rows, weights, (np.arange(n_knots) + 0.5) / n_knots)
        return RowScales(knots) if len(knots) > 1 else None


def _bounds(logits: FloatArray) -> tuple[float, float]:
    """Return where to look for the inverse temperature: around 1, and around that which makes logits of unit size."""
    with np.errstate(over="ignore", invalid="ignore"):
        size = float(np.mean(row_maxima(logits), dtype=np.float64)) - float(np.mean(logits, dtype=np.float64))
    sizes = [1.0, 1 / size] if 0 < size < np.inf else [1.0]
    return min(sizes) / REACH, max(sizes) * REACH
