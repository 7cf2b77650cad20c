"""PriorEstimate: class shares of rows without labels, and how sure they are."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Vector

__all__ = ["PriorEstimate"]


SHOWN = 30  # how many classes a table lists


@dataclass(frozen=True, eq=False, repr=False)
class PriorEstimate:
    """Shares of the classes among target rows, estimated without their labels.

    Arrays are in the order of the classes; ``print`` gives a table with the most common class first.

    Attributes
    ----------
    classes : ndarray of shape (K,)
        Label of every class.
    prior : ndarray of shape (K,)
        Estimated shares; they sum to one.
    lower, upper : ndarray of shape (K,)
        Limits of a confidence interval for each share on its own.
    source_prior : ndarray of shape (K,)
        Shares that the calibrated predictions stand for.
    level : float
        Confidence of the intervals.
    method : str
        How the shares were estimated.
    n_rows : int
        Target rows.
    total_weight : float
        How many rows they count for: the sum of their weights.
    indistinct : list of list
        Labels of classes that the predictions cannot tell apart: of each such group, only the sum can be relied on.
    p_value : float
        Probability of predictions that are as far from those implied by the shares, if the target is the source with
        other shares of the classes; small if something else has changed. NaN where it was not computed.
    """

    classes: NDArray[Any]
    prior: Vector
    lower: Vector
    upper: Vector
    source_prior: Vector
    level: float
    method: str
    n_rows: int
    total_weight: float
    indistinct: list[list[Any]]
    p_value: float

    @property
    def ratio(self) -> Vector:
        """Share in the target over share in the source, (K,): what each class's probability is multiplied by."""
        return np.asarray(self.prior / self.source_prior)

    @property
    def identifiable(self) -> bool:
        """Whether labelled source rows show that predictions tell all classes apart."""
        return not self.indistinct

    def __repr__(self) -> str:
        return f"PriorEstimate({len(self.classes)} classes, {self.n_rows} rows, {self.method})"

    def __str__(self) -> str:
        lines = [f"{'class':>12s} {'source':>8s} {'target':>8s}   {self.level:.4g} interval"]
        lines += [
            f"{self.classes[place].item()!s:>12s} {self.source_prior[place]:8.4f} {self.prior[place]:8.4f}   "
            f"{self.lower[place]:.4f} to {self.upper[place]:.4f}"
            for place in np.argsort(-self.prior, kind="stable")[:SHOWN].tolist()
        ]
        if len(self.classes) > SHOWN:
            lines.append(f"{'...':>12s} {len(self.classes) - SHOWN} more")
        return "\n".join(lines)
