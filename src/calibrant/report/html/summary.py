"""Key figures below the verdict and the recommendation, and the facts on data and settings."""

from math import isinf
from typing import TYPE_CHECKING, NamedTuple

from calibrant.report.contents import DataSummary, Estimate, Recommendation, Repeatability, Verdict
from calibrant.report.html.number_text import (
    DASH,
    count,
    has_value,
    interval,
    number,
    p_value,
    percent,
    plain_name,
    points,
    seconds,
    sentence,
)
from calibrant.report.plain import quoted

if TYPE_CHECKING:  # the assessment knows its page, so the page may not import it in turn
    from calibrant.report.assessment import Assessment

__all__ = [
    "KeyFigure",
    "banner_of",
    "data_facts",
    "key_figures",
    "level_of",
    "recommended_figures",
    "repeatability_facts",
]

MOST_NAMES = 20
STATUS = {
    "calibrated": "Calibrated",
    "miscalibrated": "Not calibrated",
    "unclear": "Unclear",
    "too-few-events": "Too few events to tell",
}


class KeyFigure(NamedTuple):
    """A number that stands out, what it is, and a word more."""

    name: str
    text: str
    detail: str = ""


def level_of(assessment: "Assessment") -> str:
    """Return the level of the intervals in words."""
    estimates = [row.before for row in (*assessment.scores, *assessment.errors)]
    return f"{100 * (estimates[0].level if estimates else 0.95):g}\N{NO-BREAK SPACE}%"


def banner_of(verdict: Verdict) -> dict[str, str]:
    """Return the verdict in two words and in a sentence, which does not say the two words again."""
    status = STATUS[verdict.status]
    headline = verdict.headline
    if verdict.status == "too-few-events":
        status, _, headline = headline.partition(":")
        headline = sentence(headline)
    elif headline.lower().startswith(f"{status.lower()}:"):
        headline = sentence(headline[len(status) + 1 :])
    elif verdict.direction != "none":
        status = f"{status}: {verdict.direction}"
    return {"status": status, "headline": headline}


def key_figures(assessment: "Assessment") -> list[KeyFigure]:
    """Return what the verdict rests on."""
    verdict = assessment.verdict
    figures = [
        *_promised_and_observed(assessment),
        KeyFigure("p-value", p_value(verdict.p_value), "chance of such deviations if calibrated"),
    ]
    if verdict.events is not None:
        factors = (verdict.events.factor_too_high, verdict.events.factor_too_low)
        text = " / ".join(DASH if factor is None else f"{factor:.2g} ×" for factor in factors)
        figures.append(
            KeyFigure("Smallest visible factor", text, "too high / too low, seen with a probability of 80 %")
        )
    elif has_value(verdict.smallest_detectable):
        text = f"{points(verdict.smallest_detectable, signed=False)} points"
        figures.append(
            KeyFigure("Smallest visible error", text, "seen with a probability of 80 % on so many rows")
        )
    return figures


def _promised_and_observed(assessment: "Assessment") -> list[KeyFigure]:
    """Return rates of the second of two classes, or of right predictions; rare ones with their numbers of rows."""
    data, events = assessment.data, assessment.verdict.events
    expected = "" if events is None else f", {number(events.expected, digits=2)} {events.name}"
    observed = "" if events is None else f", {count(events.observed)} {events.name}"
    row = next((row for row in assessment.classes if row.label == data.classes[1]), None)
    if data.n_classes != 2 or row is None:
        return [
            KeyFigure(
                "Mean confidence", percent(data.mean_confidence), f"what the predictions promise{expected}"
            ),
            KeyFigure("Accuracy", percent(data.accuracy), f"what happened{observed}"),
        ]
    name = f"class {quoted(row.label)}"
    return [
        KeyFigure("Predicted rate", percent(row.mean_probability), f"mean probability of {name}{expected}"),
        KeyFigure("Observed rate", percent(row.share), f"share of {name}{observed}"),
    ]


def recommended_figures(recommendation: Recommendation) -> list[KeyFigure]:
    """Return what the recommendation brings and costs."""
    figures = []
    gain = recommendation.gain
    if gain is not None and gain.value is not None:
        share = (
            f"; {percent(recommendation.gain_share)} of the loss"
            if has_value(recommendation.gain_share)
            else ""
        )
        adjusted = f", {gain.note}" if gain.note else ""
        detail = f"{interval(gain, signed=True)}{adjusted}{share}"
        figures.append(KeyFigure(plain_name(gain.name), number(gain.value, signed=True), detail))
    for name, estimate in (
        ("Change of accuracy", recommendation.accuracy_change),
        ("Change of sharpness", recommendation.sharpness_change),
    ):
        if estimate is not None and estimate.value is not None:
            figures.append(KeyFigure(name, change_text(estimate), change_detail(estimate)))
    if has_value(recommendation.changed_decisions):
        changed = percent(recommendation.changed_decisions)
        figures.append(KeyFigure("Changed decisions", changed, "rows whose predicted class differs"))
    return figures


def change_text(estimate: Estimate) -> str:
    return f"{points(estimate.value)} points"


def change_detail(estimate: Estimate) -> str:
    return interval(estimate, in_points=True, signed=True)


def names_text(names: tuple[str, ...]) -> str:
    """Return names, only the first ones of many."""
    shown = ", ".join(quoted(name) for name in names[:MOST_NAMES])
    return shown if len(names) <= MOST_NAMES else f"{shown} and {len(names) - MOST_NAMES:,} more"


def data_facts(data: DataSummary) -> list[tuple[str, str]]:
    """Return what was looked at, term by term."""
    facts = [
        (
            "Rows",
            count(data.n_rows)
            + (f"; {count(data.n_left_out)} more of weight zero are left out" if data.n_left_out else ""),
        ),
        ("Classes", count(data.n_classes)),
        ("Which rows", data.split),
        ("Predictions", f"{data.space}, {data.float_type}"),
    ]
    if data.class_counts:
        fewest, most = min(data.class_counts), max(data.class_counts)
        smallest = data.classes[data.class_counts.index(fewest)]
        largest = data.classes[data.class_counts.index(most)]
        what = "weight" if data.weighted else "rows"
        facts.append(
            (
                "Class sizes",
                f"from {count(fewest)} {what} (class {quoted(smallest)}) to {count(most)} (class {quoted(largest)})",
            )
        )
    if data.absent_classes:
        facts.append(("Classes without rows", names_text(data.absent_classes)))
    facts.append(
        (
            "Weights",
            f"yes, worth {count(round(data.effective_rows, 1))} rows of equal weight"
            if data.weighted
            else "none",
        )
    )
    if data.n_groups is not None:
        facts.append(("Groups", f"{count(data.n_groups)}, kept together when rows are split"))
    facts += [
        ("Probabilities of exactly zero", count(data.n_zeros)),
        (
            "Rows whose true class had zero",
            f"{count(data.n_refuted)}{': the log-loss is ∞' if data.n_refuted else ''}",
        ),
        (
            "Different confidences",
            f"{count(data.n_distinct)}; the most frequent one has {percent(data.largest_tie)} of the rows",
        ),
    ]
    return facts


def repeatability_facts(repeatability: Repeatability) -> dict[str, list[tuple[str, str]]]:
    """Return settings, versions and times as groups of terms."""
    groups = {
        "Settings": list(repeatability.settings.items()),
        "Versions": list(repeatability.versions.items()),
        "Time taken": [
            (name, seconds(value)) for name, value in repeatability.seconds.items() if not isinf(value)
        ],
    }
    return {name: facts for name, facts in groups.items() if facts}
