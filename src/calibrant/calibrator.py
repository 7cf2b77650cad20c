"""Calibrator: what every method shares, and the facts a method claims about itself."""

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from calibrant.batches import Summary, partial_fit
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

    structure: ClassVar[tuple[str, ...]] = ()
    """Parameters that say what kind of map it is; a fitted map has those of its fit, whatever is set later."""

    batches: ClassVar[Summary | None] = None
    """What stands for earlier rows in :meth:`partial_fit`; None for methods that need all rows at once."""

    memory_: dict[str, Any]
    """State of :meth:`partial_fit`: the rows themselves while they are few, else summary statistics of them."""

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
        self._check_classes(present, data.n_rows, data.classes)
        self._set_inputs(data)
        data = replace(data, predictions=data.predictions.with_floor(self.floor_))
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

    @available_if(lambda self: self.batches is not None)  # type: ignore[untyped-decorator]
    def partial_fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        classes: Any = None,
        half_life: float | None = None,
    ) -> Self:
        """Learn from one more batch of calibration rows; earlier batches are not needed again.

        The first 1,000 rows, or the first batch if that is longer, are fitted as by :meth:`fit`. Later batches are
        combined with summary statistics of earlier ones. Until rows of two classes have come, probabilities stay as
        they are. An empty batch and one that is refused change nothing, and :meth:`fit` discards all batches. A
        warning is given when its cause arises, and not again with every batch in which it lasts.

        Parameters
        ----------
        X : array, frame or Predictions
            Probabilities or logits of the batch, of the same kind and in the same columns every time.
        y : array of shape (n,)
            True classes.
        sample_weight : array of shape (n,), optional
            A weight of two is the same as the row given twice.
        classes : sequence of K labels, optional
            Labels of the columns. Needed in the first batch if labels are not column numbers and the batch can lack
            some of them.
        half_life : float, optional
            Number of new rows after which all that was learnt before counts half, for classifiers that drift. Rows of
            one batch count alike. Nothing is forgotten if it is not given.
        """
        return partial_fit(self, X, y, sample_weight, classes, half_life)

    def transform(self, X: Any) -> Predictions:
        """Return calibrated :class:`Predictions`; in logits where the method works on logits."""
        check_is_fitted(self)
        predictions = self._parsed(X)
        columns = self.present_columns_
        if columns is None:
            return self._mapped(predictions)
        # Zeros count as the floor: a class that nobody has seen, or all others, may turn up all the same.
        calibrated = predictions.without_zeros().probabilities.copy()
        share = calibrated[:, columns].sum(axis=1, keepdims=True)
        calibrated[:, columns] = share * self._mapped(predictions.restricted_to(columns)).probabilities
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

    def _mapped(self, predictions: Predictions) -> Predictions:
        """Map valid predictions; those of a calibrator that has seen one class only stay, but for zeros."""
        return predictions.without_zeros() if self._has_seen_one_class else self._transform(predictions)

    @property
    def _has_seen_one_class(self) -> bool:
        """Whether all batches so far hold one class only, so that there is no map yet."""
        return bool(vars(self).get("memory_", {}).get("waits", False))

    def _check_parameters(self) -> None:
        """Refuse parameters that have no meaning, before anything is computed."""

    def _check_classes(self, present: NDArray[np.intp], n_rows: int, classes: NDArray[Any]) -> None:
        """Refuse rows of a single class, and more than two classes for a method that takes two."""
        if len(present) < 2:
            raise LabelError(
                f"{'the only label is' if n_rows == 1 else f'all {n_rows} labels are'} class "
                f"{classes[present[0]].item()!r}; "
                "rows of at least two classes are needed to calibrate."
            )
        if self.traits.binary_only and len(classes) != 2:
            raise PredictionError(
                f"{type(self).__name__} takes two classes, but the predictions have {len(classes)}; "
                "wrap it in OneVsRest."
            )

    def _set_inputs(self, data: LabelledPredictions) -> None:
        """Forget all that was learnt, and set what parsing further rows needs."""
        self._forget()
        self.classes_ = data.classes
        names = data.predictions.classes
        self.column_names_ = None if names is None or np.array_equal(names, data.classes) else names
        self.space_ = data.predictions.space.value
        self.floor_ = data.predictions.floor
        self.present_columns_ = None
        if self.structure:
            self.structure_ = {name: getattr(self, name) for name in self.structure}

    def _setting(self, name: str) -> Any:
        """Return a parameter of ``structure`` as it was in the fit, or as it is before one."""
        return vars(self).get("structure_", {}).get(name, getattr(self, name))

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
