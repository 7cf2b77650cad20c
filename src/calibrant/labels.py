"""Encoding of labels as column numbers of the predictions."""

import re
from collections.abc import Sized
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc

from calibrant.errors import LabelError
from calibrant.origin import on_host

__all__ = ["encode_labels", "listed_labels", "shift_of_labels"]

SHOWN = 5  # labels that an error message lists
SHIFT_LEVEL = 1e-4  # significance level of the test for labels that are shifted by one column
LARGEST = 2.0**63  # upper limit of 64-bit integers


def encode_labels(
    y: Any, n_classes: int, classes: NDArray[Any] | None = None, ignore_label: int | str | None = None
) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return ``(codes, classes)``: the column number of every label and the label of every column.

    Labels equal to ``ignore_label`` have the number -1. The first rule that applies is used:

    1. Names of the columns, if every label is among them, either as they are or without their common prefix and suffix
       (p_cat, p_dog).
    2. The sorted categories of a pandas categorical, if there are K.
    3. Column numbers, if all labels are integers 0..K-1.
    4. Sorted order, if exactly K different labels occur and the columns have no names, or numbered ones such as p0, p1.

    All other labels raise an error.

    >>> encode_labels(["cat", "dog", "cat"], 2)
    (array([0, 1, 0]), array(['cat', 'dog'], dtype='<U3'))
    >>> encode_labels([2, 0], 4)
    (array([2, 0]), array([0, 1, 2, 3]))
    >>> encode_labels([2, -100, 0], 4, ignore_label=-100)
    (array([ 2, -1,  0]), array([0, 1, 2, 3]))
    """
    labels = _as_vector(y)
    if ignore_label is not None and isinstance(ignore_label, str) == (labels.dtype.kind == "U"):
        counts = labels != ignore_label
        if not counts.any():
            return np.full(len(labels), -1), np.arange(n_classes) if classes is None else classes
        if not counts.all():
            codes, classes = _encoded(labels[counts], y, n_classes, classes)
            every = np.full(len(labels), -1, dtype=np.intp)
            every[counts] = codes
            return every, classes
    return _encoded(labels, y, n_classes, classes)


def _encoded(
    labels: NDArray[Any], y: Any, n_classes: int, classes: NDArray[Any] | None
) -> tuple[NDArray[np.intp], NDArray[Any]]:
    if classes is not None:
        for names in (classes, _without_common_ends(classes)):
            codes = _codes_among(labels, names)
            if codes is not None:
                return codes, names
    categories = getattr(getattr(y, "dtype", None), "categories", None)  # a method in other libraries
    if isinstance(categories, Sized) and len(categories) == n_classes:
        named = np.sort(_as_vector(categories))
        codes = _codes_among(labels, named)
        if codes is not None:
            return codes, named
    if labels.dtype.kind in "iu" and labels.min() >= 0 and labels.max() < n_classes:
        return labels.astype(np.intp, copy=False), np.arange(n_classes)
    occurring, codes = np.unique(labels, return_inverse=True)
    if len(occurring) == n_classes and (classes is None or _are_numbered(classes)):
        return codes.astype(np.intp, copy=False), occurring
    raise LabelError(_explanation(labels, occurring, n_classes, classes))


def shift_of_labels(labels: NDArray[np.intp], predicted: NDArray[np.intp], n_classes: int) -> int:
    """Return the shift by 1 or -1 with which labels agree far better with the predicted classes; 0 if there is none.

    Labels 1..K without the last class, or -1, 0, 1 without the first, are valid column numbers. The shift is reported if the
    labels agree with the predictions less often than by chance, and a sign test finds that shifted ones agree more often.

    >>> shift_of_labels(np.array([1, 2] * 20), np.array([0, 1] * 20), 3)
    -1
    """
    shares = np.bincount(labels, minlength=n_classes) / len(labels)
    by_chance = float(shares @ np.bincount(predicted, minlength=n_classes))
    right = int(np.count_nonzero(predicted == labels))
    if right >= by_chance:
        return 0
    for shift, free in ((-1, labels.min() > 0), (1, labels.max() < n_classes - 1)):
        if free:
            shifted = int(np.count_nonzero(predicted == labels + shift))
            if shifted and bdtrc(shifted - 1, shifted + right, 0.5) < SHIFT_LEVEL:
                return shift
    return 0


def _without_common_ends(classes: NDArray[Any]) -> NDArray[Any]:
    """Return names of columns without their common prefix and suffix, of which digits are no part.

    >>> _without_common_ends(np.array(["p_2_raw", "p_10_raw"]))
    array(['2', '10'], dtype='<U2')
    """
    if classes.dtype.kind != "U":
        return classes
    names = classes.tolist()
    for _ in range(2):  # from the front, then from the back
        alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
        common = len("".join(letters[0] for letters in alike).rstrip("0123456789"))
        names = [name[common:][::-1] for name in names]
    return np.array(names)


def _are_numbered(classes: NDArray[Any]) -> bool:
    """Return whether names of columns only number them, so that labels are matched in sorted order.

    >>> _are_numbered(np.array(["p0", "p1"])), _are_numbered(np.array(["p_dog", "p_cat"])), _are_numbered(np.arange(3))
    (True, False, True)
    """
    if classes.dtype.kind != "U":
        return bool((np.diff(classes) == 1).all())
    stems = {re.sub(r"\d+", "#", name, count=1) for name in classes.tolist()}
    return len(stems) == 1 and "#" in next(iter(stems))


def _as_vector(y: Any) -> NDArray[Any]:
    """Return labels as a plain one-dimensional array of integers or strings."""
    labels = _as_array(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise LabelError(
            f"labels must be one-dimensional, but have shape {labels.shape}; "
            "for one-hot rows, pass labels.argmax(axis=1)."
        )
    if labels.size == 0:
        raise LabelError("there are no labels; at least one row is needed.")
    kind = labels.dtype.kind
    if kind == "b":
        return labels.astype(np.intp)
    if kind == "f":
        wrong = ~(np.abs(labels) < LARGEST) | (labels != np.round(labels))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise LabelError(
                f"labels must name classes, but row {row} has {labels[row]}; "
                "remove rows without a label and pass integers or strings."
            )
        return labels.astype(np.intp)
    if kind == "O":
        return _from_objects(labels)
    if kind in "iuU":
        return labels
    if kind == "T":
        return _from_objects(labels.astype(object))
    raise LabelError(f"labels must be integers or strings, not {labels.dtype}; convert them first.")


def _as_array(y: Any) -> NDArray[Any]:
    y = on_host(y)
    try:
        labels = np.asarray(y)
        # NumPy converts all entries of a list with one string to strings, NaN included.
        return np.asarray(y, dtype=object) if labels.dtype.kind == "U" and labels is not y else labels
    except ValueError as error:
        raise LabelError(
            "labels must be one-dimensional, but rows differ in length; pass one label per row."
        ) from error


def _from_objects(labels: NDArray[np.object_]) -> NDArray[Any]:
    if all(isinstance(label, str) for label in labels):
        row = next((row for row, label in enumerate(labels) if label.endswith("\0")), None)
        if row is not None:
            raise LabelError(
                f"labels must not end with a NUL character, which numpy drops, but row {row} has {labels[row]!r}; "
                "remove it."
            )
        return labels.astype(str)
    if all(isinstance(label, (int, np.integer, np.bool_)) for label in labels):
        row = next((row for row, label in enumerate(labels) if abs(int(label)) >= LARGEST), None)
        if row is not None:
            raise LabelError(
                f"labels must be integers below 2^63, but row {row} has {labels[row]}; pass them as strings."
            )
        return labels.astype(np.intp)
    if all(isinstance(label, (int, float, np.number)) for label in labels):
        return _as_vector(labels.astype(np.float64))
    kinds = [_kind(label) for label in labels]
    row = next(i for i, kind in enumerate(kinds) if kind is None or kind is not kinds[0])
    raise LabelError(
        f"labels must be all strings or all integers, but row {row} has {labels[row]!r} "
        f"of type {type(labels[row]).__name__}; convert them, or remove rows without a label."
    )


def _kind(label: object) -> type | None:
    """Return str or int for a label of that kind, None for NaN and anything else."""
    if isinstance(label, str):
        return str
    return int if isinstance(label, (int, float, np.number)) and np.isfinite(label) else None


def _codes_among(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp] | None:
    """Return the positions of ``labels`` in ``classes``, or None if one is not there."""
    if (labels.dtype.kind == "U") != (classes.dtype.kind == "U"):
        return None
    order = np.argsort(classes, kind="stable")
    position = np.searchsorted(classes, labels, sorter=order)
    position[position == len(classes)] = 0
    codes: NDArray[np.intp] = order[position]
    return codes if np.array_equal(classes[codes], labels) else None


def _explanation(
    labels: NDArray[Any], occurring: NDArray[Any], n_classes: int, classes: NDArray[Any] | None
) -> str:
    if classes is not None:
        unknown = occurring[~np.isin(occurring, classes)]
        return (
            f"labels {listed_labels(unknown)} are not among the classes {listed_labels(classes)} of the predictions; "
            "correct the labels or the class names."
        )
    if n_classes == 2 and len(occurring) > 2:
        return (
            f"the predictions have two classes (one column, or two), but the labels have {len(occurring)} different values "
            f"{listed_labels(occurring)}; pass one column per class."
        )
    if labels.dtype.kind in "iu":
        wrong = (labels < 0) | (labels >= n_classes)
        row = int(np.argmax(wrong))
        return (
            f"labels must be column numbers 0..{n_classes - 1}, but row {row} has {labels[row]}; "
            "for other class labels, use Predictions.from_probabilities(..., classes=[...])."
        )
    return (
        f"{len(occurring)} different labels {listed_labels(occurring)} cannot be matched to {n_classes} columns; "
        "name the columns with Predictions.from_probabilities(..., classes=[...])."
    )


def listed_labels(values: NDArray[Any]) -> str:
    """Return the first labels for an error message, and their number if there are more."""
    shown = ", ".join(repr(value) for value in values[:SHOWN].tolist())
    return f"[{shown}, ... {len(values)} in all]" if len(values) > SHOWN else f"[{shown}]"
