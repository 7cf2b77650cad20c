"""ReliabilityDisplay: reliability diagram."""

from collections.abc import Mapping
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant.binning import BinningScheme
from calibrant.errors import ParameterError
from calibrant.metrics.bin_errors import Strategy
from calibrant.options import check_choice
from calibrant.plots.caption import legend_above, write_caption
from calibrant.plots.display import PredictionDisplay
from calibrant.plots.event_rows import EventKind
from calibrant.plots.isotonic_curve import Mode
from calibrant.plots.panels import panels
from calibrant.plots.reliability_curve import ReliabilityCurve, reliability_curve
from calibrant.plots.reliability_drawing import (
    axis_names,
    draw_bars,
    draw_counts,
    draw_frame,
    draw_intervals,
    draw_isotonic,
    draw_points,
    intervals_in_words,
)
from calibrant.plots.style import BAR, DIAGONAL, LABEL_SIZE, OVER, UNDER, look
from calibrant.tabular import stacked_columns

__all__ = ["ReliabilityDisplay", "Style"]

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

    def columns(self) -> dict[str, NDArray[Any]]:
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
