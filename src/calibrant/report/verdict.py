"""The verdict: calibrated or not, how sure that is, in which direction and for which classes."""

from typing import Literal

import numpy as np

from calibrant.metrics import LowerBound
from calibrant.report.contents import ClassRow, Estimate, EventNumbers, Verdict
from calibrant.report.error_rows import certain_error
from calibrant.report.event_counts import RARE, events_for_factor
from calibrant.report.evidence import IMPOSSIBLE, Evidence, n_impossible
from calibrant.report.plain import class_named, percent, points, quoted
from calibrant.report.rows import Rows
from calibrant.wording import counted, p_text

__all__ = ["is_small", "verdict"]

# An error of so much of all rows is one that a reader would want to know of; of rare events, a factor of two.
WORTH_SPEAKING_OF = 0.05
WORTH_FACTOR = 2.0

# Below it, as a share of all rows and of those with the rarer outcome, an error beyond doubt is still a small one.
SMALL, SMALL_SHARE = 0.01, 0.1

# A part of the error that is at least this share of the opposite one makes the direction mixed.
NOTABLE = 0.5

SHOWN_CLASSES = 5
MEANS = ("too high", "too low")

Direction = Literal["over-confident", "under-confident", "mixed", "none"]
Status = Literal["calibrated", "miscalibrated", "unclear", "too-few-events"]


def verdict(
    rows: Rows,
    evidence: Evidence,
    classes: tuple[ClassRow, ...],
    bound: LowerBound | None,
    gap: Estimate,
    level: float,
) -> Verdict:
    """Return the verdict.

    Miscalibrated if the smallest p-value, adjusted for the number of tests, is at most one minus the level. Else
    calibrated if an error of five points, and for rare events a factor of two, would have been seen with a probability of
    80 %; unclear, or too few events, if not.
    """
    detectable = evidence.smallest_detectable
    status: Status = "unclear"
    if evidence.p_value <= 1 - level:
        status = "miscalibrated"
    elif evidence.events is not None and rows.n_groups != 1 and not _shows_factor(evidence.events):
        status = "too-few-events"
    elif detectable is not None and detectable <= WORTH_SPEAKING_OF:
        status = "calibrated"
    direction = _direction(rows, evidence, bound, gap, level) if status == "miscalibrated" else "none"
    off = [row for row in classes if row.adjusted_p_value <= 1 - level] if status == "miscalibrated" else []
    sentences = [_evidence_sentence(evidence, level)]
    if status == "miscalibrated":
        sentences.append(_means_sentence(rows, gap))
        if IMPOSSIBLE in evidence.objecting and len(evidence.objecting) > 1:
            sentences.append(_sentence(_impossible(rows)))
    # A weaker bound that shows nothing would read as if it contradicted the means.
    if bound is not None and bound.n_folds > 1 and (certain_error(bound) > 0 or not _is_beyond_noise(gap)):
        sentences.append(_size_sentence(bound, status))
    if off and rows.n_classes > 2:
        sentences.append(_classes_sentence(off, rows.n_classes))
    sentences.append(_detectable_sentence(rows, evidence, status))
    return Verdict(
        status=status,
        headline=_headline(rows, status, direction, evidence, gap, off, level),
        sentences=tuple(sentences),
        direction=direction,
        worst_classes=tuple(row.label for row in off),
        p_value=evidence.p_value,
        smallest_detectable=detectable,
        events=evidence.events,
    )


def _shows_factor(events: EventNumbers) -> bool:
    """Tell whether probabilities that are twice too high or too low would have been seen."""
    factors = (events.factor_too_high, events.factor_too_low)
    return all(factor is not None and factor <= WORTH_FACTOR for factor in factors)


def is_small(evidence: Evidence, level: float) -> bool:
    """Tell whether all errors that show are below one point, and below a tenth of the rate of the rarer outcome."""
    classes = zip(evidence.class_events, evidence.class_adjusted, strict=True)
    objecting = [event for event, p_value in classes if p_value <= 1 - level]
    return all(
        event.statistic
        < min(SMALL, SMALL_SHARE * max(event.counts.expected, event.counts.observed) / event.counts.n_rows)
        for event in (evidence.main, *objecting)
    )


