"""Checks of user-supplied metrics: functions of labels and probabilities that return one number."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from calibrant.errors import ParameterError
from calibrant.metrics.declaration import is_declared, options_of

__all__ = ["check_metric", "floor_advice", "one_number", "with_one_number"]


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
