"""MethodResult: what one method made of the predictions, on rows it was not fitted to."""

from dataclasses import dataclass, field

from calibrant.calibrator import Calibrator
from calibrant.intervals import Interval
from calibrant.predictions import Predictions

__all__ = ["MethodResult"]


@dataclass(frozen=True, eq=False)
class MethodResult:
    """What one method made of the predictions.

    Attributes
    ----------
    name : str
        Registry name, or the calibrator with its parameters.
    calibrator : Calibrator or None
        Fitted to all calibration rows; None if that was not asked for or failed.
    predictions : Predictions or None
        The measured rows after calibration, none of which the map was fitted to; None if the method failed.
    scores : dict
        Name of a metric -> its value on the measured rows.
    differences : dict
        ``"log_loss"`` and ``"brier_score"`` -> :class:`~calibrant.intervals.Interval` of this method minus doing nothing,
        row by row; negative is better. Where zeros were refuted, doing nothing means with zeros raised to the floor.
    changed : float or None
        Share of the measured rows whose predicted class is another one.
    seconds : float
        Time of the fit to all rows; of the mean fold if there was none.
    notes : tuple of str
        What the method warned of.
    error : str or None
        Why it failed, if it did.
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
        """Whether there is nothing to measure."""
        return self.predictions is None
