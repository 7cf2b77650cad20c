"""How many repairs are worth while: by rows that were held out."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.neighbourhood.crop import cropped
from calibrant.calibrators.neighbourhood.decision_repairs import Plan, Repairs, repaired
from calibrant.calibrators.neighbourhood.points import Points
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.folds import Fold
from calibrant.numerics.threads import in_threads
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["MOST_ITERATIONS", "HeldOut", "losses_held_out", "still_gains"]

Vector = NDArray[np.float64]

MOST_ITERATIONS = 100

# When so many repairs together gain less than this share of the loss of rows held out, no more are tried.
PATIENCE = 10
WORTH_WHILE = 1e-3


class HeldOut(NamedTuple):
    """Mean losses of 0, 1, 2, ... repairs on rows held out, (T + 1,), and their standard errors."""

    losses: Vector
    standard_errors: Vector


class _Part:
    """Rows that were held out, repaired as the others are."""

    def __init__(self, data: LabelledPredictions, fold: Fold, plan: Plan) -> None:
        # How many repairs are worth while hardly depends on how thorough each search is, but its cost does.
        self.repairs = Repairs(
            Points.of(data.take(fold.train_rows, fold.train_weights)), plan._replace(n_searches=1)
        )
        self.test = data.take(fold.test_rows, fold.test_weights)
        self.weights = np.ones(self.test.n_rows) if fold.test_weights is None else fold.test_weights
        self.scores = self.test.predictions.probabilities.astype(np.float64)
        self.plan = plan
        self.ended = False

    def nothing(self, loss: Literal["brier", "log"]) -> Vector:
        """Return the losses of doing nothing."""
        return self.test.row_losses(loss, self.test.predictions.without_zeros())

    def repair(self, loss: Literal["brier", "log"]) -> Vector:
        """Return the losses after one more repair."""
        found = None if self.ended else self.repairs.next()
        if found is None:
            self.ended = True
        else:
            repaired(self.scores, found.partition, found.adjustment, self.plan.view)
        rows = np.maximum(
            cropped(self.scores, self.plan.view.crop, self.plan.view.epsilon), np.finfo(np.float64).tiny
        )
        return self.test.row_losses(loss, Predictions(rows, Space.PROBABILITIES))


def losses_held_out(
    data: LabelledPredictions,
    folds: list[Fold],
    plan: Plan,
    loss: Literal["brier", "log"],
) -> HeldOut:
    """Repair all folds but one, one repair after another, and judge each number of repairs by the rows of that one.

    All folds go forward together, until for some time no further repair has helped: every number of them is judged in
    one pass.
    """
    parts = [_Part(data, fold, plan) for fold in folds]
    weights = np.concatenate([part.weights for part in parts])
    shares = weights / weights.sum()
    losses = [np.concatenate([part.nothing(loss) for part in parts])]
    means = [float(losses[0] @ shares)]
    while len(means) <= MOST_ITERATIONS and still_gains(means):
        after = in_threads(lambda part: part.repair(loss), parts, 64 * data.n_rows * data.n_classes)
        if all(part.ended for part in parts):
            break
        losses.append(np.concatenate(after))
        means.append(float(losses[-1] @ shares))
    centred = np.array(losses) - np.array(means)[:, np.newaxis]
    return HeldOut(np.array(means), np.sqrt(centred**2 @ shares / weights.sum()))


def still_gains(means: list[float]) -> bool:
    """Tell whether the last repairs together were worth while."""
    earlier, last = means[:-PATIENCE], means[-PATIENCE:]
    return not earlier or min(last) < (1 - WORTH_WHILE) * min(earlier)
