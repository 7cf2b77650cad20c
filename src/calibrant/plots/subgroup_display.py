"""SubgroupDisplay: calibration error of every segment of side columns, with simultaneous intervals."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.hypothesis_tests import SubgroupCalibration, subgroup_calibration
from calibrant.options import check_whole
from calibrant.plots.display import Display, new_axes
from calibrant.plots.style import DIAGONAL, FAINT, LABEL_SIZE, SERIES, write_caption

__all__ = ["SubgroupDisplay"]


class SubgroupDisplay(Display):
    """Observed frequency minus mean prediction of segments, with intervals that hold for all of them together.

    Parameters
    ----------
    subgroups : SubgroupCalibration
        Data of the plot.
    n_segments : int, default=20
        Number of segments, those with the strongest evidence.
    name : str, default=""
        Title.

    Attributes
    ----------
    ax_, figure_
        Axes and figure, set by :meth:`plot`.

    Examples
    --------
    >>> p, y, site = [0.3] * 80 + [0.6] * 80, [1, 0, 0, 0] * 20 + [1, 1, 0] * 20 + [0] * 20, ["a", "b"] * 80
    >>> display = SubgroupDisplay.from_predictions(y, p, {"site": site})
    >>> sorted(display.columns()["segment"])
    ['site = a', 'site = b']
    """

    def __init__(self, subgroups: SubgroupCalibration, n_segments: int = 20, name: str = "") -> None:
        self.subgroups = subgroups
        self.n_segments = n_segments
        self.name = name

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_proba: Any,
        columns: Any,
        *,
        n_segments: int = 20,
        name: str = "",
        **options: Any,
    ) -> Self:
        """Create the display from true classes, predictions and side columns.

        Further options are those of :func:`~calibrant.hypothesis_tests.subgroup_calibration`.
        """
        check_whole("n_segments", n_segments)
        return cls(subgroup_calibration(y_true, y_proba, columns, **options), n_segments, name)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return one row per segment."""
        return self.subgroups.columns()

    def plot(self, ax: Any = None) -> Self:
        """Plot on the given axes, or on a new figure, and return self."""
        found = self.subgroups
        shown = slice(0, self.n_segments)
        n_shown = len(found.segment[shown])
        self.ax_, self.figure_ = new_axes(ax, (6.4, 1.4 + 0.28 * n_shown))
        axes, places = self.ax_, np.arange(n_shown)
        difference, rejected = found.difference[shown], found.p_value[shown] <= 1 - found.level
        for place, low, high, is_rejected in zip(
            places, found.low[shown], found.high[shown], rejected, strict=True
        ):
            axes.plot([low, high], [place, place], color=SERIES[0] if is_rejected else FAINT, linewidth=1.6)
        colours = [SERIES[0] if one else FAINT for one in rejected]
        axes.scatter(difference, places, c=colours, s=22, zorder=3)
        axes.axvline(0, **DIAGONAL)
        axes.set_yticks(places, found.segment[shown])
        axes.set_ylim(n_shown - 0.5, -0.5)
        axes.set_xlabel("observed − predicted", fontsize=LABEL_SIZE)
        axes.tick_params(labelsize=LABEL_SIZE)
        if self.name:
            axes.set_title(self.name, fontsize=LABEL_SIZE + 1)
        # Long names of segments make the axes narrower, to whose width the caption is wrapped.
        axes.figure.draw_without_rendering()
        write_caption(
            axes,
            f"{100 * found.level:g} % intervals for all {len(found.segment)} segments together. "
            "Coloured: rejected, adjusted for the search.",
        )
        return self
