"""Fit a calibrator to rows in partitions: the same classes, the same fitted attributes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from calibrant.arrays import Vector
from calibrant.calibrator import Calibrator
from calibrant.calibrators import (
    AutoCalibration,
    BayesianBinning,
    Chain,
    EnsembleTemperatureScaling,
    HistogramBinning,
    Identity,
    IsotonicCalibration,
    NearIsotonicCalibration,
    OneVsRest,
    VennAbersCalibration,
)
from calibrant.calibrators.combinators.auto.folds import n_trial_rows
from calibrant.calibrators.parametric import Parametric
from calibrant.calibrators.reductions.binary_method import BinaryMethod
from calibrant.calibrators.reductions.event_scores import AgainstRest, EventScores
from calibrant.distributed.opening import EngineName, source_of
from calibrant.distributed.source import PartitionedSource
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.rounding import cell_width
from calibrant.objective import RowSource
from calibrant.predictions import Predictions, read_only
from calibrant.registry import make
from calibrant.space import Space

__all__ = ["ClassLevels", "fit", "fit_counts", "fits_counts"]

Method = TypeVar("Method", bound=Calibrator)

# Maps that depend on the rows through the counts of events at every score.
BY_LEVELS = (
    IsotonicCalibration,
    VennAbersCalibration,
    NearIsotonicCalibration,
    HistogramBinning,
    BayesianBinning,
)

# Those and combinations of them; what else has ``fit_rows`` needs numbers of every row.
POSSIBLE = (Parametric, EnsembleTemperatureScaling, AutoCalibration, Identity, *BY_LEVELS)


def fit(
    calibrator: Method | str,
    frame: Any,
    *,
    label: str,
    columns: str | Sequence[str],
    space: str,
    sample_weight: str | None = None,
    key: str | None = None,
    classes: Sequence[Any] | None = None,
    engine: EngineName | None = None,
) -> Method:
    """Fit a calibrator to rows in partitions and return it, fitted.

    Parameters
    ----------
    calibrator : Calibrator or str
        The calibrator to fit, or its registry name.
    frame : object
        Paths of Parquet, CSV or Feather files, a pyarrow data set or table, a DuckDB relation, a data frame of Dask or Spark,
        or a list of delayed frames.
    label : str
        Column with the true class.
    columns : str or sequence of str
        Score columns: names, or a pattern such as ``p_*``; a single one is the score of the second class of two.
    space : {"probabilities", "logits"}
        Space of the scores.
    sample_weight : str, optional
        Column of weights.
    key : str, optional
        Column with groups of dependent rows, which folds keep together. By default the hash of the scores and the label
        of a row decides on its fold.
    classes : sequence of K labels, optional
        Labels of the columns, if neither column names nor labels tell.
    engine : {"local", "dask", "spark"}, optional
        Engine that reads paths: this process, the current client of Dask, or the current session of Spark.

    Returns
    -------
    Calibrator
        The calibrator itself, fitted.

    Notes
    -----
    Every pass sums contributions of the partitions. Workers hold one batch of about a million scores at a time, and the
    driver holds the sums. The number and order of partitions make no difference beyond the rounding of these sums.

    Parametric methods, ensemble temperature scaling and chains of them get the parameters of a fit in memory. Isotonic,
    Venn-Abers and binned maps see every different score as it is while a class has up to 65,536 of them (262,144 over K
    for more than four classes), and else its log-odds rounded to a multiple of 1/1024 (coarser for more than 16 classes).

    Examples
    --------
    >>> import pyarrow as pa
    >>> from calibrant import TemperatureScaling
    >>> table = pa.table({"p_0": [0.9] * 4, "p_1": [0.1] * 4, "y": [0, 0, 0, 1]})
    >>> fitted = fit(TemperatureScaling(), table, label="y", columns="p_*", space="probabilities")
    >>> round(fitted.temperature_, 6)
    2.0
    """
    method: Any = make(calibrator) if isinstance(calibrator, str) else calibrator
    _check_possible(method)
    source = source_of(frame, label, columns, space, sample_weight, key, classes, engine)
    _fit(method, source)
    fitted: Method = method
    return fitted


def _check_possible(method: Any) -> None:
    """Refuse what needs all rows at once, before anything is read."""
    if isinstance(method, Chain) and method.cross_fit is None:
        for stage in method.calibrators:
            _check_possible(stage)
    elif isinstance(method, OneVsRest):
        _check_possible(method.base)
    elif not isinstance(method, POSSIBLE):
        name = type(method).__name__ + ("(cross_fit=...)" if isinstance(method, Chain) else "")
        raise ParameterError(
            f"{name} needs all rows at once and cannot be fitted to partitions; fit TemperatureScaling, "
            "StructuredScaling, BetaCalibration or IsotonicCalibration there, or this one to a sample in memory."
        )


def _fit(method: Any, source: RowSource, *, warn_of_absent: bool = True) -> Any:
    if isinstance(method, BY_LEVELS):
        steps: Any = _fit_levels
    elif isinstance(method, Chain):
        steps = _fit_chain
    elif isinstance(method, AutoCalibration):
        steps = _fit_automatic
    elif isinstance(method, OneVsRest):
        steps = _fit_one_vs_rest
    elif isinstance(method, Identity):
        steps = _nothing
    else:
        steps = type(method)._fit_source
    return method._fit_from(source, lambda rows: steps(method, rows), warn_of_absent=warn_of_absent)


def fits_counts(method: Calibrator) -> bool:
    """Return whether a method depends on the rows through the counts of events at every score."""
    return isinstance(method, BY_LEVELS)


def fit_counts(method: Any, source: RowSource) -> None:
    """Fit such a method in one pass over any source of rows, with scores rounded as in :func:`fit` if they are many."""
    method._fit_from(source, lambda rows: _fit_levels(method, rows))


def _fit_levels(method: BinaryMethod, source: RowSource) -> None:
    """Fit every class to the counts of its scores, which one pass collects."""
    method._check_parameters()
    found = source.with_counting_weights().summed(ClassLevels.of).levels
    if source.n_classes == 2:
        method._fit(found[0].rows())
        return

    def fit_classes(rows: RowSource) -> None:  # noqa: ARG001 (the counts say it all)
        together.identity_kept_ = False
        together.calibrators_ = [clone(method).fit_labelled(levels.rows()) for levels in found]

    together = OneVsRest(clone(method))
    method.one_vs_rest_ = together._fit_from(source, fit_classes, warn_of_absent=False)


def _fit_one_vs_rest(method: OneVsRest, source: RowSource) -> None:
    method._fit_source(source, _fit)


def _fit_chain(method: Chain, source: RowSource) -> None:
    stages: list[Calibrator] = []
    for stage in method.calibrators:
        fitted = _fit(clone(stage), source, warn_of_absent=False)
        stages.append(fitted)
        source = source.mapped(
            lambda data, fitted=fitted: replace(  # type: ignore[misc]
                data, predictions=fitted.transform(data.predictions)
            )
        )
    method.calibrators_ = stages


def _fit_automatic(method: AutoCalibration, source: RowSource) -> None:
    """Try candidates on a sample chosen by hash, as of very many rows in memory, and fit those that are kept to all rows."""
    assert isinstance(source, PartitionedSource)
    source_of_counts = source.with_counting_weights()
    assert isinstance(source_of_counts, PartitionedSource)
    sample = source_of_counts.sample(n_trial_rows(source.n_classes))
    method._fit_trials(
        sample,
        source.n_rows,
        source_of_counts,
        lambda family, _: [
            _fit(clone(candidate.calibrator), source_of_counts, warn_of_absent=False) for candidate in family
        ],
    )


def _nothing(method: Identity, source: RowSource) -> None:
    """Fit the identity, which has nothing to learn."""


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
    The result for a set of rows does not depend on its partitions.
    """

    limit: int
    width: float  # Width of a cell of log-odds
    # Score of the event, and that of its complement as the imaginary part; log-odds for cells
    scores: NDArray[np.complex128]
    weights: NDArray[np.float64]  # (m, 2): weight of the rows without the event, and with it
    rounded: bool  # Whether these are cells
    is_logits: bool
    floor: float  # For logarithms of zeros

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
