"""Calibration errors, proper scores and other metrics of predicted probabilities.

All have the signature ``(y_true, y_proba, *, sample_weight=None, ...) -> float``.
``y_proba`` is anything that a calibrator accepts: an array of probabilities, a data frame, or
:class:`~calibrant.predictions.Predictions`. Pass logits through ``Predictions.from_logits``. Rows of weight
zero are left out, and only the ratios of weights matter. A weight of two is the same as a duplicated row, except
for estimators that correct a bias; :class:`MetricTraits` says which.
"""

from calibrant.metrics.binned_errors import (
    class_ece,
    classwise_ece,
    confidence_ece,
    maximum_calibration_error,
    thresholded_adaptive_ece,
    top_k_confidence_ece,
    top_k_label_ece,
    top_label_ece,
)
from calibrant.metrics.classification import accuracy, overconfidence, underconfidence
from calibrant.metrics.cumulative import ks_calibration_error, kuiper_calibration_error
from calibrant.metrics.debiased import debiased_ece
from calibrant.metrics.decisions import bayes_decisions, cost_gap, expected_cost, net_benefit, realised_cost
from calibrant.metrics.declaration import MetricTraits, describe
from calibrant.metrics.decomposition import Decomposition, decompose
from calibrant.metrics.grouping import GroupingLoss, grouping_loss
from calibrant.metrics.kde import kde_ece
from calibrant.metrics.kernel import kernel_calibration_error
from calibrant.metrics.loss_gap import average_loss_gap
from calibrant.metrics.lower_bound import LowerBound, calibration_error_lower_bound, lp_calibration_error
from calibrant.metrics.miscalibration import miscalibration
from calibrant.metrics.multilabel import multilabel_score
from calibrant.metrics.murphy import MurphyCurve, murphy_curve
from calibrant.metrics.proper import brier_score, calibration_gain, log_loss, spherical_loss
from calibrant.metrics.selective import (
    RiskCoverageCurve,
    accuracy_at_coverage,
    aurc,
    excess_aurc,
    risk_coverage_curve,
)
from calibrant.metrics.smooth import smooth_ece
from calibrant.metrics.smoothed_curve import integrated_calibration_index
from calibrant.metrics.sweep import ece_sweep, sweep_n_bins
from calibrant.metrics.utility import (
    OneClass,
    OptimalDecision,
    Prospect,
    TopClasses,
    Utility,
    utility_calibration_error,
)

__all__ = [
    "Decomposition",
    "GroupingLoss",
    "LowerBound",
    "MetricTraits",
    "MurphyCurve",
    "OneClass",
    "OptimalDecision",
    "Prospect",
    "RiskCoverageCurve",
    "TopClasses",
    "Utility",
    "accuracy",
    "accuracy_at_coverage",
    "aurc",
    "average_loss_gap",
    "bayes_decisions",
    "brier_score",
    "calibration_error_lower_bound",
    "calibration_gain",
    "class_ece",
    "classwise_ece",
    "confidence_ece",
    "cost_gap",
    "debiased_ece",
    "decompose",
    "describe",
    "ece_sweep",
    "excess_aurc",
    "expected_cost",
    "grouping_loss",
    "integrated_calibration_index",
    "kde_ece",
    "kernel_calibration_error",
    "ks_calibration_error",
    "kuiper_calibration_error",
    "log_loss",
    "lp_calibration_error",
    "maximum_calibration_error",
    "miscalibration",
    "multilabel_score",
    "murphy_curve",
    "net_benefit",
    "overconfidence",
    "realised_cost",
    "risk_coverage_curve",
    "smooth_ece",
    "spherical_loss",
    "sweep_n_bins",
    "thresholded_adaptive_ece",
    "top_k_confidence_ece",
    "top_k_label_ece",
    "top_label_ece",
    "underconfidence",
    "utility_calibration_error",
]
