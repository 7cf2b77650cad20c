"""Classwise chart: a small reliability diagram of one class, before and after calibration."""

from calibrant.report.contents import Curve
from calibrant.report.html.axes import Plot, chart, legend, marker
from calibrant.report.html.markup import Markup, element, joined

__all__ = ["classwise_chart", "classwise_legend"]

WIDTH, HEIGHT = 200.0, 186.0
STAGES = (("before", "square"), ("after", "circle"))


def classwise_chart(curves: tuple[Curve, ...]) -> Markup:
    """Return the diagram of a class; the first curve is before calibration, the second after."""
    limit = max(curve.limit for curve in curves)
    plot = Plot.of((0.0, limit), (0.0, limit), left=30, top=8, right=192, height=150)
    labelled = [0.0, limit / 2, limit]
    grid = " ".join(f"M{plot.x.start:.0f} {plot.y(tick):.1f}H{plot.x.end:.0f}" for tick in labelled)
    ticks = [
        element("text", f"{tick:g}", class_="tick", x=plot.x.start - 5, y=plot.y(tick) + 4, text_anchor="end")
        for tick in labelled
    ] + [
        element("text", f"{tick:g}", class_="tick", x=plot.x(tick), y=plot.y.start + 17, text_anchor="middle")
        for tick in labelled
    ]
    return chart(
        f"Reliability of {curves[0].event}",
        " ".join(described(curve, stage) for curve, (stage, _) in zip(curves, STAGES, strict=False)),
        HEIGHT,
        element("path", class_="grid", d=grid),
        *ticks,
        element(
            "path",
            class_="diagonal",
            d=f"M{plot.x.start:.1f} {plot.y.start:.1f}L{plot.x.end:.1f} {plot.y.end:.1f}",
        ),
        *(bins_of(curve, plot, *stage) for curve, stage in zip(curves, STAGES, strict=False)),
        width=WIDTH,
        class_="classwise",
    )


def bins_of(curve: Curve, plot: Plot, stage: str, shape: str) -> Markup:
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


def described(curve: Curve, stage: str) -> str:
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


def classwise_legend(methods: tuple[str, ...]) -> Markup:
    """Return the legend of the marks before and after."""
    entries = [
        (
            element(
                "g",
                element("path", class_="line", d="M0 7H28"),
                marker(shape, 14.0, 7.0, 4.0, "mark"),
                class_=f"stage {stage}",
            ),
            f"{stage}: {method}",
        )
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
