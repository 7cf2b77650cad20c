"""Fitted calibrators as functions of predictions, and the parameters that they chose."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrator import Calibrator
from calibrant.errors import PredictionError, StudyError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.predictions import Predictions

__all__ = ["Map", "chosen_parameters", "fitted_map"]

Map = Callable[[Predictions], Predictions]


def fitted_map(calibrator: Any, predictions: Predictions, labels: NDArray[np.intp], name: str) -> Map:
    """Fit a calibrator and return what it does.

    One of this library's kind is given :class:`~calibrant.Predictions`, logits where the classifier gave logits. Any other
    object with ``fit`` and ``predict_proba`` is given arrays of probabilities.
    """
    if isinstance(calibrator, Calibrator):
        columns = np.arange(predictions.n_classes)
        calibrator.fit_labelled(LabelledPredictions(predictions, labels, columns))
        return calibrator.transform
    calibrator.fit(np.array(predictions.probabilities), labels)

    def mapped(rows: Predictions) -> Predictions:
        given = np.asarray(calibrator.predict_proba(np.array(rows.probabilities)))
        if given.shape != rows.scores.shape:
            raise StudyError(
                f"calibrator {name!r} gave probabilities of shape {given.shape} for {rows.scores.shape}; it must keep "
                "rows and classes."
            )
        try:
            return Predictions.from_probabilities(given)
        except PredictionError as error:
            raise StudyError(f"calibrator {name!r}: {error}") from error

    return mapped


def chosen_parameters(calibrator: Any, prefix: str = "") -> dict[str, Any]:
    """Return the parameters that a fitted calibrator settled on: ``reg_lambda`` where it has ``reg_lambda_``, and so on.

    Of a chain they are numbered by stage, as in ``0.reg_lambda``.

    >>> from calibrant.registry import make
    >>> p, y = [[0.7, 0.3], [0.4, 0.6]] * 20, [0, 1, 0, 0] * 10
    >>> chosen_parameters(make("dirichlet-l2", reg_lambda=[0.1], reg_mu=None).fit(p, y))
    {'reg_lambda': 0.1, 'reg_mu': 0.1}
    """
    found: dict[str, Any] = {}
    for place, stage in enumerate(getattr(calibrator, "calibrators_", ())):
        found |= chosen_parameters(stage, f"{prefix}{place}.")
    if not hasattr(calibrator, "get_params"):
        return found
    for name in calibrator.get_params(deep=False):
        value = getattr(calibrator, f"{name}_", None)
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, bool | int | float | str):
            found[prefix + name] = value
    return found
