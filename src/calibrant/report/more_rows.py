"""Whether more calibration rows would help: a learning curve, and what it says in words."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from calibrant.calibrator import Calibrator
from calibrant.calibrators import AutoCalibration
from calibrant.comparison.random_folds import random_folds
from calibrant.errors import CalibrationWarning
from calibrant.notices import held_back
from calibrant.plots.learning_curve import LearningCurve, learning_curve
from calibrant.report.baseline import reference_of
from calibrant.report.contents import LearningNumbers
from calibrant.report.figures import figure
from calibrant.report.plain import numbers, percent
from calibrant.report.rows import Rows, drawn_rows
from calibrant.report.trial import LITTLE, Trial
from calibrant.wording import counted

__all__ = ["in_words", "learning_numbers", "takes_long"]

# Rows of a learning curve, whose intervals are resampled.
MOST_ROWS = 50_000


def learning_numbers(
    trial: Trial, n_rows: int, cv: Any, level: float, random_state: int
) -> tuple[LearningNumbers | None, str]:
    """Return the learning curve of the chosen method, and what it says; without one, why there is none.

    Its rows and folds are those of the trial, so that its last point is the log-loss that the table of methods shows. Of very
    many rows it takes a part, and says so.
    """
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
    drawn = drawn_rows(trial.rows, MOST_ROWS, MOST_ROWS * trial.rows.n_classes, random_state)
    sample = trial.rows.take(drawn)
    method = clone(trial.calibrator) if isinstance(trial.calibrator, Calibrator) else trial.calibrator
    try:
        with held_back(), warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)  # of intervals without width or end
            curve = learning_curve(
                sample.labels,
                sample.predictions,
                method=method,
                cv=[
                    (fold.train_rows, fold.test_rows) for fold in random_folds(cv, sample.data, random_state)
                ],
                sample_weight=sample.weights,
                groups=sample.groups,
                level=level,
                random_state=random_state,
            )
    except ValueError as error:
        return None, f"There is no learning curve: {error}"
    if np.isfinite(curve.loss).sum() < 2:
        return None, _too_few(curve, sample)
    # The loss of the table, which raises zeros only where they were refuted.
    curve = replace(curve, uncalibrated=sample.data.log_loss(reference_of(sample)))
    said = in_words(curve, n_rows, name, trial.helps)
    if drawn is not None:
        said += f" The curve is of {sample.n_rows:,} rows drawn at random, so that its numbers are not those of the table."
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


def in_words(curve: LearningCurve, n_rows: int, name: str, helps: bool) -> str:
    """Return what ``n_rows`` times two and ten would bring; nothing that the points do not bear."""
    now = float(curve.loss[-1])
    by_twice, by_tenfold = (
        curve.expected(n_rows)[0] - curve.expected(times * n_rows)[0] for times in (2, 10)
    )
    if not curve.trend.is_supported or not np.isfinite(now) or by_tenfold > now:
        return f"These points do not tell how {name} would do with more rows."
    if by_tenfold < LITTLE * now:
        return (
            f"More rows would hardly change {name}: ten times as many would lower its log-loss, {figure(now)}, by "
            f"{percent(by_tenfold / now, 2)} at most."
            if by_tenfold > 0
            else f"Over these sizes the log-loss of {name}, {figure(now)}, does not fall with the number of rows."
        )
    # Methods that shrink less with more rows gain more than the curve of a fixed number of parameters says.
    law = "by the curve a + b / n through these points, a rough guide"
    if helps:
        return (
            f"More rows would help {name}: twice as many would lower its log-loss, {figure(now)}, by about "
            f"{figure(by_twice, digits=2)}, and ten times as many by {figure(by_tenfold, digits=2)}, {law}."
        )
    if now - by_tenfold < (1 - LITTLE) * curve.uncalibrated:
        return (
            f"With ten times as many rows {name} may help: its log-loss may fall from {figure(now)} to "
            f"{figure(now - by_tenfold)}, below the {figure(curve.uncalibrated)} of the predictions as given, {law}."
        )
    return f"Ten times as many rows would not make {name} better than the predictions as given, {law}."
