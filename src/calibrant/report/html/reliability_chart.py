"""Reliability diagram: bins with intervals and gaps, isotonic curve with its band, histogram of the scores."""

from calibrant.report.contents import Curve, Numbers
from calibrant.report.html.axes import Plot, Scale, chart, legend, tick_texts, ticks_between
from calibrant.report.html.markup import Markup, element, joined
from calibrant.report.html.number_text import count, has_value, number, percent, sentence

__all__ = ["bin_sentence", "reliability_chart", "reliability_legend"]

PLOT_HEIGHT, STRIP_HEIGHT = 320.0, 54.0
NARROWEST = 1.5
"""Equal-mass bins can be thinner than a pixel."""
NARROWEST_TARGET = 5.0


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
    return chart(
        f"Reliability of {curve.method}: {curve.event}",
        f"{sentence(curve.definition)} {len(filled)} bins are not empty; the table below the chart has their numbers.",
        strip.start + 46,
        element(
            "path",
            class_="grid",
            d=" ".join(f"M{plot.x.start:.0f} {plot.y(tick):.1f}H{plot.x.end:.0f}" for tick in ticks),
        ),
        strip_frame(below, plot, ticks),
        histogram(curve, plot.x, strip),
        element("g", band_and_curve(curve, plot), class_="isotonic"),
        element("g", *(bin_group(curve, index, plot, strip.start) for index in filled), class_="bins"),
        element(
            "path",
            class_="diagonal",
            d=f"M{plot.x.start:.1f} {plot.y.start:.1f}L{plot.x.end:.1f} {plot.y.end:.1f}",
        ),
        element("g", isotonic_line(curve, plot), class_="isotonic"),
        class_="reliability",
    )


def strip_frame(below: Plot, plot: Plot, ticks: list[float]) -> Markup:
    """Return the axes: the vertical one beside the plot, the horizontal one below the histogram."""
    horizontal = below.frame(ticks, [], "Predicted probability", "")
    vertical = [
        element("text", text, class_="tick", x=plot.x.start - 7, y=plot.y(tick) + 4, text_anchor="end")
        for tick, text in zip(ticks, tick_texts(ticks), strict=True)
    ]
    middle = (plot.y.start + plot.y.end) / 2
    turned = f"translate(13 {middle:.1f}) rotate(-90)"
    return joined(
        horizontal,
        *vertical,
        element("text", "Observed frequency", class_="title", transform=turned, text_anchor="middle"),
    )


def histogram(curve: Curve, x: Scale, height: Scale) -> Markup:
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


def bin_group(curve: Curve, index: int, plot: Plot, bottom: float) -> Markup:
    """Return one bin: bar up to the outcome, hatched gap to the score, interval, and hover area."""
    left, right = edges_of(curve, index)
    outcome, score = curve.mean_outcome[index] or 0.0, curve.mean_score[index]
    start, end = plot.x(left), plot.x(right)
    width = max(end - start - 1, NARROWEST)
    middle = (start + end) / 2
    pieces = [rectangle("bar", middle - width / 2, plot.y(outcome), width, plot.y(0) - plot.y(outcome))]
    if score is not None and has_value(score):
        kind = "over" if score > outcome else "under"
        top, base = plot.y(max(score, outcome)), plot.y(min(score, outcome))
        pieces.append(rectangle(f"gap {kind}", middle - width / 2, top, width, base - top))
        pieces.append(
            element("path", class_="promise", d=f"M{middle - width / 2:.1f} {plot.y(score):.1f}h{width:.1f}")
        )
    low, high = curve.low[index], curve.high[index]
    if low is not None and high is not None and has_value(low) and has_value(high):
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
    pieces.append(rectangle("target", middle - reach / 2, plot.y.end, reach, bottom - plot.y.end))
    return element(
        "g",
        element("title", bin_sentence(curve, index)),
        *pieces,
        class_="bin small" if curve.small[index] else "bin",
    )


def rectangle(class_: str, x: float, y: float, width: float, height: float) -> Markup:
    return element(
        "rect",
        class_=class_,
        x=round(x, 1),
        y=round(y, 1),
        width=round(width, 1),
        height=round(max(height, 0.0), 1),
    )


def edges_of(curve: Curve, index: int) -> tuple[float, float]:
    """Return the edges of a bin; a missing edge is 0 or 1."""
    left, right = curve.edges[index], curve.edges[index + 1]
    return (
        max(left, 0.0) if left is not None and has_value(left) else 0.0,
        min(right, 1.0) if right is not None and has_value(right) else 1.0,
    )


def bin_sentence(curve: Curve, index: int) -> str:
    """Return the numbers of a bin in words; the tooltip breaks lines at semicolons."""
    left, right = edges_of(curve, index)
    rows = curve.count[index]
    parts = [
        f"Scores {left:.3g}–{right:.3g}",
        f"{count(rows)} {'row' if rows == 1 else 'rows'}, {percent(rows / curve.n_rows if curve.n_rows else None)} of all",
        f"mean score {number(curve.mean_score[index], digits=3)}",
        f"observed {number(curve.mean_outcome[index], digits=3)}"
        + between(" ({}–{})", curve.low[index], curve.high[index]),
    ]
    expected = between("if calibrated {}–{}", curve.consistency_low[index], curve.consistency_high[index])
    parts += [expected] if expected else []
    parts += ["few rows (grey)"] if curve.small[index] else []
    return "; ".join(parts)


def between(template: str, low: float | None, high: float | None) -> str:
    known = low is not None and high is not None
    return template.format(number(low, digits=3), number(high, digits=3)) if known else ""


def band_and_curve(curve: Curve, plot: Plot) -> Markup:
    return plot.band(within(curve.band_score, curve.limit), curve.band_low, curve.band_high, "band")


def isotonic_line(curve: Curve, plot: Plot) -> Markup:
    scores = within(curve.isotonic_score, curve.limit)
    return plot.line(zip(scores, curve.isotonic_outcome, strict=True), "curve")


def within(scores: Numbers, limit: float) -> Numbers:
    """Return the scores, None for those beyond the end of the axis."""
    return tuple(None if score is None or score > limit else score for score in scores)


def reliability_legend(level: str) -> Markup:
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
