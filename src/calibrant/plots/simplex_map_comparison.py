"""SimplexMapComparisonDisplay: calibration maps of the same classes side by side."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import ParameterError
from calibrant.plots.display import Display
from calibrant.plots.error_colours import Palette, draw_colour_key
from calibrant.plots.panels import panels
from calibrant.plots.simplex_map import SimplexMap, simplex_map
from calibrant.plots.simplex_map_display import SimplexMapDisplay

__all__ = ["SimplexMapComparisonDisplay"]


class SimplexMapComparisonDisplay(Display):
    """Plot of calibration maps of the same three classes side by side, such as the true map and a fitted calibrator.

    Parameters
    ----------
    numbers : dict of str to SimplexMap
        Maps by name, in the order of the plots.

    Attributes
    ----------
    axes_ : list
        One axes per map and one for the colour key, set by :meth:`plot`; ``ax_`` is the first.
    figure_
        The figure.

    Examples
    --------
    >>> from calibrant.synthetic import IdentityMap, TemperatureMap
    >>> display = SimplexMapComparisonDisplay.from_maps({"truth": TemperatureMap(2.0), "nothing": IdentityMap()})
    >>> round(display.distance("truth", "nothing"), 3)
    0.083
    """

    def __init__(self, numbers: Mapping[str, SimplexMap]) -> None:
        self.numbers = dict(numbers)

    @classmethod
    def from_maps(
        cls,
        maps: Mapping[str, Any],
        *,
        classes: Any = None,
        n_arrows: int = 10,
        n_cells: int = 60,
        others: float = 0.01,
    ) -> Self:
        """Create the display from a dict of maps: fitted calibrators, synthetic tasks or functions.

        The other parameters are those of :meth:`~calibrant.plots.SimplexMapDisplay.from_map`.
        """
        if not isinstance(maps, Mapping) or not maps:
            raise ParameterError("maps must be a dictionary with at least one map.")
        numbers = {
            str(name): simplex_map(
                mapping, classes=classes, n_arrows=n_arrows, n_cells=n_cells, others=others
            )
            for name, mapping in maps.items()
        }
        named = [one.names for one in numbers.values()]
        different = [name for name, names in zip(numbers, named, strict=True) if names != named[0]]
        if different:
            raise ParameterError(
                f"maps must have the same classes, but {different[0]!r} has {', '.join(numbers[different[0]].names)} "
                f"and the first one {', '.join(named[0])}."
            )
        return cls(numbers)

    def distance(self, first: str, second: str) -> float:
        """Return the mean absolute difference of two maps, over the area of the simplex and the classes."""
        for name in (first, second):
            if name not in self.numbers:
                raise ParameterError(
                    f"there is no map {name!r}; the maps are {', '.join(map(repr, self.numbers))}."
                )
        return float(np.abs(self.numbers[first].cell_images - self.numbers[second].cell_images).mean())

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return p and c(p) of all maps in long format, with the name of the map."""
        parts = {name: one.columns() for name, one in self.numbers.items()}
        sizes = [len(part["part"]) for part in parts.values()]
        joined = {
            key: np.concatenate([part[key] for part in parts.values()]) for key in next(iter(parts.values()))
        }
        return {"map": np.repeat(list(parts), sizes), **joined}

    def plot(
        self, ax: Any = None, *, arrows: bool = True, colours: bool = True, palette: Palette = "rgb"
    ) -> Self:
        """Plot in place of the given axes, on one axes per map and one for the key, or on a new figure."""
        n_maps = len(self.numbers)
        widths = [1.0] * n_maps + [0.3]
        self.axes_, self.figure_ = panels(ax, (4.4 * n_maps + 1.4, 4.9), widths=widths)
        self.ax_ = self.axes_[0]
        for axes, (name, numbers) in zip(self.axes_[:-1], self.numbers.items(), strict=True):
            SimplexMapDisplay(numbers, name).plot(
                axes, arrows=arrows, colours=colours, palette=palette, key=False
            )
        names = next(iter(self.numbers.values())).names
        if colours:
            draw_colour_key(self.axes_[-1], names, palette)
        else:
            self.axes_[-1].set_axis_off()
        return self
