"""Online calibration of streams, and a monitor that raises an alarm when calibration is lost.

:class:`OnlinePlatt` and :class:`OnlineBeta` forecast a row, observe its outcome, and update their parameters.
:class:`Calibeating` corrects their remaining miscalibration for any sequence of outcomes. :class:`CalibrationMonitor`
watches forecasts and raises an alarm, with a bound on false alarms that holds however often you look. To update an
ordinary calibrator with batches of rows, use its ``partial_fit``.
"""

from calibrant.online.calibeating import Calibeating
from calibrant.online.monitor import CalibrationMonitor
from calibrant.online.online_logistic import OnlineBeta, OnlinePlatt

__all__ = ["Calibeating", "CalibrationMonitor", "OnlineBeta", "OnlinePlatt"]
