"""Elements of a reliability diagram: bars with gaps, points, isotonic curves and counts."""

from typing import Any

import numpy as np

from calibrant.arrays import Vector
from calibrant.plots.caption import thousands
from calibrant.plots.reliability_curve import FEW_ROWS, ReliabilityCurve
from calibrant.plots.style import BAR, DIAGONAL, FAINT, INTERVAL, LABEL_SIZE, OVER, UNDER

__all__ = [
    "axis_names",
    "draw_bars",
    "draw_counts",
    "draw_frame",
    "draw_intervals",
    "draw_isotonic",
    "draw_points",
    "intervals_in_words",
]


COUNT = "#8c8c8c"
GREY: dict[str, Any] = {"edgecolor": COUNT, "facecolor": "#ececec"}

# Smallest drawn width, for bins of a single score.
LEAST_WIDTH = 0.008


def axis_names(curve: ReliabilityCurve) -> tuple[str, str]:
    """Return the labels of the horizontal and the vertical axis."""
    if curve.kind == "confidence":
        return "confidence in the predicted class", "accuracy"
    if curve.kind == "top-label":
        return f"confidence in {curve.event}", "accuracy"
    return f"probability of {curve.event}", f"frequency of {curve.event}"


def intervals_in_words(curve: ReliabilityCurve, isotonic: bool) -> str:
    """Return one sentence that explains the bars or the band."""
    percent, mode = f"{100 * curve.level:g} %", f'Mode "{curve.mode}"'
    if isotonic:
        if len(curve.band_score) == 0:
            return "Isotonic curve, without a band."
        whose = "of bootstrap resamples" if curve.mode == "confidence" else "of calibrated predictions"
        return f"{mode}: the band contains {percent} of the curves {whose}, pointwise."
    if curve.mode == "confidence":
        what = f"bars on the points are {percent} Clopper-Pearson intervals of the frequency"
    else:
        what = f"bars on the diagonal are {percent} ranges for calibrated predictions"
    return f"{mode}: {what}; grey: fewer than {FEW_ROWS} rows." if curve.small.any() else f"{mode}: {what}."


def draw_frame(ax: Any, label_size: float = LABEL_SIZE) -> None:
    """Draw the diagonal, and set the limits and ticks of a diagram."""
    ax.plot([0, 1], [0, 1], zorder=3, **DIAGONAL)
    ax.set(xlim=(0, 1), ylim=(0, 1.03))
    ticks = np.linspace(0, 1, 6)
    ax.set_xticks(ticks)
    ax.set_yticks(ticks)
    ax.tick_params(labelsize=label_size)


def draw_bars(ax: Any, curve: ReliabilityCurve, line_width: float = 0.8) -> None:
    """Draw bars up to the frequency, with the gap to the mean score; small bins are grey, empty ones blank."""
    left, width = _places(curve)
    gap = np.nan_to_num(curve.mean_outcome - curve.mean_score)
    large = curve.filled & ~curve.small
    for chosen, colour in ((large, BAR), (curve.small, FAINT)):
        ax.bar(
            left[chosen],
            curve.mean_outcome[chosen],
            width[chosen],
            align="edge",
            color=colour,
            edgecolor="white",
            linewidth=line_width,
            zorder=1,
        )
    for sign, style in ((-1, OVER), (1, UNDER)):
        for within, look in ((large, style), (curve.small, {**GREY, "hatch": style["hatch"]})):
            chosen = within & (np.sign(gap) == sign)
            ax.bar(
                left[chosen],
                -gap[chosen],
                width[chosen],
                bottom=curve.mean_outcome[chosen],
                align="edge",
                linewidth=line_width,
                zorder=2,
                **look,
            )


def draw_points(
    ax: Any, curve: ReliabilityCurve, *, colour: str, marker: str, label: str | None = None
) -> None:
    """Draw mean outcomes against mean scores, with lines between neighbouring bins; small bins as hollow grey points."""
    x, y = curve.mean_score, curve.mean_outcome
    # NaN interrupts the line at empty and small bins.
    large = np.where(curve.small, np.nan, y)
    line = {"color": colour, "marker": marker, "markersize": 5, "linewidth": 1.4, "zorder": 5}
    # An empty unclipped line confuses the layout engine.
    ax.plot(x, large, label=label, clip_on=bool(np.isnan(large).all()), **line)
    if not curve.small.any():
        return
    hollow = {"markerfacecolor": "white", "markeredgecolor": COUNT, "markersize": 5}
    ax.plot(
        x[curve.small], y[curve.small], linestyle="none", marker=marker, clip_on=False, zorder=4, **hollow
    )


