"""Calibrators: one public class per module; the registry reads this page."""

from calibrant.calibrators.binned.bayesian_binning import BayesianBinning
from calibrant.calibrators.binned.histogram import HistogramBinning
from calibrant.calibrators.binned.scaling_binning import ScalingBinning
from calibrant.calibrators.combinators.auto import AutoCalibration
from calibrant.calibrators.combinators.calibrated_classifier import CalibratedClassifier
from calibrant.calibrators.combinators.chain import Chain
from calibrant.calibrators.combinators.identity import Identity
from calibrant.calibrators.combinators.multilabel import MultilabelCalibration
from calibrant.calibrators.combinators.multioutput import MultioutputCalibration
from calibrant.calibrators.combinators.top_label import TopLabel
from calibrant.calibrators.combinators.with_intervals import WithIntervals
from calibrant.calibrators.latent.gaussian_process import GaussianProcessCalibration
from calibrant.calibrators.latent.spline import SplineCalibration
from calibrant.calibrators.monotone.accuracy_preserving_isotonic import AccuracyPreservingIsotonic
from calibrant.calibrators.monotone.isotonic import IsotonicCalibration
from calibrant.calibrators.monotone.near_isotonic import NearIsotonicCalibration
from calibrant.calibrators.monotone.order_preserving import IntraOrderPreserving
from calibrant.calibrators.monotone.piecewise_linear import PiecewiseLinearCalibration
from calibrant.calibrators.monotone.venn_abers import VennAbersCalibration
from calibrant.calibrators.neighbourhood.decision import DecisionCalibration
from calibrant.calibrators.neighbourhood.kernel import KernelCalibration
from calibrant.calibrators.neighbourhood.nearest_neighbours import NearestNeighbourCalibration
from calibrant.calibrators.neighbourhood.random_forest import RandomCalibrationForest
from calibrant.calibrators.reductions.one_vs_rest import OneVsRest
from calibrant.calibrators.scaling.beta import BetaCalibration
from calibrant.calibrators.scaling.bias_corrected_temperature import BiasCorrectedTemperature
from calibrant.calibrators.scaling.dirichlet import DirichletCalibration
from calibrant.calibrators.scaling.ensemble_temperature import EnsembleTemperatureScaling
from calibrant.calibrators.scaling.matrix import MatrixScaling
from calibrant.calibrators.scaling.parameterized_temperature import ParameterizedTemperatureScaling
from calibrant.calibrators.scaling.platt import PlattScaling
from calibrant.calibrators.scaling.quadratic import QuadraticScaling
from calibrant.calibrators.scaling.temperature import TemperatureScaling
from calibrant.calibrators.scaling.vector import VectorScaling
from calibrant.calibrators.shift.label_shift import LabelShift
from calibrant.calibrators.shift.prior_shift import PriorShift
from calibrant.calibrators.structured.structured_scaling import StructuredScaling

__all__ = [
    "AccuracyPreservingIsotonic",
    "AutoCalibration",
    "BayesianBinning",
    "BetaCalibration",
    "BiasCorrectedTemperature",
    "CalibratedClassifier",
    "Chain",
    "DecisionCalibration",
    "DirichletCalibration",
    "EnsembleTemperatureScaling",
    "GaussianProcessCalibration",
    "HistogramBinning",
    "Identity",
    "IntraOrderPreserving",
    "IsotonicCalibration",
    "KernelCalibration",
    "LabelShift",
    "MatrixScaling",
    "MultilabelCalibration",
    "MultioutputCalibration",
    "NearIsotonicCalibration",
    "NearestNeighbourCalibration",
    "OneVsRest",
    "ParameterizedTemperatureScaling",
    "PiecewiseLinearCalibration",
    "PlattScaling",
    "PriorShift",
    "QuadraticScaling",
    "RandomCalibrationForest",
    "ScalingBinning",
    "SplineCalibration",
    "StructuredScaling",
    "TemperatureScaling",
    "TopLabel",
    "VectorScaling",
    "VennAbersCalibration",
    "WithIntervals",
]
