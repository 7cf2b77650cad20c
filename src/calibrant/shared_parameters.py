"""Descriptions of parameters that mean the same in many functions, for docstrings that leave them out."""

import re
from collections.abc import Callable
from inspect import cleandoc
from typing import Any, TypeVar

__all__ = ["documented"]

Function = TypeVar("Function", bound=Callable[..., Any])

SHARED = {
    "y_true": ("array of shape (n,)", "True classes: column numbers, or labels that match the columns."),
    "y_proba": (
        "array, frame or Predictions",
        "Probabilities (n, K), or (n,) or (n, 1) for the positive class of two.",
    ),
    "sample_weight": ("array of shape (n,)", "Weights of the rows."),
    "kind": (
        '{"confidence", "classwise", "positive"}',
        "The predicted class by its confidence; every class by its probability (mean over classes); or the second\n"
        "class of two.",
    ),
    "n_bins": (
        'int or "cube_root"',
        'Number of bins from 0 to 1; ``"cube_root"`` is the cube root of the number of rows.',
    ),
    "strategy": (
        '{"uniform", "quantile"}',
        "Bins of equal width, or of equal weight (equal scores share a bin).",
    ),
    "norm": (
        '1, 2, other number of at least 1, or "max"',
        'p; ``"max"`` is the largest gap of a non-empty bin.',
    ),
    "binning": (
        "scheme",
        "Replaces ``n_bins`` and ``strategy``: :class:`~calibrant.binning.EqualWidth`,\n"
        ":class:`~calibrant.binning.EqualMass`, :class:`~calibrant.binning.FixedEdges`, or a function of\n"
        "scores and weights that returns one of these.",
    ),
}
"""Name -> type and description."""

HEADING = "Parameters\n----------\n"
NEXT_HEADING = re.compile(r"\n\n(?=\w+\n-+\n)")


def documented(function: Function) -> Function:
    """Insert the shared parameters that a docstring leaves out, in the order of the signature.

    >>> @documented
    ... def mean(y_true, *, sample_weight=None):
    ...     '''Mean.'''
    >>> mean.__doc__.splitlines()[2:7:2], mean.__doc__.splitlines()[7]
    (['Parameters', 'y_true : array of shape (n,)', 'sample_weight : array of shape (n,), optional'], '    Weights of the rows.')
    """
    if function.__doc__ is None:  # python -OO
        return function
    text = cleandoc(function.__doc__)
    before, heading, after = text.partition(HEADING)
    if heading:
        section, *later = NEXT_HEADING.split(after, maxsplit=1)
    else:
        before, *later = NEXT_HEADING.split(text, maxsplit=1)
        before, section = f"{before}\n\n", ""
    entries = re.split(r"\n(?=\S)", section) if section else []
    own = {name: entry for entry in entries for name in entry.split("\n")[0].split(" : ")[0].split(", ")}
    code, defaults = function.__code__, function.__kwdefaults__ or {}
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    found = [own.get(name) or _shared(name, defaults) for name in names if name in own or name in SHARED]
    described = before + HEADING + "\n".join(dict.fromkeys(found + entries))
    function.__doc__ = "\n\n".join([described, *later])
    return function


def _shared(name: str, defaults: dict[str, Any]) -> str:
    kind, text = SHARED[name]
    if name in defaults:
        default = defaults[name]
        shown = f'"{default}"' if isinstance(default, str) else repr(default)
        kind += ", optional" if default is None else f", default={shown}"
    return f"{name} : {kind}\n{text}".replace("\n", "\n    ")
