"""Online Platt scaling and online beta calibration, with parameters updated by a Newton step after every row."""

from collections.abc import Iterator
from math import exp
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

from calibrant.arrays import Matrix, Vector
from calibrant.calibrators import BetaCalibration, PlattScaling
from calibrant.errors import ParameterError
from calibrant.objective import Family
from calibrant.online.event_stream import (
    OnlineForecaster,
    clipped_log_odds,
    decay_per_row,
    forecast_columns,
)
from calibrant.options import check_floor, check_half_life, is_number
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["OnlineBeta", "OnlineLogistic", "OnlinePlatt", "projection"]


MAX_SCORE = 700.0  # its exponential is still a finite float


class NewtonState(NamedTuple):
    """Parameters, (3,), and the matrix A, (3, 3), of the steps so far; unused parameters remain zero."""

    theta: Vector
    matrix: Matrix


def newton_steps(
    state: NewtonState,
    features: Matrix,
    outcomes: NDArray[np.bool_],
    *,
    step: float,
    radius: float,
    decay: float = 1.0,
    start_curvature: float = 0.0,
) -> tuple[NewtonState, Vector]:
    r"""Process rows in order; return the new state, and the score of each row before its update.

    .. math:: g_t = (\sigma(\theta_t^\top x_t) - y_t) x_t, \qquad
              A_t = \kappa A_{t-1} + (1 - \kappa) \epsilon I + g_t g_t^\top, \qquad
              \theta_{t+1} = \Pi_{A_t}\bigl(\theta_t - \tfrac1\gamma A_t^{-1} g_t\bigr)

    Parameters
    ----------
    state : NewtonState
    features : ndarray of shape (n, 3)
        Rows x; a column of zeros for an unused feature.
    outcomes : ndarray of shape (n,)
    step : float
        :math:`\gamma`.
    radius : float
        Radius of the ball for the projection in the norm of A.
    decay : float
        :math:`\kappa`, by which earlier gradients decay with every row; 1 for no decay.
    start_curvature : float
        :math:`\epsilon` of the initial matrix, to which it returns if gradients decay.

    Notes
    -----
    Uses plain floats and an explicit L D L' factorisation: some microseconds per row, without the drift of a repeatedly
    updated inverse.
    """
    theta1, theta2, theta3 = state.theta.tolist()
    (a11, a21, a31), (_, a22, a32), (_, _, a33) = state.matrix.tolist()
    added, square, inverse_step = (1 - decay) * start_curvature, radius * radius, 1 / step
    scores = []
    fades = decay < 1
    for (x1, x2, x3), occurred in _rows(features, outcomes):
        score = theta1 * x1 + theta2 * x2 + theta3 * x3
        scores.append(score)
        if score >= 0:
            small = exp(-min(score, MAX_SCORE))
            residual = -small / (1 + small) if occurred else 1 / (1 + small)
        else:
            small = exp(max(score, -MAX_SCORE))
            residual = -1 / (1 + small) if occurred else small / (1 + small)
        g1, g2, g3 = residual * x1, residual * x2, residual * x3
        if fades:
            a11, a22, a33 = a11 * decay + added, a22 * decay + added, a33 * decay + added
            a21, a31, a32 = a21 * decay, a31 * decay, a32 * decay
        a11, a22, a33 = a11 + g1 * g1, a22 + g2 * g2, a33 + g3 * g3
        a21, a31, a32 = a21 + g2 * g1, a31 + g3 * g1, a32 + g3 * g2
        l21, l31 = a21 / a11, a31 / a11
        d2, rest = a22 - l21 * a21, a32 - l31 * a21
        l32 = rest / d2
        d3 = a33 - l31 * a31 - l32 * rest
        z2 = g2 - l21 * g1
        s3 = (g3 - l31 * g1 - l32 * z2) / d3
        s2 = z2 / d2 - l32 * s3
        s1 = g1 / a11 - l21 * s2 - l31 * s3
        theta1, theta2, theta3 = (
            theta1 - inverse_step * s1,
            theta2 - inverse_step * s2,
            theta3 - inverse_step * s3,
        )
        if theta1 * theta1 + theta2 * theta2 + theta3 * theta3 > square:
            matrix = np.array([[a11, a21, a31], [a21, a22, a32], [a31, a32, a33]])
            theta1, theta2, theta3 = projection(np.array([theta1, theta2, theta3]), matrix, radius).tolist()
    matrix = np.array([[a11, a21, a31], [a21, a22, a32], [a31, a32, a33]])
    return NewtonState(np.array([theta1, theta2, theta3]), matrix), np.array(scores, dtype=np.float64)


