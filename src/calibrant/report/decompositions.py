"""Decompositions of proper scores, before and after calibration."""

from typing import Literal

from calibrant.metrics import decompose
from calibrant.metrics.decomposition import Decomposition as Parts
from calibrant.notices import held_back
from calibrant.report.contents import Decomposition, Estimate
from calibrant.report.plain import number
from calibrant.report.rows import Rows

__all__ = ["decompositions"]

Loss = Literal["log", "brier"]
NAMES: dict[Loss, str] = {"log": "log-loss", "brier": "Brier score"}

# One or two parameters per class; with many classes, where that is slow, a single parameter.
MOST_CLASSES_OF_VECTOR = 20


def decompositions(rows: Rows, after: Rows | None, level: float) -> tuple[Decomposition, ...]:
    """Return the decompositions of log-loss and Brier score, uncalibrated and after calibration.

    Two classes: by isotonic regression on the same rows (CORP), with the loss that cross-validated recalibration removes.
    More classes: by cross-validated recalibration alone. Empty if there are too few rows for cross-validation.
    """
    if rows.n_rows < 10 or rows.n_present < 2:
        return ()
    found = []
    losses: tuple[Loss, ...] = ("log", "brier")
    for loss in losses:
        for stage, some in (("before", rows), ("after", after)):
            if some is not None:
                found.append(_decomposition(some, loss, stage, level))
    return tuple(found)


def _decomposition(rows: Rows, loss: Loss, stage: str, level: float) -> Decomposition:
    held_out = _by_recalibration(rows, loss)
    shown, definition = held_out, f"recalibration by {held_out.recalibrated_by}"
    if rows.n_classes == 2:
        shown = decompose(
            rows.labels,
            rows.predictions,
            sample_weight=rows.weights,
            loss=loss,
            method="isotonic",
            kind="positive",
        )
        definition = f"{shown.recalibrated_by} (CORP); removable: {definition}"
    if rows.groups is not None:
        definition += "; folds do not keep groups together"
    return Decomposition(
        loss=NAMES[loss],
        stage=stage,
        score=shown.score,
        miscalibration=_finite(shown.calibration),
        discrimination=shown.discrimination,
        uncertainty=shown.uncertainty,
        removable=_removable(held_out, level, definition),
        refinement=number(held_out.refinement),
        definition=definition,
    )


def _by_recalibration(rows: Rows, loss: Loss) -> Parts:
    with held_back():
        return decompose(
            rows.labels,
            rows.predictions,
            sample_weight=rows.weights,
            loss=loss,
            method="recalibration",
            kind="positive" if rows.n_classes == 2 else "full",
            recalibrator=_recalibrator(rows.n_classes),
        )


def _recalibrator(n_classes: int) -> str:
    """Return a fast calibrator with few parameters; any choice gives a lower bound on the removable loss."""
    if n_classes == 2:
        return "beta"
    return "shared-vector" if n_classes <= MOST_CLASSES_OF_VECTOR else "temperature"


def _removable(parts: Parts, level: float, definition: str) -> Estimate | None:
    if number(parts.calibration) is None:
        return None
    low, high = parts.interval(level)
    return Estimate(
        f"removable {parts.loss} loss",
        number(parts.calibration),
        number(low),
        number(high),
        level,
        definition,
    )


def _finite(value: float) -> float:
    """Return a component as a number; infinite if it is a difference of infinities."""
    return float("inf") if number(value) is None else value
