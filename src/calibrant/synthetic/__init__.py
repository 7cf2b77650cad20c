"""Synthetic tasks with a known calibration map, and the true errors of calibrators on them.

Predictions are drawn from a Dirichlet distribution, and labels from a map of the predictions that you choose. Every
error is then an integral, which :func:`true_errors` computes without label noise or a test set. Start with a
task of :func:`tasks`, or create a :class:`SyntheticTask` from your own map.
"""

from calibrant.synthetic.integration import GaussJacobi, IntegrationRule, ScrambledSobol, dirichlet_mean
from calibrant.synthetic.learnt_map import LearntMap, learnt_map
from calibrant.synthetic.maps import (
    MIXED_MAP,
    BlendedMap,
    CalibrationMap,
    ClassTemperaturesMap,
    ComposedMap,
    ConfusionMap,
    IdentityMap,
    LogLinearMap,
    RegionMap,
    RotationMap,
    TemperatureMap,
    WavesMap,
)
from calibrant.synthetic.task import SyntheticSample, SyntheticTask, tasks
from calibrant.synthetic.truth import TrueErrors, true_errors

__all__ = [
    "MIXED_MAP",
    "BlendedMap",
    "CalibrationMap",
    "ClassTemperaturesMap",
    "ComposedMap",
    "ConfusionMap",
    "GaussJacobi",
    "IdentityMap",
    "IntegrationRule",
    "LearntMap",
    "LogLinearMap",
    "RegionMap",
    "RotationMap",
    "ScrambledSobol",
    "SyntheticSample",
    "SyntheticTask",
    "TemperatureMap",
    "TrueErrors",
    "WavesMap",
    "dirichlet_mean",
    "learnt_map",
    "tasks",
    "true_errors",
]
