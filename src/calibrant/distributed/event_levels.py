"""Levels of scores: counts of the events of every class at every score, as a sketch that merges."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Vector
from calibrant.calibrators.reductions.event_scores import AgainstRest, EventScores
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.log_odds_cells import cell_width
from calibrant.predictions import Predictions, read_only
from calibrant.space import Space

__all__ = ["ClassLevels", "EventLevels"]

# Different scores of one class, and of all together, that are kept as they are; of more, log-odds are rounded to cells.
EXACT_LEVELS, EXACT_LEVELS_OF_ALL = 2**16, 2**18

# Cells up to this far apart are told apart by a table instead of a sort.
LARGEST_SPAN = 2**18


def exact_levels(n_classes: int) -> int:
    """Return up to how many different scores of a class are kept as they are.

    >>> exact_levels(2), exact_levels(10)
    (65536, 26214)
    """
    return min(EXACT_LEVELS, EXACT_LEVELS_OF_ALL // n_classes)


@dataclass(frozen=True, eq=False)
class EventLevels:
    """Weights of the rows of one event at each of its scores; two of them add up, whatever the order.

    Up to ``limit`` different scores are kept as they are. Of more, the log-odds are rounded to multiples of ``width``.
    What becomes of a set of rows does not depend on how it was divided.

    Attributes
    ----------
    limit : int
    width : float
        Width of a cell of log-odds.
    scores : ndarray of complex, shape (m,)
        Score of the event, and that of its complement as the imaginary part; log-odds for cells.
    weights : ndarray of shape (m, 2)
        Weight of the rows without the event, and with it.
    rounded : bool
        Whether these are cells.
    is_logits : bool
    floor : float
        For logarithms of zeros.
    """

    limit: int
    width: float
    scores: NDArray[np.complex128]
    weights: NDArray[np.float64]
    rounded: bool
    is_logits: bool
    floor: float

    @classmethod
    def of(
        cls, pair: Predictions, happened: NDArray[np.bool_], weights: Vector | None, n_classes: int
    ) -> Self:
        """Count the rows of two columns: the rest and the event."""
        is_logits = pair.space is Space.LOGITS
        if is_logits:
            scores = EventScores(pair).log_odds.astype(np.complex128)
        else:
            scores = pair.scores[:, 1] + 1j * pair.scores[:, 0].astype(np.float64)
        counted = np.zeros((len(scores), 2))
        counted[np.arange(len(scores)), happened.astype(np.intp)] = 1.0 if weights is None else weights
        limit, width = exact_levels(n_classes), cell_width(n_classes)
        return cls(limit, width, scores, counted, False, is_logits, pair.floor)._grouped()

    def __add__(self, other: Self) -> Self:
        first, second = (self, other) if self.rounded == other.rounded else (self._cells(), other._cells())
        return replace(
            first,
            scores=np.concatenate([first.scores, second.scores]),
            weights=np.concatenate([first.weights, second.weights]),
        )._grouped()

    def _grouped(self) -> Self:
        if self.rounded:
            scores, place = _distinct_cells(self.scores.real)
        else:
            # Real numbers are sorted much faster than pairs.
            if len(self.scores) > self.limit and len(np.unique(self.scores.real)) > self.limit:
                return self._cells()
            scores, place = np.unique(self.scores, return_inverse=True)
            if len(scores) > self.limit:
                return self._cells()
        counted = [np.bincount(place, column, len(scores)) for column in self.weights.T]
        weights = np.stack(counted, axis=1).astype(np.float64, copy=False)
        return replace(self, scores=scores.astype(np.complex128, copy=False), weights=weights)

    def _cells(self) -> Self:
        if self.rounded:
            return self
        log_odds = self.scores.real
        if not self.is_logits:
            pair = np.stack([self.scores.imag, self.scores.real], axis=1)
            log_odds = EventScores(Predictions(pair, Space.PROBABILITIES, None, self.floor)).log_odds
        cells = np.round(log_odds / self.width)
        return replace(self, scores=cells.astype(np.complex128), rounded=True)._grouped()

    def rows(self) -> LabelledPredictions:
        """Return at most two weighted rows of every level, in the space of the scores."""
        outcomes, levels = np.nonzero(self.weights.T)
        scores = self.scores[levels]
        if self.is_logits or self.rounded:
            log_odds = scores.real * (self.width if self.rounded else 1.0)
            given = Predictions(
                read_only(np.stack([np.zeros_like(log_odds), log_odds], axis=1)),
                Space.LOGITS,
                None,
                self.floor,
            )
            if not self.is_logits:
                given = Predictions(given.probabilities, Space.PROBABILITIES, None, self.floor)
        else:
            pair = np.stack([scores.imag, scores.real], axis=1)
            given = Predictions(read_only(pair), Space.PROBABILITIES, None, self.floor)
        return LabelledPredictions(given, outcomes, np.arange(2), self.weights[levels, outcomes])


def _distinct_cells(cells: Vector) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the sorted distinct cells, and the place of every cell among them; without a sort if they are close together."""
    first, last = cells.min(initial=0.0), cells.max(initial=0.0)
    if last - first > LARGEST_SPAN:
        return np.unique(cells, return_inverse=True)
    numbers = (cells - first).astype(np.intp)
    occurs = np.zeros(int(last - first) + 1, dtype=np.bool_)
    occurs[numbers] = True
    distinct = np.flatnonzero(occurs)
    return distinct + first, (np.cumsum(occurs) - 1)[numbers]


@dataclass(frozen=True, eq=False)
class ClassLevels:
    """:class:`EventLevels` of every class against the rest, or of the second class of two."""

    levels: tuple[EventLevels, ...]

    @classmethod
    def of(cls, data: LabelledPredictions) -> Self:
        """Count the rows of a batch for every class."""
        n_classes = data.n_classes
        if n_classes == 2:
            return cls((EventLevels.of(data.predictions, data.labels == 1, data.weights, n_classes),))
        against = AgainstRest(data.predictions)
        return cls(
            tuple(
                EventLevels.of(against.column(column), data.labels == column, data.weights, n_classes)
                for column in range(n_classes)
            )
        )

    def __add__(self, other: Self) -> Self:
        return type(self)(
            tuple(mine + theirs for mine, theirs in zip(self.levels, other.levels, strict=True))
        )