def _direction(
    rows: Rows, evidence: Evidence, bound: LowerBound | None, gap: Estimate, level: float
) -> Direction:
    """Return what predictions do on the whole, from tests at the same level.

    For two classes by the slope of the log-odds. For more by the mean confidence against the accuracy, unless the
    cross-fitted error has both an over- and an under-confident part; where the means agree, by the slope.
    """
    if evidence.objecting == (IMPOSSIBLE,):
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
        if smaller > max(NOTABLE * larger, 2 * bound.standard_error):
            return "mixed"
    if gap.low is not None and gap.low > 0:
        return "over-confident"
    if gap.high is not None and gap.high < 0:
        return "under-confident"
    return by_slope


def _is_beyond_noise(gap: Estimate) -> bool:
    return (gap.low is not None and gap.low > 0) or (gap.high is not None and gap.high < 0)


def _impossible(rows: Rows) -> str:
    number = n_impossible(rows)
    return f"the true class of {counted(number, 'row')} had the probability exactly zero, which calls it impossible"


def _sentence(clause: str) -> str:
    return f"{clause[0].upper()}{clause[1:]}."


def _headline(
    rows: Rows,
    status: Status,
    direction: Direction,
    evidence: Evidence,
    gap: Estimate,
    off: list[ClassRow],
    level: float,
) -> str:
    if status == "calibrated":
        if evidence.events is not None:
            return (
                f"No sign of miscalibration: {_counted_events(evidence.events)}; a factor of "
                f"{_larger_factor(evidence.events):.2g} would probably have been seen."
            )
        assert evidence.smallest_detectable is not None
        return (
            "No sign of miscalibration, and an error of "
            f"{points(evidence.smallest_detectable)} or more would probably have been seen."
        )
    if status == "too-few-events":
        assert evidence.events is not None
        noun = "mistakes" if evidence.events.name == "mistakes" else "events"
        return (
            f"Too few {noun} to tell: {_counted_events(evidence.events)}. Probabilities that are twice too high or too low "
            "could go unseen."
        )
    if status == "unclear":
        unit, number = ("row", rows.n_rows) if rows.n_groups is None else ("group", rows.n_groups)
        return (
            f"Too few {unit}s to tell: no test objects, but with {counted(number, unit)} an error worth speaking of could go "
            "unseen."
        )
    if evidence.objecting == (IMPOSSIBLE,):
        return f"Not calibrated: {_impossible(rows)}."
    opening = "Not calibrated, though by little" if is_small(evidence, level) else "Not calibrated"
    if rows.n_classes == 2:
        return f"{opening}: {_two_classes(rows, direction, gap, evidence, level)}."
    if direction == "mixed":
        if evidence.main_adjusted > 1 - level and off:
            names = ", ".join(quoted(row.label) for row in off[:3])
            more = "" if len(off) <= 3 else f" and {len(off) - 3} more"
            noun = "class" if len(off) == 1 else "classes"
            return f"{opening}: the probabilities of {noun} {names}{more} are off."
        return f"{opening}: {_nowhere(evidence, level, 'probabilities')}."
    if not _is_beyond_noise(gap):
        how = "too extreme" if direction == "over-confident" else "too timid"
        return f"{opening}: the probabilities are {how} ({direction}); mean confidence and accuracy agree within noise."
    return (
        f"{opening}: the predictions are {direction}, {percent(rows.mean(rows.confidence))} sure on average and right in "
        f"{percent(rows.mean(rows.hits))}{_worst_class(off, gap)}."
    )


def _counted_events(events: EventNumbers) -> str:
    return f"{_number(events.expected)} {events.name} expected, {events.observed or 'none'} observed"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 99.5 else f"{value:.2g}"


