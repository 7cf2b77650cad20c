"""CalibrationBeltDisplay: polynomial recalibration curve with its confidence belt."""

from typing import Any, Self

from numpy.typing import NDArray

from calibrant.hypothesis_tests import CalibrationBelt, calibration_belt
from calibrant.plots.display import PredictionDisplay, new_axes
from calibrant.plots.style import DIAGONAL, LABEL_SIZE, SERIES, legend_above, write_caption
from calibrant.presentation.sentences import p_text

__all__ = ["CalibrationBeltDisplay"]


class CalibrationBeltDisplay(PredictionDisplay):
    """GiViTI calibration belt :cite:`nattino2014`: predictions are miscalibrated where the belt excludes the diagonal.

    Parameters
    ----------
    belt : CalibrationBelt
        Data of the plot.
    name : str, default=""
        Title.

    Attributes
    ----------
    ax_, figure_
        Axes and figure, set by :meth:`plot`.

    Examples
    --------
    >>> p, y = [0.1, 0.2, 0.3, 0.6, 0.7, 0.8] * 20, [0, 0, 1, 1, 0, 1] * 20
    >>> display = CalibrationBeltDisplay.from_predictions(y, p, n_points=5)
    >>> display.columns()["predicted"].round(3)
    array([0.1  , 0.275, 0.45 , 0.625, 0.8  ])
    """

    def __init__(self, belt: CalibrationBelt, name: str = "") -> None:
        self.belt = belt
        self.name = name

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_proba: Any,
        *,
        kind: Any = "auto",
        max_degree: int = 4,
        level: float = 0.95,
        n_points: int = 101,
        name: str = "",
    ) -> Self:
        """Create the display from true classes and predictions.

        The options are those of :func:`~calibrant.hypothesis_tests.calibration_belt`.
        """
        belt = calibration_belt(
            y_true, y_proba, kind=kind, max_degree=max_degree, level=level, n_points=n_points
        )
        return cls(belt, name)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return one row per probability."""
        return self.belt.columns()

    def plot(self, ax: Any = None) -> Self:
        """Plot on the given axes, or on a new figure, and return self."""
        self.ax_, self.figure_ = new_axes(ax, (5.0, 5.0))
        axes, belt = self.ax_, self.belt
        axes.plot([0, 1], [0, 1], **DIAGONAL, label="calibrated")
        axes.fill_between(belt.predicted, belt.low, belt.high, color=SERIES[0], alpha=0.2, linewidth=0)
        axes.plot(belt.predicted, belt.curve, color=SERIES[0], linewidth=1.8, label=f"degree {belt.degree}")
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        axes.set_xlabel("predicted probability", fontsize=LABEL_SIZE)
        axes.set_ylabel("frequency", fontsize=LABEL_SIZE)
        axes.tick_params(labelsize=LABEL_SIZE)
        legend_above(axes, axes.get_legend_handles_labels()[0], self.name)
        write_caption(
            axes,
            f"Shaded: {100 * belt.level:g} % belt. GiViTI test: {p_text(belt.test.p_value, None)}.",
        )
        return self
