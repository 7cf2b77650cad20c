"""LowerBound: how large a calibration error is at least, and how that was found."""

from dataclasses import dataclass

from calibrant.metrics.bin_errors import Norm
from calibrant.metrics.recalibrated import EventKind

__all__ = ["LowerBound"]

SUBJECT = {
    "confidence": "the predicted class",
    "classwise": "each class, on average over classes",
    "positive": "the positive class",
    "full": "all classes together",
}


@dataclass(frozen=True)
class LowerBound:
    """How large the calibration error is at least.

    Attributes
    ----------
    estimate : float
        Estimate of the calibration error, in expectation not above the true one; slightly negative by chance
        if there is none to be found.
    standard_error : float
        Standard error of the estimate, as if the terms of the rows were independent; see the notes of
        :func:`~calibrant.metrics.calibration_error_lower_bound`.
    limit : float
        One-sided lower confidence limit of the true calibration error, not below 0, which it never is.
    level : float
        Confidence with which the true error is at least ``limit``.
    overconfidence, underconfidence : float or None
        The parts of the estimate from rows whose probability is too extreme and not extreme enough; they add
        up to it. None for ``kind="classwise"`` and ``"full"``.
    kind : str
        Which probabilities the error is about.
    norm : float or "max"
        Norm across classes, for ``kind="full"``.
    recalibrator : str
        What was fitted on the other folds.
    n_folds : int
        Number of folds, at most that of rows; with one row there is nothing to cross-fit.
    n_rows : int
        Number of rows.

    Examples
    --------
    >>> bound = LowerBound(0.03, 0.01, 0.0136, 0.95, 0.04, -0.01, "confidence", 1, "isotonic", 5, 900)
    >>> print(bound)
    Calibration error of the predicted class: at least 0.0136 with 95 % confidence (from folds judged only by
    earlier ones); estimate 0.03, standard error 0.01, of it overconfidence 0.04 and underconfidence -0.01 (mean
    absolute gap to isotonic recalibration fitted on the others of 5 folds; 900 rows).
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
            split = f", of it overconfidence {self.overconfidence:.4g} and underconfidence {self.underconfidence:.4g}"
        gap = (
            "absolute gap"
            if self.kind != "full"
            else f"L{'-max' if self.norm == 'max' else self.norm} distance"
        )
        rows = "1 row" if self.n_rows == 1 else f"{self.n_rows} rows"
        if self.n_folds < 2:
            return f"Calibration error of {SUBJECT[self.kind]}: not estimated, {rows} being too few to cross-fit."
        return (
            f"Calibration error of {SUBJECT[self.kind]}: at least {self.limit:.4g} with {100 * self.level:.4g} % "
            f"confidence (from folds judged only by earlier ones); estimate {self.estimate:.4g}, standard error "
            f"{self.standard_error:.4g}{split} (mean {gap} to {self.recalibrator} recalibration fitted on the "
            f"others of {self.n_folds} folds; {rows})."
        )
