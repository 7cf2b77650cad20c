"""ThreeClasses: three of K classes for a plot on the simplex."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Matrix
from calibrant.errors import ParameterError, PredictionError
from calibrant.wording import counted

__all__ = ["ThreeClasses", "class_columns"]


def class_columns(known: NDArray[Any], chosen: Any) -> NDArray[np.intp]:
    """Return the column numbers of chosen classes, given by their labels.

    >>> class_columns(np.array(["cat", "cow", "dog"]), ["dog", "cat"])
    array([2, 0])
    """
    wanted = np.asarray(chosen)
    labels = wanted.tolist() if wanted.ndim == 1 else [chosen]
    places = {label: column for column, label in enumerate(known.tolist())}
    absent = [label for label in labels if label not in places]
    if absent or len(set(labels)) != len(labels):
        shown = ", ".join(map(repr, known[:5].tolist())) + (", ..." if len(known) > 5 else "")
        reason = f"{absent[0]!r} is not one of {shown}" if absent else "some are duplicates"
        raise ParameterError(f"classes must be distinct labels of the predictions, but {reason}.")
    return np.array([places[label] for label in labels], dtype=np.intp)


@dataclass(frozen=True, eq=False)
class ThreeClasses:
    """Three of K columns, with conversions between rows of K probabilities and points of the simplex.

    Attributes
    ----------
    columns : ndarray of shape (3,)
        Column numbers, in the order left, right, top.
    names : tuple of str
        Labels of the three.
    n_classes : int
        K.
    """

    columns: NDArray[np.intp]
    names: tuple[str, ...]
    n_classes: int

    @classmethod
    def of(cls, known: NDArray[Any], chosen: Any = None) -> Self:
        """Return the three chosen classes, or all if there are three.

        Raises
        ------
        PredictionError
            If there are two classes, or more than three and none are chosen.
        ParameterError
            If the number of chosen classes is not three.
        """
        if len(known) < 3:
            raise PredictionError(
                f"a triangle shows three classes, but these predictions have {counted(len(known), 'column')}; "
                "for two classes draw a reliability diagram."
            )
        if chosen is None:
            if len(known) > 3:
                raise PredictionError(
                    f"a triangle shows three classes, but these predictions have {len(known)}; "
                    f"choose three by classes=, such as classes={known[:3].tolist()!r}."
                )
            chosen = known
        columns = class_columns(known, chosen)
        if len(columns) != 3:
            raise ParameterError(f"classes must be three labels for a triangle, but are {len(columns)}.")
        return cls(columns, tuple(str(label) for label in known[columns].tolist()), len(known))

    def restricted(self, rows: Any) -> Matrix:
        """Return probabilities conditional on the three classes, (n, 3); uniform where all three are zero."""
        own = np.asarray(rows, dtype=np.float64)[:, self.columns]
        total = own.sum(axis=1, keepdims=True)
        given: Matrix = np.divide(own, total, out=np.full_like(own, 1 / 3), where=total > 0)
        return given

    def embedded(self, points: Matrix, others: Matrix | float) -> Matrix:
        """Return rows of K probabilities for points of the triangle, (m, K).

        ``others`` is the total probability of the other classes, in equal parts, or a row (K,) with their probabilities.
        """
        if np.ndim(others) == 1:
            rows = np.tile(np.asarray(others, dtype=np.float64), (len(points), 1))
        elif self.n_classes == 3:
            rows = np.zeros((len(points), 3))
        else:
            rows = np.full((len(points), self.n_classes), others / (self.n_classes - 3))
        rows[:, self.columns] = 0.0
        rows[:, self.columns] = points * (1 - rows.sum(axis=1, keepdims=True))
        return rows
