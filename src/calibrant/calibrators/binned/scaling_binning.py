"""Scaling-binning: a fitted scaling map, replaced by its mean in every bin."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import clone

from calibrant.arrays import Vector
from calibrant.batches import (
    Summary,
    check_learns_batches,
    started_learner,
    updated_learner,
    without_batch_state,
)
from calibrant.binning import BinningScheme, Closed, EqualMass
from calibrant.binning.bins import check_n_bins
from calibrant.calibrator import Calibrator, Traits
from calibrant.calibrators.binned.merged_levels import KEPT_LEVELS, MOST_LEVELS, cell_starts, weight_per_row
from calibrant.calibrators.reductions.binary_method import BinaryMethod, EventCounts, OneVsRestBatches
from calibrant.calibrators.reductions.event_scores import EventScores, binary_problem
from calibrant.calibrators.scaling.platt import PlattScaling
from calibrant.errors import ParameterError
from calibrant.graph import Event
from calibrant.graph.curves import Piecewise
from calibrant.numerics.rounding import rounded_to, with_bits
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["ScalingBinning"]


@dataclass(frozen=True, eq=False)
class RepresentativeRows:
    """Distinct predictions of two columns, in order of their log-odds, each with the weight of the rows it represents.

    Up to 10,000 distinct rows are all kept. More are divided into about 5,000 cells of equal mass along the log-odds, and
    the row in the middle of each cell represents it. It is an observed row, not a mean: rows with the same log-odds can
    differ in raw logits.

    Examples
    --------
    >>> rows = RepresentativeRows.of(Predictions.from_probabilities([0.7, 0.2, 0.7]), None)
    >>> rows.predictions.scores[:, 1], rows.weights
    (array([0.2, 0.7]), array([1., 2.]))
    """

    predictions: Predictions
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, predictions: Predictions, weights: NDArray[np.float64] | None) -> Self:
        """Return what is kept of some rows; costs a sort."""
        scores, log_odds = predictions.scores, EventScores(predictions).log_odds
        weights = np.ones(len(scores)) if weights is None else weights
        order = np.lexsort((scores[:, 1], log_odds))
        # What has faded below the smallest float counts no more.
        order = order[weights[order] > 0]
        differs = (scores[order[1:]] != scores[order[:-1]]).any(axis=1)
        starts = np.flatnonzero(np.concatenate([[True], differs]))
        chosen, weights = order[starts], np.add.reduceat(weights[order], starts)
        if len(chosen) > MOST_LEVELS:
            upper = np.cumsum(weights)
            starts = cell_starts(weights, KEPT_LEVELS)
            last = np.append(starts[1:], len(chosen)) - 1
            middles = (upper[starts] - weights[starts] + upper[last]) / 2
            chosen = chosen[np.clip(np.searchsorted(upper, middles), starts, last)]
            weights = np.add.reduceat(weights, starts)
        return cls(predictions.take(chosen), weights)

    def with_batch(self, batch: "RepresentativeRows", kept: float) -> "RepresentativeRows":
        """Return what is kept of these rows, whose weights are multiplied by ``kept``, and of others."""
        own = self.predictions
        scores = np.vstack([own.scores, batch.predictions.scores])
        return self.of(
            Predictions(scores, own.space, None, own.declared_floor),
            np.concatenate([self.weights * kept, batch.weights]),
        )

    @classmethod
    def from_memory(cls, memory: dict[str, Any]) -> Self:
        """Return what :meth:`memory` stored."""
        predictions = Predictions(memory["scores"], Space(memory["space"]), None, memory["floor"])
        return cls(predictions, memory["weights"])

    def memory(self, n_rows: float) -> dict[str, Any]:
        """Return plain arrays and numbers that a file can hold."""
        return {
            "rows": float(n_rows),
            "scores": np.array(self.predictions.scores),
            "space": self.predictions.space.value,
            "floor": self.predictions.floor,
            "weights": self.weights,
        }


COUNTING_BITS = {4: 18, 8: 40}
"""Binary digits of an output that count, for scores of so many bytes."""


class _MapAndRows(EventCounts):
    """Batches for the map, and representative rows for its bins."""

    def check(self, calibrator: Any) -> None:
        calibrator._check_parameters()
        check_learns_batches({"scaling": calibrator.scaling}, "PlattScaling()")


class ScalingBinning(BinaryMethod):
    r"""Scaling-binning: fit a scaling map, then replace its outputs by their mean in each bin.

    .. math:: \hat q(s) = \frac{1}{W_b} \sum_{i \in b} w_i \, g(s_i), \qquad g(s) \in \text{bin } b

    with g fitted to the calibration set, and bins of equally many rows :cite:`kumar2019`. The values are means of the
    outputs of the map, not event frequencies, so they have the low variance of the map. But there are only B of
    them, so their calibration error can be estimated, which is impossible for a continuous map without assumptions.
    More than two classes are calibrated one-vs-rest.

    Parameters
    ----------
    scaling : Calibrator, optional
        The map g, any calibrator for two classes; :class:`~calibrant.PlattScaling` by default. ``partial_fit`` requires
        it to have ``partial_fit``.
    n_bins : int, default=100
        Largest number of bins, B; equal outputs share a bin. With a hundred bins the result is close to the map
        itself. With K classes the uppermost of B < K bins holds more rows than one class has, and accuracy
        collapses, as in published comparisons with 10 or 15.
    binning : scheme of :mod:`calibrant.binning`, optional
        A binning scheme of the outputs, which replaces ``n_bins``. The value of a bin without rows is its centre.

    Attributes
    ----------
    scaling_ : Calibrator
        The fitted map.
    edges_ : ndarray of shape (B + 1,)
        Ends of the bins of its outputs.
    closed_ : {"left", "right"}
        Which end of a bin belongs to it.
    values_ : ndarray of shape (B,)
        Mean output of every bin, increasing.
    complements_ : ndarray of shape (B,)
        One minus the values, with all digits where those are close to one.
    counts_ : ndarray of shape (B,)
        Number of calibration rows, or total weight, of every bin.
    one_vs_rest_ : OneVsRest
        For more than two classes, in place of all of the above; its ``calibrators_`` have them for each class.

    Notes
    -----
    The theory of :cite:`kumar2019` uses separate rows for the map, the edges and the values; its program, like this
    class, uses the same rows for all three. Outcomes enter only through the map, so there is little over-fitting. In the
    program bins are (a, b], with an edge after every n/B rows, even between equal outputs. PBMC in
    :cite:`tomani2022` and others is this method with Platt scaling for each class, without normalisation;
    :meth:`~calibrant.OneVsRest.class_probabilities` of ``OneVsRest(ScalingBinning())`` returns these.

    *Batches.* ``partial_fit`` updates the map with each batch, and recomputes the bins from its outputs for all rows so far.
    For this, up to 10,000 distinct rows are kept without their outcomes; of more, about 5,000 that represent cells of
    equal mass along the log-odds. The difference from a single fit is hardly larger than that of the map.

    Costs the fit of the map and a sort, O(n) memory; to predict, the map and O(n log B).

    Examples
    --------
    >>> p = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9]
    >>> y = [0, 1, 0, 0, 1, 0, 1, 1]
    >>> fitted = ScalingBinning(n_bins=2).fit(p, y)
    >>> fitted.values_.round(3)
    array([0.287, 0.713])
    >>> fitted.scaling_.predict_proba(p)[:4, 1].round(3)                    # 0.287 is the mean of these four
    array([0.146, 0.247, 0.336, 0.419])
    >>> fitted.predict_proba([0.05, 0.45, 0.55])[:, 1].round(3)
    array([0.287, 0.287, 0.713])
    """

    batches: ClassVar[Summary | None] = OneVsRestBatches(_MapAndRows())
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {"scaling-binning": {}}

    scaling_: Calibrator
    edges_: Vector
    closed_: Closed
    values_: Vector
    complements_: Vector
    counts_: Vector
    counting_bits_: int = COUNTING_BITS[8]
    """Binary digits of an output that count; 0 for all."""

    def __init__(
        self, scaling: Calibrator | None = None, n_bins: int = 100, binning: BinningScheme | None = None
    ) -> None:
        self.scaling = scaling
        self.n_bins = n_bins
        self.binning = binning

    @property
    def traits(self) -> Traits:  # type: ignore[override]
        """Dependence on raw logits follows from the map."""
        return Traits(
            uses_raw_logits=isinstance(self.scaling, Calibrator) and self.scaling.traits.uses_raw_logits
        )

    def _check_parameters(self) -> None:
        if self.scaling is not None and not isinstance(self.scaling, Calibrator):
            raise ParameterError(
                f"scaling must be a calibrator such as PlattScaling(), not {self.scaling!r}."
            )
        check_n_bins(self.n_bins)
        if self.binning is not None and (isinstance(self.binning, type) or not callable(self.binning)):
            raise ParameterError(
                f"binning must be a scheme such as calibrant.binning.EqualMass(100), not {self.binning!r}."
            )

    def _fit_event(self, scores: EventScores, outcomes: NDArray[np.bool_], weights: Vector | None) -> None:
        binary = binary_problem(scores.predictions, outcomes, weights)
        self.scaling_ = self._new_scaling().fit_labelled(binary)
        self._set_bins(scores, weights)

    def _event_memory(
        self, scores: EventScores, outcomes: NDArray[np.bool_], weights: Vector | None, n_rows: float
    ) -> dict[str, Any]:
        learner = started_learner(
            self._new_scaling(),
            binary_problem(scores.predictions, outcomes, weights),
            n_rows,
        )
        rows = RepresentativeRows.of(scores.predictions, weights)
        if n_rows != len(outcomes):
            # Before condensation all rows counted in full.
            self._use(learner, rows, n_rows)
        return rows.memory(n_rows) | {"learner": learner}

    def _update_event(
        self,
        scores: EventScores,
        outcomes: NDArray[np.bool_],
        weights: Vector | None,
        kept: float,
        n_rows: float,
    ) -> None:
        binary = binary_problem(scores.predictions, outcomes, weights)
        learner = updated_learner(self.memory_["learner"], binary, kept)
        batch = RepresentativeRows.of(scores.predictions, weights)
        rows = RepresentativeRows.from_memory(self.memory_).with_batch(batch, kept)
        self.memory_ = rows.memory(n_rows) | {"learner": learner}
        self._use(learner, rows, n_rows)

    def _new_scaling(self) -> Calibrator:
        scaling: Calibrator = PlattScaling() if self.scaling is None else clone(self.scaling)
        return scaling

    def _use(self, learner: Calibrator, rows: RepresentativeRows, n_rows: float) -> None:
        """Set the map of a learner, and bins of its outputs for rows that represent ``n_rows``."""
        # A learner that has seen only one outcome is the identity; its state says so.
        self.scaling_ = learner if learner._has_seen_one_class else without_batch_state(learner)
        self._set_bins(EventScores(rows.predictions), rows.weights / weight_per_row(rows.weights, n_rows))

    def _set_bins(self, scores: EventScores, weights: Vector | None) -> None:
        """Bin the outputs for these rows, and set the mean of each bin."""
        output, complement = self._output(scores)
        places = self._places(scores, output)
        partition = (EqualMass(self.n_bins) if self.binning is None else self.binning)(places, weights)
        # The bins average outputs instead of outcomes.
        of_outputs = partition.bins(places, output, weights)
        of_complements = partition.bins(places, complement, weights)
        self.edges_, self.closed_, self.counts_ = of_outputs.edges, partition.closed, of_outputs.weight
        centre = (np.clip(self.edges_[1:], 0, 1) + np.clip(self.edges_[:-1], 0, 1)) / 2
        self.values_ = np.where(of_outputs.filled, of_outputs.mean_outcome, centre)
        self.complements_ = np.where(of_outputs.filled, of_complements.mean_outcome, 1 - centre)

    def _traced_event(self, event: Event) -> Event:
        output = self.scaling_._mapped_event(replace(event, floor=self.scaling_.floor_)).probability
        thresholds = self.edges_[1:-1]
        if self.counting_bits_:
            thresholds = rounded_to(thresholds, self.counting_bits_, self.closed_)
        happens, fails = (
            output.then(Piecewise.steps(thresholds, values, self.closed_))
            for values in (self.values_, self.complements_)
        )
        return event.with_probability(happens, fails)

    def _output(self, scores: EventScores) -> tuple[Vector, Vector]:
        """Return the outputs of the map for the event and for its complement."""
        mapped = EventScores(self.scaling_.transform(scores.predictions))
        if mapped.predictions.space is Space.LOGITS:
            complement: Vector = expit(-mapped.log_odds)
            return mapped.probability, complement
        return mapped.probability, mapped.predictions.scores[:, 0].astype(np.float64)

    def _places(self, scores: EventScores, output: Vector) -> Vector:
        """Return the outputs with the bits that count.

        The rest of a class is a sum that rounds differently from row to row, and equal scores share a bin. Edges of one's
        own are met as they are.
        """
        bits = 0 if self.binning is not None else COUNTING_BITS[scores.predictions.scores.dtype.itemsize]
        self.counting_bits_ = bits
        return with_bits(output, bits) if bits else output
