"""AutoCalibration: the default, which chooses by rows held out and says what it chose."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from calibrant.arrays import Matrix, Vector
from calibrant.calibrator import Calibrator, Traits
from calibrant.calibrators.automatic.candidates import (
    IDENTITY,
    Candidate,
    chosen_candidates,
    default_candidates,
)
from calibrant.calibrators.automatic.row_units import merged_copies
from calibrant.calibrators.automatic.stratified_folds import TRIAL_ROWS, stratified_folds, trial_rows
from calibrant.calibrators.automatic.trials import Trials, tried
from calibrant.calibrators.reductions.identity_check import is_worse_than_identity
from calibrant.errors import LabelError, ParameterError
from calibrant.fit_cost import FitCost, FitPart, JointCost, announce_cost
from calibrant.graph import TracedPredictions
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import held_back
from calibrant.objective import RowSource
from calibrant.options import check_choice, check_flag, is_number, is_whole
from calibrant.predictions import Predictions
from calibrant.solvers.simplex_weights import likeliest_weights
from calibrant.space import Space
from calibrant.wording import counted

__all__ = ["AutoCalibration"]


# Differences of fewer nats than this are rounding and unfinished searches.
ROUNDING = 2e-5

# Rows that each family of candidates is thought to have explained before any is seen, the identity more of them: with few
# rows the weights stay spread, and what a good fit of few rows can cost is bounded. Chosen on the odd-numbered sets of
# benchmarks/structured_and_auto.py.
PRIOR_ROWS, PRIOR_ROWS_OF_IDENTITY = 0.3, 1.0


@dataclass(frozen=True, eq=False)
class Pool:
    """Weights of the candidates, and what they promise for rows that were not used to find them.

    Attributes
    ----------
    weights : ndarray of shape (m,)
        One for every candidate that was judged, not negative, summing to one.
    losses : ndarray of shape (N,)
        Log-loss of every row held out, by maps and weights that have not seen its fold.
    """

    weights: Vector
    losses: Vector


def pooled(trials: Trials, negligible: float) -> Pool:
    r"""Return the mixture of all candidates that makes rows held out most likely, with a little prior belief in each.

    .. math:: \max_{w \ge 0, \sum_c w_c = 1} \; \sum_i v_i \log \sum_c w_c\, \hat q_c^{(-i)}(y_i) + \sum_c \tau_c \log w_c

    Components below ``negligible`` are dropped and the weights of the others found anew. The losses are those of
    weights found without the fold that a row is in: neither the maps that speak about a row nor the weights have been fitted to
    it, though the weights come from losses of maps that have.
    """
    losses = np.stack([trial.losses for trial in trials.judged if trial.losses is not None], axis=1)
    prior = _prior([trial.candidate.family for trial in trials.judged])
    weights = _sparse_weights(losses, trials.weights, prior, negligible)
    own = np.empty(len(losses))
    for fold in np.unique(trials.fold_numbers):
        test = trials.fold_numbers == fold
        without = _sparse_weights(losses[~test], trials.weights[~test], prior, negligible)
        own[test] = _mixture_losses(losses[test], without)
    return Pool(weights, own)


def single(trials: Trials) -> Pool:
    """Return all weight on the simplest candidate within one standard error of the best one.

    The losses are those of the choice made without the fold that a row is in.
    """
    losses = np.stack([trial.losses for trial in trials.judged if trial.losses is not None], axis=1)
    own = np.empty(len(losses))
    for fold in np.unique(trials.fold_numbers):
        test = trials.fold_numbers == fold
        own[test] = losses[test, _simplest(losses, trials, ~test)]
    weights = np.zeros(losses.shape[1])
    weights[_simplest(losses, trials, np.full(len(losses), True))] = 1.0
    return Pool(weights, own)


def _simplest(losses: Matrix, trials: Trials, rows: NDArray[np.bool_]) -> int:
    """Return the first candidate within one standard error of the best, on some of the rows."""
    losses = losses[rows]
    means = np.average(losses, axis=0, weights=trials.weights[rows])
    best = int(np.argmin(means))
    for place in range(losses.shape[1]):
        excess = losses[:, place] - losses[:, best]
        allowed = max(ROUNDING, trials.standard_error(excess, rows) if place != best else 0.0)
        if means[place] - means[best] <= allowed:
            return place
    return best


def _prior(families: list[str]) -> Vector:
    """Return the rows that each candidate is believed to have explained; those of one family share theirs."""
    counts = Counter(families)
    prior = np.array([PRIOR_ROWS / counts[family] for family in families])
    prior[0] = PRIOR_ROWS_OF_IDENTITY
    return prior


def _sparse_weights(losses: Matrix, row_weights: Vector, prior: Vector, negligible: float) -> Vector:
    """Return the likeliest weights without those that are negligible; candidates that are the same share theirs."""
    weights = np.zeros(losses.shape[1])
    kept = np.arange(losses.shape[1])
    likelihoods = _likelihoods(losses)
    while True:
        # Belief in one candidate is a row that only this one can explain.
        rows = np.concatenate([likelihoods[:, kept], np.eye(len(kept))])
        found = likeliest_weights(rows, np.concatenate([row_weights, prior[kept]])).theta
        small = (found < negligible) & (found < found.max())
        if not small.any():
            weights[kept] = found / found.sum()
            return weights
        kept = kept[~small]


def _likelihoods(losses: Matrix) -> Matrix:
    """Return likelihoods, in every row as shares of the largest, so that none of them underflows."""
    likelihoods: Matrix = np.exp(losses.min(axis=1, keepdims=True) - losses)
    return likelihoods


def _mixture_losses(losses: Matrix, weights: Vector) -> Vector:
    lowest = losses.min(axis=1)
    mixed = np.exp(lowest[:, np.newaxis] - losses) @ weights
    result: Vector = lowest - np.log(mixed)
    return result


# Two-sided, for intervals in words.
NORMAL_95 = 1.959964
SHOWN = 4  # how many components are named
# Mistakes of the classifier below which the losses of a few rows decide, and a normal interval of their mean says little.
FEW_MISTAKES = 10


@dataclass(frozen=True)
class Gain:
    """How much lower than that of doing nothing the log-loss of rows held out is.

    Attributes
    ----------
    identity_loss, loss : float
        Mean log-loss of doing nothing and of the choice.
    standard_error : float
        Of their difference, over rows or groups of them, for the fits as they are.
    n_mistakes : int
        Rows that the classifier itself gets wrong.
    """

    identity_loss: float
    loss: float
    standard_error: float
    n_mistakes: int

    @classmethod
    def of(cls, pool: Pool, trials: Trials) -> "Gain":
        """Compare a pool with the first candidate, the identity."""
        identity = trials.judged[0].losses
        assert identity is not None
        return cls(
            float(np.average(identity, weights=trials.weights)),
            float(np.average(pool.losses, weights=trials.weights)),
            trials.standard_error(identity - pool.losses),
            trials.n_mistakes,
        )

    @property
    def value(self) -> float:
        """How much is gained, in nats a row."""
        return self.identity_loss - self.loss


def decision_table(trials: Trials, weights: Vector) -> dict[str, Any]:
    """Return a table of all candidates as columns, see ``AutoCalibration.decision_``."""
    identity = trials.judged[0].losses
    assert identity is not None
    of_name = dict(zip([trial.candidate.name for trial in trials.judged], weights, strict=True))
    loss, gain, error = np.full((3, len(trials.trials)), np.nan)
    for place, trial in enumerate(trials.trials):
        if trial.losses is not None:
            gains = identity - trial.losses
            loss[place] = np.average(trial.losses, weights=trials.weights)
            gain[place] = np.average(gains, weights=trials.weights)
            error[place] = trials.standard_error(gains)
    return {
        "candidate": [trial.candidate.name for trial in trials.trials],
        "weight": np.array([of_name.get(trial.candidate.name, 0.0) for trial in trials.trials]),
        "loss": loss,
        "gain": gain,
        "standard_error": error,
        "seconds": np.array([trial.seconds for trial in trials.trials]),
        "note": [trial.note for trial in trials.trials],
    }


def in_words(
    table: dict[str, Any], gain: Gain, rejected: str, n_rows: int, n_folds: int, measured: str = ""
) -> str:
    """Return a few sentences: what was chosen, how much it gains, how sure that is.

    ``rejected`` says why the identity was kept in place of what the rows held out would choose; empty if it was not.
    ``measured`` says where losses are not those of the probabilities as they are given.
    """
    order = np.argsort(-table["weight"], kind="stable")
    chosen = [place for place in order if table["weight"][place] > 0]
    names = [table["candidate"][place] for place in chosen]
    left_out = sum(note != "" for note in table["note"])
    missing = f" {counted(left_out, 'candidate')} could not be judged, see decision_." if left_out else ""
    if rejected:
        what = f"Probabilities are left as they are: {rejected}."
        subject = "What would have been chosen"
    elif names == [IDENTITY]:
        what = "Probabilities are left as they are: nothing that was tried is clearly better."
        subject = "What such a choice gives"
    elif len(names) == 1:
        what = f"Chosen is {names[0]}."
        subject = "Such a choice"
    else:
        parts = [
            f"{100 * table['weight'][place]:.0f} % {name}" for name, place in zip(names, chosen, strict=True)
        ]
        more = f" and {len(parts) - SHOWN} more" if len(parts) > SHOWN else ""
        what = f"Chosen is a pool: {', '.join(parts[:SHOWN])}{more}."
        subject = "The pool"
    losses = f" Losses are measured {measured}." if measured else ""
    return f"{what} {_of_rows_held_out(subject, gain, n_rows, n_folds)}{losses}{missing}"


def _of_rows_held_out(subject: str, gain: Gain, n_rows: int, n_folds: int) -> str:
    """Return a sentence on the gain over doing nothing, with its interval."""
    rows = f"{counted(n_rows, 'row')} in {counted(n_folds, 'fold')}"
    losses = f"{subject} has a log-loss of {gain.loss:.4f} on rows held out, doing nothing {gain.identity_loss:.4f}"
    half = NORMAL_95 * gain.standard_error
    low, high = gain.value - half, gain.value + half
    interval = f"gain {gain.value:.4f}, 95 % interval {low:.4f} to {high:.4f}, {rows}"
    if gain.n_mistakes < FEW_MISTAKES or not np.isfinite(half):
        mistakes = counted(gain.n_mistakes, "mistake")
        return f"{losses}: with {mistakes} of the classifier in {rows}, too few to say how sure that is."
    if low <= 0 <= high:
        return f"{losses}: no difference that these rows can tell from chance ({interval})."
    return f"{losses}: {'better' if gain.value > 0 else 'worse'} beyond chance ({interval})."


# In standard errors. The identity has its weight in the pool already; taken whenever a few rows are against the pool, it
# would cost more than it saves.
CLEARLY_WORSE = 2.0


# Probability that stands for one that is too small for its float type.
COST_OF_DEFAULT = FitCost(3.0, classes=1.5)
"""Of trying the candidates ``"default"``."""

TINY = float(np.finfo(np.float64).tiny)


class AutoCalibration(Calibrator):
    r"""Try methods from nothing to a full matrix on rows held out, and pool those that help.

    .. math:: \hat q = \sum_c w_c\, g_c(p), \qquad
              w = \arg\max_{w \ge 0,\, \sum_c w_c = 1} \; \sum_i \log \sum_c w_c\, g_c^{(-i)}(p_i)_{y_i}

    where :math:`g_c^{(-i)}` is candidate c fitted without the fold of row i. The identity is among the candidates, so
    that doing nothing is always an answer; components of little weight are dropped, the others fitted again on all
    rows. Pooling does better than choosing one, since the rows that would have to tell
    two good maps apart are few. See :doc:`/automatic` for the candidates and what they bring.

    Parameters
    ----------
    candidates : {"default", "thorough"} or list of str or Calibrator, default="default"
        What to try. "default" takes from the identity to ``shared-matrix`` at several strengths, or for two classes the
        maps of one event, what suits the number of rows and classes; "thorough" adds slower methods of other shapes: ensemble
        and parameterized temperature scaling, splines, Gaussian processes, isotonic maps. A list has registry names (``+``
        composes) or calibrators, the simplest first; the identity is added.
    choice : {"pool", "single"}, default="pool"
        Pool the candidates, or take the simplest whose loss on rows held out is within one standard error of the
        lowest.
    preserve_accuracy : bool, default=False
        Try only maps that keep the predicted class of every row.
    cv : int, splitter or iterable of splits, default=5
        Folds. A number of them holds out every class in its share, and keeps rows of one group together if ``fit``
        gets groups; they do not depend on the order of the rows.
    negligible : float, default=0.02
        Weight below which a component of the pool is dropped.
    time_budget : float, optional
        Seconds after which no further candidates are tried, the last fits on all rows included, about: how long a candidate
        takes is seen from its first fold, and the identity and a temperature are always tried. Candidates come cheap
        first; which are left out depends on the machine.

    Attributes
    ----------
    calibrators_ : list of Calibrator
        The fitted components, of the classes that have calibration rows.
    weights_ : ndarray
        Their weights.
    decision_ : dict of columns
        A table of all candidates: ``candidate``, ``weight``, ``loss`` (mean log-loss of rows held out), ``gain`` (by how
        much it is below that of doing nothing), ``standard_error`` (of the gain, over rows), ``seconds`` and ``note``
        (why a candidate was not tried). ``pandas.DataFrame(fitted.decision_)`` shows it.
    explanation_ : str
        In words: what was chosen, by how much it is better on rows held out, and how sure that is. The loss of the
        pool is that of maps and weights that were not fitted to the row; zeros among the probabilities count as the
        floor. The interval takes the fits as they are, and rows of one group as one.

    Notes
    -----
    The weights start from the belief that every kind of candidate has explained 0.3 rows already, and the identity one, so
    that with few rows the pool stays spread, and close to doing nothing. The identity alone is kept if the pool is clearly
    worse than it on rows held out, by two standard errors, or worse on the calibration rows themselves. Whether
    the gain is more than chance, its interval in ``explanation_`` says.

    Of more than 20,000 rows and 300,000 numbers a sample tries the candidates; all rows fit those that are kept.

    Costs the fits of all candidates, times the number of folds and one more: seconds for 5,000 rows of ten classes, some
    tens of them for a hundred classes or hundreds of thousands of rows.
    Penalties of structured maps are tried along a path in which each fit starts from the one before. Progress goes to the
    logger ``"calibrant"`` at level INFO.

    Examples
    --------
    Sure predictions of which every fifth is wrong, and unsure ones that are honest:

    >>> p = [[0.98, 0.01, 0.01]] * 100 + [[0.5, 0.3, 0.2]] * 100
    >>> y = ([0] * 8 + [1, 2]) * 10 + ([0] * 5 + [1] * 3 + [2] * 2) * 10
    >>> fitted = AutoCalibration(["temperature", "shared-map"]).fit(p, y)
    >>> fitted.predict_proba(p[::100]).round(2)
    array([[0.85, 0.08, 0.08], [0.45, 0.31, 0.24]])
    >>> for name, weight in zip(fitted.decision_["candidate"], fitted.decision_["weight"]):
    ...     print(f"{weight:.2f} {name}")
    0.21 uncalibrated
    0.23 temperature
    0.56 shared-map
    """

    structure: ClassVar[tuple[str, ...]] = ("preserve_accuracy",)
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {"auto": {}}

    def __init__(
        self,
        candidates: Literal["default", "thorough"] | Sequence[str | Calibrator] = "default",
        choice: Literal["pool", "single"] = "pool",
        preserve_accuracy: bool = False,
        cv: Any = 5,
        negligible: float = 0.02,
        time_budget: float | None = None,
    ) -> None:
        self.candidates = candidates
        self.choice = choice
        self.preserve_accuracy = preserve_accuracy
        self.cv = cv
        self.negligible = negligible
        self.time_budget = time_budget

    @property
    def traits(self) -> Traits:  # type: ignore[override]
        """What all candidates have in common; only those that keep the arg-max are tried if it must be preserved."""
        listed = self.candidates if isinstance(self.candidates, list | tuple) else []
        traits = [one.traits for one in _calibrators(listed)]
        return Traits(
            keeps_argmax=bool(self._setting("preserve_accuracy")),
            contains_identity=True,
            binary_only=False,
            commutes_with_permutations=all(one.commutes_with_permutations for one in traits),
            uses_raw_logits=any(one.uses_raw_logits for one in traits),
        )

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Try, pool and fit.

        Parameters
        ----------
        X : array, frame or Predictions
            Probabilities (n, K), or (n,) or (n, 1) for the positive class of two; logits only through
            ``Predictions.from_logits``.
        y : array of shape (n,)
            True classes: column numbers, or labels that match the columns.
        sample_weight : array of shape (n,), optional
            Rows of weight zero are left out. A weight of two is the same as the row given twice.
        groups : array of shape (n,), optional
            Rows of one group, such as those of one patient, are never on both sides of a fold.
        """
        data = LabelledPredictions.parse(X, y, sample_weight)
        announce_cost(type(self).__name__, self.fit_cost, data.n_rows, data.n_classes)
        if groups is not None:
            data = replace(data, groups=_parsed_groups(groups, sample_weight, data.n_rows))
        return self.fit_labelled(data)

    @property
    def fit_cost(self) -> JointCost:  # type: ignore[override]
        """That of trying all candidates on all folds, on a sample if there are very many rows, and of one last fit."""
        n_folds = float(self.cv) if is_whole(self.cv, 2) else 5.0
        if isinstance(self.candidates, str):
            return JointCost([FitPart(COST_OF_DEFAULT, most_rows=TRIAL_ROWS)])
        stages = [candidate.calibrator.fit_cost for candidate in chosen_candidates(self.candidates)]
        return JointCost(
            [
                part
                for cost in stages
                for part in (FitPart(cost, n_folds, most_rows=TRIAL_ROWS), FitPart(cost))
            ]
        )

    def _fit(self, data: LabelledPredictions) -> None:
        self._check_parameters()
        data, n_rows = data.with_counting_weights(), data.n_rows
        if data.groups is None and is_whole(self.cv, 2):
            data = merged_copies(data)
        self._fit_trials(
            trial_rows(data),
            n_rows,
            data,
            lambda candidate: clone(candidate).fit_labelled(data, warn_of_absent=False),
        )

    def _fit_trials(
        self,
        sample: LabelledPredictions,
        n_rows: int,
        data: LabelledPredictions | RowSource,
        fit: Callable[[Calibrator], Calibrator],
    ) -> None:
        """Try candidates on a sample of the rows, and fit those that are kept to all of them by ``fit``."""
        candidates = self._candidates(data)
        folds = stratified_folds(self.cv, sample)
        trials = tried(candidates, sample, folds, self.time_budget, data.n_rows)
        pool = pooled(trials, self.negligible) if self.choice == "pool" else single(trials)
        gain = Gain.of(pool, trials)
        rejected = ""
        if gain.value < -CLEARLY_WORSE * gain.standard_error:
            rejected = "what was tried is clearly worse on rows held out"
        else:
            self._set_parts([trial.candidate for trial in trials.judged], pool.weights, fit)
            if is_worse_than_identity(data, self._transform):
                rejected = "what does well on rows held out does harm on all of them"
        weights = pool.weights
        if rejected:
            weights = np.eye(len(weights))[0]
            self._set_parts([trial.candidate for trial in trials.judged], weights, fit)
        self.decision_ = decision_table(trials, weights)
        self.explanation_ = in_words(
            self.decision_,
            gain,
            rejected,
            n_rows if sample is data else sample.n_rows,
            len(folds),
            self._measured(data.first.predictions if isinstance(data, RowSource) else data.predictions),
        )

    def _measured(self, predictions: Predictions) -> str:
        """Return how the losses differ from those of the probabilities as they were given; empty if they do not."""
        said = []
        if predictions.space is Space.PROBABILITIES and not predictions.scores.all():
            said.append(f"with zeros raised to {predictions.floor:.2g}")
        if self.present_columns_ is not None:
            said.append("given that the class is one of those that have rows")
        return ", and ".join(said)

    def _traced(self, given: TracedPredictions) -> TracedPredictions:
        if len(self.calibrators_) == 1:
            only: TracedPredictions = self.calibrators_[0]._trace(given)
            return (only if only.floor is not None else only.with_floor(TINY)).without_zeros()
        first, *others = (calibrator._trace(given).probabilities for calibrator in self.calibrators_)
        mixed = first.mixed(others, self.weights_).narrowed()
        kept: Literal["argmax"] | None = "argmax" if self._setting("preserve_accuracy") else None
        # A small weight of a number at the end of the float type is zero.
        return given.with_probabilities(mixed, kept).with_floor(TINY).without_zeros()

    def _candidates(self, data: LabelledPredictions | RowSource) -> list[Candidate]:
        if isinstance(self.candidates, str) and self.candidates in ("default", "thorough"):
            found = default_candidates(data, thorough=self.candidates == "thorough")
        else:
            found = chosen_candidates(self.candidates)
        if not self._setting("preserve_accuracy"):
            return found
        kept = [candidate for candidate in found if candidate.calibrator.traits.keeps_argmax]
        if len(kept) == 1:
            raise ParameterError(
                f"none of the candidates {[one.name for one in found[1:]]} keeps the predicted class; set "
                "preserve_accuracy=False, or list some that do, such as 'temperature' and 'shared-map'."
            )
        return kept

    def _set_parts(
        self,
        candidates: list[Candidate],
        weights: NDArray[np.float64],
        fit: Callable[[Calibrator], Calibrator],
    ) -> None:
        parts = [
            (candidate, weight) for candidate, weight in zip(candidates, weights, strict=True) if weight > 0
        ]
        with held_back():  # they spoke of themselves alone; what matters is in the table
            self.calibrators_ = [fit(candidate.calibrator) for candidate, _ in parts]
        self.weights_ = np.array([weight for _, weight in parts])

    def _check_parameters(self) -> None:
        check_choice("choice", self.choice, ("pool", "single"))
        check_flag("preserve_accuracy", self._setting("preserve_accuracy"))
        if not (is_number(self.negligible) and 0 <= self.negligible < 1):
            raise ParameterError(
                f"negligible must be a number from 0 to below 1, such as 0.02, not {self.negligible!r}."
            )
        if self.time_budget is not None and not (is_number(self.time_budget) and self.time_budget > 0):
            raise ParameterError(
                f"time_budget must be a positive number of seconds, or None, not {self.time_budget!r}."
            )


def _calibrators(listed: Sequence[Any]) -> list[Calibrator]:
    """Return the calibrators among what a user listed, made from their names; what is neither, a fit will refuse."""
    from calibrant.registry import make

    found = []
    for one in listed:
        if isinstance(one, Calibrator):
            found.append(one)
        elif isinstance(one, str):
            try:
                found.append(make(one))
            except ParameterError:
                continue
    return found


def _parsed_groups(groups: Any, sample_weight: Any, n_rows: int) -> NDArray[np.generic]:
    """Return one group per row that counts."""
    parsed = np.asarray(groups)
    expected = n_rows if sample_weight is None else len(np.asarray(sample_weight))
    if parsed.shape != (expected,):
        raise LabelError(
            f"groups must name one group per row, but has shape {parsed.shape} for {expected} rows; "
            "pass a flat array of that length."
        )
    if parsed.dtype.kind == "O":
        unnamed = np.flatnonzero([one is None or one != one for one in parsed])
        if len(unnamed):
            raise LabelError(
                f"groups must name a group in every row, but row {unnamed[0]} has {parsed[unnamed[0]]!r}."
            )
        parsed = parsed.astype(str)
    return parsed if sample_weight is None else parsed[np.asarray(sample_weight, dtype=np.float64) > 0]
