"""Solution: the result of a solver, with a status that tells the user what to do."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import ConvergenceWarning
from calibrant.notices import warn_user

__all__ = ["Solution", "Status"]

ROUNDING = 1e-6  # nats that rounding may leave on the table


class Status(StrEnum):
    """Why a solver stopped, and what to do about it."""

    CONVERGED = "converged"
    AT_BOUND = (
        "the best value lies at the edge of the allowed range: the calibration rows are (nearly) all right, all "
        "wrong or without information, or the scores are of an unusual size; use more rows or other bounds"
    )
    RUNNING_AWAY = (
        "some parameters grow without end while the loss hardly changes, as it happens when rows of a class are "
        "too few or all right; use a stronger penalty, more rows or a method with fewer parameters"
    )
    SEPARATED = (
        "the scores separate the outcomes, so that no map is steep enough; the one of smoothed targets is used, and "
        "more rows would tell"
    )
    OUT_OF_ITERATIONS = (
        "the fit was stopped before its end, which weak penalties and separable rows put far away; use a "
        "stronger penalty, more rows or a method with fewer parameters"
    )
    OUT_OF_PRECISION = (
        "no further progress is possible in this float type; if the scores are of an unusual size, divide them "
        "by a constant first"
    )
    IDENTITY = "the identity is at least as good on the calibration rows, so it is kept"


@dataclass(frozen=True, eq=False)
class Solution:
    """The result of a fit.

    Attributes
    ----------
    theta : ndarray
        Fitted parameters.
    value : float
        Objective at ``theta``: mean loss plus penalty.
    loss : float
        Mean training loss without the penalty.
    identity_loss : float
        Mean loss of the uncalibrated predictions, an upper bound of ``loss``. NaN if it was not computed.
    decrement : float
        Possible further decrease of the value, as predicted by the last step.
    n_iterations, n_evaluations : int
        Steps taken; passes over the data for value and gradient, and for Hessian products.
    status : Status
    """

    theta: NDArray[np.float64]
    value: float
    loss: float
    identity_loss: float
    decrement: float
    n_iterations: int
    n_evaluations: int
    status: Status

    def __setstate__(self, state: dict[str, Any]) -> None:
        # skops stores a member of an enumeration of text as that text.
        vars(self).update(state, status=Status(state["status"]))

    @property
    def converged(self) -> bool:
        """Whether ``theta`` is an optimum to the required or possible precision."""
        if self.status is Status.OUT_OF_PRECISION:
            return self.decrement <= ROUNDING
        return self.status in (Status.CONVERGED, Status.IDENTITY)

    def warn_unless_converged(self, method: str) -> None:
        """Warn if the fit stopped early or at a bound."""
        if not self.converged:
            warn_user(f"{method}: {self.status.value}.", ConvergenceWarning)
