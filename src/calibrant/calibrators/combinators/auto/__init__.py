"""AutoCalibration: the default, a cross-validated choice or pool of calibrators, with an explanation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Vector
from calibrant.calibrator import Calibrator, Traits
from calibrant.calibrators.combinators.auto.absent import factor_of_absent, factor_of_scoreless
from calibrant.calibrators.combinators.auto.explanation import decision_table, in_words
from calibrant.calibrators.combinators.auto.folds import (
    TRIAL_ROWS,
    merged_duplicates,
    stratified_folds,
    trial_rows,
)
from calibrant.calibrators.combinators.auto.gain import Gain
from calibrant.calibrators.combinators.auto.pool import pooled, single
from calibrant.calibrators.combinators.auto.trials import (
    Candidate,
    chosen_candidates,
    default_candidates,
    evaluate_candidates,
    families,
    fitted_family,
)
from calibrant.calibrators.identity_check import is_worse_than_identity
from calibrant.calibrators.structured.structured_rows import NearbyPath
from calibrant.errors import LabelError, ParameterError
from calibrant.fit_cost import FitCost, FitPart, JointCost, announce_cost
from calibrant.graph import TracedPredictions
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import held_back
from calibrant.objective import RowSource
from calibrant.options import check_choice, check_flag, is_number, is_whole
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["AutoCalibration"]


COST_OF_DEFAULT = FitCost(0.5, rows=0.7, classes=0.7)
"""Cost of cross-validating the candidates ``"default"``; 5,000 x 10 and 5,000 x 100 took 1 and 8 seconds."""

COST_OF_SELECTED = FitCost(0.01)
"""Cost of fitting the selected ones to all rows."""

FamilyFit = Callable[[Sequence[Candidate], NearbyPath | None], Sequence[Calibrator]]
"""Fits candidates of one family to all rows; structured maps may start at a path of some of the rows."""

# Replaces probabilities that underflow.
TINY = float(np.finfo(np.float64).tiny)


class AutoCalibration(Calibrator):
    r"""Cross-validate candidate calibrators and average those that reduce the log-loss.

    .. math:: \hat q = \sum_c w_c\, g_c(p), \qquad
              w = \arg\max_{w \ge 0,\, \sum_c w_c = 1} \; \sum_i \log \sum_c w_c\, g_c^{(-i)}(p_i)_{y_i}

    where :math:`g_c^{(-i)}` is candidate c fitted without the fold of row i. The identity is always a candidate.
    Components of negligible weight are dropped, and the others are refitted to the complete calibration set. Averaging
    beats selection because a calibration set is rarely large enough to tell two good maps apart. See :doc:`/automatic`
    for the candidates and their gains.

    Parameters
    ----------
    candidates : {"default", "thorough"} or list of str or Calibrator, default="default"
        Candidates. "default" is a set for the number of rows and classes: from the identity to ``shared-matrix`` at several
        regularisation strengths, or binary maps for two classes. "thorough" adds slower methods of other shapes: ensemble
        and parameterized temperature scaling, splines, Gaussian processes, isotonic maps. A list has registry names (``+``
        composes) or calibrators, the simplest first; the identity is added.
    choice : {"pool", "single"}, default="pool"
        Average the candidates, or select the simplest one whose held-out loss is within one standard error of the lowest.
    preserve_accuracy : bool, default=False
        Use only candidates that preserve the predicted class of every row.
    cv : int, splitter or iterable of splits, default=5
        Folds. A number means stratified folds, which keep the rows of a group together if ``fit`` gets groups and do not
        depend on the order of the rows.
    negligible : float, default=0.02
        Weight below which a component of the pool is dropped.
    time_budget : float, optional
        Approximate limit in seconds for the complete fit. The time of a candidate is extrapolated from its first fold;
        candidates that would exceed the limit are skipped. The identity and a temperature are always evaluated. Candidates
        come in order of cost, and which ones are skipped depends on the machine.

    Attributes
    ----------
    calibrators_ : list of Calibrator
        The fitted components, for the classes in the calibration set.
    weights_ : ndarray
        Their weights.
    absent_factors_ : ndarray of shape (K,) or None
        Factors of the probabilities of classes without calibration rows, where the pool gives these more than a 95 % bound on
        their share, see the notes; None otherwise.
    decision_ : dict of columns
        A table of all candidates: ``candidate``, ``weight``, ``loss`` (mean held-out log-loss), ``gain`` (reduction
        of the log-loss compared with the uncalibrated predictions), ``standard_error`` (of the gain, over rows),
        ``seconds`` and ``note`` (why a candidate was skipped). ``pandas.DataFrame(fitted.decision_)`` shows it.
    explanation_ : str
        The selection, its held-out gain and the confidence interval of the gain, in words. The loss of the pool is out of
        fold, for maps and weights; probabilities of zero are raised to the floor. The interval is for the gain of the fitted
        maps on new rows, includes the variance of the fits, and treats the rows of a group as one observation. With fewer
        than ten misclassified rows there is none. :doc:`/promises` has its simulated coverage.

    Notes
    -----
    The weights have a Dirichlet prior with half a pseudo-count per kind of candidate and one for the temperature, which keeps
    the pool of a small calibration set spread. The inverse temperature has a normal prior with mean 0.7 and standard deviation
    0.5, since most classifiers are over-confident. The pool is then averaged with the identity, which has the posterior
    probability :math:`1 / (1 + e^{G - \rho})` for a total held-out gain of G nats, with :math:`\rho = \log(10 / K^{0.8})`: 61 %
    without any gain and 1 % for a gain of five nats, if there are ten classes. The identity alone is kept if the pool is worse
    on the calibration set itself. The confidence interval in ``explanation_`` tells whether the gain is significant.

    Classes without calibration rows have together at most a 95 % bound on the estimate of Good and Turing :cite:`good1953`, the
    share of classes that were observed once, on average over the calibration set. Those to which the classifier always gives
    zero have at most :math:`1 / (n + 2)` in any row. ``preserve_accuracy`` has no such bounds.

    Beyond 20,000 rows and 300,000 numbers, candidates are compared on a sample and the selected ones are fitted to all
    rows.

    Costs the fits of all candidates times the number of folds plus one: about a second for 5,000 rows of ten classes, about
    eight for a hundred classes or a million rows. Structured maps have warm starts along their regularisation paths, from fold
    to fold, and for the fit to all rows. A regularisation strength that is far worse than another one on the first fold is
    given up. Progress goes to the logger ``"calibrant"`` at level INFO.

    Examples
    --------
    Confident predictions of which every fifth is wrong, and less confident ones that are calibrated:

    >>> p = [[0.98, 0.01, 0.01]] * 100 + [[0.5, 0.3, 0.2]] * 100
    >>> y = ([0] * 8 + [1, 2]) * 10 + ([0] * 5 + [1] * 3 + [2] * 2) * 10
    >>> fitted = AutoCalibration(["temperature", "shared-map"]).fit(p, y)
    >>> fitted.predict_proba(p[::100]).round(2)
    array([[0.82, 0.09, 0.09],
           [0.43, 0.32, 0.25]])
    >>> for name, weight in zip(fitted.decision_["candidate"], fitted.decision_["weight"]):
    ...     print(f"{weight:.2f} {name}")
    0.07 uncalibrated
    0.51 temperature
    0.43 shared-map
    """

    structure: ClassVar[tuple[str, ...]] = ("preserve_accuracy",)

    absent_factors_: Vector | None
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
        """The traits that all candidates share."""
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
        """Cross-validate the candidates, then fit the selected ones.

        Parameters
        ----------
        X : array, frame or Predictions
            Probabilities (n, K), or (n,) or (n, 1) for the positive class of two; logits only through
            ``Predictions.from_logits``.
        y : array of shape (n,)
            True classes: column numbers, or labels that match the columns.
        sample_weight : array of shape (n,), optional
            Rows of weight zero are left out. A weight of 2 is equivalent to a repeated row.
        groups : array of shape (n,), optional
            The rows of a group, such as those of one patient, always fall into the same fold.
        """
        data = LabelledPredictions.parse(X, y, sample_weight)
        announce_cost(type(self).__name__, self.fit_cost, data.n_rows, data.n_classes)
        if groups is not None:
            data = replace(data, groups=_parsed_groups(groups, sample_weight, data.n_rows))
        return self.fit_labelled(data)

    @property
    def fit_cost(self) -> JointCost:  # type: ignore[override]
        """Cost of cross-validating all candidates, on a sample of a large calibration set, and of the final fit."""
        n_folds = float(self.cv) if is_whole(self.cv, 2) else 5.0
        if isinstance(self.candidates, str):
            return JointCost([FitPart(COST_OF_DEFAULT, most_rows=TRIAL_ROWS), FitPart(COST_OF_SELECTED)])
        stages = [candidate.calibrator.fit_cost for candidate in chosen_candidates(self.candidates)]
        return JointCost(
            [
                part
                for cost in stages
                for part in (FitPart(cost, n_folds, most_rows=TRIAL_ROWS), FitPart(cost))
            ]
        )

    @property
    def _is_restricted_to_present_classes(self) -> bool:
        """Never: every component treats classes without calibration rows by itself, and shared maps cover them."""
        return False

    def _fit(self, data: LabelledPredictions) -> None:
        self._check_parameters()
        data, n_rows = data.with_counting_weights(), data.n_rows
        if data.groups is None and is_whole(self.cv, 2):
            data = merged_duplicates(data)
        self._fit_trials(
            trial_rows(data),
            n_rows,
            data,
            lambda family, path: fitted_family(family, data, path),
        )

    def _fit_trials(
        self,
        sample: LabelledPredictions,
        n_rows: int,
        data: LabelledPredictions | RowSource,
        fit: FamilyFit,
    ) -> None:
        """Compare candidates on a sample of the rows, and fit the selected ones to all rows by ``fit``, by family."""
        candidates = self._candidates(data)
        folds = stratified_folds(self.cv, sample)
        trials = evaluate_candidates(candidates, sample, folds, self.time_budget, data.n_rows)
        pool = pooled(trials, self.negligible, data.n_classes) if self.choice == "pool" else single(trials)
        gain = Gain.of(pool.losses, trials)
        weights, candidates = pool.weights, [trial.candidate for trial in trials.evaluated]
        self.absent_factors_ = None
        self._set_parts(candidates, weights, fit, trials.paths)
        if weights[0] < 1 and not self._setting("preserve_accuracy"):
            self._limit_absent(sample, data.class_weights)
        gain = gain.of_fit(sample.row_losses("log", self._transform(sample.predictions)), trials)
        rejected = ""
        if is_worse_than_identity(data, self._transform):
            rejected = "the selection is worse on the complete calibration set"
            weights = np.eye(len(weights))[0]
            self._set_parts(candidates, weights, fit, trials.paths)
            self.absent_factors_ = None
        self.decision_ = decision_table(trials, weights)
        self.explanation_ = in_words(
            self.decision_,
            gain,
            rejected,
            n_rows if sample is data else sample.n_rows,
            len(folds),
            self._measured(data.first.predictions if isinstance(data, RowSource) else data.predictions),
        )

    def _limit_absent(self, sample: LabelledPredictions, class_weights: Vector) -> None:
        """Limit the probability of classes without calibration rows to what the rows allow."""
        absent = class_weights == 0
        if not absent.any():
            return
        calibrated = self._transform(sample.predictions).probabilities
        scoreless = absent & ~sample.predictions.probabilities.any(axis=0)
        factors = np.ones(len(absent))
        for classes, limited in ((absent & ~scoreless, factor_of_absent), (scoreless, factor_of_scoreless)):
            if classes.any():
                masses = calibrated[:, classes].sum(axis=1, dtype=np.float64)
                factors[classes] = limited(masses, sample.weights, class_weights)
        if (factors < 1).any():
            self.absent_factors_ = factors

    def _measured(self, predictions: Predictions) -> str:
        """Return how the losses differ from those of the given probabilities; empty if they do not."""
        if predictions.space is Space.LOGITS or predictions.scores.all():
            return ""
        return f"with zeros raised to {predictions.floor:.2g}"

    def _traced(self, given: TracedPredictions) -> TracedPredictions:
        pool = self._pool(given)
        factors = vars(self).get("absent_factors_")  # not in files of earlier versions
        if factors is None:
            return pool
        scaled = pool.probabilities.affine(factors)
        return (
            given.with_probabilities((scaled / scaled.row("sum")).narrowed()).with_floor(TINY).without_zeros()
        )

    def _pool(self, given: TracedPredictions) -> TracedPredictions:
        """Return the weighted average of the components."""
        if len(self.calibrators_) == 1:
            only: TracedPredictions = self.calibrators_[0]._trace(given)
            return (only if only.floor is not None else only.with_floor(TINY)).without_zeros()
        first, *others = (calibrator._trace(given).probabilities for calibrator in self.calibrators_)
        mixed = first.mixed(others, self.weights_).narrowed()
        kept: Literal["argmax"] | None = "argmax" if self._setting("preserve_accuracy") else None
        # The product of a small weight and a tiny probability underflows.
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
                f"none of the candidates {[one.name for one in found[1:]]} preserves the predicted class; set "
                "preserve_accuracy=False, or list some that do, such as 'temperature' and 'shared-map'."
            )
        return kept

    def _set_parts(
        self,
        candidates: list[Candidate],
        weights: NDArray[np.float64],
        fit: FamilyFit,
        paths: Mapping[str, NearbyPath],
    ) -> None:
        kept = [candidate for candidate, weight in zip(candidates, weights, strict=True) if weight > 0]
        fitted: dict[str, Calibrator] = {}
        with held_back():  # the table has what matters
            for family in families(kept):
                names = [candidate.name for candidate in family]
                fitted |= zip(names, fit(family, paths.get(family[0].family)), strict=True)
        self.calibrators_ = [fitted[candidate.name] for candidate in kept]
        self.weights_ = weights[weights > 0]

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
    """Return the listed calibrators, made from their names where necessary; fit refuses everything else."""
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
