"""TestResult: what a test found, of what, from how many rows."""

from dataclasses import dataclass

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
        Mean and 95 % quantile of the statistic under the null hypothesis, where they were simulated: what
        noise alone gives with this many rows. The 5 % quantile if small values count against the hypothesis.

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

    def __str__(self) -> str:
        simulated = "" if self.n_resamples is None else f", {self.n_resamples} resamples"
        noise = "" if self.null_mean is None else f"; noise alone gives {self.null_mean:.4g} on average"
        found = "no evidence" if self.p_value > 0.05 else "evidence"
        return (
            f"{self.test}: statistic {self.statistic:.4g}, p = {self.p_value:.3g} "
            f"({self.n_rows} rows{simulated}){noise}; {found} at the 5 % level against: "
            f"{self.null_hypothesis}."
        )
