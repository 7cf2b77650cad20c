"""Comparison: out-of-sample results of several methods on the same rows, ordered by their log-loss."""

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrator import Calibrator
from calibrant.errors import ParameterError
from calibrant.intervals import Interval, loss_difference
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.predictions import Predictions
from calibrant.presentation import Cell, Column, Range, Table, Value, as_html, as_text
from calibrant.tabular import Tabular

__all__ = ["UNCALIBRATED", "UNCALIBRATED_TEXT", "Comparison", "MethodResult"]

UNCALIBRATED = "uncalibrated"
UNCALIBRATED_TEXT = "the uncalibrated predictions"

WIDTH = 88
"""Largest number of characters of a line of the printed table."""

# Number of standard errors beyond which a paired difference is significant.
STANDARD_ERRORS = 2.0


@dataclass(frozen=True, eq=False)
class MethodResult:
    """Out-of-sample results of one method.

    Attributes
    ----------
    name : str
        Registry name, or the calibrator with its parameters.
    calibrator : Calibrator or None
        Calibrator fitted to the complete calibration set; None if this was not requested or failed.
    predictions : Predictions or None
        Out-of-fold or test predictions after calibration; None if the method failed.
    scores : dict
        Name of a metric -> its value on the evaluated rows.
    differences : dict
        ``"log_loss"`` and ``"brier_score"`` -> :class:`~calibrant.intervals.Interval` of this method minus the uncalibrated
        predictions, paired by row; negative is better. If a true class had probability zero, the uncalibrated predictions
        have zeros raised to the floor.
    changed : float or None
        Fraction of the evaluated rows whose predicted class changes.
    seconds : float
        Time of the fit to all rows, or the mean time per fold if there was none.
    notes : tuple of str
        Warnings of the method.
    error : str or None
        Error message, if the method failed.
    """

    name: str
    calibrator: Calibrator | None
    predictions: Predictions | None
    scores: dict[str, float] = field(default_factory=dict)
    differences: dict[str, Interval] = field(default_factory=dict)
    changed: float | None = None
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    error: str | None = None

    @property
    def failed(self) -> bool:
        """Whether the method failed, so there are no predictions."""
        return self.predictions is None


@dataclass(frozen=True, eq=False)
class Comparison(Tabular):
    """Results of several methods: the uncalibrated predictions first, then by increasing log-loss, failed methods last.

    Attributes
    ----------
    results : tuple of MethodResult
    data : LabelledPredictions
        Labels and uncalibrated predictions of the evaluated rows.
    n_rows, n_test_rows : int
        Size of the calibration set, and number of evaluated rows.
    how : str
        Description of the cross-validation or test set.
    level : float
        Confidence level of the intervals.
    base : str
        Name of the baseline of the differences: the uncalibrated predictions, with zeros raised to the floor if a true
        class had probability zero and the log-loss is infinite.
    """

    results: tuple[MethodResult, ...]
    data: LabelledPredictions
    n_rows: int
    n_test_rows: int
    how: str
    level: float
    base: str = UNCALIBRATED_TEXT

    def result(self, name: str) -> MethodResult:
        """Return the result of a method by its name."""
        for result in self.results:
            if result.name == name:
                return result
        raise ParameterError(
            f"there is no result of {name!r}; there are {[result.name for result in self.results]}."
        )

    @property
    def measured(self) -> tuple[MethodResult, ...]:
        """Results of the methods that did not fail."""
        return tuple(result for result in self.results if not result.failed)

    @property
    def base_sentence(self) -> str:
        """Baseline of the differences, and the reason for infinite losses."""
        text = f"Differences are to {self.base}, paired by row; negative is better."
        infinite = [result.name for result in self.measured if np.isinf(result.scores["log_loss"])]
        if not infinite:
            return text
        return f"{text} The log-loss of {', '.join(infinite)} is inf: the true class of at least one row has probability zero."

    @property
    def best(self) -> MethodResult:
        """Result with the lowest out-of-sample log-loss, possibly the uncalibrated predictions.

        The loss of the selected method is slightly optimistic. :class:`~calibrant.AutoCalibration` cross-validates the
        selection itself.
        """
        return min(self.measured, key=lambda result: result.scores["log_loss"])

    def difference(self, first: str, second: str, loss: str = "log") -> Interval:
        """Return the paired difference of a loss, the second method minus the first."""
        one, other = self.result(first), self.result(second)
        for result in (one, other):
            if result.failed:
                raise ParameterError(f"{result.name} failed and cannot be compared: {result.error}.")
        labels = self.data.classes[self.data.labels]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its note says the same
            return loss_difference(
                labels,
                one.predictions,
                other.predictions,
                loss=loss,  # type: ignore[arg-type]
                sample_weight=self.data.weights,
                groups=self.data.groups,
                level=self.level,
            )

    def equally_good(self) -> list[MethodResult]:
        """Return the other results whose log-loss is within two standard errors of the lowest."""
        best = self.best
        others = []
        for result in self.measured:
            if result is best or not np.isfinite(result.scores["log_loss"]):
                continue
            gap = self.difference(best.name, result.name)
            if gap.estimate <= STANDARD_ERRORS * gap.standard_error:
                others.append(result)
        return others

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the table as a dictionary: column name -> one value per method."""
        scores = list(dict.fromkeys(name for result in self.results for name in result.scores))
        table: dict[str, list[Any]] = {"method": [result.name for result in self.results]}
        for name in scores:
            table[name] = [result.scores.get(name, np.nan) for result in self.results]
        for name in ("log_loss", "brier_score"):
            found = [result.differences.get(name) for result in self.results]
            table[f"{name}_difference"] = [np.nan if each is None else each.estimate for each in found]
            table[f"{name}_low"] = [np.nan if each is None else each.low for each in found]
            table[f"{name}_high"] = [np.nan if each is None else each.high for each in found]
        table["changed"] = [np.nan if result.changed is None else result.changed for result in self.results]
        table["seconds"] = [result.seconds for result in self.results]
        table["error"] = [result.error or "" for result in self.results]
        return {name: np.asarray(values) for name, values in table.items()}

    def table(self) -> Table:
        """Return the table of scores and paired differences, which every output format can write."""
        columns = (
            Column("method", is_numeric=False),
            Column("log-loss"),
            Column("difference", is_numeric=False, hint=f"{100 * self.level:g} % interval"),
            Column("Brier score"),
            Column("accuracy"),
            Column("changed"),
        )
        notes = (f"{self.how}.", self.base_sentence)
        return Table("comparison", "", columns, tuple(map(_table_row, self.results)), notes=notes)

    def __str__(self) -> str:
        return as_text(self.table(), width=WIDTH)

    def _repr_html_(self) -> str:
        """Return the table for notebooks."""
        return as_html(self.table())


def _table_row(result: MethodResult) -> tuple[Cell, ...]:
    if result.failed:
        return (Cell(result.name), Cell(), Cell(f"failed: {result.error}"), Cell(), Cell(), Cell())
    gap = result.differences.get("log_loss")
    difference = Cell()
    if gap is not None:
        interval = Range(gap.low, gap.high, "decimals", signed=True)
        difference = Cell(Value(gap.estimate, "decimals", signed=True), (interval,))
    return (
        Cell(result.name),
        Cell(Value(result.scores["log_loss"], "decimals")),
        difference,
        Cell(Value(result.scores["brier_score"], "decimals")),
        Cell(Value(result.scores["accuracy"], "decimals")),
        Cell(Value(result.changed or 0.0, "percent")),
    )
