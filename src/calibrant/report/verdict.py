"""The verdict: whether predictions are calibrated, with evidence, direction and the classes concerned."""

from typing import Literal

import numpy as np

from calibrant.metrics import LowerBound
from calibrant.presentation import (
    class_named,
    counted,
    enumerated,
    in_points,
    interval_in_points,
    p_text,
    percent,
    quoted,
    significant,
)
from calibrant.report.contents import RARE, ClassRow, Detectable, Estimate, EventNumbers, Verdict
from calibrant.report.evaluation_set import EvaluationSet
from calibrant.report.event_evidence import POWER, events_for_factor, groups_text
from calibrant.report.evidence import IMPOSSIBLE, Evidence, n_impossible
from calibrant.report.power import IN_A_SHARE, KINDS_OF_MAIN_EVENT, SWAPPED
from calibrant.report.sections.scores import capped_bound

__all__ = ["is_small", "status_of", "verdict"]

# Smallest relevant error: in probability over all rows, and as a factor for rare events.
RELEVANT_ERROR = 0.05
RELEVANT_FACTOR = 2.0

# A significant error is small below these limits: in probability, and relative to the rate of the rarer outcome.
SMALL, SMALL_SHARE = 0.01, 0.1

# The direction is mixed if the smaller of the two components is at least this fraction of the larger.
MIXED_RATIO = 0.5

POWER_TEXT = percent(POWER, 0)

SHOWN_CLASSES = 5
ON_AVERAGE = ("too high", "too low")

Direction = Literal["over-confident", "under-confident", "mixed", "none"]
Status = Literal["calibrated", "miscalibrated", "unclear", "too-few-events"]


def verdict(
    rows: EvaluationSet,
    evidence: Evidence,
    classes: tuple[ClassRow, ...],
    bound: LowerBound | None,
    gap: Estimate,
    level: float,
) -> Verdict:
    """Return the verdict: its status, see :func:`status_of`, and sentences on the evidence."""
    status = status_of(rows, evidence, level)
    direction = _direction(rows, evidence, bound, gap, level) if status == "miscalibrated" else "none"
    miscalibrated = (
        [row for row in classes if row.adjusted_p_value <= 1 - level] if status == "miscalibrated" else []
    )
    sentences = [_evidence_sentence(evidence, level)]
    if status == "miscalibrated":
        sentences.append(_means_sentence(rows, gap))
        if IMPOSSIBLE in evidence.rejecting and len(evidence.rejecting) > 1:
            sentences.append(_sentence(_zero_probability_clause(rows)))
    # A bound of zero, which has less power, would seem to contradict a significant gap of the means.
    if bound is not None and bound.n_folds > 1 and (capped_bound(bound) > 0 or not _is_significant(gap)):
        sentences.append(_size_sentence(bound, status))
    if miscalibrated and rows.n_classes > 2:
        sentences.append(_classes_sentence(miscalibrated, rows.n_classes))
    sentences += [
        _swap_sentence(one, one.powers[-1])
        for one in evidence.detectable
        if one.kind == SWAPPED and one.powers[-1] is not None
    ]
    sentences.append(_detectable_sentence(rows, evidence, status))
    return Verdict(
        status=status,
        headline=_headline(rows, status, direction, evidence, gap, miscalibrated, level),
        sentences=tuple(sentences),
        direction=direction,
        worst_classes=tuple(row.label for row in miscalibrated),
        p_value=evidence.p_value,
        smallest_detectable=evidence.smallest_detectable,
        events=evidence.events,
        detectable=evidence.detectable,
    )


def status_of(rows: EvaluationSet, evidence: Evidence, level: float) -> Status:
    """Return the status of the verdict.

    Miscalibrated if the smallest adjusted p-value is at most one minus the level. Otherwise calibrated if the tests have a
    power of 80 % against a constant shift, over-confidence and waves of five percentage points, or against a factor of two
    for rare events, and against two swapped classes of several. Otherwise unclear, or too few events.
    """
    if evidence.p_value <= 1 - level:
        return "miscalibrated"
    if evidence.events is not None and rows.n_groups != 1 and not _detects_factor(evidence.events):
        return "too-few-events"
    detectable = evidence.smallest_detectable
    is_detected = evidence.events is not None or (detectable is not None and detectable <= RELEVANT_ERROR)
    return "calibrated" if is_detected and not _misses_swap(evidence) and rows.n_groups != 1 else "unclear"


