"""Base class of online Platt scaling and online beta calibration."""

from abc import ABC
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import expit

from calibrant.arrays import Matrix, Vector
from calibrant.errors import ParameterError
from calibrant.objective import Family
from calibrant.online.event_stream import (
    clipped_log_odds,
    forecast_columns,
    is_empty,
    kept_by_row,
    parsed_forecasts,
    parsed_outcomes,
)
from calibrant.online.newton_steps import NewtonState, newton_steps
from calibrant.options import check_floor, check_half_life, is_number
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["OnlineLogistic"]


N_PARAMETERS = 3  # fixed in the Newton steps


class OnlineLogistic(ABC):
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

    def predict_proba(self, p: Any) -> Matrix:
        """Return forecasts with the current parameters, (n, 2), without updating them."""
        if is_empty(p):
            return np.empty((0, 2))
        log_odds = clipped_log_odds(parsed_forecasts(p), self.floor)
        return forecast_columns(self._features(log_odds) @ self._newton.theta)

    def update(self, p: Any, y: Any) -> Vector:
        """Process rows in order: forecast each, then update with its outcome; a batch may be empty.

        Forecasts are the first argument, like X in ``fit`` and ``partial_fit``; metrics and :class:`CalibrationMonitor` take
        outcomes first.

        Parameters
        ----------
        p : array of shape (n,), (n, 2), Predictions or float
            Probabilities of the event from the classifier; a single number is one row.
        y : array of shape (n,), int or bool
            Whether the event occurred: 0 and 1, or labels that the predictions name.

        Returns
        -------
        ndarray of shape (n,)
            Probability of the event in every row, as forecast before its outcome was used.
        """
        if is_empty(p, y):
            return np.empty(0)
        predictions = parsed_forecasts(p)
        outcomes = parsed_outcomes(y, predictions)
        self._newton, scores = newton_steps(
            self._newton,
            self._features(clipped_log_odds(predictions, self.floor)),
            outcomes,
            step=self.step,
            radius=self.radius,
            kept=kept_by_row(self.half_life),
            start_curvature=1 / (self.step * self.scale) ** 2,
        )
        self.n_rows += len(outcomes)
        forecasts: Vector = expit(np.clip(scores, -700.0, 700.0))
        return forecasts

    def learn_one(self, p: float, y: Any) -> Self:
        """Update with a single row, and return self."""
        self.update(p, y)
        return self

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
