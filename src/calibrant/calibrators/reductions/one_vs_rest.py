"""One-vs-rest: one binary map for each class."""

from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from calibrant.calibrator import Calibrator, Traits
from calibrant.calibrators.reductions.binary_problem import binary_problem
from calibrant.calibrators.reductions.event_scores import EventScores
from calibrant.calibrators.reductions.identity_check import is_worse_than_identity
from calibrant.calibrators.reductions.rest import AgainstRest
from calibrant.errors import CalibrationWarning, ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import gathered, warn_user
from calibrant.numerics.row_blocks import row_blocks
from calibrant.numerics.threads import in_threads
from calibrant.objective import RowSource
from calibrant.options import check_choice
from calibrant.predictions import Predictions
from calibrant.solvers import Status
from calibrant.space import Space

__all__ = ["OneVsRest"]

FloatArray = NDArray[np.floating]
Normalisation = Literal["divide", "shift", "project"]

# Log-odds of a one: just beyond the 36.7 of the largest float64 below one.
CERTAIN = 40.0

# How far below the largest log-odds of its row an entry may lie; zeros lie there. As a share it is e^-80.
SPREAD = 80.0


def _divided(values: NDArray[np.float64]) -> NDArray[np.float64]:
    quotient: NDArray[np.float64] = values / values.sum(axis=1, keepdims=True)
    return quotient


def _shifted(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Subtract from all log-odds of a row what makes its probabilities sum to one.

    The sum falls with the shift, so a bracket holds the answer; Newton's step is taken where it stays inside.
    """
    # Rows may sum to a little more than one, and an entry then exceed it.
    odds = np.minimum(logit(np.minimum(values, 1.0)), CERTAIN)
    largest = odds.max(axis=1)
    odds = np.maximum(odds - largest[:, np.newaxis], -SPREAD)
    # With the largest log-odds at -log(K - 1) no entry exceeds 1/K; with the smallest there none is below.
    base = float(np.log(max(values.shape[1] - 1, 1)))
    low, high = odds.min(axis=1) + base, np.full(len(odds), base)
    shift = np.clip(-largest, low, high)
    for _ in range(100):
        shifted = expit(odds - shift[:, np.newaxis])
        excess = shifted.sum(axis=1) - 1
        low, high = np.where(excess > 0, shift, low), np.where(excess > 0, high, shift)
        if np.abs(excess).max() < 1e-14 * values.shape[1]:
            break
        slope = (shifted * (1 - shifted)).sum(axis=1)
        newton = shift + excess / slope
        shift = np.where((newton > low) & (newton < high), newton, (low + high) / 2)
    return _divided(shifted)


def _projected(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the nearest point of the simplex in the sense of least squares."""
    n_classes = values.shape[1]
    descending = -np.sort(-values, axis=1)
    excess = (np.cumsum(descending, axis=1) - 1) / np.arange(1, n_classes + 1)
    n_positive = (descending > excess).sum(axis=1, keepdims=True)
    return _divided(np.maximum(values - np.take_along_axis(excess, n_positive - 1, axis=1), 0.0))


NORMALISATIONS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "divide": _divided,
    "shift": _shifted,
    "project": _projected,
}


def normalised(values: FloatArray, how: Normalisation, fallback: FloatArray) -> FloatArray:
    r"""Return rows that sum to one, in the float type of ``values``.

    For a row g of separate probabilities

    - ``"divide"`` gives :math:`g_j / \sum_k g_k`;
    - ``"shift"`` gives :math:`\sigma(\operatorname{logit} g_j - \lambda)` with the one :math:`\lambda` for
      which they sum to one, the row nearest to g in the sum of binary Kullback-Leibler divergences;
    - ``"project"`` gives the row nearest to g in the sense of least squares, with zeros if need be.

    All three leave alone what sums to one already, and keep the order; "shift" as far as entries are not more than 80
    nats below the largest of their row. Rows of zeros say nothing: the
    row of ``fallback`` takes their place. O(nK), for "project" O(nK log K).

    >>> separate, own = np.array([[0.9, 0.6], [0.0, 0.0]]), np.array([[0.7, 0.3], [0.8, 0.2]])
    >>> normalised(separate, "divide", own)
    array([[0.6, 0.4], [0.8, 0.2]])
    >>> normalised(separate, "project", own).round(3)
    array([[0.65, 0.35], [0.8 , 0.2 ]])
    >>> normalised(separate, "shift", own).round(3)
    array([[0.71, 0.29], [0.8 , 0.2 ]])
    """
    result = np.empty_like(values)
    for rows in row_blocks(len(values), values.shape[1]):
        block = values[rows].astype(np.float64)
        empty = block.max(axis=1) == 0
        block[empty] = fallback[rows][empty]
        result[rows] = NORMALISATIONS[how](block)
    return result


