"""PassRateDisplay: fraction of tasks on which a test does not reject the calibration of each method."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from calibrant.arrays import AnyArray, IntArray, Vector
from calibrant.errors import ParameterError
from calibrant.intervals import clopper_pearson
from calibrant.options import check_level, check_share
from calibrant.plots.display import Display, new_axes
from calibrant.plots.style import BAR, INK, INTERVAL, LABEL_SIZE, TITLE_SIZE
from calibrant.ranking.ranks import Missing, StudyTable

__all__ = ["PassRateDisplay"]


@dataclass(eq=False, repr=False)
class PassRateDisplay(Display):
    r"""Plot of the fraction of tasks on which a test does not reject calibration, for every method, the best on top.

    .. math:: \frac1N \#\{i : p_{ij} > \alpha\}

    with a Clopper-Pearson interval; as in figure 3b of :cite:`kull2019`. Perfectly calibrated predictions pass on a fraction
    :math:`1 - \alpha` of the tasks, the dashed line. With few rows tests have little power, so a pass is no proof of
    calibration.

    Parameters
    ----------
    methods : tuple of str
        Names of the methods.
    passed : ndarray of shape (k,)
        Number of tasks that each method passes.
    n_tasks : int
        Number of tasks.
    alpha : float
        Significance level of the test.
    low, high : ndarray of shape (k,)
        Intervals of the pass rates.
    level : float
        Confidence level of the intervals.

    Examples
    --------
    >>> display = PassRateDisplay.from_p_values([[0.01, 0.3], [0.2, 0.6], [0.001, 0.04]], names=["none", "dirichlet"])
    >>> display.rates.round(3)
    array([0.333, 0.667])
    """

    methods: tuple[str, ...]
    passed: IntArray
    n_tasks: int
    alpha: float
    low: Vector
    high: Vector
    level: float

    @classmethod
    def from_p_values(
        cls,
        table: Any,
        *,
        names: Any = None,
        alpha: float = 0.05,
        level: float = 0.95,
        missing: Missing = "drop",
    ) -> Self:
        """Create the display from a table of p-values.

        Parameters
        ----------
        table : frame or array of shape (N, k)
            One row per task, one column per method.
        names : sequence of k str, optional
            Names of the methods; by default the columns of the frame.
        alpha : float, default=0.05
            Significance level; larger p-values pass.
        level : float, default=0.95
            Confidence level of the intervals, for independent tasks.
        missing : {"drop", "raise"}, default="drop"
            Whether to drop tasks with missing p-values, with a warning, or to raise an error.
        """
        check_share("alpha", alpha, 0.05)
        check_level(level)
        study = StudyTable.parse(table, names=names, missing=missing)
        wrong = ~((study.values >= 0) & (study.values <= 1))
        if wrong.any():
            row, column = divmod(int(np.argmax(wrong)), study.n_methods)
            raise ParameterError(
                f"p-values must be between 0 and 1, but row {row} of the complete tasks has {study.values[row, column]:g} "
                f"for {study.methods[column]!r}; pass p-values, not statistics."
            )
        passed = (study.values > alpha).sum(axis=0)
        low, high = clopper_pearson(passed, np.full(study.n_methods, study.n_tasks), level)
        return cls(study.methods, passed, study.n_tasks, alpha, np.asarray(low), np.asarray(high), level)

    @property
    def rates(self) -> Vector:
        """Pass rate of each method, (k,)."""
        return np.asarray(self.passed / self.n_tasks, dtype=np.float64)

    def columns(self) -> dict[str, AnyArray]:
        """Return methods from best to worst with the number of passed tasks, the pass rate and its interval."""
        order = np.argsort(-self.passed, kind="stable")
        return {
            "method": np.array(self.methods)[order],
            "passed": self.passed[order],
            "tasks": np.full(len(order), self.n_tasks),
            "rate": self.rates[order],
            "low": self.low[order],
            "high": self.high[order],
        }

    def plot(self, ax: Any = None) -> Self:
        table = self.columns()
        n_methods = len(self.methods)
        self.ax_, self.figure_ = new_axes(ax, (6.0, 0.38 * n_methods + 1.4))
        places, rates = np.arange(n_methods), table["rate"]
        self.ax_.barh(places, rates, color=BAR, height=0.7)
        # Rounding errors could make the lengths of error bars negative, which matplotlib rejects.
        reach = np.maximum([rates - table["low"], table["high"] - rates], 0)
        self.ax_.errorbar(rates, places, xerr=reach, fmt="none", ecolor=INTERVAL, elinewidth=1.2, capsize=3)
        for place, passed in enumerate(table["passed"]):
            self.ax_.text(0.012, place, str(passed), va="center", fontsize=LABEL_SIZE - 1, color=INK)
        self.ax_.axvline(1 - self.alpha, color=INK, linestyle="--", linewidth=1.1)
        self.ax_.set_yticks(places, labels=table["method"].tolist(), fontsize=LABEL_SIZE)
        self.ax_.tick_params(axis="y", length=0)
        self.ax_.set(xlim=(0, 1), ylim=(n_methods - 0.5, -0.5))
        self.ax_.set_xlabel(
            f"fraction of {self.n_tasks} tasks with p > {self.alpha:g}, with {100 * self.level:g} % interval\n"
            f"(dashed: {1 - self.alpha:g}, expected for perfect predictions)",
            fontsize=LABEL_SIZE,
        )
        self.ax_.set_title("Tasks on which calibration is not rejected", fontsize=TITLE_SIZE, color=INK)
        return self
