"""What a metric must be for a test to be made from it: callable with rows alone, and one number."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from calibrant.errors import ParameterError
from calibrant.metrics.declaration import is_declared, options_of

__all__ = ["check_metric", "with_one_number"]


def check_metric(metric: Any, *, weighted: bool) -> None:
    """Refuse what cannot be called as ``metric(y_true, y_proba)``, with ``sample_weight=`` if there are weights."""
    if not callable(metric):
        raise ParameterError(f"metric must be a function of labels and probabilities, not {metric!r}.")
    function, positional, options = _taken_apart(metric)
    if is_declared(metric):
        options_of(metric)  # refuses those that it does not have
        if positional or "sample_weight" in options:
            raise ParameterError(
                f"a partial of {_name(function)} may set its options by name only; "
                "pass labels, predictions and sample_weight to the test itself."
            )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # callables without a signature, such as some of C
        return
    rows = {"sample_weight": None} if weighted else {}
    call = f"metric(y_true, y_proba{', sample_weight=...' if weighted else ''})"
    try:
        signature.bind(*positional, None, None, **{**options, **rows})
    except TypeError as error:
        raise ParameterError(
            f"metric must be callable as {call} and return one number, but {_name(function)} is not "
            f"({error}); set further arguments with functools.partial or wrap it in a function."
        ) from error


def with_one_number(metric: Callable[..., Any]) -> Callable[..., Any]:
    """Return a metric that refuses to return anything but one number; those of this library never do."""
    if is_declared(metric):
        return metric

    def checked(*rows: Any, **weights: Any) -> float:
        value = metric(*rows, **weights)
        try:
            if np.ndim(value) == 0 and not isinstance(value, str | bytes):
                return float(value)
        except (TypeError, ValueError):
            pass
        name = _name(_taken_apart(metric)[0])
        raise ParameterError(
            f"metric must return one number, but {name} returned {_kind(value)}; "
            "wrap it in a function that picks or averages."
        )

    return checked


def _taken_apart(metric: Callable[..., Any]) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """Return the innermost function of nested partials, with the arguments that they set."""
    positional: tuple[Any, ...] = ()
    options: dict[str, Any] = {}
    while isinstance(metric, partial):
        positional, options = metric.args + positional, {**metric.keywords, **options}
        metric = metric.func
    return metric, positional, options


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    return "None" if value is None else f"an object of type {type(value).__name__}"
