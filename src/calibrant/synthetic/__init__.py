"""Synthetic tasks with a known calibration map, and the true errors of calibrators on them.

Predictions are drawn from a Dirichlet distribution, labels from a map of the predictions that you choose, so that
every error is an integral: :func:`true_errors` computes it without the noise of labels or test rows. Start with a
task of :func:`tasks`, or make a :class:`SyntheticTask` from a map of your own.
"""

from calibrant.synthetic.calibration_map import CalibrationMap
from calibrant.synthetic.combined_maps import BlendedMap, ComposedMap
from calibrant.synthetic.integration import GaussJacobi, IntegrationRule, ScrambledSobol, dirichlet_mean
from calibrant.synthetic.learnt_map import LearntMap, learnt_map
from calibrant.synthetic.mixed_map import MIXED_MAP
from calibrant.synthetic.named_tasks import tasks
from calibrant.synthetic.region_map import RegionMap
from calibrant.synthetic.sample import SyntheticSample
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
from calibrant.synthetic.true_errors_result import TrueErrors
from calibrant.synthetic.truth import true_errors

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
