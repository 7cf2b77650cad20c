"""Calibrators that replace probabilities of zero by a given number, such as the tiny one of the paper's program."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

from calibrant import DirichletCalibration, Predictions
from calibrant.calibrator import Calibrator, Traits
from calibrant.calibrators.scaling.affine import PenaltyName, Strength
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.registry import make

__all__ = ["DirichletWithFloor", "WithFloor"]


class DirichletWithFloor(DirichletCalibration):
    r"""Dirichlet calibration with a given floor for zeros.

    It is a class of its own so that a grid of strengths is searched along a path with warm starts.

    Parameters
    ----------
    floor : float
        Smaller probabilities count as this number.
    penalty : {"odir", "l2"}
        The L2 penalty is the plain one of the paper's program: all weights and intercepts shrink to zero.
    reg_lambda, reg_mu, cv, average_folds
        See :class:`~calibrant.DirichletCalibration`. ``reg_mu=None`` is the strength ``reg_lambda``.

    Examples
    --------
    >>> p, y = [[1.0, 0.0], [0.8, 0.2]] * 4, [0, 0, 0, 0, 0, 1, 1, 0]
    >>> [
    ...     DirichletWithFloor(floor, "l2", 0.01).fit(p, y).predict_proba(p)[0].round(2)[0].item()
    ...     for floor in (0.1, 1e-9)
    ... ]
    [0.76, 0.75]
    """

    registry_names = {}  # noqa: RUF012 (none: it belongs to this study)

    def __init__(
        self,
        floor: float = 2.2e-308,
        penalty: PenaltyName = "odir",
        reg_lambda: Strength = "auto",
        reg_mu: Strength = None,
        cv: Any = 5,
        average_folds: bool = True,
    ) -> None:
        super().__init__(penalty, reg_lambda, reg_mu, cv, average_folds, "zero")
        self.floor = floor

    def fit_labelled(self, data: LabelledPredictions, *, warn_of_absent: bool = True) -> Self:
        """Fit to parsed data with the floor."""
        floored = replace(data, predictions=data.predictions.with_floor(self.floor))
        return super().fit_labelled(floored, warn_of_absent=warn_of_absent)


class WithFloor(Calibrator):
    """A calibrator of the registry with a given floor for zeros.

    Parameters
    ----------
    method : str
        Its name in the registry.
    floor : float
        Smaller probabilities count as this number.
    parameters : mapping, optional
        Parameters of the method.

    Examples
    --------
    Scaling by a temperature corrects certain but wrong predictions; a large floor then changes the other rows more.

    >>> p, y = [[1.0, 0.0], [0.8, 0.2]] * 4, [0, 0, 0, 0, 0, 1, 1, 0]
    >>> [WithFloor("temperature", floor).fit(p, y).predict_proba(p)[1].round(2)[0].item() for floor in (0.1, 1e-9)]
    [0.69, 0.52]
    """

    traits = Traits()

    def __init__(self, method: str, floor: float, parameters: Mapping[str, Any] | None = None) -> None:
        self.method = method
        self.floor = floor
        self.parameters = parameters

    def _fit(self, data: LabelledPredictions) -> None:
        calibrator = make(self.method, **(self.parameters or {}))
        floored = replace(data, predictions=data.predictions.with_floor(self.floor))
        self.calibrator_ = calibrator.fit_labelled(floored, warn_of_absent=False)

    def _transform(self, predictions: Predictions) -> Predictions:
        return self.calibrator_.transform(predictions.with_floor(self.floor))
