"""Calibrator: base class of all methods, and Traits, the properties that a method declares."""

import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags, TransformerTags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from calibrant.batches import BatchSummary, Summary, batch_summary, partial_fit
from calibrant.errors import LabelError, MissingClassWarning, NoGraphError, ParameterError, PredictionError
from calibrant.fit_cost import FitCost, announce_cost
from calibrant.graph import Event, MapGraph, TracedPredictions, Value
from calibrant.graph.apply import mapped
from calibrant.graph.trace import Opaque, Trace
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import warn_user
from calibrant.objective.source import ArraySource, RowSource
from calibrant.options import check_choice
from calibrant.origin import in_container
from calibrant.predictions import Predictions, read_only
from calibrant.remedies import OTHER_METHOD, SAME_COLUMNS, SAME_SPACE
from calibrant.space import Space

__all__ = ["Calibrator", "Traits"]

SHOWN = 10  # absent classes that a warning lists

Output = Literal["default", "same", "pandas", "polars"]
OUTPUTS = ("default", "same", "pandas", "polars")

# Attribute in which scikit-learn stores the setting of set_output; clone copies it.
OUTPUT_SETTING = "_sklearn_output_config"


@dataclass(frozen=True)
class Traits:
    """Properties of a method; the common tests verify each of them.

    Attributes
    ----------
    keeps_argmax : bool
        The map preserves the arg-max of every row.
    contains_identity : bool
        The identity is a member of the family, so the training loss never exceeds that of the uncalibrated predictions.
        Zeros count as the floor for both.
    binary_only : bool
        The method is for two classes only.
    commutes_with_permutations : bool
        The map is equivariant under permutations of the classes, except for ties of the largest probability. Methods for
        two classes guarantee this for three or more: of two classes the second is the event, and equal scores or scores on
        the edge of a bin may change sides when the two are exchanged.
    uses_raw_logits : bool
        The map of logits differs from the map of their softmax, so fit and prediction must use the same space.
    shares_parameters : bool
        All parameters are shared by all classes, so classes without calibration rows do no harm.
    """

    keeps_argmax: bool = False
    contains_identity: bool = False
    binary_only: bool = False
    commutes_with_permutations: bool = True
    uses_raw_logits: bool = False
    shares_parameters: bool = False


