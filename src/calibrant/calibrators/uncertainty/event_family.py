"""Maps of one event, and of every class against the rest: Platt scaling, beta calibration and their like."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import block_diag
from scipy.special import expit, log_expit

from calibrant.calibrators.reductions.event_scores import EventScores
from calibrant.calibrators.reductions.rest import AgainstRest
from calibrant.calibrators.uncertainty.family import (
    Cube,
    Family,
    Labels,
    Matrix,
    Vector,
    without_direction,
)
from calibrant.predictions import Predictions

__all__ = ["EventDesign", "EventFamily", "OneVsRestFamily"]


@dataclass(frozen=True, eq=False)
class EventDesign:
    """Log-odds of an event as a sum of columns times parameters.

    Attributes
    ----------
    columns : callable
        Returns the columns, (n, p), of the scores of an event.
    theta, lower : ndarray of shape (p,)
        Fitted parameters and their lower bounds.
    penalty_hessian : ndarray of shape (p, p)
        Second derivatives of the penalty on the sum of losses.
    penalty_gradient : ndarray of shape (p,)
        First derivatives of it at the fit.
    """

    columns: Callable[[EventScores], Matrix]
    theta: Vector
    lower: Vector
    penalty_hessian: Matrix
    penalty_gradient: Vector

    @classmethod
    def of(
        cls,
        columns: Callable[[EventScores], Matrix],
        theta: Vector,
        lower: Vector,
        penalty: Matrix | None = None,
        centre: Vector | None = None,
        *,
        free: Vector | None = None,
    ) -> Self:
        """Return the design with a penalty of this Hessian around a centre, which may lie anywhere along ``free``."""
        if penalty is None or centre is None:
            return cls(columns, theta, lower, np.zeros((len(theta), len(theta))), np.zeros(len(theta)))
        hessian = penalty if free is None else without_direction(penalty, free)
        return cls(columns, theta, lower, hessian, penalty @ (theta - centre))


class EventFamily(Family):
    """Two classes: u is zero for the first and the log-odds for the second."""

    def __init__(self, design: EventDesign) -> None:
        self.design = design
        self.theta = design.theta
        self.lower = design.lower

    @property
    def n_classes(self) -> int:
        return 2

    def penalty_hessian(self, total_weight: float) -> Matrix:  # noqa: ARG002
        return self.design.penalty_hessian

    def penalty_gradient(self, total_weight: float) -> Vector:  # noqa: ARG002
        return self.design.penalty_gradient

    def features(self, predictions: Predictions) -> Matrix:
        return self.design.columns(EventScores(predictions))

    def gradients(self, features: Any, labels: Labels) -> Matrix:
        residuals = expit(features @ self.theta) - (labels == 1)
        gradients: Matrix = residuals[:, np.newaxis] * features
        return gradients

    def information(self, features: Any, weights: Vector) -> Matrix:
        return _information(features, self.theta, weights)

    def directions(self, features: Any, changes: Matrix) -> Cube:
        moved = np.zeros((len(features), 2, changes.shape[1]))
        np.matmul(features, changes, out=moved[:, 1])
        return moved


class OneVsRestFamily(Family):
    r"""A map of each class against the rest, divided by their sum: :math:`u_k = \ln \sigma(c_k^\top \theta_k)`.

    The K fits are estimates from the same rows, and where one class is found too often another is found too seldom. Their
    errors are taken together, as those of one estimate that solves all K equations: the Hessian has a block for each
    class, the covariance of the gradients has entries between classes as well.
    """

    is_likelihood: ClassVar[bool] = False

    def __init__(self, designs: Sequence[EventDesign]) -> None:
        self.designs = designs
        self.theta = np.concatenate([design.theta for design in designs])
        self.lower = np.concatenate([design.lower for design in designs])

    @property
    def n_classes(self) -> int:
        return len(self.designs)

    def penalty_hessian(self, total_weight: float) -> Matrix:  # noqa: ARG002
        return np.asarray(block_diag(*[design.penalty_hessian for design in self.designs]))

    def penalty_gradient(self, total_weight: float) -> Vector:  # noqa: ARG002
        return np.concatenate([design.penalty_gradient for design in self.designs])

    def features(self, predictions: Predictions) -> list[Matrix]:
        against = AgainstRest(predictions)
        return [
            design.columns(EventScores(against.column(column))) for column, design in enumerate(self.designs)
        ]

    def gradients(self, features: Any, labels: Labels) -> Matrix:
        return np.hstack(
            [
                (expit(columns @ design.theta) - (labels == column))[:, np.newaxis] * columns
                for column, (design, columns) in enumerate(zip(self.designs, features, strict=True))
            ]
        )

    def information(self, features: Any, weights: Vector) -> Matrix:
        whole = np.zeros((self.n_parameters, self.n_parameters))
        for part, design, columns in zip(self._parts, self.designs, features, strict=True):
            whole[part, part] = _information(columns, design.theta, weights)
        return whole

    def expected_squares(self, features: Any, weights: Vector) -> Matrix:
        separate = np.column_stack([expit(log_odds) for log_odds in self._log_odds(features)])
        probabilities = separate / separate.sum(axis=1, keepdims=True)
        # Of labels that follow the map: diag(p) - p p^T between the classes of a row.
        spread = np.hstack([p[:, np.newaxis] * c for p, c in zip(probabilities.T, features, strict=True)])
        whole: Matrix = -(spread.T @ (spread * weights[:, np.newaxis]))
        for part, columns, p in zip(self._parts, features, probabilities.T, strict=True):
            whole[part, part] += columns.T @ (columns * (weights * p)[:, np.newaxis])
        return whole

    def directions(self, features: Any, changes: Matrix) -> Cube:
        return self._by_class(
            features, changes, lambda log_odds, moved: expit(-log_odds)[:, np.newaxis] * moved
        )

    def moved(self, features: Any, changes: Matrix) -> Cube:
        return self._by_class(
            features,
            changes,
            lambda log_odds, moved: (
                log_expit(log_odds[:, np.newaxis] + moved) - log_expit(log_odds)[:, np.newaxis]
            ),
        )

    def _by_class(
        self, features: list[Matrix], changes: Matrix, change_of: Callable[[Vector, Matrix], Matrix]
    ) -> Cube:
        result = np.empty((len(features[0]), len(features), changes.shape[1]))
        log_odds = self._log_odds(features)
        for column, (part, columns) in enumerate(zip(self._parts, features, strict=True)):
            result[:, column] = change_of(log_odds[column], columns @ changes[part])
        return result

    def _log_odds(self, features: list[Matrix]) -> list[Vector]:
        return [columns @ design.theta for columns, design in zip(features, self.designs, strict=True)]

    @cached_property
    def _parts(self) -> list[slice]:
        ends = np.cumsum([len(design.theta) for design in self.designs]).tolist()
        return [slice(end - len(design.theta), end) for end, design in zip(ends, self.designs, strict=True)]


def _information(columns: Matrix, theta: Vector, weights: Vector) -> Matrix:
    log_odds = columns @ theta
    information: Matrix = columns.T @ (
        columns * (weights * expit(log_odds) * expit(-log_odds))[:, np.newaxis]
    )
    return information
