"""All tests of calibration, and the adjusted p-value that decides the verdict."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from calibrant.errors import PredictionError
from calibrant.hypothesis_tests import (
    SlopeIntercept,
    calibration_slope_intercept,
    consistency_test,
    hosmer_lemeshow_test,
    kernel_test,
    spiegelhalter_test,
)
from calibrant.metrics import OneClass, TopClasses, brier_score, confidence_ece
from calibrant.metrics.utility import Utility
from calibrant.presentation import class_named, counted, p_text
from calibrant.ranking import holm
from calibrant.report.contents import Detectable, EventNumbers, TestRow
from calibrant.report.evaluation_set import EvaluationSet, random_rows
from calibrant.report.event_evidence import (
    SMALLEST_VARIANCE,
    EventEvidence,
    GroupSums,
    event_evidence,
    rare_detectable,
    weights_of_test,
)
from calibrant.report.method_selection import has_infinite_loss
from calibrant.report.power import (
    CHI_SQUARE_BINS,
    CHI_SQUARE_EXPECTED,
    KINDS_OF_MAIN_EVENT,
    detectable_errors,
)
from calibrant.space import Space

__all__ = ["FOR_INFORMATION", "IMPOSSIBLE", "Evidence", "evidence_of", "main_event", "n_impossible"]

# Limits of the kernel test, which is quadratic in the rows: rows, probabilities, and classes above which it is skipped.
KERNEL_ROWS, KERNEL_NUMBERS, KERNEL_CLASSES = 1000, 10_000, 30

# Its numbers of simulations; the second one is for p-values at most this.
KERNEL_SIMULATIONS, KERNEL_CLEAR = (99, 500), 0.1

# Rows and number of simulations for the null distribution of a binned error.
SIMULATED_ROWS, SIMULATIONS = 20_000, 500
EXACT_SIMULATIONS = 999

IMPOSSIBLE = "Events of probability zero"
FOR_INFORMATION = "For information only; not used for the verdict."


@dataclass(frozen=True)
class Evidence:
    """Results of all tests.

    Attributes
    ----------
    tests : tuple of TestRow
    p_value : float
        Smallest adjusted p-value of the tests that decide the verdict.
    main : EventEvidence
        Test of the predicted class, or of the second class of two.
    main_adjusted : float
        Its adjusted p-value.
    class_events : tuple of EventEvidence
    class_adjusted : tuple of float
        Their p-values, adjusted with Holm's method over all classes.
    line : SlopeIntercept or None
        Slope and intercept of the main event; None if all probabilities are zero or one.
    smallest_detectable : float or None
        Error of the main event that is detected with a power of 80 %, whatever its kind; None if there is none.
    detectable : tuple of Detectable
        Power of the tests against kinds of miscalibration.
    events : EventNumbers or None
        Observed and expected number of the rarer outcome of the main event, if it is rare.
    alpha : float
        Level of a single test after Bonferroni correction.
    most_significant : str
        Name of the test with the smallest p-value.
    n_deciding : int
        Number of tests that decide the verdict.
    rejecting : tuple of str
        Names of the tests that reject calibration.
    """

    tests: tuple[TestRow, ...]
    p_value: float
    main: EventEvidence
    main_adjusted: float
    class_events: tuple[EventEvidence, ...]
    class_adjusted: tuple[float, ...]
    line: SlopeIntercept | None
    smallest_detectable: float | None
    detectable: tuple[Detectable, ...]
    events: EventNumbers | None
    alpha: float
    most_significant: str
    n_deciding: int
    rejecting: tuple[str, ...]


@dataclass(frozen=True)
class _Test:
    name: str
    event: str
    statistic: float
    p_value: float
    sentence: str
    decides: bool


def main_event(rows: EvaluationSet) -> tuple[Utility, str]:
    """Return the main event of a report: the second class of two, else the predicted class."""
    if rows.n_classes == 2:
        return OneClass(1), class_named(rows.class_names[1])
    return TopClasses(), "predicted class"


def evidence_of(rows: EvaluationSet, sample: EvaluationSet, level: float, random_state: int) -> Evidence:
    """Run all tests on the rows, and tests by simulation on the ``sample``."""
    utility, event = main_event(rows)
    main = event_evidence(rows, utility)
    results = [
        _Test(
            "Exact test of counts" if main.is_exact else "Cumulative test (Kuiper)",
            event,
            main.statistic,
            main.p_value,
            main.description,
            True,
        )
    ]
    if main.has_count_test:
        results.append(_count_finding(main, event))
    if main.mean_p_value is not None:
        results.append(_mean_finding(rows, event, main.mean_p_value))
    class_events, class_adjusted = _class_evidence(rows, main)
    if rows.n_classes > 2:
        results.append(_classes_together(rows, class_events))
    # With groups the other tests reject too often, and with few unlikely outcomes their approximations are rough.
    is_valid = rows.groups is None and main.total_variance >= 2 * SMALLEST_VARIANCE
    line = _line(rows, level)
    if line is not None:
        results.append(_line_finding(line, event, is_valid))
    results.append(_chi_square(rows, event, is_valid))
    results.append(
        _spiegelhalter(rows, is_valid)
        if rows.groups is None
        else _grouped_spiegelhalter(rows, main.total_variance >= 2 * SMALLEST_VARIANCE)
    )
    if rows.groups is None and not is_valid:
        results += _exact(sample, random_state)
    if rows.n_classes > 2 and rows.n_classes <= KERNEL_CLASSES and rows.n_rows >= 10:
        results.append(_kernel(rows, random_state))
    results.append(_binned(sample, random_state))
    results += _impossible(rows)
    family = [result for result in results if result.decides]
    adjusted = dict(
        zip(
            [result.name for result in family],
            holm([one.p_value for one in family]).tolist(),
            strict=True,
        )
    )
    tests = tuple(_row(result, adjusted.get(result.name)) for result in results)
    smallest = min(family, key=lambda result: result.p_value)
    alpha = (1 - level) / len(family)
    detectable = detectable_errors(rows, utility, main, class_events, alpha, random_state)
    return Evidence(
        tests=tests,
        p_value=float(adjusted[smallest.name]),
        main=main,
        main_adjusted=float(adjusted[results[0].name]),
        class_events=class_events,
        class_adjusted=class_adjusted,
        line=line,
        smallest_detectable=_smallest_detectable(rows, utility, main, detectable, alpha),
        detectable=detectable,
        events=_events(rows, main, alpha),
        alpha=alpha,
        most_significant=smallest.name,
        n_deciding=len(family),
        rejecting=tuple(name for name, p_value in adjusted.items() if p_value <= 1 - level),
    )


def _row(result: _Test, adjusted: float | None) -> TestRow:
    remark = "" if adjusted is not None else f" {FOR_INFORMATION}"
    return TestRow(
        result.name,
        result.event,
        result.statistic,
        result.p_value,
        result.p_value if adjusted is None else float(adjusted),
        result.sentence + remark,
    )


def _class_evidence(
    rows: EvaluationSet, main: EventEvidence
) -> tuple[tuple[EventEvidence, ...], tuple[float, ...]]:
    if rows.n_classes == 2:  # one hypothesis, since the two probabilities sum to one
        return (main, main), (main.combined_p_value, main.combined_p_value)
    events = tuple(event_evidence(rows, OneClass(column)) for column in range(rows.n_classes))
    return events, tuple(holm([event.combined_p_value for event in events]).tolist())


def _count_finding(main: EventEvidence, event: str) -> _Test:
    counts = main.counts
    return _Test(
        "Number of events",
        event if counts.of_event else f"{event}, mistakes",
        float(counts.observed),
        counts.p_value,
        f"{counts.observed} observed, {counts.expected:.4g} expected in {counts.n_rows} rows; exact Poisson-binomial tails.",
        True,
    )


def _mean_finding(rows: EvaluationSet, event: str, p_value: float) -> _Test:
    prospect = main_event(rows)[0].prospect(rows.predictions)
    residuals = prospect.realised(rows.data.labels) - prospect.expected
    return _Test(
        "Mean residual",
        event,
        float(np.average(residuals, weights=weights_of_test(rows))),
        p_value,
        "Observed frequency minus mean probability, compared with its values for random signs of the groups' sums.",
        True,
    )


def _classes_together(rows: EvaluationSet, events: tuple[EventEvidence, ...]) -> _Test:
    p_values = [event.combined_p_value for event in events]
    smallest = p_values.index(min(p_values))
    p_value = min(1.0, len(events) * p_values[smallest])
    return _Test(
        "Cumulative tests of all classes",
        "all classes",
        max(event.statistic for event in events),
        p_value,
        f"One test per class; the smallest p-value, that of {class_named(rows.class_names[smallest])}, times the number of "
        f"classes, {len(events)} (Bonferroni).",
        True,
    )


def _line(rows: EvaluationSet, level: float) -> SlopeIntercept | None:
    try:
        return calibration_slope_intercept(
            rows.labels, rows.predictions, sample_weight=rows.weights, level=level
        )
    except PredictionError:  # every probability is zero or one
        return None


def _line_finding(line: SlopeIntercept, event: str, is_valid: bool) -> _Test:
    joint = line.joint_test
    return _Test(
        "Slope and intercept",
        event,
        joint.statistic,
        joint.p_value,
        "Likelihood-ratio test of slope 1 and intercept 0 of the log-odds"
        f"{'' if joint.caution is None else f'; {joint.caution}'}.",
        # The log-odds of exact zeros and ones are a convention, which must not decide the verdict.
        is_valid and joint.caution is None,
    )


def _chi_square(rows: EvaluationSet, event: str, is_valid: bool) -> _Test:
    result = hosmer_lemeshow_test(
        rows.labels,
        rows.predictions,
        sample_weight=rows.weights,
        n_bins=CHI_SQUARE_BINS,
        min_expected=CHI_SQUARE_EXPECTED,
    )
    return _Test(
        "Chi-square test of bins",
        event,
        result.statistic,
        result.p_value,
        f"Sum over bins of squared differences between observed and expected events, each divided by its variance: up to "
        f"{CHI_SQUARE_BINS} equal-mass bins with at least {CHI_SQUARE_EXPECTED:.0f} expected events and non-events.",
        is_valid and result.caution is None,
    )


def _spiegelhalter(rows: EvaluationSet, is_valid: bool) -> _Test:
    result = spiegelhalter_test(rows.labels, rows.predictions, sample_weight=rows.weights)
    return _Test(
        "Spiegelhalter's test",
        "all probabilities",
        result.statistic,
        result.p_value,
        "Observed minus expected Brier score, standardised: positive for over-confident probabilities, negative for "
        "under-confident ones.",
        is_valid and result.caution is None,
    )


def _grouped_spiegelhalter(rows: EvaluationSet, is_valid: bool) -> _Test:
    """Return Spiegelhalter's test by random signs of groups, whose weights are capped as in the cumulative test."""
    assert rows.groups is not None
    p = rows.predictions.probabilities.astype(np.float64)
    excess = np.einsum("ik,ik->i", p, p) - p[np.arange(rows.n_rows), rows.data.labels]
    weights = weights_of_test(rows)
    return _Test(
        "Spiegelhalter's test",
        "all probabilities",
        float(np.average(excess, weights=weights)),
        GroupSums.of(rows.groups, weights * excess).total_p_value,
        "Observed minus expected Brier score, compared with its values for random signs of the groups' sums: positive for "
        "over-confident probabilities, negative for under-confident ones.",
        is_valid,
    )


