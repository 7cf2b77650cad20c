"""Trials: cross-validated losses of all candidates, within a time budget."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from calibrant.arrays import Vector
from calibrant.calibrator import Calibrator
from calibrant.calibrators.combinators.auto.folds import row_groups
from calibrant.calibrators.combinators.chain import Chain
from calibrant.calibrators.combinators.identity import Identity
from calibrant.calibrators.scaling.temperature import TemperatureScaling
from calibrant.calibrators.structured.structured_rows import NearbyPath
from calibrant.calibrators.structured.structured_scaling import StructuredScaling
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import held_back
from calibrant.numerics.folds import Fold
from calibrant.numerics.reductions import standard_error_of_mean
from calibrant.numerics.row_blocks import in_threads
from calibrant.objective import RowSource

__all__ = [
    "GIVEN_UP",
    "IDENTITY",
    "STEPS",
    "Candidate",
    "Trial",
    "Trials",
    "chosen_candidates",
    "default_candidates",
    "evaluate_candidates",
    "families",
    "fitted_family",
]


IDENTITY = "uncalibrated"

# Regularisation strengths, the strongest (simplest map) first. All numbers here were chosen on the odd-numbered sets of
# benchmarks/structured_and_auto.py. Strengths that are too weak for a small calibration set get no weight in the pool, and
# from many rows on a weaker one pays.
VECTOR_STRENGTHS: tuple[float, ...] = (10.0, 1.0)
VECTOR_STRENGTHS_OF_TWO: tuple[float, ...] = (10.0, 1.0, 0.1)
MATRIX_STRENGTHS: tuple[float, ...] = (10.0, 1.0, 0.1)
WEAK_STRENGTH, ROWS_FOR_WEAK_STRENGTH = 0.01, 1000
MOST_CLASSES_OF_MATRIX = 200

# Mean and standard deviation of the prior of an inverse temperature: most classifiers are over-confident. Chosen by
# benchmarks/prior_of_automatic_choice.py.
PRIOR = (0.7, 0.5)

# Step functions, one per class, for scores of odd shapes.
STEPS = ("isotonic", "isotonic-centered")
ROWS_FOR_STEPS, MOST_CLASSES_OF_STEPS = 1000, 20

# Maps of other shapes. On the same sets they gain nothing over those above and take most of the time. They may gain
# where none of the others fits the shape of the errors.
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
    """One candidate map.

    Attributes
    ----------
    name : str
        A registry name, with the regularisation strength where there are several.
    calibrator : Calibrator
        Unfitted.
    """

    name: str
    calibrator: Calibrator

    @property
    def family(self) -> str:
        """Key that is equal for candidates of the same class, or for structured maps that differ only in strength."""
        if isinstance(self.calibrator, StructuredScaling):
            return repr(clone(self.calibrator).set_params(strength=1.0))
        return self.name if isinstance(self.calibrator, Chain) else type(self.calibrator).__name__


def default_candidates(data: LabelledPredictions | RowSource, *, thorough: bool = False) -> list[Candidate]:
    """Return the default candidates for the number of rows and classes, in order of cost and complexity.

    They range from the identity, a temperature with a prior and an increasing map shared by all classes to class-wise terms
    at several regularisation strengths. Two classes have binary maps instead of matrices. ``thorough`` adds slower methods
    of other shapes.
    """
    n_classes, n_rows = data.n_classes, data.total_weight
    n_observed = int((data.class_weights > 0).sum())  # the class terms of the others are not fitted
    names = ["shared-map"]
    if n_classes == 2:
        names += ["platt", "beta", "quadratic", "piecewise-linear", "piecewise-linear (mixing=0)"]
        names += _at(VECTOR_STRENGTHS_OF_TWO, "shared-vector")
    else:
        names += _at(VECTOR_STRENGTHS, "shared-vector")
        weak = (WEAK_STRENGTH,) if n_rows >= ROWS_FOR_WEAK_STRENGTH else ()
        names += _at(MATRIX_STRENGTHS + weak, "shared-matrix") if n_observed <= MOST_CLASSES_OF_MATRIX else []
    if n_rows >= ROWS_FOR_STEPS and n_classes <= MOST_CLASSES_OF_STEPS:
        names.append("isotonic-centered")
    if thorough:
        names += FURTHER if n_classes <= MOST_CLASSES_OF_FURTHER else FURTHER[:1]
    simplest = [Candidate(IDENTITY, Identity()), Candidate("temperature", TemperatureScaling(prior=PRIOR))]
    return simplest + [Candidate(name, _made(name)) for name in names]


def _at(strengths: tuple[float, ...], name: str) -> list[str]:
    return [f"{name} (strength={strength:g})" for strength in strengths]


def _made(name: str) -> Calibrator:
    """Return a calibrator from a name such as ``shared-matrix (strength=0.3)``."""
    from calibrant.registry import make

    registered, _, option = name.removesuffix(")").partition(" (")
    key, _, value = option.partition("=")
    if not key:
        return make(registered)
    return make(registered, **{key: value if value.isalpha() else float(value)})


def chosen_candidates(wanted: Any) -> list[Candidate]:
    """Return candidates given by registry name or as calibrators; the identity always comes first."""
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

Judged = tuple[Vector | None, str]
"""Held-out losses, or None, and a note why."""

GIVEN_UP = "given up: far worse than another regularisation strength on the first fold"

# A strength is given up after the first fold if it has so many rows and the loss exceeds that of the best strength by so many
# nats and standard errors.
ROWS_OF_RACES, HOPELESS_EXCESS, HOPELESS_ERRORS = 200, 0.02, 5.0

LOGGER = logging.getLogger("calibrant")

ALWAYS_TRIED = 2


@dataclass(frozen=True, eq=False)
class Trial:
    """Held-out losses of one candidate.

    Attributes
    ----------
    candidate : Candidate
        The candidate.
    losses : ndarray of shape (N,) or None
        Log-loss of every held-out row, fold by fold; None if the candidate was skipped or failed.
    seconds : float
        Time of all its fits; candidates that are fitted together share it equally.
    note : str
        Why the candidate was skipped or failed; empty otherwise.
    """

    candidate: Candidate
    losses: Vector | None
    seconds: float
    note: str = ""


@dataclass(frozen=True, eq=False)
class Trials:
    """Held-out losses of all candidates on the same folds.

    Attributes
    ----------
    trials : list of Trial
        In the order of the candidates, the simplest first.
    weights : ndarray of shape (N,)
        Weights of the held-out rows, fold by fold; with groups they sum to the number of groups.
    fold_numbers : ndarray of shape (N,)
        Fold in which each row was held out.
    group_of_row : ndarray of shape (N,)
        Equal for rows of one group and for duplicates, which are one observation.
    n_observations : ndarray of shape (N,)
        Number of equal observations that each row counts for.
    n_mistakes : int
        Number of observations that the classifier itself misclassifies.
    rows : ndarray of shape (N,)
        Number of every held-out row in the data.
    paths : dict
        By family, the regularisation path of the first fold, where fits to all rows may start.
    """

    trials: list[Trial]
    weights: Vector
    fold_numbers: NDArray[np.intp]
    group_of_row: NDArray[np.intp]
    n_observations: NDArray[np.intp]
    n_mistakes: int
    rows: NDArray[np.intp]
    paths: dict[str, NearbyPath] = field(default_factory=dict)

    def standard_error(self, terms: Vector, rows: Any = slice(None)) -> float:
        """Return the standard error of a weighted mean of terms, one per chosen row, with clusters of duplicates or groups.

        The variability of the fits themselves is not included.
        """
        if not terms.any():
            return 0.0
        _, codes = np.unique(self.group_of_row[rows], return_inverse=True)
        weights = self.weights[rows]
        totals = np.bincount(codes, weights).astype(np.float64)
        means = np.bincount(codes, weights * terms) / totals
        numbers = np.ones(len(totals), dtype=np.intp)
        np.maximum.at(numbers, codes, self.n_observations[rows])
        return standard_error_of_mean(np.repeat(means, numbers), np.repeat(totals / numbers, numbers))

    @property
    def evaluated(self) -> list[Trial]:
        """Trials that have losses."""
        return [trial for trial in self.trials if trial.losses is not None]


def evaluate_candidates(
    candidates: Sequence[Candidate],
    data: LabelledPredictions,
    folds: Sequence[Fold],
    time_budget: float | None,
    n_rows: int,
) -> Trials:
    """Cross-validate all candidates.

    Structured maps that differ only in their regularisation strength are fitted along one path, and start where those of the
    first fold ended. A strength that is far worse than another one on the first fold is given up. With a time budget, a
    candidate is skipped if its first fold shows that it would take too long, and so are all candidates after the budget is
    used up. The first two, the identity and its successor, are always evaluated.

    Parameters
    ----------
    candidates : sequence of Candidate
        In order of cost and complexity.
    data : LabelledPredictions
        Calibration rows.
    folds : sequence of Fold
        At least two.
    time_budget : float, optional
        Seconds for all fits, including the final ones on all rows.
    n_rows : int
        Size of the calibration set, of which ``data`` may be a sample.
    """
    pieces = [
        (
            data.take(fold.train_rows, fold.train_weights),
            data.take(fold.test_rows, fold.test_weights),
        )
        for fold in folds
    ]
    trials: dict[str, Trial] = {}
    paths: dict[str, NearbyPath] = {}
    start = perf_counter()
    fitted_together = families(candidates)
    for number, family in enumerate(fitted_together):
        began = perf_counter()
        # The first candidates are cheap.
        left = np.inf if time_budget is None or number < ALWAYS_TRIED else time_budget - (began - start)
        judged, path = _judged(family, pieces, left, n_rows / data.n_rows)
        if path is not None:
            paths[family[0].family] = path
        seconds = perf_counter() - began
        for candidate, (own, note) in zip(family, judged, strict=True):
            trials[candidate.name] = Trial(candidate, own, seconds / len(family), note)
        names = ", ".join(one.name for one in family)
        # A handler can show the time left; the final fits count as one step.
        LOGGER.info(
            "%s: %.1f s %s",
            names,
            seconds,
            "; ".join(dict.fromkeys(note for _, note in judged if note)),
            extra={"done": number + 1, "total": len(fitted_together) + 1},
        )
    weights = np.concatenate(
        [np.ones(test.n_rows) if test.weights is None else test.weights for _, test in pieces]
    )
    numbers_of_folds = np.repeat(np.arange(len(pieces)), [test.n_rows for _, test in pieces])
    is_mistake = np.concatenate([test.predictions.predicted != test.labels for _, test in pieces])
    rows = np.concatenate([fold.test_rows for fold in folds])
    if data.groups is None:
        groups = row_groups(data, len(folds))
        divided = groups.n_parts[rows] > 1
        # Parts of a row in several folds are separate observations.
        group_of_row = groups.group_of_row[rows] + np.where(divided, 2 * data.n_rows * numbers_of_folds, 0)
        part = (
            weights * (groups.counts / groups.n_parts / (1.0 if data.weights is None else data.weights))[rows]
        )
        n_observations = np.where(divided, np.round(part * groups.n_parts[rows]), 1).astype(np.intp)
    else:
        group_of_row = _codes(data.groups)[rows]
        # Rows of a group are dependent: the effective sample size is the number of groups.
        weights *= (group_of_row.max() + 1) / weights.sum()
        n_observations = np.ones(len(rows), dtype=np.intp)
    return Trials(
        [trials[candidate.name] for candidate in candidates],
        weights,
        numbers_of_folds,
        group_of_row,
        n_observations,
        int(n_observations[is_mistake].sum()),
        rows,
        paths,
    )


def _codes(groups: NDArray[Any]) -> NDArray[np.intp]:
    """Return a number for every group."""
    codes: NDArray[np.intp] = np.unique(groups, return_inverse=True)[1]
    return codes


def _judged(
    family: Sequence[Candidate], pieces: Sequence[Piece], seconds_left: float, last_fits: float
) -> tuple[list[Judged], NearbyPath | None]:
    """Return held-out losses and a note for every candidate of a family, and the path of the first fold."""
    if seconds_left <= 0:
        return [(None, "left out: the time budget is used up")] * len(family), None
    began = perf_counter()
    try:
        with held_back():
            first, nearby = _held_out(family, *pieces[0])
            # The other folds cost the same, and the final fit to all rows more.
            expected = (perf_counter() - began) * (len(pieces) + last_fits)
            if expected > seconds_left:
                note = f"left out: it would take about {expected:.1f} s, longer than what is left"
                return [(None, note)] * len(family), None
            behind = _far_behind(first)
            kept = [candidate for candidate, one in zip(family, behind, strict=True) if not one]
            train = pieces[0][0]
            rest = in_threads(
                lambda piece: _held_out(kept, *piece, nearby)[0],
                pieces[1:],
                train.n_rows * train.n_classes,
            )
    except (ValueError, ArithmeticError, MemoryError) as error:
        # A candidate that cannot be fitted must not stop the others.
        return [(None, f"failed: {error}")] * len(family), None
    others = iter(zip(*rest, strict=True))
    found: list[Judged] = []
    for own, one in zip(first, behind, strict=True):
        if one:
            found.append((None, GIVEN_UP))
            continue
        losses = np.concatenate([own, *next(others)])
        possible = bool(np.isfinite(losses).all())
        note = "" if possible else "left out: it gave probability 0 to an observed class"
        found.append((losses if possible else None, note))
    return found, nearby


def _far_behind(losses: Sequence[Vector]) -> list[bool]:
    """Return which candidates of a family are so much worse than the best one that other folds cannot change it.

    >>> _far_behind([np.tile([0.0, 1.0], 200), np.tile([1.0, 2.1], 200), np.tile([0.0, 1.02], 200)])
    [False, True, False]
    """
    best = min(losses, key=np.mean)
    if len(best) < ROWS_OF_RACES or not np.isfinite(best).all():
        return [False] * len(losses)
    with np.errstate(invalid="ignore"):
        excesses = [own - best for own in losses]
    return [
        bool(excess.mean() > max(HOPELESS_EXCESS, HOPELESS_ERRORS * excess.std() / len(best) ** 0.5))
        for excess in excesses
    ]


def families(candidates: Sequence[Candidate]) -> list[list[Candidate]]:
    """Group candidates that are fitted together: structured maps that differ only in regularisation strength."""
    grouped: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        together = isinstance(candidate.calibrator, StructuredScaling)
        grouped.setdefault(candidate.family if together else candidate.name, []).append(candidate)
    return list(grouped.values())


def fitted_family(
    family: Sequence[Candidate], data: LabelledPredictions, path: NearbyPath | None = None
) -> list[Calibrator]:
    """Return fitted copies of the candidates of a family; structured maps may start at a path of some of the rows."""
    first = family[0].calibrator
    if isinstance(first, StructuredScaling):
        return [*clone(first).fit_path_labelled(data, _strengths(family), nearby=path, warn_of_absent=False)]
    return [clone(candidate.calibrator).fit_labelled(data, warn_of_absent=False) for candidate in family]


def _strengths(family: Sequence[Candidate]) -> list[float]:
    return [candidate.calibrator.strength for candidate in family]


def _held_out(
    family: Sequence[Candidate],
    train: LabelledPredictions,
    test: LabelledPredictions,
    nearby: NearbyPath | None = None,
) -> tuple[list[Vector], NearbyPath | None]:
    """Return the log-loss of every test row for every candidate of a family, and where fits to another fold may start."""
    first = family[0].calibrator
    if family[0].name == IDENTITY:  # needs no fit
        return [test.row_losses("log", test.predictions.without_zeros())], None
    if isinstance(first, StructuredScaling):
        fitted, nearby = clone(first).fit_trial_path(train, _strengths(family), nearby)
    else:
        fitted = fitted_family(family, train)
    return [test.row_losses("log", one.transform(test.predictions)) for one in fitted], nearby
