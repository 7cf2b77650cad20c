"""Temperature scaling of what a classifier gives out, be it probabilities: what the paper does."""

from dataclasses import replace
from typing import Any, ClassVar

from calibrant import Calibrator, LabelledPredictions, Predictions, TemperatureScaling, Traits
from calibrant.space import Space

__all__ = ["TemperatureAsGiven"]


class TemperatureAsGiven(Calibrator):
    r"""Softmax of logits over T, or of *probabilities* over T where there are no logits.

    Of probabilities that is another family than temperature scaling: a class with the probability zero never gets less
    than :math:`e^{-1/T}` times what a sure one gets.

    Examples
    --------
    >>> p = [[0.7, 0.3], [0.4, 0.6], [0.9, 0.1], [0.2, 0.8]] * 20
    >>> fitted = TemperatureAsGiven().fit(p, [0, 1, 0, 0] * 20)
    >>> bool(fitted.predict_proba([[1.0, 0.0]])[0, 1] > 0.05)
    True
    """

    traits = Traits(keeps_argmax=True)
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {}

    def _fit(self, data: LabelledPredictions) -> None:
        given = replace(data, predictions=_as_logits(data.predictions))
        self.scaling_ = TemperatureScaling().fit_labelled(given)

    def _transform(self, predictions: Predictions) -> Predictions:
        return self.scaling_.transform(_as_logits(predictions))


def _as_logits(predictions: Predictions) -> Predictions:
    if predictions.space is Space.PROBABILITIES:
        return Predictions.from_logits(
            predictions.scores, classes=predictions.classes, allow_probabilities=True
        )
    return predictions
