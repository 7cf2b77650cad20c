"""Vector scaling: one weight and one intercept per class."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from calibrant.batches import Summary
from calibrant.calibrator import Traits
from calibrant.calibrators.parametric import ParametricCalibrator
from calibrant.calibrators.quadratic_summary import QuadraticSummary
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.objective import ArraySource, DiagonalMap, Family, logits
from calibrant.predictions import Predictions
from calibrant.solvers import Solution
from calibrant.space import Space

__all__ = ["VectorScaling"]


class _WithLateClasses(QuadraticSummary):
    """Quadratic summary of all columns, in which a class without rows so far has half a pseudo-row.

    The pseudo-row is the mean of all rows. Conditional on the other classes the map is that of the fit, and the
    unobserved class keeps its share of probability.
    """

    def condense(self, calibrator: Any, data: LabelledPredictions, n_rows: float, *, sampled: bool) -> None:
        if calibrator.present_columns_ is not None:
            late = np.setdiff1d(np.arange(data.n_classes), calibrator.present_columns_)
            data = _with_half_rows(data, late)
            family = calibrator.family(data.n_classes)
            calibrator._use_batch(
                calibrator._solved(family, ArraySource(data).features(family.features)), None
            )
        super().condense(calibrator, data, n_rows, sampled=sampled)


class VectorScaling(ParametricCalibrator):
    r"""Vector scaling: one weight and one intercept per class.

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
        Sums to zero, since a constant shift has no effect.
    solution_ : Solution
        Result of the solver.

    Notes
    -----
    An unpenalised convex problem in 2K parameters, solved to its optimum by Newton's method from the fitted temperature:
    O(nK^2) per step, about six steps. The figures of :cite:`kull2019` come from a stochastic optimiser with early stopping,
    a mild regularisation: they can differ from the optimum by a few units in the fourth digit, either way.

    *Batches.* ``partial_fit`` keeps a quadratic approximation of the loss of earlier batches,
    O(K^2) numbers; see :doc:`/online`. A class without rows so far keeps its share of probability.

    Examples
    --------
    >>> p = [[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.3, 0.6, 0.1], [0.5, 0.2, 0.3]] * 4
    >>> y = [0, 1, 1, 0, 2, 0, 1, 1, 0, 1, 2, 1, 1, 0, 2, 0, 1, 2, 0, 2]
    >>> VectorScaling().fit(p, y).predict_proba(p).mean(axis=0).round(4)   # the class frequencies
    array([0.35, 0.4 , 0.25])
    """

    traits = Traits(contains_identity=True, uses_raw_logits=True)
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {"vector": {}}
    structure: ClassVar[tuple[str, ...]] = ("bias",)
    batches: ClassVar[Summary | None] = _WithLateClasses(needs_all_classes=False)

    def __init__(self, bias: bool = True) -> None:
        self.bias = bias

    def family(self, n_classes: int) -> Family:
        """Return the family of all weights and, unless ``bias`` is False, intercepts."""
        return Family(logits, DiagonalMap(n_classes, bool(self._setting("bias"))))

    @property
    def _theta(self) -> NDArray[np.float64]:
        has_bias = self._setting("bias")
        return np.concatenate([self.weights_, self.intercept_]) if has_bias else self.weights_

    def _set_parameters(self, theta: NDArray[np.float64]) -> None:
        n_classes = len(theta) // (1 + bool(self.bias))
        self.weights_ = theta[:n_classes]
        self.intercept_ = theta[n_classes:] if self.bias else np.zeros(n_classes)
        self.intercept_ = self.intercept_ - self.intercept_.mean()

    def _use_batch(self, solution: Solution, data: LabelledPredictions | None) -> None:
        """Set the map of the columns that have rows."""
        self._use(solution)
        present = self.present_columns_
        if present is None:
            return
        n_classes = len(self.classes_)
        if data is not None:
            present = np.union1d(present, data.labels)
            self.present_columns_ = present if len(present) < n_classes else None
        self.weights_ = self.weights_[present]
        self.intercept_ = self.intercept_[present]
        self.intercept_ = self.intercept_ - self.intercept_.mean()


def _with_half_rows(data: LabelledPredictions, late: NDArray[np.intp]) -> LabelledPredictions:
    """Append the mean of all rows as half a pseudo-row of every class in ``late``."""
    logits = data.predictions.logits
    mean = np.average(logits, axis=0, weights=data.weights).astype(logits.dtype)
    weights = np.ones(data.n_rows) if data.weights is None else data.weights
    return LabelledPredictions(
        Predictions(
            np.vstack([logits, np.tile(mean, (len(late), 1))]), Space.LOGITS, data.predictions.classes
        ),
        np.concatenate([data.labels, late]),
        data.classes,
        np.concatenate([weights, np.full(len(late), 0.5)]),
    )
