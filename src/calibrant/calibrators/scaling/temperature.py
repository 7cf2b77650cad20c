"""Temperature scaling: one inverse temperature shared by all classes."""

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.batches import Summary
from calibrant.calibrator import Traits
from calibrant.calibrators.parametric import ParametricCalibrator
from calibrant.calibrators.quadratic_summary import QuadraticSummary
from calibrant.calibrators.scaling.temperature_fit import LOSSES, fit_inverse_temperature
from calibrant.errors import ParameterError
from calibrant.objective import Family, FeatureRows, QuadraticPenalty, ScalarMap, logits
from calibrant.options import check_around_one, check_choice, real_array
from calibrant.solvers import Solution

__all__ = ["TemperatureScaling"]


class TemperatureScaling(ParametricCalibrator):
    r"""Temperature scaling: divide all logits by one fitted temperature.

    .. math:: \hat q = \mathrm{softmax}(\beta z), \qquad \beta = 1/T > 0

    with :math:`\beta` minimising the mean loss on the calibration set :cite:`guo2017`. Logits and the
    logarithms of their softmax give the same map :cite:`kull2019`.

    Parameters
    ----------
    loss : {"log", "brier"}, default="log"
        Loss of the fit: log-loss, or the squared error summed over classes.
    bounds : tuple of float, default=(1e-3, 1e3)
        Bounds of :math:`\beta`; a fit at a bound warns.
    prior : tuple of float, optional
        Mean :math:`\beta_0` and standard deviation :math:`\sigma` of a normal prior of :math:`\beta`, for few rows. The fit is
        then the posterior mode: :math:`(\beta - \beta_0)^2 / 2 \sigma^2` is added to the sum of log-losses.

    Attributes
    ----------
    temperature_ : float
        Fitted T; above 1 if the classifier was over-confident.
    inverse_temperature_ : float
        Fitted :math:`\beta = 1/T`.
    solution_ : Solution
        Result of the solver.

    Notes
    -----
    The log-loss is convex in :math:`\beta` and only quasi-convex in T, so :math:`\beta` is fitted, by a bracketed Newton
    method. Costs O(nK) per pass and about six passes; on a large calibration set most of them read only a sample. Preserves
    the arg-max of every row, since :math:`\beta > 0`. The Brier score is not convex, so its fit starts from a coarse grid
    search.

    The programs behind some published tables minimise the Brier score although the text says log-loss
    (:cite:`zhang2020`, and with it the baselines of :cite:`tomani2022`); ``loss="brier"`` reproduces them.

    *Batches.* ``partial_fit`` keeps a quadratic approximation of the loss of earlier batches, in constant
    memory; see :doc:`/online`.

    Examples
    --------
    Three of four rows with confidence 90 % are correct. The calibrated confidence is 75 %, and :math:`9^{1/2} = 3`.

    >>> fitted = TemperatureScaling().fit([[0.9, 0.1]] * 4, [0, 0, 0, 1])
    >>> round(fitted.temperature_, 6)
    2.0
    >>> fitted.predict_proba([[0.9, 0.1]]).round(6)
    array([[0.75, 0.25]])
    """

    registry_names: ClassVar[dict[str, dict[str, Any]]] = {"temperature": {}}
    batches: ClassVar[Summary | None] = QuadraticSummary(needs_all_classes=False)

    def __init__(
        self,
        loss: Literal["log", "brier"] = "log",
        bounds: tuple[float, float] = (1e-3, 1e3),
        prior: tuple[float, float] | None = None,
    ) -> None:
        self.loss = loss
        self.bounds = bounds
        self.prior = prior

    @property
    def traits(self) -> Traits:  # type: ignore[override]
        """A prior may move a map away from the identity."""
        return Traits(keeps_argmax=True, contains_identity=self.prior is None, shares_parameters=True)

    def family(self, n_classes: int) -> Family:
        """Return the family of all temperatures."""
        lower, upper = self.bounds
        penalty = None
        if self.prior is not None:
            mean, deviation = self.prior
            penalty = QuadraticPenalty(np.array([1 / (2 * deviation**2)]), np.array([float(mean)]))
        return Family(
            logits,
            _PositiveScale(n_classes, lower),
            LOSSES[self.loss],
            upper=upper,
            penalty_in_rows=penalty,
        )

    def _check_parameters(self) -> None:
        check_choice("loss", self.loss, ("log", "brier"))
        check_around_one("bounds", self.bounds)
        if self.prior is not None:
            pair = real_array(self.prior)
            if pair is None or pair.shape != (2,) or not (np.isfinite(pair) & (pair > 0)).all():
                raise ParameterError(
                    f"prior must be a positive mean and standard deviation, such as (0.7, 0.5), not {self.prior!r}."
                )
            if self.loss != "log":
                raise ParameterError("prior needs a likelihood; set loss='log', or prior=None.")

    def _solved(self, family: Family, rows: FeatureRows) -> Solution:
        penalty = family.mean_penalty(rows.total_weight)
        return fit_inverse_temperature(rows, self.loss, self.bounds, penalty=penalty)

    @property
    def _theta(self) -> NDArray[np.float64]:
        return np.array([self.inverse_temperature_])

    def _set_parameters(self, theta: NDArray[np.float64]) -> None:
        self.inverse_temperature_ = float(theta[0])
        self.temperature_ = 1 / self.inverse_temperature_


class _PositiveScale(ScalarMap):
    """A common factor of all scores, with a lower bound."""

    def __init__(self, n_classes: int, least: float) -> None:
        super().__init__(n_classes)
        self.least = least

    def lower(self) -> NDArray[np.float64]:
        return np.array([self.least])