def _misses_swap(evidence: Evidence) -> bool:
    return any(one.kind == SWAPPED and one.smallest is None for one in evidence.detectable)


def _undetected(evidence: Evidence) -> list[str]:
    """Return the kinds of relevant errors that the tests could miss."""
    found = [
        f"{_with_article(one.kind)} of {in_points(RELEVANT_ERROR)}"
        for one in _of_main_event(evidence)
        if one.smallest is None or one.smallest > RELEVANT_ERROR
    ]
    return [*found, SWAPPED] if _misses_swap(evidence) else found


def _detects_factor(events: EventNumbers) -> bool:
    """Return whether probabilities that are too high or too low by a factor of two would have been detected."""
    factors = (events.factor_too_high, events.factor_too_low)
    return all(factor is not None and factor <= RELEVANT_FACTOR for factor in factors)


def is_small(evidence: Evidence, level: float) -> bool:
    """Return whether all significant errors are below one point and below a tenth of the rate of the rarer outcome."""
    classes = zip(evidence.class_events, evidence.class_adjusted, strict=True)
    rejecting = [event for event, p_value in classes if p_value <= 1 - level]
    return all(
        event.statistic
        < min(SMALL, SMALL_SHARE * max(event.counts.expected, event.counts.observed) / event.counts.n_rows)
        for event in (evidence.main, *rejecting)
    )


def _direction(
    rows: EvaluationSet, evidence: Evidence, bound: LowerBound | None, gap: Estimate, level: float
) -> Direction:
    """Return the overall direction of the miscalibration, from tests at the same level.

    Two classes: by the slope of the log-odds. More classes: by mean confidence minus accuracy, or by the slope if these
    agree; mixed if the cross-fitted error has large over- and under-confident components.
    """
    if evidence.rejecting == (IMPOSSIBLE,):
        return "over-confident"
    alpha = 1 - level
    line = evidence.line
    by_slope: Direction = "mixed"
    if line is not None and line.slope_test.p_value <= alpha and not np.isnan(line.slope.value):
        by_slope = "over-confident" if line.slope.value < 1 else "under-confident"
    if rows.n_classes == 2:
        return by_slope
    if bound is not None and bound.overconfidence is not None and bound.underconfidence is not None:
        smaller, larger = sorted((bound.overconfidence, bound.underconfidence))
        if smaller > max(MIXED_RATIO * larger, 2 * bound.standard_error):
            return "mixed"
    if gap.low is not None and gap.low > 0:
        return "over-confident"
    if gap.high is not None and gap.high < 0:
        return "under-confident"
    return by_slope


def _is_significant(gap: Estimate) -> bool:
    return (gap.low is not None and gap.low > 0) or (gap.high is not None and gap.high < 0)


def _zero_probability_clause(rows: EvaluationSet) -> str:
    number = n_impossible(rows)
    return f"the true class of {counted(number, 'row')} had a predicted probability of exactly zero"


def _with_article(kind: str) -> str:
    return f"a {kind}" if kind == KINDS_OF_MAIN_EVENT[0] else kind


def _of_main_event(evidence: Evidence) -> list[Detectable]:
    return [one for one in evidence.detectable if one.kind in KINDS_OF_MAIN_EVENT]


def _detected(evidence: Evidence) -> str:
    """Return the smallest error of each kind that is detected, and the verb; empty if there is none."""
    if evidence.main.is_exact:
        size = evidence.smallest_detectable
        return "" if size is None else f"an excess of less probable outcomes of {in_points(size)} is"
    sizes = [
        f"{_with_article(one.kind)} of {in_points(one.smallest)}"
        for one in _of_main_event(evidence)
        if one.smallest is not None
    ]
    return f"{enumerated(sizes)} {'is' if len(sizes) == 1 else 'are'}" if sizes else ""


def _units(rows: EvaluationSet, evidence: Evidence) -> str:
    """Return the number of rows, or of groups."""
    effective = evidence.main.effective_groups
    return counted(rows.n_rows, "row") if effective is None else groups_text(rows, effective)


