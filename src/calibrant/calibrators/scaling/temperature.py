"""Temperature scaling: one inverse temperature shared by all classes."""

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrator import Traits
from calibrant.calibrators.partial_fitting import PartialFitting
from calibrant.calibrators.scaling.remembered_loss import RememberedLoss
from calibrant.calibrators.scaling.remembered_temperature import remembered_temperature, updated_temperature
from calibrant.calibrators.scaling.temperature_fit import fit_inverse_temperature
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.kept_order import restore_argmax
from calibrant.options import check_around_one, check_choice
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["TemperatureScaling"]


class TemperatureScaling(PartialFitting):
    r"""Multiply all logits by one inverse temperature.

    .. math:: \hat q = \mathrm{softmax}(\beta z), \qquad \beta = 1/T > 0

    with :math:`\beta` minimising the mean loss on the calibration set :cite:`guo2017`. Logits and the
    logarithms of their softmax give the same map :cite:`kull2019`.

    Parameters
    ----------
    loss : {"log", "brier"}, default="log"
        What is minimised: log-loss, or the squared error summed over classes.
    bounds : tuple of float, default=(1e-3, 1e3)
        Range in which :math:`\beta` is sought; a fit at the edge warns.

    Attributes
    ----------
    temperature_ : float
        Fitted T; above 1 if the classifier was over-confident.
    inverse_temperature_ : float
        Fitted :math:`\beta = 1/T`.
    solution_ : Solution
        How the fit went.

    Notes
    -----
    The log-loss is convex in :math:`\beta`, in T only quasi-convex, so the former is fitted, by a Newton
    method that cannot leave its bracket. Costs O(nK) per pass and about six passes, of which most see a
    sample of the rows only when there are many. Keeps the arg-max of every row, since
    :math:`\beta > 0`. The Brier score is not convex, so a coarse scan chooses where the search begins.

    Some programs for published tables minimise the Brier score here although the text says log-loss
    (:cite:`zhang2020`'s, and with it the baselines of :cite:`tomani2022`); ``loss="brier"`` gives those.

    *Batches.* ``partial_fit`` keeps the loss of past rows as the quadratic function that it is near the last estimate, so
    that memory is constant; see :doc:`/online`.

    Examples
    --------
    Three of four right at 90 %: the honest confidence is 75 %, and :math:`9^{1/2} = 3`.

    >>> fitted = TemperatureScaling().fit([[0.9, 0.1]] * 4, [0, 0, 0, 1])
    >>> round(fitted.temperature_, 6)
    2.0
    >>> fitted.predict_proba([[0.9, 0.1]]).round(6)
    array([[0.75, 0.25]])
    """

    traits = Traits(keeps_argmax=True, contains_identity=True, shares_parameters=True)
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {"temperature": {}}

    def __init__(
        self, loss: Literal["log", "brier"] = "log", bounds: tuple[float, float] = (1e-3, 1e3)
    ) -> None:
        self.loss = loss
        self.bounds = bounds

    def _check_parameters(self) -> None:
        check_choice("loss", self.loss, ("log", "brier"))
        check_around_one("bounds", self.bounds)

    def _fit(self, data: LabelledPredictions) -> None:
        self._check_parameters()
        self.solution_ = fit_inverse_temperature(data, self.loss, self.bounds)
        self._set_temperature()

    def _condense(self, data: LabelledPredictions, n_rows: float) -> None:
        self.memory_ = remembered_temperature(data, self.loss, self.inverse_temperature_).memory(n_rows)

    def _update(self, data: LabelledPredictions, kept: float, n_rows: float) -> None:
        self.solution_, remembered = updated_temperature(
            RememberedLoss.from_memory(self.memory_).faded(kept), data, self.loss, self.bounds
        )
        self.memory_ = remembered.memory(n_rows)
        self._set_temperature()

    def _rough_parameters(self, n_classes: int) -> int:  # noqa: ARG002
        # The comparison is one of likelihoods, which the Brier score does not maximise.
        return int(self.loss == "log")

    def _set_temperature(self) -> None:
        self.inverse_temperature_ = float(self.solution_.theta[0])
        self.temperature_ = 1 / self.inverse_temperature_
        self.solution_.warn_unless_converged("TemperatureScaling")

    def _transform(self, predictions: Predictions) -> Predictions:
        if self._waits:
            return predictions.without_zeros()
        logits: NDArray[np.floating] = predictions.logits
        scaled = logits * logits.dtype.type(self.inverse_temperature_)
        # A product rounds, and may make two classes equal that were not.
        restore_argmax(scaled, predictions.predicted)
        return Predictions(scaled, Space.LOGITS, predictions.classes)
