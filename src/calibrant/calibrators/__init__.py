"""Every calibrator, one per file; the registry reads this page."""

from calibrant.calibrators.combinators.calibrated_classifier import CalibratedClassifier
from calibrant.calibrators.combinators.chain import Chain
from calibrant.calibrators.combinators.identity import Identity
from calibrant.calibrators.reductions.one_vs_rest import OneVsRest
from calibrant.calibrators.scaling.dirichlet import DirichletCalibration
from calibrant.calibrators.scaling.matrix import MatrixScaling
from calibrant.calibrators.scaling.temperature import TemperatureScaling
from calibrant.calibrators.scaling.vector import VectorScaling

__all__ = [
    "CalibratedClassifier",
    "Chain",
    "DirichletCalibration",
    "Identity",
    "MatrixScaling",
    "OneVsRest",
    "TemperatureScaling",
    "VectorScaling",
]
