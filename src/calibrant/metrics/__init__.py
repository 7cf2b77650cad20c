"""Measures of probabilistic predictions: ``(y_true, y_proba, *, sample_weight=None, ...) -> float``.

``y_proba`` is whatever a calibrator takes: an array of probabilities, a frame, or
:class:`~calibrant.predictions.Predictions`; logits come only through ``Predictions.from_logits``. A weight
of two is the same as a row given twice, and rows of weight zero are left out.
"""

from calibrant.metrics.binned import classwise_ece, confidence_ece
from calibrant.metrics.classification import accuracy
from calibrant.metrics.proper import brier_score, log_loss

__all__ = ["accuracy", "brier_score", "classwise_ece", "confidence_ece", "log_loss"]
