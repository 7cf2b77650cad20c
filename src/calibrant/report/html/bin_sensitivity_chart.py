"""Bin sensitivity chart: a binned error against the number of bins, with its range under calibration."""

from calibrant.report.contents import BinSensitivityNumbers
from calibrant.report.html.axes import Plot, bounds, chart, legend, marker, ticks_between
from calibrant.report.html.markup import Markup, element, joined
from calibrant.report.html.number_text import plain_name

__all__ = ["bin_sensitivity_chart", "bin_sensitivity_legend"]

SERIES = (
    ("equal_width", "series-1", "circle", "equal-width bins"),
    ("equal_mass", "series-2", "square", "equal-mass bins"),
    ("debiased", "series-3", "triangle", "debiased"),
)


def bin_sensitivity_chart(numbers: BinSensitivityNumbers) -> Markup:
    """Return the chart, with a logarithmic axis for the number of bins."""
    series = [getattr(numbers, name) for name, *_ in SERIES]
    y_bounds = bounds(*series, numbers.noise_high, zero=True)
    few, many = min(numbers.n_bins), max(numbers.n_bins)
    plot = Plot.of((few / 1.15, max(many, few + 1) * 1.15), y_bounds, logarithmic=True)
    zeros = tuple(0.0 for _ in numbers.n_bins)
    pieces: list[str] = [
        plot.band(numbers.n_bins, zeros, numbers.noise_high, "band"),
        plot.frame(
            list(numbers.n_bins),
            ticks_between(*y_bounds),
            "Number of bins",
            plain_name(numbers.metric),
            write_x=lambda tick: f"{tick:g}",
        ),
        plot.line(zip(numbers.n_bins, numbers.noise, strict=True), "noise"),
    ]
    for values, (_, class_, shape, _) in zip(series, SERIES, strict=True):
        points = list(zip(numbers.n_bins, values, strict=True))
        marks = [marker(shape, *place, 4.0, "mark") for point in points if (place := plot.place(point))]
        pieces.append(element("g", plot.line(points, "line"), *marks, class_=f"series {class_}"))
    return chart(
        f"{plain_name(numbers.metric)} of {numbers.method} by the number of bins",
        "The table below the chart has the numbers.",
        290,
        *pieces,
    )


def bin_sensitivity_legend() -> Markup:
    """Return the legend."""
    swatches = [
        (
            element(
                "g",
                element("path", class_="line", d="M0 7H28"),
                marker(shape, 14.0, 7.0, 4.0, "mark"),
                class_=f"series {class_}",
            ),
            text,
        )
        for _, class_, shape, text in SERIES
    ]
    noise = joined(
        element("rect", class_="band", x=0, y=1, width=28, height=12),
        element("path", class_="noise", d="M0 7H28"),
    )
    return legend(*swatches, (noise, "under calibration: mean and 95 % quantile"))
