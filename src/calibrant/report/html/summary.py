"""Key figures below the verdict and the recommendation, and facts on data and settings."""

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

if TYPE_CHECKING:  # a run-time import would be circular
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
    """A key figure with its name and a detail."""

    name: str
    text: str
    detail: str = ""


def level_of(assessment: "Assessment") -> str:
    """Return the level of the intervals as text."""
    estimates = [row.before for row in (*assessment.scores, *assessment.errors)]
    return f"{100 * (estimates[0].level if estimates else 0.95):g}\N{NO-BREAK SPACE}%"


def banner_of(verdict: Verdict) -> dict[str, str]:
    """Return the status in a few words, and the headline without these words."""
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
    """Return the key figures of the verdict."""
    verdict = assessment.verdict
    figures = [
        *_predicted_and_observed(assessment),
        KeyFigure("p-value", p_value(verdict.p_value), "probability of such deviations if calibrated"),
    ]
    if verdict.events is not None:
        factors = (verdict.events.factor_too_high, verdict.events.factor_too_low)
        text = " / ".join(DASH if factor is None else f"{factor:.2g} ×" for factor in factors)
        figures.append(
            KeyFigure("Smallest detectable factor", text, "too high / too low, detected with a power of 80 %")
        )
    elif has_value(verdict.smallest_detectable):
        text = f"{points(verdict.smallest_detectable, signed=False)} points"
        figures.append(
            KeyFigure("Smallest detectable error", text, "detected with a power of 80 % on these rows")
        )
    return figures


def _predicted_and_observed(assessment: "Assessment") -> list[KeyFigure]:
    """Return predicted and observed rates of the second of two classes, or confidence and accuracy; counts for rare events."""
    data, events = assessment.data, assessment.verdict.events
    expected = "" if events is None else f", {number(events.expected, digits=2)} {events.name}"
    observed = "" if events is None else f", {count(events.observed)} {events.name}"
    row = next((row for row in assessment.classes if row.label == data.classes[1]), None)
    if data.n_classes != 2 or row is None:
        return [
            KeyFigure("Mean confidence", percent(data.mean_confidence), f"predicted accuracy{expected}"),
            KeyFigure("Accuracy", percent(data.accuracy), f"observed{observed}"),
        ]
    name = f"class {quoted(row.label)}"
    return [
        KeyFigure("Predicted rate", percent(row.mean_probability), f"mean probability of {name}{expected}"),
        KeyFigure("Observed rate", percent(row.share), f"frequency of {name}{observed}"),
    ]


def recommended_figures(recommendation: Recommendation) -> list[KeyFigure]:
    """Return the gain and the side effects of the recommendation."""
    figures = []
    gain = recommendation.gain
    if gain is not None and gain.value is not None:
        share = (
            f"; {percent(recommendation.gain_share)} of the log-loss"
            if has_value(recommendation.gain_share)
            else ""
        )
        adjusted = f", {gain.note}" if gain.note else ""
        detail = f"{interval(gain, signed=True)}{adjusted}{share}"
        figures.append(KeyFigure(plain_name(gain.name), number(gain.value, signed=True), detail))
    for name, estimate in (
        ("Change of accuracy", recommendation.accuracy_change),
        ("Change of mean confidence", recommendation.sharpness_change),
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
    """Return a list of names, shortened if there are many."""
    shown = ", ".join(quoted(name) for name in names[:MOST_NAMES])
    return shown if len(names) <= MOST_NAMES else f"{shown} and {len(names) - MOST_NAMES:,} more"


def data_facts(data: DataSummary) -> list[tuple[str, str]]:
    """Return the facts on the data as terms and texts."""
    facts = [
        (
            "Rows",
            count(data.n_rows)
            + (f"; {count(data.n_left_out)} rows of weight zero were dropped" if data.n_left_out else ""),
        ),
        ("Classes", count(data.n_classes)),
        ("Held-out rows", data.split),
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
            f"yes; effective sample size {count(round(data.effective_rows, 1))}" if data.weighted else "none",
        )
    )
    if data.n_groups is not None:
        facts.append(("Groups", f"{count(data.n_groups)}, kept together in cross-validation"))
    facts += [
        ("Probabilities of exactly zero", count(data.n_zeros)),
        (
            "Rows whose true class had probability zero",
            f"{count(data.n_refuted)}{': the log-loss is ∞' if data.n_refuted else ''}",
        ),
        (
            "Distinct confidences",
            f"{count(data.n_distinct)}; {percent(data.largest_tie)} of the rows have the most frequent one",
        ),
    ]
    return facts


def repeatability_facts(repeatability: Repeatability) -> dict[str, list[tuple[str, str]]]:
    """Return settings, versions and run times as groups of terms and texts."""
    groups = {
        "Settings": list(repeatability.settings.items()),
        "Versions": list(repeatability.versions.items()),
        "Run time": [
            (name, seconds(value)) for name, value in repeatability.seconds.items() if not isinf(value)
        ],
    }
    return {name: facts for name, facts in groups.items() if facts}
