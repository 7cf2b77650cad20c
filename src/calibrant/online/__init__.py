"""Calibration while rows come one after the other, and an alarm for when it is lost.

:class:`OnlinePlatt` and :class:`OnlineBeta` give a forecast, see what happens, and learn from it;
:class:`Calibeating` corrects what they leave, against any sequence of outcomes. :class:`CalibrationMonitor` watches
forecasts and raises an alarm whose rate of false ones is bounded whenever one looks. Batches of rows for ordinary
calibrators go to their ``partial_fit``.
"""

from calibrant.online.calibeating import Calibeating
from calibrant.online.monitor import CalibrationMonitor
from calibrant.online.online_beta import OnlineBeta
from calibrant.online.online_platt import OnlinePlatt

__all__ = ["Calibeating", "CalibrationMonitor", "OnlineBeta", "OnlinePlatt"]
