"""Measurement: one number of an evaluation, with its interval and what noise alone would give."""

from dataclasses import asdict, dataclass
from math import isfinite, nan, sqrt
from typing import Any

from calibrant.cli.rendering import number_text
from calibrant.hypothesis_tests import Coefficient, TestResult

__all__ = ["Measurement", "TestRow", "rooted"]


@dataclass(frozen=True)
class Measurement:
    """A metric of all rows.

    Attributes
    ----------
    metric : str
        Its name.
    value, low, high : float
        The number and its interval.
    noise : float or None
        What it is on average for labels drawn with the predicted probabilities, where that is not zero.
    p_value : float or None
        Of the hypothesis that the value is noise alone, by simulation.
    definition, method : str
        The metric with all its options, and how the interval was found.
    n_rows : int
    """

    metric: str
    value: float
    low: float
    high: float
    noise: float | None
    p_value: float | None
    definition: str
    method: str
    n_rows: int

    @property
    def excludes_value(self) -> bool:
        """Whether the interval leaves the value out, as for metrics that resampling makes larger."""
        return isfinite(self.low) and isfinite(self.high) and not self.low <= self.value <= self.high

    def row(self) -> tuple[str, ...]:
        """Return the cells of a table."""
        return self.metric, number_text(self.value), _interval(self.low, self.high), number_text(self.noise)

    def record(self) -> dict[str, Any]:
        """Return all numbers by name."""
        return asdict(self)


@dataclass(frozen=True)
class TestRow:
    """A test of calibration, or a coefficient with a test."""

    __test__ = False  # the name does not make it a test of pytest's

    test: str
    value: float
    low: float | None
    high: float | None
    p_value: float
    null_hypothesis: str
    definition: str
    n_rows: int
    caution: str | None = None

    @classmethod
    def of(cls, name: str, found: TestResult, coefficient: Coefficient | None = None) -> "TestRow":
        """Return a test under a short name, with the coefficient that it is about if there is one."""
        return cls(
            name,
            found.statistic if coefficient is None else coefficient.value,
            None if coefficient is None else coefficient.low,
            None if coefficient is None else coefficient.high,
            found.p_value,
            found.null_hypothesis,
            found.test,
            found.n_rows,
            found.caution,
        )

    def row(self) -> tuple[str, ...]:
        """Return the cells of a table."""
        p_text = "< 1e-300" if self.p_value < 1e-300 else f"{self.p_value:.2g}"
        return self.test, number_text(self.value), _interval(self.low, self.high), p_text

    def record(self) -> dict[str, Any]:
        """Return all numbers by name."""
        return asdict(self)


def rooted(value: float) -> float:
    """Return the root of an estimate of a square, which may be below zero by noise."""
    return nan if value != value else sqrt(max(value, 0.0))


def _interval(low: float | None, high: float | None) -> str:
    if low is None or high is None or low != low:
        return ""
    return f"{number_text(low)} to {number_text(high)}"
