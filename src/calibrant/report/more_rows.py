"""Whether more calibration rows would help: a learning curve, and what it says in words."""

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone

from calibrant.calibrator import Calibrator
from calibrant.calibrators import AutoCalibration
from calibrant.errors import CalibrationWarning
from calibrant.notices import held_back
from calibrant.plots.learning_curve import LearningCurve, learning_curve
from calibrant.report.contents import LearningNumbers
from calibrant.report.figures import figure
from calibrant.report.plain import numbers
from calibrant.report.rows import Rows
from calibrant.report.trial import Trial
from calibrant.wording import counted

__all__ = ["learning_numbers", "takes_long"]

# A share of the loss that is not worth speaking of.
LITTLE = 0.005


def learning_numbers(
    trial: Trial, sample: Rows, n_rows: int, cv: Any, level: float, random_state: int
) -> tuple[LearningNumbers | None, str]:
    """Return the learning curve of the chosen method on the sample, and what it says; without one, why there is none."""
    if trial.chosen is None or trial.calibrator is None:
        return None, ""
    name = trial.chosen.name
    if takes_long(trial):
        return (
            None,
            f"A learning curve of {name} takes long and was not computed; see calibrant.plots.learning_curve.",
        )
    if not isinstance(cv, int):
        return (
            None,
            "There is no learning curve, since it needs a number of folds, and cv gives the splits themselves.",
        )
    method = clone(trial.calibrator) if isinstance(trial.calibrator, Calibrator) else trial.calibrator
    try:
        with held_back(), warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)  # of intervals without width or end
            curve = learning_curve(
                sample.labels,
                sample.predictions,
                method=method,
                cv=cv,
                sample_weight=sample.weights,
                groups=sample.groups,
                level=level,
                random_state=random_state,
            )
    except ValueError as error:
        return None, f"There is no learning curve: {error}"
    if np.isfinite(curve.loss).sum() < 2:
        return None, _too_few(curve, sample)
    said = _in_words(curve, n_rows)
    found = LearningNumbers(
        method=name,
        sizes=tuple(curve.sizes.tolist()),
        loss=numbers(curve.loss),
        low=numbers(curve.low),
        high=numbers(curve.high),
        uncalibrated=float(curve.uncalibrated),
        sentence=said,
    )
    return found, said


def _too_few(curve: LearningCurve, sample: Rows) -> str:
    if curve.notes:
        return f"There is no learning curve, since fits to parts of the rows failed: {curve.notes[0].rstrip('.')}."
    return (
        f"There is no learning curve: the folds leave {counted(int(curve.sizes[-1]), 'row')} of {sample.n_rows} to learn "
        "from, too few to take half of them."
    )


def takes_long(trial: Trial) -> bool:
    """Tell whether the chosen method holds rows out itself, so that a curve of many fits would take minutes."""
    return trial.calibrator == "auto" or isinstance(trial.calibrator, AutoCalibration)


def _in_words(curve: LearningCurve, n_rows: int) -> str:
    now, twice, tenfold = (curve.expected(times * n_rows)[0] for times in (1, 2, 10))
    by_twice, by_tenfold = now - twice, now - tenfold
    # Methods that shrink less with more rows gain more than the curve of a fixed number of parameters says.
    law = "by the curve a + b / n through these points, a rough guide"
    if not np.isfinite(by_tenfold):
        return "The points are too few to say what more rows would bring."
    if by_tenfold <= 0:
        return (
            f"That more rows would help cannot be seen: over these sizes the log-loss, {figure(now)}, does not fall with "
            "their number."
        )
    if by_tenfold < LITTLE * abs(now):
        return (
            f"More rows would probably help little: ten times as many would lower the log-loss by about "
            f"{figure(by_tenfold, digits=2)}, from {figure(now)}, {law}."
        )
    # Both are b / n times a constant, so that they are as sure as b is.
    unsure = not curve.trend.slope > np.sqrt(curve.trend.covariance[1, 1])
    return (
        f"More rows would help: twice as many would lower the log-loss by about {figure(by_twice, digits=2)}, from "
        f"{figure(now)}, and ten times as many by {figure(by_tenfold, digits=2)}, {law}"
        f"{'; with so few points this is no more than a guess' if unsure else ''}."
    )