def projection(point: Vector, matrix: Matrix, radius: float) -> Vector:
    r"""Return the projection on the ball in the norm of a positive definite matrix A.

    It is :math:`(A + \mu I)^{-1} A\, x` with the multiplier :math:`\mu \ge 0` for which its norm is the radius; in the
    eigenbasis of A this is a decreasing function of one variable.

    >>> projection(np.array([3.0, 4.0]), np.eye(2), 1.0)
    array([0.6, 0.8])
    """
    length = float(np.linalg.norm(point))
    if length <= radius:
        return point
    bends, axes = np.linalg.eigh(matrix)
    along = axes.T @ point

    def excess(multiplier: float) -> float:
        return float(np.linalg.norm(along * (bends / (bends + multiplier)))) - radius

    # Upper limit of the multiplier: no coordinate shrinks less than that of the largest eigenvalue.
    largest = float(bends[-1]) * (length / radius - 1)
    if excess(largest) >= 0:
        multiplier = largest
    else:
        multiplier = brentq(excess, 0.0, largest, xtol=1e-300, rtol=4 * np.finfo(np.float64).eps)
    nearest: Vector = axes @ (along * (bends / (bends + multiplier)))
    return nearest


def _rows(features: Matrix, outcomes: NDArray[np.bool_]) -> Iterator[tuple[list[float], bool]]:
    return zip(features.tolist(), outcomes.tolist(), strict=True)


N_PARAMETERS = 3  # fixed in the Newton steps


