"""MIXED_MAP: a calibration map of three classes that combines several kinds of miscalibration."""

from calibrant.synthetic.combined_maps import ComposedMap
from calibrant.synthetic.smooth_maps import ClassTemperaturesMap, ConfusionMap, RotationMap

__all__ = ["MIXED_MAP"]

MIXED_MAP = ComposedMap(
    (
        ClassTemperaturesMap((1.3, 1.1, 1.2), (0.1, 0.0, -0.1)),
        RotationMap(0.4),
        ConfusionMap(((0.96, 0.02, 0.02), (0.01, 0.98, 0.01), (0.04, 0.04, 0.92))),
    )
)
"""A different degree of overconfidence per class, a rotation, and label confusion.

Losses and errors are similar to those of the synthetic task of :cite:`valk2022`, whose map was fitted to five
million images. One temperature corrects a part, an affine map of the log-probabilities more, and neither all of it.
"""
