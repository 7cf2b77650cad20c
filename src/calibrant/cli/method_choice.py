"""Parse methods and their parameters from the command line."""

import ast
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from calibrant import registry
from calibrant.calibrator import Calibrator
from calibrant.errors import ParameterError

__all__ = ["literal", "made"]


def made(method: str, settings: Sequence[str] = ()) -> Calibrator:
    """Return a calibrator from its name and parameters of the form KEY=VALUE.

    >>> made("temperature", ["loss=brier"])
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
