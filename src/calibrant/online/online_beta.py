"""Online beta calibration."""

from typing import ClassVar

from calibrant.calibrators import BetaCalibration
from calibrant.objective import Family
from calibrant.online.online_logistic import OnlineLogistic

__all__ = ["OnlineBeta"]


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
