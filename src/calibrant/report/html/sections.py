"""Sections of the page, in their order."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from calibrant.report.contents import Curve, Decomposition, Estimate
from calibrant.report.html.bin_sensitivity_chart import bin_sensitivity_chart, bin_sensitivity_legend
from calibrant.report.html.classwise_chart import classwise_chart, classwise_legend
from calibrant.report.html.cumulative_chart import cumulative_bounds, cumulative_chart, cumulative_sentence
from calibrant.report.html.decomposition_chart import base_rate_of, decomposition_chart, decomposition_legend
from calibrant.report.html.detail_tables import (
    bin_sensitivity_table,
    bins_table,
    classes_table,
    cumulative_table,
    learning_table,
    methods_table,
)
from calibrant.report.html.forest_chart import forest_chart
from calibrant.report.html.learning_chart import learning_chart, learning_legend
from calibrant.report.html.markup import Markup
from calibrant.report.html.number_text import number, p_value, plain_name, sentence
from calibrant.report.html.reliability_chart import reliability_chart, reliability_legend
from calibrant.report.html.score_tables import decomposition_table, score_table, slope_table, tests_table
from calibrant.report.html.summary import (
    banner_of,
    data_facts,
    key_figures,
    level_of,
    recommended_figures,
    repeatability_facts,
)
from calibrant.report.html.table import Table

if TYPE_CHECKING:  # a run-time import would be circular
    from calibrant.report.assessment import Assessment

__all__ = ["Figure", "contents_of"]

TITLES = {
    "reliability": "Reliability before and after",
    "scores": "Scores before and after",
    "errors": "Calibration errors",
    "decomposition": "Decomposition",
    "tests": "Tests, slope and intercept",
    "classes": "Classes",
    "cumulative": "Cumulative differences",
    "bins": "Sensitivity to binning",
    "methods": "Comparison of methods",
    "learning": "Learning curve",
    "example": "Try the calibrator",
    "pitfalls": "Pitfalls",
    "data": "Data",
    "repeat": "Settings and versions",
}


class Figure(NamedTuple):
    """A figure with its caption and its data table."""

    name: str
    caption: str
    picture: Markup
    table: Table | None = None
    event: str = ""
    method: str = ""
    note: str = ""
    label: str = ""


def contents_of(assessment: "Assessment") -> dict[str, Any]:
    """Return the variables of the template; empty parts are omitted from the page and its table of contents."""
    level = level_of(assessment)
    before = assessment.curves[0].method if assessment.curves else "uncalibrated"
    after = after_of(assessment, before)
    parts: dict[str, Any] = {
        "reliability": reliability(assessment),
        "scores": score_table(
            "scores",
            "Scores" if after is None else f"Before and after {after}",
            assessment.scores,
            before,
            after,
        )
        if assessment.scores
        else None,
        "errors": score_table("errors", "Calibration errors", assessment.errors, before, after)
        if assessment.errors
        else None,
        "decomposition": decomposition(assessment),
        "tests": tests(assessment),
        "classes": classes(assessment),
        "cumulative": cumulative(assessment),
        "bins": bin_sensitivity(assessment),
        "methods": methods(assessment),
        "learning": learning(assessment),
        "example": example(assessment),
        "pitfalls": sorted(assessment.pitfalls, key=lambda pitfall: pitfall.severity != "warning") or None,
        "data": data_facts(assessment.data),
        "repeat": repeatability_facts(assessment.repeatability),
    }
    titles = TITLES if after is not None else TITLES | {"reliability": "Reliability", "scores": "Scores"}
    return {
        "title": assessment.title,
        "verdict": assessment.verdict,
        "banner": banner_of(assessment.verdict),
        "recommendation": assessment.recommendation,
        "key_figures": key_figures(assessment),
        "recommended_figures": recommended_figures(assessment.recommendation),
        "n_warnings": sum(pitfall.severity == "warning" for pitfall in assessment.pitfalls),
        "data_summary": assessment.data,
        "level": level,
        "parts": parts,
        "titles": {name: title for name, title in titles.items() if parts[name]},
        "version": assessment.repeatability.versions.get("calibrant", ""),
    }


def after_of(assessment: "Assessment", before: str) -> str | None:
    """Return the method that "after" refers to; None if there are no results after calibration."""
    if not any(row.after for row in (*assessment.scores, *assessment.errors)):
        return None
    if assessment.recommendation.method != before:
        return assessment.recommendation.method
    return next((curve.method for curve in assessment.curves if curve.method != before), "calibration")


def reliability(assessment: "Assessment") -> dict[str, Any] | None:
    """Return all diagrams: the pair shown first, and those that can be selected instead."""
    if not assessment.curves:
        return None
    events = list(dict.fromkeys((curve.event, curve.label) for curve in assessment.curves))
    names = list(dict.fromkeys(curve.method for curve in assessment.curves))
    # Diagrams of one event have the same axes before and after.
    limits = {
        event: max(curve.limit for curve in assessment.curves if curve.event == event) for event, _ in events
    }
    figures = [
        Figure(
            f"curve-{index}",
            curve.method,
            reliability_chart(replace(curve, limit=limits[curve.event])),
            bins_table(curve, f"bins-{index}"),
            event=str(events.index((curve.event, curve.label))),
            method=str(names.index(curve.method)),
            note=curve.event,
            label=sentence(curve.definition),
        )
        for index, curve in enumerate(assessment.curves)
    ]
    first = [figure for figure in figures if figure.event == "0"]
    pair, others = first[:2], [figure for figure in figures if figure not in first[:2]]
    return {
        "pair": pair,
        "others": others,
        "events": [event for event, _ in events],
        "methods": names,
        "legend": reliability_legend(level_of(assessment)),
    }


def decomposition(assessment: "Assessment") -> dict[str, Any] | None:
    if not assessment.decompositions:
        return None
    groups: dict[str, list[Decomposition]] = {}
    for row in assessment.decompositions:
        groups.setdefault(row.loss, []).append(row)
    return {
        "figures": [
            Figure(f"decomposition-{index}", plain_name(loss), decomposition_chart(tuple(rows)))
            for index, (loss, rows) in enumerate(groups.items())
        ],
        "table": decomposition_table(assessment.decompositions),
        "legend": decomposition_legend(
            any(base_rate_of(tuple(rows)) is not None for rows in groups.values())
        ),
    }


def tests(assessment: "Assessment") -> dict[str, Table | None] | None:
    if not (assessment.tests or assessment.slopes):
        return None
    return {
        "tests": tests_table(assessment.tests) if assessment.tests else None,
        "slopes": slope_table(assessment.slopes) if assessment.slopes else None,
    }


def classes(assessment: "Assessment") -> dict[str, Any] | None:
    """Return the grid of classes with a curve, and the table of all classes."""
    if not assessment.classes:
        return None
    curves: dict[str, list[Curve]] = {}
    for curve in assessment.curves:
        if curve.label is not None:
            curves.setdefault(curve.label, []).append(curve)
    rows = {row.label: row for row in assessment.classes}
    events = list(dict.fromkeys((curve.event, curve.label) for curve in assessment.curves))
    grid = []
    for index, (label, pair) in enumerate(curves.items()):
        row = rows.get(label)
        note = f"ECE {number(row.ece)}, p {with_equals(p_value(row.adjusted_p_value))}" if row else ""
        event = str(events.index((pair[0].event, label)))
        grid.append(Figure(f"class-{index}", label, classwise_chart(tuple(pair[:2])), event=event, note=note))
    methods_shown = tuple(curve.method for curve in next(iter(curves.values()), [])[:2])
    return {
        "grid": grid if len(grid) > 1 else [],
        "legend": classwise_legend(methods_shown),
        "table": classes_table(assessment.classes),
        "n_classes": len(assessment.classes),
    }


def with_equals(p: str) -> str:
    return p if p.startswith("<") else f"= {p}"


def cumulative(assessment: "Assessment") -> list[Figure] | None:
    shared = cumulative_bounds(assessment.cumulative)
    return [
        Figure(
            f"cumulative-{index}",
            f"{numbers.method}, {numbers.event}",
            cumulative_chart(numbers, shared),
            cumulative_table(numbers, f"cumulative-numbers-{index}"),
            note=cumulative_sentence(numbers),
        )
        for index, numbers in enumerate(assessment.cumulative)
    ] or None


def bin_sensitivity(assessment: "Assessment") -> dict[str, Any] | None:
    known = [numbers for numbers in assessment.bin_sensitivity if numbers.n_bins]
    if not known:
        return None
    return {
        "figures": [
            Figure(
                f"bin-sensitivity-{index}",
                f"{numbers.method}, {plain_name(numbers.metric)}",
                bin_sensitivity_chart(numbers),
                bin_sensitivity_table(numbers, f"bin-sensitivity-numbers-{index}"),
            )
            for index, numbers in enumerate(known)
        ],
        "legend": bin_sensitivity_legend(),
    }


def methods(assessment: "Assessment") -> dict[str, Any] | None:
    recommendation = assessment.recommendation
    if not recommendation.methods:
        return None
    figures = []
    for name, field in (("Log-loss", "log_loss_difference"), ("Brier score", "brier_difference")):
        entries: list[tuple[str, Estimate, bool]] = [
            (row.name, estimate, row.name == recommendation.method)
            for row in recommendation.methods
            if (estimate := getattr(row, field)) is not None and estimate.value is not None
        ]
        if entries:
            against = recommendation.baseline if field.startswith("log") else "the uncalibrated predictions"
            caption = f"{name}: difference to {against}"
            picture = forest_chart(caption, f"Difference of the {name} (negative is better)", entries)
            figures.append(Figure(f"forest-{field.replace('_', '-')}", caption, picture))
    return {
        "figures": figures,
        "table": methods_table(recommendation.methods, recommendation.method, recommendation.baseline),
        "how": recommendation.how,
    }


def learning(assessment: "Assessment") -> dict[str, Any] | None:
    numbers = assessment.learning
    if numbers is None or not numbers.sizes:
        return None
    return {
        "figure": Figure("learning-curve", f"Log-loss of {numbers.method}", learning_chart(numbers)),
        "legend": learning_legend(numbers),
        "table": learning_table(numbers),
        "sentence": numbers.sentence,
    }


def example(assessment: "Assessment") -> dict[str, Any] | None:
    """Return the recommended calibrator with a row of scores that the reader can edit."""
    found = assessment.example
    if found is None or len(found.scores) != len(assessment.data.classes):
        return None
    if any(score is None for score in (*found.scores, *found.calibrated)):
        return None
    return {
        "method": found.method,
        "space": found.space,
        "graph": found.graph,
        "rows": [
            (name, f"{score:.6g}", f"{calibrated:.4f}")
            for name, score, calibrated in zip(
                assessment.data.classes, found.scores, found.calibrated, strict=True
            )
        ],
    }
