"""LowerBound: a lower confidence bound on the calibration error, and its printed summary."""

from dataclasses import dataclass

from calibrant.metrics.bin_errors import Norm
from calibrant.metrics.recalibrated import EventKind

__all__ = ["LowerBound"]

SUBJECT = {
    "confidence": "the predicted class",
    "classwise": "each class, averaged over classes",
    "positive": "the positive class",
    "full": "all classes together",
}


@dataclass(frozen=True)
class LowerBound:
    """Lower confidence bound on the calibration error, with its estimate.

    Attributes
    ----------
    estimate : float
        Estimate of the calibration error, in expectation at most the true one; it may be slightly negative
        if predictions are calibrated.
    standard_error : float
        Standard error of the estimate, computed as if the terms of the rows were independent; see the notes of
        :func:`~calibrant.metrics.calibration_error_lower_bound`.
    limit : float
        One-sided lower confidence bound on the true calibration error, at least 0.
    level : float
        Confidence level of ``limit``.
    overconfidence, underconfidence : float or None
        The parts of the estimate from rows whose probability is too extreme and not extreme enough; they add
        up to it. None for ``kind="classwise"`` and ``"full"``.
    kind : str
        Which probabilities were assessed.
    norm : float or "max"
        Norm across classes, for ``kind="full"``.
    recalibrator : str
        Calibrator that was fitted on the other folds.
    n_folds : int
        Number of folds, at most the number of rows; one row cannot be cross-fitted.
    n_rows : int
        Number of rows.

    Examples
    --------
    >>> bound = LowerBound(0.03, 0.01, 0.0136, 0.95, 0.04, -0.01, "confidence", 1, "isotonic", 5, 900)
    >>> print(bound)
    Calibration error of the predicted class: at least 0.0136 with 95 % confidence (one-sided bound from sequential
    folds); estimate 0.03, the sum of overconfidence 0.04 and underconfidence -0.01; standard error 0.01 (mean absolute
    gap to isotonic recalibration, cross-fitted with 5 folds; 900 rows).
    """

    estimate: float
    standard_error: float
    limit: float
    level: float
    overconfidence: float | None
    underconfidence: float | None
    kind: EventKind
    norm: Norm
    recalibrator: str
    n_folds: int
    n_rows: int

    def __str__(self) -> str:
        split = ""
        if self.overconfidence is not None:
            split = f", the sum of overconfidence {self.overconfidence:.4g} and underconfidence {self.underconfidence:.4g}"
        gap = (
            "absolute gap"
            if self.kind != "full"
            else f"L{'-max' if self.norm == 'max' else self.norm} distance"
        )
        rows = "1 row" if self.n_rows == 1 else f"{self.n_rows} rows"
        if self.n_folds < 2:
            return f"Calibration error of {SUBJECT[self.kind]}: not estimated, since {rows} cannot be cross-fitted."
        return (
            f"Calibration error of {SUBJECT[self.kind]}: at least {self.limit:.4g} with {100 * self.level:.4g} % "
            f"confidence (one-sided bound from sequential folds); estimate {self.estimate:.4g}{split}; standard error "
            f"{self.standard_error:.4g} (mean {gap} to {self.recalibrator} recalibration, cross-fitted with "
            f"{self.n_folds} folds; {rows})."
        )
