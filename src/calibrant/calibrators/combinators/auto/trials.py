"""Trials: what every candidate says about rows that were held out, within a budget of time."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from calibrant.arrays import Vector
from calibrant.calibrator import Calibrator
from calibrant.calibrators.combinators.auto.stratified_folds import known_rows
from calibrant.calibrators.combinators.chain import Chain
from calibrant.calibrators.structured.structured_scaling import StructuredScaling
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import held_back
from calibrant.numerics.folds import Fold
from calibrant.numerics.reductions import standard_error_of_mean
from calibrant.numerics.row_blocks import in_threads

__all__ = ["IDENTITY", "Candidate", "Trial", "Trials", "chosen_candidates", "default_candidates", "tried"]


IDENTITY = "uncalibrated"

# Factors of the penalties, the strongest and so the simplest map first; chosen, with the other numbers here, on the
# odd-numbered sets of benchmarks/structured_and_auto.py. What is too weak for few rows gets no weight from them.
VECTOR_STRENGTHS: tuple[float, ...] = (10.0, 1.0)
VECTOR_STRENGTHS_OF_TWO: tuple[float, ...] = (10.0, 1.0, 0.1)
MATRIX_STRENGTHS: tuple[float, ...] = (10.0, 3.0, 1.0, 0.3, 0.1)
MOST_CLASSES_OF_MATRIX = 200

ROWS_FOR_ISOTONIC = 2000

# Maps of other shapes. On the same sets they gain nothing over those above, and take most of the time; they may where
# errors have a shape that none of the others can follow.
FURTHER = [
    "ets (loss=log)",
    "spline",
    "shared-vector+isotonic",
    "gp-monotone",
    "pts (loss=log)",
    "temperature+gp",
]
MOST_CLASSES_OF_FURTHER = 200


@dataclass(frozen=True, eq=False)
class Candidate:
    """One map to try.

    Attributes
    ----------
    name : str
        A registry name, with the strength of the penalty where there are several.
    calibrator : Calibrator
        Not fitted.
    """

    name: str
    calibrator: Calibrator

    @property
    def family(self) -> str:
        """What it has in common with candidates that differ in a strength only, or are of the same kind."""
        if isinstance(self.calibrator, StructuredScaling):
            return repr(clone(self.calibrator).set_params(strength=1.0))
        return self.name if isinstance(self.calibrator, Chain) else type(self.calibrator).__name__


def default_candidates(data: LabelledPredictions, *, thorough: bool = False) -> list[Candidate]:
    """Return what suits the number of rows and classes, the cheap and simple first.

    From doing nothing over a temperature and increasing maps that all classes share to terms of every class at several
    strengths of their penalty. With two classes there are the maps of one event instead of matrices. ``thorough`` adds
    slower methods of other shapes.
    """
    n_classes = data.n_classes
    names = [IDENTITY, "temperature", "shared-map"]
    if n_classes == 2:
        names += ["platt", "beta", "quadratic", "piecewise-linear", "piecewise-linear (mixing=0)"]
        names += _at(VECTOR_STRENGTHS_OF_TWO, "shared-vector")
        names += ["isotonic"] if data.total_weight >= ROWS_FOR_ISOTONIC else []
    else:
        names += _at(VECTOR_STRENGTHS, "shared-vector")
        names += _at(MATRIX_STRENGTHS, "shared-matrix") if n_classes <= MOST_CLASSES_OF_MATRIX else []
    if thorough:
        names += FURTHER if n_classes <= MOST_CLASSES_OF_FURTHER else FURTHER[:1]
    return [Candidate(name, _made(name)) for name in names]


def _at(strengths: tuple[float, ...], name: str) -> list[str]:
    return [f"{name} (strength={strength:g})" for strength in strengths]


def _made(name: str) -> Calibrator:
    """Return the calibrator of a name such as ``shared-matrix (strength=0.3)``."""
    from calibrant.registry import make

    registered, _, option = name.removesuffix(")").partition(" (")
    key, _, value = option.partition("=")
    if not key:
        return make(registered)
    return make(registered, **{key: value if value.isalpha() else float(value)})


def chosen_candidates(wanted: Any) -> list[Candidate]:
    """Return the candidates that a user lists, by registry name or as calibrators; the identity is always the first."""
    from calibrant.registry import make

    if isinstance(wanted, str) or not isinstance(wanted, Sequence) or len(wanted) == 0:
        raise ParameterError(
            "candidates must be 'default', 'thorough' or a list of registry names or calibrators such as "
            f"['temperature', 'isotonic'], not {wanted!r}."
        )
    found = [Candidate(IDENTITY, make(IDENTITY))]
    for one in wanted:
        if isinstance(one, str):
            candidate = Candidate(one, make(one))
        elif isinstance(one, Calibrator):
            candidate = Candidate(repr(one), clone(one))
        else:
            raise ParameterError(f"candidates must be registry names or calibrators, but one is {one!r}.")
        if candidate.name not in [other.name for other in found]:
            found.append(candidate)
    return found


Piece = tuple[LabelledPredictions, LabelledPredictions]

LOGGER = logging.getLogger("calibrant")

ALWAYS_TRIED = 2


@dataclass(frozen=True, eq=False)
class Trial:
    """One candidate on all rows held out.

    Attributes
    ----------
    candidate : Candidate
        What was tried.
    losses : ndarray of shape (N,) or None
        Log-loss of every row that was held out, fold after fold; None if it was not tried, or failed.
    seconds : float
        Time of all its fits; candidates that were fitted together share theirs.
    note : str
        Why it was not tried, or what went wrong; empty otherwise.
    """

    candidate: Candidate
    losses: Vector | None
    seconds: float
    note: str = ""


@dataclass(frozen=True, eq=False)
class Trials:
    """All candidates on the same rows held out.

    Attributes
    ----------
    trials : list of Trial
        In the order of the candidates, the simplest first.
    weights : ndarray of shape (N,)
        Weights of the rows held out, fold after fold; with groups they sum to the number of these.
    fold_numbers : ndarray of shape (N,)
        Which fold each of them was held out in.
    units : ndarray of shape (N,)
        Equal for rows of one group, or copies of each other, which are one observation.
    n_observations : ndarray of shape (N,)
        How many equal observations each of them stands for.
    n_mistakes : int
        How many of them the classifier itself gets wrong.
    """

    trials: list[Trial]
    weights: Vector
    fold_numbers: NDArray[np.intp]
    units: NDArray[np.intp]
    n_observations: NDArray[np.intp]
    n_mistakes: int

    def standard_error(self, terms: Vector, rows: Any = slice(None)) -> float:
        """Return the standard error of the weighted mean of some terms, one for each of the chosen rows.

        What is summed over a unit is what varies independently. How the fits themselves would vary with other rows is not in it.
        """
        if not terms.any():
            return 0.0
        _, codes = np.unique(self.units[rows], return_inverse=True)
        weights = self.weights[rows]
        totals = np.bincount(codes, weights).astype(np.float64)
        means = np.bincount(codes, weights * terms) / totals
        numbers = np.ones(len(totals), dtype=np.intp)
        np.maximum.at(numbers, codes, self.n_observations[rows])
        return standard_error_of_mean(np.repeat(means, numbers), np.repeat(totals / numbers, numbers))

    @property
    def judged(self) -> list[Trial]:
        """Those that have losses."""
        return [trial for trial in self.trials if trial.losses is not None]


def tried(
    candidates: Sequence[Candidate],
    data: LabelledPredictions,
    folds: Sequence[Fold],
    time_budget: float | None,
    n_rows: int,
) -> Trials:
    """Fit every candidate to all folds but one and judge it by the rows of that one.

    Structured maps that differ in their strength only are fitted along one path. With a budget, a candidate whose first
    fold says that it would take too long is left out, and so are all that come when the budget is used up; the
    first two, the identity and the one after it, are always tried.

    Parameters
    ----------
    candidates : sequence of Candidate
        The cheap and simple first.
    data : LabelledPredictions
        Calibration rows.
    folds : sequence of Fold
        At least two.
    time_budget : float, optional
        Seconds for all fits together, the last ones on all rows included.
    n_rows : int
        Number of all rows, of which ``data`` may be a sample.
    """
    pieces = [
        (
            data.take(fold.train_rows, fold.train_weights),
            data.take(fold.test_rows, fold.test_weights),
        )
        for fold in folds
    ]
    trials: dict[str, Trial] = {}
    start = perf_counter()
    for number, family in enumerate(_families(candidates)):
        began = perf_counter()
        # The first, which are cheap, are tried in any case.
        left = np.inf if time_budget is None or number < ALWAYS_TRIED else time_budget - (began - start)
        losses, note = _judged(family, pieces, left, n_rows / data.n_rows)
        seconds = perf_counter() - began
        for candidate, own in zip(family, losses, strict=True):
            possible = own is None or bool(np.isfinite(own).all())
            trials[candidate.name] = Trial(
                candidate,
                own if possible else None,
                seconds / len(family),
                note if possible else "left out: it calls impossible what happened",
            )
        LOGGER.info("%s: %.1f s %s", ", ".join(one.name for one in family), seconds, note)
    weights = np.concatenate(
        [np.ones(test.n_rows) if test.weights is None else test.weights for _, test in pieces]
    )
    numbers_of_folds = np.repeat(np.arange(len(pieces)), [test.n_rows for _, test in pieces])
    is_mistake = np.concatenate([test.predictions.predicted != test.labels for _, test in pieces])
    rows = np.concatenate([fold.test_rows for fold in folds])
    if data.groups is None:
        known = known_rows(data, len(folds))
        divided = known.places[rows] > 1
        # Parts of a row in several folds are observations of their own.
        units = known.units[rows] + np.where(divided, 2 * data.n_rows * numbers_of_folds, 0)
        part = weights * (known.counts / known.places / (1.0 if data.weights is None else data.weights))[rows]
        n_observations = np.where(divided, np.round(part * known.places[rows]), 1).astype(np.intp)
    else:
        units = _codes(data.groups)[rows]
        # Many rows of few groups are no more evidence for one candidate than as many rows as there are groups.
        weights *= (units.max() + 1) / weights.sum()
        n_observations = np.ones(len(rows), dtype=np.intp)
    return Trials(
        [trials[candidate.name] for candidate in candidates],
        weights,
        numbers_of_folds,
        units,
        n_observations,
        int(n_observations[is_mistake].sum()),
    )


def _codes(groups: NDArray[Any]) -> NDArray[np.intp]:
    """Return a number for every group."""
    codes: NDArray[np.intp] = np.unique(groups, return_inverse=True)[1]
    return codes


def _judged(
    family: Sequence[Candidate], pieces: Sequence[Piece], seconds_left: float, last_fits: float
) -> tuple[list[Vector] | list[None], str]:
    """Return the losses of every candidate of a family on all rows held out, or none and why there are none."""
    nothing = [None] * len(family)
    if seconds_left <= 0:
        return nothing, "left out: the time budget is used up"
    began = perf_counter()
    try:
        with held_back():
            first = _held_out(family, *pieces[0])
            # As long again for every other fold, and longer for all rows in the end.
            expected = (perf_counter() - began) * (len(pieces) + last_fits)
            if expected > seconds_left:
                return nothing, f"left out: it would take about {expected:.1f} s, longer than what is left"
            train = pieces[0][0]
            rest = in_threads(
                lambda piece: _held_out(family, *piece), pieces[1:], train.n_rows * train.n_classes
            )
    except (ValueError, ArithmeticError, MemoryError) as error:
        # One candidate that cannot be fitted must not keep the user from all others.
        return nothing, f"failed: {error}"
    return [np.concatenate(parts) for parts in zip(first, *rest, strict=True)], ""


def _families(candidates: Sequence[Candidate]) -> list[list[Candidate]]:
    """Return candidates that are fitted together: structured maps that differ in nothing but their strength."""
    families: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        together = isinstance(candidate.calibrator, StructuredScaling)
        families.setdefault(candidate.family if together else candidate.name, []).append(candidate)
    return list(families.values())


def _held_out(
    family: Sequence[Candidate], train: LabelledPredictions, test: LabelledPredictions
) -> list[Vector]:
    """Return the log-loss of every test row for every candidate of a family."""
    if family[0].name == IDENTITY:  # needs no rows to learn from
        return [test.row_losses("log", test.predictions.without_zeros())]
    return [test.row_losses("log", fitted.transform(test.predictions)) for fitted in _fitted(family, train)]


def _fitted(family: Sequence[Candidate], train: LabelledPredictions) -> list[Calibrator]:
    first = family[0].calibrator
    if len(family) > 1 and isinstance(first, StructuredScaling):
        strengths = [candidate.calibrator.strength for candidate in family]
        return list(clone(first).fit_path_labelled(train, strengths, warn_of_absent=False))
    return [clone(candidate.calibrator).fit_labelled(train, warn_of_absent=False) for candidate in family]
