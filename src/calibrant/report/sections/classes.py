"""Section "Classes": calibration of each class, the worst first."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.hypothesis_tests import calibration_slope_intercept
from calibrant.metrics import calibration_error_lower_bound, classwise_ece
from calibrant.metrics.events import columns
from calibrant.presentation.document import OnPage, Section
from calibrant.presentation.markup import Markup, element, joined
from calibrant.presentation.table import Cell, Column, Table
from calibrant.presentation.values import TYPOGRAPHIC, Value, count, number, p_value
from calibrant.report.contents import ClassRow, Curve, Estimate
from calibrant.report.evaluation_set import EvaluationSet, gap_estimate, plain_float
from calibrant.report.evidence import Evidence
from calibrant.report.sections import Assessment, section_at
from calibrant.report.sections.axes import Plot, chart, legend, marker, series_swatch
from calibrant.report.sections.scores import capped_bound, estimate_cell

__all__ = ["class_rows", "noise_of_ece"]

N_BINS = 15

# Number of classes for which slopes and lower bounds are computed, since each takes a fit.
FITTED_CLASSES = 20

Direction = Literal["too high", "too low", "too extreme", "too timid", "none"]

# Number of classes that a page shows initially.
FIRST_CLASSES = 25

ARROWS = {"too high": "↑ ", "too low": "↓ ", "too extreme": "‹› ", "too timid": "›‹ "}

DEFINITIONS = (
    ("ECE", "expected calibration error of the probability of this class, with bins."),
    (
        "ECE if calibrated",
        "expected value of the ECE for the same probabilities and number of rows, if they were calibrated.",
    ),
    ("Error, lower bound", "one-sided lower confidence bound on the L1 error."),
    (
        "p-value, adjusted",
        "of the hypothesis that this class is calibrated, adjusted for the number of classes.",
    ),
    (
        "Slope",
        "logistic regression of the outcome on the log-odds: below 1 the probabilities are too extreme, above 1 not extreme "
        "enough. Exact zeros and ones count as half the smallest and twice the largest other odds.",
    ),
)

WIDTH, HEIGHT = 200.0, 186.0
STAGES = (("before", "square"), ("after", "circle"))


@section_at(110)
def classes_section(assessment: Assessment) -> Section | None:
    """Return the section with small diagrams of the worst classes, and a table of all classes."""
    rows = assessment.classes
    if not rows:
        return None
    curves: dict[str, list[Curve]] = {}
    for curve in assessment.curves:
        if curve.label is not None:
            curves.setdefault(curve.label, []).append(curve)
    blocks: list[OnPage | Table] = []
    if len(curves) > 1:
        blocks.append(OnPage(_grid(assessment, curves)))
    blocks += [OnPage(element("h3", "All classes", id="class-table-heading")), _table(rows)]
    return Section("classes", "Classes", tuple(blocks))


def _grid(assessment: Assessment, curves: dict[str, list[Curve]]) -> Markup:
    rows = {row.label: row for row in assessment.classes}
    events = list(dict.fromkeys((curve.event, curve.label) for curve in assessment.curves))
    figures = []
    for index, (label, pair) in enumerate(curves.items()):
        row, note = rows.get(label), ""
        if row is not None:
            p = p_value(row.adjusted_p_value, style=TYPOGRAPHIC)
            note = f"ECE {number(row.ece, style=TYPOGRAPHIC)}, p {p if p.startswith('<') else f'= {p}'}"
        name = element("strong", element("bdi", label or "(empty name)"))
        enlarge = element(
            "button",
            "Enlarge",
            type="button",
            class_="controls enlarge",
            hidden=True,
            data_event=events.index((pair[0].event, label)),
            aria_label=f"Show class {label} large",
        )
        caption = element("figcaption", name, " ", element("span", note))
        figures.append(element("figure", caption, _chart(tuple(pair[:2])), enlarge, id=f"class-{index}"))
    lead = []
    if len(curves) < len(rows):
        text = f"The {len(curves)} worst of {count(len(rows))} classes; the table has all classes."
        lead = [element("p", text, class_="lead")]
    methods = tuple(curve.method for curve in next(iter(curves.values()))[:2])
    return joined(
        element("h3", "Reliability by class, the worst first", id="grid-heading"),
        *lead,
        element("div", _legend(methods), class_="before-grid"),
        element("div", *figures, class_="grid-of-classes"),
    )


def _table(rows: tuple[ClassRow, ...]) -> Table:
    worst = "the worst calibrated first"
    return Table.of(
        "classes",
        f"Classes, {worst}" if len(rows) < 3 else f"{count(len(rows))} classes, {worst}",
        rows,
        (Column("Class", is_numeric=False), lambda row: row.label),
        (
            Column("Rows", hint="class frequency"),
            lambda row: Cell(Value(row.n_rows, "count"), (Value(row.share, "percent"),)),
        ),
        (Column("Mean probability"), lambda row: Value(row.mean_probability, "percent")),
        (
            Column("In the large", hint="mean probability − frequency"),
            lambda row: estimate_cell(row.in_the_large, signed=True),
        ),
        (Column("Slope", hint="1 is ideal"), lambda row: estimate_cell(row.slope)),
        (
            Column("ECE", hint="if calibrated"),
            lambda row: Cell(Value(row.ece, tiny=False), (Value(row.ece_noise),)),
        ),
        (Column("ECE after"), lambda row: Value(row.after_ece, tiny=False)),
        (Column("Error, lower bound"), lambda row: Value(row.lower_bound, tiny=False)),
        (Column("p-value", hint="adjusted"), lambda row: Value(row.adjusted_p_value, "p-value")),
        (
            Column("Probabilities are", is_numeric=False),
            lambda row: f"{ARROWS[row.direction]}{row.direction}" if row.direction in ARROWS else Value(None),
        ),
        is_sortable=True,
        is_filterable=len(rows) > 5,
        limit=FIRST_CLASSES if len(rows) > FIRST_CLASSES else None,
        definitions=DEFINITIONS,
    )


def class_rows(
    rows: EvaluationSet, after: EvaluationSet | None, sample: EvaluationSet, evidence: Evidence, level: float
) -> tuple[ClassRow, ...]:
    """Return a row per class: first the significantly miscalibrated ones, then by ECE minus its noise.

    The first twenty get slopes and lower bounds, from the ``sample``. ``after`` holds the same rows after calibration.
    """
    before_ece = _class_errors(rows)
    after_ece = None if after is None else _class_errors(after)
    noise = noise_of_ece(rows)
    adjusted = np.asarray(evidence.class_adjusted)
    is_off = adjusted <= 1 - level
    order = np.lexsort((-(before_ece - noise), ~is_off))
    shares = rows.data.class_weights / rows.data.total_weight
    in_the_large = [
        _in_the_large(rows, column, probabilities, level)
        for column, probabilities in enumerate(columns(rows.predictions))
    ]
    table = []
    for place, column in enumerate(order.tolist()):
        slope = lower_bound = None
        if place < FITTED_CLASSES:
            problem = sample.one_class(column)
            slope, lower_bound = _slope(problem, level), _lower_bound(problem, level)
        mean, gap = in_the_large[column]
        table.append(
            ClassRow(
                label=rows.class_names[column],
                n_rows=float(rows.data.class_weights[column]),
                share=float(shares[column]),
                mean_probability=mean,
                in_the_large=gap,
                slope=slope,
                ece=float(before_ece[column]),
                ece_noise=float(noise[column]),
                lower_bound=lower_bound,
                p_value=evidence.class_events[column].combined_p_value,
                adjusted_p_value=float(adjusted[column]),
                direction=_direction(gap, slope) if is_off[column] else "none",
                after_ece=None if after_ece is None else float(after_ece[column]),
            )
        )
    return tuple(table)


def noise_of_ece(rows: EvaluationSet) -> NDArray[np.float64]:
    r"""Return the expected ECE of every class under calibration, (K,).

    The gap of a bin of calibrated predictions is nearly normal with variance :math:`\sum_i w_i^2 p_i (1 - p_i) / W_b^2`,
    and the mean absolute value of a centred normal variable is :math:`\sqrt{2 / \pi}` standard deviations.
    """
    squares = np.ones(rows.n_rows) if rows.weights is None else rows.weights**2
    noise = np.empty(rows.n_classes)
    for column, scores in enumerate(columns(rows.predictions)):
        probabilities = np.clip(scores.astype(np.float64), 0.0, 1.0)
        place = np.minimum((probabilities * N_BINS).astype(np.intp), N_BINS - 1)
        variances = np.bincount(place, squares * probabilities * (1 - probabilities), minlength=N_BINS)
        noise[column] = np.sqrt(2 / np.pi) * np.sqrt(variances).sum() / rows.data.total_weight
    return noise


def _class_errors(rows: EvaluationSet) -> NDArray[np.float64]:
    errors: Any = classwise_ece(
        rows.labels, rows.predictions, sample_weight=rows.weights, n_bins=N_BINS, reduction="none"
    )
    return np.asarray(errors, dtype=np.float64)


def _in_the_large(
    rows: EvaluationSet, column: int, probabilities: NDArray[np.floating], level: float
) -> tuple[float, Estimate]:
    """Return the mean probability of a class, and its difference to the class frequency."""
    is_class = rows.data.labels == column
    definition = "mean probability minus class frequency"
    gap = gap_estimate("calibration in the large", probabilities, is_class, rows, level, definition)
    return rows.mean(probabilities), gap


def _slope(problem: EvaluationSet, level: float) -> Estimate | None:
    """Return the slope of the log-odds; None if it cannot be fitted."""
    try:
        line = calibration_slope_intercept(
            problem.labels,
            problem.predictions,
            sample_weight=problem.weights,
            kind="positive",
            level=level,
            interval="wald",
        )
    except ValueError:
        return None
    value = plain_float(line.slope.value)
    if value is None or not np.isfinite(value):
        return None
    return Estimate(
        name="calibration slope",
        value=value,
        low=plain_float(line.slope.low),
        high=plain_float(line.slope.high),
        level=level,
        definition="slope of the log-odds, 1 for calibrated probabilities; exact zeros and ones count as half the smallest and "
        "twice the largest other odds; Wald interval for independent rows",
    )


def _lower_bound(problem: EvaluationSet, level: float) -> float | None:
    if problem.n_rows < 2:
        return None
    found = calibration_error_lower_bound(
        problem.labels, problem.predictions, sample_weight=problem.weights, kind="positive", level=level
    )
    return capped_bound(found)


def _direction(gap: Estimate, slope: Estimate | None) -> Direction:
    """Return the direction of the miscalibration of a class: by its mean, else by its slope."""
    if gap.low is not None and gap.low > 0:
        return "too high"
    if gap.high is not None and gap.high < 0:
        return "too low"
    if slope is not None and slope.high is not None and slope.high < 1:
        return "too extreme"
    if slope is not None and slope.low is not None and slope.low > 1:
        return "too timid"
    return "none"


def _chart(curves: tuple[Curve, ...]) -> Markup:
    """Return the diagram of a class; the first curve is before calibration, the second after."""
    limit = max(curve.limit for curve in curves)
    plot = Plot.of((0.0, limit), (0.0, limit), left=30, top=8, right=192, height=150)
    labelled = [0.0, limit / 2, limit]
    ticks = [
        element("text", f"{tick:g}", class_="tick", x=plot.x.start - 5, y=plot.y(tick) + 4, text_anchor="end")
        for tick in labelled
    ] + [
        element("text", f"{tick:g}", class_="tick", x=plot.x(tick), y=plot.y.start + 17, text_anchor="middle")
        for tick in labelled
    ]
    return chart(
        f"Reliability of {curves[0].event}",
        " ".join(_description(curve, stage) for curve, (stage, _) in zip(curves, STAGES, strict=False)),
        HEIGHT,
        plot.grid(labelled),
        *ticks,
        plot.diagonal(),
        *(_bins(curve, plot, *stage) for curve, stage in zip(curves, STAGES, strict=False)),
        width=WIDTH,
        class_="classwise",
    )


def _bins(curve: Curve, plot: Plot, stage: str, shape: str) -> Markup:
    points = list(zip(curve.mean_score, curve.mean_outcome, curve.small, strict=True))
    marks = [
        marker(shape, *place, 2.4 if small else 3.6, "mark few" if small else "mark")
        for score, outcome, small in points
        if (place := plot.place((score, outcome)))
    ]
    # Lines do not cross bins with few or no rows, where nothing is known.
    line = plot.line(
        [(None, None) if small else (score, outcome) for score, outcome, small in points], "line"
    )
    return element("g", line, *marks, class_=f"stage {stage}")


def _description(curve: Curve, stage: str) -> str:
    gaps = [
        (score - outcome, score)
        for score, outcome, small in zip(curve.mean_score, curve.mean_outcome, curve.small, strict=True)
        if score is not None and outcome is not None and not small
    ]
    if not gaps:
        return f"{stage.capitalize()} ({curve.method}): too few rows in every bin."
    gap, score = max(gaps, key=lambda pair: abs(pair[0]))
    direction = "above" if gap > 0 else "below"
    return (
        f"{stage.capitalize()} ({curve.method}): the largest gap is at a score of {score:.2f}, "
        f"which is {abs(gap):.2f} {direction} the observed frequency."
    )


def _legend(methods: tuple[str, ...]) -> Markup:
    """Return the legend of the marks before and after."""
    entries = [
        (series_swatch(shape, f"stage {stage}"), f"{stage}: {method}")
        for method, (stage, shape) in zip(methods, STAGES, strict=False)
    ]
    faint = element(
        "g",
        marker("square", 9.0, 7.0, 2.6, "mark few"),
        marker("circle", 20.0, 7.0, 2.6, "mark few"),
        class_="stage before",
    )
    return legend(
        *entries,
        (faint, "bin with few rows"),
        (joined(element("path", class_="diagonal", d="M0 12L28 2")), "perfect calibration"),
    )
