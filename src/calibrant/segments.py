"""Segments of rows by side columns: categories, quantiles of numbers, and their crossings."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from calibrant.arrays import AnyArray, Float64Array, IntArray
from calibrant.errors import ParameterError

__all__ = ["Segments", "side_columns"]

MAX_CATEGORIES = 20
"""A column of numbers with more distinct values is cut at its quantiles."""

UNKNOWN = -1
"""Code of a value that did not occur when the segments were made."""


def side_columns(columns: Any, n_rows: int) -> dict[str, AnyArray]:
    """Return side columns as name -> values, (n,), from a data frame or a mapping.

    >>> side_columns({"site": ["east", "west"]}, 2)
    {'site': array(['east', 'west'], dtype='<U4')}
    """
    names = list(columns) if isinstance(columns, Mapping) else list(getattr(columns, "columns", ()))
    if not names:
        raise ParameterError(
            "columns must be a data frame or a mapping of names to arrays with one or more side columns, not "
            f"{type(columns).__name__}."
        )
    values = {str(name): np.asarray(columns[name]) for name in names}
    for name, column in values.items():
        if column.shape != (n_rows,):
            raise ParameterError(
                f"side column {name!r} must have one value per row, but has shape {column.shape} for {n_rows} rows."
            )
    return values


@dataclass(frozen=True, eq=False)
class _Cut:
    """How the values of one column become codes: by categories, or by edges between numbers; missing values come last."""

    column: str
    categories: tuple[str, ...]
    edges: Float64Array | None

    @classmethod
    def of(cls, column: str, values: AnyArray, n_quantiles: int) -> Self:
        known = values[~_missing(values)]
        numbers = _numbers(known)
        if numbers is not None and len(np.unique(numbers)) > MAX_CATEGORIES:
            wanted = np.arange(1, n_quantiles) / n_quantiles
            return cls(column, (), np.unique(np.quantile(numbers, wanted, method="inverted_cdf")))
        return cls(column, tuple(np.unique(known.astype(str)).tolist()), None)

    @property
    def names(self) -> list[str]:
        """Name of every code."""
        if self.edges is None:
            names = [f"{self.column} = {value}" for value in self.categories]
        else:
            names = [
                f"{self.column} <= {self.edges[0]:.6g}",
                *(f"{self.column} = {a:.6g} to {b:.6g}" for a, b in pairwise(self.edges)),
                f"{self.column} > {self.edges[-1]:.6g}",
            ]
        return [*names, f"{self.column} is missing"]

    def codes(self, values: AnyArray) -> IntArray:
        """Return the code of every value, (n,); ``UNKNOWN`` for a new category or for text among numbers."""
        missing = _missing(values)
        codes = np.full(len(values), len(self.names) - 1, dtype=np.intp)
        known = values[~missing]
        if self.edges is None:
            categories = np.array(self.categories, dtype=str)
            words = known.astype(str)
            place = np.minimum(np.searchsorted(categories, words), max(len(categories) - 1, 0))
            found = categories[place] == words if len(categories) else np.zeros(len(words), np.bool_)
            codes[~missing] = np.where(found, place, UNKNOWN)
        else:
            numbers = _numbers(known)
            codes[~missing] = (
                UNKNOWN if numbers is None else np.searchsorted(self.edges, numbers, side="left")
            )
        return codes


def _missing(values: AnyArray) -> NDArray[np.bool_]:
    if values.dtype.kind in "iub":
        return np.zeros(len(values), dtype=np.bool_)
    return np.array([value is None or value != value for value in values.tolist()], dtype=np.bool_)


def _numbers(values: AnyArray) -> Float64Array | None:
    """Return values as numbers; None if they are not, as booleans and text."""
    if values.dtype.kind in "iuf":
        return values.astype(np.float64)
    if values.dtype.kind != "O" or not all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in values.tolist()
    ):
        return None
    return values.astype(np.float64)


@dataclass(frozen=True, eq=False)
class Segments:
    """Segments that side columns define, which can be found again in new rows.

    Examples
    --------
    >>> side = side_columns({"sex": ["f", "m", "f"], "site": ["a", "a", "b"]}, 3)
    >>> segments = Segments.of(side, depth=2, min_rows=1)
    >>> segments.names
    ['sex = f', 'sex = m', 'site = a', 'site = b', 'sex = f and site = a']
    >>> segments.members(side).toarray()[0]
    array([1., 0., 1.])
    """

    cuts: tuple[_Cut, ...]  # how the values of every column become codes
    # For every segment, pairs of a column number and a code that its rows have.
    parts: tuple[tuple[tuple[int, int], ...], ...]
    names: list[str]  # such as "sex = f and age > 60"
    n_left_out: int  # segments with too few rows

    @classmethod
    def of(
        cls, side: Mapping[str, AnyArray], *, depth: int = 1, n_quantiles: int = 4, min_rows: int = 30
    ) -> Self:
        """Return the segments with at least ``min_rows`` rows, of up to ``depth`` columns; one of several with the same rows."""
        cuts = tuple(_Cut.of(name, values, n_quantiles) for name, values in side.items())
        codes = [cut.codes(side[cut.column]) for cut in cuts]
        parts: list[tuple[tuple[int, int], ...]] = []
        seen: set[bytes] = set()
        n_left_out = 0
        for chosen in _crossings(len(cuts), depth):
            shape = tuple(len(cuts[number].names) for number in chosen)
            joint = np.ravel_multi_index(tuple(codes[number] for number in chosen), shape)
            order = np.argsort(joint, kind="stable")
            starts = np.flatnonzero(np.diff(joint[order], prepend=-1))
            for rows in np.split(order, starts[1:]):
                if len(rows) < min_rows:
                    n_left_out += 1
                elif (key := rows.tobytes()) not in seen:
                    seen.add(key)
                    place = np.unravel_index(int(joint[rows[0]]), shape)
                    parts.append(tuple((number, int(k)) for number, k in zip(chosen, place, strict=True)))
        if not parts:
            raise ParameterError(
                f"every segment has fewer than {min_rows} rows; lower min_rows, or pass columns with fewer values."
            )
        names = [" and ".join(cuts[number].names[k] for number, k in part) for part in parts]
        return cls(cuts, tuple(parts), names, n_left_out)

    def at_most(self, n_columns: int, besides: str) -> Self:
        """Return the segments of at most ``n_columns`` columns, not counting one of them."""
        kept = [
            number
            for number, part in enumerate(self.parts)
            if sum(self.cuts[column].column != besides for column, _ in part) <= n_columns
        ]
        parts, names = tuple(self.parts[i] for i in kept), [self.names[i] for i in kept]
        return type(self)(self.cuts, parts, names, self.n_left_out)

    def to_dict(self) -> dict[str, Any]:
        """Return the definitions of the segments as plain data."""
        cuts = [
            {
                "column": cut.column,
                "categories": list(cut.categories),
                "edges": None if cut.edges is None else cut.edges.tolist(),
            }
            for cut in self.cuts
        ]
        return {"cuts": cuts, "parts": self.parts, "n_left_out": self.n_left_out}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Self:
        """Return segments from what :meth:`to_dict` returned."""
        cuts = tuple(
            _Cut(
                str(cut["column"]),
                tuple(map(str, cut["categories"])),
                None if cut["edges"] is None else np.array(cut["edges"], dtype=np.float64),
            )
            for cut in content["cuts"]
        )
        parts = tuple(tuple((int(number), int(k)) for number, k in part) for part in content["parts"])
        names = [" and ".join(cuts[number].names[k] for number, k in part) for part in parts]
        return cls(cuts, parts, names, int(content["n_left_out"]))

    def members(self, side: Mapping[str, AnyArray]) -> csr_matrix:
        """Return the membership of rows in segments, (S, n), ones and zeros."""
        codes = [cut.codes(side[cut.column]) for cut in self.cuts]
        n_rows = len(codes[0])
        rows = [
            np.flatnonzero(np.logical_and.reduce([codes[number] == k for number, k in part]))
            for part in self.parts
        ]
        starts = np.concatenate([[0], np.cumsum([len(each) for each in rows])])
        indices = np.concatenate(rows)
        return csr_matrix((np.ones(len(indices)), indices, starts), shape=(len(rows), n_rows))


def _crossings(n_columns: int, depth: int) -> Iterable[tuple[int, ...]]:
    for size in range(1, min(depth, n_columns) + 1):
        yield from combinations(range(n_columns), size)
