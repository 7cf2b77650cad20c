"""MultioutputCalibration: calibrate several class labels per row, each with classes of its own."""

import os
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from calibrant.calibrator import Calibrator
from calibrant.errors import PredictionError
from calibrant.label_matrix import LabelledOutput, parse_outputs, predictions_of_outputs
from calibrant.notices import gathered

__all__ = ["MultioutputCalibration"]


class MultioutputCalibration(BaseEstimator):  # type: ignore[misc]
    """Calibrate several class labels per row, such as colour and size, each with its own classes and its own calibrator.

    The same as one calibrator per label column in a loop, bit for bit. For labels that are present or absent use
    :class:`~calibrant.MultilabelCalibration`.

    Parameters
    ----------
    method : str or Calibrator, default="auto"
        A name from :func:`calibrant.registry.calibrators`, or an unfitted calibrator that is cloned for each output.

    Attributes
    ----------
    calibrators_ : list of Calibrator
        The fitted calibrator of every output.
    classes_ : list of ndarray
        Classes of every output, as scikit-learn's multi-output classifiers have them.
    names_ : list of str or None
        Names of the outputs, from a data frame of labels.

    Examples
    --------
    >>> colour = [[0.9, 0.1]] * 4 + [[0.2, 0.8]] * 4
    >>> size = [[0.7, 0.2, 0.1]] * 4 + [[0.1, 0.2, 0.7]] * 4
    >>> Y = [[0, 0], [0, 1], [0, 0], [1, 2], [1, 2], [1, 2], [0, 1], [1, 0]]
    >>> fitted = MultioutputCalibration("temperature").fit([colour, size], Y)
    >>> [part.shape for part in fitted.predict_proba([colour, size])]
    [(8, 2), (8, 3)]
    """

    calibrators_: list[Calibrator]
    names_: list[str] | None

    def __init__(self, method: str | Calibrator = "auto") -> None:
        self.method = method

    def fit(self, X: Any, Y: Any, sample_weight: Any = None) -> Self:
        """Fit a calibrator for each output.

        Parameters
        ----------
        X : list of M arrays (n, K), frames or Predictions
            Predictions of every output, as ``predict_proba`` of scikit-learn's multi-output classifiers returns them.
        Y : array or frame of shape (n, M)
            Class labels; NaN or None where a label is missing.
        sample_weight : array of shape (n,), optional
            A weight of two is equivalent to including the row twice.
        """
        outputs, names = parse_outputs(X, Y, sample_weight)
        return self.fit_parsed(outputs, names)

    def fit_parsed(self, outputs: list[LabelledOutput], names: list[str] | None = None) -> Self:
        """Fit to parsed outputs."""
        from calibrant.registry import unfitted

        base = unfitted(self.method)
        with gathered(len(outputs), "output"):
            self.calibrators_ = [clone(base).fit_labelled(output.data) for output in outputs]
        self.names_ = names
        return self

    @property
    def classes_(self) -> list[NDArray[Any]]:
        """Classes of every output."""
        check_is_fitted(self, "calibrators_")
        return [calibrator.classes_ for calibrator in self.calibrators_]

    def predict_proba(self, X: Any) -> list[Any]:
        """Return the calibrated probabilities of every output, a list of arrays (n, K)."""
        check_is_fitted(self, "calibrators_")
        outputs = predictions_of_outputs(X)
        if len(outputs) != len(self.calibrators_):
            raise PredictionError(
                f"there are predictions of {len(outputs)} outputs, but {len(self.calibrators_)} in fit; pass the same outputs."
            )
        return [
            calibrator.predict_proba(predictions)
            for calibrator, predictions in zip(self.calibrators_, outputs, strict=True)
        ]

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label with the largest calibrated probability of every output, (n, M)."""
        labels = [
            classes[np.asarray(part).argmax(axis=1)]
            for classes, part in zip(self.classes_, self.predict_proba(X), strict=True)
        ]
        kinds = {column.dtype.kind for column in labels}
        return np.column_stack(labels if len(kinds) == 1 else [column.astype(object) for column in labels])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted calibrators of all outputs to one file, without pickle."""
        from calibrant.persistence import save_labels

        save_labels(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read the fitted calibrators that :meth:`save` wrote."""
        from calibrant.persistence import load_labels

        return load_labels(cls, path)
