"""Sections "Cumulative differences", which need no bins, and "Sensitivity to binning"."""

from calibrant.comparison import UNCALIBRATED
from calibrant.plots.bin_sensitivity import bin_sensitivity
from calibrant.plots.cumulative_curve import cumulative_curve
from calibrant.presentation.document import Figure, OnPage, Paragraph, Section, SideBySide
from calibrant.presentation.markup import Markup, element, joined
from calibrant.presentation.table import Column, Table
from calibrant.presentation.values import TYPOGRAPHIC, Value, number, p_value
from calibrant.report.contents import BinSensitivityNumbers, CumulativeNumbers
from calibrant.report.evaluation_set import EvaluationSet, numbers_of
from calibrant.report.method_selection import MethodSelection
from calibrant.report.sections import Assessment, section_at
from calibrant.report.sections.axes import Plot, bounds, chart, legend, marker, series_swatch, ticks_between
from calibrant.report.sections.scores import metric_title

__all__ = ["bin_sensitivities", "cumulative_numbers"]

SERIES = (
    ("equal_width", "series-1", "circle", "equal-width bins"),
    ("equal_mass", "series-2", "square", "equal-mass bins"),
    ("debiased", "series-3", "triangle", "debiased"),
)


@section_at(120)
def cumulative_section(assessment: Assessment) -> Section | None:
    """Return the section with the cumulative sums of outcomes minus scores."""
    if not assessment.cumulative:
        return None
    shared = _bounds(assessment.cumulative)
    figures = tuple(
        Figure(
            f"cumulative-{index}",
            f"{numbers.method}, {numbers.event}",
            _cumulative_chart(numbers, shared),
            _cumulative_table(numbers, f"cumulative-numbers-{index}"),
            note=_kuiper_sentence(numbers),
        )
        for index, numbers in enumerate(assessment.cumulative)
    )
    lead = (
        "Cumulative sum of outcomes minus scores, from the lowest score to the highest, without bins. Where the curve falls, the "
        "scores are too high; where it rises, they are too low. For calibrated predictions it stays mostly within the grey band."
    )
    return Section("cumulative", "Cumulative differences", (Paragraph(lead, "lead"), SideBySide(figures)))


def _cumulative_table(numbers: CumulativeNumbers, name: str) -> Table:
    """Return the curve at about every tenth of the rows."""
    n = len(numbers.share)
    picked = sorted({round(step * (n - 1) / 10) for step in range(11)}) if n else []
    return Table.of(
        name,
        f"Cumulative differences of {numbers.method}, {numbers.event}",
        picked,
        (
            Column("Fraction of rows", is_numeric=False),
            lambda place: Value(numbers.share[place], "percent", 0),
        ),
        (Column("Score"), lambda place: Value(numbers.score[place])),
        (Column("Cumulative outcomes − scores"), lambda place: Value(numbers.difference[place], signed=True)),
    )


@section_at(130)
def bin_sensitivity_section(assessment: Assessment) -> Section | None:
    """Return the section with binned errors for several numbers of bins."""
    figures = tuple(
        Figure(
            f"bin-sensitivity-{index}",
            f"{numbers.method}, {metric_title(numbers.metric)}",
            _bin_chart(numbers),
            _bin_table(numbers, f"bin-sensitivity-numbers-{index}"),
        )
        for index, numbers in enumerate(assessment.bin_sensitivity)
        if numbers.n_bins
    )
    if not figures:
        return None
    lead = "A binned error depends on the bins. If the lines are above the grey area for every number of bins, the error is real."
    blocks = (Paragraph(lead, "lead"), SideBySide(figures), OnPage(_bin_legend()))
    return Section("bins", "Sensitivity to binning", blocks)


def _bin_table(numbers: BinSensitivityNumbers, name: str) -> Table:
    return Table.of(
        name,
        f"{metric_title(numbers.metric)} of {numbers.method} by the number of bins",
        range(len(numbers.n_bins)),
        (Column("Bins", is_numeric=False), lambda place: Value(numbers.n_bins[place], "count")),
        (Column("Equal width"), lambda place: Value(numbers.equal_width[place])),
        (Column("Equal mass"), lambda place: Value(numbers.equal_mass[place])),
        (Column("Debiased"), lambda place: Value(numbers.debiased[place])),
        (Column("If calibrated, mean"), lambda place: Value(numbers.noise[place])),
        (Column("If calibrated, 95 % quantile"), lambda place: Value(numbers.noise_high[place])),
    )


