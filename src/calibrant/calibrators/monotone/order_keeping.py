"""Methods that keep the order of all classes in every row, to the last bit."""

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from calibrant.calibrator import Calibrator
from calibrant.numerics.kept_order import restore_order
from calibrant.numerics.simplex import softmax
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["OrderKeeping"]

FloatArray = NDArray[np.floating]


class OrderKeeping(Calibrator):
    """What methods with an increasing map share; abstract.

    Mathematics keeps the order of a row; rounding may turn small differences into ties or, in float32, reverse them.
    Such rows are repaired by steps of one rounding unit, in logits and in probabilities, so that one class is
    above another after the map exactly where it was before, and equal where it was equal.

    Such a method says in its traits that parameters are shared by all classes, so that classes without calibration
    rows go through the map like all others.
    """

    @abstractmethod
    def _increasing(self, predictions: Predictions) -> FloatArray:
        """Return calibrated logits (n, K) in the order of the scores but for rounding; a new array."""

    def predict_proba(self, X: Any) -> NDArray[np.floating]:
        """Return calibrated probabilities, (n, K), in the float type of ``X`` and the order of its rows."""
        check_is_fitted(self)
        predictions = self._parsed(X)
        probabilities = softmax(self.transform(predictions).logits)
        restore_order(probabilities, predictions.scores)
        return probabilities

    def _transform(self, predictions: Predictions) -> Predictions:
        calibrated = self._increasing(predictions)
        restore_order(calibrated, predictions.scores)
        return Predictions(calibrated, Space.LOGITS, predictions.classes)
