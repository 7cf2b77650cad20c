"""LabelShift: estimate the class prior of unlabelled rows, and adapt probabilities to it."""

from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays import Matrix, Vector
from calibrant.calibrator import Calibrator, Traits
from calibrant.calibrators.shift.label_shift.diagnostics import (
    Estimator,
    degrees_of_freedom,
    indistinct_groups,
    jackknife_variances,
    shift_model_p_value,
)
from calibrant.calibrators.shift.label_shift.estimators import (
    ConfusionPrior,
    LikelihoodPrior,
    PriorEstimate,
    mean_ratios,
)
from calibrant.calibrators.shift.prior_shift import reweighted
from calibrant.errors import CalibrationWarning, ParameterError, WeightError
from calibrant.graph import TracedPredictions
from calibrant.graph.apply import evaluated
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import held_back, warn_user
from calibrant.options import (
    check_choice,
    check_level,
    check_not_negative,
    check_whole,
    random_source,
    real_array,
)
from calibrant.predictions import Predictions
from calibrant.presentation.sentences import p_text

__all__ = ["LabelShift"]


@dataclass(frozen=True, eq=False)
class SourceSummary:
    """Averages of calibrated predictions over labelled rows.

    Attributes
    ----------
    mean : ndarray of shape (K,)
        Mean prediction.
    label_shares : ndarray of shape (K,)
    soft, hard : ndarray of shape (K, K)
        Column k: mean prediction, and frequency of every predicted class, among rows of class k.
    """

    mean: Vector
    label_shares: Vector
    soft: Matrix
    hard: Matrix

    @classmethod
    def of(cls, calibrator: Calibrator, data: LabelledPredictions) -> Self:
        """Return the averages of what a fitted calibrator says about these rows."""
        calibrated = calibrator.transform(data.predictions)
        weights = np.ones(data.n_rows) if data.weights is None else data.weights
        totals = np.maximum(data.class_weights, np.finfo(np.float64).tiny)
        size = data.n_classes
        soft = np.zeros((size, size))
        for column, scores in enumerate(calibrated.probabilities.T):
            soft[column] = np.bincount(data.labels, weights * scores, minlength=size)
        hard = np.bincount(calibrated.predicted * size + data.labels, weights, minlength=size**2)
        return cls(
            mean=soft.sum(axis=1) / soft.sum(),
            label_shares=data.class_weights / data.total_weight,
            soft=soft / totals,
            hard=hard.reshape(size, size) / totals,
        )


def predicted_classes(predictions: Predictions) -> Matrix:
    """Return one for the predicted class of every row and zero for the others.

    >>> predicted_classes(Predictions.parse([[0.2, 0.8], [0.6, 0.4]]))
    array([[0., 1.], [1., 0.]])
    """
    return np.eye(predictions.n_classes)[predictions.predicted]


def dealt_groups(labels: NDArray[np.intp], n_groups: int, generator: np.random.Generator) -> NDArray[np.intp]:
    """Deal rows out to groups, class by class; rows that are alone in their class belong to none, -1.

    >>> dealt_groups(np.array([0, 0, 0, 0, 1, 1, 2]), 2, np.random.default_rng(0))
    array([ 0,  1,  0,  1,  0,  1, -1])
    """
    order = generator.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    groups = np.full(len(labels), -1)
    counts = np.bincount(labels)
    several = order[counts[labels[order]] > 1]
    groups[several] = np.arange(len(several)) % n_groups
    return groups


