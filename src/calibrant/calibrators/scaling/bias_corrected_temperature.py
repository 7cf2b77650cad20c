"""Bias-corrected temperature scaling: one inverse temperature, and one intercept per class."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrator import Traits
from calibrant.calibrators.parametric import ParametricCalibrator
from calibrant.objective import Family, ScalarMap, logits

__all__ = ["BiasCorrectedTemperature"]


class BiasCorrectedTemperature(ParametricCalibrator):
    r"""Multiply all logits by one number and shift each class by one of its own.

    .. math:: \hat q = \mathrm{softmax}(\beta z + b), \qquad \beta \in \mathbb{R},\; b \in \mathbb{R}^K

    with :math:`\beta` and b minimising the log-loss on the calibration set. Known as bias-corrected temperature scaling,
    BCTS :cite:`alexandari2020`, and meant to stand before an estimate of shifted class shares: a temperature alone
    leaves classes that are predicted too often or too rarely as they are, and every such error looks like a shift.
    Between temperature scaling and vector scaling also in what it costs in rows: K parameters.

    Attributes
    ----------
    inverse_temperature_ : float
        Fitted :math:`\beta`; below 1 if the classifier was over-confident, negative if it was worse than chance.
    intercept_ : ndarray of shape (K,)
        Fitted b; sums to zero, since adding a constant would change nothing.
    solution_ : Solution
        How the fit went.

    Notes
    -----
    Where the fit has converged, the mean of the calibrated predictions on the calibration rows is the share of every
    class among their labels, because the derivative in b is the difference of the two. Logits and the logarithms of
    their softmax give the same map.

    A convex problem without a penalty, solved by Newton's method from the fitted temperature: O(nK) for a pass,
    O(nK^2) for the curvature, about six steps; memory for two copies of the rows. The authors' program leaves the
    optimum to a general quasi-Newton routine; the objective is the same.

    *Batches.* ``partial_fit`` keeps the loss of past rows as the quadratic function that it is near the last estimate,
    O(K^2) numbers, or a sample of rows as long as some class has none; see :doc:`/online`.

    Examples
    --------
    A classifier that says 70 % for everybody, and is right for 8 of 10 rows of one class and 9 of 10 of the other.

    >>> p, y = [[0.7, 0.3]] * 10 + [[0.3, 0.7]] * 10, [0] * 8 + [1] * 2 + [1] * 9 + [0]
    >>> fitted = BiasCorrectedTemperature().fit(p, y)
    >>> fitted.predict_proba([[0.7, 0.3], [0.3, 0.7]]).round(6)
    array([[0.8, 0.2], [0.1, 0.9]])
    """

    traits = Traits(contains_identity=True)
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {"bias-corrected-temperature": {}}

    def family(self, n_classes: int) -> Family:
        """Return the maps of all temperatures and intercepts."""
        return Family(logits, ScalarMap(n_classes, bias=True))

    @property
    def _theta(self) -> NDArray[np.float64]:
        return np.append(self.inverse_temperature_, self.intercept_)

    def _set_parameters(self, theta: NDArray[np.float64]) -> None:
        self.inverse_temperature_ = float(theta[0])
        self.intercept_ = theta[1:] - theta[1:].mean()