def _larger_factor(events: EventNumbers) -> float:
    return max(events.factor_too_high or np.inf, events.factor_too_low or np.inf)


def _nowhere(evidence: Evidence, level: float, what: str) -> str:
    """Return what can be said where no direction shows.

    That of Kuiper with means that agree says that sums of residuals leave noise and come back; others do not tell where.
    """
    if evidence.main_adjusted <= 1 - level and not evidence.main.is_exact:
        return f"{what} are too high in some places and too low in others"
    objecting = evidence.objecting
    if len(objecting) == 1:
        return (
            f"one test of {evidence.n_counted} objects, {objecting[0]} ({p_text(evidence.p_value)}), and these rows do not "
            "show where the error is"
        )
    return f"{what} are off, in no single direction that these rows show"


def _worst_class(off: list[ClassRow], gap: Estimate) -> str:
    """Return the rare class that is off by the largest factor, or else the class whose mean probability is furthest off.

    A factor counts from two on, a difference if it is larger than that of the mean confidence.
    """
    on_average = [row for row in off if row.direction in MEANS]
    if not on_average:
        return ""
    row = max(on_average, key=_factor)
    if _factor(row) >= WORTH_FACTOR:
        rates = f"{percent(row.mean_probability)} predicted, {percent(row.share)} observed"
        return f"; worst is {class_named(row.label)}, {row.direction}: {rates}"
    row = max(on_average, key=lambda row: abs(row.in_the_large.value or 0.0))
    size = abs(row.in_the_large.value or 0.0)
    if size <= abs(gap.value or 0.0):
        return ""
    return f"; worst is {class_named(row.label)}, {row.direction} by {points(size)}"


def _factor(row: ClassRow) -> float:
    """Return by which factor the mean probability of a rare class is off; one for others."""
    low, high = sorted((row.mean_probability, row.share))
    return 1.0 if high > RARE else high / low if low > 0 else np.inf


def _two_classes(rows: Rows, direction: Direction, gap: Estimate, evidence: Evidence, level: float) -> str:
    counts, events = evidence.main.counts, evidence.events
    about = (
        f"the probabilities of {class_named(rows.class_names[1 if events is None else int(counts.of_event)])}"
    )
    parts = []
    if direction == "over-confident":
        parts.append("too extreme (over-confident)")
    if direction == "under-confident":
        parts.append("too timid (under-confident)")
    if events is not None:
        if not evidence.main.is_grouped and counts.p_value <= 1 - level:
            how = "high" if events.expected > events.observed else "low"
            parts.append(f"too {how} on average, {_counted_events(events)}")
    elif gap.value is not None and gap.low is not None and gap.low > 0:
        parts.append(f"too high by {points(gap.value)} on average")
    elif gap.value is not None and gap.high is not None and gap.high < 0:
        parts.append(f"too low by {points(gap.value)} on average")
    return f"{about} are {' and '.join(parts)}" if parts else _nowhere(evidence, level, about)


def _evidence_sentence(evidence: Evidence, level: float) -> str:
    sure = f"at a confidence of {100 * level:g} %"
    found = p_text(evidence.p_value)
    if evidence.n_counted == 1:
        objects = "objects" if evidence.p_value <= 1 - level else "does not object"
        return f"The test {objects} {sure}: {found} ({evidence.surest})."
    objecting = len(evidence.objecting)
    how_many = f"{objecting} of" if objecting else "None of"
    verb = "objects" if objecting <= 1 else "object"
    return (
        f"{how_many} {evidence.n_counted} tests {verb} {sure}; the smallest p-value, adjusted for their number, is "
        f"{found} ({evidence.surest})."
    )


