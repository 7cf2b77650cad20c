"""Side columns, cost matrices and correctness columns of commands."""

from dataclasses import replace
from typing import Any

import click
import numpy as np

from calibrant.arrays import Float64Array
from calibrant.cli.confidence import GIVEN
from calibrant.errors import ParameterError
from calibrant.predictions import Predictions
from calibrant.tables.prediction_file import PredictionFile, Table
from calibrant.tables.side_columns import chosen_columns

__all__ = ["by_correctness", "correctness_names", "cost_matrix", "side_columns_of"]

OUTCOMES = ("wrong", "correct")


def side_columns_of(predictions: PredictionFile, names: str | None) -> dict[str, Any] | None:
    """Return the side columns of a file by their names, separated by commas."""
    if names is None:
        return None
    return predictions.side_columns(chosen_columns(predictions.path, names))


def cost_matrix(text: str | None) -> Float64Array | None:
    """Return a matrix from rows separated by semicolons.

    >>> cost_matrix("0,9;1,0")
    array([[0., 9.], [1., 0.]])
    """
    if text is None:
        return None
    try:
        rows = [[float(number) for number in row.split(",")] for row in text.split(";")]
        return np.array(rows, dtype=np.float64)
    except ValueError as error:
        raise ParameterError(
            f"--costs must be numbers such as '0,9;1,0', a row per decision and a column per class, not {text!r}."
        ) from error


def correctness_names() -> tuple[str, str] | None:
    """Return the names of the two classes if the command line has --correct."""
    context = click.get_current_context(silent=True)
    return OUTCOMES if context is not None and context.meta.get(GIVEN) else None


def by_correctness(table: Table) -> Table:
    """Return the rows with the classes "wrong" and "correct", if the command line named them by --correct."""
    found, classes = correctness_names(), table.predictions.classes
    if found is None or classes is None or len(classes) != 2:
        return table
    is_correct = table.labels.astype(str) == str(classes[1])
    names = np.array(found)
    predictions = Predictions(
        table.predictions.scores, table.predictions.space, names, table.predictions.declared_floor
    )
    return replace(table, predictions=predictions, labels=names[is_correct.astype(np.intp)])
