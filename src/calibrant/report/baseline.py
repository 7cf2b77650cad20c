"""Baseline for losses after calibration: the uncalibrated predictions, without zeros for true classes."""

import numpy as np

from calibrant.predictions import Predictions
from calibrant.report.rows import Rows

__all__ = ["baseline_text", "has_infinite_loss", "reference_of"]


def has_infinite_loss(rows: Rows) -> bool:
    """Return whether the log-loss is infinite because a true class had probability zero."""
    return not np.isfinite(rows.data.log_loss())


def reference_of(rows: Rows) -> Predictions:
    """Return the uncalibrated predictions; if their log-loss is infinite, with zeros raised to the floor and renormalised.

    :func:`~calibrant.comparison.compare` has the same baseline.
    """
    return rows.predictions.without_zeros() if has_infinite_loss(rows) else rows.predictions


def baseline_text(rows: Rows) -> str:
    """Return in words what :func:`reference_of` returns."""
    if not has_infinite_loss(rows):
        return "the uncalibrated predictions"
    return f"the uncalibrated predictions with zeros raised to the floor, {rows.predictions.floor:.2g}"
