"""Measurement: a metric with its interval and its expected value under calibration."""

from dataclasses import asdict, dataclass
from math import isfinite, nan, sqrt
from typing import Any

from calibrant.cli.rendering import number_text
from calibrant.cli.translation import translated
from calibrant.hypothesis_tests import Coefficient, TestResult
from calibrant.wording import shortened

__all__ = ["TEST_LEVEL", "Measurement", "TestRow", "rooted"]

TEST_LEVEL = 0.05
"""Significance level of the tests."""

LONGEST_TEST = (
    60  # longest name of a test with a class name, in characters, so that the table keeps its shape
)


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
        Expected value for labels drawn from the predicted probabilities, if it is not zero.
    p_value : float or None
        P-value of calibration, by simulation.
    definition, method : str
        The metric with all its options, and the kind of interval.
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
        """Whether the interval excludes the value, as for metrics that the bootstrap biases upwards."""
        return isfinite(self.low) and isfinite(self.high) and not self.low <= self.value <= self.high

    def row(self) -> tuple[str, ...]:
        """Return the cells of a table."""
        return self.metric, number_text(self.value), _interval(self.low, self.high), number_text(self.noise)

    def record(self) -> dict[str, Any]:
        """Return all numbers by name."""
        return asdict(self)


@dataclass(frozen=True)
class TestRow:
    """A test of calibration, possibly with the coefficient that it tests."""

    __test__ = False  # pytest must not collect it

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
        """Return a test under a short name, with the coefficient that it tests, if any."""
        return cls(
            name,
            found.statistic if coefficient is None else coefficient.value,
            None if coefficient is None else coefficient.low,
            None if coefficient is None else coefficient.high,
            found.p_value,
            found.null_hypothesis,
            found.test,
            found.n_rows,
            None if found.caution is None else translated(found.caution),
        )

    @property
    def name(self) -> str:
        """The name of the test, shortened if a class name in it is long."""
        return shortened(self.test, LONGEST_TEST)

    def row(self) -> tuple[str, ...]:
        """Return the cells of a table."""
        return self.name, number_text(self.value), _interval(self.low, self.high), _p_text(self.p_value)

    def record(self) -> dict[str, Any]:
        """Return all numbers by name."""
        return asdict(self)


def rooted(value: float) -> float:
    """Return the root of an estimated square, which noise can make negative."""
    return nan if value != value else sqrt(max(value, 0.0))


def _p_text(p_value: float) -> str:
    """Return a p-value with enough digits to show on which side of the level it is.

    >>> _p_text(0.04996), _p_text(0.0312), _p_text(0.05), _p_text(0.0)
    ('0.04996', '0.031', '0.05', '< 1e-300')
    """
    if p_value < 1e-300:
        return "< 1e-300"
    texts = (f"{p_value:.{digits}g}" for digits in range(2, 17))
    return next(
        (text for text in texts if float(text) != TEST_LEVEL or p_value == TEST_LEVEL), f"{p_value!r}"
    )


def _interval(low: float | None, high: float | None) -> str:
    if low is None or high is None or low != low:
        return ""
    return f"{number_text(low)} to {number_text(high)}"
