"""Methods and metrics with their parameters, from the text of the command line."""

import ast
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any

from calibrant import metrics, registry
from calibrant.calibrator import Calibrator
from calibrant.errors import ParameterError
from calibrant.metrics.declaration import options_of

__all__ = ["Metric", "chosen_metrics", "make_calibrator", "name_of"]


def make_calibrator(method: str, settings: Sequence[str] = ()) -> Calibrator:
    """Return a calibrator from its name and parameters of the form KEY=VALUE.

    >>> make_calibrator("temperature", ["loss=brier"])
    TemperatureScaling(loss='brier')
    """
    known = registry.calibrators()
    for part in method.split("+"):
        if part.strip() not in known:
            name = part.strip()
            near = registry.ELSEWHERE.get(name) or "".join(get_close_matches(name, known, 1))
            hint = f"did you mean {near!r}? " if near else ""
            raise ParameterError(f"unknown method {name!r}; {hint}'calibrant methods' lists all.")
    parameters: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise ParameterError(f"a parameter has the form KEY=VALUE, such as loss=brier, not {setting!r}.")
        parameters[key.strip()] = literal(text.strip())
    try:
        return registry.make(method, **parameters)
    except TypeError:
        names = sorted(registry.make(method).get_params(deep=False))
        unknown = ", ".join(sorted(parameters.keys() - names))
        raise ParameterError(
            f"{method} has no parameter {unknown}; it has {', '.join(names) or 'none'}."
        ) from None


def literal(text: str) -> Any:
    """Return the number, list or Boolean that a text represents, else the text.

    >>> literal("0.5"), literal("(3, 4)"), literal("brier")
    (0.5, (3, 4), 'brier')
    """
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


Metric = Callable[..., Any]


def chosen_metrics(names: str, n_bins: int | None = None) -> list[Metric]:
    """Return metrics from their names, with options after colons; ``n_bins`` is the default for binned metrics.

    >>> [chosen.keywords for chosen in chosen_metrics("confidence_ece:strategy=quantile", n_bins=10)]
    [{'strategy': 'quantile', 'n_bins': 10}]
    """
    return [_metric(part.strip(), n_bins) for part in names.split(",") if part.strip()]


def name_of(metric: Metric) -> str:
    """Return the name of a metric without its options."""
    return str((metric.func if isinstance(metric, partial) else metric).__name__)


def _metric(text: str, n_bins: int | None) -> Metric:
    name, *settings = text.split(":")
    if name not in registry.metrics():
        near = get_close_matches(name, registry.metrics(), 1)
        hint = f"did you mean {near[0]!r}?" if near else f"available: {', '.join(registry.metrics())}."
        raise ParameterError(f"unknown metric {name!r}; {hint}")
    function = getattr(metrics, name)
    options: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise ParameterError(f"an option of a metric has the form {name}:key=value, not {text!r}.")
        options[key] = literal(value)
    if n_bins is not None and "n_bins" in options_of(function):
        options.setdefault("n_bins", n_bins)
    chosen = partial(function, **options) if options else function
    options_of(chosen)  # rejects unknown options
    return chosen
