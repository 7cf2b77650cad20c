"""The verdict: calibrated or not, how sure that is, in which direction and for which classes."""

from typing import Literal

import numpy as np

from calibrant.metrics import LowerBound
from calibrant.report.contents import ClassRow, Estimate, Verdict
from calibrant.report.evidence import NOT_COUNTED, Evidence
from calibrant.report.plain import percent, points
from calibrant.report.rows import Rows
from calibrant.wording import class_text, counted, p_text

__all__ = ["WORTH_SPEAKING_OF", "verdict"]

# An error of so much of all rows is one that a reader would want to know of.
WORTH_SPEAKING_OF = 0.05

# Below it an error that is there beyond doubt is still a small one.
SMALL = 0.01

# A part of the error that is at least this share of the opposite one makes the direction mixed.
NOTABLE = 0.5

SHOWN_CLASSES = 5
MEANS = ("too high", "too low")

Direction = Literal["over-confident", "under-confident", "mixed", "none"]
Status = Literal["calibrated", "miscalibrated", "unclear"]


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
    calibrated if an error of five points would have been seen with a probability of 80 %, and unclear if not.
    """
    detectable = evidence.smallest_detectable
    status: Status = "unclear"
    if evidence.p_value <= 1 - level:
        status = "miscalibrated"
    elif detectable is not None and detectable <= WORTH_SPEAKING_OF:
        status = "calibrated"
    direction = _direction(rows, evidence, bound, gap, level) if status == "miscalibrated" else "none"
    off = [row for row in classes if row.adjusted_p_value <= 1 - level] if status == "miscalibrated" else []
    sentences = [_evidence_sentence(evidence, level)]
    if status == "miscalibrated":
        sentences.append(_means_sentence(rows, gap))
    if bound is not None and bound.n_folds > 1:
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
    )


def _direction(
    rows: Rows, evidence: Evidence, bound: LowerBound | None, gap: Estimate, level: float
) -> Direction:
    """Return what predictions do on the whole, from tests at the same level.

    For two classes by the slope of the log-odds. For more by the mean confidence against the accuracy, unless the
    cross-fitted error has both an over- and an under-confident part.
    """
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
    return "mixed"


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
        assert evidence.smallest_detectable is not None
        return (
            "No sign of miscalibration, and an error of "
            f"{points(evidence.smallest_detectable)} or more would probably have been seen."
        )
    if status == "unclear":
        return (
            f"Too few rows to tell: no test objects, but with {counted(rows.n_rows, 'row')} an error worth speaking of could go "
            "unseen."
        )
    small = evidence.main.statistic < SMALL and all(row.ece - row.ece_noise < SMALL for row in off)
    opening = "Not calibrated, though by little" if small else "Not calibrated"
    if rows.n_classes == 2:
        return f"{opening}: {_two_classes(rows, direction, gap)}."
    if direction == "mixed":
        if evidence.main_adjusted > 1 - level and off:
            names = ", ".join(repr(row.label) for row in off[:3])
            more = "" if len(off) <= 3 else f" and {len(off) - 3} more"
            noun = "class" if len(off) == 1 else "classes"
            return f"{opening}: the probabilities of {noun} {names}{more} are off."
        return f"{opening}: probabilities are too high in some places and too low in others."
    return (
        f"{opening}: the predictions are {direction}, {percent(rows.mean(rows.confidence))} sure on average and right in "
        f"{percent(rows.mean(rows.hits))}{_worst_class(off, gap)}."
    )


def _worst_class(off: list[ClassRow], gap: Estimate) -> str:
    """Return the class whose mean probability is furthest off, if that is further than the mean confidence is."""
    sizes = [0.0 if row.in_the_large.value is None else abs(row.in_the_large.value) for row in off]
    if not sizes or max(sizes) <= abs(gap.value or 0.0):
        return ""
    row = off[sizes.index(max(sizes))]
    return (
        f"; worst is class {row.label!r}, {row.direction} by {points(max(sizes))}"
        if row.direction in MEANS
        else ""
    )


def _two_classes(rows: Rows, direction: Direction, gap: Estimate) -> str:
    name = class_text(rows.data.classes[1])
    parts = []
    if direction == "over-confident":
        parts.append("too extreme (over-confident)")
    if direction == "under-confident":
        parts.append("too timid (under-confident)")
    if gap.value is not None and gap.low is not None and gap.low > 0:
        parts.append(f"too high by {points(gap.value)} on average")
    if gap.value is not None and gap.high is not None and gap.high < 0:
        parts.append(f"too low by {points(gap.value)} on average")
    wrong = " and ".join(parts) or "too high in some places and too low in others"
    return f"the probabilities of {name} are {wrong}"


def _evidence_sentence(evidence: Evidence, level: float) -> str:
    sure = f"at a confidence of {100 * level:g} %"
    found = p_text(evidence.p_value)
    if evidence.n_counted == 1:
        objects = "objects" if evidence.p_value <= 1 - level else "does not object"
        return f"The test {objects} {sure}: {found} ({evidence.surest})."
    objecting = sum(
        row.adjusted_p_value <= 1 - level and NOT_COUNTED not in row.sentence for row in evidence.tests
    )
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
        name = class_text(rows.data.classes[1])
        return f"The mean probability of {name} is {percent(mean)}, and {percent(share)} of the rows have it{ends}."
    return (
        f"Predictions are {percent(rows.mean(rows.confidence))} sure on average, and {percent(rows.mean(rows.hits))} of them are "
        f"right{ends}."
    )


def _signed(share: float) -> str:
    return f"{100 * share:+.2g}"


def _size_sentence(bound: LowerBound, status: Status) -> str:
    about = "of the confidence" if bound.kind == "confidence" else "of the probability"
    if bound.limit <= 0:
        return f"A bound on the mean error {about}, from rows held out, shows none by itself."
    if status != "miscalibrated":
        return (
            f"Taken by itself, not adjusted for the tests, the cross-fitted bound has the mean error {about} at "
            f"{points(bound.limit)} or more; the estimate is {points(bound.estimate)}."
        )
    return (
        f"The mean error {about} is at least {points(bound.limit)} with {100 * bound.level:g} % confidence; the estimate is "
        f"{points(bound.estimate)}."
    )


def _classes_sentence(off: list[ClassRow], n_classes: int) -> str:
    def said(row: ClassRow) -> str:
        return repr(row.label) if row.direction == "none" else f"{row.label!r} ({row.direction})"

    shown = ", ".join(said(row) for row in off[:SHOWN_CLASSES])
    more = "" if len(off) <= SHOWN_CLASSES else f" and {len(off) - SHOWN_CLASSES} more"
    verb = "is" if len(off) == 1 else "are"
    return f"{len(off)} of {n_classes} classes {verb} off beyond noise: {shown}{more}."


def _detectable_sentence(rows: Rows, evidence: Evidence, status: Status) -> str:
    detectable = evidence.smallest_detectable
    if detectable is None:
        return "These rows are too few to be sure of finding even the largest error."
    what = (
        "surprises beyond those promised"
        if evidence.main.is_exact
        else "of all rows, in any interval of scores"
    )
    seen = (
        f"With {counted(rows.n_rows, 'row')} an error of {points(detectable)} ({what}) is seen with a "
        "probability of 80 %; smaller ones may stay unseen"
    )
    if status != "unclear":
        return f"{seen}."
    needed = rows.n_rows * (detectable / WORTH_SPEAKING_OF) ** 2
    return f"{seen}. To see {points(WORTH_SPEAKING_OF)}, about {float(f'{needed:.2g}'):,.0f} rows are needed."
