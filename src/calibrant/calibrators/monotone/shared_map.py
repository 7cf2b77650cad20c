"""One increasing, piecewise-linear function for the scores of all classes."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.monotone.tempered_scores import (
    Inputs,
    TemperedScores,
    mapped_scores,
    tempered_scores,
)
from calibrant.calibrators.structured.shared_segments import SharedSegments
from calibrant.calibrators.structured.structured_map import StructuredMap
from calibrant.calibrators.structured.structured_penalty import structured_penalty
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.linear_segments import LinearSegments
from calibrant.objective import ArrayRows, Family
from calibrant.predictions import Predictions
from calibrant.solvers import Solution, Status, bounded_newton

__all__ = ["SharedMap", "fit_shared_map"]

FloatArray = NDArray[np.floating]
Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SharedMap:
    r"""Calibrated logits :math:`\varphi(x_k)`, with one increasing function :math:`\varphi` for all classes.

    Attributes
    ----------
    inverse_temperature : float
        What logits are multiplied by before all else.
    knots : ndarray of shape (m - 1,)
        Where the slope changes, on the scale of :func:`~calibrant.calibrators.monotone.tempered_scores.tempered_scores`.
    slopes : ndarray of shape (m,)
        Slopes between the knots, and beyond the outer ones; all one for temperature scaling.
    inputs : {"log-probabilities", "logits"}
        What :math:`\varphi` is a function of.
    solution : Solution
        How the fit went; its ``theta`` are the slopes.
    """

    inverse_temperature: float
    knots: Vector
    slopes: Vector
    inputs: Inputs
    solution: Solution

    def __call__(self, predictions: Predictions) -> FloatArray:
        """Return calibrated logits (n, K), a new array in the float type of the scores.

        They have the order of the scores but for rounding.
        """
        curve = partial(LinearSegments(self.knots).values, self.slopes)
        return mapped_scores(predictions, self.inverse_temperature, self.inputs, curve)


def fit_shared_map(
    data: LabelledPredictions,
    n_segments: int = 6,
    slope_penalty: float = 1.0,
    difference_penalty: float = 1.0,
    inputs: Inputs = "log-probabilities",
) -> SharedMap:
    r"""Fit the slopes of one increasing, piecewise-linear function to the log-loss of calibration rows.

    .. math:: \min_{s \ge \varepsilon} \; \frac1n \Big[ \sum_i \ell\big(\varphi_s(x_i), y_i\big)
              + \lambda \sum_j (s_j - 1)^2 + \mu \sum_j (s_{j+1} - s_j)^2 \Big], \qquad
              x_{ik} = \log \mathrm{softmax}(z_i / T)_k

    Knots are quantiles of all scores, weighted by p (1 - p), so that every segment holds the same share of what rows
    can tell. The problem is convex, and its solution is found by a handful of Newton steps
    from slopes of one, which are temperature scaling; the loss of the calibration rows never ends above that of
    temperature scaling, nor above that of doing nothing.

    Parameters
    ----------
    data : LabelledPredictions
        Calibration rows.
    n_segments : int
        Number of slopes, m; fewer where scores are too few or too equal to be parted by m - 1 knots.
    slope_penalty : float
        Weight :math:`\lambda` of the distance from temperature scaling, in rows.
    difference_penalty : float
        Weight :math:`\mu` of changes from one slope to the next, in rows.
    inputs : {"log-probabilities", "logits"}
        Whether x are logarithms of probabilities, or logits as they come, divided by the temperature.

    Notes
    -----
    Costs O(n K m^2) time per step, about six of them, and O(n K) memory.

    Examples
    --------
    Sure rows are wrong too often and unsure ones are honest; one temperature cannot mend both.

    >>> p = [[0.98, 0.01, 0.01]] * 1000 + [[0.5, 0.3, 0.2]] * 1000
    >>> y = ([0] * 8 + [1, 2]) * 100 + ([0] * 5 + [1] * 3 + [2] * 2) * 100
    >>> data = LabelledPredictions.parse(p, y)
    >>> fitted = fit_shared_map(data)
    >>> Predictions.from_logits(fitted(data.predictions.take([0, 1000]))).probabilities.round(2)
    array([[0.8 , 0.1 , 0.1 ], [0.48, 0.3 , 0.22]])
    """
    data = data.with_counting_weights()
    rows = TemperedScores.of(data, inputs)
    beta = rows.inverse_temperature
    segments = LinearSegments(rows.quantiles(n_segments))
    logit_map = StructuredMap(data.n_classes, SharedSegments(segments, None), None)
    family = Family(
        lambda given: tempered_scores(given, beta, inputs),
        logit_map,
        penalty_in_rows=structured_penalty(logit_map, 0.0, slope_penalty, difference_penalty),
    )
    objective = family.objective(ArrayRows(rows.scores, rows.labels, rows.weights))
    with objective.open():
        found = bounded_newton(objective.second_order, logit_map.identity(), logit_map.lower())
    solution = replace(
        found,
        loss=found.value - objective.penalty.value(found.theta),
        identity_loss=rows.identity_loss,
    )
    if not solution.loss <= rows.identity_loss:
        # Only rounding, or scores too large for their float type, can lead here: slopes of one are no worse.
        beta = 1.0
        solution = replace(
            solution,
            theta=np.ones(segments.n_segments),
            value=rows.identity_loss,
            loss=rows.identity_loss,
            status=Status.IDENTITY,
        )
    return SharedMap(beta, segments.knots, solution.theta, inputs, solution)
