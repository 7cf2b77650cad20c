"""Errors against a known truth, by integration over a task or as means over rows with true probabilities."""

from collections.abc import Callable
from dataclasses import fields

import numpy as np
from scipy.special import xlogy

from calibrant.arrays import Float64Array
from calibrant.errors import StudyError
from calibrant.predictions import Predictions
from calibrant.space import Space
from calibrant.studies.data_rows import Truth
from calibrant.synthetic import TrueErrors, true_errors
from calibrant.synthetic.level_sets import conditional_sizes
from calibrant.synthetic.task import SyntheticTask

__all__ = ["TRUE", "TRUE_NAMES", "TrueValues"]

TRUE = "true."
TRUE_NAMES = tuple(
    each.name for each in fields(TrueErrors) if each.name not in ("integration_errors", "n_nodes")
)
CELLS = 128
REPLICATES = 8
FEWEST_PER_CELL = 16


class TrueValues:
    """True errors of calibrated predictions by name, computed when first asked for.

    Parameters
    ----------
    predictions : Predictions
        Of the test rows.
    truth : ndarray of shape (n, K), SyntheticTask or None
        A task is integrated over, for which the map is needed; true probabilities of the test rows are averaged over, and
        conditional errors are taken in up to 128 cells of rows with about the same score.
    apply : function or None
        The fitted map.
    """

    def __init__(
        self,
        predictions: Predictions,
        truth: Truth | None,
        apply: Callable[[Predictions], Predictions] | None,
    ) -> None:
        self._predictions, self._truth, self._apply = predictions, truth, apply
        self._values: dict[str, float] | None = None

    def __getitem__(self, name: str) -> float:
        if self._values is None:
            self._values = self._computed()
        if name not in self._values:
            raise StudyError(
                f"true.{name} needs the task that the rows were drawn from, and there are true probabilities of rows alone."
            )
        return self._values[name]

    def _computed(self) -> dict[str, float]:
        truth, apply = self._truth, self._apply
        if truth is None:
            raise StudyError(
                "true errors are known for generated data with a truth alone; leave this measure out."
            )
        if not isinstance(truth, SyntheticTask):
            return _over_rows(self._predictions, truth)
        if apply is None:
            raise StudyError("true errors of a task need one fitted map; use splits of kind given or random.")
        kind = self._predictions.scores.dtype

        def mapped(points: Float64Array) -> Predictions:
            return apply(Predictions.from_probabilities(points.astype(kind)))

        result = true_errors(truth, mapped)
        return {name: float(getattr(result, name)) for name in TRUE_NAMES}


def _over_rows(predictions: Predictions, truth: Float64Array) -> dict[str, float]:
    given = predictions.probabilities.astype(np.float64)
    given /= given.sum(axis=1, keepdims=True)
    if predictions.space is Space.LOGITS:
        logarithms = predictions.log_probabilities.astype(np.float64)
    else:
        with np.errstate(divide="ignore"):
            logarithms = np.log(given)
    difference = given - truth
    own = np.arange(len(given)), given.argmax(axis=1)
    with np.errstate(invalid="ignore"):
        # A zero that is never refuted costs nothing.
        log_loss = float(-np.where(truth > 0, truth * logarithms, 0.0).sum(axis=1).mean())
    squares = float((difference**2).sum(axis=1).mean())
    distance = float(np.abs(difference).sum(axis=1).mean())
    values = {
        "pointwise_confidence": float(np.abs(difference[own]).mean()),
        "pointwise_classwise": distance / truth.shape[1],
        "multiclass": distance,
        "multiclass_l2": float(np.sqrt(squares)),
        "log_loss": log_loss,
        "excess_log_loss": log_loss + float(xlogy(truth, truth).sum(axis=1).mean()),
        "brier_score": squares + 1 - float((truth**2).sum(axis=1).mean()),
        "excess_brier_score": squares,
        "accuracy": float(truth[own].mean()),
        "lost_accuracy": float((truth.max(axis=1) - truth[own]).mean()),
    }
    scalars = np.column_stack([given[own], given])
    gaps = np.column_stack([difference[own], difference])
    sizes = np.array([_sizes(scalar, gap) for scalar, gap in zip(scalars.T, gaps.T, strict=True)])
    values["confidence"], values["confidence_l2"] = (float(number) for number in sizes[0])
    values["classwise"], values["classwise_l2"] = (float(number) for number in sizes[1:].mean(axis=0))
    return values


def _sizes(scalar: Float64Array, difference: Float64Array) -> tuple[float, float]:
    """Return the mean absolute and root mean square expectation of a difference given a scalar."""
    n_rows = len(scalar) - len(scalar) % REPLICATES  # replicates of the same size
    if n_rows < REPLICATES * FEWEST_PER_CELL:
        return float("nan"), float("nan")
    cells = min(CELLS, n_rows // (REPLICATES * FEWEST_PER_CELL))
    weights = np.full(n_rows, 1 / n_rows)
    found = conditional_sizes(scalar[:n_rows].copy(), difference[:n_rows].copy(), weights, REPLICATES, cells)
    return found.absolute, float(np.sqrt(max(0.0, found.squared)))
