"""Survey: the first pass, which checks all rows and learns what a fit must know of them beforehand."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray
from calibrant.distributed.layout import Layout, Piece, listed
from calibrant.errors import LabelError
from calibrant.labels import encode_labels
from calibrant.space import Space

__all__ = ["Survey", "classes_of", "surveyed"]

# More different labels than this, and four times as many as classes, are no labels.
MOST_LABELS = 1000


class Seen(NamedTuple):
    """How often a label occurs, and where first."""

    weight: float
    place: str

    def __add__(self, other: Self) -> Self:  # type: ignore[override]
        return type(self)(self.weight + other.weight, self.place)


@dataclass(frozen=True)
class Survey:
    """What was seen of some rows; two of them add up.

    Attributes
    ----------
    n_rows : int
        Rows of positive weight.
    labels : dict
        :class:`Seen` for every label.
    smallest : float
        Smallest positive probability.
    has_zero : bool
    weight_range : tuple of float
        Smallest and largest positive weight.
    scores : ndarray of shape (1, K)
        One of the rows.
    """

    n_rows: int
    labels: dict[str | int, Seen]
    smallest: float
    has_zero: bool
    weight_range: tuple[float, float]
    scores: FloatArray = field(repr=False)

    def __add__(self, other: Self) -> Self:
        labels = dict(self.labels)
        for label, seen in other.labels.items():
            labels[label] = labels[label] + seen if label in labels else seen
        return type(self)(
            self.n_rows + other.n_rows,
            labels,
            min(self.smallest, other.smallest),
            self.has_zero or other.has_zero,
            (
                min(self.weight_range[0], other.weight_range[0]),
                max(self.weight_range[1], other.weight_range[1]),
            ),
            self.scores,
        )


@dataclass(frozen=True)
class surveyed:  # noqa: N801 (called like a function, and pickled like a value)
    """The contribution of a piece of rows to the survey."""

    layout: Layout

    def __call__(self, piece: Piece) -> Survey | None:
        """Check the rows and return what was seen; None if none of them counts."""
        layout = self.layout
        scores = layout.predictions(piece).scores
        labels, weights = layout.labels(piece), layout.weights(piece)
        if weights is not None:
            counts = weights > 0
            if not counts.any():
                return None
            scores, weights = scores[counts], weights[counts]
            places = np.flatnonzero(counts)
            labels = labels[counts]
        else:
            places = np.arange(len(labels))
        different, first, codes = np.unique(labels, return_index=True, return_inverse=True)
        if len(different) > max(MOST_LABELS, 4 * layout.n_classes):
            raise LabelError(
                f"{piece.where} has more than {len(different) - 1:,} different labels for {layout.n_classes} columns; "
                f"{layout.label!r} is not the column of labels."
            )
        totals = np.bincount(codes, weights, len(different))
        seen = {
            label: Seen(total, piece.place(int(places[row])))
            for label, total, row in zip(different.tolist(), totals.tolist(), first.tolist(), strict=True)
        }
        smallest, has_zero = np.inf, False
        if layout.space is Space.PROBABILITIES:
            smallest = float(scores.min())
            if smallest == 0:
                has_zero = True
                smallest = float(scores.min(where=scores > 0, initial=np.inf))
        weight_range = (1.0, 1.0) if weights is None else (float(weights.min()), float(weights.max()))
        return Survey(len(labels), seen, smallest, has_zero, weight_range, scores[:1].copy())


def classes_of(survey: Survey, layout: Layout, classes: Sequence[Any] | None) -> NDArray[Any]:
    """Return the label of every column, as :func:`~calibrant.labels.encode_labels` finds it for rows in memory."""
    if classes is not None:
        given = np.asarray(classes)
        if given.shape != (layout.n_classes,) or len(np.unique(given)) < len(given):
            raise LabelError(
                f"classes must be {layout.n_classes} different labels, not {listed(list(classes))}."
            )
        return given
    names = np.array(layout.scores) if len(layout.scores) > 1 else None
    labels = list(survey.labels)
    if len({isinstance(label, str) for label in labels}) > 1:
        text = next(label for label in labels if isinstance(label, str))
        raise LabelError(f"{survey.labels[text].place}: the label {text!r} is text, and others are integers.")
    try:
        found: NDArray[Any] = encode_labels(np.array(sorted(labels)), layout.n_classes, names)[1]
    except LabelError as error:
        rare = min(labels, key=lambda label: survey.labels[label].weight)
        raise LabelError(
            f"{str(error).rstrip('.')}; the rarest label, {rare!r}, is first in {survey.labels[rare].place}."
        ) from None
    return found
