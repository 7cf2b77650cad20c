"""Methods tried on rows held out, and the one that is chosen among them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.calibrator import Calibrator
from calibrant.comparison import Comparison, MethodResult, compare
from calibrant.comparison.comparison import UNCALIBRATED
from calibrant.intervals import Interval, loss_difference
from calibrant.metrics.row_losses import Loss
from calibrant.predictions import Predictions
from calibrant.report.baseline import is_refuted, reference_of
from calibrant.report.rows import Numbers, Rows, drawn_by_class
from calibrant.space import Space
from calibrant.wording import counted

__all__ = ["LITTLE", "Trial", "default_methods", "most_rows", "no_trial", "tried"]

Methods = Sequence[str | Calibrator]
LOSSES: tuple[Loss, ...] = ("log", "brier")

# Methods whose fits take a second or so for a million probabilities, and how many of these are tried at most.
QUICK = frozenset(
    {UNCALIBRATED, "temperature", "platt", "beta", "isotonic", "frequency-binning", "width-binning"}
)
QUICK_NUMBERS = 2_000_000
SLOW_ROWS, SLOW_NUMBERS = 10_000, 5_000_000

# A share of the loss that is not worth speaking of.
LITTLE = 0.005

# With fewer rows no method has anything to learn from that could be told from noise.
FEWEST_ROWS = 20

ROWS_FOR_ISOTONIC = 1000
MOST_CLASSES_OF_MATRIX, MOST_CLASSES_OF_DIRICHLET, MOST_CLASSES_OF_VECTOR = 30, 5, 100


@dataclass(frozen=True, eq=False)
class Trial:
    """What came of trying methods.

    Attributes
    ----------
    comparison : Comparison or None
        None if nothing could be tried.
    rows : Rows
        The rows on which methods were compared: all, or a sample with all rows of rare classes.
    chosen : MethodResult or None
        The simplest method whose log-loss is within one standard error of the lowest.
    calibrator : str, Calibrator or None
        What was asked for under its name.
    near : tuple of str
        Names of other methods within one standard error.
    gain : Interval or None
        Log-loss of the chosen one less that of doing nothing, on rows that its map was not fitted to, at a level that
        holds for all methods at once.
    brier : Interval or None
        The same of the Brier score.
    helps : bool
        Whether to use it; see :func:`tried`.
    after : Rows or None
        All measured rows, as mapped without them.
    why_not : str
        Why nothing was tried; empty if something was.
    """

    rows: Rows
    why_not: str = ""
    comparison: Comparison | None = None
    chosen: MethodResult | None = None
    calibrator: str | Calibrator | None = None
    near: tuple[str, ...] = ()
    gain: Interval | None = None
    brier: Interval | None = None
    helps: bool = False
    after: Rows | None = None

    @property
    def surely(self) -> bool:
        """Whether the gain in log-loss is beyond noise, and rows with mistakes show how sure to be."""
        return self.gain is not None and self.gain.high < 0 and not self.is_flawless

    @property
    def is_flawless(self) -> bool:
        """Whether the chosen method makes no mistake, so that nothing stops it from being ever more sure."""
        return self.after is not None and bool(self.after.hits.all())

    @property
    def n_methods(self) -> int:
        """Number of methods that were compared with doing nothing."""
        return 0 if self.comparison is None else len(self.comparison.measured) - 1


def default_methods(n_rows: int, n_classes: int) -> list[str]:
    """Return quick methods that suit so many rows and classes, the simplest first.

    >>> default_methods(500, 2), default_methods(5000, 3), default_methods(50_000, 1000)[-1]
    (['temperature', 'platt', 'beta'], ['temperature', 'shared-vector', 'shared-matrix', 'dirichlet-l2'], 'shared-map')
    """
    if n_classes == 2:
        names = ["temperature", "platt", "beta"]
        return [*names, "isotonic"] if n_rows >= ROWS_FOR_ISOTONIC else names
    if n_classes > MOST_CLASSES_OF_VECTOR:
        return ["temperature", "shared-map"]
    names = ["temperature", "shared-vector"]
    if n_classes <= MOST_CLASSES_OF_MATRIX:
        names.append("shared-matrix")
    if n_classes <= MOST_CLASSES_OF_DIRICHLET:
        names.append("dirichlet-l2")
    return names


def no_trial(rows: Rows) -> str:
    """Return why no method can be tried on these rows; empty if some can."""
    if rows.n_rows < FEWEST_ROWS:
        verb = "is" if rows.n_rows == 1 else "are"
        return f"{counted(rows.n_rows, 'row')} {verb} too few to fit and to judge a method, for which {FEWEST_ROWS} are wanted"
    if rows.n_present < 2:
        return "all rows have the same true class, so that nothing can be learnt about the others"
    if rows.n_groups is not None and rows.n_groups < 2:
        return "all rows are of one group, so that none can be held out"
    return ""


def tried(
    rows: Rows,
    methods: Methods | None,
    cv: Any,
    level: float,
    random_state: int,
    progress: Callable[[int, int, str], object] | None,
    *,
    may_sample: bool = True,
    small_error: bool = False,
) -> Trial:
    """Compare methods by cross-validation, choose one, and measure its gain on all rows.

    Quick methods get all rows, others a sample that keeps the rows of rare classes; the rest is then mapped by the
    method as fitted to the sample, so that no row is mapped by what was fitted to it. The chosen one helps if the interval of
    its gain, adjusted for the number of methods, is above zero; or, where zeros were refuted and their log-loss is
    infinite, if the Brier score falls beyond noise. Where tests show no more than a ``small_error``, it must also take off half a
    percent of the log-loss.
    """
    chosen_methods = default_methods(rows.n_rows, rows.n_classes) if methods is None else list(methods)
    limit = most_rows(chosen_methods, rows.n_classes) if may_sample else rows.n_rows
    drawn, sample = drawn_by_class(rows, limit, random_state)
    names = {str(method): method for method in chosen_methods if str(method) != UNCALIBRATED}
    why_not = no_trial(sample) or ("" if names else "no method was to be tried")
    if why_not:
        return Trial(sample, why_not)
    comparison = compare(
        sample.labels,
        sample.predictions,
        chosen_methods,
        sample_weight=sample.weights,
        groups=sample.groups,
        cv=cv,
        level=level,
        refit=drawn is not None,
        random_state=random_state,
        progress=progress,
    )
    ordered = [comparison.result(name) for name in names]
    usable = [result for result in ordered if not result.failed and np.isfinite(result.scores["log_loss"])]
    if not usable:
        return Trial(sample, "every method failed", comparison)
    near = _within_one_standard_error(comparison, usable)
    chosen = near[0]
    assert chosen.predictions is not None
    after = rows.with_predictions(chosen.predictions) if drawn is None else _all_rows(rows, drawn, chosen)
    gain, brier = (
        loss_difference(
            rows.labels,
            reference_of(rows) if loss == "log" else rows.predictions,
            after.predictions,
            loss=loss,
            sample_weight=rows.weights,
            groups=rows.groups,
            level=1 - (1 - level) / (len(comparison.measured) - 1),
        )
        for loss in LOSSES
    )
    is_much = not small_error or -gain.estimate >= LITTLE * rows.data.log_loss(reference_of(rows))
    helps = (gain.high < 0 and is_much) or (is_refuted(rows) and brier.high < 0)
    return Trial(
        sample,
        comparison=comparison,
        chosen=chosen,
        calibrator=names[chosen.name],
        near=tuple(result.name for result in near[1:]),
        gain=gain,
        brier=brier,
        helps=helps,
        after=after,
    )


def most_rows(methods: Methods, n_classes: int) -> int:
    """Return how many rows these methods are tried on: a million of two classes, ten thousand where one of them is slow.

    >>> most_rows(["temperature", "platt"], 2), most_rows(["temperature", "shared-vector"], 3)
    (1000000, 10000)
    """
    if all(isinstance(method, str) and method in QUICK for method in methods):
        return max(1, QUICK_NUMBERS // n_classes)
    return max(1, min(SLOW_ROWS, SLOW_NUMBERS // n_classes))


def _within_one_standard_error(comparison: Comparison, usable: list[MethodResult]) -> list[MethodResult]:
    """Return the methods that are as good as the best but for one standard error of the paired difference, in order."""
    best = min(usable, key=lambda result: result.scores["log_loss"])
    near = []
    for result in usable:
        gap = comparison.difference(best.name, result.name)
        if result is best or gap.estimate <= gap.standard_error:
            near.append(result)
    return near


def _all_rows(rows: Rows, sample_numbers: Numbers, chosen: MethodResult) -> Rows:
    """Return all rows as mapped by what was not fitted to them."""
    assert chosen.calibrator is not None
    assert chosen.predictions is not None
    probabilities = np.empty(rows.predictions.scores.shape, rows.predictions.scores.dtype)
    others = np.ones(rows.n_rows, dtype=np.bool_)
    others[sample_numbers] = False
    probabilities[sample_numbers] = chosen.predictions.probabilities
    probabilities[others] = chosen.calibrator.transform(rows.predictions.take(others)).probabilities
    probabilities.setflags(write=False)
    return rows.with_predictions(Predictions(probabilities, Space.PROBABILITIES))
