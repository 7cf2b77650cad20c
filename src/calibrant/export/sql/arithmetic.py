"""Arithmetic on terms of SQL, in float64 or rounded to float32 as the NumPy kernels do."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.export.sql.query import LEAST_EXPONENT, STEP, TINY, Query, Term, number, text_of

__all__ = ["ONE", "ZERO", "Arithmetic", "is_place", "maximum", "minimum", "summed", "when"]

ZERO = number(0)
ONE = number(1)


@dataclass(frozen=True)
class Arithmetic:
    """Terms of one float type: each result is rounded to float32 where the NumPy kernels round it.

    Attributes
    ----------
    query : Query
        Where terms that are mentioned more than once get a name.
    kind : {"float32", "float64"}
        Float type of the values.
    casts : bool
        Whether the system has a float32 type to round by.
    underflows : bool
        Whether the system takes a number that is rounded to zero for an error.
    """

    query: Query
    kind: str = "float64"
    casts: bool = True
    underflows: bool = False

    def as_kind(self, kind: str) -> "Arithmetic":
        """Return the arithmetic of another float type."""
        return Arithmetic(self.query, kind, self.casts, self.underflows)

    def rounded(self, term: Term) -> Term:
        """Return a term in the float type."""
        if self.kind == "float64" or not self.casts:
            return term
        if self.underflows:
            term = self.query.named(term)
            return text_of(
                "CASE WHEN ABS({}) < 1.5e-45 THEN 0e0 ELSE CAST(CAST({} AS REAL) AS DOUBLE PRECISION) END",
                term,
                term,
            )
        return text_of("CAST(CAST({} AS REAL) AS DOUBLE PRECISION)", term)

    def number(self, value: Any) -> Term:
        """Return a parameter in the float type."""
        return number(float(np.dtype(self.kind).type(value)))

    def per_column(self, parameter: NDArray[Any], width: int) -> list[Term]:
        """Return a parameter of every column."""
        return [self.number(value) for value in np.broadcast_to(parameter, (width,)).tolist()]

    def add(self, x: Term, y: Term) -> Term:
        if y.text == ZERO.text:
            return x
        return y if x.text == ZERO.text else self.rounded(text_of("({} + {})", x, y))

    def subtract(self, x: Term, y: Term) -> Term:
        return self.rounded(text_of("({} - {})", x, y))

    def multiply(self, x: Term, y: Term) -> Term:
        return x if y.text == ONE.text else self.rounded(text_of("({} * {})", x, y))

    def divide(self, x: Term, y: Term) -> Term:
        return self.rounded(text_of("({} / {})", x, y))

    def exp(self, x: Term) -> Term:
        x = self.query.named(x)
        least = number(LEAST_EXPONENT)
        return self.rounded(text_of("CASE WHEN {} < {} THEN 0e0 ELSE EXP({}) END", x, least, x))

    def log(self, x: Term) -> Term:
        return self.rounded(text_of("LN({})", x))

    def log1p(self, x: Term) -> Term:
        """Return log(1 + x) without loss of digits, after Kahan."""
        x = self.query.named(x)
        u = self.query.named(text_of("(1e0 + {})", x))
        return text_of("CASE WHEN {} = 1e0 THEN {} ELSE LN({}) * {} / ({} - 1e0) END", u, x, u, x, u)

    def total(self, terms: Sequence[Term]) -> Term:
        """Return a sum, added up in pairs: shallow, and with small rounding errors."""
        return self.rounded(summed(terms))

    def above(self, x: Term) -> Term:
        """Return the next float above a term."""
        step, tiny = number(STEP[self.kind]), number(TINY[self.kind])
        return self.rounded(text_of("({} + ABS({}) * {} + {})", x, x, step, tiny))


def summed(terms: Sequence[Term]) -> Term:
    """Return a sum, added up in pairs."""
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return text_of("({} + {})", summed(terms[:half]), summed(terms[half:]))


def when(condition: Term, yes: Term, no: Term) -> Term:
    """Return one of two terms, as a condition says."""
    return text_of("CASE WHEN {} THEN {} ELSE {} END", condition, yes, no)


def is_place(index: Term, place: int) -> Term:
    """Return whether a number is that of a column."""
    return text_of(f"{{}} = {place}", index)


def maximum(x: Term, y: Term) -> Term:
    """Return the larger of two terms."""
    return text_of("GREATEST({}, {})", x, y)


def minimum(x: Term, y: Term) -> Term:
    """Return the smaller of two terms."""
    return text_of("LEAST({}, {})", x, y)