def _sentence(clause: str) -> str:
    return f"{clause[0].upper()}{clause[1:]}."


def _headline(
    rows: EvaluationSet,
    status: Status,
    direction: Direction,
    evidence: Evidence,
    gap: Estimate,
    miscalibrated: list[ClassRow],
    level: float,
) -> str:
    if status == "calibrated":
        if evidence.events is not None:
            return (
                f"No evidence of miscalibration: {_counted_events(evidence.events)}; an error by a factor of "
                f"{_larger_factor(evidence.events):.2g} is detected with a power of {POWER_TEXT}."
            )
        return f"No evidence of miscalibration; {_detected(evidence)} detected with a power of {POWER_TEXT}."
    if status == "too-few-events":
        assert evidence.events is not None
        noun = "mistakes" if evidence.events.name == "mistakes" else "events"
        return (
            f"Too few {noun} to tell: {_counted_events(evidence.events)}. Probabilities that are too high or too low by a "
            "factor of two could go undetected."
        )
    if status == "unclear":
        unit = "row" if rows.n_groups is None else "group"
        what = enumerated(_undetected(evidence), "or") or f"an error of {in_points(RELEVANT_ERROR)}"
        rows_given = _units(rows, evidence)
        return f"Too few {unit}s to tell: no test rejects calibration, but with {rows_given} {what} could go undetected."
    if evidence.rejecting == (IMPOSSIBLE,):
        return f"Not calibrated: {_zero_probability_clause(rows)}."
    opening = "Not calibrated, but the error is small" if is_small(evidence, level) else "Not calibrated"
    if rows.n_classes == 2:
        return f"{opening}: {_two_classes(rows, direction, gap, evidence, level)}."
    bias = _larger_class_bias(miscalibrated, gap)
    if bias is not None:
        rates = f"{percent(bias.mean_probability)} predicted, {percent(bias.share)} observed"
        size = in_points(abs(bias.in_the_large.value or 0.0))
        opening = f"{opening}: {class_named(bias.label)} is {bias.direction} by {size} ({rates})"
    separator = ":" if bias is None else ";"
    if direction == "mixed":
        if evidence.main_adjusted > 1 - level and miscalibrated:
            names = ", ".join(quoted(row.label) for row in miscalibrated[:3])
            more = "" if len(miscalibrated) <= 3 else f" and {len(miscalibrated) - 3} more"
            noun = "class" if len(miscalibrated) == 1 else "classes"
            return f"{opening}{separator} the probabilities of {noun} {names}{more} are miscalibrated."
        return f"{opening}{separator} {_without_direction(evidence, level, 'the probabilities')}."
    if not _is_significant(gap):
        direction_text = "too extreme" if direction == "over-confident" else "not extreme enough"
        return (
            f"{opening}{separator} the probabilities are {direction_text} ({direction}); mean confidence and accuracy agree "
            "within sampling error."
        )
    overall = (
        f"the predictions are {direction} (mean confidence {percent(rows.mean(rows.confidence))}, accuracy "
        f"{percent(rows.mean(rows.hits))})"
    )
    return f"{opening}{separator} {overall}{_rare_class(miscalibrated, bias)}."


def _counted_events(events: EventNumbers) -> str:
    return f"{significant(events.expected, 2, tiny=True)} {events.name} expected, {events.observed or 'none'} observed"


def _larger_factor(events: EventNumbers) -> float:
    return max(events.factor_too_high or np.inf, events.factor_too_low or np.inf)


def _without_direction(evidence: Evidence, level: float, what: str) -> str:
    """Describe a miscalibration without an overall direction.

    If Kuiper's test rejects but the means agree, the cumulative differences rise in one range of scores and fall in another.
    Other tests do not show where the error is.
    """
    if evidence.main_adjusted <= 1 - level and not evidence.main.is_exact:
        return f"{what} are too high in some ranges and too low in others"
    rejecting = evidence.rejecting
    if len(rejecting) == 1:
        return (
            f"one of {evidence.n_deciding} tests rejects calibration, {rejecting[0]} ({p_text(evidence.p_value)}), but the rows "
            "do not show where the error is"
        )
    return f"{what} are miscalibrated, without a clear direction"


