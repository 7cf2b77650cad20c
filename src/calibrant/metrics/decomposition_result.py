"""Decomposition: the parts of a proper score, and their printed summary."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm as normal

from calibrant.errors import ParameterError
from calibrant.metrics.recalibrated import EventKind
from calibrant.metrics.row_losses import Loss
from calibrant.options import check_level

__all__ = ["Decomposition"]

LOSS_NAMES = {"brier": "Brier score", "log": "log-loss", "spherical": "spherical loss"}
SUBJECT = {
    "confidence": "whether the predicted class is right",
    "classwise": "each class, averaged over classes",
    "positive": "the positive class",
    "full": "all classes together",
}


@dataclass(frozen=True)
class Decomposition:
    """Decomposition of a proper score into calibration, refinement, discrimination and uncertainty.

    ``score = calibration + refinement = calibration - discrimination + uncertainty``.

    Attributes
    ----------
    score : float
        Mean loss of the predictions. The log-loss is infinite if a true class had probability zero.
    calibration : float
        The part that recalibration removes, also called miscalibration or reliability. Negative if recalibration
        increased the loss. Infinite if only the score is infinite, minus infinity if only ``refinement`` is, and
        NaN if both are.
    refinement : float
        Loss after recalibration.
    discrimination : float
        Uncertainty minus refinement; also called resolution.
    uncertainty : float
        Loss of always predicting the base rates of these rows.
    within_bins : float or None
        For ``method="bins"``: the part of ``calibration`` due to score differences within a bin; the rest is the
        classical reliability term. NaN if the losses of the scores and of their bins are both infinite.
    standard_error : float or None
        For ``method="recalibration"``: standard error of ``calibration``, computed as if rows were independent. The
        dependence between folds makes it about a fifth too small where there is nothing to remove. Infinite if
        ``calibration`` is not finite, or if there is only one row.
    loss, kind, method : str
        What was decomposed, and how.
    recalibrated_by : str
        The recalibration method in words.
    n_rows : int
        Number of rows.
    n_refuted, n_refuted_after : int
        Number of rows with an infinite loss, before and after recalibration, because a true class had
        probability zero.

    Examples
    --------
    >>> parts = Decomposition(0.21, 0.02, 0.19, 0.05, 0.24, None, None, "brier", "positive", "isotonic",
    ...                       "isotonic regression on the same rows", 400)
    >>> print(parts)
    Brier score of the positive class: 0.21 = calibration 0.02 + refinement 0.19 = calibration 0.02 -
    discrimination 0.05 + uncertainty 0.24; isotonic regression on the same rows removes 9.52 % of it (400 rows).
    """

    score: float
    calibration: float
    refinement: float
    discrimination: float
    uncertainty: float
    within_bins: float | None
    standard_error: float | None
    loss: Loss
    kind: EventKind
    method: str
    recalibrated_by: str
    n_rows: int
    n_refuted: int = 0
    n_refuted_after: int = 0

    @property
    def share(self) -> float:
        """Fraction of the score that recalibration removes; 0 if the score is 0, NaN if a part is not finite."""
        if not np.isfinite([self.score, self.calibration]).all():
            return float("nan")
        return self.calibration / self.score if self.score else 0.0

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return a normal confidence interval of ``calibration``; for ``method="recalibration"`` only.

        It covers the loss that *this* recalibration removes. Since that is at most what could be removed, the lower
        end is also valid for the true calibration part; the upper end is not.
        """
        check_level(level)
        if self.standard_error is None:
            raise ParameterError(
                "only a decomposition by method='recalibration' has an interval; for other methods, bootstrap the rows."
            )
        if np.isinf(self.standard_error):
            return -np.inf, np.inf
        margin = float(normal.ppf((1 + level) / 2)) * self.standard_error
        return self.calibration - margin, self.calibration + margin

    def __str__(self) -> str:
        rows = "1 row" if self.n_rows == 1 else f"{self.n_rows} rows"
        text = self._infinite() if self.n_refuted or self.n_refuted_after else self._sum()
        return f"{LOSS_NAMES[self.loss]} of {SUBJECT[self.kind]}: {text} ({rows})."

    @property
    def _by(self) -> str:
        return f"{'recalibration by ' if self.method == 'recalibration' else ''}{self.recalibrated_by}"

    def _sum(self) -> str:
        error = self.standard_error
        deviation = "" if error is None or np.isinf(error) else f" (standard error {error:.2g})"
        if self.method == "recalibration" and self.n_rows == 1:
            finding = "one row cannot be cross-fitted, so calibration was not estimated"
        elif self.calibration < 0:
            finding = f"no removable loss found: {self._by} increased it by {-self.calibration:.4g}"
        else:
            finding = f"{self.recalibrated_by} removes {100 * self.share:.3g} % of it"
        inside = "" if self.within_bins is None else f"; {self.within_bins:.4g} of it arises within bins"
        return (
            f"{self.score:.4g} = calibration {self.calibration:.4g}{deviation} + refinement {self.refinement:.4g} "
            f"= calibration {self.calibration:.4g} - discrimination {self.discrimination:.4g} + uncertainty "
            f"{self.uncertainty:.4g}; {finding}{inside}"
        )

    def _infinite(self) -> str:
        advice = "for a finite value clip the zeros to a floor, or use another loss"
        if not self.n_refuted:
            return (
                f"{self.score:.4g}; no removable loss found: {self._by} gives an infinite loss, since "
                f"{self._zeros(self.n_refuted_after)}; use a recalibrator without zeros, or another loss"
            )
        before = f"infinite, since {self._zeros(self.n_refuted)}"
        if self.n_refuted_after:
            return f"{before}; after {self._by}, {self._zeros(self.n_refuted_after)}; calibration is undefined; {advice}"
        return (
            f"{before}; {self._by} leaves refinement {self.refinement:.4g} = uncertainty {self.uncertainty:.4g} - "
            f"discrimination {self.discrimination:.4g}, so calibration is infinite; {advice}"
        )

    def _zeros(self, number: int) -> str:
        truth = "the true class" if self.kind in ("full", "positive") else "the observed outcome"
        verb = "has" if number == 1 else "have"
        return f"{_rows(number)} {verb} probability zero for {truth}"


def _rows(number: int) -> str:
    return "1 row" if number == 1 else f"{number} rows"