def _exact(sample: EvaluationSet, random_state: int) -> list[_Test]:
    """Return tests by simulation, which replace asymptotic tests if few unlikely outcomes are expected."""
    result = consistency_test(
        brier_score,
        sample.labels,
        sample.predictions,
        sample_weight=sample.weights,
        n_resamples=EXACT_SIMULATIONS,
        random_state=random_state,
    )
    return [
        _Test(
            "Brier score by simulation",
            "all probabilities",
            result.statistic,
            result.p_value,
            f"Compared with {EXACT_SIMULATIONS} sets of labels drawn from the probabilities of {sample.n_rows} rows; exact.",
            True,
        ),
    ]


def _kernel(rows: EvaluationSet, random_state: int) -> _Test:
    subset = rows.take(random_rows(rows, KERNEL_ROWS, KERNEL_NUMBERS, random_state))
    for n_resamples in KERNEL_SIMULATIONS:
        result = kernel_test(
            subset.labels,
            subset.predictions,
            sample_weight=subset.weights,
            method="resampling",
            n_resamples=n_resamples,
            random_state=random_state,
        )
        if result.p_value > KERNEL_CLEAR:  # more simulations could only reject less often
            break
    part = "" if subset.n_rows == rows.n_rows else f"On a random sample of {subset.n_rows} rows: "
    return _Test(
        "Kernel test",
        "probability vectors",
        result.statistic,
        result.p_value,
        f"{part}Correlation between the residuals of rows with similar probabilities; {result.n_resamples} simulations.",
        rows.groups is None,
    )


