"""The constants of the prior of ``AutoCalibration``: what each choice gives on the odd-numbered sets.

For the tasks of ``structured_and_auto_tasks.py``, with several numbers of calibration rows, every candidate is cross-validated
and fitted once, temperatures with several priors. The pool is then formed again for every choice of the constants, and its
log-loss on the test rows compared with that of the uncalibrated predictions: the mean of the logarithm of their ratio, and the
share of tasks made more than 1 % and more than 5 % worse. All of it again for labels redrawn from the predictions, which are
then calibrated. The chosen constants have a small loss among those with little harm. Before that it prints what the population
of classifiers looks like: the best inverse temperatures of the odd-numbered sets, and how often the pool helps, by the number
of classes. Usage::

    python benchmarks/prior_of_automatic_choice.py [--sets odd] [--rows 50 100 300 1000 all] [--seeds 0] [--cache FOLDER]
"""

import argparse
import pickle
import warnings
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from structured_and_auto_report import print_table, share
from structured_and_auto_tasks import DEFAULT_CACHE, TaskKey, task_keys

from calibrant import TemperatureScaling
from calibrant.calibrators.combinators.auto import pool
from calibrant.calibrators.combinators.auto.folds import merged_duplicates, stratified_folds
from calibrant.calibrators.combinators.auto.trials import (
    PRIOR,
    Candidate,
    Trials,
    default_candidates,
    evaluate_candidates,
    families,
    fitted_family,
)
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import held_back

Prior = tuple[float, float] | None
"""Mean and standard deviation of an inverse temperature."""

PRIORS: tuple[Prior, ...] = (PRIOR, None, (0.7, 0.25), (0.7, 1.0), (1.0, 0.5), (0.5, 0.5))

NAMES = (
    "PRIOR_ODDS",
    "POWER_OF_CLASSES",
    "PRIOR_ROWS_OF_TEMPERATURE",
    "PRIOR_ROWS_OF_IDENTITY",
    "PRIOR_ROWS",
)
CHOSEN = tuple(getattr(pool, name) for name in NAMES)


@dataclass(frozen=True)
class Choice:
    """One choice of all constants."""

    constants: tuple[float, ...] = CHOSEN
    prior: Prior = PRIOR

    @classmethod
    def with_one(cls, place: int, value: float) -> "Choice":
        """Return the chosen constants with another value of one of them."""
        return cls((*CHOSEN[:place], value, *CHOSEN[place + 1 :]))

    @property
    def cells(self) -> list[str]:
        prior = "none" if self.prior is None else "{:g} ± {:g}".format(*self.prior)
        return [prior, *(f"{value:g}" for value in self.constants)]


VALUES = [
    (0, 3.0),
    (0, 5.0),
    (0, 20.0),
    (1, 0.0),
    (1, 0.5),
    (2, 0.5),
    (2, 2.0),
    (3, 0.3),
    (4, 0.25),
    (4, 1.0),
]
CHOICES = [
    Choice(),
    *(Choice(prior=prior) for prior in PRIORS[1:]),
    *(Choice.with_one(*one) for one in VALUES),
]
NEGLIGIBLE = 0.02
TINY = 1e-9
LEAST_LOSS = 1e-3  # added to both losses of a ratio