class OneVsRest(Calibrator):
    r"""Calibrate every class against all others with a method for two classes.

    .. math:: g_j = h_j(p_j), \qquad \hat q = \mathrm{normalise}(g_1, \dots, g_K)

    where :math:`h_j` is fitted to the probability of class j and to whether the class is j
    :cite:`zadrozny2002`. Binary methods of this library do this by themselves when they are given more than two
    classes; use this class to choose how rows are made to sum to one, or to wrap any other calibrator.

    Parameters
    ----------
    base : Calibrator
        What is fitted for each class; any calibrator that takes two classes. It is cloned, not changed.
    normalisation : {"divide", "shift", "project"}, default="divide"
        How the separate probabilities of a row become one distribution: by division by their sum, as in all
        papers; by a common shift of their log-odds, which is nearest in Kullback-Leibler divergence; or by
        projection, which is nearest in least squares and can give zeros.

    Attributes
    ----------
    calibrators_ : list of Calibrator
        One fitted map for each class that has calibration rows, in the order of ``classes_``; for two classes a
        single one, of the second class. The ``one_vs_rest_`` of a binary method has only such classes in its own
        ``classes_``.
    identity_kept_ : bool
        Whether doing nothing had the lower log-loss on the calibration rows (for ``"project"`` the lower Brier score),
        so that it is what is done. Looked at only where the family of ``base`` contains the identity, since only
        there it is a promise. Zeros then still count as the floor.

    Notes
    -----
    *Zero rows.* Where all maps give zero, the row keeps the probabilities of the classifier; programs of the
    literature leave zeros, NaN or a uniform row there. *Classes without calibration rows* keep the share of
    probability that the classifier gives them, as with every calibrator here, so that each map sees both outcomes.
    *Digits.* A map sees the class and the sum of the others, added up and not taken as one minus the class,
    so that confident float32 rows keep finite log-odds. Separate maps do not keep the arg-max.

    Costs K fits of ``base``, on several threads where each has enough rows for that to pay; with two classes one fit.

    Examples
    --------
    >>> from calibrant import TemperatureScaling
    >>> p = [[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.3, 0.6, 0.1], [0.5, 0.2, 0.3]] * 4
    >>> y = [0, 1, 1, 0, 2, 0, 1, 1, 0, 1, 2, 1, 1, 0, 2, 0, 1, 2, 0, 2]
    >>> fitted = OneVsRest(TemperatureScaling()).fit(p, y)
    >>> [round(calibrator.temperature_, 3) for calibrator in fitted.calibrators_]
    [3.125, 2.117, 1.348]
    >>> fitted.class_probabilities(p[:1]).round(3)          # before they are made to sum to one
    array([[0.567, 0.342, 0.164]])
    >>> fitted.predict_proba(p[:1]).round(3)
    array([[0.529, 0.319, 0.153]])
    """

    calibrators_: list[Calibrator]

    def __init__(self, base: Calibrator, normalisation: Normalisation = "divide") -> None:
        self.base = base
        self.normalisation = normalisation

    @property
    def traits(self) -> Traits:  # type: ignore[override]
        """What follows from those of the base."""
        # What is no calibrator is refused by a fit, with a sentence.
        base = self.base.traits if isinstance(self.base, Calibrator) else Traits()
        return Traits(
            contains_identity=base.contains_identity,
            commutes_with_permutations=base.commutes_with_permutations,  # of two classes one is the event
            uses_raw_logits=base.uses_raw_logits,
        )

    def class_probabilities(self, X: object) -> NDArray[np.floating]:
        """Return the separate probability of every class, (n, K), whose rows need not sum to one.

        They are what the papers' programs evaluate where they do not normalise. A class without calibration
        rows has the classifier's own probability, and the others their probability given that it is none
        of those.
        """
        check_is_fitted(self)
        predictions = self._parsed(X)
        columns = self.present_columns_
        if columns is None:
            return self._separate(AgainstRest(predictions))
        separate = predictions.without_zeros().probabilities.copy()
        separate[:, columns] = self._separate(AgainstRest(predictions.restricted_to(columns)))
        return separate

    def _fit(self, data: LabelledPredictions) -> None:
        if not isinstance(self.base, Calibrator):
            raise ParameterError(
                f"base must be a calibrator such as IsotonicCalibration(), not {self.base!r}."
            )
        check_choice("normalisation", self.normalisation, NORMALISATIONS)
        self.identity_kept_ = False
        if data.n_classes == 2:
            self.calibrators_ = [clone(self.base).fit_labelled(data)]
            return
        against = AgainstRest(data.predictions)
        with gathered(data.n_classes, "one-vs-rest fit"):
            self.calibrators_ = in_threads(
                partial(self._fitted, against, data), range(data.n_classes), data.n_rows
            )
        self._keep_identity_if_better(data, lambda _: self._together(against))

    def _fit_source(self, source: RowSource) -> None:
        """Fit rows that need not be in memory, class by class."""
        self.identity_kept_ = False
        self.calibrators_ = []
        with gathered(source.n_classes, "one-vs-rest fit"):
            for column in range(source.n_classes):
                of_class = source.mapped(
                    lambda data, column=column: binary_problem(  # type: ignore[misc]
                        AgainstRest(data.predictions).column(column), data.labels == column, data.weights
                    )
                )
                self.calibrators_.append(clone(self.base).fit_rows(of_class))
        self._keep_identity_if_better(source, lambda given: self._together(AgainstRest(given)))

    def _keep_identity_if_better(
        self, data: LabelledPredictions | RowSource, calibrated: Callable[[Predictions], Predictions]
    ) -> None:
        # Each map is at least as good as the identity for its class; made to sum to one they need not be. What
        # projection minimises is the squared error, and its zeros make the log-loss infinite.
        loss: Literal["log", "brier"] = "brier" if self.normalisation == "project" else "log"
        if self.base.traits.contains_identity and is_worse_than_identity(data, calibrated, loss):
            self.identity_kept_ = True
            warn_user(
                f"{type(self.base).__name__}, one against the rest: {Status.IDENTITY.value}.",
                CalibrationWarning,
            )

    def _fitted(self, against: AgainstRest, data: LabelledPredictions, column: int) -> Calibrator:
        binary = binary_problem(against.column(column), data.labels == column, data.weights)
        fitted: Calibrator = clone(self.base).fit_labelled(binary)
        return fitted

    def _transform(self, predictions: Predictions) -> Predictions:
        if self.identity_kept_:
            return predictions.without_zeros()
        if predictions.n_classes == 2:
            return self.calibrators_[0].transform(predictions)
        return self._together(AgainstRest(predictions))

    def _together(self, against: AgainstRest) -> Predictions:
        predictions = against.predictions
        together = normalised(self._separate(against), self.normalisation, predictions.probabilities)
        return Predictions(together, Space.PROBABILITIES, predictions.classes)

    def _separate(self, against: AgainstRest) -> NDArray[np.floating]:
        predictions = against.predictions
        if predictions.n_classes == 2:
            return np.array(self.calibrators_[0].transform(predictions).probabilities)
        separate = np.empty_like(predictions.scores)
        tiny = float(np.finfo(separate.dtype).tiny)

        def fill(column: int) -> None:
            # Parsed and checked already, which for one row and many classes would take most of the time.
            calibrated = self.calibrators_[column]._mapped(against.column(column))
            probability = EventScores(calibrated).probability
            # Zeros of a raw map stay; what is only too small for the float type does not become one.
            separate[:, column] = np.where(probability > 0, np.maximum(probability, tiny), 0.0)

        in_threads(fill, range(predictions.n_classes), predictions.n_rows)
        return separate
