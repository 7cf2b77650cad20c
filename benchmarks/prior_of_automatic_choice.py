"""The constants of the prior of ``AutoCalibration``: what each choice gives on the odd-numbered sets.

For the tasks of ``structured_and_auto_tasks.py``, with several numbers of calibration rows, every candidate is cross-validated
and fitted once. The pool is then formed again for every choice of the constants ``PRIOR_LOG_ODDS``, ``PRIOR_ROWS`` and
``PRIOR_ROWS_OF_IDENTITY``, and its log-loss on the test rows compared with that of the uncalibrated predictions: the mean of the
logarithm of their ratio, and the share of tasks made more than 1 % and more than 5 % worse. All of it again for labels
redrawn from the predictions, which are then calibrated. The chosen constants have a small loss among those with little harm.
Usage::

    python benchmarks/prior_of_automatic_choice.py [--sets odd] [--rows 50 100 300 1000 all] [--seeds 0] [--cache FOLDER]
"""

import argparse
import pickle
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from structured_and_auto_report import print_table, share
from structured_and_auto_tasks import DEFAULT_CACHE, TaskKey, task_keys

from calibrant.calibrators.combinators import auto
from calibrant.calibrators.combinators.auto.folds import merged_duplicates, stratified_folds
from calibrant.calibrators.combinators.auto.trials import (
    Trials,
    default_candidates,
    evaluate_candidates,
    families,
    fitted_family,
)
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import held_back

NAMES = ("PRIOR_LOG_ODDS", "PRIOR_ROWS", "PRIOR_ROWS_OF_IDENTITY")
CHOSEN = tuple(getattr(auto, name) for name in NAMES)
NO_PRIOR_PROBABILITY = (-np.inf, 0.3, 1.0)  # a pool with the identity as one of its components
CHOICES = [
    CHOSEN,
    NO_PRIOR_PROBABILITY,
    *[(log_odds, *CHOSEN[1:]) for log_odds in (0.0, 1.0, 2.0)],
    *[(CHOSEN[0], rows, CHOSEN[2]) for rows in (0.1, 0.3, 1.0)],
    *[(*CHOSEN[:2], rows) for rows in (0.1, 1.0)],
]
NEGLIGIBLE = 0.02
LEAST_LOSS = 1e-3  # added to both losses of a ratio


@dataclass(frozen=True, eq=False)
class Measured:
    """Cross-validated losses of the candidates of one task, and the losses of their fits on its test rows."""

    trials: Trials
    test_losses: NDArray[np.float64]

    @classmethod
    def of(cls, key: TaskKey, cache: Path) -> "Measured | None":
        """Return the losses of a task; None if it has fewer rows than wanted."""
        path = cache / "candidates" / f"{key.name.replace('/', '-')}.pickle"
        if path.exists():
            with path.open("rb") as file:
                found: Measured | None = pickle.load(file)
            return found
        task = key.load(cache)
        measured = None
        if key.rows is None or task.calibration.n_rows == key.rows:
            data = LabelledPredictions.parse(task.calibration, task.calibration_labels)
            measured = cls._measured(
                merged_duplicates(data.with_counting_weights()),
                replace(
                    data, predictions=task.test.with_floor(data.predictions.floor), labels=task.test_labels
                ),
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            pickle.dump(measured, file)
        return measured

    @classmethod
    def _measured(cls, data: LabelledPredictions, test: LabelledPredictions) -> "Measured":
        candidates = default_candidates(data)
        trials = evaluate_candidates(candidates, data, stratified_folds(5, data), None, data.n_rows)
        losses = {candidates[0].name: test.row_losses("log", test.predictions.without_zeros())}
        with held_back():
            for family in families([trial.candidate for trial in trials.evaluated[1:]]):
                for candidate, fitted in zip(family, fitted_family(family, data), strict=True):
                    losses[candidate.name] = test.row_losses("log", fitted.transform(test.predictions))
        columns = [losses[trial.candidate.name] for trial in trials.evaluated]
        return cls(trials, np.stack(columns, axis=1))

    def losses(self) -> tuple[float, float]:
        """Return the mean log-loss of the uncalibrated predictions and of the pool on the test rows."""
        weights = auto.pooled(self.trials, NEGLIGIBLE).weights
        lowest = self.test_losses.min(axis=1, keepdims=True)
        pool = lowest[:, 0] - np.log(np.exp(lowest - self.test_losses) @ weights)
        return float(self.test_losses[:, 0].mean()), float(pool.mean())


@contextmanager
def constants(values: tuple[float, ...]) -> Iterator[None]:
    """Use other constants inside."""
    for name, value in zip(NAMES, values, strict=True):
        setattr(auto, name, value)
    try:
        yield
    finally:
        for name, value in zip(NAMES, CHOSEN, strict=True):
            setattr(auto, name, value)


def row_of(choice: tuple[float, ...], measured: list[Measured]) -> list[str]:
    """Return one row of the table."""
    with constants(choice):
        before, after = np.array([each.losses() for each in measured]).T
    ratio = np.log((after + LEAST_LOSS) / (before + LEAST_LOSS)).mean()
    worse = after / np.maximum(before, LEAST_LOSS) - 1
    numbers = [f"{value:g}" for value in choice]
    return [*numbers, f"{100 * ratio:+.2f} %", share(worse > 0.01), share(worse > 0.05)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", choices=["odd", "even", "all"], default="odd")
    parser.add_argument("--rows", nargs="+", default=["50", "100", "300", "1000", "all"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    header = ["log-odds", "pseudo-counts", "of the identity", "mean log ratio", "> 1 % worse", "> 5 % worse"]
    for rows in arguments.rows:
        for redrawn in (False, True):
            keys = [
                replace(key, rows=None if rows == "all" else int(rows), redrawn=redrawn)
                for key in task_keys(arguments.sets)
                if key.seed in arguments.seeds
            ]
            found = [Measured.of(key, arguments.cache) for key in keys]
            measured = [each for each in found if each is not None]
            title = f"{rows} rows, {'redrawn' if redrawn else 'observed'} labels, {len(measured)} tasks"
            print_table(title, header, [row_of(choice, measured) for choice in CHOICES])


if __name__ == "__main__":
    main()
