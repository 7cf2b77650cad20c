"""Number of repairs of decision calibration, by cross-validation."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

import numpy as np

from calibrant.arrays import Vector
from calibrant.calibrators.neighbourhood.decision.repairs import Plan, Repairs, SearchEffort, repaired
from calibrant.calibrators.neighbourhood.held_out_losses import PointLosses, uncalibrated_losses
from calibrant.calibrators.neighbourhood.points import Points, cropped
from calibrant.numerics.reductions import standard_error_of_mean
from calibrant.numerics.row_blocks import in_threads

__all__ = ["MOST_ITERATIONS", "HeldOut", "losses_held_out", "losses_without_repairs", "still_gains"]

Loss = Literal["brier", "log"]

MOST_ITERATIONS = 100

# The search ends when this number of repairs together gains less than this share of the held-out loss.
PATIENCE = 6
WORTH_WHILE = 1e-3

# Mean losses that differ by less, relative to their size, are equal.
ROUNDING = 1e-12

# The best number of repairs hardly depends on the effort of each search, but the cost does.
IN_FOLDS = SearchEffort(n_searches=1, precision=1e-3, max_steps=12)


class HeldOut(NamedTuple):
    """Held-out losses after 0, 1, 2, ... repairs.

    Attributes
    ----------
    losses : ndarray of shape (T + 1,)
        Mean loss.
    standard_errors : ndarray of shape (T + 1,)
        Standard error of the difference from the lowest loss; zero for the lowest itself.
    """

    losses: Vector
    standard_errors: Vector

    def smallest_number(self) -> int:
        """Return the smallest number of repairs within one standard error of the lowest loss.

        >>> HeldOut(np.array([0.5, 0.42, 0.4, 0.41]), np.array([0.03, 0.03, 0.0, 0.02])).smallest_number()
        1
        """
        limits = self.losses.min() * (1 + ROUNDING) + self.standard_errors
        return int(np.argmax(self.losses <= limits))


class _Part:
    """Held-out points, repaired like the training points."""

    def __init__(self, train: Points, test: Points, plan: Plan) -> None:
        self.repairs = Repairs(train, plan._replace(effort=IN_FOLDS))
        self.labels = test.labels()
        self.weights = test.weights
        self.scores = test.probabilities.astype(np.float64)
        self.view = plan.view
        self.ended = False

    def repair(self, loss: Loss) -> Vector:
        """Return the losses after another repair."""
        found = None if self.ended else self.repairs.next()
        if found is None:
            self.ended = True
        else:
            repaired(self.scores, found.partition, found.adjustment, self.view)
        given = cropped(self.scores, self.view.crop, self.view.epsilon)
        return _of(loss, PointLosses.of(self.labels, self.weights, given))


def losses_held_out(splits: Iterable[tuple[Points, Points]], plan: Plan, loss: Loss, floor: float) -> HeldOut:
    """Cross-validate the number of repairs.

    All folds proceed together until repairs no longer help, so one pass evaluates all numbers.

    Parameters
    ----------
    splits : iterable of pairs of Points
        Training and test points, of which only the scores and labels are kept.
    plan : Plan
        Settings of the repairs.
    loss : {"brier", "log"}
        Held-out loss.
    floor : float
        Floor for zeros of uncalibrated predictions.
    """
    parts, without_repairs = [], []
    for train, test in splits:
        parts.append(_Part(train, test, plan))
        without_repairs.append(losses_without_repairs(test, plan, loss, floor))
    weights = np.concatenate([part.weights for part in parts])
    losses = [np.concatenate(without_repairs)]
    means = [float(np.average(losses[0], weights=weights))]
    n_numbers = max(part.repairs.scores.size for part in parts)
    while len(means) <= MOST_ITERATIONS and still_gains(means):
        after = in_threads(lambda part: part.repair(loss), parts, n_numbers)
        if all(part.ended for part in parts):
            break
        losses.append(np.concatenate(after))
        means.append(float(np.average(losses[-1], weights=weights)))
    # Losses of a point are correlated between numbers of repairs, so standard errors are of differences.
    lowest = losses[int(np.argmin(means))]
    errors = [standard_error_of_mean(of_number - lowest, weights) for of_number in losses]
    return HeldOut(np.array(means), np.array(errors))


def losses_without_repairs(points: Points, plan: Plan, loss: Loss, floor: float) -> Vector:
    """Return the losses of uncalibrated points, with the better treatment of zeros.

    For log-loss zeros are raised to the floor or cropped, for the Brier score predictions are cropped or not: a repair
    must not gain merely by cropping.
    """
    if loss == "log":
        return uncalibrated_losses(points, floor, plan.view.crop, plan.view.epsilon).log
    as_given = points.probabilities.astype(np.float64)
    readings = [
        PointLosses.of(points.labels(), points.weights, reading).brier
        for reading in (as_given, cropped(as_given, plan.view.crop, plan.view.epsilon))
    ]
    return min(readings, key=lambda losses: float(losses @ points.weights))


def still_gains(means: list[float]) -> bool:
    """Return whether the last repairs together reduced the loss sufficiently."""
    earlier, last = means[:-PATIENCE], means[-PATIENCE:]
    return not earlier or min(last) < (1 - WORTH_WHILE) * min(earlier)


def _of(loss: Loss, losses: PointLosses) -> Vector:
    return losses.log if loss == "log" else losses.brier
