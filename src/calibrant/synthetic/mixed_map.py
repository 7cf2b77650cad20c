"""MIXED_MAP: a calibration map of three classes in which several things are wrong at once."""

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
"""Over-confidence of a degree of its own in each class, a rotation, and labels that are now and then mixed up.

Losses and errors have about the size of those of the synthetic task of :cite:`valk2022`, whose map was learnt from five
million images. One temperature repairs a part, an affine map of the logarithms more, and neither all of it.
"""
