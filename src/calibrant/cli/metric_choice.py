"""Parse metrics and their options from the command line."""

from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from typing import Any

from calibrant import metrics, registry
from calibrant.cli.method_choice import literal
from calibrant.errors import ParameterError
from calibrant.metrics.declaration import options_of

__all__ = ["Metric", "chosen_metrics", "name_of"]

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
