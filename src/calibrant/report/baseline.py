"""What losses after calibration are compared with: the predictions as given, refuted zeros raised to the floor."""

import numpy as np

from calibrant.predictions import Predictions
from calibrant.report.rows import Rows

__all__ = ["baseline_text", "is_refuted", "reference_of"]


def is_refuted(rows: Rows) -> bool:
    """Tell whether the log-loss is infinite, because a true class had the probability zero."""
    return not np.isfinite(rows.data.log_loss())


def reference_of(rows: Rows) -> Predictions:
    """Return the predictions as given; where their log-loss is infinite, with the floor for zeros, rows summing to one.

    The same predictions that :func:`~calibrant.comparison.compare` compares methods with.
    """
    return rows.predictions.without_zeros() if is_refuted(rows) else rows.predictions


def baseline_text(rows: Rows) -> str:
    """Return in words what :func:`reference_of` returns."""
    if not is_refuted(rows):
        return "the predictions as given"
    return f"the predictions as given, their zeros raised to the floor, {rows.predictions.floor:.2g}"
