"""Compare calibration methods by cross-validation or on a test set: :func:`compare`."""

from calibrant.comparison.compare import compare
from calibrant.comparison.comparison import Comparison
from calibrant.comparison.method_result import MethodResult

__all__ = ["Comparison", "MethodResult", "compare"]
