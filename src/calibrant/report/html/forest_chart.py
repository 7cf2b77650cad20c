"""Forest chart: differences between methods and the uncalibrated predictions, with intervals."""

from collections.abc import Sequence

from calibrant.report.contents import Estimate
from calibrant.report.html.axes import Plot, bounds, chart, marker, ticks_between
from calibrant.report.html.markup import Markup, element, joined
from calibrant.report.html.number_text import has_value, interval, number

__all__ = ["forest_chart"]

ROW = 40.0
LONGEST_NAME = 26


def forest_chart(title: str, axis: str, entries: Sequence[tuple[str, Estimate, bool]]) -> Markup:
    """Return the chart; an entry is the name of a method, its difference, and whether it is the recommended one.

    Names are above their intervals, not beside them, so that long names fit on a phone.
    """
    values = [value for _, estimate, _ in entries for value in (estimate.value, estimate.low, estimate.high)]
    x_bounds = bounds(values, [0.0])
    height = ROW * len(entries) + 6
    plot = Plot.of(x_bounds, (0.0, 1.0), left=18, top=2, height=height)
    zero = plot.x(0.0)
    tops = [4 + ROW * index for index in range(len(entries))]
    rows = [row_of(entry, plot, top) for entry, top in zip(entries, tops, strict=True)]
    return chart(
        title,
        " ".join(
            f"{name}: {number(estimate.value, signed=True)} ({interval(estimate)})."
            for name, estimate, _ in entries
        ),
        height + 54,
        plot.frame(ticks_between(*x_bounds, at_most=7), [], axis, ""),
        # Only next to the intervals, so that the line does not cross text.
        element("path", class_="zero", d="".join(f"M{zero:.1f} {top + 16:.1f}v18" for top in tops)),
        *rows,
        class_="forest",
    )


def row_of(entry: tuple[str, Estimate, bool], plot: Plot, top: float) -> Markup:
    name, estimate, chosen = entry
    shown = name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
    low, high, middle = estimate.low, estimate.high, top + 25
    pieces: list[str] = [
        element("title", f"{name}: {number(estimate.value, signed=True)} ({interval(estimate)})"),
        element(
            "text",
            f"{shown} ★" if chosen else shown,
            class_="label strong" if chosen else "label",
            x=plot.x.start,
            y=top + 13,
        ),
        element(
            "text",
            number(estimate.value, signed=True),
            class_="tick",
            x=plot.x.end,
            y=top + 13,
            text_anchor="end",
        ),
    ]
    if low is not None and high is not None and has_value(low) and has_value(high):
        pieces.append(element("path", class_="line", d=f"M{plot.x(low):.1f} {middle:.1f}H{plot.x(high):.1f}"))
    if estimate.value is not None and has_value(estimate.value):
        pieces.append(marker("diamond" if chosen else "circle", plot.x(estimate.value), middle, 5.0, "mark"))
    return element("g", joined(*pieces), class_=f"row {verdict_of(estimate)}")


def verdict_of(estimate: Estimate) -> str:
    """Return on which side of zero the interval lies; marks are filled if it excludes zero, else hollow."""
    if estimate.high is not None and estimate.high < 0:
        return "better"
    return "worse" if estimate.low is not None and estimate.low > 0 else "open"
