"""``calibrant export``: a saved calibrator as a file for another system."""

from pathlib import Path
from typing import Any

import click

from calibrant.cli.lazily import worker
from calibrant.space import Space

__all__ = ["export"]


@click.command()
@click.argument("calibrator", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="The file to write; its ending says what kind: .onnx, .pt2, .sql or .json.",
)
@click.option(
    "--space",
    type=click.Choice([space.value for space in Space]),
    help="What the file takes [as in the fit].",
)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float64"]),
    help="Float type of scores and probabilities [usual for the kind of file].",
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME",
    help="Name of a column of scores [as in the fit]; once per class, in their order.",
)
@click.option("--dialect", help="Dialect of a .sql file: postgres, spark, bigquery, ... [duckdb].")
@click.option(
    "--table",
    multiple=True,
    metavar="NAME",
    help="Table of the scores in a .sql file [predictions]; repeat for schema and table.",
)
@click.option(
    "--keep", multiple=True, metavar="NAME", help="Other column to select in a .sql file; can be repeated."
)
def export(**options: Any) -> None:
    """Write a saved calibrator to a file that another system runs.

    CALIBRATOR is what 'calibrant fit' saved. The new file is applied to test rows
    first, if its runtime is installed.
    """
    worker("export", "export")(**options)
