"""Cumulative chart: cumulative sum of outcomes minus scores, whose slope is the calibration error."""

from calibrant.report.contents import CumulativeNumbers
from calibrant.report.html.axes import Plot, bounds, chart, ticks_between
from calibrant.report.html.markup import Markup, element
from calibrant.report.html.number_text import number, p_value

__all__ = ["cumulative_bounds", "cumulative_chart", "cumulative_sentence"]


def cumulative_bounds(all_numbers: tuple[CumulativeNumbers, ...]) -> tuple[float, float]:
    """Return the common vertical range of all charts, so that before and after are comparable."""
    reach = [2.2 * numbers.sigma for numbers in all_numbers]
    return bounds(*(numbers.difference for numbers in all_numbers), reach, [-value for value in reach])


def cumulative_chart(numbers: CumulativeNumbers, y_bounds: tuple[float, float]) -> Markup:
    """Return the chart: curve, zero line, and plus and minus two standard deviations of the endpoint under calibration."""
    plot = Plot.of((0.0, 1.0), y_bounds)
    top, bottom = plot.y(2 * numbers.sigma), plot.y(-2 * numbers.sigma)
    return chart(
        f"Cumulative differences of {numbers.method}: {numbers.event}",
        cumulative_sentence(numbers),
        290,
        element(
            "rect", class_="band", x=plot.x.start, y=top, width=plot.x.end - plot.x.start, height=bottom - top
        ),
        plot.frame(
            ticks_between(0, 1),
            ticks_between(*y_bounds),
            "Fraction of rows, lowest score first",
            "Outcomes − scores",
        ),
        element("path", class_="diagonal", d=f"M{plot.x.start:.0f} {plot.y(0):.1f}H{plot.x.end:.0f}"),
        plot.line(zip(numbers.share, numbers.difference, strict=True), "curve"),
    )


def cumulative_sentence(numbers: CumulativeNumbers) -> str:
    """Return the result of Kuiper's test in words."""
    p = p_value(numbers.p_value)
    return (
        f"Range of the line (Kuiper's statistic) {number(numbers.kuiper)}, "
        f"p {p if p.startswith('<') else f'= {p}'}; standard deviation under calibration {number(numbers.sigma)}."
    )
