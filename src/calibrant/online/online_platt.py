"""Online Platt scaling: a line through the log-odds that follows the outcomes."""

from typing import ClassVar

from calibrant.calibrators import PlattScaling
from calibrant.objective import Family
from calibrant.online.online_logistic import OnlineLogistic

__all__ = ["OnlinePlatt"]


class OnlinePlatt(OnlineLogistic):
    r"""Scale and shift the log-odds of an event, with parameters that are corrected after every row.

    .. math:: \hat q_t = \sigma(a_t s_t + b_t), \qquad s_t = \ln \frac{p_t}{1 - p_t}

    where :math:`\theta_t = (a_t, b_t)` starts at (1, 0) and takes an online Newton step with every outcome
    :cite:`gupta2023`:

    .. math:: g_t = (\hat q_t - y_t) \, (s_t, 1)^\top, \qquad A_t = A_{t-1} + g_t g_t^\top, \qquad
              \theta_{t+1} = \Pi_{A_t}\bigl(\theta_t - \tfrac1\gamma A_t^{-1} g_t\bigr)

    from :math:`A_0 = I / (\gamma D)^2`, projected on a ball in the norm of :math:`A_t`.

    Parameters
    ----------
    step : float, default=0.1
        :math:`\gamma`: the larger, the shorter the steps.
    scale : float, optional
        D: how far from the start parameters are expected to be; 1 if it is not given.
    radius : float, default=100.0
        Radius of the ball.
    half_life : float, optional
        Number of rows after which a gradient counts half in A, for streams that drift; the steps stay long then. In
        the paper nothing is forgotten.
    floor : float, default=1e-6
        Probabilities are kept so far away from 0 and 1; log-odds would be infinite otherwise.

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

    as long as the log-loss bends enough, :math:`\ell_t(\theta_t) - \ell_t(u) \le g_t^\top d_t - \tfrac\gamma2
    (g_t^\top d_t)^2` with :math:`d_t = \theta_t - u`. Of parameters that stay within a radius that :math:`\gamma` is
    small enough for, it always does; rows in which it does not add their difference to the right side. The first term
    grows with the logarithm of the number of rows, so that the mean loss is that of the best map in hindsight.

    *Cost.* Some microseconds for a row and nine numbers of memory. The program of the paper's authors projects with a
    quadratic program; here a two by two eigenproblem does it, and only when a step leaves the ball. The system of the
    step is factorised anew for every row, which costs as little as an update of the inverse and does not drift.

    For more than two classes, calibrate the confidence: pass the largest probability of each row as p, and whether
    that class was right as y.

    Examples
    --------
    A classifier that is twice as sure as it ought to be:

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
