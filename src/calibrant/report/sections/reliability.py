"""Section "Reliability": reliability diagrams of the predicted class, of other methods and of single classes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.comparison import UNCALIBRATED
from calibrant.plots.reliability.curve import reliability_curve
from calibrant.presentation.document import Block, Figure, OnPage, Paragraph, Section
from calibrant.presentation.html import as_html
from calibrant.presentation.markup import Markup, element, joined
from calibrant.presentation.sentences import sentence
from calibrant.presentation.table import Cell, Column, Table
from calibrant.presentation.values import TYPOGRAPHIC, Range, Value, count, has_value, number, percent
from calibrant.report.contents import RARE, ClassRow, Curve, Numbers
from calibrant.report.evaluation_set import EvaluationSet, numbers_of, plain_floats
from calibrant.report.method_selection import MethodSelection
from calibrant.report.sections import Assessment, section_at
from calibrant.report.sections.axes import Plot, Scale, chart, legend, ticks_between

__all__ = ["curves", "reliability_chart"]

# More would make the page long to read and slow to load.
MOST_CLASSES, MOST_OTHER_METHODS = 20, 3

# Bootstrap resamples for the band of the main event, and for those of single classes.
N_RESAMPLES, N_RESAMPLES_OF_CLASSES = 400, 100

# Number of bins for rare events, and the margin of the axes above them.
N_BINS, EVENTS_PER_BIN = 15, 5
ROOM_ABOVE, SMALLEST_LIMIT = 1.2, 1e-4

PLOT_HEIGHT, STRIP_HEIGHT = 320.0, 54.0
NARROWEST = 1.5
"""Equal-mass bins can be thinner than a pixel."""
NARROWEST_TARGET = 5.0


@section_at(30)
def reliability_section(assessment: Assessment) -> Section | None:
    """Return the section with the diagrams before and after calibration, and others that can be selected instead."""
    if not assessment.curves:
        return None
    events = list(dict.fromkeys((curve.event, curve.label) for curve in assessment.curves))
    methods = list(dict.fromkeys(curve.method for curve in assessment.curves))
    # Diagrams of one event have the same axes before and after.
    limits = {
        event: max(curve.limit for curve in assessment.curves if curve.event == event) for event, _ in events
    }
    figures = [
        Figure(
            f"curve-{index}",
            curve.method,
            reliability_chart(replace(curve, limit=limits[curve.event])),
            _bins_table(curve, f"bins-{index}"),
            note=curve.event,
            definition=sentence(curve.definition),
            role="reliability-figure",
            attributes={
                "data-event": str(events.index((curve.event, curve.label))),
                "data-method": str(methods.index(curve.method)),
            },
        )
        for index, curve in enumerate(assessment.curves)
    ]
    pair = [figure for figure in figures if figure.attributes["data-event"] == "0"][:2]
    others = [figure for figure in figures if figure not in pair]
    lead = (
        "If the predictions are calibrated, the event occurs in 80 % of the rows with a predicted probability of 0.8, and the "
        "bars end on the diagonal. Hatched gaps show the calibration error of each bin."
    )
    hint = "Point at a bin, or move to the chart with the tab key and between bins with the arrow keys, to read its numbers."
    level = (
        (*assessment.scores, *assessment.errors)[0].before.level
        if assessment.scores or assessment.errors
        else 0.95
    )
    blocks: list[Block] = [
        Paragraph(lead, "lead"),
        OnPage(_switches([event for event, _ in events], methods)),
        OnPage(
            element(
                "div",
                *(element("div", as_html(figure), class_="slot") for figure in pair),
                class_="pair",
                id="slots",
            ),
            tuple(pair),
        ),
        OnPage(_legend(f"{100 * level:g} %")),
        OnPage(element("p", hint, class_="controls note", hidden=True)),
    ]
    if others:
        blocks.append(OnPage(_gallery(others)))
    is_pair = any(row.after for row in (*assessment.scores, *assessment.errors))
    return Section("reliability", "Reliability before and after" if is_pair else "Reliability", tuple(blocks))


def _switches(events: Sequence[str], methods: Sequence[str]) -> Markup:
    """Return the controls that select the event, the method and the marks."""
    choices = []
    for name, label, texts, first in (
        ("event-choice", "Event", events, 0),
        ("method-choice", "Compare with", methods, 1),
    ):
        if len(texts) > 1:
            options = [element("option", text, value=place) for place, text in enumerate(texts)][first:]
            choice = element("select", *options, id=name)
            choices.append(
                element(
                    "span", element("label", label, for_=name), " ", choice, class_="controls", hidden=True
                )
            )
    marks = [
        element(
            "label",
            element("input", type="radio", name="marks", value=value, checked=value == "bins"),
            f" {text}",
        )
        for value, text in (("bins", "bins"), ("isotonic", "isotonic curve"), ("both", "both"))
    ]
    return joined(
        element(
            "div",
            *choices,
            element("fieldset", element("legend", "Show"), *marks),
            class_="switches",
            id="switches",
        ),
        element("p", id="announcement", class_="quiet", aria_live="polite"),
    )


def _gallery(figures: Sequence[Figure]) -> Markup:
    summary = element("summary", f"{len(figures)} more diagrams: other methods and single classes")
    return element(
        "details",
        summary,
        element("div", *map(as_html, figures), class_="pair"),
        class_="gallery",
        id="gallery",
    )


def _bins_table(curve: Curve, name: str) -> Table:
    """Return the non-empty bins of a diagram."""

    def observed(place: int) -> Cell:
        interval = Range(curve.low[place], curve.high[place], digits=3, tiny=False)
        return Cell(Value(curve.mean_outcome[place], digits=3), (interval,))

    def expected(place: int) -> Range | Value:
        limits = curve.consistency_low[place], curve.consistency_high[place]
        return Value(None) if None in limits else Range(*limits, digits=3, tiny=False)

    def scores(place: int) -> Range:
        return Range(curve.edges[place], curve.edges[place + 1], "significant", 3, tiny=True)

    return Table.of(
        name,
        f"Bins of {curve.method}, {curve.event}",
        [place for place, n_rows in enumerate(curve.count) if n_rows],
        (Column("Scores", is_numeric=False), scores),
        (Column("Rows"), lambda place: Value(curve.count[place], "count")),
        (Column("Mean score"), lambda place: Value(curve.mean_score[place], digits=3)),
        (Column("Observed"), observed),
        (Column("If calibrated"), expected),
    )


def curves(
    rows: EvaluationSet,
    sample: EvaluationSet,
    sample_after: EvaluationSet | None,
    selection: MethodSelection,
    classes: tuple[ClassRow, ...],
    level: float,
    random_state: int,
) -> tuple[Curve, ...]:
    """Return the curves of the main event (uncalibrated, chosen method, other methods), then of single classes, worst first.

    Uncalibrated and chosen method: all rows. Other methods: the rows of the comparison. Single classes: the sample.
    """
    found = [_curve(UNCALIBRATED, rows, None, N_RESAMPLES, level, random_state)]
    if selection.chosen is not None and selection.after is not None:
        found.append(_curve(selection.chosen.name, selection.after, None, N_RESAMPLES, level, random_state))
    for result in _others(selection):
        assert result.predictions is not None
        mapped = selection.rows.with_predictions(result.predictions)
        found.append(_curve(result.name, mapped, None, N_RESAMPLES_OF_CLASSES, level, random_state))
    if rows.n_classes > 2:
        columns = {name: column for column, name in enumerate(rows.class_names)}
        for row in classes[:MOST_CLASSES]:
            column = columns[row.label]
            found.append(_curve(UNCALIBRATED, sample, column, N_RESAMPLES_OF_CLASSES, level, random_state))
            if selection.chosen is not None and sample_after is not None:
                found.append(
                    _curve(
                        selection.chosen.name,
                        sample_after,
                        column,
                        N_RESAMPLES_OF_CLASSES,
                        level,
                        random_state,
                    )
                )
    return tuple(found)


def _others(selection: MethodSelection) -> Sequence[Any]:
    """Return the other methods, the best first."""
    if selection.comparison is None:
        return ()
    shown = (UNCALIBRATED, "" if selection.chosen is None else selection.chosen.name)
    return [result for result in selection.comparison.measured if result.name not in shown][
        :MOST_OTHER_METHODS
    ]


def _curve(
    method: str, rows: EvaluationSet, column: int | None, n_resamples: int, level: float, random_state: int
) -> Curve:
    about: dict[str, Any] = {"kind": "auto"}
    if column is not None:
        about = {"kind": "class", "label": rows.data.classes[column]}
    scores = _scores(rows, column)
    rate = rows.mean(scores)
    if rate <= RARE:  # with equal-width bins nearly all rows would be in the first
        about |= {
            "strategy": "quantile",
            "n_bins": int(np.clip(rate * rows.n_rows / EVENTS_PER_BIN, 2, N_BINS)),
        }
    curve = reliability_curve(
        rows.labels,
        rows.predictions,
        sample_weight=rows.weights,
        level=level,
        mode="consistency",
        n_resamples=n_resamples,
        random_state=random_state,
        **about,
    )
    drawn = numbers_of(
        Curve, curve, method=method, label=None if column is None else rows.class_names[column]
    )
    return drawn if rate > RARE else _enlarged(drawn, scores)


def _scores(rows: EvaluationSet, column: int | None) -> NDArray[np.float64]:
    """Return the probabilities of a class or of the main event."""
    if column is None and rows.n_classes > 2:
        return rows.confidence
    probabilities = rows.predictions.probabilities[:, 1 if column is None else column]
    return np.clip(probabilities.astype(np.float64), 0.0, 1.0)


def _enlarged(curve: Curve, scores: NDArray[np.float64]) -> Curve:
    """Return a diagram whose axes end just above its bins, at 1, 2 or 5 times a power of ten."""
    highest = max(value for value in (*curve.mean_score, *curve.mean_outcome) if value is not None)
    needed = ROOM_ABOVE * max(highest, SMALLEST_LIMIT)
    power = 10.0 ** np.floor(np.log10(needed))
    limit = float(
        min(1.0, next(times * power for times in (1, 2, 5, 10) if times * power >= needed * (1 - 1e-9)))
    )
    count, edges = np.histogram(np.minimum(scores, limit), len(curve.histogram_count), (0.0, limit))
    return replace(
        curve,
        limit=limit,
        histogram_edges=plain_floats(edges),
        histogram_count=tuple(int(each) for each in count),
    )


def reliability_chart(curve: Curve) -> Markup:
    """Return the chart; a bin is a group whose title has its numbers, which the script shows as a tooltip."""
    ends = (0.0, curve.limit)
    plot = Plot.of(ends, ends, height=PLOT_HEIGHT, top=10)
    ticks = ticks_between(*ends)
    top_of_strip = plot.y.start + 14
    strip = Scale(
        0.0, float(max(curve.histogram_count, default=0) or 1), top_of_strip + STRIP_HEIGHT, top_of_strip
    )
    below = Plot(plot.x, Scale(0.0, 1.0, strip.start, plot.y.end))
    filled = [
        index for index, rows in enumerate(curve.count) if rows > 0 and has_value(curve.mean_outcome[index])
    ]
    band = plot.band(_within(curve.band_score, curve.limit), curve.band_low, curve.band_high, "band")
    scores = _within(curve.isotonic_score, curve.limit)
    line = plot.line(zip(scores, curve.isotonic_outcome, strict=True), "curve")
    return chart(
        f"Reliability of {curve.method}: {curve.event}",
        f"{sentence(curve.definition)} {len(filled)} bins are not empty; the table below the chart has their numbers.",
        strip.start + 46,
        plot.grid(ticks),
        below.frame(ticks, [], "Predicted probability", ""),
        *plot.labels_beside(ticks),
        plot.title_beside("Observed frequency"),
        _histogram(curve, plot.x, strip),
        element("g", band, class_="isotonic"),
        element("g", *(_bin_group(curve, index, plot, strip.start) for index in filled), class_="bins"),
        plot.diagonal(),
        element("g", line, class_="isotonic"),
        class_="reliability",
    )


def _histogram(curve: Curve, x: Scale, height: Scale) -> Markup:
    """Return the bars of the score histogram as one path; non-empty bars are at least a pixel high."""
    commands = []
    for left, right, rows in zip(
        curve.histogram_edges[:-1], curve.histogram_edges[1:], curve.histogram_count, strict=True
    ):
        if rows and left is not None and right is not None:
            top = min(height(rows), height.start - 1)
            commands.append(
                f"M{x(left) + 0.3:.1f} {height.start:.1f}V{top:.1f}H{x(right) - 0.3:.1f}V{height.start:.1f}Z"
            )
    most = max(curve.histogram_count, default=0)
    return joined(
        element("path", class_="histogram", d="".join(commands)),
        element(
            "text", count(most), class_="tick faint", x=x.start - 7, y=height.end + 11, text_anchor="end"
        ),
        element("text", "rows", class_="tick faint", x=x.start - 7, y=height.start - 2, text_anchor="end"),
    )


def _bin_group(curve: Curve, index: int, plot: Plot, bottom: float) -> Markup:
    """Return one bin: bar up to the outcome, hatched gap to the score, interval, and hover area."""
    left, right = _edges_of(curve, index)
    outcome, score = curve.mean_outcome[index] or 0.0, curve.mean_score[index]
    start, end = plot.x(left), plot.x(right)
    width = max(end - start - 1, NARROWEST)
    middle = (start + end) / 2
    pieces = [_rectangle("bar", middle - width / 2, plot.y(outcome), width, plot.y(0) - plot.y(outcome))]
    if has_value(score):
        kind = "over" if score > outcome else "under"
        top, base = plot.y(max(score, outcome)), plot.y(min(score, outcome))
        pieces.append(_rectangle(f"gap {kind}", middle - width / 2, top, width, base - top))
        pieces.append(
            element("path", class_="promise", d=f"M{middle - width / 2:.1f} {plot.y(score):.1f}h{width:.1f}")
        )
    low, high = curve.low[index], curve.high[index]
    if has_value(low) and has_value(high):
        cap = min(width / 2, 4.0)
        pieces.append(
            element(
                "path",
                class_="whisker",
                d=f"M{middle:.1f} {plot.y(low):.1f}V{plot.y(high):.1f}"
                f"M{middle - cap:.1f} {plot.y(low):.1f}h{2 * cap:.1f}M{middle - cap:.1f} {plot.y(high):.1f}h{2 * cap:.1f}",
            )
        )
    reach = max(end - start, NARROWEST_TARGET)
    pieces.append(_rectangle("target", middle - reach / 2, plot.y.end, reach, bottom - plot.y.end))
    return element(
        "g",
        element("title", _bin_sentence(curve, index)),
        *pieces,
        class_="bin small" if curve.small[index] else "bin",
    )


def _rectangle(class_: str, x: float, y: float, width: float, height: float) -> Markup:
    return element(
        "rect",
        class_=class_,
        x=round(x, 1),
        y=round(y, 1),
        width=round(width, 1),
        height=round(max(height, 0.0), 1),
    )


def _edges_of(curve: Curve, index: int) -> tuple[float, float]:
    """Return the edges of a bin; a missing edge is 0 or 1."""
    left, right = curve.edges[index], curve.edges[index + 1]
    return (max(left, 0.0) if has_value(left) else 0.0, min(right, 1.0) if has_value(right) else 1.0)


def _bin_sentence(curve: Curve, index: int) -> str:
    """Return the numbers of a bin in words; the tooltip breaks lines at semicolons."""
    left, right = _edges_of(curve, index)
    rows = curve.count[index]
    share = percent(rows / curve.n_rows if curve.n_rows else None, style=TYPOGRAPHIC)
    parts = [
        f"Scores {left:.3g}–{right:.3g}",
        f"{count(rows)} {'row' if rows == 1 else 'rows'}, {share} of all",
        f"mean score {number(curve.mean_score[index], 3, style=TYPOGRAPHIC)}",
        f"observed {number(curve.mean_outcome[index], 3, style=TYPOGRAPHIC)}"
        + _between(" ({}–{})", curve.low[index], curve.high[index]),
    ]
    expected = _between("if calibrated {}–{}", curve.consistency_low[index], curve.consistency_high[index])
    parts += [expected] if expected else []
    parts += ["few rows (grey)"] if curve.small[index] else []
    return "; ".join(parts)


def _between(template: str, low: float | None, high: float | None) -> str:
    known = low is not None and high is not None
    return template.format(*(number(end, 3, style=TYPOGRAPHIC) for end in (low, high))) if known else ""


def _within(scores: Numbers, limit: float) -> Numbers:
    """Return the scores, None for those beyond the end of the axis."""
    return tuple(None if score is None or score > limit else score for score in scores)


def _legend(level: str) -> Markup:
    """Return the legend of a reliability diagram."""
    return legend(
        (element("rect", class_="bar", x=4, y=2, width=20, height=10), "observed frequency in a bin"),
        (
            element("rect", class_="gap over", x=4, y=1, width=20, height=12),
            "over-confident: predicted above observed",
        ),
        (
            element("rect", class_="gap under", x=4, y=1, width=20, height=12),
            "under-confident: predicted below observed",
        ),
        (
            element("path", class_="whisker", d="M14 1V13M10 1h8M10 13h8"),
            f"{level} interval of the observed frequency",
        ),
        (element("rect", class_="bar few", x=4, y=2, width=20, height=10), "few rows"),
        (
            joined(
                element("rect", class_="band", x=0, y=2, width=28, height=10),
                element("path", class_="curve", d="M0 11L28 3"),
            ),
            "isotonic curve with its band",
        ),
        (element("path", class_="diagonal", d="M0 12L28 2"), "perfect calibration"),
        (
            element(
                "path", class_="histogram", d="M3 13V8H8V13ZM9 13V5H14V13ZM15 13V1H20V13ZM21 13V6H26V13Z"
            ),
            "number of rows by score",
        ),
    )
