"""Plots of calibration, each with its data.

Displays are created by ``from_predictions`` or ``from_estimator`` and plotted by ``plot(ax=None)``; ``columns()`` and
``frame()`` return the data. Only ``plot`` needs matplotlib.
"""

from calibrant.plots.bin_sensitivity import BinSensitivity, BinSensitivityDisplay, bin_sensitivity
from calibrant.plots.binary_map_display import BinaryMapDisplay
from calibrant.plots.class_probability_boxes import BoxStatistics, ClassProbabilityBoxDisplay
from calibrant.plots.critical_difference_display import CriticalDifferenceDisplay
from calibrant.plots.cumulative_curve import CumulativeCurve, CumulativeDifferenceDisplay, cumulative_curve
from calibrant.plots.display import Display
from calibrant.plots.hypothesis_test_displays import CalibrationBeltDisplay, SubgroupDisplay
from calibrant.plots.latent_functions import LatentFunction, LatentFunctionDisplay
from calibrant.plots.learning_curve import LearningCurve, LearningCurveDisplay, learning_curve
from calibrant.plots.linear_map import ConfusionChange, LinearMapDisplay
from calibrant.plots.model_curves import DecisionCurveDisplay, RiskCoverageDisplay
from calibrant.plots.pass_rate_display import PassRateDisplay
from calibrant.plots.reliability.classwise import (
    ClasswiseReliability,
    ClasswiseReliabilityDisplay,
    classwise_reliability,
)
from calibrant.plots.reliability.curve import ReliabilityCurve, reliability_curve
from calibrant.plots.reliability.diagram import ReliabilityDisplay
from calibrant.plots.simplex.interpretation_points import InterpretationPointsDisplay
from calibrant.plots.simplex.kernel_weights import KernelWeightsDisplay
from calibrant.plots.simplex.map import (
    SimplexMap,
    SimplexMapComparisonDisplay,
    SimplexMapDisplay,
    simplex_map,
)
from calibrant.plots.simplex.predictions import SimplexDisplay
from calibrant.plots.temperature_histogram_display import TemperatureHistogramDisplay

__all__ = [
    "BinSensitivity",
    "BinSensitivityDisplay",
    "BinaryMapDisplay",
    "BoxStatistics",
    "CalibrationBeltDisplay",
    "ClassProbabilityBoxDisplay",
    "ClasswiseReliability",
    "ClasswiseReliabilityDisplay",
    "ConfusionChange",
    "CriticalDifferenceDisplay",
    "CumulativeCurve",
    "CumulativeDifferenceDisplay",
    "DecisionCurveDisplay",
    "Display",
    "InterpretationPointsDisplay",
    "KernelWeightsDisplay",
    "LatentFunction",
    "LatentFunctionDisplay",
    "LearningCurve",
    "LearningCurveDisplay",
    "LinearMapDisplay",
    "PassRateDisplay",
    "ReliabilityCurve",
    "ReliabilityDisplay",
    "RiskCoverageDisplay",
    "SimplexDisplay",
    "SimplexMap",
    "SimplexMapComparisonDisplay",
    "SimplexMapDisplay",
    "SubgroupDisplay",
    "TemperatureHistogramDisplay",
    "bin_sensitivity",
    "classwise_reliability",
    "cumulative_curve",
    "learning_curve",
    "reliability_curve",
    "simplex_map",
]
