"""Named tasks for examples, tests and studies."""

from calibrant.synthetic.maps import (
    MIXED_MAP,
    BlendedMap,
    ClassTemperaturesMap,
    ConfusionMap,
    IdentityMap,
    LogLinearMap,
    RegionMap,
    RotationMap,
    TemperatureMap,
    WavesMap,
)
from calibrant.synthetic.task import SyntheticTask

__all__ = ["tasks"]

THREE = (0.5, 0.5, 0.5)


def tasks() -> dict[str, SyntheticTask]:
    """Return a dictionary of tasks by name, with three classes unless the name says otherwise.

    ``"calibrated"``
        Predictions are calibrated: any change by a calibrator is an error.
    ``"over-confident"``, ``"under-confident"``
        One temperature, 1.5 or 0.7, which temperature scaling corrects completely.
    ``"asymmetric"``
        One class overconfident, one underconfident, one predicted too often: vector scaling.
    ``"log-linear"``
        A full affine map of the log-probabilities: Dirichlet calibration.
    ``"confused"``
        Labels confused at fixed rates: true probabilities stay away from the corners, where no affine map of logarithms can
        follow.
    ``"rotated"``
        Classwise and confidence-calibrated, but wrong almost everywhere.
    ``"waves"``
        Probabilities that are alternately too high and too low.
    ``"regions"``
        True probabilities with jumps.
    ``"mixed"``
        The default of :class:`SyntheticTask`: temperatures, a rotation and confusion together.
    ``"two-classes"``
        An overconfident classifier of two classes with unequal frequencies.
    ``"ten-classes"``
        Half of the way to a temperature, with ten classes and most predictions near a corner.

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
