"""Functions that are imported when they are called, so that parsing a command line takes no time."""

from collections.abc import Callable
from importlib import import_module

__all__ = ["worker"]


def worker(module: str, name: str) -> Callable[..., None]:
    """Return what a command does.

    >>> worker("methods", "methods").__module__
    'calibrant.cli.work.methods'
    """
    function: Callable[..., None] = getattr(import_module(f"calibrant.cli.work.{module}"), name)
    return function
