"""Learning curve: loss after calibration against the size of the calibration set."""

from calibrant.report.contents import LearningNumbers
from calibrant.report.html.axes import Plot, bounds, chart, legend, marker, tick_text, ticks_between
from calibrant.report.html.markup import Markup, element, joined

__all__ = ["learning_chart", "learning_legend"]

CLOSEST = 46.0
"""Smallest distance in pixels between labels of the horizontal axis."""


def learning_chart(numbers: LearningNumbers) -> Markup:
    """Return the chart: loss with its interval by size, and the uncalibrated loss as a horizontal line."""
    y_bounds = bounds(numbers.loss, numbers.low, numbers.high, [numbers.uncalibrated])
    smallest, largest = min(numbers.sizes), max(numbers.sizes)
    plot = Plot.of((smallest / 1.1, max(largest, smallest + 1) * 1.1), y_bounds, logarithmic=True)
    level = plot.place((largest, numbers.uncalibrated))
    points = list(zip(numbers.sizes, numbers.loss, strict=True))
    marks = [marker("circle", *place, 4.0, "mark") for point in points if (place := plot.place(point))]
    return chart(
        f"Loss on held-out rows by size of the calibration set, {numbers.method}",
        numbers.sentence,
        290,
        plot.band(numbers.sizes, numbers.low, numbers.high, "band tinted"),
        plot.frame(
            spaced(numbers.sizes, plot),
            ticks_between(*y_bounds),
            "Size of the calibration set",
            "Log-loss",
            write_x=lambda tick: tick_text(tick, 0),
        ),
        element("path", class_="before-line", d=f"M{plot.x.start:.0f} {level[1]:.1f}H{plot.x.end:.0f}")
        if level
        else Markup(),
        element("g", plot.line(points, "line"), *marks, class_="series series-1"),
    )


def spaced(sizes: tuple[int, ...], plot: Plot) -> list[float]:
    """Return the sizes whose labels do not overlap, always including the largest."""
    kept: list[float] = []
    for size in sorted(sizes, reverse=True):
        if not kept or plot.x(kept[-1]) - plot.x(size) >= CLOSEST:
            kept.append(float(size))
    return kept[::-1]


def learning_legend(numbers: LearningNumbers) -> Markup:
    """Return the legend."""
    line = element(
        "g",
        element("path", class_="line", d="M0 7H28"),
        marker("circle", 14.0, 7.0, 4.0, "mark"),
        class_="series series-1",
    )
    return legend(
        (
            joined(element("rect", class_="band tinted", x=0, y=1, width=28, height=12), line),
            f"{numbers.method}, with interval",
        ),
        (element("path", class_="before-line", d="M0 7H28"), "uncalibrated"),
    )
