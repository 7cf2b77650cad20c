"""Bias-corrected temperature scaling: one inverse temperature, and one intercept per class."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrator import Traits
from calibrant.calibrators.parametric import ParametricCalibrator
from calibrant.objective import Family, ScalarMap, logits

__all__ = ["BiasCorrectedTemperature"]


class BiasCorrectedTemperature(ParametricCalibrator):
    r"""Bias-corrected temperature scaling (BCTS): one inverse temperature and one intercept per class.

    .. math:: \hat q = \mathrm{softmax}(\beta z + b), \qquad \beta \in \mathbb{R},\; b \in \mathbb{R}^K

    with :math:`\beta` and b minimising the log-loss on the calibration set :cite:`alexandari2020`. It is meant to precede an
    estimate of label shift: temperature scaling does not correct the mean prediction of a class, and such a bias looks like
    a shift. With K parameters it lies between temperature scaling and vector scaling.

    Attributes
    ----------
    inverse_temperature_ : float
        Fitted :math:`\beta`; below 1 if the classifier was over-confident, negative if it was worse than chance.
    intercept_ : ndarray of shape (K,)
        Fitted b; sums to zero, since a constant shift has no effect.
    solution_ : Solution
        Result of the solver.

    Notes
    -----
    At the optimum, the mean calibrated prediction of every class on the calibration set equals its frequency, since their
    difference is the derivative in b. Logits and the logarithms of their softmax give the same map.

    An unpenalised convex problem, solved by Newton's method from the fitted temperature: O(nK) per pass, O(nK^2) for the
    curvature, about six steps; memory for two copies of the rows. The authors' program minimises the same objective by a
    general quasi-Newton routine.

    *Batches.* ``partial_fit`` keeps a quadratic approximation of the loss of earlier batches,
    O(K^2) numbers, or a sample of rows as long as some class has none; see :doc:`/online`.

    Examples
    --------
    A classifier with confidence 70 % on all rows, which is correct on 8 of 10 rows of one class and 9 of 10 of the other.

    >>> p, y = [[0.7, 0.3]] * 10 + [[0.3, 0.7]] * 10, [0] * 8 + [1] * 2 + [1] * 9 + [0]
    >>> fitted = BiasCorrectedTemperature().fit(p, y)
    >>> fitted.predict_proba([[0.7, 0.3], [0.3, 0.7]]).round(6)
    array([[0.8, 0.2], [0.1, 0.9]])
    """

    traits = Traits(contains_identity=True)
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {"bias-corrected-temperature": {}}

    def family(self, n_classes: int) -> Family:
        """Return the family of all temperatures and intercepts."""
        return Family(logits, ScalarMap(n_classes, bias=True))

    @property
    def _theta(self) -> NDArray[np.float64]:
        return np.append(self.inverse_temperature_, self.intercept_)

    def _set_parameters(self, theta: NDArray[np.float64]) -> None:
        self.inverse_temperature_ = float(theta[0])
        self.intercept_ = theta[1:] - theta[1:].mean()
