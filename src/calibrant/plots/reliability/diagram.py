"""ReliabilityDisplay: reliability diagram of one or several models."""

from collections.abc import Mapping
from typing import Any, Literal, Self, get_args

import numpy as np

from calibrant.arrays import AnyArray, Vector
from calibrant.binning import BinningScheme
from calibrant.errors import ParameterError
from calibrant.metrics.binned_metric import Strategy
from calibrant.options import check_choice
from calibrant.plots.display import PredictionDisplay, panels
from calibrant.plots.event_rows import EventKind
from calibrant.plots.reliability.curve import SMALL_BIN, Mode, ReliabilityCurve, reliability_curve
from calibrant.plots.style import (
    BAR,
    DIAGONAL,
    FAINT,
    INTERVAL,
    LABEL_SIZE,
    OVER,
    UNDER,
    legend_above,
    look,
    write_caption,
)
from calibrant.tabular import stacked_columns

__all__ = ["ReliabilityDisplay"]


COUNT = "#8c8c8c"
GREY: dict[str, Any] = {"edgecolor": COUNT, "facecolor": "#ececec"}

# Smallest drawn width, for bins of a single score.
MIN_WIDTH = 0.008


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
    return f"{mode}: {what}; grey: fewer than {SMALL_BIN} rows." if curve.small.any() else f"{mode}: {what}."


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
        for within, drawn in ((large, style), (curve.small, {**GREY, "hatch": style["hatch"]})):
            chosen = within & (np.sign(gap) == sign)
            ax.bar(
                left[chosen],
                -gap[chosen],
                width[chosen],
                bottom=curve.mean_outcome[chosen],
                align="edge",
                linewidth=line_width,
                zorder=2,
                **drawn,
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


def draw_isotonic(ax: Any, curve: ReliabilityCurve, *, colour: str, label: str | None = None) -> None:
    """Draw the isotonic curve and its band."""
    if len(curve.band_score):
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
    ax.set_yticks(ticks, labels=[f"{tick:,.0f}" for tick in ticks])
    ax.minorticks_off()
    ax.set_xlim(0, 1)
    ax.set_xticks(np.linspace(0, 1, 6))
    ax.tick_params(labelsize=LABEL_SIZE)
    ax.set_ylabel("rows", fontsize=LABEL_SIZE)


def _places(curve: ReliabilityCurve) -> tuple[Vector, Vector]:
    """Return the left ends and widths of the visible bins."""
    edges = np.clip(curve.edges, 0.0, 1.0)
    width = np.maximum(np.diff(edges), MIN_WIDTH)
    middle = (edges[:-1] + edges[1:]) / 2
    return np.clip(middle - width / 2, 0.0, 1.0 - width), width


Style = Literal["auto", "bars", "points", "isotonic"]
"""Style of a reliability diagram; ``"auto"``: bars for one model, points for several."""


class ReliabilityDisplay(PredictionDisplay):
    """Reliability diagram of one or several models, with counts and intervals.

    For one model, bars show the observed frequency of the event in each bin. The gap to the mean probability is hatched, in
    different colours for too high and too low predictions :cite:`kull2019`. Empty bins are blank, and bins with fewer than
    ten rows are grey. For several models, points are connected by lines. The panel below shows the number of rows per bin.

    Parameters
    ----------
    curves : dict of str to ReliabilityCurve
        Name of the model -> curve.
    style : {"auto", "bars", "points", "isotonic"}, default="auto"
        Bars with gaps; points connected by lines; or the isotonic curve of :cite:`dimitriadis2021`. ``"auto"`` is bars for
        one model and points for several.

    Attributes
    ----------
    ax_, counts_ax_, figure_
        Axes of the diagram and of the counts (or None), and the figure, set by :meth:`plot`.

    Notes
    -----
    ``mode`` selects the intervals, which the caption explains. With ``"confidence"``, bars on the points are confidence
    intervals of the frequencies. With ``"consistency"``, bars on the diagonal are the range under calibration: a point outside
    its bar is evidence against calibration, at one minus the level for each bin separately.

    Examples
    --------
    >>> y, p = [0] * 9 + [1], [[0.8, 0.2]] * 10
    >>> display = ReliabilityDisplay.from_predictions(y, p, kind="confidence", n_bins=5)
    >>> display.columns()["count"]
    array([ 0,  0,  0,  0, 10])
    >>> both = ReliabilityDisplay.from_predictions(y, {"before": p, "after": [[0.9, 0.1]] * 10}, n_bins=5)
    >>> both.columns()["model"][[0, -1]].tolist()
    ['before', 'after']
    """

    counts_ax_: Any

    def __init__(self, curves: Mapping[str, ReliabilityCurve], style: Style = "auto") -> None:
        check_choice("style", style, get_args(Style))
        if not curves:
            raise ParameterError("there are no predictions to plot; pass at least one model.")
        self.curves = dict(curves)
        self.style = style

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_proba: Any,
        *,
        sample_weight: Any = None,
        kind: EventKind = "auto",
        label: Any = None,
        n_bins: int = 15,
        strategy: Strategy = "uniform",
        binning: BinningScheme | None = None,
        level: float = 0.95,
        mode: Mode = "confidence",
        n_resamples: int = 1000,
        random_state: int | np.random.Generator | None = 0,
        style: Style = "auto",
        name: str | None = None,
    ) -> Self:
        """Create the display from predictions and true classes.

        Parameters
        ----------
        y_true : array of shape (n,)
            True classes.
        y_proba : array, frame or Predictions, or a dict of them
            Probabilities, or a dict of names and predictions for the same rows to compare several models.
        sample_weight, kind, label, n_bins, strategy, binning, level, mode, n_resamples, random_state
            As in :func:`~calibrant.plots.reliability_curve`.
        style : {"auto", "bars", "points", "isotonic"}, default="auto"
            As in the class.
        name : str, optional
            Title, for one model.
        """
        models = y_proba if isinstance(y_proba, dict) else {name or "": y_proba}
        check_choice("style", style, get_args(Style))
        # The band is only for the isotonic style, and it is most of the work.
        n_drawn = n_resamples if style == "isotonic" else 0
        curves = {
            str(model): reliability_curve(
                y_true,
                predictions,
                sample_weight=sample_weight,
                kind=kind,
                label=label,
                n_bins=n_bins,
                strategy=strategy,
                binning=binning,
                level=level,
                mode=mode,
                n_resamples=n_drawn,
                random_state=random_state,
            )
            for model, predictions in models.items()
        }
        return cls(curves, style)

    def columns(self) -> dict[str, AnyArray]:
        """Return one row per bin; for several models in long format, with a column ``model``."""
        return stacked_columns("model", self.curves)

    def plot(
        self,
        ax: Any = None,
        *,
        counts: bool = True,
        legend: bool = True,
        caption: bool = True,
        style: Style | None = None,
    ) -> Self:
        """Plot the diagram and return self.

        Parameters
        ----------
        ax : axes or pair of axes, optional
            Axes for the diagram, which are split if counts are shown, or a pair for the diagram and the counts; by default a
            new figure.
        counts : bool, default=True
            Whether to show the panel of counts.
        legend : bool, default=True
            Whether to show a legend.
        caption : bool, default=True
            Whether to show the caption on intervals.
        style : str, optional
            Style instead of that of the display.
        """
        heights = (4.0, 1.0) if counts else (1.0,)
        axes, self.figure_ = panels(ax, (4.8, 6.2 if counts else 5.0), heights=heights)
        self.ax_, self.counts_ax_ = axes[0], axes[1] if counts else None
        chosen = self._chosen(style or self.style)
        first = next(iter(self.curves.values()))
        draw_frame(self.ax_)
        if chosen == "bars":
            self._bars(first)
        else:
            self._lines(chosen)
        across, up = axis_names(first)
        self.ax_.set_ylabel(up, fontsize=LABEL_SIZE)
        lowest = self.ax_ if self.counts_ax_ is None else self.counts_ax_
        if self.counts_ax_ is not None:
            self.ax_.tick_params(labelbottom=False)
            self._counts(fine=chosen == "isotonic")
        lowest.set_xlabel(across, fontsize=LABEL_SIZE)
        title = next(iter(self.curves)) if len(self.curves) == 1 else ""
        legend_above(self.ax_, self._handles(chosen) if legend else [], title)
        if caption:
            write_caption(lowest, intervals_in_words(first, isotonic=chosen == "isotonic"))
        return self

    def _chosen(self, style: Style) -> Style:
        check_choice("style", style, get_args(Style))
        if style == "bars" and len(self.curves) > 1:
            raise ParameterError(
                f"bars are for one model, but there are {len(self.curves)}, whose bars would overlap; "
                "use style='points'."
            )
        return style if style != "auto" else "bars" if len(self.curves) == 1 else "points"

    def _bars(self, curve: ReliabilityCurve) -> None:
        draw_bars(self.ax_, curve)
        draw_intervals(self.ax_, curve)

    def _lines(self, style: Style) -> None:
        several = len(self.curves) > 1
        for number, (name, curve) in enumerate(self.curves.items()):
            colour, marker = look(number)
            if style == "isotonic":
                draw_isotonic(self.ax_, curve, colour=colour, label=name if several else "isotonic curve")
            else:
                label = name if several else axis_names(curve)[1]
                draw_points(self.ax_, curve, colour=colour, marker=marker, label=label)
                draw_intervals(
                    self.ax_, curve, colour=colour, points=False, small=not several, line_width=1.0
                )

    def _counts(self, fine: bool) -> None:
        several = len(self.curves) > 1
        for number, curve in enumerate(self.curves.values()):
            draw_counts(
                self.counts_ax_, curve, fine=fine or several, colour=look(number)[0] if several else None
            )

    def _handles(self, style: Style) -> list[Any]:
        """Return the handles of the legend."""
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        diagonal = Line2D([], [], label="calibrated", **DIAGONAL)
        if style != "bars":
            return [*self.ax_.get_legend_handles_labels()[0], diagonal]
        return [
            Patch(facecolor=BAR, label=axis_names(next(iter(self.curves.values())))[1]),
            diagonal,
            Patch(**OVER, label="gap: prediction too high"),
            Patch(**UNDER, label="gap: prediction too low"),
        ]
