"""Base classes of displays, in the style of scikit-learn, and their axes."""

from abc import abstractmethod
from base64 import b64encode
from collections.abc import Sequence
from copy import copy
from inspect import cleandoc
from io import BytesIO
from typing import Any, Self

from calibrant.calibrator import Calibrator
from calibrant.errors import MissingExtraError, ParameterError
from calibrant.predictions import Predictions
from calibrant.tabular import Tabular

__all__ = ["Display"]


ATTRIBUTES = """Attributes
----------
ax_, figure_
    Axes and figure, set by :meth:`plot`.
"""

RESOLUTION = 96  # of plots in notebooks, in dots per inch


class Display(Tabular):
    """A plot with its data.

    ``from_predictions`` and ``from_estimator`` create a display without matplotlib. :meth:`plot` draws it and sets the
    attributes ``ax_`` and ``figure_``.
    """

    ax_: Any
    figure_: Any

    def __init_subclass__(cls, **options: Any) -> None:
        """Describe the attributes of a plot, unless its docstring does."""
        super().__init_subclass__(**options)
        if cls.__doc__ and "Attributes\n" not in cls.__doc__:
            before, heading, after = cleandoc(cls.__doc__).partition("Examples\n--------\n")
            cls.__doc__ = f"{before}{ATTRIBUTES}\n{heading}{after}"

    @abstractmethod
    def plot(self, ax: Any = None) -> Self:
        """Plot on the given axes, or on a new figure, and return self."""

    def _repr_html_(self) -> str | None:
        """Return the plot for notebooks; nothing if it has been plotted, since the notebook shows that figure."""
        if hasattr(self, "figure_"):
            return None
        try:
            pyplot = _pyplot()
        except MissingExtraError:
            return None
        drawn = copy(self).plot()
        image = BytesIO()
        drawn.figure_.savefig(image, format="png", dpi=RESOLUTION, bbox_inches="tight")
        pyplot.close(drawn.figure_)
        content = b64encode(image.getvalue()).decode()
        return f'<img alt="{type(self).__name__}" src="data:image/png;base64,{content}">'


class PredictionDisplay(Display):
    """Display of predictions and true classes, with a class method ``from_predictions(y_true, y_proba, ...)``."""

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, **options: Any) -> Self:
        """Create the display from a fitted classifier and features, or from a fitted calibrator and predictions.

        Parameters
        ----------
        estimator : classifier or Calibrator
            Fitted estimator; a dict of estimators if :meth:`from_predictions` accepts a dict of predictions.
        X : array or frame
            Features, or predictions for a calibrator.
        y : array of shape (n,)
            True classes.
        **options
            As in :meth:`from_predictions`.
        """
        predictions: Any = (
            {name: predictions_of(one, X) for name, one in estimator.items()}
            if isinstance(estimator, dict)
            else predictions_of(estimator, X)
        )
        # Not declared above, since every display has different options.
        made: Self = cls.from_predictions(y, predictions, **options)  # type: ignore[attr-defined]
        return made


def new_axes(ax: Any = None, size: tuple[float, float] = (4.8, 4.8)) -> tuple[Any, Any]:
    """Return axes and their figure; a new figure of the given size in inches if there are none."""
    if ax is not None:
        return ax, ax.figure
    figure, axes = _pyplot().subplots(figsize=size, layout="constrained")
    return axes, figure


def predictions_of(estimator: Any, X: Any) -> Predictions:
    """Return the predictions of a fitted classifier for features, or of a fitted calibrator for predictions."""
    if isinstance(estimator, Calibrator):
        return estimator.transform(X)
    return Predictions.from_probabilities(estimator.predict_proba(X), classes=estimator.classes_)


def _pyplot() -> Any:
    """Return matplotlib's pyplot, or raise an error that names the extra."""
    try:
        from matplotlib import pyplot as module
    except ModuleNotFoundError as error:
        raise MissingExtraError("matplotlib", "plots") from error
    return module


def panels(
    ax: Any, size: tuple[float, float], *, widths: Sequence[float] = (1.0,), heights: Sequence[float] = (1.0,)
) -> tuple[list[Any], Any]:
    """Return the axes row by row, and their figure, for relative widths of columns and heights of rows.

    ``ax`` is None for a new figure of the given size in inches; one axes, in whose place the panels are drawn; or all axes.
    """
    n_panels = len(widths) * len(heights)
    ratios = {"width_ratios": list(widths), "height_ratios": list(heights)}
    if ax is None:
        figure = _pyplot().figure(figsize=size, layout="constrained")
        grid = figure.add_gridspec(len(heights), len(widths), **ratios)
    elif not hasattr(ax, "get_figure"):
        given = list(ax.ravel() if hasattr(ax, "ravel") else ax)
        if len(given) != n_panels:
            raise ParameterError(
                f"this plot has {n_panels} panels, but {len(given)} axes were given; pass one per panel."
            )
        return given, given[0].figure
    elif n_panels == 1:
        return [ax], ax.figure
    else:
        figure, spec = ax.figure, ax.get_subplotspec()
        if spec is None:
            place = ax.get_position()
            edges = {"left": place.x0, "right": place.x1, "bottom": place.y0, "top": place.y1}
            grid = figure.add_gridspec(len(heights), len(widths), **ratios, **edges)
        else:
            grid = spec.subgridspec(len(heights), len(widths), **ratios)
        ax.set_axis_off()
    cells = [(row, column) for row in range(len(heights)) for column in range(len(widths))]
    return [figure.add_subplot(grid[cell]) for cell in cells], figure
