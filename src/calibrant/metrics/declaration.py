"""Declared metrics: their traits, their prepared and streaming forms, and checks of user-supplied metrics."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np

from calibrant.arrays import Float64Array, IntArray
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.predictions import Predictions
from calibrant.shared_parameters import documented

__all__ = ["MetricTraits", "describe"]


Function = TypeVar("Function", bound=Callable[..., Any])

Evaluator = Callable[[IntArray, Float64Array | None], float]
"""The metric of fixed predictions as a function of column numbers of true classes, (n,), and weights."""


@dataclass(frozen=True)
class MetricTraits:
    """Properties of a metric, each verified by the common tests.

    Attributes
    ----------
    higher_is_better : bool
        Whether a larger value is a better one.
    proper : bool
        Whether the metric is a proper score: in expectation, no predictions beat the true probabilities.
    weights_are_counts : bool
        Whether a weight of two is the same as a duplicated row. Otherwise rows are independent observations
        and weights are their importance; only ratios of weights matter.
    commutes_with_permutations : bool
        Whether the order of the classes has no effect.
    always_defined : bool
        Whether the metric has a value for any rows. Otherwise it is NaN for rows without a value.
    two_sided : bool or str
        Whether values that are too good are evidence against calibration as well as values that are too bad, as for an
        accuracy above the mean confidence; or the name of the option that makes it so.
    positive_by_noise : bool
        Whether the metric is non-negative and positive for calibrated predictions, by noise alone. Its bias is of the order of
        its standard error, so an interval around it does not contain the true error.
    """

    higher_is_better: bool = False
    proper: bool = False
    weights_are_counts: bool = True
    commutes_with_permutations: bool = True
    always_defined: bool = True
    two_sided: bool | str = False
    positive_by_noise: bool = False


class MetricParts(Protocol):
    """A metric that is a function of sums over rows, with validated options."""

    def prepared(self, predictions: Predictions) -> Evaluator:
        """Return the metric as a function of labels and weights alone."""
        ...

    def of(self, data: LabelledPredictions) -> Any:
        """Return the sums over some rows; sums of disjoint sets of rows add up with ``+``."""
        ...

    def value(self, sums: Any) -> float:
        """Return the metric from the sums of all rows."""
        ...

    def of_parts(self, data: LabelledPredictions, part: IntArray, n_parts: int) -> tuple[Float64Array, ...]:
        """Return the same sums for every part of the rows, as arrays (n_parts, ...), in one pass.

        ``part`` is the part of every row. Arrays of disjoint sets of rows add up, and so do the parts of an array.
        """
        ...

    def from_arrays(self, *arrays: Float64Array) -> Any:
        """Return the sums from one entry each of such arrays."""
        ...

    def check_batches(self) -> None:
        """Raise if batches cannot be added up with these options."""
        ...


@dataclass(frozen=True)
class _Declaration:
    traits: MetricTraits
    prepare: Callable[..., Evaluator] | None
    parts: Callable[..., "MetricParts"] | None


_DECLARED: dict[Callable[..., Any], _Declaration] = {}


def metric(
    traits: MetricTraits = MetricTraits(),
    *,
    prepare: Callable[..., Evaluator] | None = None,
    parts: Callable[..., MetricParts] | None = None,
) -> Callable[[Function], Function]:
    """Declare a function ``(y_true, y_proba, *, sample_weight=None, ...) -> float`` to be a metric.

    Its docstring may leave out the parameters of ``calibrant.shared_parameters``, which are inserted.

    Parameters
    ----------
    traits : MetricTraits
        Properties of the metric.
    prepare : function, optional
        ``prepare(predictions, **options)`` returns an :data:`Evaluator`. Everything that depends on the predictions
        alone is then computed once, for thousands of evaluations with other labels or weights. ``options`` are the
        keyword arguments of the metric except ``sample_weight``.
    parts : function, optional
        ``parts(**options)`` returns the :class:`MetricParts` of a metric that is a function of sums over rows. Such
        a metric can also be prepared, and accumulated in batches.
    """

    def declare(function: Function) -> Function:
        _DECLARED[function] = _Declaration(traits, prepare, parts)
        return documented(function)

    return declare


def declared_metrics() -> dict[str, Callable[..., Any]]:
    """Return name -> function for every declared metric without further required arguments, in alphabetical order."""
    functions = sorted(_DECLARED, key=lambda function: function.__name__)
    return {function.__name__: function for function in functions if not _has_required_options(function)}


def _has_required_options(function: Callable[..., Any]) -> bool:
    """Return whether a metric has required arguments after the first two."""
    parameters = list(inspect.signature(function).parameters.values())[2:]
    return any(parameter.default is parameter.empty for parameter in parameters)


def is_declared(function: Callable[..., Any]) -> bool:
    """Return whether a function, or the function inside a ``partial``, is a metric of this library."""
    return _unwrapped(function)[0] in _DECLARED


def traits_of(function: Callable[..., Any]) -> MetricTraits:
    """Return the traits of a declared metric, also through ``functools.partial``."""
    return _DECLARED[_unwrapped(function)[0]].traits


NO_INTERVAL = (
    "the metric is positive by noise alone for calibrated predictions, so an interval around it does not contain the true "
    "error; use debiased_ece"
)


def is_positive_by_noise(metric: Callable[..., Any]) -> bool:
    """Return whether a metric of this library is positive for calibrated predictions, by noise alone."""
    return is_declared(metric) and traits_of(metric).positive_by_noise


def is_two_sided(function: Callable[..., Any]) -> bool:
    """Return whether small values of a metric are evidence against calibration as well as large ones."""
    two_sided = traits_of(function).two_sided
    return bool(options_of(function).get(two_sided)) if isinstance(two_sided, str) else two_sided


def options_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the options with which a metric will be called: those set by a ``partial``, else its defaults."""
    inner, _, given = _unwrapped(function)
    parameters = inspect.signature(inner).parameters
    defaults = {p.name: p.default for p in parameters.values() if p.default is not p.empty}
    unknown = sorted(given.keys() - parameters.keys())
    if unknown and inner in _DECLARED:
        known = [name for name in defaults if name != "sample_weight"]
        raise ParameterError(f"{inner.__name__} has no option {unknown[0]!r}; it has {known}.")
    return {name: value for name, value in {**defaults, **given}.items() if name != "sample_weight"}


