"""Combinations of calibration maps: interpolation with the identity, and composition."""

from dataclasses import dataclass

from calibrant.arrays import Matrix
from calibrant.errors import ParameterError
from calibrant.options import is_number
from calibrant.synthetic.calibration_map import CalibrationMap

__all__ = ["BlendedMap", "ComposedMap"]


@dataclass(frozen=True)
class BlendedMap(CalibrationMap):
    r"""Interpolation between the identity and another map.

    .. math:: c(p) = (1 - a) \, p + a \, c'(p)

    Parameters
    ----------
    calibration_map : CalibrationMap
        :math:`c'`.
    strength : float, default=0.5
        :math:`a` from 0, the identity, to 1, the map itself.

    Examples
    --------
    >>> from calibrant.synthetic import TemperatureMap
    >>> BlendedMap(TemperatureMap(2.0), 0.2)([[0.9, 0.1]])
    array([[0.87, 0.13]])
    """

    calibration_map: CalibrationMap
    strength: float = 0.5

    def __post_init__(self) -> None:
        _check_map(self.calibration_map)
        if not is_number(self.strength) or not 0 <= self.strength <= 1:
            raise ParameterError(f"strength must be a number from 0 to 1, not {self.strength!r}.")

    @property
    def n_classes(self) -> int | None:
        """Number of classes of the inner map."""
        return self.calibration_map.n_classes

    def _map(self, rows: Matrix) -> Matrix:
        return (1 - self.strength) * rows + self.strength * self.calibration_map(rows)


@dataclass(frozen=True)
class ComposedMap(CalibrationMap):
    r"""Composition of several maps.

    .. math:: c(p) = c_m(\dots c_2(c_1(p)))

    Parameters
    ----------
    calibration_maps : tuple of CalibrationMap
        :math:`c_1, \dots, c_m`, the first one applied first.

    Examples
    --------
    >>> from calibrant.synthetic import TemperatureMap
    >>> ComposedMap((TemperatureMap(4.0), TemperatureMap(0.5)))([[0.9, 0.1]])
    array([[0.75, 0.25]])
    """

    calibration_maps: tuple[CalibrationMap, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "calibration_maps", tuple(self.calibration_maps))
        if not self.calibration_maps:
            raise ParameterError("calibration_maps must contain at least one map.")
        for calibration_map in self.calibration_maps:
            _check_map(calibration_map)
        if len({part.n_classes for part in self.calibration_maps} - {None}) > 1:
            raise ParameterError("calibration_maps must all be for the same number of classes.")

    @property
    def n_classes(self) -> int | None:
        """Number of classes of the maps that are not for any number."""
        return next((part.n_classes for part in self.calibration_maps if part.n_classes is not None), None)

    def _map(self, rows: Matrix) -> Matrix:
        for calibration_map in self.calibration_maps:
            rows = calibration_map(rows)
        return rows


def _check_map(calibration_map: object) -> None:
    if not isinstance(calibration_map, CalibrationMap):
        raise ParameterError(f"only a CalibrationMap can be combined with others, not {calibration_map!r}.")