def _rare_class(miscalibrated: list[ClassRow], named: ClassRow | None) -> str:
    """Return the rare class with the largest error by a factor, of at least two, unless the headline names it already."""
    on_average = [row for row in miscalibrated if row.direction in ON_AVERAGE]
    row = max(on_average, key=_factor, default=None)
    if row is None or row is named or _factor(row) < RELEVANT_FACTOR:
        return ""
    rates = f"{percent(row.mean_probability)} predicted, {percent(row.share)} observed"
    return f"; the worst by a factor is {class_named(row.label)}, {row.direction}: {rates}"


def _larger_class_bias(miscalibrated: list[ClassRow], gap: Estimate) -> ClassRow | None:
    """Return the class with the largest error of the mean, if that is larger than the error of the mean confidence."""
    on_average = [row for row in miscalibrated if row.direction in ON_AVERAGE]
    row = max(on_average, key=lambda row: abs(row.in_the_large.value or 0.0), default=None)
    if row is None or abs(row.in_the_large.value or 0.0) <= abs(gap.value or 0.0):
        return None
    return row


def _factor(row: ClassRow) -> float:
    """Return the ratio between mean probability and frequency of a rare class, at least one; one for other classes."""
    low, high = sorted((row.mean_probability, row.share))
    return 1.0 if high > RARE else high / low if low > 0 else np.inf


def _two_classes(
    rows: EvaluationSet, direction: Direction, gap: Estimate, evidence: Evidence, level: float
) -> str:
    counts, events = evidence.main.counts, evidence.events
    about = (
        f"the probabilities of {class_named(rows.class_names[1 if events is None else int(counts.of_event)])}"
    )
    parts = []
    if direction == "over-confident":
        parts.append("too extreme (over-confident)")
    if direction == "under-confident":
        parts.append("not extreme enough (under-confident)")
    if events is not None:
        if not evidence.main.is_grouped and counts.p_value <= 1 - level:
            direction_text = "high" if events.expected > events.observed else "low"
            parts.append(f"too {direction_text} on average, {_counted_events(events)}")
    elif gap.value is not None and _is_significant(gap):
        overconfidence = rows.mean(rows.confidence) - rows.mean(rows.hits)
        place = 0 if abs(gap.value) > abs(overconfidence) else len(parts)
        way = "high" if gap.value > 0 else "low"
        parts.insert(place, f"too {way} by {in_points(gap.value)} on average")
    return f"{about} are {' and '.join(parts)}" if parts else _without_direction(evidence, level, about)


def _evidence_sentence(evidence: Evidence, level: float) -> str:
    at_level = f"at the {100 * (1 - level):.4g} % level"
    found = p_text(evidence.p_value)
    if evidence.n_deciding == 1:
        rejects = "rejects" if evidence.p_value <= 1 - level else "does not reject"
        return f"The test {rejects} calibration {at_level}: {found} ({evidence.most_significant})."
    n_rejecting, n_tests = len(evidence.rejecting), evidence.n_deciding
    if n_tests == 2 and n_rejecting != 1:
        which = "Both tests" if n_rejecting else "Neither test"
    else:
        all_of = (
            "All" if n_rejecting == n_tests else f"{n_rejecting} of the" if n_rejecting else "None of the"
        )
        which = f"{all_of} {n_tests} tests"
    verb = "rejects" if n_rejecting <= 1 else "reject"
    return (
        f"{which} {verb} calibration {at_level}; smallest adjusted p-value: {found.removeprefix('p = ')} "
        f"({evidence.most_significant})."
    )


def _means_sentence(rows: EvaluationSet, gap: Estimate) -> str:
    interval = interval_in_points(gap.low, gap.high)
    ends = f" (interval of the difference: {interval})" if interval else ""
    if rows.n_classes == 2:
        mean = rows.mean(rows.predictions.probabilities[:, 1])
        share = rows.mean(rows.data.labels == 1)
        name = class_named(rows.class_names[1])
        return f"The mean probability of {name} is {percent(mean)}, its observed frequency {percent(share)}{ends}."
    return f"The mean confidence is {percent(rows.mean(rows.confidence))}, the accuracy {percent(rows.mean(rows.hits))}{ends}."