@dataclass(frozen=True, eq=False)
class TargetRows:
    """Predictions of a classifier for rows whose labels are not known.

    Attributes
    ----------
    predictions : Predictions
    weights : ndarray of shape (n,) or None
        Positive, and one or more on average: smaller ones say which rows matter more, and do not make them fewer.
    """

    predictions: Predictions
    weights: Vector | None = None

    @classmethod
    def parse(cls, predictions: Predictions, sample_weight: Any = None) -> Self:
        """Check weights and leave rows of weight zero out.

        >>> TargetRows.parse(Predictions.parse([[0.5, 0.5]] * 3), [0, 0.1, 0.3]).weights
        array([0.5, 1.5])
        """
        if sample_weight is None:
            return cls(predictions)
        weights = real_array(sample_weight)
        if weights is None or weights.shape != (predictions.n_rows,):
            raise WeightError(
                f"sample_weight must be one number for each of {predictions.n_rows} rows; pass a flat array of "
                "that length."
            )
        if not (np.isfinite(weights) & (weights >= 0)).all() or not weights.any():
            raise WeightError("sample_weight must be finite, not negative and not zero for all rows.")
        kept = weights > 0
        if not kept.all():
            predictions, weights = predictions.take(kept), weights[kept]
        return cls(predictions, weights / min(float(weights.mean()), 1.0))

    @property
    def n_rows(self) -> int:
        """Number of rows, n."""
        return self.predictions.n_rows

    @property
    def total_weight(self) -> float:
        """How many rows they count for."""
        return float(self.n_rows if self.weights is None else self.weights.sum())

    def restricted_to(self, columns: NDArray[np.intp]) -> Self:
        """Return the rows for some of the classes, given that the true class is one of them."""
        return replace(self, predictions=self.predictions.restricted_to(columns))

    def spaced(self, n_rows: int) -> Self:
        """Return so many rows at the most, evenly spaced among all."""
        if n_rows >= self.n_rows:
            return self
        rows = np.linspace(0, self.n_rows - 1, n_rows).astype(np.intp)
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, predictions=self.predictions.take(rows), weights=weights)


METHODS = ("em", "confusion", "confusion-soft")

# Predictions that are less likely than this under any shares of the classes are reported.
ALARM = 1e-3

SMALLEST_SHARE = 1e-12  # of a class that is predicted never, in the place of zero

LARGEST_REMAINDER = (
    0.01  # probability at the most that goes to all classes of which there is no sign in the target
)

SHOWN = 10  # how many classes a warning lists

# Effects of leaving source rows out are averaged over so many predictions at the most, evenly spaced among the rows.
ENTRIES = 2**21


