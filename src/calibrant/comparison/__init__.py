"""Compare calibration methods by cross-validation or on a test set: :func:`compare`."""

from calibrant.comparison.compare import compare
from calibrant.comparison.comparison import UNCALIBRATED, Comparison, MethodResult

__all__ = ["UNCALIBRATED", "Comparison", "MethodResult", "compare"]
