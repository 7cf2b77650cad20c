"""Lazy imports: commands import their work when they are called, so that parsing a command line is fast."""

from collections.abc import Callable
from importlib import import_module

__all__ = ["worker"]


def worker(module: str, name: str) -> Callable[..., None]:
    """Return the function of a command, imported on its first call.

    >>> worker("methods", "methods").__module__
    'calibrant.cli.work.methods'
    """
    function: Callable[..., None] = getattr(import_module(f"calibrant.cli.work.{module}"), name)
    return function
