"""When losses of a user are repaired: as soon as no more of their gaps is left than chance explains."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.calibrators.neighbourhood.decision_losses import best_decisions
from calibrant.calibrators.neighbourhood.decision_repairs import Plan, Repair, Repairs
from calibrant.calibrators.neighbourhood.decision_search import MOST_ITERATIONS, still_gains
from calibrant.calibrators.neighbourhood.points import Points

__all__ = ["Evidence", "RepairsUpToChance", "evidence", "repairs_up_to_chance"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

# In squared standard errors. A gap g is one of g^2 - s^2 elsewhere, and of s^2 after a repair: equal at g^2 = 2 s^2.
WORTH_A_REPAIR = 2.0
# A rest of half a standard error adds an eighth to the standard error that remains in any case.
WELL_REPAIRED = 0.25


class Evidence(NamedTuple):
    """How far losses are from their expectation.

    Attributes
    ----------
    gap : float
        Root mean square, over losses, of the difference between mean real and mean expected loss.
    standard_error : float
        That of such differences, in the same way.
    violation : float
        Largest violation of any loss in units of what chance leads to.
    """

    gap: float
    standard_error: float
    violation: float

    def is_within(self, limit: float) -> bool:
        """Tell whether the squared gap is within a limit, in squared standard errors, and the violation explained.

        Chance explains a violation of one, and its square to the same limit if that is above one.
        """
        return self.gap**2 <= limit * self.standard_error**2 and self.violation**2 <= max(limit, 1)


class RepairsUpToChance(NamedTuple):
    """The repairs, and for 0, 1, 2, ... of them gaps, standard errors and violations as in :class:`Evidence`."""

    repairs: list[Repair]
    gaps: Vector
    standard_errors: Vector
    violations: Vector


def evidence(
    seen: Matrix, labels: Matrix, shares: Vector, n_rows: float, matrices: NDArray[np.float64]
) -> Evidence:
    """Compare losses with their expectation, and the violations of their decisions with chance.

    Parameters
    ----------
    seen, labels : ndarray of shape (u, K)
        Different predictions, and the mean labels of the rows that have them.
    shares : ndarray of shape (u,)
        Their shares in the total weight.
    n_rows : float
        Total weight: how many rows there are.
    matrices : ndarray of shape (m, n_decisions, K)
        Losses.

    Examples
    --------
    An error is expected in one row of ten, and found in one of four. Errors cost 1.

    >>> found = evidence(np.array([[0.9, 0.1]]), np.array([[0.75, 0.25]]), np.ones(1), 100.0, 1 - np.eye(2)[np.newaxis])
    >>> round(found.gap, 12), round(found.standard_error**2, 12)       # 0.25 * 0.75 / 100
    (0.15, 0.001875)
    """
    residuals = (labels - seen) * shares[:, np.newaxis]
    # Mean over the rows of a point of || label - prediction ||^2; labels are ones.
    squares = 1 - 2 * np.einsum("jk,jk->j", labels, seen) + np.einsum("jk,jk->j", seen, seen)
    squares *= shares
    gaps, variances, violations = [], [], []
    for losses in matrices:
        parts = best_decisions(seen, losses)
        own = losses[parts.argmax(axis=0)]  # (u, K): what the decision for each row costs in each class
        expected = np.einsum("jk,jk->j", own, seen)
        differences = own - expected[:, np.newaxis]
        of_points = differences * labels
        gap = float(shares @ of_points.sum(axis=1))
        gaps.append(gap)
        differences *= of_points
        variances.append(max(float(shares @ differences.sum(axis=1)) - gap**2, 0.0) / n_rows)
        violation = float(np.linalg.norm(parts @ residuals, axis=1).sum())
        chance = float(np.sqrt(np.maximum(parts @ squares, 0) / n_rows).sum())
        violations.append(violation / chance if chance > 0 else 0.0)
    return Evidence(
        float(np.linalg.norm(gaps) / np.sqrt(len(gaps))), float(np.sqrt(np.mean(variances))), max(violations)
    )


def repairs_up_to_chance(
    points: Points, plan: Plan, losses: NDArray[np.float64], most: int = MOST_ITERATIONS
) -> RepairsUpToChance:
    """Repair until gaps are small beside their standard errors and no violation is above chance.

    None at all where the first gaps are too small for a repair to help with rows not seen. If repairs do not get there,
    those with the least gap are taken.
    """
    on_points = Repairs(points, plan)

    def judged(seen: Matrix) -> Evidence:
        return evidence(seen, on_points.labels, on_points.shares, on_points.n_rows, losses)

    # Predictions that are left alone are not cropped.
    found = [judged(on_points.scores)]
    repairs: list[Repair] = []
    done = found[0].is_within(WORTH_A_REPAIR)
    while not done and len(repairs) < most and still_gains([each.gap for each in found]):
        repair = on_points.next()
        if repair is None:
            break
        repairs.append(repair)
        found.append(judged(plan.view(on_points.scores)))
        done = found[-1].is_within(WELL_REPAIRED)
    wanted = len(repairs) if done else int(np.argmin([each.gap for each in found]))
    gaps, standard_errors, violations = np.array(found).T
    return RepairsUpToChance(repairs[:wanted], gaps, standard_errors, violations)
