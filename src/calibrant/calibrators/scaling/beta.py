"""Beta calibration: separate powers of the probability of an event and of its complement."""

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, log_expit

from calibrant.arrays import Vector
from calibrant.calibrator import Traits
from calibrant.calibrators.parametric import EventScaling
from calibrant.graph import Event, Value
from calibrant.objective import Family
from calibrant.options import check_choice

__all__ = ["BetaCalibration"]


LOG_TWO = float(np.log(2.0))


class _Free(NamedTuple):
    """Which of the three parameters are free."""

    one_power: bool
    free_midpoint: bool


FREE = {
    "abm": _Free(one_power=False, free_midpoint=True),
    "am": _Free(one_power=True, free_midpoint=True),
    "ab": _Free(one_power=False, free_midpoint=False),
    "a": _Free(one_power=True, free_midpoint=False),
}


class BetaCalibration(EventScaling):
    r"""Beta calibration: logistic regression on log p and -log(1 - p).

    .. math:: \hat q = \frac{1}{1 + 1 / \left(e^c \frac{p^a}{(1 - p)^b}\right)}, \qquad a, b \ge 0

    with a, b and c minimising the log-loss on the calibration set :cite:`kull2017`. It is the posterior if the scores
    of each outcome have a beta distribution. It has one slope of the log-odds for each end of the reliability curve, where
    Platt scaling has one for both. More than two classes are calibrated one-vs-rest.

    Parameters
    ----------
    parameters : {"abm", "am", "ab", "a"}, default="abm"
        Free parameters: all three; one power a = b and the midpoint, which is Platt scaling with a non-negative slope;
        two powers with the midpoint at 1/2; only one power, which for two classes is temperature scaling.

    Attributes
    ----------
    a_ : float
        Power of p, non-negative, for two classes; for more see the ``calibrators_`` of ``one_vs_rest_``.
    b_ : float
        Power of 1 - p, non-negative.
    c_ : float
        Shift of the log-odds.
    midpoint_ : float
        The score m that is mapped to 1/2: :math:`c = b \ln(1 - m) - a \ln m`. It is 0 or 1 if all scores in (0, 1) are
        mapped to more or to less than 1/2.
    solution_ : Solution
        Result of the solver.
    one_vs_rest_ : OneVsRest
        The maps of all classes, if there are more than two.

    Notes
    -----
    Logistic regression on :math:`\ln p` and :math:`-\ln(1 - p)` with two bounds: a convex problem, solved to its
    optimum by a bounded Newton method, O(n) per step in time and memory, a few steps. The training loss never exceeds
    that of the uncalibrated predictions. Exchanging the classes exchanges a and b and changes the sign of c. For two
    classes and with inactive bounds, ``"abm"`` is unpenalised :class:`~calibrant.DirichletCalibration`.

    *Separated outcomes.* If a map of the family separates the outcomes, the powers diverge and no fit exists. Then Platt's
    smoothed targets are fitted (see :class:`~calibrant.PlattScaling`), with a
    :class:`~calibrant.errors.ConvergenceWarning`, or the identity is kept if its training loss is lower. Log-odds are
    clipped to the range in which probabilities of their float type are not zero.

    *The authors' program* treats signs and zeros differently. A negative a is set to zero and b and c are refitted, else
    likewise b, without a check of the remaining sign; the result may miss the constrained optimum. With ``"ab"`` it allows
    negative powers. It clips p to [2.2e-16, 1 - 2.2e-16] (1.2e-7 for float32), uses 1 - p as the complement, and its
    optimiser stops at a gradient tolerance that leaves the last digits undetermined. Pass
    ``Predictions.from_probabilities(p, floor=2.2e-16)``, with p the probability of the event, to get its features. In
    the program ``"ab"`` keeps c at zero with features :math:`\ln 2p` and :math:`\ln 2(1 - p)`; in the formula above
    that is :math:`c = (a - b) \ln 2`.

    *Batches.* ``partial_fit`` keeps a quadratic approximation of the loss of earlier batches, in constant
    memory; see :doc:`/online`.

    Examples
    --------
    The event is missing in a quarter of the rows at 90 %, and happens in one of sixteen rows at 10 %.

    >>> p = [0.9] * 16 + [0.5] * 4 + [0.1] * 16
    >>> y = [1] * 12 + [0] * 4 + [1] + [0] * 3 + [1] + [0] * 15
    >>> fitted = BetaCalibration().fit(p, y)
    >>> round(fitted.a_, 3), round(fitted.b_, 3), round(fitted.midpoint_, 3)
    (0.579, 1.154, 0.762)
    >>> fitted.predict_proba([0.9, 0.5, 0.1])[:, 1].round(4)
    array([0.75  , 0.25  , 0.0625])
    """

    traits = Traits(contains_identity=True)
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {
        "beta": {},
        "beta-am": {"parameters": "am"},
        "beta-ab": {"parameters": "ab"},
    }

    structure: ClassVar[tuple[str, ...]] = ("parameters",)
    _is_penalised: ClassVar[bool] = False
    a_: float
    b_: float
    c_: float
    midpoint_: float

    def __init__(self, parameters: Literal["abm", "am", "ab", "a"] = "abm") -> None:
        self.parameters = parameters

    def _check_parameters(self) -> None:
        check_choice("parameters", self.parameters, FREE)

    def _event_family(self) -> Family:
        free = FREE[self._setting("parameters")]
        n_powers = 2 - free.one_power
        identity = np.array([1.0] * n_powers + [0.0] * free.free_midpoint)
        lower = np.array([0.0] * n_powers + [-np.inf] * free.free_midpoint)
        return Family.of_event(_design(free), identity, lower, bias=free.free_midpoint)

    @property
    def _theta(self) -> Vector:
        free = FREE[self._setting("parameters")]
        powers = [self.a_] if free.one_power else [self.a_, self.b_]
        return np.array([*powers, self.c_] if free.free_midpoint else powers)

    def _set_parameters(self, theta: Vector) -> None:
        free = FREE[self._setting("parameters")]
        self.a_ = float(theta[0])
        self.b_ = float(theta[0 if free.one_power else 1])
        self.c_ = float(theta[-1]) if free.free_midpoint else (self.a_ - self.b_) * LOG_TWO
        self.midpoint_ = _midpoint(self.a_, self.b_, self.c_)


@cache
def _design(free: _Free) -> Callable[[Event], list[Value]]:
    """Return a function for the columns of the design matrix; cached, so that it is traced once."""
    shift = 0.0 if free.free_midpoint else LOG_TWO

    def design(event: Event) -> list[Value]:
        if free.one_power:
            columns = [event.log_odds]
        else:
            columns = [event.log_probability + shift, (event.log_complement + shift) * -1.0]
        return [*columns, *[event.own.constant(1.0)] * free.free_midpoint]

    return design


def _midpoint(a: float, b: float, c: float) -> float:
    """Return the score whose calibrated log-odds are zero; they are non-decreasing in the score."""

    def log_odds(score: float) -> float:
        return float(a * log_expit(score) - b * log_expit(-score) + c)

    if a == b == c == 0:
        return 0.5
    reach = 1.0
    while log_odds(-reach) > 0 or log_odds(reach) < 0:
        reach *= 2
        if reach > 1e6:  # far beyond the log-odds of the smallest float64
            return 0.0 if c > 0 else 1.0
    return float(expit(brentq(log_odds, -reach, reach, xtol=1e-12)))
