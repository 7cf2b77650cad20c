"""Whether a larger calibration set would help: a learning curve with a summary in words."""

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

# Limit of the rows of a learning curve, whose intervals are bootstrapped.
MOST_ROWS = 50_000


def learning_numbers(
    trial: Trial, n_rows: int, cv: Any, level: float, random_state: int
) -> tuple[LearningNumbers | None, str]:
    """Return the learning curve of the chosen method with a summary in words, or the reason why there is none.

    Rows and folds are those of the comparison, so the last point equals the log-loss in the table of methods. Large data are
    subsampled, which the summary mentions.
    """
    if trial.chosen is None or trial.calibrator is None:
        return None, ""
    name = trial.chosen.name
    if takes_long(trial):
        return (
            None,
            f"The learning curve of {name} was not computed, since it takes long; use calibrant.plots.learning_curve.",
        )
    if not isinstance(cv, int):
        return (
            None,
            "There is no learning curve, since it needs a number of folds, but cv is a list of splits or a splitter.",
        )
    drawn = drawn_rows(trial.rows, MOST_ROWS, MOST_ROWS * trial.rows.n_classes, random_state)
    sample = trial.rows.take(drawn)
    method = clone(trial.calibrator) if isinstance(trial.calibrator, Calibrator) else trial.calibrator
    try:
        with held_back(), warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)  # about degenerate or infinite intervals
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
    # The loss of the table, which raises zeros only if a true class had one.
    curve = replace(curve, uncalibrated=sample.data.log_loss(reference_of(sample)))
    said = in_words(curve, n_rows, name, trial.helps)
    if drawn is not None:
        said += f" The curve is from a random sample of {sample.n_rows:,} rows, so it differs from the table."
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
        return f"There is no learning curve, since fits to subsets of the rows failed: {curve.notes[0].rstrip('.')}."
    return (
        f"There is no learning curve: the training folds have {counted(int(curve.sizes[-1]), 'row')} of {sample.n_rows}, too "
        "few for smaller subsets."
    )


def takes_long(trial: Trial) -> bool:
    """Return whether the chosen method cross-validates internally, so that the many fits of a curve would take minutes."""
    return trial.calibrator == "auto" or isinstance(trial.calibrator, AutoCalibration)


def in_words(curve: LearningCurve, n_rows: int, name: str, helps: bool) -> str:
    """Return the predicted gain from twice and ten times ``n_rows``, if the points support the fitted curve."""
    now = float(curve.loss[-1])
    by_twice, by_tenfold = (
        curve.expected(n_rows)[0] - curve.expected(times * n_rows)[0] for times in (2, 10)
    )
    if not curve.trend.is_supported or not np.isfinite(now) or by_tenfold > now:
        return f"The learning curve does not allow a prediction of how {name} would do with more rows."
    if by_tenfold < LITTLE * now:
        return (
            f"More rows would hardly improve {name}: ten times as many would lower its log-loss of {figure(now)} by at most "
            f"{percent(by_tenfold / now, 2)}."
            if by_tenfold > 0
            else f"The log-loss of {name}, {figure(now)}, does not fall with the number of rows over these sizes."
        )
    # Methods that regularise less with more rows gain more than this law, which holds for a fixed number of parameters.
    law = "according to a rough fit of a + b / n"
    if helps:
        return (
            f"More rows would improve {name}: twice as many would lower its log-loss of {figure(now)} by about "
            f"{figure(by_twice, digits=2)}, ten times as many by {figure(by_tenfold, digits=2)}, {law}."
        )
    if now - by_tenfold < (1 - LITTLE) * curve.uncalibrated:
        return (
            f"With ten times as many rows {name} may help: its log-loss may fall from {figure(now)} to "
            f"{figure(now - by_tenfold)}, below the {figure(curve.uncalibrated)} of the uncalibrated predictions, {law}."
        )
    return f"Even with ten times as many rows {name} would not beat the uncalibrated predictions, {law}."
