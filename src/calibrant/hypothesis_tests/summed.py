"""Tests of calibration from sums over rows: for batches of a file, and for partitions on many machines."""

from dataclasses import dataclass
from math import sqrt
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import AnyArray, IntArray, Matrix, Vector
from calibrant.errors import ParameterError
from calibrant.hypothesis_tests.cumulative import ClasswiseTests, NullDistribution, adjusted_p_values
from calibrant.hypothesis_tests.result import TestResult
from calibrant.hypothesis_tests.slope_intercept import (
    IntervalMethod,
    LogisticLine,
    LogOdds,
    SlopeIntercept,
    finite_log_odds,
    fitted_line,
)
from calibrant.hypothesis_tests.spiegelhalter import SpiegelhalterSums
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics.utility import OneClass, TopClasses, Utility
from calibrant.numerics.cumulative import RANGE
from calibrant.numerics.rounding import cell_width
from calibrant.presentation.sentences import class_text

__all__ = ["TestSums"]

# Log-odds beyond this, odds of 1e27 to one, count as this.
LARGEST_LOG_ODDS = 64.0


class TestSums:
    r"""Tests of calibration from sums over rows, in constant memory, for batches or for many machines.

    Spiegelhalter's z is a ratio of sums over rows, and exact. For the other tests the rows of an event are added up in cells:
    log-odds rounded to multiples of :math:`h = 1/1024`, or :math:`h = 2^{\lceil \log_2 (K / 16) \rceil} / 1024` for more than
    16 classes. Sums of two sets of rows add up with ``+``, in any order.

    Use :meth:`of_rows`.

    Attributes
    ----------
    classes : ndarray of shape (K,)
        Label of every column.
    n_rows : int
        Number of rows so far; those of weight zero do not count.

    Notes
    -----
    *Kuiper's test.* Residuals and variances are exact sums, and the path of cumulative residuals is observed at the ends of the
    cells, for which the null distribution accounts. The statistic is at most that of all rows, and smaller by at most the
    largest absolute sum of residuals within a cell, twice.

    *Slope and intercept* are those of rows whose log-odds are rounded to the cells, so that they move by at most h / 2.

    Log-odds beyond 64 count as 64. Memory is one row of six numbers for every cell between the smallest and the largest
    log-odds, about one megabyte for an event.

    Examples
    --------
    >>> first = TestSums.of_rows([1] * 80 + [0] * 20, [0.9] * 100)
    >>> both = first + TestSums.of_rows([1] * 20 + [0] * 80, [0.1] * 100)
    >>> round(both.slope_intercept().slope.value, 3), round(float(np.log(4) / np.log(9)), 3)
    (0.631, 0.631)
    >>> both.spiegelhalter().n_rows
    200
    """

    __test__ = False  # pytest must not collect it

    def __init__(
        self,
        classes: AnyArray,
        n_rows: int,
        brier: SpiegelhalterSums,
        event: "EventCells",
        by_class: "tuple[EventCells, ...]",
    ) -> None:
        self.classes, self.n_rows = classes, n_rows
        self._brier, self._event, self._by_class = brier, event, by_class

    @classmethod
    def of_rows(
        cls, y_true: Any, y_proba: Any, *, sample_weight: Any = None, classwise: bool = False
    ) -> Self:
        """Return the sums of some rows.

        Parameters
        ----------
        y_true : array of shape (n,)
            True classes: column numbers, or labels that match the columns.
        y_proba : array, frame or Predictions
            Probabilities (n, K), or (n,) or (n, 1) for the positive class of two.
        sample_weight : array of shape (n,), optional
            Importance of each row, as for the tests of rows in memory.
        classwise : bool, default=False
            Whether to add up every class too, for :meth:`classwise`.
        """
        return cls.of(LabelledPredictions.parse(y_proba, y_true, sample_weight), classwise=classwise)

    @classmethod
    def of(cls, data: LabelledPredictions, *, classwise: bool = False) -> Self:
        """Return the sums of parsed rows."""
        log_odds, two = LogOdds(data.predictions), data.n_classes == 2
        return cls(
            data.classes,
            data.n_rows,
            SpiegelhalterSums.of(data),
            EventCells.of(data, log_odds, 1 if two else None),
            tuple(
                EventCells.of(data, log_odds, column)
                for column in (range(data.n_classes) if classwise and not two else ())
            ),
        )

    def __add__(self, other: object) -> "TestSums":
        """Return the sums of both sets of rows."""
        if not isinstance(other, TestSums):
            return NotImplemented
        if not np.array_equal(self.classes, other.classes) or len(self._by_class) != len(other._by_class):
            raise ParameterError(
                "only sums of the same classes can be added; give both the same columns and classwise."
            )
        return TestSums(
            self.classes,
            self.n_rows + other.n_rows,
            self._brier + other._brier,
            self._event + other._event,
            tuple(one + another for one, another in zip(self._by_class, other._by_class, strict=True)),
        )

    @property
    def event(self) -> str:
        """The event of :meth:`cumulative` and :meth:`slope_intercept`: the second class of two, or the predicted class."""
        return class_text(self.classes[1]) if len(self.classes) == 2 else "predicted class"

    def spiegelhalter(self) -> TestResult:
        """Return Spiegelhalter's z-test, that of all rows."""
        return self._brier.result(self.n_rows)

    def cumulative(self) -> TestResult:
        """Return Kuiper's test of the predicted class, or of the second class of two."""
        claim = (OneClass(1) if len(self.classes) == 2 else TopClasses()).claim
        return self._event.kuiper(self.event, claim, self.n_rows)

    @property
    def has_classes(self) -> bool:
        """Whether every class was added up."""
        return bool(self._by_class)

    def classwise(self) -> ClasswiseTests:
        """Return Kuiper's test of every class, with p-values adjusted after Holm."""
        if not self.has_classes:
            raise ParameterError(
                "classes were not added up; pass classwise=True."
                if len(self.classes) > 2
                else "two classes are one event; call cumulative."
            )
        results = tuple(
            cells.kuiper(name, f"{name} occurs as often as its probability says", self.n_rows)
            for cells, name in zip(self._by_class, map(class_text, self.classes), strict=True)
        )
        return ClasswiseTests(
            self.classes, results, adjusted_p_values([result.p_value for result in results], "kuiper")
        )

    def slope_intercept(self, *, level: float = 0.95, interval: IntervalMethod = "wald") -> SlopeIntercept:
        """Return calibration slope and intercept of the predicted class, or of the second class of two."""
        return self._event.line(self.event, level, interval, self.n_rows)

    def __repr__(self) -> str:
        return f"TestSums({len(self.classes)} classes, {self.n_rows} rows)"


