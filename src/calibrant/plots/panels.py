"""Panels: several axes for one plot, on a new figure or in place of given axes."""

from collections.abc import Sequence
from typing import Any

from calibrant.errors import MissingExtraError, ParameterError

__all__ = ["panels", "pyplot"]


def pyplot() -> Any:
    """Return matplotlib's pyplot.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    try:
        from matplotlib import pyplot as module
    except ModuleNotFoundError as error:
        raise MissingExtraError("matplotlib", "plots") from error
    return module


def panels(
    ax: Any,
    size: tuple[float, float],
    *,
    widths: Sequence[float] = (1.0,),
    heights: Sequence[float] = (1.0,),
) -> tuple[list[Any], Any]:
    """Return the axes row by row, and their figure.

    Parameters
    ----------
    ax : None, axes or sequence of axes
        None for a new figure; one axes, in whose place the panels are drawn; or all axes.
    size : tuple of float
        Width and height of a new figure in inches.
    widths, heights : sequence of float
        Relative sizes of columns and rows.
    """
    n_panels = len(widths) * len(heights)
    ratios = {"width_ratios": list(widths), "height_ratios": list(heights)}
    if ax is None:
        figure = pyplot().figure(figsize=size, layout="constrained")
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