def _means_sentence(rows: Rows, gap: Estimate) -> str:
    ends = (
        ""
        if gap.low is None or gap.high is None
        else f" (difference {_signed(gap.low)} to {_signed(gap.high)} points)"
    )
    if rows.n_classes == 2:
        mean = rows.mean(rows.predictions.probabilities[:, 1])
        share = rows.mean(rows.data.labels == 1)
        name = class_named(rows.class_names[1])
        return f"The mean probability of {name} is {percent(mean)}, and {percent(share)} of the rows have it{ends}."
    return (
        f"Predictions are {percent(rows.mean(rows.confidence))} sure on average, and {percent(rows.mean(rows.hits))} of them are "
        f"right{ends}."
    )


def _signed(share: float) -> str:
    return f"{100 * share:+.2g}"


def _size_sentence(bound: LowerBound, status: Status) -> str:
    about = "of the confidence" if bound.kind == "confidence" else "of the probability"
    least = certain_error(bound)
    if least <= 0:
        return f"A bound on the mean error {about}, from rows held out, shows none by itself."
    if status != "miscalibrated":
        return (
            f"Taken by itself, not adjusted for the tests, the cross-fitted bound has the mean error {about} at "
            f"{points(least)} or more; the estimate is {points(bound.estimate)}."
        )
    return (
        f"The mean error {about} is at least {points(least)} with {100 * bound.level:g} % confidence; the estimate is "
        f"{points(bound.estimate)}."
    )


def _classes_sentence(off: list[ClassRow], n_classes: int) -> str:
    def said(row: ClassRow) -> str:
        return quoted(row.label) if row.direction == "none" else f"{quoted(row.label)} ({row.direction})"

    shown = ", ".join(said(row) for row in off[:SHOWN_CLASSES])
    more = "" if len(off) <= SHOWN_CLASSES else f" and {len(off) - SHOWN_CLASSES} more"
    verb = "is" if len(off) == 1 else "are"
    return f"{len(off)} of {n_classes} classes {verb} off beyond noise: {shown}{more}."


def _detectable_sentence(rows: Rows, evidence: Evidence, status: Status) -> str:
    detectable = evidence.smallest_detectable
    if rows.n_groups == 1:
        return "All rows are of one group: nothing tells how much groups differ, and no error is sure to be found."
    if detectable is None:
        few = "These rows" if rows.n_groups is None else f"These {rows.n_groups} groups"
        return f"{few} are too few to be sure of finding even the largest error."
    if evidence.events is not None:
        return _factor_sentence(rows, evidence.events, evidence.alpha, status)
    what = (
        "surprises beyond those promised"
        if evidence.main.is_exact
        else "of all rows, in any interval of scores"
    )
    together = "" if rows.n_groups is None else f" in {rows.n_groups} groups"
    seen = (
        f"With {counted(rows.n_rows, 'row')}{together} an error of {points(detectable)} ({what}) is seen with a "
        "probability of 80 %; smaller ones may stay unseen"
    )
    if status != "unclear":
        return f"{seen}."
    unit, number = ("rows", rows.n_rows) if rows.n_groups is None else ("groups", rows.n_groups)
    needed = number * (detectable / WORTH_SPEAKING_OF) ** 2
    return (
        f"{seen}. To see {points(WORTH_SPEAKING_OF)}, about {float(f'{needed:.2g}'):,.0f} {unit} are needed."
    )


def _factor_sentence(rows: Rows, events: EventNumbers, alpha: float, status: Status) -> str:
    factors = {"high": events.factor_too_high, "low": events.factor_too_low}
    shown = [f"{factor:.2g} times too {way}" for way, factor in factors.items() if factor is not None]
    expected = f"With {_number(events.expected)} {events.name} expected"
    if shown:
        seen = (
            f"{expected}, probabilities {' or '.join(shown)} are seen with a probability of 80 %; smaller errors may stay "
            "unseen."
        )
    else:
        seen = f"{expected}, no factor is sure to be seen."
    if status != "too-few-events" or events.expected == 0:
        return seen
    needed = events_for_factor(WORTH_FACTOR, alpha) / events.expected * rows.n_rows
    return f"{seen} To see a factor of two, about {float(f'{needed:.2g}'):,.0f} rows are needed."
