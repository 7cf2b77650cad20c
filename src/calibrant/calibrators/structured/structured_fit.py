"""The fits of structured scaling to the same rows, for one strength of the penalty after the other."""

from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.structured.mixed_scores import MixedScores
from calibrant.calibrators.structured.structured_curvature import StructuredCurvature
from calibrant.calibrators.structured.structured_map import ClassTerms, StructuredMap
from calibrant.calibrators.structured.structured_objective import StructuredExpansion, StructuredObjective
from calibrant.calibrators.structured.structured_penalty import StructuredPenalty
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.solvers import Solution
from calibrant.solvers.projected_newton import projected_newton

__all__ = ["StructuredFits"]

Vector = NDArray[np.float64]

# Entries from which on float32 stays float32, and a sample of about so many finds a place to start from.
MANY_ENTRIES, SAMPLE_ENTRIES = 2**21, 2**20

# In nats, before the last step, which makes the remaining error about the square of it.
TOLERANCE, TOLERANCE_OF_FLOAT32, ROUGH = 1e-8, 1e-5, 1e-4


@dataclass(eq=False)
class StructuredFits:
    """Fits to the same rows: they share temperature, features and knots, and each starts where the last one ended.

    Attributes
    ----------
    rows : MixedScores
        Temperature and features.
    map : StructuredMap
        From features to calibrated logits.
    slope_penalty, difference_penalty : float
        Prices of the shared map.
    """

    rows: MixedScores
    map: StructuredMap
    slope_penalty: float
    difference_penalty: float
    _last: StructuredExpansion | None = None
    _curvature: StructuredCurvature | None = None

    @classmethod
    def to(
        cls,
        data: LabelledPredictions,
        class_terms: ClassTerms,
        shared_map: bool,
        n_segments: int,
        row_knots: int,
        slope_penalty: float,
        difference_penalty: float,
        mixing: float,
    ) -> "StructuredFits":
        """Find what all fits have in common."""
        data = data.with_counting_weights()
        rows = MixedScores.of(data, mixing)
        segments = rows.segments(n_segments, row_knots) if shared_map else None
        logit_map = StructuredMap(data.n_classes, segments, class_terms)
        return cls(rows, logit_map, slope_penalty, difference_penalty)

    def solve(self, strength: float) -> Solution:
        """Fit for one strength; the loss may be above that of the identity."""
        objective = self._objective(strength)
        with objective.open():
            if self._last is None:
                expansion = objective.expand(self._start())
            else:
                expansion = cast(StructuredExpansion, self._last.with_penalty_of(objective))
            solution, self._last, self._curvature = projected_newton(
                objective,
                expansion,
                self.map.lower,
                tolerance=TOLERANCE if objective.exact else TOLERANCE_OF_FLOAT32,
                curvature=self._curvature,
            )
        return replace(solution, identity_loss=self.rows.identity_loss)

    def _penalty(self, logit_map: StructuredMap, strength: float) -> StructuredPenalty:
        return StructuredPenalty.of(
            logit_map, self.rows.total_weight, strength, self.slope_penalty, self.difference_penalty
        )

    def _objective(self, strength: float) -> StructuredObjective:
        penalty = self._penalty(self.map, strength)
        if self._last is not None:
            return self._last.objective.repriced(penalty)
        rows, features = self.rows, self.rows.features
        if features.size < MANY_ENTRIES:
            # Hessian products of float32 do not see directions that are nearly flat.
            features = features.astype(np.float64, copy=False)
        exact = features.dtype == np.float64
        return StructuredObjective(self.map, features, rows.labels, rows.weights, penalty, exact=exact)

    def _start(self) -> Vector:
        """Return the identity; where entries are many, with the shared map that some of the rows lead to.

        They are enough for its few parameters, and are not for those of many classes.
        """
        start = self.map.identity()
        if self.map.segments is None or self.rows.features.size < MANY_ENTRIES:
            return start
        alone = StructuredMap(self.map.n_classes, self.map.segments, None)
        sample = self.rows.thinned(self.rows.features.size // SAMPLE_ENTRIES)
        objective = StructuredObjective(
            alone, sample.features, sample.labels, sample.weights, self._penalty(alone, 0.0), exact=False
        )
        with objective.open():
            found, _, _ = projected_newton(
                objective, objective.expand(alone.identity()), alone.lower, tolerance=ROUGH
            )
        start[: self.map.n_slopes] = found.theta
        return start
