"""Rows of structured scaling: features, temperature and knots that fits share, and where these start."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from calibrant.arrays import FloatArray, Vector
from calibrant.calibrators.scaling.temperature_fit import (
    bounded_steepness,
    fit_inverse_temperature,
    scrambled_key,
)
from calibrant.calibrators.structured.shared_segments import RowScales, SharedSegments, mean_features
from calibrant.calibrators.structured.structured_map import StructuredMap
from calibrant.graph import TracedPredictions, Value
from calibrant.numerics.linear_segments import LinearSegments, summed_quantiles
from calibrant.numerics.reductions import row_maxima
from calibrant.objective import Block, Expansion, Family, FeatureRows, RowSource, logits
from calibrant.objective.curvature import Curvature
from calibrant.objective.family import Features
from calibrant.solvers import Solution, newton_steps

__all__ = ["TOLERANCE_OF_TRIALS", "NearbyPath", "StructuredRows", "mixed_scores"]


# Gaps to the largest logit are clipped here, so that products with them stay finite in float32.
FURTHEST = 1e30

# A smaller uniform share would underflow in float32.
LEAST_FLOOR = 1e-30


def mixed_scores(inverse_temperature: float, uniform_share: float) -> Features:
    r"""Return the features x = log q of a row.

    .. math:: q = (1 - \varepsilon) \,\mathrm{softmax}(a z) + \varepsilon / K

    Never overflows; the same for logits and for their softmax.

    >>> from calibrant import Predictions
    >>> predictions = Predictions.from_logits([[0.0, -1e6]])
    >>> np.exp(mixed_scores(1.0, 0.02)(predictions))
    array([[0.99, 0.01]])
    """

    def formula(given: TracedPredictions) -> Value:
        logits = given.logits
        gaps = ((logits - logits.row("max")) * inverse_temperature).clip(low=-FURTHEST)
        floor = uniform_share / given.n_classes
        if floor > LEAST_FLOOR:
            return gaps.softmax().affine(1 - uniform_share, floor).log(floor / 2)
        tempered = gaps.log_softmax()
        if floor == 0:
            return tempered
        # log(e^x + floor), the larger of the two plus the softplus of their negative distance.
        above = tempered - float(np.log(floor))
        return tempered.maximum(tempered.affine(0.0, np.log(floor))) + (
            above.function("absolute") * -1.0
        ).function("softplus")

    return Features(formula)


# Bounds of the inverse temperature, relative to a start.
REACH = 1e3

# Beyond this number of features, knots come from a sample of the rows.
KNOT_ENTRIES = 2**21

# Entries from which on float32 stays float32, and size of the sample for a start.
MANY_ENTRIES, SAMPLE_ENTRIES = 2**21, 2**20

# In nats, before the last step, after which the error is about the square of it.
TOLERANCE, TOLERANCE_OF_FLOAT32 = 1e-8, 1e-5

# Of starts, and of fits that only have to be compared.
ROUGH = 1e-4
TOLERANCE_OF_TRIALS = 1e-3


@dataclass(frozen=True, eq=False)
class NearbyPath:
    """A regularisation path of overlapping rows, such as those of another fold, at which another path starts."""

    thetas: dict[float, Vector]  # by regularisation strength
    curvature: Curvature | None

    def start(self, strength: float, last: tuple[float, Vector] | None, size: int) -> Vector | None:
        """Return a start: the nearby parameters, moved as the last strength of this path is from the nearby one."""
        found = self.thetas.get(strength)
        if found is None or len(found) != size:
            return None
        return found if last is None else found + (last[1] - self.thetas[last[0]])


@dataclass(eq=False)
class StructuredRows:
    """Features of the calibration set, at its best temperature and mixed with the uniform distribution, and fits to them.

    Fits share temperature, features and knots, and have warm starts.
    """

    inverse_temperature: float  # 1 if it diverges because all rows are correct
    uniform_share: float
    identity_loss: float
    rows: FeatureRows  # with weights that average at least one
    segments: SharedSegments | None = None
    nearby: NearbyPath | None = None
    least_tolerance: float = 0.0
    _last: Expansion | None = None
    _last_strength: float = np.nan
    _thetas: dict[float, Vector] = field(default_factory=dict)
    _curvature: Curvature | None = None

    @classmethod
    def of(
        cls, source: RowSource, mixing: float, shared_map: bool, n_segments: int, row_knots: int
    ) -> "StructuredRows":
        """Fit and apply the temperature, mix with the uniform distribution, and place the knots."""
        source = source.with_counting_weights()
        raw = source.features(logits)
        tempered = fit_inverse_temperature(raw, bounds=_bounds(raw))
        inverse_temperature = bounded_steepness(tempered)
        uniform_share = mixing / (source.total_weight + mixing)
        features = mixed_scores(inverse_temperature, uniform_share)
        found = cls(inverse_temperature, uniform_share, tempered.identity_loss, source.features(features))
        if shared_map:
            found.segments = found._shared_segments(n_segments, row_knots)
        if found.n_entries < MANY_ENTRIES:
            # Hessian products in float32 lose nearly flat directions.
            # Of few classes they come column by column, which every pass would copy.
            found.rows = found.rows.mapped(features=lambda x: np.ascontiguousarray(x, np.float64))
        return found

    @property
    def n_entries(self) -> int:
        """Number of features of all rows."""
        return self.rows.n_rows * self.rows.n_columns

    @property
    def path(self) -> NearbyPath:
        """The fitted path, as the start of another one."""
        return NearbyPath(self._thetas, self._curvature)

    def _shared_segments(self, n_segments: int, row_knots: int) -> SharedSegments:
        """Return up to ``n_segments`` segments of equal information, and knots among the means of the rows."""
        rows, size = self.rows, KNOT_ENTRIES // self.rows.n_columns
        sample = rows if rows.n_rows <= size else rows.sample(size, scrambled_key)
        shares = np.arange(1, n_segments) / n_segments
        scores = LinearSegments(_quantiles(sample, shares, lambda block: block.features, _information))
        of_rows = None
        if row_knots:
            shares = (np.arange(row_knots) + 0.5) / row_knots
            knots = _quantiles(
                rows,
                shares,
                lambda block: mean_features(block.features),
                lambda block: block.weighted(np.ones(len(block.labels))),
            )
            of_rows = RowScales(knots) if len(knots) > 1 else None
        return SharedSegments(scores, of_rows)

    def solve(self, family: Family, strength: float) -> Solution:
        """Fit one strength; the loss may exceed that of the identity."""
        exact = self.rows.dtype == np.float64
        start = self._nearby_start(family, strength)
        objective = family.objective(self.rows, exact=exact)
        if self._last is not None:
            # The same map, so that cached features are reused.
            objective = self._last.objective.with_penalty(objective.penalty)
        with objective.open():
            if start is not None:
                expansion = objective.expand(start)
            elif self._last is None:
                expansion = objective.expand(self._start(family))
            else:
                expansion = self._last.with_penalty_of(objective)
            solution, self._last, self._curvature = newton_steps(
                objective,
                expansion,
                family.lower(),
                tolerance=max(TOLERANCE if exact else TOLERANCE_OF_FLOAT32, self.least_tolerance),
                curvature=self._curvature,
                confirm_runaway=True,
            )
            self._last_strength = strength
            self._thetas[strength] = solution.theta
            if expansion is not self._last:
                expansion.discard()
        return replace(solution, identity_loss=self.identity_loss)

    def _nearby_start(self, family: Family, strength: float) -> Vector | None:
        """Return a start from the nearby path; None if there is none, or it has other parameters."""
        if self.nearby is None:
            return None
        last = None if self._last is None else (self._last_strength, self._last.theta)
        start = self.nearby.start(strength, last, len(family.map.identity()))
        if start is None:
            return None
        if self._curvature is None:
            self._curvature = self.nearby.curvature
        return np.maximum(start, family.lower())

    def _start(self, family: Family) -> Vector:
        """Return the start: the identity, or for many entries the shared map of a sample.

        A sample suffices for the few parameters of the shared map, and not for class-wise terms.
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
    rows: FeatureRows,
    shares: Vector,
    values: Callable[[Block], FloatArray],
    weights: Callable[[Block], FloatArray],
) -> Vector:
    with rows.passes(rows.n_columns) as summed:
        return summed_quantiles(summed, values, weights, shares, float(np.finfo(rows.dtype).eps))


def _information(block: Block) -> FloatArray:
    """Return q (1 - q), the variance of every feature, times the weight of the row."""
    features = block.features.astype(np.float64)
    return block.weighted(np.exp(features) * -np.expm1(features))


def _bounds(rows: FeatureRows) -> tuple[float, float]:
    """Return bounds of the inverse temperature that contain 1 and a value that gives logits of unit size."""

    def sums(block: Block) -> Vector:
        tops = row_maxima(block.features).sum(dtype=np.float64)
        return np.array([tops, block.features.sum(dtype=np.float64)])

    with np.errstate(over="ignore", invalid="ignore"), rows.passes(rows.n_columns) as summed:
        tops, total = summed(sums) / rows.n_rows
        size = float(tops - total / rows.n_columns)
    sizes = [1.0, 1 / size] if 0 < size < np.inf else [1.0]
    return min(sizes) / REACH, max(sizes) * REACH
