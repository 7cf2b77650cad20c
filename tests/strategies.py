"""Hypothesis strategies for what calibrators and metrics take in.

All of them favour the corners in which numerical code breaks: exact zeros and ones, ties, constant rows,
scores so large that an exponential overflows, and permutations of the classes.
"""

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import DTypeLike, NDArray

from calibrant.space import look_like_probabilities

FLOATS = st.sampled_from([np.float32, np.float64])


class Problem(NamedTuple):
    """Predictions with labels in which every class occurs."""

    probabilities: NDArray
    labels: NDArray[np.intp]


def _shape(draw: st.DrawFn, n_rows: int | None, n_classes: int | None) -> tuple[int, int]:
    rows = draw(st.integers(1, 8)) if n_rows is None else n_rows
    classes = draw(st.integers(2, 5)) if n_classes is None else n_classes
    return rows, classes


@st.composite
def probability_matrices(
    draw: st.DrawFn,
    n_rows: int | None = None,
    n_classes: int | None = None,
    dtype: st.SearchStrategy[DTypeLike] = FLOATS,
) -> NDArray:
    """Matrices of shape (n, K) with rows summing to one, up to rounding.

    Rows are small counts divided by their sum: zeros, ones and ties are exact and frequent, also between
    rows. With an even chance, noise makes all entries different instead.
    """
    shape = _shape(draw, n_rows, n_classes)
    counts = draw(hnp.arrays(np.float64, shape, elements=st.integers(0, 4).map(float)))
    empty = counts.sum(axis=1) == 0
    counts[empty, draw(st.integers(0, shape[1] - 1))] = 1.0
    if draw(st.booleans()):
        counts += draw(hnp.arrays(np.float64, shape, elements=st.floats(0.0, 0.5)))
    return (counts / counts.sum(axis=1, keepdims=True)).astype(draw(dtype))


@st.composite
def logit_matrices(
    draw: st.DrawFn,
    n_rows: int | None = None,
    n_classes: int | None = None,
    dtype: st.SearchStrategy[DTypeLike] = FLOATS,
    bound: float = 1e4,
) -> NDArray:
    """Matrices of shape (n, K) of logits: whole numbers with ties, usual ones, or ones up to ``bound``."""
    shape = _shape(draw, n_rows, n_classes)
    limit = draw(st.sampled_from([5.0, 50.0, bound]))
    whole = st.integers(-3, 3).map(float)
    elements = draw(st.sampled_from([whole, st.floats(-limit, limit, width=32)]))
    logits = draw(hnp.arrays(np.float64, shape, elements=elements)).astype(draw(dtype))
    return -logits if look_like_probabilities(logits) else logits  # which would be refused


@st.composite
def labels_with_all_classes(draw: st.DrawFn, n_rows: int, n_classes: int) -> NDArray[np.intp]:
    """Column numbers of ``n_rows`` rows in which each of the classes occurs."""
    rest = draw(
        st.lists(st.integers(0, n_classes - 1), min_size=n_rows - n_classes, max_size=n_rows - n_classes)
    )
    return np.array(draw(st.permutations([*range(n_classes), *rest])), dtype=np.intp)


@st.composite
def class_orders(draw: st.DrawFn, n_classes: int) -> NDArray[np.intp]:
    """Permutations of 0..K-1: position j of the result is the class that moves to column j."""
    return np.array(draw(st.permutations(range(n_classes))), dtype=np.intp)


@st.composite
def problems(draw: st.DrawFn, min_rows: int = 6, max_rows: int = 14) -> Problem:
    """Probabilities with labels of all classes, for two to four classes."""
    n_rows, n_classes = draw(st.integers(min_rows, max_rows)), draw(st.integers(2, 4))
    probabilities = draw(probability_matrices(n_rows, n_classes))
    return Problem(probabilities, draw(labels_with_all_classes(n_rows, n_classes)))
