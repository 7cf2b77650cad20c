"""Confidence intervals: bootstrap for any metric, paired loss differences, and exact intervals of proportions.

:func:`bootstrap` takes any metric, :func:`paired_bootstrap` the difference between two predictions of the same rows.
:func:`loss_difference` needs no resampling, and :func:`clopper_pearson` is exact for proportions.
"""

from calibrant.intervals.bootstrap import bootstrap, paired_bootstrap
from calibrant.intervals.clopper_pearson import bin_intervals, clopper_pearson
from calibrant.intervals.interval import Interval
from calibrant.intervals.loss_difference import loss_difference

__all__ = [
    "Interval",
    "bin_intervals",
    "bootstrap",
    "clopper_pearson",
    "loss_difference",
    "paired_bootstrap",
]
