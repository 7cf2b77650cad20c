"""Score columns of several class labels per row, and the rows of a file that has them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import LabelError, PredictionError
from calibrant.predictions import Predictions, read_only
from calibrant.remedies import NAME_OUTPUT_COLUMNS
from calibrant.space import Space
from calibrant.tables.class_matching import Label, match_classes
from calibrant.tables.columns import ScoreColumns, labels_in, listed
from calibrant.tables.prediction_file import rows_per_batch
from calibrant.tables.score_checks import ScoreParser
from calibrant.tables.source import Batch, Source, as_integers

__all__ = ["Outputs", "output_columns", "read_outputs"]

PLACEHOLDER = "{label}"


@dataclass(frozen=True, eq=False)
class Outputs:
    """Rows of a file with several class labels."""

    predictions: list[Predictions]  # Predictions for every label, all of the same rows
    labels: list[NDArray[Any]]  # (n,): classes as text or integers; None where a label is missing
    notes: list[str]  # Messages to the user


def output_columns(
    source: Source, labels: Sequence[str], pattern: str | None, space: Space
) -> list[ScoreColumns]:
    """Return the score columns of every label.

    The pattern has ``{label}`` in the place of the name, such as ``p_{label}_*``, or is one pattern per label, separated by
    semicolons. By default the columns whose names have the name of the label as a word, such as ``p_colour_red``.
    """
    if pattern is None:
        found = [_named_after(source, label, labels, space) for label in labels]
    else:
        patterns = (
            [pattern.replace(PLACEHOLDER, label) for label in labels]
            if PLACEHOLDER in pattern
            else [part.strip() for part in pattern.split(";")]
        )
        if len(patterns) != len(labels):
            raise PredictionError(
                f"{source.path}: there are {len(labels)} labels, but the pattern {pattern!r} is for {len(patterns)}; "
                f"{NAME_OUTPUT_COLUMNS}."
            )
        found = [source.score_columns(part, labels, space) for part in patterns]
    _check_apart(source.path, labels, found)
    return found


def read_outputs(
    source: Source,
    labels: Sequence[str],
    columns: Sequence[ScoreColumns],
    space: Space,
    missing: str | None = None,
    normalise: bool = False,
) -> Outputs:
    """Read scores and labels of all rows; ``missing`` is a further text of a missing label, beside empty cells."""
    parsers = [ScoreParser(one, space, normalise) for one in columns]
    scores: list[list[NDArray[np.floating]]] = [[] for _ in labels]
    texts: list[list[NDArray[Any]]] = [[] for _ in labels]
    occurring: list[dict[Label, str]] = [{} for _ in labels]
    numbers = list(dict.fromkeys(name for one in columns for name in one.names))
    n_rows = min(rows_per_batch(one) for one in columns)
    for batch in source.batches(n_rows, [*numbers, *labels], numbers):
        for output, (parser, label) in enumerate(zip(parsers, labels, strict=True)):
            scores[output].append(parser(batch).scores)
            texts[output].append(_labels_of(batch, label, missing, occurring[output]))
    notes = [
        *(f"{label}: {one.note}" for label, one in zip(labels, columns, strict=True) if one.note),
        *(f"{label}: {one.note}" for label, one in zip(labels, parsers, strict=True) if one.note),
    ]
    predictions, found = [], []
    for label, one, parts, values, places in zip(labels, columns, scores, texts, occurring, strict=True):
        if not places:
            raise LabelError(
                f"{source.path}: the column {label!r} has no label; at least one row must have one."
            )
        match = match_classes(source.path, one, places, space=space)
        if match.note:
            notes.append(f"{label}: {match.note}")
        every = np.concatenate(values)
        if match.integers:
            known = np.array([value is not None for value in every.tolist()])
            every[known] = as_integers(every[known].astype(str))
        predictions.append(Predictions(read_only(np.concatenate(parts)), space, match.classes))
        found.append(every)
    return Outputs(predictions, found, notes)


def _labels_of(batch: Batch, label: str, missing: str | None, occurring: dict[Label, str]) -> NDArray[Any]:
    """Return the labels of a batch, None where they are missing, and record the first row of each."""
    absent = batch.missing_names(label)
    found: NDArray[Any] = np.full(batch.n_rows, None)
    if absent.all():
        return found
    known = batch.take(~absent) if absent.any() else batch
    names = known.names(label)
    values = names.array.astype(object)
    if missing is not None:
        values[names.array.astype(str) == missing] = None
    for code, value in enumerate(names.values.tolist()):
        if str(value) != missing and value not in occurring:
            occurring[value] = known.place(names.first_row(code))
    found[~absent] = values
    return found


def _named_after(source: Source, label: str, labels: Sequence[str], space: Space) -> ScoreColumns:
    """Return the columns that have the name of a label as a word, but not the longer name of another label."""
    names = []
    for column in source.columns:
        words = sorted(labels_in(column, labels), key=len) if column not in labels else []
        if words and words[-1] == label:
            if len(words) > 1 and len(words[-2]) == len(label):
                raise PredictionError(
                    f"{source.path}: the column {column!r} names the labels {listed(words)}; {NAME_OUTPUT_COLUMNS}."
                )
            names.append(column)
    if not names:
        raise PredictionError(
            f"{source.path}: no score column is named after the label {label!r}; {NAME_OUTPUT_COLUMNS}."
        )
    chosen = source.score_columns(",".join(names), labels, space)
    if len(chosen.names) != len(chosen.classes) or len(names) == 1:
        return chosen
    rest = [name.partition(label)[2].lstrip("_-. :/") for name in names]
    before = {name.partition(label)[0] for name in names}
    return ScoreColumns(chosen.names, tuple(rest)) if all(rest) and len(before) == 1 else chosen


def _check_apart(path: Path, labels: Sequence[str], found: Sequence[ScoreColumns]) -> None:
    """Reject a column that is a score of two labels, or a label."""
    owner: dict[str, str] = {}
    for label, columns in zip(labels, found, strict=True):
        for name in columns.names:
            if name in labels:
                raise PredictionError(
                    f"{path}: column {name!r} is both a label and a score; {NAME_OUTPUT_COLUMNS}."
                )
            if owner.setdefault(name, label) != label:
                raise PredictionError(
                    f"{path}: column {name!r} is a score of {owner[name]!r} and of {label!r}; {NAME_OUTPUT_COLUMNS}."
                )
