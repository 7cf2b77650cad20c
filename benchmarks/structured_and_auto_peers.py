"""Methods of other packages for ``structured_and_auto.py``, under names that start with ``peer-``.

``peer-sklearn-sigmoid``, ``-isotonic`` and ``-temperature`` are scikit-learn's ``CalibratedClassifierCV`` on the given
log-probabilities; it needs rows of every class, so that classes without calibration rows are left out and have a probability
of zero. ``peer-sms``, ``-svs``, ``-quadratic`` (two classes only), ``-ets`` and ``-ts`` are those of the package
``probmetrics``, which is needed for them alone. Zeros are raised to our floor, since some of them cannot take logarithms of
zero.
"""

import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

from calibrant import Predictions

PREFIX = "peer-"


class GivenScores(ClassifierMixin, BaseEstimator):
    """A classifier whose features are its own log-probabilities."""

    def __init__(self, n_classes: int = 2) -> None:
        self.n_classes = n_classes

    def fit(self, X: Any, y: Any) -> Self:  # noqa: ARG002
        self.classes_ = np.arange(self.n_classes)
        self.n_features_in_ = self.n_classes
        return self

    def decision_function(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        return X[:, 1] - X[:, 0] if self.n_classes == 2 else X

    def predict(self, X: NDArray[np.float64]) -> NDArray[np.intp]:
        return X.argmax(axis=1)


class Peer:
    """A method of another package with ``fit`` and ``transform`` of ours.

    Parameters
    ----------
    name : str
        Name with its prefix.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def fit(self, given: Predictions, labels: NDArray[np.intp]) -> Self:
        self.floor = given.floor
        p = self._probabilities(given)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.predict_proba = _fitted(self.name.removeprefix(PREFIX), p, np.asarray(labels))
        return self

    def transform(self, given: Predictions) -> Predictions:
        p = self._probabilities(given)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            calibrated = np.asarray(self.predict_proba(p), dtype=np.float64)
        return Predictions.from_probabilities(calibrated / calibrated.sum(axis=1, keepdims=True))

    def _probabilities(self, given: Predictions) -> NDArray[np.float64]:
        return np.array(given.with_floor(self.floor).without_zeros().probabilities, dtype=np.float64)


def _fitted(
    name: str, p: NDArray[np.float64], labels: NDArray[np.intp]
) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Return the fitted map of probabilities."""
    package, _, method = name.partition("-")
    if package == "sklearn":
        present, codes = np.unique(labels, return_inverse=True)
        scores = np.log(p[:, present])
        rows = np.arange(len(labels))  # one split, since the default refuses classes of fewer than five rows
        frozen = FrozenEstimator(GivenScores(len(present)).fit(scores, codes))
        calibrated = CalibratedClassifierCV(frozen, method=method, cv=[(rows, rows)]).fit(scores, codes)

        def predict_all(given: NDArray[np.float64]) -> NDArray[np.float64]:
            found = np.zeros_like(given)
            found[:, present] = calibrated.predict_proba(np.log(given[:, present]))
            return found

        return predict_all
    from probmetrics import calibrators

    makers = {
        "sms": lambda: calibrators.SMSCalibrator(print_init_info=False),
        "svs": lambda: calibrators.SVSCalibrator(print_init_info=False),
        "quadratic": lambda: calibrators.BinaryLogisticCalibrator(type="quadratic"),
        "ets": calibrators.ETSCalibrator,
        "ts": calibrators.TemperatureScalingCalibrator,
    }
    predict: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    predict = makers[name]().fit(p, labels).predict_proba
    return predict
