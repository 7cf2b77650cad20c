"""Plots of calibration, each with its data.

Displays are created by ``from_predictions`` or ``from_estimator`` and plotted by ``plot(ax=None)``; ``columns()`` and
``frame()`` return the data. Only ``plot`` needs matplotlib.
"""

from calibrant.plots.bin_sensitivity import BinSensitivity, bin_sensitivity
from calibrant.plots.bin_sensitivity_display import BinSensitivityDisplay
from calibrant.plots.box_statistics import BoxStatistics
from calibrant.plots.class_probability_box_display import ClassProbabilityBoxDisplay
from calibrant.plots.classwise_display import ClasswiseReliabilityDisplay
from calibrant.plots.classwise_reliability import ClasswiseReliability, classwise_reliability
from calibrant.plots.confusion_change import ConfusionChange
from calibrant.plots.critical_difference_display import CriticalDifferenceDisplay
from calibrant.plots.cumulative_curve import CumulativeCurve, cumulative_curve
from calibrant.plots.cumulative_display import CumulativeDifferenceDisplay
from calibrant.plots.decision_curve_display import DecisionCurveDisplay
from calibrant.plots.display import Display
from calibrant.plots.interpretation_points_display import InterpretationPointsDisplay
from calibrant.plots.kernel_weights_display import KernelWeightsDisplay
from calibrant.plots.latent_function_display import LatentFunctionDisplay
from calibrant.plots.latent_functions import LatentFunction
from calibrant.plots.learning_curve import LearningCurve, learning_curve
from calibrant.plots.learning_curve_display import LearningCurveDisplay
from calibrant.plots.linear_map_display import LinearMapDisplay
from calibrant.plots.pass_rate_display import PassRateDisplay
from calibrant.plots.reliability_curve import ReliabilityCurve, reliability_curve
from calibrant.plots.reliability_display import ReliabilityDisplay
from calibrant.plots.risk_coverage_display import RiskCoverageDisplay
from calibrant.plots.simplex_display import SimplexDisplay
from calibrant.plots.simplex_map import SimplexMap, simplex_map
from calibrant.plots.simplex_map_comparison import SimplexMapComparisonDisplay
from calibrant.plots.simplex_map_display import SimplexMapDisplay
from calibrant.plots.temperature_histogram_display import TemperatureHistogramDisplay

__all__ = [
    "BinSensitivity",
    "BinSensitivityDisplay",
    "BoxStatistics",
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
    "TemperatureHistogramDisplay",
    "bin_sensitivity",
    "classwise_reliability",
    "cumulative_curve",
    "learning_curve",
    "reliability_curve",
    "simplex_map",
]
