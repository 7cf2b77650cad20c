"""Interval: an estimate with its confidence interval, and how both were computed."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import isclose, isnan
from typing import Any

from calibrant.presentation.sentences import counted, p_text

__all__ = ["Interval"]

# The estimate and the values of resamples sum the same numbers in another order.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Interval:
    """A confidence interval with its estimate; ``low, high = interval`` unpacks its ends.

    Attributes
    ----------
    estimate : float
        Value of the metric on all rows.
    low, high : float
        Ends of the interval. NaN if the interval is undefined; infinite if there is no bound.
    level : float
        Confidence level: intended coverage.
    method : str
        How the interval was computed.
    definition : str
        What was estimated: the metric with all options that define its value.
    n_rows : int
        Number of rows used.
    standard_error : float
        Estimated standard deviation of the estimate.
    n_groups : int or None
        Number of independent groups of rows, if there were groups.
    n_resamples : int or None
        Number of resamples drawn, for a bootstrap.
    n_undefined : int
        Number of resamples in which the metric is undefined; they are left out.
    p_value : float or None
        For a difference in closed form: two-sided p-value of the hypothesis that it is zero.
    probability_second_better : float or None
        For a paired bootstrap: fraction of resamples in which the second predictions were better, ties half.
    note : str or None
        Why there is no value or no bound, if so.

    Examples
    --------
    >>> interval = Interval(0.9, 0.87, 0.93, 0.95, "percentile bootstrap", "accuracy()", 400, 0.015)
    >>> low, high = interval
    >>> low, 0.88 in interval
    (0.87, True)
    >>> print(interval)
    accuracy(): 0.9, 95 % interval [0.87, 0.93] (percentile bootstrap, 400 rows)
    """

    estimate: float
    low: float
    high: float
    level: float
    method: str
    definition: str
    n_rows: int
    standard_error: float
    n_groups: int | None = None
    n_resamples: int | None = None
    n_undefined: int = 0
    p_value: float | None = None
    probability_second_better: float | None = None
    note: str | None = None

    @property
    def width(self) -> float:
        """Width: the upper minus the lower end."""
        return self.high - self.low

    @property
    def excludes_estimate(self) -> bool:
        """Whether the estimate lies outside the interval, as it may for metrics that resampling increases or decreases.

        Such an interval does not cover the true value; see the notes of
        :func:`~calibrant.intervals.bootstrap`.
        """
        if isnan(self.estimate) or isnan(self.low) or isnan(self.high) or self.estimate in self:
            return False
        nearest = self.low if self.estimate < self.low else self.high
        return not isclose(self.estimate, nearest, rel_tol=ROUNDING)

    def to_dict(self) -> dict[str, Any]:
        """Return all attributes as plain numbers and strings."""
        return asdict(self)

    def __iter__(self) -> Iterator[float]:
        yield self.low
        yield self.high

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        notes = [self.method, counted(self.n_rows, "row")]
        if self.n_groups is not None:
            notes.append(counted(self.n_groups, "group"))
        if self.n_resamples is not None:
            undefined = f", {self.n_undefined} undefined" if self.n_undefined else ""
            notes.append(counted(self.n_resamples, "resample") + undefined)
        if self.p_value is not None:
            notes.append(p_text(self.p_value))
        if self.probability_second_better is not None:
            notes.append(f"second better in {100 * self.probability_second_better:.4g} %")
        has_interval = isnan(self.estimate) or not isnan(self.low)
        interval = f"{100 * self.level:g} % interval [{self.low:.4g}, {self.high:.4g}]"
        return (
            f"{self.definition}: {self.estimate:.4g}, {interval if has_interval else 'no interval'} ({', '.join(notes)})"
            f"{self._remark()}"
        )

    def _remark(self) -> str:
        """Return a warning to be read before the interval is used."""
        if self.note is not None:
            return f"; {self.note}"
        if not self.excludes_estimate:
            return ""
        if "bootstrap" not in self.method:
            return "; the estimate lies outside"
        subject = "difference" if self.method.startswith("paired") else "metric"
        # Only the percentile interval follows the resamples; the others move in the opposite direction.
        grows = (self.estimate < self.low) == ("percentile" in self.method)
        return (
            f"; the estimate lies outside: this {subject} {'increases' if grows else 'decreases'} under resampling; "
            "see the notes of bootstrap"
        )
