"""TestResult: statistic, p-value and hypothesis of a test, printed as a sentence."""

from dataclasses import dataclass
from math import inf

from calibrant.presentation.sentences import counted, p_text
from calibrant.remedies import USE_OTHER_TEST

__all__ = ["TestResult", "small_sample_caution"]


@dataclass(frozen=True)
class TestResult:
    """Result of a hypothesis test.

    Attributes
    ----------
    statistic : float
        Observed value of the test statistic.
    p_value : float
        Probability of a statistic at least as extreme if the null hypothesis holds.
    test : str
        Name of the test, including the metric with all its options if the test is built from one.
    null_hypothesis : str
        The null hypothesis, as a sentence without a full stop.
    n_rows : int
        Number of rows used.
    n_resamples : int or None
        Number of simulated data sets, for a simulation test.
    p_value_error : float or None
        Monte-Carlo standard error of the p-value, for a simulation test.
    null_mean, null_quantile : float or None
        Mean and 95 % quantile of the statistic under the null hypothesis, if known; the 5 % quantile if small values are
        evidence against the hypothesis. The mean is None if it is zero by construction.
    null_range : tuple of two floats or None
        Central 95 % range of the statistic under the null hypothesis if small values, or both small and large
        ones, are evidence against it; None means everything below ``null_quantile``.
    n_undefined : int
        Number of simulated data sets for which the statistic is undefined; they are left out.
    caution : str or None
        Why the p-value is rough, if it is asymptotic and there are too few rows; part of the
        printed sentence.

    Examples
    --------
    >>> print(TestResult(1.3, 0.19, "Spiegelhalter's test", "the probabilities are the true ones", 100))
    Spiegelhalter's test: statistic 1.3, p = 0.19 (100 rows); null hypothesis not rejected at the 5 % level: the
    probabilities are the true ones.
    """

    __test__ = False  # not collected by pytest despite its name

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
        found = "not rejected" if self.p_value > 0.05 else "rejected"
        caution = "" if self.caution is None else f" Caution: {self.caution}."
        return (
            f"{self.test}: statistic {self.statistic:.4g}, {p_text(self.p_value, self.n_resamples)} "
            f"({self._size()}){self._noise()}; null hypothesis {found} at the 5 % level: {self.null_hypothesis}.{caution}"
        )

    def _size(self) -> str:
        rows = counted(self.n_rows, "row")
        if self.n_resamples is None:
            return rows
        left_out = f" less {self.n_undefined} undefined" if self.n_undefined else ""
        return f"{rows}, {counted(self.n_resamples, 'resample')}{left_out}"

    def _noise(self) -> str:
        """Return the null distribution of the statistic, as a clause with its semicolon."""
        known = [] if self.null_mean is None else [f"mean {self.null_mean:.4g}"]
        limits = self.null_range
        if limits is None and self.null_quantile is not None:
            limits = (-inf, self.null_quantile)
        if limits is not None:
            low, high = limits
            if low == -inf:
                known.append(f"below {high:.4g} in 95 % of samples")
            elif high == inf:
                known.append(f"above {low:.4g} in 95 % of samples")
            else:
                known.append(f"between {low:.4g} and {high:.4g} in 95 % of samples")
        return f"; under calibration {', '.join(known)}" if known else ""


# Below this number of rows asymptotic p-values are inaccurate.
MIN_ROWS = 10


def small_sample_caution(n_rows: int) -> str | None:
    """Return a caution for an asymptotic p-value from n rows; None if there are enough.

    >>> small_sample_caution(7)
    'a p-value from 7 rows is rough; use consistency_test'
    """
    if n_rows >= MIN_ROWS:
        return None
    return f"a p-value from {counted(n_rows, 'row')} is rough{USE_OTHER_TEST}"