def _size_sentence(bound: LowerBound, status: Status) -> str:
    about = "of the confidence" if bound.kind == "confidence" else "of the probability"
    least = capped_bound(bound)
    if least <= 0:
        return f"The cross-fitted lower confidence bound on the mean error {about} is zero; it alone is no evidence of an error."
    if status != "miscalibrated":
        return (
            f"The cross-fitted lower confidence bound on the mean error {about}, not adjusted for multiple testing, is "
            f"{in_points(least)}; the estimate is {in_points(bound.estimate)}."
        )
    return (
        f"The mean error {about} is at least {in_points(least)} ({100 * bound.level:g} % lower confidence bound); the estimate "
        f"is {in_points(bound.estimate)}."
    )


def _classes_sentence(miscalibrated: list[ClassRow], n_classes: int) -> str:
    def described(row: ClassRow) -> str:
        return quoted(row.label) if row.direction == "none" else f"{quoted(row.label)} ({row.direction})"

    shown = ", ".join(described(row) for row in miscalibrated[:SHOWN_CLASSES])
    more = "" if len(miscalibrated) <= SHOWN_CLASSES else f" and {len(miscalibrated) - SHOWN_CLASSES} more"
    verb = "is" if len(miscalibrated) == 1 else "are"
    return f"{len(miscalibrated)} of {n_classes} classes {verb} significantly miscalibrated: {shown}{more}."


def _detectable_sentence(rows: EvaluationSet, evidence: Evidence, status: Status) -> str:
    if rows.n_groups == 1:
        return "All rows belong to one group. The variance between groups is unknown, so no error can be detected reliably."
    if evidence.events is not None:
        return _factor_sentence(rows, evidence.events, evidence.alpha, status)
    detected = _detected(evidence)
    missed = [_with_article(one.kind) for one in _of_main_event(evidence) if one.smallest is None]
    if not detected:
        subject = "These rows" if rows.n_groups is None else f"These {_units(rows, evidence)}"
        kinds = enumerated(missed, "or") or "an excess of less probable outcomes"
        return f"{subject} are too few to detect {kinds} of any size with a power of {POWER_TEXT}."
    together = "" if rows.n_groups is None else f" in {_units(rows, evidence)}"
    never = f" No size of {enumerated(missed, 'or')} is." if missed else ""
    found = (
        f"With {counted(rows.n_rows, 'row')}{together}, {detected} detected with a power of {POWER_TEXT}.{never} Smaller "
        "errors may go undetected."
    )
    detectable = evidence.smallest_detectable
    if status != "unclear" or detectable is None or detectable <= RELEVANT_ERROR:
        return found
    unit, number = ("rows", rows.n_rows) if rows.n_groups is None else ("groups", rows.n_groups)
    n_needed = number * (detectable / RELEVANT_ERROR) ** 2
    wanted = f"about {float(f'{n_needed:.2g}'):,.0f} {unit} are needed"
    return f"{found} To detect {in_points(RELEVANT_ERROR)} of each kind, {wanted}."


def _swap_sentence(swap: Detectable, power: float) -> str:
    """Return with which power complete swaps of two classes are detected."""
    classes = swap.unit.removesuffix(IN_A_SHARE)
    return (
        f"If the probabilities of {classes}, two classes of average frequency, were swapped in all rows, the tests would reject "
        f"calibration with a probability of {percent(power, 0)}."
    )


def _factor_sentence(rows: EvaluationSet, events: EventNumbers, alpha: float, status: Status) -> str:
    factors = {"high": events.factor_too_high, "low": events.factor_too_low}
    shown = [f"{factor:.2g} times too {way}" for way, factor in factors.items() if factor is not None]
    expected = f"With {significant(events.expected, 2, tiny=True)} {events.name} expected"
    if shown:
        detected = (
            f"{expected}, probabilities {' or '.join(shown)} are detected with a power of {POWER_TEXT}. Smaller errors may go "
            "undetected."
        )
    else:
        detected = f"{expected}, no factor is detected with a power of {POWER_TEXT}."
    if status != "too-few-events" or events.expected == 0:
        return detected
    n_needed = events_for_factor(RELEVANT_FACTOR, alpha) / events.expected * rows.n_rows
    return f"{detected} To detect a factor of two, about {float(f'{n_needed:.2g}'):,.0f} rows are needed."
