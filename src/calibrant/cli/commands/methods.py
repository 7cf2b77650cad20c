"""``calibrant methods``: list all methods with their traits."""

from typing import Any

import click

from calibrant.cli.lazily import worker
from calibrant.cli.options import format_options

__all__ = ["methods"]


@click.command()
@format_options
def methods(**options: Any) -> None:
    """List all calibration methods by name.

    A + between two names composes them: temperature+knn-kl.
    """
    worker("methods", "methods")(**options)
