"""Hypothesis tests of calibration, and the smallest error that a sample can detect.

Each test returns a :class:`TestResult`, whose printed form is a sentence with the result and the number of rows.
"""

from calibrant.hypothesis_tests.calibration_belt import CalibrationBelt, calibration_belt
from calibrant.hypothesis_tests.consistency import consistency_test
from calibrant.hypothesis_tests.cumulative import ClasswiseTests, classwise_cumulative_tests, cumulative_test
from calibrant.hypothesis_tests.detectable import DetectableError, smallest_detectable_error
from calibrant.hypothesis_tests.discrete import DiscreteCalibration, discrete_score_test
from calibrant.hypothesis_tests.hosmer_lemeshow import hosmer_lemeshow_test
from calibrant.hypothesis_tests.kernel import kernel_test
from calibrant.hypothesis_tests.result import TestResult
from calibrant.hypothesis_tests.slope_intercept import (
    Coefficient,
    SlopeIntercept,
    calibration_slope_intercept,
)
from calibrant.hypothesis_tests.spiegelhalter import spiegelhalter_test
from calibrant.hypothesis_tests.subgroups import SubgroupCalibration, subgroup_calibration
from calibrant.hypothesis_tests.summed import TestSums

__all__ = [
    "CalibrationBelt",
    "ClasswiseTests",
    "Coefficient",
    "DetectableError",
    "DiscreteCalibration",
    "SlopeIntercept",
    "SubgroupCalibration",
    "TestResult",
    "TestSums",
    "calibration_belt",
    "calibration_slope_intercept",
    "classwise_cumulative_tests",
    "consistency_test",
    "cumulative_test",
    "discrete_score_test",
    "hosmer_lemeshow_test",
    "kernel_test",
    "smallest_detectable_error",
    "spiegelhalter_test",
    "subgroup_calibration",
]
