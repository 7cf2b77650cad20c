"""Online Platt scaling: slope and intercept of the log-odds, updated after every row."""

from typing import ClassVar

from calibrant.calibrators import PlattScaling
from calibrant.objective import Family
from calibrant.online.online_logistic import OnlineLogistic

__all__ = ["OnlinePlatt"]


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
