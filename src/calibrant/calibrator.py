"""Calibrator: what every method shares, and the facts a method claims about itself."""

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from calibrant.errors import LabelError, MissingClassWarning, PredictionError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import warn_user
from calibrant.numerics.kept_order import restore_argmax
from calibrant.numerics.simplex import softmax
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["Calibrator", "Traits"]

SHOWN = 10  # how many absent classes a warning lists


@dataclass(frozen=True)
class Traits:
    """Facts about a method; the common tests verify each claim.

    Attributes
    ----------
    keeps_argmax : bool
        The class with the largest probability stays the same in every row.
    contains_identity : bool
        The identity is a member of the family, so a fit's own loss never exceeds that of doing nothing; zeros count as
        the floor for either.
    binary_only : bool
        Takes two classes only.
    commutes_with_permutations : bool
        Renaming or reordering the classes before or after makes no difference, ties for the first place apart. Methods
        for two classes mean it for three or more: of two, the second one is the event, and equal scores, or those on
        the edge of a bin, may fall to the other side when the two change places.
    uses_raw_logits : bool
        Logits and their softmax give different maps, so both must come in the same space.
    shares_parameters : bool
        No parameter belongs to one class alone; a class without calibration rows does no harm.
    """

    keeps_argmax: bool = False
    contains_identity: bool = False
    binary_only: bool = False
    commutes_with_permutations: bool = True
    uses_raw_logits: bool = False
    shares_parameters: bool = False


