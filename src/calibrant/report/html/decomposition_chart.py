"""Decomposition chart: how much of a proper score is miscalibration, before and after."""

from calibrant.report.contents import Decomposition
from calibrant.report.html.axes import Plot, chart, legend, ticks_between
from calibrant.report.html.markup import Markup, element
from calibrant.report.html.number_text import has_value, number, percent, plain_name

__all__ = ["base_rate_of", "decomposition_chart", "decomposition_legend"]

ROW = 62.0


def decomposition_chart(rows: tuple[Decomposition, ...]) -> Markup:
    """Return one bar per stage: the part of the score that calibration cannot change, then the miscalibration."""
    base_rate = base_rate_of(rows)
    high = 1.08 * max(longest_of(rows), base_rate or 0.0)
    height = ROW * len(rows) + 8
    plot = Plot.of((0.0, high), (0.0, 1.0), left=18, top=4, height=height)
    pieces: list[str] = [plot.frame(ticks_between(0, high), [], plain_name(rows[0].loss), "")]
    tops = [10 + ROW * index for index in range(len(rows))]
    if base_rate is not None:  # only next to the bars, so that the line does not cross text
        x = plot.x(base_rate)
        pieces.append(
            element("path", class_="diagonal", d="".join(f"M{x:.1f} {top + 18:.1f}v28" for top in tops))
        )
    pieces += [bar_of(row, plot, top) for row, top in zip(rows, tops, strict=True)]
    return chart(
        f"Decomposition of the {plain_name(rows[0].loss)}",
        " ".join(sentence_of(row) for row in rows),
        height + 54,
        *pieces,
    )


def longest_of(rows: tuple[Decomposition, ...]) -> float:
    return max((row.score for row in rows if has_value(row.score)), default=0.0) or 1.0


def base_rate_of(rows: tuple[Decomposition, ...]) -> float | None:
    """Return the score of the class frequencies; None if showing it would make the bars too short to read."""
    base_rate = rows[0].uncertainty
    return base_rate if has_value(base_rate) and base_rate <= 2.5 * longest_of(rows) else None


def bar_of(row: Decomposition, plot: Plot, top: float) -> Markup:
    label = element("text", row.stage, class_="label", x=plot.x.start, y=top + 12)
    if not has_value(row.score):
        return element(
            "g",
            label,
            element("text", "∞ (not drawn)", class_="tick", x=plot.x.end, y=top + 12, text_anchor="end"),
        )
    start, between, end = plot.x(0), plot.x(max(row.score - row.miscalibration, 0.0)), plot.x(row.score)
    share = percent(row.miscalibration / row.score) if row.score > 0 and row.miscalibration > 0 else "no"
    return element(
        "g",
        label,
        element(
            "text",
            f"{number(row.score)}, {share} miscalibration",
            class_="tick",
            x=plot.x.end,
            y=top + 12,
            text_anchor="end",
        ),
        element("rect", class_="bar", x=start, y=top + 20, width=max(between - start, 0.0), height=24),
        element("rect", class_="gap over", x=between, y=top + 20, width=max(end - between, 0.0), height=24),
    )


def sentence_of(row: Decomposition) -> str:
    return (
        f"{row.stage}: {number(row.score)} = {number(row.miscalibration)} miscalibration "
        f"− {number(row.discrimination)} discrimination + {number(row.uncertainty)} uncertainty."
    )


def decomposition_legend(with_base_rate: bool) -> Markup:
    """Return the legend of the parts of a bar."""
    entries = [
        (
            element("rect", class_="bar", x=2, y=2, width=24, height=10),
            "loss after perfect recalibration (uncertainty − discrimination)",
        ),
        (element("rect", class_="gap over", x=2, y=1, width=24, height=12), "miscalibration"),
    ]
    if with_base_rate:
        entries.append(
            (
                element("path", class_="diagonal", d="M14 0V14"),
                "score of the class frequencies",
            )
        )
    return legend(*entries)
