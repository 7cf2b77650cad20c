"""Confidence intervals: bootstrap for any metric, paired loss differences, and exact intervals of proportions.

:func:`bootstrap` takes any metric, :func:`paired_bootstrap` the difference between two predictions of the same rows.
:func:`loss_difference` needs no resampling, and :func:`clopper_pearson` is exact for proportions.
:func:`selection_threshold` chooses the rows to accept so that their error rate is bounded.
"""

from calibrant.intervals.bootstrap import bootstrap, paired_bootstrap
from calibrant.intervals.clopper_pearson import bin_intervals, clopper_pearson
from calibrant.intervals.decision_curve import DecisionCurve, decision_curve
from calibrant.intervals.interval import Interval
from calibrant.intervals.loss_difference import loss_difference
from calibrant.intervals.selection_threshold import SelectionThreshold, selection_threshold

__all__ = [
    "DecisionCurve",
    "Interval",
    "SelectionThreshold",
    "bin_intervals",
    "bootstrap",
    "clopper_pearson",
    "decision_curve",
    "loss_difference",
    "paired_bootstrap",
    "selection_threshold",
]
