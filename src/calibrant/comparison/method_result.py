"""MethodResult: out-of-sample results of one method."""

from dataclasses import dataclass, field

from calibrant.calibrator import Calibrator
from calibrant.intervals import Interval
from calibrant.predictions import Predictions

__all__ = ["MethodResult"]


@dataclass(frozen=True, eq=False)
class MethodResult:
    """Out-of-sample results of one method.

    Attributes
    ----------
    name : str
        Registry name, or the calibrator with its parameters.
    calibrator : Calibrator or None
        Calibrator fitted to the complete calibration set; None if this was not requested or failed.
    predictions : Predictions or None
        Out-of-fold or test predictions after calibration; None if the method failed.
    scores : dict
        Name of a metric -> its value on the evaluated rows.
    differences : dict
        ``"log_loss"`` and ``"brier_score"`` -> :class:`~calibrant.intervals.Interval` of this method minus the uncalibrated
        predictions, paired by row; negative is better. If a true class had probability zero, the uncalibrated predictions
        have zeros raised to the floor.
    changed : float or None
        Fraction of the evaluated rows whose predicted class changes.
    seconds : float
        Time of the fit to all rows, or the mean time per fold if there was none.
    notes : tuple of str
        Warnings of the method.
    error : str or None
        Error message, if the method failed.
    """

    name: str
    calibrator: Calibrator | None
    predictions: Predictions | None
    scores: dict[str, float] = field(default_factory=dict)
    differences: dict[str, Interval] = field(default_factory=dict)
    changed: float | None = None
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    error: str | None = None

    @property
    def failed(self) -> bool:
        """Whether the method failed, so there are no predictions."""
        return self.predictions is None
