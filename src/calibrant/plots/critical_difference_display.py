"""CriticalDifferenceDisplay: critical difference diagram of average ranks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from calibrant.arrays import AnyArray, Float64Array
from calibrant.errors import ParameterError
from calibrant.options import check_choice, check_flag
from calibrant.plots.display import Display, new_axes
from calibrant.plots.style import INK, LABEL_SIZE, SERIES, TITLE_SIZE
from calibrant.ranking import critical_difference, groups_without_difference
from calibrant.ranking.ranks import Missing, StudyTable, ranks_of

__all__ = ["CriticalDifferenceDisplay"]

# In units of the line spacing of names.
FIRST_NAME, BAR_STEP, RULER = 1.6, 0.32, 0.75


@dataclass(eq=False, repr=False)
class CriticalDifferenceDisplay(Display):
    """Critical difference diagram: average ranks of methods over many tasks, the best on the left.

    Methods under one bar do not differ significantly: their ranks differ by less than the critical difference, which is drawn
    to scale at the top. The Bonferroni-Dunn test compares only with the control, and the bar extends by the critical
    difference to both sides of it; as in figure 3a of :cite:`kull2019`, after :cite:`demsar2006`.

    Parameters
    ----------
    methods : tuple of str
        Names of the methods.
    average_ranks : ndarray of shape (k,)
        Average rank of each method; 1 is best.
    critical_difference : float
        Smallest significant difference of average ranks.
    groups : list of tuple of str
        Methods without significant differences; for Bonferroni-Dunn those that do not differ from the control.
    n_tasks : int
        Number of tasks.
    test : {"nemenyi", "bonferroni-dunn"}
        Post-hoc test.
    alpha : float
        Significance level.
    control : str or None
        Control method of the Bonferroni-Dunn test.
    sides : {1, 2}
        Whether the Bonferroni-Dunn test asks only if the control is better; the bar then extends to one side.

    Examples
    --------
    >>> losses = [[0.4, 0.3, 0.1], [0.5, 0.6, 0.2], [0.6, 0.5, 0.2], [0.8, 0.4, 0.3], [0.9, 0.8, 0.7]]
    >>> display = CriticalDifferenceDisplay.from_table(losses, names=["none", "beta", "dirichlet"])
    >>> display.average_ranks, display.groups
    (array([2.8, 2.2, 1. ]), [('dirichlet', 'beta'), ('beta', 'none')])
    """

    methods: tuple[str, ...]
    average_ranks: Float64Array
    critical_difference: float
    groups: Sequence[tuple[str, ...]]
    n_tasks: int
    test: Literal["nemenyi", "bonferroni-dunn"] = "nemenyi"
    alpha: float = 0.05
    control: str | None = None
    sides: Literal[1, 2] = 2

    def __post_init__(self) -> None:
        self.groups = list(self.groups)

    @classmethod
    def from_table(
        cls,
        table: Any,
        *,
        names: Any = None,
        higher_is_better: bool = False,
        test: Literal["nemenyi", "bonferroni-dunn"] = "nemenyi",
        control: str | None = None,
        alpha: float = 0.05,
        sides: Literal[1, 2] = 2,
        missing: Missing = "drop",
    ) -> Self:
        """Create the display from a table of results.

        Parameters
        ----------
        table : frame or array of shape (N, k)
            One row per task, one column per method.
        names : sequence of k str, optional
            Names of the methods; by default the columns of the frame.
        higher_is_better : bool, default=False
            Whether larger values are better.
        test : {"nemenyi", "bonferroni-dunn"}, default="nemenyi"
            All pairs, or comparisons with one control.
        control : str, optional
            The control of the Bonferroni-Dunn test.
        alpha : float, default=0.05
            Significance level of the test.
        sides : {1, 2}, default=2
            One side is for Bonferroni-Dunn: is the control better than the others?
        missing : {"drop", "raise"}, default="drop"
            Whether to drop tasks with missing results, with a warning, or to raise an error.
        """
        check_flag("higher_is_better", higher_is_better)
        check_choice("test", test, ("nemenyi", "bonferroni-dunn"))
        study = StudyTable.parse(table, names=names, missing=missing)
        if (control is not None) != (test == "bonferroni-dunn") or control not in (None, *study.methods):
            raise ParameterError(
                "control must be one of the methods for test='bonferroni-dunn', and None otherwise; "
                f"it is {control!r} and the methods are {', '.join(study.methods)}."
            )
        averages = np.asarray(ranks_of(study.values, higher_is_better).mean(axis=0), dtype=np.float64)
        difference = critical_difference(study.n_methods, study.n_tasks, test=test, alpha=alpha, sides=sides)
        if control is None:
            groups = groups_without_difference(averages, difference, methods=study.methods)
        else:
            own = averages[study.methods.index(control)]
            order = np.argsort(averages, kind="stable")
            gaps = averages - own if sides == 1 else np.abs(averages - own)
            near = [study.methods[k] for k in order if gaps[k] < difference * (1 - 1e-12)]
            groups = [tuple(near)] if len(near) > 1 else []
        return cls(study.methods, averages, difference, groups, study.n_tasks, test, alpha, control, sides)

    def columns(self) -> dict[str, AnyArray]:
        """Return methods from best to worst with their average ranks and the numbers of their groups."""
        order = np.argsort(self.average_ranks, kind="stable")
        methods = [self.methods[k] for k in order]
        inside = [
            " ".join(str(number) for number, group in enumerate(self.groups, start=1) if method in group)
            for method in methods
        ]
        return {
            "method": np.array(methods),
            "average_rank": self.average_ranks[order],
            "groups": np.array(inside, dtype=str),
        }

    def plot(self, ax: Any = None) -> Self:
        n_methods = len(self.methods)
        half = -(-n_methods // 2)
        depth = FIRST_NAME + BAR_STEP * len(self._bars()) + 0.8 * half
        self.ax_, self.figure_ = new_axes(ax, (7.0, 0.36 * (depth + 2.2) + 0.6))
        ax = self.ax_
        ax.set(xlim=(0.75, n_methods + 0.25), ylim=(depth, -1.9))
        ax.set_axis_off()
        ax.plot([1, n_methods], [0, 0], color=INK, linewidth=1.2)
        for rank in range(1, n_methods + 1):
            ax.plot([rank, rank], [-0.18, 0], color=INK, linewidth=1.2)
            ax.text(rank, -0.28, str(rank), ha="center", va="bottom", fontsize=LABEL_SIZE, color=INK)
        self._draw_names(half)
        for number, (first, last) in enumerate(self._bars()):
            height = 0.45 + BAR_STEP * number
            ax.plot(
                [first - 0.04, last + 0.04],
                [height, height],
                color=SERIES[1],
                linewidth=4,
                solid_capstyle="butt",
            )
        self._draw_ruler()
        dunn = "Bonferroni-Dunn" if self.sides == 2 else "one-sided Bonferroni-Dunn"
        what = "Nemenyi" if self.control is None else f"{dunn}, against {self.control}"
        ax.set_title(
            f"Average ranks on {self.n_tasks} tasks ({what}, {100 * self.alpha:g} %)",
            fontsize=TITLE_SIZE,
            color=INK,
        )
        return self

    def _bars(self) -> list[tuple[float, float]]:
        """Return the ends of the bars: over each group, or to both sides of the control."""
        if self.control is not None:
            own = float(self.average_ranks[self.methods.index(self.control)])
            reach = self.critical_difference
            best = own if self.sides == 1 else max(own - reach, 1.0)
            return [(best, min(own + reach, float(len(self.methods))))]
        ranks = dict(zip(self.methods, self.average_ranks.tolist(), strict=True))
        return [(ranks[group[0]], ranks[group[-1]]) for group in self.groups]

    def _draw_names(self, half: int) -> None:
        """Write the better half of the methods on the left, the others on the right, with lines to their ranks."""
        n_methods = len(self.methods)
        order = np.argsort(self.average_ranks, kind="stable")
        lowest = FIRST_NAME + BAR_STEP * len(self._bars())
        for place, method in enumerate(order):
            left = place < half
            row = place if left else n_methods - 1 - place
            rank, height = float(self.average_ranks[method]), lowest + 0.8 * row
            edge = 0.95 if left else n_methods + 0.05
            self.ax_.plot([rank, rank, edge], [0, height, height], color=INK, linewidth=0.9, zorder=1)
            name = self.methods[method]
            text = f"{name}  {rank:.2f}" if left else f"{rank:.2f}  {name}"
            self.ax_.text(
                edge + (-0.04 if left else 0.04),
                height,
                text,
                ha="right" if left else "left",
                va="center",
                fontsize=LABEL_SIZE,
                color=INK,
                weight="bold" if name == self.control else "normal",
            )

    def _draw_ruler(self) -> None:
        """Draw the critical difference to scale, from rank 1, as far as the axis allows."""
        end = min(1 + self.critical_difference, float(len(self.methods)))
        height = -1.25
        self.ax_.plot([1, end], [height, height], color=INK, linewidth=1.2)
        for x in (1.0, end):
            self.ax_.plot([x, x], [height - 0.15, height + 0.15], color=INK, linewidth=1.2)
        beyond = " (beyond the scale)" if 1 + self.critical_difference > end else ""
        self.ax_.text(
            end + 0.08 if not beyond else (1 + end) / 2,
            height if not beyond else height - 0.2,
            f"critical difference {self.critical_difference:.2f}{beyond}",
            ha="left" if not beyond else "center",
            va="center" if not beyond else "bottom",
            fontsize=LABEL_SIZE - 1,
            color=INK,
        )
