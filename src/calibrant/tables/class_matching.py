"""Match labels to score columns: find the class of every column, given the labels in the file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import LabelError, ParameterError, PredictionError
from calibrant.presentation.sentences import counted
from calibrant.remedies import CHOOSE_COLUMNS, NAME_POSITIVE, POSITIVE_CLASS
from calibrant.space import Space
from calibrant.tables.columns import ScoreColumns, labels_in, listed, shared_affixes, without_common_ends
from calibrant.tables.source import as_integers

__all__ = ["ClassMatch", "match_classes"]

Label = str | int


@dataclass(frozen=True)
class ClassMatch:
    """Result of matching labels to columns."""

    # (K,): name of every column for :class:`~calibrant.Predictions`: the class, or the column name if labels
    # are column numbers
    classes: NDArray[Any]
    integers: bool  # Whether labels are integers, possibly stored as text
    note: str | None = None  # Message to the user if columns were matched by order rather than by name
    # Whether columns were matched in sorted order, so that their names are not those of the classes
    by_order: bool = False

    def is_same(self, other: "ClassMatch") -> bool:
        """Return whether both give every column the same class."""
        return (
            np.array_equal(self.classes, other.classes)
            and self.integers == other.integers
            and self.by_order == other.by_order
        )


def match_classes(
    path: Path,
    columns: ScoreColumns,
    occurring: Mapping[Label, str],
    *,
    space: Space = Space.PROBABILITIES,
    positive: str | None = None,
) -> ClassMatch:
    """Match labels, each with the position of its first occurrence, to the columns.

    Rules, in this order: column names equal the labels; they do so with a common prefix and suffix; labels are column
    numbers 0..K-1; there are as many labels as columns, matched in sorted order. Default columns of logits must all match
    labels, since their row sums cannot show that a column is not a class. ``positive`` is the class of a single column.

    >>> columns = ScoreColumns(("p_dog", "p_cat"), ("p_dog", "p_cat"))
    >>> match_classes(Path("a.csv"), columns, {"cat": "row 1", "dog": "row 2"}).classes
    array(['dog', 'cat'], dtype='<U3')
    """
    labels = np.array(list(occurring))
    numbers = as_integers(labels)
    known = labels if numbers is None else numbers
    places = dict(zip(known.tolist(), occurring.values(), strict=True))
    if columns.left_out:
        _check_no_class_is_left_out(path, columns, [str(label) for label in known.tolist()])
    if len(columns.classes) == 1:
        return _of_one_column(path, columns, known, places, positive)
    if positive is not None:
        raise ParameterError(
            f"{POSITIVE_CLASS} one score column, but {path} has "
            f"{len(columns.classes)}, {listed(columns.in_file)}; omit it, or choose one column."
        )
    if space is Space.LOGITS and columns.is_default:
        _check_none_besides(path, columns, known)
    bare = without_common_ends(columns.classes)
    for names in (columns.classes, bare):
        classes = np.array(names) if numbers is None else as_integers(np.array(names))
        if classes is not None and len(set(names)) == len(names) and np.isin(known, classes).all():
            return ClassMatch(classes, numbers is not None)
    n_classes = len(columns.classes)
    if numbers is not None and numbers.min() >= 0 and numbers.max() < n_classes:
        return ClassMatch(np.array(columns.classes), True)
    says_nothing = as_integers(np.array(bare)) is not None
    if len(known) == n_classes and says_nothing:
        classes = np.sort(known)
        note = f"labels are matched to columns in sorted order: {_pairs(columns.classes, classes)}."
        return ClassMatch(classes, numbers is not None, note, by_order=True)
    raise LabelError(_explanation(path, columns.classes, bare, places))


def _check_no_class_is_left_out(path: Path, columns: ScoreColumns, labels: list[str]) -> None:
    """Reject a column that was skipped as a row number but has the name of a label."""
    before, after, covered = shared_affixes((*columns.names, *columns.left_out), labels)
    called_so = {f"{before}{label}{after}" for label in covered} if len(covered) > 1 else set()
    for name in columns.left_out:
        if name in labels or name in called_so:
            raise PredictionError(
                f"{path}: column {name!r} looks like a row number but has the name of a label; {CHOOSE_COLUMNS}."
            )


def _check_none_besides(path: Path, columns: ScoreColumns, known: NDArray[Any]) -> None:
    """Reject columns that match no label if the other columns match all labels."""
    texts = [str(label) for label in known.tolist()]
    before, after, covered = shared_affixes(columns.names, texts)
    if len(set(covered)) < max(2, len(texts)):
        return
    if before or after:  # p_owl next to p_cat is a class even if it never occurs
        besides = [name for name in columns.names if not (name.startswith(before) and name.endswith(after))]
    elif known.dtype.kind == "i":
        besides = [name for name in columns.names if as_integers(np.array([name])) is None]
    else:
        besides = [name for name in columns.names if name not in texts]
    if besides:
        several = len(besides) > 1
        raise PredictionError(
            f"{path}: {'columns' if several else 'column'} {listed(besides)} {'match' if several else 'matches'} no "
            f"label; {CHOOSE_COLUMNS}, with {'them' if several else 'it'} only if "
            f"{'they are classes' if several else 'it is a class'} that never {'occur' if several else 'occurs'}."
        )


def _of_one_column(
    path: Path, columns: ScoreColumns, known: NDArray[Any], places: Mapping[Label, str], asked: str | None
) -> ClassMatch:
    """Match the labels to a single column, which is the positive class of two."""
    name, integers = columns.classes[0], known.dtype.kind == "i"
    if integers and set(known.tolist()) <= {0, 1}:
        known = np.arange(2)
        if asked is None:
            return ClassMatch(known, True)
    if len(known) > 2:
        third = known.tolist()[2]
        raise LabelError(
            f"{path}: a single score column is for two classes, but there are {counted(len(known), 'label')}, "
            f"{listed(sorted(known.tolist()))}, the third first in {places[third]}; give one column per class."
        )
    if len(known) < 2:
        raise LabelError(
            f"{path}: all labels are {known.tolist()[0]!r}; a single score column needs rows of both classes."
        )
    texts = [str(one) for one in known.tolist()]
    if asked is not None and asked not in texts:
        raise LabelError(f"{path}: the positive class {asked!r} is not among the labels, {listed(texts)}.")
    named = [name] if name in texts else labels_in(name, texts)
    if asked is not None or len(named) == 1:
        positive = texts.index(named[0] if asked is None else asked)
        return ClassMatch(known[[1 - positive, positive]], integers)
    classes = np.sort(known)
    note = (
        f"column {columns.names[0]!r} is read as the score of {classes.tolist()[1]!r}, the last in sorted order; "
        f"{NAME_POSITIVE} it is the other one."
    )
    return ClassMatch(classes, integers, note, by_order=True)


def _explanation(
    path: Path, columns: tuple[str, ...], bare: tuple[str, ...], places: Mapping[Label, str]
) -> str:
    """Return an error message for the first label that matches neither a column name nor a column number."""
    texts = {str(label) for label in places}
    names = bare if len(texts & set(bare)) > len(texts & set(columns)) else columns
    numbers = [str(number) for number in range(len(columns))] if not texts & set(names) else []
    unknown = [label for label in places if str(label) not in (*names, *numbers)]
    first = unknown[0] if unknown else next(iter(places))
    return (
        f"{path}: the label {first!r} in {places[first]} matches none of the score columns, "
        f"{listed(names)}; correct it, or {CHOOSE_COLUMNS}."
    )


def _pairs(columns: tuple[str, ...], classes: NDArray[Any], shown: int = 3) -> str:
    pairs = [f"{column} is {label!r}" for column, label in zip(columns, classes.tolist(), strict=True)]
    return ", ".join(pairs[:shown]) + (" and so on" if len(pairs) > shown else "")