class Calibrator(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Post-hoc calibrator: a map from predicted to calibrated probabilities, fitted on held-out predictions.

    The base class parses and validates the input and handles classes without calibration rows. A method defines ``_fit``
    and ``_traced``, which receive valid data only. A class is either abstract or final.

    Classes without calibration rows keep the probability that the classifier assigns to them. Where it assigns zero, they
    have 1 / (n + 2) together: Laplace's rule of succession for an event that n rows have not shown. The map is fitted and
    applied conditional on the class being one of the others. Methods whose parameters are shared by all classes are
    fitted on all columns. In both cases a warning lists the classes.
    """

    traits: ClassVar[Traits]
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {}
    """Registry names of the class, each with the parameters that it sets."""

    structure: ClassVar[tuple[str, ...]] = ()
    """Parameters that define the kind of map; a fitted calibrator predicts with those of its fit, whatever is set later."""

    fit_cost: ClassVar[FitCost | None] = None
    """Expected processor time of a fit, for methods that may take minutes; :meth:`fit` logs it beforehand."""

    batches: ClassVar[Summary | None] = None
    """Summary of earlier rows in :meth:`partial_fit`; None for methods that need all rows at once."""

    memory_: dict[str, Any]
    """State of :meth:`partial_fit`: the rows themselves while there are few, then summary statistics."""

    classes_: NDArray[Any]
    space_: str
    floor_: float
    column_names_: NDArray[Any] | None = None
    """Names of the columns in the fit if they differ from the labels; one name for the column of the second of two classes."""
    present_columns_: NDArray[np.intp] | None
    total_weight_: float | None = None
    """Total weight of the calibration set, if classes are absent from it."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the map to a calibration set, which the classifier was not trained on.

        Parameters
        ----------
        X : array, tensor, frame or Predictions
            Probabilities (n, K), or (n,) or (n, 1) for the positive class of two; logits only through
            ``Predictions.from_logits``.
        y : array of shape (n,)
            True classes: column numbers, or labels that match the columns. For predictions with more axes, in their shape
            without the class axis.
        sample_weight : array of shape (n,), optional
            A weight of two is equivalent to including the row twice; rows of weight zero are ignored.
        """
        data = LabelledPredictions.parse(X, y, sample_weight)
        announce_cost(type(self).__name__, self.fit_cost, data.n_rows, data.n_classes)
        return self.fit_labelled(data)

    def fit_labelled(self, data: LabelledPredictions, *, warn_of_absent: bool = True) -> Self:
        """Fit parsed data; ``warn_of_absent=False`` if the caller has already warned of classes without rows."""
        return self._fit_from(
            ArraySource(data), lambda source: self._fit(source.data), warn_of_absent=warn_of_absent
        )

    def _fit_from(
        self, source: RowSource, fit: Callable[[Any], object], *, warn_of_absent: bool = True
    ) -> Self:
        """Fit rows by a function, which gets them with the floor of all rows and, if it should, without absent classes."""
        present = np.flatnonzero(source.class_weights)
        self._check_classes(present, source.n_rows, source.classes)
        self._set_inputs(source.first)
        source = source.mapped(
            lambda data: replace(data, predictions=data.predictions.with_floor(self.floor_))
        )
        if len(present) < source.n_classes:
            if warn_of_absent:
                self._warn_of_absent(np.setdiff1d(np.arange(source.n_classes), present))
            if self._is_restricted_to_present_classes:
                self.present_columns_, self.total_weight_ = present, float(source.total_weight)
                source = source.mapped(lambda data: data.restricted_to(present))
        try:
            fit(source)
        except BaseException:
            self._forget()
            raise
        return self

    @classmethod
    @cache
    def _get_param_names(cls) -> Any:  # to read a signature is most of the time of a clone
        return super()._get_param_names()

    def __sklearn_tags__(self) -> Tags:
        """Return the tags of scikit-learn, with those of transformers and of multi-class support."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags(preserves_dtype=["float64", "float32"])
        tags.classifier_tags.multi_class = not self.traits.binary_only
        return tags

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
        """Update the fit with one more batch of calibration rows; earlier batches are not needed again.

        The first 1,000 rows, or a longer first batch, are fitted as by :meth:`fit`. Later batches are combined with summary
        statistics of earlier ones. The map is the identity until two classes have been seen. An empty batch and one that
        raises an error change nothing, and :meth:`fit` discards all batches. A warning is issued once, when its cause
        arises.

        Parameters
        ----------
        X : array, frame or Predictions
            Probabilities or logits of the batch, of the same kind and in the same columns every time.
        y : array of shape (n,)
            True classes.
        sample_weight : array of shape (n,), optional
            A weight of two is equivalent to including the row twice.
        classes : sequence of K labels, optional
            Labels of the columns. Needed in the first batch if labels are not column numbers and the batch can lack
            some of them.
        half_life : float, optional
            Number of new rows after which earlier rows have half their weight, for classifiers that drift. Rows of one
            batch have equal weight. By default, earlier rows keep their weight.
        """
        return partial_fit(self, X, y, sample_weight, classes, half_life)

    @available_if(lambda self: self.batches is not None)  # type: ignore[untyped-decorator]
    def batch_summary(self) -> BatchSummary:
        """Return the size and the error of the summary that :meth:`partial_fit` keeps of earlier batches.

        Examples
        --------
        >>> from calibrant import TemperatureScaling
        >>> TemperatureScaling().partial_fit([[0.9, 0.1]] * 4, [0, 0, 0, 1]).batch_summary()
        BatchSummary(n_rows=4.0, n_kept_rows=4, n_bytes=112, error=0.0, sampling_error=0.0)
        """
        return batch_summary(self)

    def transform(self, X: Any) -> Predictions:
        """Return calibrated :class:`Predictions`, as logits if the method works on logits."""
        predictions = self._parsed(X)
        compiled = self._compiled(predictions.space)
        return Predictions(
            read_only(compiled.scores(predictions.scores)),
            compiled.scores.output_space,
            predictions.classes,
            compiled.floor,
            predictions.ignore_label,
            predictions.origin,
        )

    def predict_proba(self, X: Any, *, out: NDArray[np.floating] | None = None) -> Any:
        """Return calibrated probabilities, (n, K), in the float type of ``X``.

        For a tensor, the result is a tensor of the same library, type and device, computed by NumPy on the host without
        gradients. Predictions with more axes give probabilities with the same axes.

        Parameters
        ----------
        X : array, tensor, frame or Predictions
            Probabilities, or logits through ``Predictions.from_logits``.
        out : ndarray of shape (n, K), optional
            Array for the result, of the float type of ``X``; it must not overlap with ``X``.

        Returns
        -------
        ndarray, tensor or frame
            For data frames an array too, unless :meth:`set_output` selects data frames.
        """
        predictions = self._parsed(X)
        rows = self._calibrated_rows(predictions, out)
        setting = vars(self).get(OUTPUT_SETTING)
        if predictions.origin is None and setting is None:
            return rows
        container = (setting or {}).get("predict_proba", "default")
        result = in_container(rows, predictions.origin, container, self.classes_)
        if out is not None and result is not rows:
            raise ParameterError("out= takes rows of a NumPy array; pass X as one, or omit out=.")
        return result

    def set_output(self, *, predict_proba: Output | None = None, transform: str | None = None) -> Self:
        """Choose what :meth:`predict_proba` returns; ``clone`` copies the setting, files do not store it.

        Parameters
        ----------
        predict_proba : {"default", "same", "pandas", "polars"}, optional
            "default" returns an array, or a tensor for a tensor. "same" returns a data frame for a data frame, with the
            same library, columns and index. "pandas" and "polars" return such a frame for any input, with ``classes_`` as
            columns if the input has no names. None changes nothing.
        transform : {"default"}, optional
            For pipelines of scikit-learn, which pass this parameter. :meth:`transform` always returns Predictions.
        """
        if transform not in (None, "default"):
            raise ParameterError(
                f"transform of {type(self).__name__} returns Predictions and no {transform!r}; "
                "pass set_output(predict_proba=...)."
            )
        if predict_proba is not None:
            if predict_proba not in OUTPUTS:
                raise ParameterError(f"predict_proba must be one of {OUTPUTS}, not {predict_proba!r}.")
            setattr(self, OUTPUT_SETTING, {"predict_proba": predict_proba})
        return self

    def graph(self, space: str | None = None) -> MapGraph:
        """Return the fitted map as a list of row operations; ``print`` shows them.

        Parameters
        ----------
        space : {"probabilities", "logits"}, optional
            Input of the graph; by default the space of the calibration set.

        Examples
        --------
        >>> from calibrant import VectorScaling
        >>> fitted = VectorScaling(bias=False).fit([[0.9, 0.1]] * 4 + [[0.3, 0.7]] * 3, [0, 0, 0, 1, 1, 1, 0])
        >>> print(fitted.graph())
        probabilities, 2 columns
          1  log(floor=1.17549e-38) of the input
          2  affine(scale=[0.726917, 0.510383], shift=0) of 1
          3  softmax() of 2
        probabilities, 2 columns
        """
        check_is_fitted(self)
        if space is not None:
            check_choice("space", space, tuple(each.value for each in Space))
        wanted = Space(self.space_ if space is None else space)
        if self.traits.uses_raw_logits and wanted != self.space_:
            raise PredictionError(
                f"{type(self).__name__} was fitted on {self.space_} and has no map of {wanted.value}; "
                f"pass space={self.space_!r}."
            )
        graph = self._compiled(wanted).probabilities
        for node in graph.nodes:
            if isinstance(node.operation, Opaque):
                raise NoGraphError(f"{type(self).__name__} has no graph, because {node.operation.reason}")
        return graph

    def predict(self, X: Any) -> Any:
        """Return the labels with the largest calibrated probability, in the shape of ``X`` without the class axis."""
        predictions = self._parsed(X)
        largest = self._compiled(predictions.space).scores.largest(predictions.scores)
        labels: NDArray[Any] = self.classes_[largest]
        return labels if predictions.origin is None else predictions.origin.labels(labels)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted calibrator to a file, without pickle; :func:`calibrant.load` reads it."""
        from calibrant.persistence import save

        save(self, path)

    def export(self, path: str | os.PathLike[str], **options: Any) -> Any:
        """Export the fitted calibrator to ONNX, torch, SQL or JSON, according to the ending of the path.

        See :func:`calibrant.export.export` for the options ``dtype``, ``space``, ``columns`` and those of each format.
        """
        from calibrant.export import export

        return export(self, path, **options)

    def to_torch(self, space: str | None = None, class_axis: int | None = None) -> Any:
        """Return the fitted calibrator as a ``torch.nn.Module`` from scores to calibrated probabilities.

        Parameters
        ----------
        space : {"probabilities", "logits"}, optional
            Input of the module; by default the space of the fit. Behind a network that returns logits, pass "logits".
        class_axis : int, optional
            Axis of the classes, for more axes: 1 for (B, K, H, W), -1 for (..., K). By default, scores are rows.
        """
        from calibrant.export import to_torch

        return to_torch(self, space, class_axis)

    @abstractmethod
    def _fit(self, data: LabelledPredictions) -> None:
        """Fit to valid data; set attributes that end in an underscore."""

    def _traced(self, given: TracedPredictions) -> TracedPredictions:
        """Return the fitted map of symbolic predictions for the classes that have rows; see :class:`~calibrant.graph.MapGraph`.

        A method whose map is not a list of row operations defines ``_transform`` instead.
        """
        if type(self)._transform is Calibrator._transform:
            raise TypeError(
                f"{type(self).__name__} must define _traced, or _transform if its map has no graph."
            )
        return self._opaque(given, "its map is not defined as a list of row operations.")

    def _transform(self, predictions: Predictions) -> Predictions:
        """Map valid predictions of the fitted number of classes."""
        return mapped(self._traced, predictions)

    def _opaque(self, given: TracedPredictions, reason: str) -> TracedPredictions:
        """Return the map of a method that defines ``_transform``, as one opaque operation."""
        # The graphs of a calibrator must not keep it alive; ``given`` leads to its trace, and that to the calibrator.
        owner, space, floor = weakref.ref(self), given.space, given.floor

        def function(scores: NDArray[np.floating]) -> NDArray[np.floating]:
            calibrator = owner()
            assert calibrator is not None
            predictions = Predictions(scores, space, None, floor)
            return np.array(calibrator._transform(predictions).probabilities)

        return given.with_probabilities(given.scores.then(Opaque(function, reason)))

    def _trace(self, given: TracedPredictions) -> TracedPredictions:
        """Return the fitted map of all columns, including those of absent classes."""
        given.raw.trace.visit(self, self._version)
        given = given.with_floor(self.floor_)
        columns = self.present_columns_
        if columns is None:
            return self._mapped(given)
        as_given = self._as_given(given)
        absent = np.delete(np.arange(given.n_classes), columns)
        seen = self._mapped(given.restricted_to(columns)).probabilities * as_given.columns(columns).row("sum")
        places = np.argsort(np.concatenate([columns, absent]))
        # Products of small probabilities may underflow in the float type.
        together = seen.joined(as_given.columns(absent), columns=places).narrowed()
        least = self.floor_ if self._n_seen is None else float(np.nextafter(0, 1))
        return given.with_probabilities(together).with_floor(least).without_zeros().with_floor(self.floor_)

    @property
    def _n_seen(self) -> Any:  # total weight of the rows so far; None in files of an earlier version
        return vars(self).get("memory_", {}).get("rows", self.total_weight_)

    def _as_given(self, given: TracedPredictions) -> Value:
        """Return probabilities with zeros raised to the floor, those of absent classes to 1 / (n + 2) together."""
        columns = self.present_columns_
        if columns is None or given.space is Space.LOGITS or self._n_seen is None:
            return given.without_zeros().probabilities
        unseen = min(self.floor_, 1 / ((self._n_seen + 2) * (given.n_classes - len(columns))))
        floors = np.full(given.n_classes, unseen)
        floors[columns] = self.floor_
        raised = given.probabilities.clip(floors)  # rows without zeros are then divided by exactly 1
        return raised / ((raised - given.probabilities).row("sum") + 1.0)

    def _mapped(self, given: TracedPredictions) -> TracedPredictions:
        """Return the map of the classes that have rows; while there is one such class, the identity without zeros."""
        return given.without_zeros() if self._has_seen_one_class else self._traced(given)

    def _calibrated_rows(
        self, predictions: Predictions, out: NDArray[np.floating] | None = None
    ) -> NDArray[np.floating]:
        """Return calibrated probabilities of parsed predictions as an array, (n, K)."""
        return self._compiled(predictions.space).probabilities(predictions.scores, out)

    def _mapped_event(self, event: Event) -> Event:
        """Return the map of the event that the true class is the second of two, for reductions."""
        return self._mapped(TracedPredictions.of_event(event)).with_floor(event.floor).event

    def _compiled(self, space: Space) -> "_Compiled":
        """Return the graphs of the fitted map for a space; compiled on first use."""
        state = _STATES.get(self) or _STATES.setdefault(self, _State())
        compiled = state.graphs.get(space)
        if compiled is None or not compiled.is_current():
            state.graphs[space] = compiled = _Compiled(self, space)
        return compiled

    @property
    def _version(self) -> int:
        """Number of the fitted state, which changes with every assignment to a fitted attribute."""
        return _STATES[self].version if self in _STATES else 0

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; fitted arrays become read-only, because the graph would not follow a change in place."""
        if name.endswith("_"):
            object.__setattr__(self, name, read_only(value) if type(value) is np.ndarray else value)
            _STATES[self] = _State()
        else:
            object.__setattr__(self, name, value)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        # Copies and pickles of arrays are writeable.
        for name, value in list(self.__dict__.items()):
            if name.endswith("_") and type(value) is np.ndarray:
                self.__dict__[name] = read_only(value)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        if name.endswith("_"):
            _STATES[self] = _State()

    @property
    def _has_seen_one_class(self) -> bool:
        """Whether all batches so far contain one class only, so that there is no map yet."""
        return bool(vars(self).get("memory_", {}).get("waits", False))

    @property
    def _is_restricted_to_present_classes(self) -> bool:
        """Whether the map is fitted and applied conditionally on the classes that occur in the calibration set."""
        return not self.traits.shares_parameters

    def _check_parameters(self) -> None:
        """Raise an error for invalid parameters, before the fit."""

    def _check_classes(self, present: NDArray[np.intp], n_rows: int, classes: NDArray[Any]) -> None:
        """Raise an error for a single class, and for more than two classes if the method is for two."""
        if len(present) < 2:
            raise LabelError(
                f"{'the only label is' if n_rows == 1 else f'all {n_rows} labels are'} class "
                f"{classes[present[0]].item()!r}; "
                "rows of at least two classes are needed to calibrate."
            )
        if self.traits.binary_only and len(classes) != 2:
            raise PredictionError(
                f"{type(self).__name__} takes two classes, but the predictions have {len(classes)}; "
                f"{OTHER_METHOD}."
            )

    def _set_inputs(self, data: LabelledPredictions) -> None:
        """Remove the fitted state, and set the attributes that parsing of further rows needs."""
        self._forget()
        self.classes_ = data.classes
        names = data.predictions.classes
        self.column_names_ = None if names is None or np.array_equal(names, data.classes) else names
        self.space_ = data.predictions.space.value
        self.floor_ = data.predictions.floor
        self.present_columns_ = None
        self.total_weight_ = None
        if self.structure:
            self.structure_ = {name: getattr(self, name) for name in self.structure}

    def _setting(self, name: str) -> Any:
        """Return the value of a parameter of ``structure`` in the fit; before a fit, the current value."""
        return vars(self).get("structure_", {}).get(name, getattr(self, name))

    def _parsed(self, X: Any) -> Predictions:
        if "classes_" not in self.__dict__:
            check_is_fitted(self)  # takes as long as one row
        predictions = Predictions.parse(X)
        n_classes = len(self.classes_)
        if predictions.n_classes != n_classes:
            advice = SAME_COLUMNS if np.shape(X) != (n_classes,) else "for a single row pass X[None, :]"
            raise PredictionError(
                f"{type(self).__name__} was fitted on {n_classes} classes, but these predictions have "
                f"{predictions.n_classes} columns; {advice}."
            )
        if self.traits.uses_raw_logits and predictions.space != self.space_:
            raise PredictionError(
                f"{type(self).__name__} was fitted on {self.space_}, but these predictions are "
                f"{predictions.space.value}; {SAME_SPACE}."
            )
        if predictions.classes is not None:
            self._check_order(predictions.classes, self.classes_, "the order of classes_")
            if self.column_names_ is not None:
                self._check_order(predictions.classes, self.column_names_, "their order in fit")
        return predictions

    @staticmethod
    def _check_order(names: NDArray[Any], known: NDArray[Any], order: str) -> None:
        """Raise an error if the columns have the names of the fit in another order."""
        if set(names.tolist()) != set(known.tolist()):
            return
        if len(moved := np.flatnonzero(names != known)):
            raise PredictionError(
                f"column {moved[0]} is class {names[moved[0]].item()!r}, but in fit it was "
                f"{known[moved[0]].item()!r}; put the columns into {order}."
            )

    def _forget(self) -> None:
        """Remove the fitted state, so that a refit or a failing fit leaves no mixture of two fits."""
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)

    def _warn_of_absent(self, absent: NDArray[np.intp]) -> None:
        shown = ", ".join(map(repr, self.classes_[absent[:SHOWN]].tolist()))
        more = f" and {len(absent) - SHOWN} more" if len(absent) > SHOWN else ""
        they, them = ("it keeps", "it") if len(absent) == 1 else ("they keep", "them")
        if self.traits.shares_parameters:
            effect = f"the map shared by all classes is applied to {them} unchecked"
        elif self._is_restricted_to_present_classes:
            effect = f"{they} the share of probability that the classifier gives {them}"
        else:
            effect = f"only maps shared by all classes are applied to {them}"
        warn_user(f"no calibration row has class {shown}{more}; {effect}.", MissingClassWarning)