@dataclass(frozen=True, eq=False)
class EventCells:
    """Sums over the rows of one event in cells of its log-odds; two of them add up.

    Attributes
    ----------
    width : float
        Width of a cell.
    first : int
        Number of the first cell.
    sums : ndarray of shape (m, 6)
        For every cell from the first on: the weights of rows in which the event occurred and of the others, the squares
        of both, the weighted probabilities, and the variances times squared weights.
    ends : ndarray of shape (2, 6)
        The same of rows with a probability of exactly 0, and of exactly 1.
    n_certain : int
        Number of these rows.
    largest_weight : float
    """

    width: float
    first: int
    sums: Matrix
    ends: Matrix
    n_certain: int
    largest_weight: float

    @classmethod
    def of(cls, data: LabelledPredictions, log_odds: LogOdds, column: int | None) -> Self:
        """Add up the rows of the class of a column, or of the predicted class."""
        utility: Utility = TopClasses() if column is None else OneClass(column)
        prospect = utility.prospect(data.predictions)
        occurred = np.asarray(prospect.realised(data.labels), dtype=bool)
        values, width = log_odds.with_infinities(column), cell_width(data.n_classes)
        certain = np.isinf(values)
        n_certain = int(np.count_nonzero(certain))
        columns = (occurred, prospect.expected, prospect.variance, data.weights)
        ends = np.zeros((2, 6))
        if n_certain:
            kept = ~certain
            ends = _added((values[certain] > 0).astype(np.intp), 2, *_taken(columns, certain))
            values, columns = values[kept], _taken(columns, kept)
        numbers = np.rint(np.clip(values, -LARGEST_LOG_ODDS, LARGEST_LOG_ODDS) / width).astype(np.intp)
        first, last = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, -1)
        sums = _added(numbers - first, last - first + 1, *columns)
        largest = 1.0 if data.weights is None else float(data.weights.max())
        return cls(width, first, sums, ends, n_certain, largest)

    def __add__(self, other: Self) -> Self:
        parts = [part for part in (self, other) if len(part.sums)] or [self]
        first = min(part.first for part in parts)
        sums = np.zeros((max(part.first + len(part.sums) for part in parts) - first, 6))
        for part in parts:
            sums[part.first - first :][: len(part.sums)] += part.sums
        return type(self)(
            self.width,
            first,
            sums,
            self.ends + other.ends,
            self.n_certain + other.n_certain,
            max(self.largest_weight, other.largest_weight),
        )

    def _levels(self) -> tuple[Vector, Matrix]:
        """Return the log-odds and the sums of all cells with rows, from the lowest to the highest."""
        numbers = (self.first + np.arange(len(self.sums))) * self.width
        log_odds = np.concatenate([[-np.inf], numbers, [np.inf]])
        sums = np.concatenate([self.ends[:1], self.sums, self.ends[1:]])
        filled = sums[:, 2:4].sum(axis=1) > 0
        return log_odds[filled], sums[filled]

    def kuiper(self, event: str, claim: str, n_rows: int) -> TestResult:
        """Return Kuiper's test."""
        _, sums = self._levels()
        total = float(sums[:, :2].sum())
        path = np.cumsum(sums[:, 0] - sums[:, 4]) / total
        variances = np.cumsum(sums[:, 5]) / total**2
        n_varying = float(variances[-1]) * (total / self.largest_weight) ** 2
        steps = np.diff(variances, prepend=0.0)
        null = NullDistribution(RANGE, sqrt(variances[-1]), steps, n_varying)
        name = f"Cumulative test (statistic=kuiper, {event}, log-odds in cells of {self.width:g})"
        return null.test_of(path, name, claim, n_rows)

    def line(self, event: str, level: float, interval: IntervalMethod, n_rows: int) -> SlopeIntercept:
        """Return slope and intercept."""
        log_odds, sums = self._levels()
        scores = np.tile(finite_log_odds(log_odds, event), 2)
        outcomes = np.repeat([True, False], len(log_odds))
        weights, squares = sums[:, :2].T.ravel(), sums[:, 2:4].T.ravel()
        counts = weights > 0
        scale = weights.sum() / squares.sum()
        regression = LogisticLine(
            scores[counts], outcomes[counts], weights[counts] * scale, squares[counts] * scale**2, n_rows
        )
        return fitted_line(regression, event, level, interval, self.n_certain)


def _taken(columns: tuple[Any, ...], rows: NDArray[np.bool_]) -> tuple[Any, ...]:
    return tuple(None if column is None else column[rows] for column in columns)


def _added(
    cells: IntArray,
    n_cells: int,
    occurred: NDArray[np.bool_],
    expected: Vector,
    variance: Vector,
    weights: Vector | None,
) -> Matrix:
    """Return the sums of some rows by cell, (m, 6)."""
    sums = np.zeros((n_cells, 6))
    if len(cells) == 0:
        return sums
    for place, rows in enumerate((occurred, ~occurred)):
        own = None if weights is None else weights[rows]
        sums[:, place] = np.bincount(cells[rows], own, n_cells)
        sums[:, 2 + place] = sums[:, place] if own is None else np.bincount(cells[rows], own * own, n_cells)
    sums[:, 4] = np.bincount(cells, expected if weights is None else weights * expected, n_cells)
    sums[:, 5] = np.bincount(cells, variance if weights is None else weights**2 * variance, n_cells)
    return sums
