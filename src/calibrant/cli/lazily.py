"""Lazy imports: commands import their work when they are called, so that parsing a command line is fast."""

from collections.abc import Callable
from functools import partial
from importlib import import_module

import click

__all__ = ["engine_worker", "worker"]


def worker(module: str, name: str) -> Callable[..., None]:
    """Return the function of a command, imported on its first call.

    >>> worker("methods", "methods").__module__
    'calibrant.cli.work.methods'
    """
    function: Callable[..., None] = getattr(import_module(f"calibrant.cli.work.{module}"), name)
    return function


def engine_worker(name: str, engine: str, address: str | None) -> Callable[..., None]:
    """Return the function of a command for rows in files of this machine, or for a cluster."""
    if engine != "local":
        return partial(worker("cluster", name), engine=engine, address=address)
    if address is not None:
        raise click.UsageError("--address is for --engine dask or --engine spark.")
    return worker(name, name)
