"""Assess predictions: verdict, recommendation and the numbers behind them."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from calibrant.arrays import AnyArray, IntArray
from calibrant.calibrator import Calibrator
from calibrant.errors import ParameterError
from calibrant.options import check_level, is_whole
from calibrant.report.assessment import Assessment
from calibrant.report.evaluation_set import EvaluationSet, random_rows
from calibrant.report.evidence import evidence_of
from calibrant.report.method_selection import select_method
from calibrant.report.recommendation import recommendation
from calibrant.report.sections import further_numbers
from calibrant.report.sections.binning import bin_sensitivities, cumulative_numbers
from calibrant.report.sections.classes import class_rows
from calibrant.report.sections.data import data_summary, origin_of_arrays, repeatability
from calibrant.report.sections.decisions import decision_numbers
from calibrant.report.sections.decomposition import decompositions
from calibrant.report.sections.example import example_of
from calibrant.report.sections.methods import learning_numbers
from calibrant.report.sections.pitfalls import pitfalls
from calibrant.report.sections.reliability import curves
from calibrant.report.sections.scores import error_rows, lower_bound, score_rows
from calibrant.report.sections.selective import selective_rows
from calibrant.report.sections.subgroups import subgroup_numbers
from calibrant.report.sections.tests import mean_gap, slope_estimates
from calibrant.report.verdict import is_small, verdict
from calibrant.segments import side_columns as parsed_columns

__all__ = ["assess"]

Progress = Callable[[int, int, str], object]
"""Called with the amount done, the total, and the name of the next step."""

# Limits: probabilities (rows x classes) that are measured; for expensive parts, rows of two classes, rows of more, probabilities.
MEASURED_NUMBERS = 20_000_000
SAMPLE_ROWS_OF_TWO, SAMPLE_ROWS, SAMPLE_NUMBERS = 50_000, 10_000, 5_000_000

# Steps with their approximate shares of the run time.
STEPS: dict[str, float] = {
    "reading": 3,
    "testing": 10,
    "comparing methods": 45,
    "learning curve": 12,
    "classes": 6,
    "scores": 4,
    "errors": 8,
    "decompositions": 6,
    "plots": 6,
}


def assess(
    y_true: Any,
    y_proba: Any,
    *,
    sample_weight: Any = None,
    groups: Any = None,
    side_columns: Any = None,
    costs: Any = None,
    methods: Sequence[str | Calibrator] | None = None,
    cv: Any = 5,
    level: float = 0.95,
    title: str | None = None,
    random_state: int = 0,
    progress: Progress | None = None,
) -> Assessment:
    r"""Assess the calibration of predictions: test it, quantify the error and recommend a calibration method.

    Parameters
    ----------
    y_true : array of shape (n,)
        True classes: column numbers, or labels that match the columns.
    y_proba : array, frame or Predictions
        Probabilities (n, K), or (n,) or (n, 1) for the positive class of two; logits only through
        ``Predictions.from_logits``. Use held-out rows, on which the classifier was not trained.
    sample_weight : array of shape (n,), optional
        Sample weights.
    groups : array of shape (n,), optional
        Group labels, if rows of one group (of one patient, say) are dependent. Groups are kept together in
        cross-validation, and the verdict and the intervals treat groups, not rows, as independent.
    side_columns : data frame or mapping of str to array of shape (n,), optional
        Columns such as sex or site; a section of the report then has the calibration within their segments, see
        :func:`~calibrant.hypothesis_tests.subgroup_calibration`.
    costs : array of shape (D, K), optional
        Cost of every decision for every true class; a section then has the cost of decisions before and after calibration, and
        for two classes net benefits.
    methods : sequence of str or Calibrator, optional
        Calibration methods to try, the simplest first. The default is a set of fast methods that depends on the number of
        rows and classes. An empty sequence tries none.
    cv : int, splitter or iterable of splits, default=5
        Cross-validation in which methods are compared; each row must be in exactly one test fold.
    level : float, default=0.95
        Confidence level of the verdict and of the intervals.
    title : str, optional
        Title of the report.
    random_state : int, default=0
        Seed of all random numbers: the same seed gives the same report, except for date and run times.
    progress : function, optional
        Called as ``progress(done, total, what)`` after each step, with ``total`` 100.

    Returns
    -------
    Assessment
        Plain numbers and sentences. ``print`` shows a summary; ``to_html``, ``to_markdown`` and ``to_json`` give the
        complete report.

    Notes
    -----
    **Verdict.** The p-values of up to five tests are adjusted with Holm's method. The predictions are called miscalibrated
    if the smallest adjusted p-value is at most one minus the level, so calibrated predictions are called miscalibrated with
    at most that probability. If no test rejects, they are called calibrated only if the tests had a power of 80 % against an
    error of five percentage points, or against a factor of two for rare events. Otherwise the verdict is "unclear" or "too
    few events". See :doc:`/report`.

    **Recommendation.** The first method whose cross-validated log-loss is within one standard error of the lowest is chosen.
    It is recommended if its gain over the uncalibrated predictions is significant, by an interval that holds simultaneously
    for all methods. Where a true class had probability zero and the log-loss is infinite, the Brier score decides instead. A
    gain of less than 0.5 % of the log-loss is not recommended, unless the tests show more than a small error.

    **Large data.** At most :math:`2 \cdot 10^7` probabilities are measured; of more, a random sample. Fast methods, such as
    the default set for two classes, are tried on up to :math:`2 \cdot 10^6` probabilities. Others are tried on 10,000 rows.
    This sample keeps up to 500 rows of every rare class, with weights that restore the class frequencies. The remaining rows
    are then mapped by the calibrator fitted to the sample.

    Examples
    --------
    90 % confident, and right in three of four rows:

    >>> p = [[0.9, 0.1]] * 200 + [[0.1, 0.9]] * 200
    >>> y = ([0, 0, 0, 1] * 50) + ([1, 1, 1, 0] * 50)
    >>> found = assess(y, p, methods=["temperature"])
    >>> found.verdict.status, found.verdict.direction
    ('miscalibrated', 'over-confident')
    >>> found.recommendation.method, round(found.recommendation.gain.value, 2)
    ('temperature', 0.09)
    """
    check_level(level)
    if not is_whole(random_state, 0):
        raise ParameterError(
            f"random_state must be an integer of at least 0, so that the report can be reproduced, not {random_state!r}."
        )
    if title is not None and not isinstance(title, str):
        raise ParameterError(f"title must be text, not {title!r}.")
    level, random_state = float(level), int(random_state)
    steps = _Steps(STEPS, progress)
    with steps("reading"):
        given = EvaluationSet.parse(y_true, y_proba, sample_weight, groups)
        origin = origin_of_arrays(given)
        summary = data_summary(given, len(y_true) - given.n_rows, _split(given, cv))
        measured = random_rows(given, given.n_rows, MEASURED_NUMBERS, random_state)
        rows = given.take(measured)
        side = _side_columns(side_columns, y_true, sample_weight, given.n_rows, measured)
        # Splits given as index arrays refer to all rows, so the rows must not be sampled.
        is_free = is_whole(cv, 2) or hasattr(cv, "split")
        most = SAMPLE_ROWS_OF_TWO if rows.n_classes == 2 else SAMPLE_ROWS
        drawn = random_rows(rows, most, SAMPLE_NUMBERS, random_state)
        sample = rows.take(drawn)
    with steps("testing"):
        evidence = evidence_of(rows, sample, level, random_state)
    with steps("comparing methods"):
        small = evidence.p_value > 1 - level or is_small(evidence, level)
        selection = select_method(
            rows, methods, cv, level, random_state, steps.within, may_sample=is_free, small_error=small
        )
        sample_mapped = None if selection.after is None else selection.after.take(drawn)
    after, sample_after = (selection.after, sample_mapped) if selection.is_recommended else (None, None)
    with steps("learning curve"):
        learning, more_rows = learning_numbers(selection, given.n_rows, cv, level, random_state)
        advice = recommendation(rows, selection, evidence.p_value, more_rows, level)
    with steps("classes"):
        classes = class_rows(rows, after, sample, evidence, level)
    with steps("scores"):
        scores = score_rows(rows, after, level, random_state)
        selective = selective_rows(rows, after, level)
        subgroups = subgroup_numbers(rows, after, side, level, random_state)
        decisions = decision_numbers(rows, after, costs, level)
        further = further_numbers(rows, after, level, random_state)
    with steps("errors"):
        bound = lower_bound(sample, level)
        errors = error_rows(sample, sample_after, bound, level, random_state)
    with steps("decompositions"):
        parts = decompositions(sample, sample_after, level)
    with steps("plots"):
        drawings = curves(rows, sample, sample_mapped, selection, classes, level, random_state)
        paths = cumulative_numbers(rows, selection)
        sensitivities = bin_sensitivities(sample, sample_mapped, selection, random_state)
        example = example_of(selection, summary.classes, random_state)
    steps.finish()
    settings = {
        "level": level,
        "cv": cv,
        "methods": "default" if methods is None else ", ".join(str(method) for method in methods),
        "random_state": random_state,
        "rows given": given.n_rows,
        "rows measured": rows.n_rows,
        "rows for the comparison of methods": selection.rows.n_rows,
        "weights": "yes" if summary.weighted else "no",
        "groups": "no" if summary.n_groups is None else summary.n_groups,
    }
    return Assessment(
        title="Calibration report" if title is None else title,
        data=summary,
        verdict=verdict(rows, evidence, classes, bound, mean_gap(rows, level), level),
        recommendation=advice,
        scores=scores,
        decompositions=parts,
        errors=errors,
        slopes=slope_estimates(rows, evidence.line, level),
        tests=evidence.tests,
        classes=classes,
        curves=drawings,
        cumulative=paths,
        bin_sensitivity=sensitivities,
        learning=learning,
        pitfalls=pitfalls(summary, rows, sample, evidence, selection, advice, level),
        repeatability=repeatability(settings, steps.seconds),
        example=example,
        selective=selective,
        origin=origin,
        subgroups=subgroups,
        decisions=decisions,
        further=further,
    )


def _side_columns(
    columns: Any, y_true: Any, sample_weight: Any, n_rows: int, measured: IntArray | None
) -> dict[str, AnyArray] | None:
    """Return the side columns of the rows that are measured."""
    if columns is None:
        return None
    side = parsed_columns(columns, len(y_true))
    if sample_weight is not None:
        kept = np.asarray(sample_weight) > 0
        side = {name: values[kept] for name, values in side.items()}
    if any(len(values) != n_rows for values in side.values()):
        raise ParameterError(
            "side_columns do not work with ignored labels; leave those rows out of all arguments."
        )
    return side if measured is None else {name: values[measured] for name, values in side.items()}


def _split(rows: EvaluationSet, cv: Any) -> str:
    folds = f"{cv} folds" if isinstance(cv, int) else "the splits given by cv"
    together = "" if rows.groups is None else ", groups kept together"
    return (
        "All rows are assumed to be held out from the training of the classifier. Numbers after calibration are from "
        f"held-out rows as well ({folds}{together})."
    )


class _Steps:
    """Progress in percent, and run times of the steps, whose approximate relative run times are given in order.

    >>> steps = _Steps({"half": 1, "rest": 1}, lambda *told: print(told))
    >>> with steps("half"):
    ...     pass
    (0, 100, 'half')
    >>> with steps("rest"):
    ...     steps.within(1, 2, "more")
    (50, 100, 'rest')
    (75, 100, 'rest: more')
    >>> steps.finish()
    (100, 100, '')
    """

    def __init__(self, shares: dict[str, float], progress: Progress | None) -> None:
        self.seconds: dict[str, float] = {}
        self._progress = progress
        total, so_far = sum(shares.values()), 0.0
        self._ranges = {}
        for name, share in shares.items():
            self._ranges[name] = (100 * so_far / total, 100 * (so_far + share) / total)
            so_far += share
        self._current = ""

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Report the start of a step and time it."""
        self._current = name
        self._tell(self._ranges[name][0], name)
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start

    def within(self, done: int, total: int, what: str) -> None:
        """Report progress within the current step."""
        low, high = self._ranges[self._current]
        self._tell(
            low + (high - low) * done / max(total, 1), f"{self._current}: {what}" if what else self._current
        )

    def finish(self) -> None:
        """Report completion."""
        self._tell(100, "")

    def _tell(self, done: float, what: str) -> None:
        if self._progress is not None:
            self._progress(int(done), 100, what)
