"""Find the columns of labels and scores by their names, and the space where names or row sums leave no doubt."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import FileFormatError, LabelError, ParameterError, PredictionError, WeightError
from calibrant.remedies import CHOOSE_COLUMNS, CHOOSE_LABELS
from calibrant.space import Space, look_like_probabilities
from calibrant.tables.array_source import ArraySource
from calibrant.tables.columns import ScoreColumns, affixes_around, listed
from calibrant.tables.file_set import open_source
from calibrant.tables.source import Batch, Source, as_integers, usual_labels

__all__ = ["Roles", "find_roles", "label_of", "space_in_name"]

ROWS_LOOKED_AT = 1000

WORDS = {
    Space.PROBABILITIES: {"probabilities", "probability", "probs", "prob", "proba", "probas", "confidence"},
    Space.LOGITS: {"logits", "logit"},
}
"""Words in the name of a column or an array that tell the space of its scores."""

SCORE_WORDS = {"score", "scores", "p", "risk"}.union(*WORDS.values())
"""Words in the name of a single score column among other numeric columns."""

PREDICTED = re.compile(r"(?:^|[^a-z])(?:pred|predicted|prediction|predictions|y_hat|yhat)(?:$|[^a-z])")
"""Names of columns with predicted classes, which have the same values as the labels."""

UNREADABLE = (FileFormatError, LabelError, PredictionError, WeightError)


@dataclass(frozen=True)
class Roles:
    """Columns with the labels and the scores, and the space of the scores."""

    label: str  # Column or array with the labels
    columns: str | ScoreColumns | None  # The score columns; None for the default of the source
    space: Space | None  # None if neither names nor values tell
    reason: str = ""  # Evidence for the space; empty if it was declared
    limits: tuple[float, float] | None = None  # Smallest and largest score in the first rows


def find_roles(
    source: Source,
    *,
    label: str | None = None,
    columns: str | ScoreColumns | None = None,
    space: str | None = None,
    others: Iterable[str | None] = (),
) -> Roles:
    """Return the roles of the columns: those given, and the others found in the header and the first thousand rows.

    The label is the only column with a usual name, or the only one after whose values columns are named. The scores are the
    columns named after the labels with a common prefix or suffix, or a single column called a score. Scores are
    probabilities if their names say so or if all rows of several columns are between 0 and 1 and sum to one: logits have a
    free constant in every row, so that they sum to one only by design. A single column never tells. ``others`` are columns
    with another role, such as weights.
    """
    declared = None if space is None else Space(space)
    taken = [name for name in others if name is not None]
    if isinstance(source, ArraySource):
        return _roles_of_arrays(source, label_of(source, label), columns, declared, taken)
    first = next(source.batches(ROWS_LOOKED_AT))
    found_label = _label(source, first, taken) if label is None else source.column(label, "label")
    chosen: str | ScoreColumns | None = columns
    if columns is None:
        chosen = _columns_by_name(source, first, found_label, [found_label, *taken], declared)
    if declared is not None:
        return Roles(found_label, chosen, declared)
    # Which columns are the default ones does not depend on the space.
    resolved = (
        chosen
        if isinstance(chosen, ScoreColumns)
        else source.score_columns(chosen, [found_label, *taken], Space.PROBABILITIES)
    )
    return _with_space(Roles(found_label, chosen, None), resolved.names, first)


def space_in_name(name: str) -> Space | None:
    """Return the space that a name tells, or None.

    >>> space_in_name("test_logits"), space_in_name("p_cat")
    (<Space.LOGITS: 'logits'>, None)
    """
    words = set(re.split(r"[^a-z]+", name.lower()))
    found = [space for space, known in WORDS.items() if words & known]
    return found[0] if len(found) == 1 else None


def _with_space(roles: Roles, names: Sequence[str], first: Batch) -> Roles:
    """Return roles with the space, if the names or the first rows tell it."""
    scores, problem = None, None
    try:
        scores = _complete(first, numbers=names).scores(names)
    except UNREADABLE as error:
        problem = error
    limits = None if scores is None else (float(scores.min()), float(scores.max()))
    told = {space_in_name(name) for name in names}
    (space,) = told if len(told) == 1 else (None,)
    reason = f"by the name {names[0]!r}" if space is not None else ""
    if space is None and problem is not None:
        raise problem
    if space is None and scores is not None and look_like_probabilities(scores):
        space, reason = Space.PROBABILITIES, "since all rows sum to one"
    return Roles(roles.label, roles.columns, space, reason, limits)


def _roles_of_arrays(
    source: ArraySource,
    label: str,
    columns: str | ScoreColumns | None,
    declared: Space | None,
    taken: list[str],
) -> Roles:
    if isinstance(columns, ScoreColumns):
        (columns,) = columns.names
    if declared is not None:
        return Roles(label, columns, declared)
    usual = {space: source.usual_arrays(space) for space in Space}
    if columns is None and all(usual.values()):
        return Roles(label, None, None)  # probabilities and logits: the space chooses the array
    space = Space.LOGITS if usual[Space.LOGITS] else Space.PROBABILITIES
    (name,) = source.score_columns(columns, [label, *taken], space).names
    return _with_space(Roles(label, name, None), [name], next(source.batches(ROWS_LOOKED_AT)))


def _label(source: Source, first: Batch, taken: Sequence[str]) -> str:
    """Return the column with a usual name, or the only one after whose values columns are named."""
    if usual_labels(source.columns):
        return source.label_column(None)
    found = [name for name in source.columns if name not in taken and _names_columns(source, first, name)]
    if not found:
        scores = [name for name in source.columns if _is_called_score(name)]
        if len(scores) == 1:
            found = [
                name for name in source.columns if name not in (*taken, *scores) and _is_binary(first, name)
            ]
    if len(found) == 1:
        return found[0]
    if found:
        raise LabelError(f"{source.path}: {CHOOSE_LABELS}; it could be {listed(found)}.")
    return source.label_column(None)


def _complete(first: Batch, numbers: Sequence[str] = (), texts: Sequence[str] = ()) -> Batch:
    """Return the rows without a missing value in these columns; missing values are reported when all rows are read."""
    try:
        missing = np.zeros(first.n_rows, bool)
        for name in numbers:
            missing |= first.missing_numbers(name)
        for name in texts:
            missing |= first.missing_names(name)
        return first.take(~missing) if missing.any() and not missing.all() else first
    except ParameterError:  # a format that cannot drop rows
        return first


def _is_binary(first: Batch, name: str) -> bool:
    """Return whether a column has two values, 0 and 1 or two words."""
    values = _values(first, name)
    is_known = set(values) == {"0", "1"} or not any(value.lstrip("-")[:1].isdigit() for value in values)
    return not PREDICTED.search(name.lower()) and len(values) == 2 and is_known


def _names_columns(source: Source, first: Batch, name: str) -> bool:
    """Return whether other columns are named after the values of a column."""
    if PREDICTED.search(name.lower()):
        return False
    values = _values(first, name)
    others = [column for column in source.columns if column != name]
    return 2 <= len(values) <= len(others) and bool(_affixes(others, values))


def _values(first: Batch, name: str) -> list[str]:
    """Return the distinct values of a column as text, none if it cannot hold labels."""
    try:
        values: NDArray[np.generic] = _complete(first, texts=[name]).names(name).values
    except UNREADABLE:
        return []
    numbers = as_integers(values)
    return [str(value) for value in (values if numbers is None else numbers).tolist()]


def _affixes(columns: Sequence[str], labels: Sequence[str]) -> list[tuple[str, str]]:
    """Return the prefixes and suffixes with which every label is the name of a column.

    >>> _affixes(["p_cat", "p_dog", "q_cat", "cat"], ["cat", "dog"])
    [('p_', '')]
    """
    available = set(columns)
    around = dict.fromkeys(pair for column in columns for pair in affixes_around(column, labels[0]))
    return [
        (before, after)
        for before, after in around
        if _is_bounded(before[-1:], labels[0][:1])
        and _is_bounded(labels[0][-1:], after[:1])
        and all(f"{before}{label}{after}" in available for label in labels)
    ]


def _is_bounded(left: str, right: str) -> bool:
    """Return whether a word can end between two characters: p0 has two, dog one."""
    return not (left.isalpha() and right.isalpha()) and not (left.isdigit() and right.isdigit())


def _is_called_score(name: str) -> bool:
    return bool(SCORE_WORDS.intersection(re.split(r"[^a-z]+", name.lower())))


def _columns_by_name(
    source: Source, first: Batch, label: str, taken: Sequence[str], space: Space | None
) -> ScoreColumns | None:
    """Return the columns named after the labels, or the single column called a score; None for the default columns."""
    labels = _values(first, label)
    others = [column for column in source.columns if column not in taken]
    if len(labels) < 2:
        return None
    sets = [_named(others, labels, before, after) for before, after in _affixes(others, labels)]
    complete = [one for one in sets if _sum_to_one(first, one)] if space is not Space.LOGITS else []
    # Columns with exactly the names of the labels could lack a class, unless their rows sum to one.
    with_affix = [one for one in sets if one.names != one.classes]
    if space is not None:
        with_affix = [
            one for one in with_affix if {space_in_name(name) for name in one.names} <= {space, None}
        ]
    for found in (complete, with_affix):
        if len(found) == 1:
            return found[0]
        if len(found) > 1:
            raise PredictionError(
                f"{source.path} has several sets of columns for these labels, with "
                f"{listed(one.names[0] for one in found)}; {CHOOSE_COLUMNS}."
            )
    if len(labels) == 2 and not sets:
        called_so = [name for name in others if _is_called_score(name) and _is_numeric(first, name)]
        if len(called_so) == 1:
            return ScoreColumns((called_so[0],), (called_so[0],))
    return None


def _named(columns: Sequence[str], labels: Sequence[str], before: str, after: str) -> ScoreColumns:
    """Return all columns with a prefix and a suffix, also of classes that have not occurred yet.

    Without either, these are the columns of the labels alone; where labels are numbers, columns are too.
    """
    are_numbers = all(label.isdigit() for label in labels)
    names = [
        name
        for name in columns
        if len(name) > len(before + after)
        and name.startswith(before)
        and name.endswith(after)
        and (before or after or name in labels)
        and (not are_numbers or name[len(before) : len(name) - len(after)].isdigit())
    ]
    return ScoreColumns(tuple(names), tuple(name[len(before) : len(name) - len(after)] for name in names))


def _sum_to_one(first: Batch, columns: ScoreColumns) -> bool:
    try:
        complete = _complete(first, numbers=columns.names)
        return look_like_probabilities(complete.scores(columns.names))
    except UNREADABLE:
        return False


def _is_numeric(first: Batch, name: str) -> bool:
    try:
        _complete(first, numbers=[name]).scores([name])
    except UNREADABLE:
        return False
    return True


def label_of(source: Source, label: str | None) -> str:
    """Return the name of the labels; for an array of scores these may be in another file of arrays, such as labels.npy."""
    path = None if label is None or label in source.columns else Path(label)
    if path is None or not isinstance(source, ArraySource) or not path.is_file():
        return source.label_column(label)
    with open_source(path) as other:
        if not isinstance(other, ArraySource):
            raise FileFormatError(f"{path} is no file of arrays; give the labels as .npy, .npz or .pt.")
        usual = usual_labels(other.columns)
        names = usual if usual or len(other.columns) > 1 else list(other.columns)
        if len(names) != 1:
            raise FileFormatError(
                f"{path} has several arrays, {listed(other.columns)}; give a file with the labels alone."
            )
        source.add(path.name, other.array(names[0]).copy())
    return path.name
