"""How many repairs are worth while: by points that were held out."""

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

# When so many repairs together gain less than this share of the loss of rows held out, no more are tried.
PATIENCE = 6
WORTH_WHILE = 1e-3

# Mean losses that differ by less, relative to their size, are equal.
ROUNDING = 1e-12

# How many repairs are worth while hardly depends on how thorough each search is, but its cost does.
IN_FOLDS = SearchEffort(n_searches=1, precision=1e-3, max_steps=12)


class HeldOut(NamedTuple):
    """What 0, 1, 2, ... repairs do to points held out.

    Attributes
    ----------
    losses : ndarray of shape (T + 1,)
        Mean loss.
    standard_errors : ndarray of shape (T + 1,)
        Standard error of how far each is above the lowest; zero for the lowest itself.
    """

    losses: Vector
    standard_errors: Vector

    def smallest_number(self) -> int:
        """Return the smallest number of repairs that is not above the lowest loss by more than a standard error.

        >>> HeldOut(np.array([0.5, 0.42, 0.4, 0.41]), np.array([0.03, 0.03, 0.0, 0.02])).smallest_number()
        1
        """
        limits = self.losses.min() * (1 + ROUNDING) + self.standard_errors
        return int(np.argmax(self.losses <= limits))


class _Part:
    """Points that were held out, repaired as the others are."""

    def __init__(self, train: Points, test: Points, plan: Plan) -> None:
        self.repairs = Repairs(train, plan._replace(effort=IN_FOLDS))
        self.labels = test.labels()
        self.weights = test.weights
        self.scores = test.probabilities.astype(np.float64)
        self.view = plan.view
        self.ended = False

    def repair(self, loss: Loss) -> Vector:
        """Return the losses after one more repair."""
        found = None if self.ended else self.repairs.next()
        if found is None:
            self.ended = True
        else:
            repaired(self.scores, found.partition, found.adjustment, self.view)
        given = cropped(self.scores, self.view.crop, self.view.epsilon)
        return _of(loss, PointLosses.of(self.labels, self.weights, given))


def losses_held_out(splits: list[tuple[Points, Points]], plan: Plan, loss: Loss, floor: float) -> HeldOut:
    """Repair all folds but one, one repair after another, and judge each number of repairs by the points of that one.

    All folds go forward together, until for some time no further repair has helped: every number of them is judged in
    one pass.

    Parameters
    ----------
    splits : list of pairs of Points
        To learn from and to judge by.
    plan : Plan
        How to repair.
    loss : {"brier", "log"}
        What to judge by.
    floor : float
        What zeros count as if nothing is done.
    """
    parts = [_Part(train, test, plan) for train, test in splits]
    weights = np.concatenate([part.weights for part in parts])
    losses = [np.concatenate([losses_without_repairs(test, plan, loss, floor) for _, test in splits])]
    means = [float(np.average(losses[0], weights=weights))]
    n_numbers = max(part.repairs.scores.size for part in parts)
    while len(means) <= MOST_ITERATIONS and still_gains(means):
        after = in_threads(lambda part: part.repair(loss), parts, n_numbers)
        if all(part.ended for part in parts):
            break
        losses.append(np.concatenate(after))
        means.append(float(np.average(losses[-1], weights=weights)))
    # Points are hard or easy for any number of repairs alike, so it is differences that tell numbers apart.
    lowest = losses[int(np.argmin(means))]
    errors = [standard_error_of_mean(of_number - lowest, weights) for of_number in losses]
    return HeldOut(np.array(means), np.array(errors))


def losses_without_repairs(points: Points, plan: Plan, loss: Loss, floor: float) -> Vector:
    """Return the losses of points that are left alone, with zeros read in the way that is better for them.

    For log-loss they count as the floor or are cropped, for the Brier score they stay or are cropped: no repair shall
    seem to gain by what cropping does.
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
    """Tell whether the last repairs together were worth while."""
    earlier, last = means[:-PATIENCE], means[-PATIENCE:]
    return not earlier or min(last) < (1 - WORTH_WHILE) * min(earlier)


def _of(loss: Loss, losses: PointLosses) -> Vector:
    return losses.log if loss == "log" else losses.brier
