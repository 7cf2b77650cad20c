"""calibrant: measure, repair and prove the calibration of probabilistic classifiers.

Names are imported when first used, so that ``import calibrant`` itself takes no time.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from calibrant.calibrator import Calibrator, Traits
    from calibrant.calibrators import (
        AccuracyPreservingIsotonic,
        AutoCalibration,
        BayesianBinning,
        BetaCalibration,
        BiasCorrectedTemperature,
        CalibratedClassifier,
        Chain,
        DecisionCalibration,
        DirichletCalibration,
        EnsembleTemperatureScaling,
        GaussianProcessCalibration,
        HistogramBinning,
        Identity,
        IntraOrderPreserving,
        IsotonicCalibration,
        KernelCalibration,
        LabelShift,
        MatrixScaling,
        MultilabelCalibration,
        MultioutputCalibration,
        NearestNeighbourCalibration,
        NearIsotonicCalibration,
        OneVsRest,
        ParameterizedTemperatureScaling,
        PiecewiseLinearCalibration,
        PlattScaling,
        PriorShift,
        QuadraticScaling,
        RandomCalibrationForest,
        ScalingBinning,
        SplineCalibration,
        StructuredScaling,
        TemperatureScaling,
        TopLabel,
        VectorScaling,
        VennAbersCalibration,
        WithIntervals,
    )
    from calibrant.labelled_predictions import LabelledPredictions
    from calibrant.persistence import load, load_graph
    from calibrant.predictions import Predictions
    from calibrant.report.assess import assess

_HOMES = {
    "Calibrator": "calibrant.calibrator",
    "LabelledPredictions": "calibrant.labelled_predictions",
    "Predictions": "calibrant.predictions",
    "Traits": "calibrant.calibrator",
    "assess": "calibrant.report",
    "load": "calibrant.persistence",
    "load_graph": "calibrant.persistence",
}

__all__ = [
    "AccuracyPreservingIsotonic",
    "AutoCalibration",
    "BayesianBinning",
    "BetaCalibration",
    "BiasCorrectedTemperature",
    "CalibratedClassifier",
    "Calibrator",
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
    "LabelledPredictions",
    "MatrixScaling",
    "MultilabelCalibration",
    "MultioutputCalibration",
    "NearIsotonicCalibration",
    "NearestNeighbourCalibration",
    "OneVsRest",
    "ParameterizedTemperatureScaling",
    "PiecewiseLinearCalibration",
    "PlattScaling",
    "Predictions",
    "PriorShift",
    "QuadraticScaling",
    "RandomCalibrationForest",
    "ScalingBinning",
    "SplineCalibration",
    "StructuredScaling",
    "TemperatureScaling",
    "TopLabel",
    "Traits",
    "VectorScaling",
    "VennAbersCalibration",
    "WithIntervals",
    "assess",
    "load",
    "load_graph",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        # Sub-modules too can be reached without an import of their own: calibrant.metrics and so on.
        try:
            return import_module(f"calibrant.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"calibrant.{name}":
                raise
            raise AttributeError(f"module 'calibrant' has no attribute {name!r}") from None
    return getattr(import_module(_HOMES.get(name, "calibrant.calibrators")), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
