"""Vector scaling: one weight and one intercept per class."""

from typing import Any, ClassVar

import numpy as np

from calibrant.calibrator import Calibrator, Traits
from calibrant.calibrators.scaling.temperature_fit import start_temperature
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.objective import CrossEntropy, DiagonalMap, Objective
from calibrant.predictions import Predictions
from calibrant.solvers import newton_cg
from calibrant.space import Space

__all__ = ["VectorScaling"]


class VectorScaling(Calibrator):
    r"""Scale and shift the logit of every class.

    .. math:: \hat q = \mathrm{softmax}(w \circ z + b), \qquad w, b \in \mathbb{R}^K

    with w and b minimising the log-loss on the calibration set :cite:`guo2017`. For probabilities z is their
    logarithm, which makes it the diagonal case of Dirichlet calibration :cite:`kull2019`; raw logits carry
    more information and give another map.

    Parameters
    ----------
    bias : bool, default=True
        Whether to fit b.

    Attributes
    ----------
    weights_ : ndarray of shape (K,)
    intercept_ : ndarray of shape (K,)
        Sums to zero; adding a constant would change nothing.
    solution_ : Solution
        How the fit went.

    Notes
    -----
    A convex problem in 2K parameters without a penalty, solved by Newton's method to the optimum from the
    fitted temperature: O(nK^2) per step, about six steps. The figures published in :cite:`kull2019` come
    from a stochastic optimiser that stopped early, which acts as a little regularisation: they can differ
    from the optimum by a few units in the fourth digit, either way.

    Examples
    --------
    >>> p = [[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.3, 0.6, 0.1], [0.5, 0.2, 0.3]] * 4
    >>> y = [0, 1, 1, 0, 2, 0, 1, 1, 0, 1, 2, 1, 1, 0, 2, 0, 1, 2, 0, 2]
    >>> VectorScaling().fit(p, y).predict_proba(p).mean(axis=0).round(4)   # the shares of the classes
    array([0.35, 0.4 , 0.25])
    """

    traits = Traits(contains_identity=True, uses_raw_logits=True)
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {"vector": {}}

    def __init__(self, bias: bool = True) -> None:
        self.bias = bias

    def _fit(self, data: LabelledPredictions) -> None:
        logit_map = DiagonalMap(data.n_classes, self.bias)
        objective = Objective(CrossEntropy(), logit_map, data.predictions.logits, data.labels, data.weights)
        self.solution_ = newton_cg(objective, start_temperature(data) * logit_map.identity())
        theta = self.solution_.theta
        self.weights_ = theta[: data.n_classes].copy()
        self.intercept_ = theta[data.n_classes :] if self.bias else np.zeros(data.n_classes)
        self.intercept_ = self.intercept_ - self.intercept_.mean()
        self.solution_.warn_unless_converged("VectorScaling")

    def _transform(self, predictions: Predictions) -> Predictions:
        logits = predictions.logits
        scaled = logits * self.weights_.astype(logits.dtype) + self.intercept_.astype(logits.dtype)
        return Predictions(scaled, Space.LOGITS, predictions.classes)