def describe(function: Callable[..., Any]) -> str:
    """Return the name of a metric with all options that define its value.

    >>> from functools import partial
    >>> from calibrant.metrics import confidence_ece
    >>> describe(partial(confidence_ece, strategy="quantile"))
    "confidence_ece(n_bins=15, strategy='quantile', norm=1)"
    """
    name = _name(function)
    try:
        options = options_of(function)
    except (TypeError, ValueError):  # callables without a signature, such as some of C
        return name
    if options.get("binning") is not None:  # it replaces these two
        options.pop("n_bins", None)
        options.pop("strategy", None)
    given = ", ".join(f"{key}={value!r}" for key, value in options.items() if value is not None)
    return f"{name}({given})"


def parts_of(function: Callable[..., Any]) -> MetricParts | None:
    """Return the parts of a metric that is a function of sums over rows; None for other metrics."""
    declaration = _DECLARED.get(_unwrapped(function)[0])
    if declaration is None or declaration.parts is None:
        return None
    return declaration.parts(**options_of(function))


def evaluator(function: Callable[..., Any], data: LabelledPredictions) -> Evaluator:
    """Return the metric as a function of labels and weights alone, for the predictions of ``data``.

    Metrics of this library are prepared once. Any other function is called as ``function(y_true, y_proba)``
    with the user's original labels and an ndarray (n, K) of probabilities, and with ``sample_weight=`` only
    if there are weights.
    """
    declaration = _DECLARED.get(_unwrapped(function)[0])
    classes = data.classes
    predictions = data.predictions
    if not np.array_equal(classes, np.arange(data.n_classes)):
        # Resampled labels may lack some classes, so their names must be known.
        predictions = replace(predictions, classes=classes)
    if declaration is not None and declaration.parts is not None:
        return declaration.parts(**options_of(function)).prepared(predictions)
    if declaration is not None and declaration.prepare is not None:
        return declaration.prepare(predictions, **options_of(function))
    y_proba = predictions.probabilities if declaration is None else predictions

    def evaluate(labels: IntArray, weights: Float64Array | None) -> float:
        if weights is None:
            return float(function(classes[labels], y_proba))
        return float(function(classes[labels], y_proba, sample_weight=weights))

    return evaluate


