"""Identity: the uncalibrated predictions, for comparison."""

from typing import Any, ClassVar

from calibrant.calibrator import Calibrator, Traits
from calibrant.graph import TracedPredictions
from calibrant.labelled_predictions import LabelledPredictions

__all__ = ["Identity"]


class Identity(Calibrator):
    r"""The identity map: return the uncalibrated predictions.

    .. math:: \hat q = p

    The baseline of every comparison.

    Examples
    --------
    >>> Identity().fit([[0.9, 0.1], [0.3, 0.7]], [0, 1]).predict_proba([[0.8, 0.2]])
    array([[0.8, 0.2]])
    """

    traits = Traits(keeps_argmax=True, contains_identity=True, shares_parameters=True)
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {"uncalibrated": {}}

    def _fit(self, data: LabelledPredictions) -> None:
        pass

    def _traced(self, given: TracedPredictions) -> TracedPredictions:
        return given
