"""Every calibrator, one per file; the registry reads this page."""

from calibrant.calibrators.combinators.chain import Chain
from calibrant.calibrators.combinators.identity import Identity
from calibrant.calibrators.scaling.temperature import TemperatureScaling

__all__ = [
    "Chain",
    "Identity",
    "TemperatureScaling",
]