def _binned(sample: EvaluationSet, random_state: int) -> _Test:
    subset = sample.take(random_rows(sample, SIMULATED_ROWS, 10**9, random_state))
    result = consistency_test(
        partial(confidence_ece, n_bins=15),
        subset.labels,
        subset.predictions,
        sample_weight=subset.weights,
        n_resamples=SIMULATIONS,
        random_state=random_state,
    )
    noise = "" if result.null_mean is None else f" its mean under calibration is {result.null_mean:.3g};"
    return _Test(
        "Consistency test by ECE, 15 bins",
        "predicted class",
        result.statistic,
        result.p_value,
        f"A binned error is positive even for calibrated predictions:{noise} {p_text(result.p_value, SIMULATIONS)} from "
        f"{SIMULATIONS} simulations of {subset.n_rows} rows.",
        False,
    )


def n_impossible(rows: EvaluationSet) -> int:
    """Return the number of rows whose true class had probability zero; 0 if a floor was declared."""
    given = rows.predictions
    if (
        given.space is not Space.PROBABILITIES
        or given.declared_floor is not None
        or not has_infinite_loss(rows)
    ):
        return 0
    return int(np.count_nonzero(given.scores[np.arange(rows.n_rows), rows.data.labels] == 0))


def _impossible(rows: EvaluationSet) -> list[_Test]:
    number = n_impossible(rows)
    if number == 0:
        return []
    return [
        _Test(
            IMPOSSIBLE,
            "all classes",
            float(number),
            0.0,
            f"In {counted(number, 'row')} the true class had probability exactly zero. This proves miscalibration, unless the "
            "zeros are rounded.",
            True,
        )
    ]


def _events(rows: EvaluationSet, main: EventEvidence, alpha: float) -> EventNumbers | None:
    counts = main.counts
    if not counts.is_rare:
        return None
    if rows.n_classes == 2:
        name = f"rows of {class_named(rows.class_names[int(counts.of_event)])}"
    else:
        name = "right predictions" if counts.of_event else "mistakes"
    factors = counts.at_effective_size(main.design_effect).detectable_factors(alpha)
    return EventNumbers(name, counts.expected, counts.observed, *factors)


def _smallest_detectable(
    rows: EvaluationSet,
    utility: Utility,
    main: EventEvidence,
    detectable: tuple[Detectable, ...],
    alpha: float,
) -> float | None:
    """Return the error of the main event that is detected whether it is a shift, over-confidence or waves."""
    if main.is_exact:
        rare = rare_detectable(np.clip(utility.prospect(rows.predictions).expected, 0.0, 1.0), alpha)
        return rare if rare <= 1 else None
    smallest = [one.smallest for one in detectable if one.kind in KINDS_OF_MAIN_EVENT]
    return max((size for size in smallest if size is not None), default=None) if all(smallest) else None
