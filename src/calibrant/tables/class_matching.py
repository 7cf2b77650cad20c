"""Labels to columns: which class every column of scores stands for, given the labels that occur."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import LabelError
from calibrant.tables.cells import as_integers
from calibrant.tables.score_columns import ScoreColumns, listed, without_common_ends
from calibrant.wording import counted

__all__ = ["ClassMatch", "match_classes"]

Label = str | int


@dataclass(frozen=True)
class ClassMatch:
    """How labels and columns go together.

    Attributes
    ----------
    classes : ndarray of shape (K,)
        Name of every column for :class:`~calibrant.Predictions`: the class, or if labels are column numbers
        the name of the column.
    integers : bool
        Whether labels are integers, also where the file has them as text.
    note : str or None
        What a user should check, where order and not a name decided.
    """

    classes: NDArray[Any]
    integers: bool
    note: str | None = None


def match_classes(path: Path, columns: ScoreColumns, occurring: Mapping[Label, str]) -> ClassMatch:
    """Match the labels that occur, each with the place where it occurs first, to the columns.

    In this order: columns are called as the labels; they are so apart from what all names begin and end with;
    labels are column numbers 0..K-1; there are as many labels as columns, whose names say nothing: sorted order.

    >>> columns = ScoreColumns(("p_dog", "p_cat"), ("p_dog", "p_cat"))
    >>> match_classes(Path("a.csv"), columns, {"cat": "row 1", "dog": "row 2"}).classes
    array(['dog', 'cat'], dtype='<U3')
    """
    labels = np.array(list(occurring))
    numbers = as_integers(labels)
    known = labels if numbers is None else numbers
    places = dict(zip(known.tolist(), occurring.values(), strict=True))
    if len(columns.classes) == 1:
        return _of_one_column(path, columns, known, places)
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
        return ClassMatch(classes, numbers is not None, note)
    raise LabelError(_explanation(path, columns.classes, bare, places))


def _of_one_column(
    path: Path, columns: ScoreColumns, known: NDArray[Any], places: Mapping[Label, str]
) -> ClassMatch:
    """Match the labels to one column, which stands for the positive class of two."""
    name, integers = columns.classes[0], known.dtype.kind == "i"
    if integers and set(known.tolist()) <= {0, 1}:
        return ClassMatch(np.arange(2), True)
    if len(known) > 2:
        third = known.tolist()[2]
        raise LabelError(
            f"{path}: one column of scores means two classes, but there are {counted(len(known), 'label')}, "
            f"{listed(sorted(known.tolist()))}, the third first in {places[third]}; give one column per class."
        )
    if len(known) < 2:
        raise LabelError(
            f"{path}: all labels are {known.tolist()[0]!r}; with one column of scores, rows of both classes are needed."
        )
    texts = [str(one) for one in known.tolist()]
    if name in texts:
        positive = texts.index(name)
        return ClassMatch(known[[1 - positive, positive]], integers)
    classes = np.sort(known)
    note = f"column {columns.names[0]!r} is taken for the score of {classes.tolist()[1]!r}, the last in sorted order."
    return ClassMatch(classes, integers, note)


def _explanation(
    path: Path, columns: tuple[str, ...], bare: tuple[str, ...], places: Mapping[Label, str]
) -> str:
    """Return a sentence on the first label that fits neither a name nor a number of a column."""
    texts = {str(label) for label in places}
    names = bare if len(texts & set(bare)) > len(texts & set(columns)) else columns
    numbers = [str(number) for number in range(len(columns))] if not texts & set(names) else []
    unknown = [label for label in places if str(label) not in (*names, *numbers)]
    first = unknown[0] if unknown else next(iter(places))
    return (
        f"{path}: the label {first!r} in {places[first]} is not among the columns of scores, "
        f"{listed(names)}; correct it, or choose the columns."
    )


def _pairs(columns: tuple[str, ...], classes: NDArray[Any], shown: int = 3) -> str:
    pairs = [f"{column} is {label!r}" for column, label in zip(columns, classes.tolist(), strict=True)]
    return ", ".join(pairs[:shown]) + (" and so on" if len(pairs) > shown else "")
