"""The fit behind parameterized temperature scaling."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.scaling.row_temperature_inputs import Inputs, StandardInputs, row_inputs
from calibrant.calibrators.scaling.row_temperature_links import TemperatureLink
from calibrant.calibrators.scaling.row_temperature_losses import row_losses
from calibrant.calibrators.scaling.row_temperature_map import RowTemperatureMap
from calibrant.calibrators.scaling.row_temperatures import TOLERANCE, RowTemperatures, lowest_valley
from calibrant.calibrators.scaling.temperature_fit import bounded_steepness, fit_inverse_temperature
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.dense_network import DenseNetwork
from calibrant.numerics.reductions import row_maxima
from calibrant.solvers import Solution, Status

__all__ = ["RowTemperatureFamily"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# For logits of any size that is not absurd.
SINGLE_BOUNDS = (1e-6, 1e6)

# Of more rows than this, a sample tells which start is the best.
MANY_ROWS = 20_000
SAMPLE_ROWS = 5_000

GOLDEN = (5**0.5 - 1) / 2  # no simple fraction, so that regular rows are scrambled too


@dataclass(frozen=True, eq=False)
class RowTemperatureFamily:
    """Maps to choose from, and how one is chosen.

    Attributes
    ----------
    kind : {"gaps", "logits", "entropy"}
        What of a row is looked at.
    top_k : int
        How many of the largest scores are.
    network : DenseNetwork
        From inputs to one output.
    link : TemperatureLink
        From outputs to multiples of the single temperature.
    loss : {"log", "brier"}
        What is minimised.
    starts : sequence of ndarray
        Parameters from which a search begins, each with the single temperature for every row.
    max_iterations : int
        Steps of one search at the most.
    """

    kind: Inputs
    top_k: int
    network: DenseNetwork
    link: TemperatureLink
    loss: Literal["log", "brier"]
    starts: Sequence[Vector]
    max_iterations: int

    def fitted(self, data: LabelledPredictions, weight_decay: float) -> tuple[RowTemperatureMap, Solution]:
        """Return the best map that was found for these rows, and how the search went.

        Where rows are all right there is no best single temperature, and temperatures are multiples of 1 instead.
        """
        single = fit_inverse_temperature(data, self.loss, SINGLE_BOUNDS)
        # The squared error of rows that are all right reaches zero, to all digits, well within bounds.
        all_right = _all_right(data)
        beta = 1.0 if all_right else bounded_steepness(single)
        inputs = row_inputs(data.predictions, self.kind, self.top_k, beta)
        standard = StandardInputs.of(inputs, data.weights)
        inputs = standard(inputs)
        objective = self._objective(data, inputs, beta, weight_decay)
        sample = None
        if data.n_rows > MANY_ROWS:
            rows = _sample(inputs, data)
            sample = self._objective(data.take(rows), inputs[rows], beta, weight_decay)
        valley = lowest_valley(objective, self.starts, self.max_iterations, sample)

        def with_parameters(theta: Vector) -> RowTemperatureMap:
            return RowTemperatureMap(beta, self.kind, self.top_k, standard, self.network, theta, self.link)

        found = with_parameters(valley.theta)
        loss = self._mean_loss(data, found)
        of_single = single.identity_loss if beta == 1.0 else single.loss
        at_bound = all_right or single.status is Status.AT_BOUND
        theta, status = valley.theta, Status.AT_BOUND if at_bound else valley.status
        if loss > of_single:
            # Rounding of tables and of float32 only: the search itself ends no higher than the single temperature.
            theta = np.zeros_like(theta)
            found, loss = with_parameters(theta), of_single
        decayed = theta[self.network.is_weight]
        return found, Solution(
            theta=theta,
            value=loss + weight_decay * float(decayed @ decayed),
            loss=loss,
            identity_loss=single.identity_loss,
            decrement=TOLERANCE,
            n_iterations=valley.n_iterations,
            n_evaluations=valley.n_evaluations + single.n_evaluations,
            status=status,
        )

    def _objective(
        self, data: LabelledPredictions, inputs: Matrix, beta: float, weight_decay: float
    ) -> RowTemperatures:
        start, limits = -float(np.log(beta)), self.link.limits
        return RowTemperatures(
            network=self.network,
            link=self.link,
            inputs=inputs,
            losses=row_losses(data, self.loss, (start + limits[0], start + limits[1])),
            start=start,
            weight_decay=weight_decay,
            weights=data.weights,
        )

    def _mean_loss(self, data: LabelledPredictions, found: RowTemperatureMap) -> float:
        calibrated = found(data.predictions)
        return data.log_loss(calibrated) if self.loss == "log" else data.squared_error(calibrated)


def _all_right(data: LabelledPredictions) -> bool:
    scores = data.predictions.scores
    return bool((scores[np.arange(data.n_rows), data.labels] == row_maxima(scores)).all())


def _sample(inputs: Matrix, data: LabelledPredictions) -> NDArray[np.intp]:
    """Return :data:`SAMPLE_ROWS` rows, the same whatever the order of the rows and of the classes."""
    # Digits far behind the point are as good as random, and belong to what a row holds.
    scrambled = inputs.sum(axis=1) * (1e4 * GOLDEN) % 1.0
    # Rows with equal inputs, such as saturated ones, are not to come all or none: their labels and weights number them.
    scores = data.predictions.scores
    of_labels = scores[np.arange(data.n_rows), data.labels]
    order = np.lexsort(
        (of_labels, scrambled) if data.weights is None else (data.weights, of_labels, scrambled)
    )
    place = np.arange(data.n_rows)
    is_first = np.append(True, np.diff(scrambled[order]) > 0)
    number = place - np.maximum.accumulate(np.where(is_first, place, 0))
    scrambled[order] = (scrambled[order] + number * GOLDEN) % 1.0
    return np.sort(np.argpartition(scrambled, SAMPLE_ROWS)[:SAMPLE_ROWS])