class LabelShift(Calibrator):
    r"""Label shift: estimate the class prior of unlabelled target rows, and adapt the probabilities to it.

    Under label shift the class frequencies differ between calibration set and use, while rows of the same class have the
    same distribution. ``fit`` calibrates on labelled source rows; :meth:`estimate` returns the class prior of target rows,
    with confidence intervals; :meth:`adapt` returns a calibrator for the target,

    .. math:: \hat q_k \propto g_k(p) \, \hat\pi_k / \pi^0_k

    where g is the calibrator and :math:`\pi^0` its class prior. By maximum likelihood,

    .. math:: \hat\pi = \arg\max_\pi \sum_i \log \sum_k \pi_k \, g_k(p_i) / \pi^0_k ,

    after bias-corrected temperature scaling :cite:`alexandari2020`, or from the confusion matrix C of the source and the
    mean :math:`\mu` of the predictions of the target :cite:`lipton2018`,

    .. math:: \hat\pi = \arg\min_{\pi \ge 0,\, \sum_k \pi_k = 1} \lVert C \pi - \mu \rVert^2 .

    Parameters
    ----------
    calibrator : str or Calibrator, default="bias-corrected-temperature"
        Calibrator of the source. Its mean prediction of every class should be unbiased; temperature scaling is biased, and
        its bias looks like a shift.
    method : {"em", "confusion", "confusion-soft"}, default="em"
        Maximum likelihood, named after the usual EM algorithm :cite:`saerens2002`; the confusion matrix of predicted
        classes; or that of mean predictions. Maximum likelihood is best for a good calibrator and a dominant class, and
        about equal to soft confusion elsewhere; predicted classes have less information. Confusion matrices need no
        calibrated predictions to estimate the prior, only enough source rows of every class.
    source_prior : {"predictions", "labels"}, default="predictions"
        :math:`\pi^0`: mean calibrated prediction on the source rows, with which a target equal to the source shows no
        shift, or the class frequencies. With the default calibrator they are equal.
    ridge : float, default=0
        For confusion matrices: regularisation strength :math:`\rho` of :math:`\rho \sum_k (\pi_k / \pi^0_k - 1)^2`, which
        shrinks the estimate towards no shift :cite:`azizzadenesheli2019`.
    n_groups : int, default=20
        Number of groups of the delete-a-group jackknife over source rows, each with a refit of the calibrator, for the
        variance of the estimate. With 0 the intervals treat the calibrator and the confusion matrix as known, and the
        label-shift assumption is not tested.
    random_state : int, Generator or None, default=0
        For the assignment of rows to groups.

    Attributes
    ----------
    calibrator_ : Calibrator
        Fitted to all source rows.
    source_prior_ : ndarray of shape (K,)
        :math:`\pi^0`. Only for classes with source rows, like all of the following.
    confusion_ : ndarray of shape (K, K)
        C, one column for each true class: frequency of every predicted class, or mean prediction.
    indistinct_ : list of list of int
        Groups of class indices that the predictions cannot distinguish.
    target_prior_ : ndarray of shape (K,) or None
        Class prior after :meth:`adapt`, or None before. The printed form shows only parameters.

    Notes
    -----
    *Likelihood.* It is concave in the prior, so expectation-maximisation is replaced by a few Newton steps on the simplex,
    with the same optimum; the authors' program stops after 100 EM steps. Entries can be exactly zero.
    *Confusion matrix.* The equation :math:`C \pi = \mu` is solved by constrained least squares. If its solution has negative
    entries, the authors' programs set these to zero and do not change the others; otherwise the results are equal.

    *Confidence intervals* are per class. For maximum likelihood they are profile-likelihood intervals (up to third order),
    with the quantile scaled by the ratio of the total variance to that of the target rows :cite:`royall2003`; for the
    confusion matrix they are Wilson's. The variance due to the source rows comes from a stratified delete-a-group
    jackknife with ``n_groups`` groups. The intervals do not cover misspecification of the calibrator, the bias of a ridge,
    and violations of label shift. The only source row of a class is never left out. With a dozen source rows, the coverage
    of 95 % intervals was 90 % in one simulation, and 84 % for rare classes in another.

    *Small shifts.* Errors due to source rows and calibrator do not decrease with more target rows. A large shift is
    corrected almost as well as with the true prior; a large part of the small gain from a small shift can be lost.

    *Warnings.* If the mean predictions of some classes do not differ by three standard errors on the source rows, their
    priors are not identified, and a warning names them. Classes with the same distribution reach three standard errors at
    most once in 370 times; different classes with about twenty rows each often do not. If the target predictions reject the
    label-shift model (``p_value`` below 0.001), probabilities may be wrong for any prior.

    *Classes without source rows* are left out; they keep the share of probability that the classifier gives them, and
    their interval is from 0 to 1.

    ``fit`` costs ``n_groups + 1`` fits of the calibrator. An estimate costs O(nK^2) for each of about ten Newton steps,
    with up to about a hundred classes; with a thousand, some seconds per thousand rows. Memory is four copies
    of the target rows in float64. Before :meth:`adapt`, ``predict_proba`` is that of the calibrator.

    Examples
    --------
    In the calibration set both classes are equally frequent, and one in five rows of each is misclassified. In use 70 % are
    predicted positive, so :math:`0.8 \, \pi + 0.2 \, (1 - \pi) = 0.7` and :math:`\pi = 5/6`.

    >>> p, y = [0.8] * 500 + [0.2] * 500, [1] * 400 + [0] * 100 + [0] * 400 + [1] * 100
    >>> source = LabelShift().fit(p, y)
    >>> estimate = source.estimate([0.8] * 70 + [0.2] * 30)
    >>> estimate.prior.round(4)
    array([0.1667, 0.8333])
    >>> estimate.lower.round(2), estimate.upper.round(2)
    (array([0.02, 0.67]), array([0.33, 0.98]))
    >>> source.adapt([0.8] * 70 + [0.2] * 30).predict_proba([0.8, 0.2]).round(4)
    array([[0.0476, 0.9524], [0.4444, 0.5556]])
    """

    calibrator_: Calibrator
    group_calibrators_: list[Calibrator]
    group_priors_: Matrix
    group_confusions_: Matrix
    group_check_confusions_: Matrix
    target_prior_: Vector | None

    def __init__(
        self,
        calibrator: Any = "bias-corrected-temperature",
        method: Literal["em", "confusion", "confusion-soft"] = "em",
        source_prior: Literal["predictions", "labels"] = "predictions",
        ridge: float = 0.0,
        n_groups: int = 20,
        random_state: Any = 0,
    ) -> None:
        self.calibrator = calibrator
        self.method = method
        self.source_prior = source_prior
        self.ridge = ridge
        self.n_groups = n_groups
        self.random_state = random_state

    @property
    def traits(self) -> Traits:  # type: ignore[override]
        """What follows from those of the calibrator."""
        base = self.calibrator.traits if isinstance(self.calibrator, Calibrator) else Traits()
        return Traits(binary_only=base.binary_only, uses_raw_logits=base.uses_raw_logits)

    def estimate(self, X: Any, sample_weight: Any = None, level: float = 0.95) -> PriorEstimate:
        """Return the shares of the classes among target rows.

        Parameters
        ----------
        X : array, frame or Predictions
            Predictions of the classifier for rows of the target, of the same kind as in ``fit``.
        sample_weight : array of shape (n,), optional
            A weight of two is the same as the row given twice.
        level : float, default=0.95
            Confidence of the interval of each share.
        """
        check_is_fitted(self)
        check_level(level)
        target = TargetRows.parse(self._parsed(X).with_floor(self.floor_), sample_weight)
        columns = self.present_columns_
        if columns is None:
            return self._estimated(target, level, self.classes_)
        # Classes that nobody has seen keep what the classifier gives them.
        whole = np.average(evaluated(self._as_given, target.predictions), axis=0, weights=target.weights)
        known = self._estimated(target.restricted_to(columns), level, self.classes_[columns])
        absent = np.setdiff1d(np.arange(len(whole)), columns)

        def among_all(shares: Vector, of_absent: Any) -> Vector:
            values = np.empty(len(whole))
            values[columns], values[absent] = whole[columns].sum() * shares, of_absent
            return values

        return replace(
            known,
            classes=self.classes_,
            prior=among_all(known.prior, whole[absent]),
            lower=among_all(known.lower, 0.0),
            upper=among_all(known.upper, 1.0),
            source_prior=among_all(known.source_prior, whole[absent]),
        )

    def adapt(self, X: Any, sample_weight: Any = None) -> Self:
        """Return a calibrator for the target that these rows are of; this one stays as it is.

        Shares below 1 / (2n), with n the sum of the weights, count as that, zeros above all, so that no class becomes
        impossible; with many classes they are kept smaller, to be 1 % together at the most.

        Parameters
        ----------
        X : array, frame or Predictions
            Predictions of the classifier for rows of the target, of the same kind as in ``fit``.
        sample_weight : array of shape (n,), optional
            A weight of two is the same as the row given twice.
        """
        estimate = self.estimate(X, sample_weight)
        columns = self.present_columns_
        prior = estimate.prior if columns is None else estimate.prior[columns]
        prior = prior / prior.sum()
        # An estimate of zero from n rows is no proof that a class is impossible.
        prior = np.maximum(prior, min(0.5 / estimate.total_weight, LARGEST_REMAINDER / len(prior)))
        adapted = copy(self)
        adapted.target_prior_ = prior / prior.sum()
        return adapted

    def _fit(self, data: LabelledPredictions) -> None:
        base = self._checked_calibrator()
        self.calibrator_ = clone(base).fit_labelled(data, warn_of_absent=False)
        summary = SourceSummary.of(self.calibrator_, data)
        self.source_prior_ = self._prior_of(summary)
        self.confusion_, self.check_confusion_ = self._confusions_of(summary)
        self.group_calibrators_ = []
        parts = []
        if self.n_groups:
            groups = dealt_groups(data.labels, self.n_groups, random_source(self.random_state))
            for group in range(int(groups.max()) + 1):
                rest = data.take(groups != group)
                with held_back():  # of a fit that is like the one above
                    fitted = clone(base).fit_labelled(rest, warn_of_absent=False)
                self.group_calibrators_.append(fitted)
                part = SourceSummary.of(fitted, rest)
                parts.append((self._prior_of(part), *self._confusions_of(part)))
        stacked = [np.array(part) for part in zip(*parts, strict=True)] if parts else [np.empty(0)] * 3
        self.group_priors_, self.group_confusions_, self.group_check_confusions_ = stacked
        counted = data.with_counting_weights()
        q = self.calibrator_.transform(data.predictions).probabilities.astype(np.float64)
        self.indistinct_ = indistinct_groups(q, data.labels, counted.weights)
        self.target_prior_ = None

    def _traced(self, given: TracedPredictions) -> TracedPredictions:
        calibrated = self.calibrator_._trace(given)
        if self.target_prior_ is None:
            return calibrated
        floored = calibrated if calibrated.floor is not None else calibrated.with_floor(self.floor_)
        return reweighted(floored, self.target_prior_ / self.source_prior_)

    def _checked_calibrator(self) -> Calibrator:
        check_choice("method", self.method, METHODS)
        check_choice("source_prior", self.source_prior, ("predictions", "labels"))
        check_not_negative("ridge", self.ridge, "such as 0.001")
        check_whole("n_groups", self.n_groups, 0)
        if self.n_groups == 1:
            raise ParameterError(
                "n_groups must be 0 or at least 2, not 1: without its one group no row is left."
            )
        if isinstance(self.calibrator, str):
            from calibrant.registry import make

            return make(self.calibrator)
        if isinstance(self.calibrator, Calibrator):
            return self.calibrator
        raise ParameterError(
            f"calibrator must be a registry name or an unfitted Calibrator, not {self.calibrator!r}."
        )

    def _prior_of(self, summary: SourceSummary) -> Vector:
        shares = summary.mean if self.source_prior == "predictions" else summary.label_shares
        shares = np.maximum(shares, SMALLEST_SHARE)
        return np.asarray(shares / shares.sum())

    def _confusions_of(self, summary: SourceSummary) -> tuple[Matrix, Matrix]:
        """Return the matrix that the estimate makes use of, and another one that it can be checked by."""
        if self.method == "confusion":
            return summary.hard, summary.soft
        return summary.soft, summary.hard

    def _estimated(self, target: TargetRows, level: float, classes: NDArray[Any]) -> PriorEstimate:
        calibrated = self.calibrator_.transform(target.predictions)
        own, other = self._kinds(calibrated)
        estimator: Estimator
        if self.method == "em":
            estimator = LikelihoodPrior(own, target.weights, self.source_prior_)
        else:
            estimator = ConfusionPrior(own, target.weights, self.confusion_, self.source_prior_, self.ridge)
        scores, residuals = self._without_groups(target.spaced(max(1, ENTRIES // len(classes))), estimator)
        moves = scores @ estimator.directions.vectors.T / estimator.directions.curvatures
        of_source = jackknife_variances(moves)
        freedom = degrees_of_freedom(estimator.target_variances, of_source, len(scores))
        lower, upper = estimator.limits(student.ppf((1 + level) / 2, freedom), of_source)
        # Without groups the gaps of the source rows are of unknown size, and a ridge makes gaps on purpose.
        can_judge = len(residuals) > 1 and not (self.ridge and self.method != "em")
        p_value = (
            shift_model_p_value(estimator, other, self.check_confusion_, residuals) if can_judge else np.nan
        )
        indistinct = [classes[group].tolist() for group in self.indistinct_]
        _warn(indistinct, p_value)
        return PriorEstimate(
            classes,
            estimator.prior,
            lower,
            upper,
            source_prior=self.source_prior_,
            level=level,
            method=self.method,
            n_rows=target.n_rows,
            total_weight=target.total_weight,
            indistinct=indistinct,
            p_value=p_value,
        )

    def _kinds(self, calibrated: Predictions) -> tuple[Matrix, Matrix]:
        """Return the predictions that the estimate makes use of, and those that it can be checked by."""
        soft, hard = calibrated.probabilities.astype(np.float64), predicted_classes(calibrated)
        return (hard, soft) if self.method == "confusion" else (soft, hard)

    def _without_groups(self, target: TargetRows, estimator: Estimator) -> tuple[Matrix, Matrix]:
        """Return slopes at the estimate, and gaps of the check, without each group of source rows; (G, K) each."""
        size = len(estimator.prior)
        scores, residuals = np.zeros((len(self.group_calibrators_), size)), np.empty((0, size))
        gaps = np.zeros_like(scores)
        for group, calibrator in enumerate(self.group_calibrators_):
            own, other = self._kinds(calibrator.transform(target.predictions))
            if self.method == "em":
                scores[group] = mean_ratios(own, target.weights, self.group_priors_[group], estimator.prior)
            else:
                confusion = self.group_confusions_[group]
                mean = np.average(own, axis=0, weights=target.weights)
                scores[group] = confusion.T @ (mean - confusion @ estimator.prior)
            gaps[group] = np.average(other, axis=0, weights=target.weights)
        if len(scores):
            moved = estimator.prior + (scores - scores.mean(axis=0)) @ estimator.directions.response.T
            implied = np.einsum("gjk,gk->gj", self.group_check_confusions_, moved)
            residuals = gaps - implied
        return scores, residuals


def _warn(indistinct: list[list[Any]], p_value: float) -> None:
    if indistinct:
        groups = "; ".join(", ".join(map(repr, group[:SHOWN])) for group in indistinct[:SHOWN])
        warn_user(
            f"the source rows do not show that predictions tell these classes apart: {groups}; rely on the sum of "
            "their shares only, and use more source rows or a better classifier.",
            CalibrationWarning,
        )
    if p_value < ALARM:
        warn_user(
            f"no shares of the classes explain the predictions of these rows ({p_text(p_value)}): more than the "
            "shares has changed, so label some rows of the target and calibrate on them.",
            CalibrationWarning,
        )
