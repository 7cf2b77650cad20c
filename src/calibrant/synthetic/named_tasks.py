"""Named tasks for examples, tests and studies."""

from calibrant.synthetic.combined_maps import BlendedMap
from calibrant.synthetic.mixed_map import MIXED_MAP
from calibrant.synthetic.region_map import RegionMap
from calibrant.synthetic.smooth_maps import (
    ClassTemperaturesMap,
    ConfusionMap,
    IdentityMap,
    LogLinearMap,
    RotationMap,
    TemperatureMap,
    WavesMap,
)
from calibrant.synthetic.task import SyntheticTask

__all__ = ["tasks"]

THREE = (0.5, 0.5, 0.5)


def tasks() -> dict[str, SyntheticTask]:
    """Return tasks by name, of three classes unless the name says otherwise.

    ``"calibrated"``
        Predictions are true: whatever a method changes is a mistake.
    ``"over-confident"``, ``"under-confident"``
        One temperature, 1.5 or 0.7: what temperature scaling repairs without remainder.
    ``"asymmetric"``
        One class over-confident, one under-confident, one predicted too often: vector scaling.
    ``"log-linear"``
        A full affine map of the log-probabilities: Dirichlet calibration.
    ``"confused"``
        Labels mixed up at fixed rates: truth stays away from the corners, where no such map of logarithms can follow.
    ``"rotated"``
        Classwise and confidence-calibrated, and wrong almost everywhere.
    ``"waves"``
        Too high and too low in turns.
    ``"regions"``
        Truth with jumps.
    ``"mixed"``
        The default of :class:`SyntheticTask`: temperatures, a rotation and confusion together.
    ``"two-classes"``
        An over-confident classifier of two classes with unequal frequencies.
    ``"ten-classes"``
        Half of the way to a temperature, of ten classes with most predictions near a corner.

    >>> sorted(tasks())[:3]
    ['asymmetric', 'calibrated', 'confused']
    """
    maps = {
        "calibrated": IdentityMap(),
        "over-confident": TemperatureMap(1.5),
        "under-confident": TemperatureMap(0.7),
        "asymmetric": ClassTemperaturesMap((1.6, 0.8, 1.0), (0.0, 0.0, -0.5)),
        "log-linear": LogLinearMap(((0.8, 0.2, 0.0), (0.0, 0.7, 0.1), (0.1, -0.1, 0.9)), (0.2, 0.0, -0.2)),
        "confused": ConfusionMap(((0.9, 0.05, 0.05), (0.02, 0.96, 0.02), (0.15, 0.05, 0.8))),
        "rotated": RotationMap(0.8),
        "waves": WavesMap(0.5, 1.5),
        "regions": RegionMap(12, 0.3),
        "mixed": MIXED_MAP,
    }
    named = {name: SyntheticTask(THREE, calibration_map) for name, calibration_map in maps.items()}
    named["two-classes"] = SyntheticTask((0.5, 1.0), TemperatureMap(1.5))
    named["ten-classes"] = SyntheticTask((0.1,) * 10, BlendedMap(TemperatureMap(3.0), 0.5))
    return named