def check_metric(metric: Any, weighted: bool) -> None:
    """Raise unless the metric can be called with labels and probabilities, and weights if there are any."""
    if not callable(metric):
        raise ParameterError(f"metric must be a function (y_true, y_proba) -> float, not {metric!r}.")
    function, positional, options = _unwrapped(metric)
    if "sample_weight" in options:
        raise ParameterError(
            f"the weights of {_name(metric)} belong to the rows; pass sample_weight= beside the metric, not in a "
            "partial of it."
        )
    if is_declared(metric):
        options_of(metric)  # checks the options by name
        if positional:
            raise ParameterError(
                f"a partial of {_name(metric)} may set its options by name only; pass labels and predictions beside it."
            )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # callables without a signature, such as some of C
        return
    weights = {"sample_weight": None} if weighted else {}
    try:
        signature.bind(*positional, None, None, **options, **weights)
    except TypeError as error:
        call = f"(y_true, y_proba{', sample_weight=...' if weighted else ''})"
        raise ParameterError(
            f"metric is called as {_name(metric)}{call}, but it does not fit: {error}; wrap it in a function that "
            "takes these and returns one number."
        ) from error


def one_number(value: Any, metric: Callable[..., Any]) -> float:
    """Return the value of a metric as a float; raise if it is not a number."""
    if isinstance(value, float | int):
        return float(value)
    try:
        shape = np.shape(value)
        if shape == () and not isinstance(value, str | bytes) and not np.iscomplexobj(value):
            return float(value)
        found = f"an array of shape {shape}" if shape else f"a {type(value).__name__}"
    except (TypeError, ValueError):
        found = f"a {type(value).__name__}"
    raise ParameterError(
        f"metric must return one number, but {_name(metric)} returned {found}; "
        "wrap it in a function that picks or averages."
    )


def with_one_number(metric: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a metric so that it raises unless it returns one number; metrics of this library always do."""
    if is_declared(metric):
        return metric
    return lambda *rows, **weights: one_number(metric(*rows, **weights), metric)


def floor_advice(metric: Callable[..., Any]) -> str:
    """Return advice for an infinite value of this metric, as the end of a sentence; empty if it has no floor.

    >>> from calibrant.metrics import accuracy, log_loss
    >>> floor_advice(log_loss), floor_advice(accuracy)
    ('; functools.partial(log_loss, floor=1e-6), for example, is always finite', '')
    """
    has_floor = is_declared(metric) and options_of(metric).get("floor") == 0
    return (
        f"; functools.partial({_name(metric)}, floor=1e-6), for example, is always finite"
        if has_floor
        else ""
    )


def _name(metric: Callable[..., Any]) -> str:
    function = _unwrapped(metric)[0]
    return getattr(function, "__name__", type(function).__name__)


def _unwrapped(metric: Callable[..., Any]) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """Return the innermost function of nested partials, with the arguments they set."""
    positional: tuple[Any, ...] = ()
    options: dict[str, Any] = {}
    while isinstance(metric, partial):
        positional = (*metric.args, *positional)
        options = {**metric.keywords, **options}
        metric = metric.func
    return metric, positional, options