@dataclass(frozen=True, eq=False)
class Measured:
    """Cross-validated losses of the candidates of one task, and the losses of their fits on its test rows."""

    n_classes: int
    trials: Trials
    test_losses: NDArray[np.float64]

    @classmethod
    def of(cls, key: TaskKey, cache: Path) -> "Measured | None":
        """Return the losses of a task; None if it has fewer rows than wanted."""
        path = cache / "candidates_and_priors" / f"{key.name.replace('/', '-')}.pickle"
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
        identity, _, *others = default_candidates(data)
        temperatures = [Candidate(str(prior), TemperatureScaling(prior=prior)) for prior in PRIORS]
        candidates = [identity, *temperatures, *others]
        trials = evaluate_candidates(candidates, data, stratified_folds(5, data), None, data.n_rows)
        losses = {candidates[0].name: test.row_losses("log", test.predictions.without_zeros())}
        with held_back():
            for family in families([trial.candidate for trial in trials.evaluated[1:]]):
                for candidate, fitted in zip(family, fitted_family(family, data), strict=True):
                    losses[candidate.name] = test.row_losses("log", fitted.transform(test.predictions))
        columns = [losses[trial.candidate.name] for trial in trials.evaluated]
        return cls(data.n_classes, trials, np.stack(columns, axis=1))

    def losses(self, prior: Prior) -> tuple[float, float]:
        """Return the mean log-loss of the uncalibrated predictions and of the pool on the test rows."""
        left_out = [str(other) for other in PRIORS if other != prior]
        kept = [trial.candidate.name not in left_out for trial in self.trials.evaluated]
        trials = [trial for trial, one in zip(self.trials.evaluated, kept, strict=True) if one]
        weights = pool.pooled(replace(self.trials, trials=trials), NEGLIGIBLE, self.n_classes).weights
        losses = self.test_losses[:, kept]
        lowest = losses.min(axis=1, keepdims=True)
        pooled = lowest[:, 0] - np.log(np.exp(lowest - losses) @ weights)
        return float(losses[:, 0].mean()), float(pooled.mean())


@contextmanager
def constants(values: tuple[float, ...]) -> Iterator[None]:
    """Use other constants inside."""
    for name, value in zip(NAMES, values, strict=True):
        setattr(pool, name, value)
    try:
        yield
    finally:
        for name, value in zip(NAMES, CHOSEN, strict=True):
            setattr(pool, name, value)


def row_of(choice: Choice, measured: list[Measured]) -> list[str]:
    """Return one row of the table."""
    with constants(choice.constants):
        before, after = np.array([each.losses(choice.prior) for each in measured]).T
    ratio = np.log((after + LEAST_LOSS) / (before + LEAST_LOSS)).mean()
    worse = after / np.maximum(before, LEAST_LOSS) - 1
    return [*choice.cells, f"{100 * ratio:+.2f} %", share(worse > 0.01), share(worse > 0.05)]


def print_population(sets: str, seeds: list[int], cache: Path) -> None:
    """Print mean and standard deviation of the best inverse temperature, by kind of task."""
    best: dict[str, list[float]] = defaultdict(list)
    for key in task_keys(sets):
        if key.seed in seeds:
            task = key.load(cache)
            fitted = TemperatureScaling().fit(task.calibration, task.calibration_labels)
            best[key.kind].append(fitted.inverse_temperature_)
    best["all"] = [value for values in best.values() for value in values]
    rows = [
        [
            kind,
            str(len(values)),
            f"{np.median(values):.2f}",
            f"{np.mean(values):.2f}",
            f"{np.std(values):.2f}",
        ]
        for kind, values in best.items()
    ]
    header = ["tasks", "number", "median β", "mean β", "standard deviation"]
    print_table("Best inverse temperatures with all rows", header, rows)


def print_helpfulness(measured: list[Measured]) -> None:
    """Print how the log-odds that a pool without a share of the identity helps depend on the number of classes."""
    with constants((TINY, *CHOSEN[1:])):
        before, after = np.array([each.losses(PRIOR) for each in measured]).T
    helps = after < before
    log_classes = np.log([[each.n_classes] for each in measured])
    fitted = LogisticRegression(C=1e3).fit(log_classes, helps)
    print(
        f"\nThe pool is better than the identity on {share(helps)} of the tasks; log-odds "
        f"{fitted.intercept_[0]:+.2f} {fitted.coef_[0, 0]:+.2f} log K."
    )


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
    header = ["β", "odds", "power of K", "of the temperature", "of the identity", "of others"]
    header += ["mean log ratio", "> 1 % worse", "> 5 % worse"]
    print_population(arguments.sets, arguments.seeds, arguments.cache)
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
            if not redrawn:
                print_helpfulness(measured)


if __name__ == "__main__":
    main()
