"""Which method does best on rows it was not fitted to: :func:`compare`."""

from calibrant.comparison.compare import compare
from calibrant.comparison.comparison import Comparison
from calibrant.comparison.method_result import MethodResult

__all__ = ["Comparison", "MethodResult", "compare"]