class OnlineLogistic(OnlineForecaster):
    """Base class: forecasts of one event by a logistic map with parameters updated after every row."""

    family: ClassVar[Family]
    """The maps of one event among which the parameters move, at most three of them."""

    usual_scale: ClassVar[float]

    def __init__(
        self,
        *,
        step: float = 0.1,
        scale: float | None = None,
        radius: float = 100.0,
        half_life: float | None = None,
        floor: float = 1e-6,
    ) -> None:
        scale = self.usual_scale if scale is None else scale
        for name, value in {"step": step, "scale": scale, "radius": radius}.items():
            if not is_number(value) or not 0 < value < np.inf:
                raise ParameterError(f"{name} must be a positive number, not {value!r}.")
        # A third parameter remains zero if only two are used.
        start = np.zeros(N_PARAMETERS)
        start[: self.family.n_parameters] = self.family.map.identity()
        if radius < np.linalg.norm(start):
            raise ParameterError(
                f"radius must be at least the norm of the identity map, {np.linalg.norm(start):.3g}."
            )
        check_half_life(half_life)
        check_floor(floor, 1e-6)
        self.step, self.scale, self.radius = float(step), float(scale), float(radius)
        self.half_life = None if half_life is None else float(half_life)
        self.floor = float(floor)
        self.n_rows = 0
        self._newton = NewtonState(start, np.eye(N_PARAMETERS) / (self.step * self.scale) ** 2)

    def _features(self, log_odds: Vector) -> Matrix:
        """Return the features that the parameters multiply, (n, 3)."""
        pair = np.column_stack([np.zeros_like(log_odds), log_odds])
        features = np.zeros((len(log_odds), N_PARAMETERS))
        features[:, : self.family.n_parameters] = self.family.features(Predictions(pair, Space.LOGITS))
        return features

    @property
    def parameters(self) -> Vector:
        """Parameters after the rows so far; a copy."""
        return self._newton.theta[: self.family.n_parameters].copy()

    def _forecasts(self, predictions: Predictions) -> Matrix:
        log_odds = clipped_log_odds(predictions, self.floor)
        return forecast_columns(self._features(log_odds) @ self._newton.theta)

    def _process(self, predictions: Predictions, outcomes: NDArray[np.bool_]) -> Vector:
        self._newton, scores = newton_steps(
            self._newton,
            self._features(clipped_log_odds(predictions, self.floor)),
            outcomes,
            step=self.step,
            radius=self.radius,
            decay=decay_per_row(self.half_life),
            start_curvature=1 / (self.step * self.scale) ** 2,
        )
        forecasts: Vector = expit(np.clip(scores, -700.0, 700.0))
        return forecasts

    def state(self) -> dict[str, Any]:
        """Return the state as plain numbers and lists, for :meth:`from_state`."""
        return {
            "kind": type(self).__name__,
            "step": self.step,
            "scale": self.scale,
            "radius": self.radius,
            "half_life": self.half_life,
            "floor": self.floor,
            "n_rows": self.n_rows,
            "theta": self._newton.theta.tolist(),
            "matrix": self._newton.matrix.tolist(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Restore a state returned by :meth:`state`."""
        if not isinstance(state, dict) or state.get("kind") != cls.__name__:
            raise ParameterError(f"this is not a state of {cls.__name__}.")
        made = cls(**{name: state[name] for name in ("step", "scale", "radius", "half_life", "floor")})
        made.n_rows = int(state["n_rows"])
        made._newton = NewtonState(np.array(state["theta"], float), np.array(state["matrix"], float))
        return made

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n_rows} rows)"


class OnlinePlatt(OnlineLogistic):
    r"""Online Platt scaling: slope and intercept of the log-odds, updated after every row.

    .. math:: \hat q_t = \sigma(a_t s_t + b_t), \qquad s_t = \ln \frac{p_t}{1 - p_t}

    where :math:`\theta_t = (a_t, b_t)` starts at (1, 0) and takes an online Newton step with every outcome
    :cite:`gupta2023`:

    .. math:: g_t = (\hat q_t - y_t) \, (s_t, 1)^\top, \qquad A_t = A_{t-1} + g_t g_t^\top, \qquad
              \theta_{t+1} = \Pi_{A_t}\bigl(\theta_t - \tfrac1\gamma A_t^{-1} g_t\bigr)

    from :math:`A_0 = I / (\gamma D)^2`, projected on a ball in the norm of :math:`A_t`.

    Parameters
    ----------
    step : float, default=0.1
        :math:`\gamma`; larger values give shorter steps.
    scale : float, optional
        D: expected distance of the parameters from their initial values; 1 by default.
    radius : float, default=100.0
        Radius of the ball.
    half_life : float, optional
        Number of rows after which a gradient counts half in A, for streams that drift; steps then do not become short.
        The paper has no such decay.
    floor : float, default=1e-6
        Probabilities are clipped to this distance from 0 and 1; otherwise log-odds could be infinite.

    Attributes
    ----------
    parameters : ndarray of shape (2,)
        :math:`(a_t, b_t)` after the rows so far.
    n_rows : int
        Number of rows so far.

    Notes
    -----
    *Guarantee.* For any sequence of forecasts and outcomes and any fixed map u, :cite:`hazan2007`

    .. math:: \sum_t \ell_t(\theta_t) - \ell_t(u) \le \frac1{2\gamma} \ln \frac{\det A_T}{\det A_0}
              + \frac{\lVert\theta_1 - u\rVert^2}{2 \gamma D^2}

    as long as the log-loss has enough curvature, :math:`\ell_t(\theta_t) - \ell_t(u) \le g_t^\top d_t - \tfrac\gamma2
    (g_t^\top d_t)^2` with :math:`d_t = \theta_t - u`. This always holds if parameters stay within a radius for which
    :math:`\gamma` is small enough; rows that violate it add the violation to the right side. The first term
    grows with the logarithm of the number of rows, so the mean loss converges to that of the best map in hindsight.

    *Cost.* Some microseconds per row and nine numbers of memory. The authors' program projects with a
    quadratic program; here a two-by-two eigenproblem suffices, solved only when a step leaves the ball. The linear system
    of the step is factorised again for every row, which costs as little as updating the inverse and does not drift.

    For more than two classes, calibrate the confidence: pass the largest probability of each row as p, and whether
    that class was correct as y.

    Examples
    --------
    A classifier with twice the log-odds that it should have:

    >>> import numpy as np
    >>> generator = np.random.default_rng(0)
    >>> log_odds = generator.normal(0, 3, 4000)
    >>> y = generator.random(4000) < 1 / (1 + np.exp(-log_odds / 2))
    >>> online = OnlinePlatt()
    >>> forecasts = online.update(1 / (1 + np.exp(-log_odds)), y)
    >>> online.parameters.round(2)
    array([0.54, 0.01])
    """

    family: ClassVar[Family] = PlattScaling().family()
    usual_scale: ClassVar[float] = 1.0


class OnlineBeta(OnlineLogistic):
    r"""Online beta calibration, with parameters updated after every row.

    .. math:: \hat q_t = \sigma(a_t \ln p_t - b_t \ln (1 - p_t) + c_t)

    from (1, 1, 0), by the online Newton step of :class:`OnlinePlatt` in three parameters :cite:`gupta2023`. The
    two ends of the scale are corrected separately.

    Parameters
    ----------
    step : float, default=0.1
        :math:`\gamma`; larger values give shorter steps.
    scale : float, optional
        D: expected distance of the parameters from their initial values; 2 by default.
    radius : float, default=100.0
        Radius of the ball to which parameters are constrained.
    half_life : float, optional
        Number of rows after which a gradient counts half, for streams that drift.
    floor : float, default=1e-6
        Probabilities are clipped to this distance from 0 and 1.

    Attributes
    ----------
    parameters : ndarray of shape (3,)
        :math:`(a_t, b_t, c_t)` after the rows so far.
    n_rows : int
        Number of rows so far.

    Notes
    -----
    Guarantee and cost are those of :class:`OnlinePlatt` with one more parameter. As in the paper, and unlike in
    :class:`~calibrant.BetaCalibration`, exponents may become negative.

    Examples
    --------
    >>> import numpy as np
    >>> generator = np.random.default_rng(0)
    >>> p = generator.random(5000)
    >>> y = generator.random(5000) < p**2
    >>> online = OnlineBeta()
    >>> forecasts = online.update(p, y)
    >>> online.predict_proba([0.2, 0.5, 0.8])[:, 1].round(2)         # p squared is 0.04, 0.25 and 0.64
    array([0.05, 0.26, 0.65])
    """

    family: ClassVar[Family] = BetaCalibration().family()
    usual_scale: ClassVar[float] = 2.0
