"""The fits of structured scaling to the same rows, for one strength of the penalty after the other."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.scaling.temperature_fit import (
    bounded_steepness,
    fit_inverse_temperature,
    scrambled_key,
)
from calibrant.calibrators.structured.mixed_scores import mixed_scores
from calibrant.calibrators.structured.row_scales import RowScales, mean_features
from calibrant.calibrators.structured.shared_segments import SharedSegments
from calibrant.calibrators.structured.structured_curvature import StructuredCurvature
from calibrant.calibrators.structured.structured_map import StructuredMap
from calibrant.numerics.linear_segments import LinearSegments, summed_quantiles
from calibrant.numerics.reductions import row_maxima
from calibrant.objective import Block, Expansion, Family, FeatureRows, RowSource, logits
from calibrant.predictions import Predictions
from calibrant.solvers import Solution, newton_steps

__all__ = ["StructuredRows"]

FloatArray = NDArray[np.floating]
Vector = NDArray[np.float64]

# How far from usual an inverse temperature may be.
REACH = 1e3

# Of more features than this, knots are found from a sample of the rows.
KNOT_ENTRIES = 2**21

# Entries from which on float32 stays float32, and a sample of about so many finds a place to start from.
MANY_ENTRIES, SAMPLE_ENTRIES = 2**21, 2**20

# In nats, before the last step, which makes the remaining error about the square of it.
TOLERANCE, TOLERANCE_OF_FLOAT32, ROUGH = 1e-8, 1e-5, 1e-4


@dataclass(eq=False)
class StructuredRows:
    """Calibration rows at their best temperature with the uniform mixed in, and the fits to them.

    Fits share temperature, features and knots, and each starts where the last one ended.

    Attributes
    ----------
    inverse_temperature : float
        The best one; 1 where rows are all right and none is steep enough.
    uniform_share : float
        Weight of the uniform distribution.
    identity_loss : float
        Mean log-loss of the rows as they came.
    rows : FeatureRows
        See :func:`~calibrant.calibrators.structured.mixed_scores.mixed_scores`; weights average at least one.
    segments : SharedSegments or None
        Knots of the shared map.
    """

    inverse_temperature: float
    uniform_share: float
    identity_loss: float
    rows: FeatureRows
    segments: SharedSegments | None = None
    _last: Expansion | None = None
    _curvature: StructuredCurvature | None = None

    @classmethod
    def of(
        cls, source: RowSource, mixing: float, shared_map: bool, n_segments: int, row_knots: int
    ) -> "StructuredRows":
        """Find the temperature, apply it and mix; then find the knots."""
        source = source.with_counting_weights()
        raw = source.features(logits)
        tempered = fit_inverse_temperature(raw, bounds=_bounds(raw))
        inverse_temperature = bounded_steepness(tempered)
        uniform_share = mixing / (source.total_weight + mixing)

        def features(predictions: Predictions) -> FloatArray:
            return mixed_scores(predictions, inverse_temperature, uniform_share)

        found = cls(inverse_temperature, uniform_share, tempered.identity_loss, source.features(features))
        if shared_map:
            found.segments = found._shared_segments(n_segments, row_knots)
        if found.n_entries < MANY_ENTRIES:
            # Hessian products of float32 do not see directions that are nearly flat.
            found.rows = source.features(lambda given: features(given).astype(np.float64, copy=False))
        return found

    @property
    def n_entries(self) -> int:
        """Number of features of all rows."""
        return self.rows.n_rows * self.rows.n_columns

    def _shared_segments(self, n_segments: int, row_knots: int) -> SharedSegments:
        """Return segments of equal information, at most so many, and knots among the means of the rows."""
        rows, size = self.rows, KNOT_ENTRIES // self.rows.n_columns
        sample = rows if rows.n_rows <= size else rows.sample(size, scrambled_key)
        scores = LinearSegments(_quantiles(sample, np.arange(1, n_segments) / n_segments, _information))
        of_rows = None
        if row_knots:
            knots = _quantiles(rows, (np.arange(row_knots) + 0.5) / row_knots, _means)
            of_rows = RowScales(knots) if len(knots) > 1 else None
        return SharedSegments(scores, of_rows)

    def solve(self, family: Family) -> Solution:
        """Fit one penalty; the loss may be above that of the identity."""
        exact = self.rows.dtype == np.float64
        objective = family.objective(self.rows, exact=exact)
        if self._last is not None:
            # The same map, so that what is kept about the rows serves again.
            objective = self._last.objective.with_penalty(objective.penalty)
        with objective.open():
            if self._last is None:
                expansion = objective.expand(self._start(family))
            else:
                expansion = self._last.with_penalty_of(objective)
            solution, self._last, self._curvature = newton_steps(
                objective,
                expansion,
                family.lower(),
                tolerance=TOLERANCE if exact else TOLERANCE_OF_FLOAT32,
                curvature=self._curvature,
                confirm_runaway=True,
            )
            if expansion is not self._last:
                expansion.discard()
        return replace(solution, identity_loss=self.identity_loss)

    def _start(self, family: Family) -> Vector:
        """Return the identity; where entries are many, with the shared map that some of the rows lead to.

        They are enough for its few parameters, and are not for those of many classes.
        """
        logit_map = family.map
        start = logit_map.identity()
        if not isinstance(logit_map, StructuredMap) or self.segments is None or self.n_entries < MANY_ENTRIES:
            return start
        alone = StructuredMap(logit_map.n_classes, self.segments, None)
        penalty = family.mean_penalty(self.rows.total_weight)
        of_slopes = slice(alone.n_parameters)
        few = replace(
            family,
            map=alone,
            penalty=replace(
                penalty, strengths=penalty.strengths[of_slopes], center=penalty.center[of_slopes]
            ),
            penalty_in_rows=None,
        )
        sample = self.rows.sample(SAMPLE_ENTRIES // self.rows.n_columns, scrambled_key)
        objective = few.objective(sample, exact=False)
        with objective.open():
            found, _, _ = newton_steps(
                objective,
                objective.expand(alone.identity()),
                alone.lower(),
                tolerance=ROUGH,
                confirm_runaway=True,
            )
        start[of_slopes] = found.theta
        return start


def _quantiles(
    rows: FeatureRows, shares: Vector, weighted: Callable[[Block], tuple[FloatArray, FloatArray]]
) -> Vector:
    with rows.passes(rows.n_columns) as summed:
        return summed_quantiles(summed, weighted, shares, float(np.finfo(rows.dtype).eps))


def _information(block: Block) -> tuple[FloatArray, FloatArray]:
    """Return all features, weighted by q (1 - q), their variance, times the weight of the row."""
    features = block.features.astype(np.float64)
    return block.features, block.weighted(np.exp(features) * -np.expm1(features))


def _means(block: Block) -> tuple[FloatArray, FloatArray]:
    """Return the mean feature of every row, and its weight."""
    means = mean_features(block.features)
    return means, block.weighted(np.ones(len(means)))


def _bounds(rows: FeatureRows) -> tuple[float, float]:
    """Return where to look for the inverse temperature: around 1, and around that which makes logits of unit size."""

    def sums(block: Block) -> Vector:
        tops = row_maxima(block.features).sum(dtype=np.float64)
        return np.array([tops, block.features.sum(dtype=np.float64)])

    with np.errstate(over="ignore", invalid="ignore"), rows.passes(rows.n_columns) as summed:
        tops, total = summed(sums) / rows.n_rows
        size = float(tops - total / rows.n_columns)
    sizes = [1.0, 1 / size] if 0 < size < np.inf else [1.0]
    return min(sizes) / REACH, max(sizes) * REACH