class Calibrator(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Learns a map from predicted to honest probabilities.

    The base parses and checks whatever comes in and takes care of classes without calibration rows; a
    method writes ``_fit`` and ``_transform``, which only ever see valid data. A class is either abstract
    or final.

    Classes without rows keep the share of probability that the classifier gave them, zeros counting as the floor: the
    map is learnt and applied *given that the class is one of those seen*. Methods whose parameters are shared by all
    classes are fitted on all columns as usual. Either way a warning lists the classes.
    """

    traits: ClassVar[Traits]
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {}
    """Names under which the registry makes this class, each with the parameters it sets."""

    classes_: NDArray[Any]
    space_: str
    floor_: float
    column_names_: NDArray[Any] | None = None
    """Names of the columns in fit where they are not the labels themselves."""
    present_columns_: NDArray[np.intp] | None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the map from calibration rows that the classifier was not trained on.

        Parameters
        ----------
        X : array, frame or Predictions
            Probabilities (n, K), or (n,) or (n, 1) for the positive class of two; logits only through
            ``Predictions.from_logits``.
        y : array of shape (n,)
            True classes: column numbers, or labels that match the columns.
        sample_weight : array of shape (n,), optional
            A weight of two is the same as the row given twice; rows of weight zero are left out.
        """
        return self.fit_labelled(LabelledPredictions.parse(X, y, sample_weight))

    def fit_labelled(self, data: LabelledPredictions, *, warn_of_absent: bool = True) -> Self:
        """Learn from data that are parsed already; :meth:`fit` is this after parsing.

        ``warn_of_absent=False`` is for a stage whose caller has warned of classes without rows already.
        """
        present = np.flatnonzero(data.class_weights)
        if len(present) < 2:
            raise LabelError(
                f"{'the only label is' if data.n_rows == 1 else f'all {data.n_rows} labels are'} class "
                f"{data.classes[present[0]].item()!r}; "
                "rows of at least two classes are needed to calibrate."
            )
        if self.traits.binary_only and data.n_classes != 2:
            raise PredictionError(
                f"{type(self).__name__} takes two classes, but the predictions have {data.n_classes}; "
                "wrap it in OneVsRest."
            )
        self._forget()
        self.classes_ = data.classes
        names = data.predictions.classes
        self.column_names_ = None if names is None or np.array_equal(names, data.classes) else names
        self.space_ = data.predictions.space.value
        self.floor_ = data.predictions.floor
        data = replace(data, predictions=data.predictions.with_floor(self.floor_))
        self.present_columns_ = None
        if len(present) < data.n_classes:
            if warn_of_absent:
                self._warn_of_absent(np.setdiff1d(np.arange(data.n_classes), present))
            if not self.traits.shares_parameters:
                self.present_columns_ = present
                data = data.restricted_to(present)
        try:
            self._fit(data)
        except BaseException:
            self._forget()
            raise
        return self

    def transform(self, X: Any) -> Predictions:
        """Return calibrated :class:`Predictions`; in logits where the method works on logits."""
        check_is_fitted(self)
        predictions = self._parsed(X)
        columns = self.present_columns_
        if columns is None:
            return self._transform(predictions)
        # Zeros count as the floor: a class that nobody has seen, or all others, may turn up all the same.
        calibrated = predictions.without_zeros().probabilities.copy()
        share = calibrated[:, columns].sum(axis=1, keepdims=True)
        calibrated[:, columns] = share * self._transform(predictions.restricted_to(columns)).probabilities
        # A small part of a small share may be too small for the float type.
        return (
            Predictions(calibrated, Space.PROBABILITIES, predictions.classes)
            .with_floor(self.floor_)
            .without_zeros()
        )

    def predict_proba(self, X: Any) -> NDArray[np.floating]:
        """Return calibrated probabilities, (n, K), in the float type of ``X``."""
        calibrated = self.transform(X)
        if calibrated.space is not Space.LOGITS:
            return np.array(calibrated.probabilities)  # they may be those of X itself
        probabilities = softmax(calibrated.scores)
        if self.traits.keeps_argmax:
            # Logits that differ in their last digits may have the same exponential.
            restore_argmax(probabilities, calibrated.predicted)
        return probabilities

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label with the largest calibrated probability, (n,)."""
        columns = self.transform(X).predicted
        labels: NDArray[Any] = self.classes_[columns]
        return labels

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted calibrator to a file that :func:`calibrant.load` reads; no pickle is involved."""
        from calibrant.persistence import save

        save(self, path)

    @abstractmethod
    def _fit(self, data: LabelledPredictions) -> None:
        """Learn from valid data; set attributes that end in an underscore."""

    @abstractmethod
    def _transform(self, predictions: Predictions) -> Predictions:
        """Map valid predictions of the fitted number of classes."""

    def _parsed(self, X: Any) -> Predictions:
        predictions = Predictions.parse(X).with_floor(self.floor_)
        n_classes = len(self.classes_)
        if predictions.n_classes != n_classes:
            is_one_row = np.shape(X) == (n_classes,)
            advice = "for a single row pass X[None, :]" if is_one_row else "pass the same columns as in fit"
            raise PredictionError(
                f"{type(self).__name__} was fitted on {n_classes} classes, but these predictions have "
                f"{predictions.n_classes} columns; {advice}."
            )
        if self.traits.uses_raw_logits and predictions.space != self.space_:
            raise PredictionError(
                f"{type(self).__name__} was fitted on {self.space_}, but these predictions are "
                f"{predictions.space.value}; pass the same kind as in fit."
            )
        if predictions.classes is not None:
            self._check_order(predictions.classes, self.classes_, "the order of classes_")
            if self.column_names_ is not None:
                self._check_order(predictions.classes, self.column_names_, "their order in fit")
        return predictions

    @staticmethod
    def _check_order(names: NDArray[Any], known: NDArray[Any], order: str) -> None:
        """Refuse columns whose names are those of the fit in another order."""
        if set(names.tolist()) != set(known.tolist()):
            return
        moved = np.flatnonzero(names != known)
        if len(moved):
            raise PredictionError(
                f"column {moved[0]} is class {names[moved[0]].item()!r}, but in fit it was "
                f"{known[moved[0]].item()!r}; put the columns into {order}."
            )

    def _forget(self) -> None:
        """Remove all that was learnt, so that neither a refit nor a fit that fails leaves a mixture."""
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)

    def _warn_of_absent(self, absent: NDArray[np.intp]) -> None:
        shown = ", ".join(repr(label) for label in self.classes_[absent[:SHOWN]].tolist())
        more = f" and {len(absent) - SHOWN} more" if len(absent) > SHOWN else ""
        they, them = ("it keeps", "it") if len(absent) == 1 else ("they keep", "them")
        effect = (
            f"the map shared by all classes is applied to {them} unchecked"
            if self.traits.shares_parameters
            else f"{they} the share of probability that the classifier gives {them}"
        )
        warn_user(f"no calibration row has class {shown}{more}; {effect}.", MissingClassWarning)
