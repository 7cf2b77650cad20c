"""TestResult: what a test found, of what, from how many rows."""

from dataclasses import dataclass
from math import inf

from calibrant.wording import counted, p_text

__all__ = ["TestResult"]


@dataclass(frozen=True)
class TestResult:
    """The outcome of a hypothesis test.

    Attributes
    ----------
    statistic : float
        Observed value of the test statistic.
    p_value : float
        Probability of a statistic at least as extreme if the null hypothesis holds.
    test : str
        Name of the test, and for a test made from a metric the metric with all its options.
    null_hypothesis : str
        What is assumed when the p-value is computed, as a sentence without its full stop.
    n_rows : int
        Number of rows that took part.
    n_resamples : int or None
        Number of simulated data sets, for a test by simulation.
    p_value_error : float or None
        Monte-Carlo standard error of the p-value, for a test by simulation.
    null_mean, null_quantile : float or None
        Mean and 95 % quantile of the statistic under the null hypothesis, where they are known: what noise alone
        gives with this many rows. The 5 % quantile if small values count against the hypothesis. The mean is
        None if it is zero by construction.
    null_range : tuple of two floats or None
        Where 95 % of the statistics lie under the null hypothesis if small values, or both small and large
        ones, count against it; None means below ``null_quantile``.
    n_undefined : int
        Number of simulated data sets for which the statistic has no value; they are left out.
    caution : str or None
        Why the p-value is rough, where it comes from a limit of many rows and these are too few; part of the
        printed sentence.

    Examples
    --------
    >>> print(TestResult(1.3, 0.19, "Spiegelhalter's test", "the probabilities are the true ones", 100))
    Spiegelhalter's test: statistic 1.3, p = 0.19 (100 rows); no evidence at the 5 % level against: the
    probabilities are the true ones.
    """

    __test__ = False  # the name does not make it a test of pytest's

    statistic: float
    p_value: float
    test: str
    null_hypothesis: str
    n_rows: int
    n_resamples: int | None = None
    p_value_error: float | None = None
    null_mean: float | None = None
    null_quantile: float | None = None
    null_range: tuple[float, float] | None = None
    n_undefined: int = 0
    caution: str | None = None

    def __str__(self) -> str:
        found = "no evidence" if self.p_value > 0.05 else "evidence"
        caution = "" if self.caution is None else f" Caution: {self.caution}."
        return (
            f"{self.test}: statistic {self.statistic:.4g}, {p_text(self.p_value, self.n_resamples)} "
            f"({self._size()}){self._noise()}; {found} at the 5 % level against: {self.null_hypothesis}.{caution}"
        )

    def _size(self) -> str:
        rows = counted(self.n_rows, "row")
        if self.n_resamples is None:
            return rows
        left_out = f" less {self.n_undefined} without a value" if self.n_undefined else ""
        return f"{rows}, {counted(self.n_resamples, 'resample')}{left_out}"

    def _noise(self) -> str:
        """Return what noise alone would give, as a clause with its semicolon."""
        known = [] if self.null_mean is None else [f"noise alone gives {self.null_mean:.4g} on average"]
        limits = self.null_range
        if limits is None and self.null_quantile is not None:
            limits = (-inf, self.null_quantile)
        if limits is not None:
            low, high = limits
            if low == -inf:
                known.append(f"95 % of noise stays below {high:.4g}")
            elif high == inf:
                known.append(f"95 % of noise stays above {low:.4g}")
            else:
                known.append(f"95 % of noise lies between {low:.4g} and {high:.4g}")
        return f"; {', and '.join(known)}" if known else ""
