"""A calibrator to which probabilities of zero count as a given number, as tiny as in the paper's program."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from calibrant import Predictions
from calibrant.calibrator import Calibrator, Traits
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.registry import make

__all__ = ["WithFloor"]


class WithFloor(Calibrator):
    """A calibrator of the registry behind a floor for zeros.

    Parameters
    ----------
    method : str
        Its name in the registry.
    floor : float
        What probabilities below it count as.
    parameters : mapping, optional
        Of the method.
    reg_lambda, reg_mu : float, optional
        Strengths, for methods that have them; ``reg_mu`` is that of ``reg_lambda`` if it is absent.

    Examples
    --------
    A temperature that makes certainty right in three of four rows takes the less from others the larger the floor.

    >>> p, y = [[1.0, 0.0], [0.8, 0.2]] * 4, [0, 0, 0, 0, 0, 1, 1, 0]
    >>> [WithFloor("temperature", floor).fit(p, y).predict_proba(p)[1].round(2)[0].item() for floor in (0.1, 1e-9)]
    [0.69, 0.52]
    """

    traits = Traits()

    def __init__(
        self,
        method: str,
        floor: float,
        parameters: Mapping[str, Any] | None = None,
        reg_lambda: float | None = None,
        reg_mu: float | None = None,
    ) -> None:
        self.method = method
        self.floor = floor
        self.parameters = parameters
        self.reg_lambda = reg_lambda
        self.reg_mu = reg_mu

    def _fit(self, data: LabelledPredictions) -> None:
        strengths = {} if self.reg_lambda is None else {"reg_lambda": self.reg_lambda, "reg_mu": self.reg_mu}
        calibrator = make(self.method, **(self.parameters or {}), **strengths)
        floored = replace(data, predictions=data.predictions.with_floor(self.floor))
        self.calibrator_ = calibrator.fit_labelled(floored, warn_of_absent=False)

    def _transform(self, predictions: Predictions) -> Predictions:
        return self.calibrator_.transform(predictions.with_floor(self.floor))