class _State:
    """Fitted state of a calibrator: a unique number, and the compiled graphs."""

    latest = 0
    _numbers = count(1)  # next() is atomic, += is not

    def __init__(self) -> None:
        self.version = next(_State._numbers)
        _State.latest = self.version
        self.graphs: dict[Space, _Compiled] = {}


_STATES: weakref.WeakKeyDictionary[Calibrator, _State] = weakref.WeakKeyDictionary()


class _Compiled:
    """Compiled graphs of a fitted map: to calibrated scores, and to probabilities.

    They are current while all calibrators that take part keep their state. The number of the latest state of all
    calibrators makes this check fast.
    """

    def __init__(self, calibrator: Calibrator, space: Space) -> None:
        self._checked = _State.latest
        trace = Trace(len(calibrator.classes_))
        result = calibrator._trace(TracedPredictions(trace.input, space))
        self.floor = result.floor
        self.scores = trace.graph(result.scores.narrowed(), space, result.space)
        probabilities = result.probabilities
        if calibrator.traits.keeps_argmax and result.space is Space.LOGITS and result.kept is None:
            # Logits that differ in the last digits may have the same exponential.
            probabilities = probabilities.restored("argmax", result.scores)
        self.probabilities = trace.graph(probabilities.narrowed(), space, Space.PROBABILITIES)
        self._parts = [(weakref.ref(part), version) for part, version in trace.visited]

    def is_current(self) -> bool:
        """Return whether the states of all parts are unchanged."""
        latest = _State.latest
        if self._checked != latest:
            if any((found := part()) is None or found._version != version for part, version in self._parts):
                return False
            self._checked = latest
        return True
