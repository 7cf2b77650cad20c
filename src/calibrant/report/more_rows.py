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
from calibrant.report.plain import number, numbers
from calibrant.report.rows import Rows
from calibrant.report.trial import Trial

__all__ = ["learning_numbers", "takes_long"]

# Each size takes as many fits as there are folds; halving four times tells enough.
N_SIZES, FEWEST_ROWS = 4, 20

# A share of the loss that is not worth speaking of.
LITTLE = 0.005


def learning_numbers(
    trial: Trial, sample: Rows, n_rows: int, cv: Any, level: float, random_state: int
) -> LearningNumbers | None:
    """Return the learning curve of the chosen method on the sample; None where there is none."""
    if trial.chosen is None or trial.calibrator is None or takes_long(trial) or not isinstance(cv, int):
        return None
    method = clone(trial.calibrator) if isinstance(trial.calibrator, Calibrator) else trial.calibrator
    n_train = sample.n_rows - -(-sample.n_rows // min(cv, sample.n_rows))
    largest = int(0.95 * n_train) if sample.groups is not None else n_train
    sizes = [largest >> power for power in range(N_SIZES)]
    sizes = [size for size in sizes if size >= max(FEWEST_ROWS, 2 * sample.n_classes)]
    if len(sizes) < 2:
        return None
    try:
        with held_back(), warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)  # of intervals without width or end
            curve = learning_curve(
                sample.labels,
                sample.predictions,
                method=method,
                sizes=sizes,
                cv=cv,
                sample_weight=sample.weights,
                groups=sample.groups,
                level=level,
                random_state=random_state,
            )
    except ValueError:  # groups or classes leave a fold with fewer rows than the largest size
        return None
    if not np.isfinite(curve.loss).any():
        return None
    return LearningNumbers(
        method=trial.chosen.name,
        sizes=tuple(curve.sizes.tolist()),
        loss=numbers(curve.loss),
        low=numbers(curve.low),
        high=numbers(curve.high),
        uncalibrated=float(curve.uncalibrated),
        sentence=_in_words(curve, n_rows),
    )


def takes_long(trial: Trial) -> bool:
    """Tell whether the chosen method holds rows out itself, so that a curve of many fits would take minutes."""
    return trial.calibrator == "auto" or isinstance(trial.calibrator, AutoCalibration)


def _in_words(curve: LearningCurve, n_rows: int) -> str:
    now, twice, tenfold = (curve.expected(times * n_rows)[0] for times in (1, 2, 10))
    error = number(curve.expected(2 * n_rows)[1])
    by_twice, by_tenfold = now - twice, now - tenfold
    law = "by the curve a + b / n through these points"
    if not np.isfinite(by_tenfold):
        return "The points are too few to say what more rows would bring."
    if by_tenfold <= 0:
        return (
            f"More rows would not help this method: its log-loss, {now:.4g}, does not fall with their number."
        )
    if by_tenfold < LITTLE * abs(now):
        return (
            f"More rows would help little: ten times as many would lower the log-loss by {by_tenfold:.2g}, from "
            f"{now:.4g}, {law}."
        )
    sure = (
        ""
        if error is None or not np.isfinite(error) or error <= by_twice
        else "; this is no more than a guess"
    )
    return (
        f"More rows would help: twice as many would lower the log-loss by {by_twice:.2g}, from {now:.4g}, and ten times "
        f"as many by {by_tenfold:.2g}, {law}{sure}."
    )