def draw_intervals(
    ax: Any,
    curve: ReliabilityCurve,
    *,
    colour: str = INTERVAL,
    points: bool = True,
    small: bool = True,
    line_width: float = 1.2,
) -> None:
    """Draw the intervals of non-empty bins, optionally without small ones: on the points, or on the diagonal."""
    if curve.mode == "confidence":
        low, high = curve.low, curve.high
    else:
        low, high = curve.consistency_low, curve.consistency_high
    for chosen, ink in ((curve.filled & ~curve.small, colour), (curve.small & small, COUNT)):
        if not chosen.any():
            continue  # as above
        x = curve.mean_score[chosen]
        middle = (low[chosen] + high[chosen]) / 2
        ax.errorbar(
            x,
            middle,
            # Rounding errors could make lengths negative, which matplotlib rejects.
            yerr=np.maximum((high[chosen] - low[chosen]) / 2, 0),
            fmt="none",
            ecolor=ink,
            clip_on=False,
            elinewidth=line_width,
            capsize=2 * line_width,
            zorder=4,
        )
        if points:
            ax.plot(
                x,
                curve.mean_outcome[chosen],
                "o",
                markersize=3 * line_width,
                color=ink,
                clip_on=False,
                zorder=5,
            )


def draw_isotonic(
    ax: Any, curve: ReliabilityCurve, *, colour: str, label: str | None = None, band: bool = True
) -> None:
    """Draw the isotonic curve and its band."""
    if band and len(curve.band_score):
        # A consistency band belongs to the diagonal, a confidence band to the curve.
        shade = colour if curve.mode == "confidence" else "#777777"
        ax.fill_between(
            curve.band_score, curve.band_low, curve.band_high, color=shade, alpha=0.25, linewidth=0, zorder=2
        )
    marker = "o" if len(curve.isotonic_score) == 1 else None
    ax.plot(
        curve.isotonic_score,
        curve.isotonic_outcome,
        color=colour,
        linewidth=1.8,
        label=label,
        marker=marker,
        zorder=5,
    )


def draw_counts(ax: Any, curve: ReliabilityCurve, *, fine: bool = False, colour: str | None = None) -> None:
    """Draw the number of rows per bin, on a logarithmic axis, since one bin often has nearly all rows.

    ``fine`` uses fifty equal-width bins, and ``colour`` draws outlines, for several models on the same axes.
    """
    if fine:
        count, edges = curve.histogram_count, curve.histogram_edges
        left, width = edges[:-1], np.diff(edges)
    else:
        count, (left, width) = curve.count, _places(curve)
    largest = int(count.max())
    if colour is None:
        filled = count > 0
        ax.bar(
            left[filled],
            count[filled] - 0.5,
            width[filled],
            bottom=0.5,
            align="edge",
            color=COUNT,
            edgecolor="white",
            linewidth=0.5 if fine else 0.8,
        )
    else:
        ax.stairs(np.maximum(count, 0.5), np.append(left, left[-1] + width[-1]), color=colour, linewidth=1.2)
        largest = max(largest, int(ax.get_ylim()[1] / 2))
    ax.set_yscale("log")
    ax.set_ylim(0.5, 2 * largest)
    powers = np.arange(int(np.log10(largest)) + 1)
    ticks = 10.0 ** powers[:: max(1, -(-len(powers) // 3))]
    ax.set_yticks(ticks, labels=[thousands(tick) for tick in ticks])
    ax.minorticks_off()
    ax.set_xlim(0, 1)
    ax.set_xticks(np.linspace(0, 1, 6))
    ax.tick_params(labelsize=LABEL_SIZE)
    ax.set_ylabel("rows", fontsize=LABEL_SIZE)


def _places(curve: ReliabilityCurve) -> tuple[Vector, Vector]:
    """Return the left ends and widths of the visible bins."""
    edges = np.clip(curve.edges, 0.0, 1.0)
    width = np.maximum(np.diff(edges), LEAST_WIDTH)
    middle = (edges[:-1] + edges[1:]) / 2
    return np.clip(middle - width / 2, 0.0, 1.0 - width), width
