"""CalibratedClassifier: train any scikit-learn classifier and calibrate it on held-out rows."""

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from calibrant.arrays import IntArray
from calibrant.calibrator import Calibrator
from calibrant.calibrators.combinators.calibrated_classifier.outputs import OutputPairs, has_several_outputs
from calibrant.calibrators.combinators.calibrated_classifier.training_rows import (
    RESPONSES,
    TrainingRows,
    estimator_response,
    known_columns,
    mean_scores,
    response_method,
)
from calibrant.errors import CalibrationWarning, LabelError, MissingClassWarning, ParameterError
from calibrant.fit_cost import FitPart, JointCost, announce_cost
from calibrant.notices import Notice, gathered, held_back
from calibrant.predictions import Predictions

__all__ = ["CalibratedClassifier"]


@dataclass(frozen=True, eq=False, repr=False)
class HeldOut:
    """A trained estimator and its predictions for held-out rows."""

    estimator: Any  # Trained on other rows
    response: str  # The prediction method
    rows: IntArray  # (m,): the held-out rows whose class the estimator knows
    predictions: Predictions  # For all K classes
    # The held-out rows of a class that was absent from training. They are excluded: the estimator always
    # gives their class probability 0, which would dominate the log-loss without information on other errors.
    unknown_rows: IntArray


def hold_out(
    estimator: Any, training: TrainingRows, train: IntArray, test: IntArray, response: str
) -> HeldOut:
    """Train a clone of ``estimator`` on the rows ``train`` and predict the rows ``test``."""
    X, _ = _safe_split(estimator, training.X, None, test, train)
    return held_out_by(training.trained(estimator, train), X, training, test, response)


def held_out_by(estimator: Any, X: Any, training: TrainingRows, rows: IntArray, response: str) -> HeldOut:
    """Return the predictions of a trained estimator for ``X``, the given rows of the training data."""
    method = response_method(estimator, response)
    predictions = estimator_response(estimator, X, method, training.classes)
    known = np.isin(training.codes[rows], known_columns(estimator, training.classes))
    if known.all():
        return HeldOut(estimator, method, rows, predictions, rows[:0])
    return HeldOut(estimator, method, rows[known], predictions.take(known), rows[~known])


def pool(parts: Sequence[HeldOut], n_rows: int) -> tuple[IntArray, Predictions]:
    r"""Return the rows that are held out at least once, and their mean predictions.

    .. math:: \bar z_i = \frac{1}{|S_i|} \sum_{s \in S_i} z_i^{(s)}

    where :math:`S_i` are the splits that hold row i out and z are probabilities or logits, as the
    estimators gave them. Splits may overlap and need not cover all rows; where they do neither, this is
    scikit-learn's ``cross_val_predict``. Costs O(nK) beyond the predictions.
    """
    first = parts[0].predictions
    scores = [part.predictions.scores for part in parts]
    rows, means = mean_scores([part.rows for part in parts], scores, n_rows)
    return rows, Predictions(means.astype(first.scores.dtype), first.space)


Part = TypeVar("Part")
Result = TypeVar("Result")


def for_all(work: Callable[[Part], Result], parts: Sequence[Part], n_jobs: int | None) -> list[Result]:
    """Return what the work gives for every part, in their order.

    For one job a plain loop: scikit-learn's helper changes the filters of warnings of the whole process, which is
    not safe when users fit in several threads.

    >>> for_all(abs, [-1, 2], n_jobs=None)
    [1, 2]
    """
    if effective_n_jobs(n_jobs) == 1:
        return [work(part) for part in parts]
    done: list[Result] = Parallel(n_jobs=n_jobs)(delayed(work)(part) for part in parts)
    return done


SHOWN = 10  # how many unknown classes a warning lists

Split = tuple[IntArray, IntArray]
Pair = tuple[Any, Calibrator]


class CalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    r"""Train a classifier and calibrate it on held-out rows.

    With ``ensemble=True``, every split s of ``cv`` gives a clone :math:`f_s` of the estimator, trained on
    the training rows, and a calibrator :math:`g_s`, fitted to its predictions for the held-out rows; the
    calibrated probabilities are averaged over the m splits:

    .. math:: \hat q(x) = \frac{1}{m} \sum_{s=1}^{m} g_s(f_s(x))

    With ``ensemble=False``, one calibrator g is fitted to the pooled out-of-fold predictions and applied to
    one estimator f that is trained on all rows: :math:`\hat q(x) = g(f(x))`. This is the procedure of
    :cite:`platt1999`; it is smaller and faster to predict, but g is fitted to predictions of other estimators than f.

    A :class:`~sklearn.frozen.FrozenEstimator` is already trained: ``cv`` has no effect, and all rows passed
    to :meth:`fit` are the calibration set.

    Parameters
    ----------
    estimator : classifier
        Cloned, never changed. Must have ``predict_proba`` or ``decision_function``.
    method : str or Calibrator, default="auto"
        A name from :func:`calibrant.registry.calibrators` (``+`` composes), or an unfitted calibrator.
    cv : int, splitter or iterable of (train, test), default=5
        An integer is the number of stratified folds. Splits may overlap, repeat and omit rows. With
        ``ensemble=False``, rows that are held out several times count once, with their mean prediction, and rows that are
        never held out are not used for calibration, with a warning.
    ensemble : bool, default=True
        Whether to keep one calibrated clone per split, or one estimator trained on all rows.
    response : {"auto", "predict_proba", "predict_log_proba", "decision_function"}, default="auto"
        Prediction method of the estimator; "auto" is ``predict_proba`` if it exists, else
        ``decision_function``. Probabilities are calibrated as probabilities, the others as logits; a single
        decision value is the log-odds of the second class. A log-probability of minus infinity is replaced by the
        logarithm of 1.2e-38 or the smallest finite one of its row, whichever is lower.
    n_jobs : int, optional
        Number of splits in parallel; the result is the same for any number.

    Attributes
    ----------
    classes_ : ndarray of shape (K,), or a list of them
        All labels in y, and those of a frozen estimator, sorted.
    calibrated_pairs_ : list of (estimator, calibrator)
        The trained estimators, each with its fitted calibrator.
    estimator_, calibrator_ : classifier, Calibrator
        The single pair, with ``ensemble=False``, a frozen estimator, or a ``cv`` of a single split. Otherwise absent.
    response_ : str
        The prediction method.
    n_features_in_, feature_names_in_ : int, ndarray
        Those of the first estimator, if it has them.

    Notes
    -----
    Costs one training per split, and one more with ``ensemble=False``; predicting costs one estimator per
    pair.

    The output has a column for every class. An estimator whose training rows lacked a class gives it
    probability 0 (raised to the calibrator's floor), and held-out rows of that class are not used for its calibration,
    with a warning. A calibrator without rows of some class warns, too.

    Log-probabilities distinguish values that underflow as probabilities. That helps if they are reliable. If they are in
    the minus thousands, as in naive Bayes on many features, the floor of probabilities protects the fit from a few
    extreme rows.

    *Several labels per row.* For an indicator matrix ``y`` (n, L) of 0 and 1, the calibrators are
    :class:`~calibrant.MultilabelCalibration` with ``method``, where "auto" means "shared". For other labels (n, L) they are
    :class:`~calibrant.MultioutputCalibration`. The estimator may return columns or a list of arrays, as in scikit-learn.
    ``classes_`` is then a list with the classes of every output.

    ``groups`` in :meth:`fit` are passed to the splitter, and to a calibrator with its own cross-validation, such as the
    default; with scikit-learn's metadata routing enabled, parameters go where they are requested.

    Examples
    --------
    Naive Bayes treats correlated features as independent and is far over-confident:

    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.metrics import log_loss
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X, X_test, y, y_test = train_test_split(X, y, random_state=0)
    >>> round(log_loss(y_test, GaussianNB().fit(X, y).predict_proba(X_test)), 2)
    0.41
    >>> calibrated = CalibratedClassifier(GaussianNB()).fit(X, y)
    >>> round(log_loss(y_test, calibrated.predict_proba(X_test)), 2)
    0.13
    >>> calibrated = CalibratedClassifier(GaussianNB(), method="temperature").fit(X, y)
    >>> [round(calibrator.temperature_) for _, calibrator in calibrated.calibrated_pairs_]
    [8, 6, 10, 6, 4]
    """

    classes_: Any
    calibrated_pairs_: list[tuple[Any, Any]]
    response_: str

    def __init__(
        self,
        estimator: Any,
        method: str | Calibrator = "auto",
        cv: Any = 5,
        ensemble: bool = True,
        response: Literal["auto", "predict_proba", "predict_log_proba", "decision_function"] = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.ensemble = ensemble
        self.response = response
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Train the estimator and fit its calibrator.

        Parameters
        ----------
        X : array, frame or sparse matrix of n rows
            Whatever the estimator takes.
        y : array of shape (n,) or (n, L)
            Labels of any type, of at least two classes; see the notes on several labels per row.
        sample_weight : array of shape (n,), optional
            For the estimator, if it takes weights, and for the calibrator.
        **fit_params
            ``groups`` for the splitter; anything else for the estimator's ``fit``. What has n rows is split
            like ``X``. With a frozen estimator only the groups matter, to a calibrator that holds rows out.
        """
        self._check_parameters()
        self.__dict__.pop("outputs_", None)
        if has_several_outputs(y):
            return self._fit_outputs(X, y, sample_weight, fit_params)
        from calibrant.registry import unfitted

        calibrator = unfitted(self.method)
        if isinstance(self.estimator, FrozenEstimator):
            training = TrainingRows.parse(X, y, sample_weight, {}, fit_params.get("groups"))
            training = training.with_classes(
                np.asarray(getattr(self.estimator, "classes_", training.classes))
            )
            parts, pairs = self._fit_frozen(training, calibrator)
        else:
            for_estimator, for_splitter = self._routed(sample_weight, fit_params)
            training = TrainingRows.parse(X, y, sample_weight, for_estimator, for_splitter.get("groups"))
            splits = self._splits(training, for_splitter)
            strategy = self._fit_ensemble if self.ensemble else self._fit_pooled
            parts, pairs = strategy(training, calibrator, splits)
        _warn_of_unknown_classes(parts, training)
        self.classes_ = training.classes
        self.calibrated_pairs_ = pairs
        self.response_ = parts[0].response
        return self

    def predict_proba(self, X: Any) -> Any:
        """Return calibrated probabilities, (n, K), the mean over all pairs, with columns as ``classes_``.

        For labels (n, L) they have that shape; for several outputs they are a list of arrays.
        """
        check_is_fitted(self)
        if "outputs_" in vars(self):
            return self.outputs_.predict_proba(X)
        members = (
            calibrator.transform(
                estimator_response(estimator, X, self.response_, self.classes_)
            ).probabilities
            for estimator, calibrator in self.calibrated_pairs_
        )
        first = next(members)
        total = first.astype(np.float64)
        for member in members:
            total += member
        total /= len(self.calibrated_pairs_)
        return total.astype(first.dtype, copy=False)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label with the largest calibrated probability, (n,).

        It may differ from what the estimator itself predicts.
        """
        if "outputs_" in vars(self):
            return self.outputs_.predict(X)
        columns = self.predict_proba(X).argmax(axis=1)
        predicted: NDArray[Any] = self.classes_[columns]
        return predicted

    def save(
        self, path: str | os.PathLike[str], *, write: Callable[[Any, Path], object] | None = None
    ) -> None:
        """Write the fitted classifier to a folder, or to one file if ``path`` ends in ``.zip``; no pickle is involved.

        Parameters
        ----------
        path : path-like
            Where to write. An earlier classifier there is replaced as a whole.
        write : function, optional
            ``write(estimator, path)`` stores a trained estimator in a new file, such as
            ``lambda model, path: model.save_model(path)``. By default estimators are stored by skops, which needs the
            extra ``skops``.
        """
        from calibrant.persistence import save_classifier

        save_classifier(self, path, write)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        trusted: Sequence[str] = (),
        read: Callable[[Path], Any] | None = None,
    ) -> Self:
        """Return the fitted classifier that :meth:`save` wrote.

        Parameters
        ----------
        path : path-like
            The folder or file.
        trusted : sequence of str, optional
            Types of the estimators that skops may load beyond those that it and calibrant trust. An error lists the types
            that are missing here; read them before you pass them.
        read : function, optional
            ``read(path)`` returns the estimator that the function ``write`` of :meth:`save` stored.
        """
        from calibrant.persistence import load_classifier

        return load_classifier(cls, path, trusted, read)

    @property
    def estimator_(self) -> Any:
        """The trained estimator, where there is only one."""
        return self._only_pair("estimator_")[0]

    @property
    def calibrator_(self) -> Calibrator:
        """The fitted calibrator, where there is only one."""
        return self._only_pair("calibrator_")[1]

    @property
    def n_features_in_(self) -> int:
        """Number of features that the estimators were trained on."""
        check_is_fitted(self)
        number: int = self.calibrated_pairs_[0][0].n_features_in_
        return number

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """Names of the features that the estimators were trained on, if they had any."""
        check_is_fitted(self)
        names: NDArray[np.object_] = self.calibrated_pairs_[0][0].feature_names_in_
        return names

    def get_metadata_routing(self) -> MetadataRouter:
        """Return who asks for which parameter of :meth:`fit`: this object, its estimator, its splitter."""
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        to_split = MethodMapping().add(caller="fit", callee="split")
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(estimator=self.estimator, method_mapping=to_fit)
            .add(splitter=self.cv, method_mapping=to_split)
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = replace(inner.input_tags)
        if inner.classifier_tags is not None:
            tags.classifier_tags.multi_class = inner.classifier_tags.multi_class
            tags.classifier_tags.poor_score = inner.classifier_tags.poor_score
        tags.non_deterministic = inner.non_deterministic
        return tags

    def _check_parameters(self) -> None:
        if self.response not in RESPONSES:
            raise ParameterError(f"response must be one of {RESPONSES}, not {self.response!r}.")
        if not isinstance(self.ensemble, bool | np.bool_):
            raise ParameterError(f"ensemble must be True or False, not {self.ensemble!r}.")
        frozen = isinstance(self.estimator, FrozenEstimator)
        if self.ensemble and not frozen and get_tags(self.estimator).input_tags.pairwise:
            raise ParameterError(
                f"estimator {type(self.estimator).__name__} takes a matrix of pairs of rows, and estimators "
                "of different splits would need different columns to predict; set ensemble=False."
            )

    def _routed(
        self, sample_weight: Any, fit_params: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what of the parameters of ``fit`` goes to the estimator, and what to the splitter."""
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", sample_weight=sample_weight, **fit_params)
            return routed.estimator.fit, routed.splitter.split
        for_estimator = dict(fit_params)
        groups = for_estimator.pop("groups", None)
        if sample_weight is not None:
            if has_fit_parameter(self.estimator, "sample_weight"):
                for_estimator["sample_weight"] = sample_weight
            else:
                warnings.warn(
                    f"fit of {type(self.estimator).__name__} takes no sample_weight, so the weights count in "
                    "the calibration only, of a classifier trained without them; enable metadata routing if "
                    "a part of it takes them.",
                    CalibrationWarning,
                    stacklevel=3,
                )
        return for_estimator, {} if groups is None else {"groups": groups}

    def _splits(self, training: TrainingRows, for_splitter: dict[str, Any]) -> list[Split]:
        cv = check_cv(self.cv, training.y, classifier=True)
        splits = [
            (_row_numbers(train), _row_numbers(test))
            for train, test in cv.split(training.X, training.y, **for_splitter)
        ]
        if not splits:
            raise ParameterError("cv gives no splits; at least one pair (train, test) is needed.")
        for number, (_, test) in enumerate(splits):
            if len(test) == 0:
                raise ParameterError(f"split {number} of cv holds out no rows; at least one is needed.")
        return splits

    def _fit_frozen(self, training: TrainingRows, calibrator: Calibrator) -> tuple[list[HeldOut], list[Pair]]:
        part = held_out_by(self.estimator, training.X, training, np.arange(training.n_rows), self.response)
        _announce(calibrator, training, 1)
        calibrator.fit_labelled(training.labelled(part.predictions, part.rows))
        return [part], [(self.estimator, calibrator)]

    def _fit_ensemble(
        self, training: TrainingRows, calibrator: Calibrator, splits: list[Split]
    ) -> tuple[list[HeldOut], list[Pair]]:
        _announce(calibrator, training, len(splits))
        notices: list[Notice] = []
        with gathered(len(splits), "fold", notices):
            fitted = for_all(
                partial(_fit_pair, self.estimator, calibrator, training, response=self.response),
                splits,
                self.n_jobs,
            )
            notices += [notice for _, _, of_fold in fitted for notice in of_fold]
        useful = [(part, calibrator) for part, calibrator, _ in fitted if calibrator is not None]
        if not useful:
            raise LabelError(
                "no split of cv holds out rows of two classes or more that its estimator knows; "
                "use ensemble=False, which calibrates on all splits together, or larger splits."
            )
        if len(useful) < len(fitted):
            warnings.warn(
                f"{len(fitted) - len(useful)} of {len(fitted)} splits of cv hold out rows of fewer than two "
                "classes that their estimator knows and are left out; use ensemble=False or larger splits.",
                CalibrationWarning,
                stacklevel=3,
            )
        return [part for part, _ in useful], [(part.estimator, calibrator) for part, calibrator in useful]

    def _fit_pooled(
        self, training: TrainingRows, calibrator: Calibrator, splits: list[Split]
    ) -> tuple[list[HeldOut], list[Pair]]:
        parts = for_all(
            partial(_hold_out, self.estimator, training, response=self.response), splits, self.n_jobs
        )
        n_never = training.n_rows - len(np.unique(np.concatenate([test for _, test in splits])))
        if n_never:
            warnings.warn(
                f"{n_never} of {training.n_rows} rows are never held out by cv and do not count in the "
                "calibration; the estimator is trained on them all the same.",
                CalibrationWarning,
                stacklevel=3,
            )
        rows, predictions = pool(parts, training.n_rows)
        _announce(calibrator, training, 1)
        calibrator.fit_labelled(training.labelled(predictions, rows))
        return parts, [(training.trained(self.estimator), calibrator)]

    def _fit_outputs(self, X: Any, y: Any, sample_weight: Any, fit_params: dict[str, Any]) -> Self:
        for_estimator, for_splitter = self._routed(sample_weight, fit_params)
        splits: list[Split] = []
        if not isinstance(self.estimator, FrozenEstimator):
            splitter = check_cv(self.cv, y, classifier=True)
            splits = [(_row_numbers(a), _row_numbers(b)) for a, b in splitter.split(X, y, **for_splitter)]
        found = OutputPairs.fitted(
            self.estimator,
            self.method,
            self.response,
            X,
            y,
            sample_weight,
            for_estimator,
            splits,
            ensemble=bool(self.ensemble),
        )
        self.outputs_, self.classes_ = found, found.classes
        self.calibrated_pairs_, self.response_ = found.pairs, found.response
        return self

    def _only_pair(self, name: str) -> Pair:
        check_is_fitted(self)
        if len(self.calibrated_pairs_) > 1:
            raise AttributeError(
                f"there is no single {name} but {len(self.calibrated_pairs_)} pairs of estimator and "
                "calibrator; look into calibrated_pairs_, or set ensemble=False."
            )
        return self.calibrated_pairs_[0]


def _announce(calibrator: Calibrator, training: TrainingRows, n_fits: int) -> None:
    """Log what calibration is expected to take beside the training of the estimators."""
    cost = JointCost([FitPart(calibrator.fit_cost, times=n_fits, share=1 / n_fits)])
    announce_cost(type(calibrator).__name__, cost, training.n_rows, len(training.classes))


def _hold_out(estimator: Any, training: TrainingRows, split: Split, response: str) -> HeldOut:
    return hold_out(estimator, training, *split, response)


def _fit_pair(
    estimator: Any, calibrator: Calibrator, training: TrainingRows, split: Split, response: str
) -> tuple[HeldOut, Calibrator | None, list[Notice]]:
    """Return held-out predictions of a clone of the estimator, their calibrator unless they have one class, and warnings."""
    part = hold_out(estimator, training, *split, response)
    data = training.labelled(part.predictions, part.rows)
    if np.count_nonzero(data.class_weights) < 2:
        return part, None, []
    # Given by the caller: warnings of another process or thread would not reach the user's line.
    with held_back() as notices:
        fitted = clone(calibrator).fit_labelled(data)
    return part, fitted, notices


def _warn_of_unknown_classes(parts: list[HeldOut], training: TrainingRows) -> None:
    unknown = [part.unknown_rows for part in parts if len(part.unknown_rows)]
    if unknown:
        rows = np.unique(np.concatenate(unknown))
        labels = training.classes[np.unique(training.codes[rows])].tolist()
        shown = ", ".join(repr(label) for label in labels[:SHOWN])
        more = f" and {len(labels) - SHOWN} more" if len(labels) > SHOWN else ""
        warnings.warn(
            f"{len(unknown)} of {len(parts)} estimators were trained without rows of class {shown}{more} and "
            f"give it probability 0; {len(rows)} rows of that class do not count in their calibration.",
            MissingClassWarning,
            stacklevel=3,
        )


def _row_numbers(rows: Any) -> IntArray:
    """Return the numbers of the rows that a splitter chose, by numbers or by a mask."""
    rows = np.asarray(rows)
    return np.flatnonzero(rows) if rows.dtype == np.bool_ else rows.astype(np.intp, copy=False)