def cumulative_numbers(rows: EvaluationSet, selection: MethodSelection) -> tuple[CumulativeNumbers, ...]:
    """Return the cumulative differences of the main event, uncalibrated and after the chosen method."""
    found = []
    for method, some in _stages(rows, selection.after, selection):
        curve = cumulative_curve(some.labels, some.predictions, sample_weight=some.weights)
        plain = {name: float(getattr(curve, name)) for name in ("sigma", "kuiper", "p_value")}
        found.append(numbers_of(CumulativeNumbers, curve, method=method, **plain))
    return tuple(found)


def bin_sensitivities(
    sample: EvaluationSet, sample_after: EvaluationSet | None, selection: MethodSelection, random_state: int
) -> tuple[BinSensitivityNumbers, ...]:
    """Return the binned error of the predicted class for several numbers of bins, before and after calibration."""
    found = []
    for method, some in _stages(sample, sample_after, selection):
        curve = bin_sensitivity(
            some.labels, some.predictions, sample_weight=some.weights, random_state=random_state
        )
        found.append(numbers_of(BinSensitivityNumbers, curve, method=method))
    return tuple(found)


def _stages(
    before: EvaluationSet, after: EvaluationSet | None, selection: MethodSelection
) -> list[tuple[str, EvaluationSet]]:
    """Return the rows before and, if there are any, after calibration, with the name of the method."""
    later = [] if selection.chosen is None or after is None else [(selection.chosen.name, after)]
    return [(UNCALIBRATED, before), *later]


def _bounds(all_numbers: tuple[CumulativeNumbers, ...]) -> tuple[float, float]:
    """Return the common vertical range of all charts, so that before and after are comparable."""
    reach = [2.2 * numbers.sigma for numbers in all_numbers]
    return bounds(*(numbers.difference for numbers in all_numbers), reach, [-value for value in reach])


def _cumulative_chart(numbers: CumulativeNumbers, y_bounds: tuple[float, float]) -> Markup:
    """Return the chart: curve, zero line, and plus and minus two standard deviations of the endpoint under calibration."""
    plot = Plot.of((0.0, 1.0), y_bounds)
    top, bottom = plot.y(2 * numbers.sigma), plot.y(-2 * numbers.sigma)
    return chart(
        f"Cumulative differences of {numbers.method}: {numbers.event}",
        _kuiper_sentence(numbers),
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


def _kuiper_sentence(numbers: CumulativeNumbers) -> str:
    """Return the result of Kuiper's test in words."""
    p = p_value(numbers.p_value, style=TYPOGRAPHIC)
    kuiper, sigma = (number(one, style=TYPOGRAPHIC) for one in (numbers.kuiper, numbers.sigma))
    return (
        f"Range of the line (Kuiper's statistic) {kuiper}, p {p if p.startswith('<') else f'= {p}'}; standard deviation under "
        f"calibration {sigma}."
    )


def _bin_chart(numbers: BinSensitivityNumbers) -> Markup:
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
            metric_title(numbers.metric),
            write_x=lambda tick: f"{tick:g}",
        ),
        plot.line(zip(numbers.n_bins, numbers.noise, strict=True), "noise"),
    ]
    for values, (_, class_, shape, _) in zip(series, SERIES, strict=True):
        points = list(zip(numbers.n_bins, values, strict=True))
        marks = [marker(shape, *place, 4.0, "mark") for point in points if (place := plot.place(point))]
        pieces.append(element("g", plot.line(points, "line"), *marks, class_=f"series {class_}"))
    return chart(
        f"{metric_title(numbers.metric)} of {numbers.method} by the number of bins",
        "The table below the chart has the numbers.",
        290,
        *pieces,
    )


def _bin_legend() -> Markup:
    """Return the legend."""
    swatches = [(series_swatch(shape, f"series {class_}"), text) for _, class_, shape, text in SERIES]
    noise = joined(
        element("rect", class_="band", x=0, y=1, width=28, height=12),
        element("path", class_="noise", d="M0 7H28"),
    )
    return legend(*swatches, (noise, "under calibration: mean and 95 % quantile"))
