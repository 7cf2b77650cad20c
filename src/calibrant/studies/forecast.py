"""Forecast of the remaining time of a study from the times of finished units and the sizes of the data sets."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.arrays import Matrix, Vector
from calibrant.errors import StudyError
from calibrant.studies.results import PlannedUnit
from calibrant.studies.sources import size_of
from calibrant.studies.units import GridWork

__all__ = ["Sizes", "TimeLeft", "sizes_of"]


Size = tuple[int, int]
"""Number of rows and of classes of a data set."""

Sizes = Callable[[str], Size | None]


@dataclass(frozen=True)
class Cell:
    """Units or trainings that are expected to take equally long: those that differ in the split only."""

    kind: str
    method: Any = None
    classifier: Any = None
    data: Any = None
    calibration_rows: Any = None
    others: tuple[Any, ...] = ()

    @classmethod
    def of(cls, labels: Mapping[str, Any]) -> "Cell":
        """Return the cell of a unit, of a trial, or of the training of a classifier.

        >>> Cell.of({"data": "iris", "classifier": "mlp", "calibrator": "beta", "repeat": 1, "fold": 2}).kind
        'unit'
        """
        if "trial" in labels:
            others = tuple((name, value) for name, value in labels.items() if name not in ("trial", "seed"))
            return cls("trial", labels["trial"], others=others)
        kind = "unit" if "calibrator" in labels else "training"
        return cls(
            kind,
            labels.get("calibrator"),
            labels.get("classifier"),
            labels.get("data"),
            labels.get("calibration_rows"),
        )


SLOPE = 0.7
"""Exponent of the time in the number of rows and of classes before any data shows another."""

SHRINKAGE = {"method": 0.1, "classifier": 0.1, "pair": 1.0, "data": 1.0, "slope": 1.0}
"""Ridge penalties of the effects on the logarithm of the time, in units of one cell."""

FASTEST = 1e-3
"""Seconds below which a unit counts as this long."""


class TimeModel:
    r"""A log-additive model of the times of units of one kind, fitted by ridge regression.

    .. math:: \log t = a + b_{\text{method}} + c_{\text{classifier}} + d_{\text{method, classifier}} + e_{\text{data}}
              + (s + s_{\text{method}} + s_{\text{classifier}}) \log n
              + (r + r_{\text{method}} + r_{\text{classifier}}) \log K

    A data set without finished units has the effect of its number of rows n and of classes K only.

    Parameters
    ----------
    cells : sequence of Cell
        Cells with finished units.
    seconds : ndarray
        Mean time of each.
    sizes : callable
        Size of a data set by its name, or None if it is not known.
    """

    def __init__(self, cells: Sequence[Cell], seconds: Vector, sizes: Sizes) -> None:
        self._sizes = sizes
        raw = np.array([self._size(cell) for cell in cells])
        known = np.isfinite(raw)
        self._center = np.where(
            known.any(axis=0), np.nansum(raw, axis=0) / np.maximum(known.sum(axis=0), 1), 0.0
        )
        self._places: dict[Any, int] = {}
        penalties = [0.0, SHRINKAGE["slope"], SHRINKAGE["slope"]]
        for cell in cells:
            for key, strength in _effects(cell):
                if key not in self._places:
                    self._places[key] = len(penalties)
                    penalties.append(strength)
        prior = np.zeros(len(penalties))
        prior[1:3] = SLOPE
        design = self._design(cells)
        target = np.log(np.maximum(seconds, FASTEST))
        normal = design.T @ design + np.diag(np.maximum(penalties, 1e-9))
        self._theta = prior + np.linalg.solve(normal, design.T @ (target - design @ prior))
        # Means and not medians add up to the total time.
        self._factor = float(np.sum(seconds) / np.sum(np.exp(design @ self._theta)))

    def __call__(self, cells: Sequence[Cell]) -> Vector:
        """Return the expected seconds of units of other cells."""
        seconds: Vector = self._factor * np.exp(self._design(cells) @ self._theta)
        return seconds

    def _size(self, cell: Cell) -> tuple[float, float]:
        size = None if cell.data is None else self._sizes(str(cell.data))
        rows, classes = (math.nan, math.nan) if size is None else size
        if isinstance(cell.calibration_rows, int | float) and cell.calibration_rows >= 1:
            rows = cell.calibration_rows
        return math.log(rows), math.log(classes)

    def _design(self, cells: Sequence[Cell]) -> Matrix:
        design = np.zeros((len(cells), 3 + len(self._places)))
        design[:, 0] = 1.0
        for row, cell in zip(design, cells, strict=True):
            row[1:3] = np.nan_to_num(np.asarray(self._size(cell)) - self._center)
            for key, _ in _effects(cell):
                place = self._places.get(key)
                if place is not None:
                    row[place] = {"rows": row[1], "classes": row[2]}.get(key[0], 1.0)
        return design


def _effects(cell: Cell) -> Iterable[tuple[tuple[Any, ...], float]]:
    """Yield the effects of a cell with their penalties."""
    slope = SHRINKAGE["slope"]
    if cell.method is not None:
        yield ("method", cell.method), SHRINKAGE["method"]
        yield ("rows", "method", cell.method), slope
        yield ("classes", "method", cell.method), slope
    if cell.classifier is not None:
        yield ("classifier", cell.classifier), SHRINKAGE["classifier"]
        yield ("rows", "classifier", cell.classifier), slope
        yield ("classes", "classifier", cell.classifier), slope
    if cell.method is not None and cell.classifier is not None:
        yield ("pair", cell.method, cell.classifier), SHRINKAGE["pair"]
    if cell.data is not None:
        yield ("data", cell.data), SHRINKAGE["data"]
    if cell.others:
        yield ("others", cell.others), SHRINKAGE["data"]


GROWTH = 1.05
"""The model is fitted again when so many times more cells have finished units."""


class TimeLeft:
    """Estimate the remaining time from the times of finished units and trainings.

    Units whose calibrator, classifier and data set have finished units count with their mean time, and all others with the
    forecast of a :class:`TimeModel`. Trainings of classifiers and trials have models of their own.

    Parameters
    ----------
    jobs : int
        Number of workers.
    sizes : callable, optional
        Number of rows and of classes of a data set by its name, None if they are not known; see :func:`sizes_of`.

    Examples
    --------
    >>> left = TimeLeft(jobs=2)
    >>> for data in ("abalone", "abalone", "car"):
    ...     left.expect({"data": data, "calibrator": "beta"})
    >>> left.seconds() is None
    True
    >>> left.ended({"data": "abalone", "calibrator": "beta"}, 3.0)
    >>> round(left.seconds(), 6)
    3.0
    """

    def __init__(self, jobs: int, sizes: Sizes | None = None) -> None:
        self.jobs = max(1, jobs)
        self._sizes: Sizes = (lambda data: None) if sizes is None else sizes  # noqa: ARG005
        self._expected: Counter[Cell] = Counter()
        self._sums: dict[Cell, tuple[float, int]] = {}
        self._forecasts: dict[Cell, float] = {}
        self._n_expected = self._n_fitted = 0
        self._is_stale = False
        self._total = 0.0

    def expect(self, labels: Mapping[str, Any]) -> None:
        """Add a unit or training that will run."""
        self._add(Cell.of(labels), 1)

    def seen(self, labels: Mapping[str, Any], seconds: float) -> None:
        """Add the time of a unit or training of an earlier run."""
        cell = Cell.of(labels)
        self._total -= self._share(cell)
        total, count = self._sums.get(cell, (0.0, 0))
        self._sums[cell] = total + seconds, count + 1
        self._total += self._share(cell)

    def ended(self, labels: Mapping[str, Any], seconds: float | None) -> None:
        """Remove an expected unit or training, and add its time unless it did not run."""
        self._add(Cell.of(labels), -1)
        if seconds is not None:
            self.seen(labels, seconds)

    def seconds(self) -> float | None:
        """Return the seconds left; None before any time is known."""
        if not self._n_expected:
            return 0.0
        if not self._sums:
            return None
        if self._is_stale or len(self._sums) >= GROWTH * self._n_fitted:
            self._fit()
        return max(self._total, 0.0) / self.jobs

    def _add(self, cell: Cell, number: int) -> None:
        self._total -= self._share(cell)
        self._expected[cell] += number
        self._n_expected += number
        self._is_stale |= cell not in self._forecasts and cell not in self._sums
        self._total += self._share(cell)

    def _share(self, cell: Cell) -> float:
        """Return the seconds that the expected units of a cell will take."""
        number = max(self._expected[cell], 0)
        if not number:
            return 0.0
        if cell in self._sums:
            total, count = self._sums[cell]
            return number * total / count
        return number * self._forecasts.get(cell, 0.0)

    def _fit(self) -> None:
        self._n_fitted, self._forecasts, self._is_stale = len(self._sums), {}, False
        expected = [cell for cell, count in self._expected.items() if count > 0]
        for kind in dict.fromkeys(cell.kind for cell in expected):
            unknown = [cell for cell in expected if cell.kind == kind and cell not in self._sums]
            known = [cell for cell in self._sums if cell.kind == kind]
            if not unknown:
                continue
            if not known:
                self._forecasts.update(dict.fromkeys(unknown, 0.0))
                continue
            means = np.array([self._sums[cell][0] / self._sums[cell][1] for cell in known])
            model = TimeModel(known, means, self._sizes)
            self._forecasts.update(zip(unknown, model(unknown).tolist(), strict=True))
        self._total = math.fsum(self._share(cell) for cell in expected)


def sizes_of(units: Iterable[PlannedUnit]) -> Sizes:
    """Return a function from the name of a data set to its size, which reads its file at the first call.

    Generated data sets have no known size, since generators are code of the recipe.
    """
    works = (getattr(unit, "work", None) for unit in units)
    requests = {work.request.data.name: work.request for work in works if isinstance(work, GridWork)}
    known: dict[str, Size | None] = {}

    def size(data: str) -> Size | None:
        if data not in known:
            request = requests.get(data)
            try:
                known[data] = (
                    None
                    if request is None
                    else size_of(request.data, request.data_folder, request.recipe_folder)
                )
            except StudyError:  # The units will report it.
                known[data] = None
        return known[data]

    return size
