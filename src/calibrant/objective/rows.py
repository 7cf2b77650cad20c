"""Rows: what a solver sums over, whether they are arrays in memory or read again for every pass."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import FloatArray, Vector
from calibrant.numerics.row_blocks import BlockSums, Mergeable, State, one_blas_thread, row_blocks

__all__ = ["ArrayRows", "Block", "FeatureRows", "StreamedRows"]

Kept = TypeVar("Kept")


@dataclass(eq=False, slots=True)
class Block:
    """Some rows of a source.

    Attributes
    ----------
    features : ndarray of shape (n, P)
    labels : ndarray of shape (n,)
        Column number of the true class, or the target of an event.
    weights : ndarray of shape (n,) or None
    rows : slice
        Place among the rows in memory, for per-row storage of the source.
    kept : dict
        Cache of quantities from earlier passes over these rows.
    first : int
        Place of the first row among all rows of the source, in whatever batches these come.
    """

    features: FloatArray
    labels: NDArray[Any]
    weights: Vector | None
    rows: slice
    kept: dict[Any, Any]
    first: int = 0

    def keep(self, name: Any, compute: Callable[[], Kept]) -> Kept:
        """Return what is kept under a name, computed now if it is not there."""
        if name not in self.kept:
            self.kept[name] = compute()
        found: Kept = self.kept[name]
        return found

    def weighted(self, per_row: FloatArray) -> FloatArray:
        """Return numbers of every row, (n,) or (n, K), times the weight of the row."""
        if self.weights is None:
            return per_row
        weights = self.weights if per_row.ndim == 1 else self.weights[:, np.newaxis]
        product: FloatArray = per_row * weights.astype(per_row.dtype, copy=False)
        return product


class FeatureRows(ABC):
    """Features, labels and weights of all rows of a fit.

    A solver asks for sums over blocks and never holds all rows. Contributions add up in any grouping
    (``Mergeable`` of ``calibrant.numerics.row_blocks``).

    Attributes
    ----------
    n_rows : int
    n_columns : int
        Number of features of a row.
    total_weight : float
        Sum of the weights; the number of rows without.
    dtype : numpy.dtype
        Float type of the features.
    """

    n_rows: int
    n_columns: int
    total_weight: float
    dtype: np.dtype[Any]
    dense_parameters: ClassVar[int] = 0
    """Up to how many parameters a pass computes the Hessian as well, where passes cost more than that."""

    @abstractmethod
    def passes(
        self, width: int, itemsize: int = 8, min_rows: int = 1
    ) -> AbstractContextManager[Callable[[Callable[[Block], State]], State]]:
        """Open a pool for repeated passes in blocks of rows of ``width`` entries each."""

    @abstractmethod
    def mapped(
        self,
        features: Callable[[FloatArray], FloatArray] | None = None,
        labels: Callable[[NDArray[Any]], NDArray[Any]] | None = None,
    ) -> "FeatureRows":
        """Return the same rows with other features or labels, computed from their own."""

    @abstractmethod
    def every(self, stride: int) -> "ArrayRows":
        """Return every ``stride``-th row, in memory."""

    @abstractmethod
    def sample(self, size: int, keys: Callable[[FloatArray], Vector]) -> "ArrayRows":
        """Return the rows with the smallest keys, which are computed from the features, in memory; all if these are few.

        With keys that are as good as random the sample is one of all rows, whatever their order and partition.
        """

    def folds(self, cv: Any) -> "list[tuple[FeatureRows, FeatureRows]] | None":  # noqa: ARG002
        """Return training and test rows of every fold if the rows define the folds themselves, otherwise None."""
        return None

    def storage(self, shape: tuple[int, ...], dtype: Any) -> FloatArray | None:  # noqa: ARG002
        """Return an array with one entry per row for a cache; None if the rows are not in memory."""
        return None

    def recycle(self, array: FloatArray | None) -> None:  # noqa: B027 (nothing to do without storage)
        """Take back storage that is not needed any more."""


class ArrayRows(FeatureRows):
    """Rows in memory, in blocks that fit the cache, with threads where there is enough work.

    Attributes
    ----------
    first : int
        Number of rows in earlier batches, if these rows are one of several.
    """

    def __init__(self, features: FloatArray, labels: NDArray[Any], weights: Vector | None = None) -> None:
        self.features, self.labels, self.weights = features, labels, weights
        self.n_rows, self.n_columns = features.shape
        self.total_weight = float(len(labels) if weights is None else weights.sum())
        self.dtype = features.dtype
        self.first = 0
        self._kept: dict[tuple[int, int], dict[Any, Any]] = {}
        self._spare: list[FloatArray] = []

    @contextmanager
    def passes(
        self, width: int, itemsize: int = 8, min_rows: int = 1
    ) -> Iterator[Callable[[Callable[[Block], State]], State]]:
        if len(row_blocks(self.n_rows, width, itemsize, min_rows)) == 1:
            # One block needs neither sums nor threads.
            whole = self.block(slice(0, self.n_rows))
            yield lambda contribution: contribution(whole)
            return
        with BlockSums.over(self.n_rows, width, itemsize, min_rows) as sums:
            yield lambda contribution: sums(lambda rows: contribution(self.block(rows)))

    def block(self, rows: slice) -> Block:
        """Return the rows of a slice."""
        kept = self._kept.setdefault((rows.start, rows.stop), {})
        weights = None if self.weights is None else self.weights[rows]
        return Block(self.features[rows], self.labels[rows], weights, rows, kept, self.first + rows.start)

    def mapped(
        self,
        features: Callable[[FloatArray], FloatArray] | None = None,
        labels: Callable[[NDArray[Any]], NDArray[Any]] | None = None,
    ) -> "ArrayRows":
        return ArrayRows(
            self.features if features is None else features(self.features),
            self.labels if labels is None else labels(self.labels),
            self.weights,
        )

    def every(self, stride: int, first: int = 0) -> "ArrayRows":
        rows = slice(first, None, stride)
        weights = None if self.weights is None else self.weights[rows].copy()
        # Copies, so that a batch can be forgotten; in its layout, since columns of a design matrix are contiguous.
        return ArrayRows(self.features[rows].copy(order="K"), self.labels[rows].copy(), weights)

    def sample(self, size: int, keys: Callable[[FloatArray], Vector]) -> "ArrayRows":
        if self.n_rows <= size:
            return self
        of_rows = np.empty(self.n_rows)

        def fill(block: Block) -> int:
            of_rows[block.rows] = keys(block.features)
            return 0

        with self.passes(self.n_columns, self.dtype.itemsize) as summed:
            summed(fill)
        return self.take(np.argpartition(of_rows, size)[:size])

    def take(self, rows: NDArray[np.intp], weights: Vector | None = None) -> "ArrayRows":
        """Return the chosen rows, with new ``weights`` for them if given."""
        if weights is None and self.weights is not None:
            weights = self.weights[rows]
        return ArrayRows(self.features[rows], self.labels[rows], weights)

    def storage(self, shape: tuple[int, ...], dtype: Any) -> FloatArray:
        # New memory costs as much as the work in it, so that of discarded expansions is reused.
        wanted = (self.n_rows, *shape)
        for place, array in enumerate(self._spare):
            if array.shape == wanted and array.dtype == dtype:
                return self._spare.pop(place)
        return np.empty(wanted, dtype)

    def recycle(self, array: FloatArray | None) -> None:
        if array is not None:
            self._spare.append(array)


class StreamedRows(FeatureRows):
    """Rows that are read again for every pass, batch by batch; nothing is kept between passes.

    Parameters
    ----------
    read : callable
        Returns an iterator over :class:`ArrayRows`, the same rows every time.
    n_rows, n_columns, total_weight, dtype
        As known from an earlier pass.
    """

    def __init__(
        self,
        read: Callable[[], Iterator[ArrayRows]],
        n_rows: int,
        n_columns: int,
        total_weight: float,
        dtype: Any,
    ) -> None:
        self._read = read
        self.n_rows, self.n_columns, self.total_weight = n_rows, n_columns, total_weight
        self.dtype = np.dtype(dtype)

    @contextmanager
    def passes(
        self, width: int, itemsize: int = 8, min_rows: int = 1
    ) -> Iterator[Callable[[Callable[[Block], State]], State]]:
        def summed(contribution: Callable[[Block], State]) -> State:
            total: Mergeable | None = None
            first = 0
            for batch in self._read():
                if batch.n_rows == 0:
                    continue
                batch.first = first
                first += batch.n_rows
                with batch.passes(width, itemsize, min_rows) as sums:
                    part = sums(contribution)
                total = part if total is None else total + part
            return total  # type: ignore[return-value]

        # For all batches: threads of BLAS that are started again for each of them spend more time waiting than working.
        with one_blas_thread():
            yield summed

    def mapped(
        self,
        features: Callable[[FloatArray], FloatArray] | None = None,
        labels: Callable[[NDArray[Any]], NDArray[Any]] | None = None,
    ) -> "StreamedRows":
        def read() -> Iterator[ArrayRows]:
            return (batch.mapped(features, labels) for batch in self._read())

        some = next(read())
        return StreamedRows(read, self.n_rows, some.n_columns, self.total_weight, some.dtype)

    def chosen(
        self, choose: Callable[[slice, Vector | None], tuple[NDArray[np.intp], Vector | None]]
    ) -> "StreamedRows":
        """Return some of the rows, from a function that is given the place of a batch and its weights.

        The function returns the chosen rows of the batch, counted from its start, and their weights.
        """

        def read() -> Iterator[ArrayRows]:
            start = 0
            for batch in self._read():
                yield batch.take(*choose(slice(start, start + batch.n_rows), batch.weights))
                start += batch.n_rows

        n_rows, total_weight = 0, 0.0
        for batch in read():
            n_rows, total_weight = n_rows + batch.n_rows, total_weight + batch.total_weight
        return StreamedRows(read, n_rows, self.n_columns, total_weight, self.dtype)

    def every(self, stride: int) -> ArrayRows:
        taken, first = [], 0
        for batch in self._read():
            taken.append(batch.every(stride, first))
            first = (first - batch.n_rows) % stride
        return _together(taken)

    def sample(self, size: int, keys: Callable[[FloatArray], Vector]) -> ArrayRows:
        best: ArrayRows | None = None
        for batch in self._read():
            chosen = batch.sample(size, keys)
            best = (chosen if best is None else _together([best, chosen])).sample(size, keys)
        if best is None:
            raise ValueError("there are no rows")
        return best


def _together(parts: list[ArrayRows]) -> ArrayRows:
    weights = [part.weights for part in parts if part.weights is not None]
    return ArrayRows(
        np.concatenate([part.features for part in parts]),
        np.concatenate([part.labels for part in parts]),
        np.concatenate(weights) if weights else None,
    )
