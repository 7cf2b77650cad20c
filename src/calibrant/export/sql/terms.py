"""SQL terms: expressions over columns, their arithmetic, and the stages of a query that name them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.errors import ExportError

__all__ = [
    "ONE",
    "TINY",
    "ZERO",
    "Arithmetic",
    "Query",
    "Term",
    "TermError",
    "is_place",
    "maximum",
    "minimum",
    "number",
    "summed",
    "text_of",
    "when",
]

# SQLite takes no more than 100 arguments.
MOST_ARGUMENTS = 50

STAGE = "calibrant_stage_"

# What NumPy's nextafter does, by an addition that rounds to one step: between 0.5 and 1.5 of it, whatever the number.
STEP = {"float64": 1.2e-16, "float32": 6.45e-8}
TINY = {"float64": 2.2250738585072014e-308, "float32": 1.1754943508222875e-38}

# Below this, exp is zero; some systems take that for an error.
LEAST_EXPONENT = -745.0


class TermError(ExportError):
    """An operation of a graph cannot be expressed in SQL."""


class Term(NamedTuple):
    """An SQL expression, and the columns that it refers to."""

    text: str
    columns: frozenset[str] = frozenset()
    is_atom: bool = False


def number(value: float) -> Term:
    """Return a literal that every system parses as the same float64: with an exponent, so that it is not a decimal.

    >>> number(0.1).text, number(-3).text
    ('1e-1', '(-3e0)')
    """
    text = repr(float(value))
    if "inf" in text or "nan" in text:
        raise TermError(f"SQL has no portable way to write {text}")
    mantissa, _, exponent = text.partition("e")
    mantissa = mantissa.removesuffix(".0")
    whole, _, fraction = mantissa.partition(".")
    if not exponent and whole in ("0", "-0") and fraction:
        digits = fraction.lstrip("0")
        exponent = str(-(len(fraction) - len(digits)) - 1)
        mantissa = f"{whole.removesuffix('0')}{digits[0]}{'.' if digits[1:] else ''}{digits[1:]}"
    text = f"{mantissa}e{int(exponent or 0)}"
    return Term(f"({text})" if text.startswith("-") else text, is_atom=True)


def text_of(pattern: str, *terms: Term) -> Term:
    """Return a term from a pattern with one pair of braces per argument."""
    return Term(
        pattern.format(*[term.text for term in terms]), frozenset().union(*[term.columns for term in terms])
    )


@dataclass
class Query:
    """A query in stages: each computes columns from those of earlier stages."""

    most_characters: int  # Maximum size of the query
    levels: dict[str, int] = field(default_factory=dict)
    definitions: dict[str, Term] = field(default_factory=dict)
    n_characters: int = 0
    _known: dict[str, str] = field(default_factory=dict)

    def given(self, name: str) -> Term:
        """Return a column that the first stage provides."""
        self.levels[name] = 0
        return Term(name, frozenset([name]), is_atom=True)

    def stored(self, terms: Iterable[Term]) -> list[Term]:
        """Return terms that may be used more than once: names of columns, or numbers."""
        return [self.named(term) for term in terms]

    def named(self, term: Term) -> Term:
        """Return a column for a term, or the term itself if it is a name or a number."""
        if term.is_atom:
            return term
        name = self._known.get(term.text)
        if name is None:
            self.n_characters += len(term.text)
            if self.n_characters > self.most_characters:
                raise TermError(
                    f"it would be a query of more than {self.most_characters:,} characters, since the map has too many "
                    "parameters"
                )
            name = self._known[term.text] = f"c{len(self.levels)}"
            self.levels[name] = 1 + max((self.levels[column] for column in term.columns), default=0)
            self.definitions[name] = term
        return Term(name, frozenset([name]), is_atom=True)

    def largest(self, terms: Sequence[Term]) -> Term:
        """Return the largest of some terms."""
        return _nested("GREATEST", terms)

    def smallest(self, terms: Sequence[Term]) -> Term:
        """Return the smallest of some terms."""
        return _nested("LEAST", terms)

    def argmax(self, terms: Sequence[Term]) -> tuple[Term, Term]:
        """Return the number of the first of the largest terms, and the largest."""
        terms = self.stored(terms)
        top = self.named(self.largest(terms))
        return self.first([text_of("{} = {}", term, top) for term in terms]), top

    def first(self, conditions: Sequence[Term]) -> Term:
        """Return the number of the first condition that holds."""
        cases = " ".join(f"WHEN {condition.text} THEN {place}" for place, condition in enumerate(conditions))
        columns = frozenset().union(*[condition.columns for condition in conditions])
        return self.named(Term(f"CASE {cases} END", columns))

    def stages(self, source: str, first: Sequence[str], last: Sequence[Term], fence: str) -> tuple[str, str]:
        """Return the common table expressions that end with all columns of some terms, and the name of the last one.

        ``first`` are the columns of the first stage, ``last`` the terms that the query selects. ``fence`` is a keyword that
        prevents merging of stages, such as MATERIALIZED; merged stages grow without bound.
        """
        final = 1 + max((self.levels[column] for term in last for column in term.columns), default=0)
        last_use = {column: final for term in last for column in term.columns}
        # From the end, so that unused columns are omitted.
        for name in sorted(self.definitions, key=lambda name: -self.levels[name]):
            if name in last_use:
                for column in self.definitions[name].columns:
                    last_use[column] = max(last_use.get(column, 0), self.levels[name])
        stages = [f"{STAGE}0 AS {fence}(SELECT {', '.join(first)} FROM {source})"]
        for level in range(1, final):
            carried = [name for name, end in last_use.items() if self.levels[name] < level < end]
            made = [
                f"{term.text} AS {name}"
                for name, term in self.definitions.items()
                if self.levels[name] == level and name in last_use
            ]
            columns = ", ".join([*sorted(carried, key=_place), *made])
            stages.append(f"{STAGE}{level} AS {fence}(SELECT {columns} FROM {STAGE}{level - 1})")
        return ",\n".join(stages), f"{STAGE}{final - 1}"

    @property
    def widest(self) -> int:
        """Largest number of columns that one stage defines."""
        counts: dict[int, int] = {}
        for level in self.levels.values():
            counts[level] = counts.get(level, 0) + 1
        return max(counts.values(), default=0)


def _place(name: str) -> tuple[str, int]:
    return name[0], int(name[1:])


def _nested(function: str, terms: Sequence[Term]) -> Term:
    if len(terms) == 1:
        return terms[0]
    parts = list(terms)
    while len(parts) > 1:
        groups = [parts[start : start + MOST_ARGUMENTS] for start in range(0, len(parts), MOST_ARGUMENTS)]
        parts = [
            group[0]
            if len(group) == 1
            else Term(
                f"{function}({', '.join(term.text for term in group)})",
                frozenset().union(*[term.columns for term in group]),
            )
            for group in groups
        ]
    return parts[0]


ZERO = number(0)
ONE = number(1)


@dataclass(frozen=True)
class Arithmetic:
    """Terms of one float type: each result is rounded to float32 where the NumPy kernels round it."""

    query: Query  # Query in which terms that are used more than once are named
    kind: str = "float64"  # Float type of the values
    casts: bool = True  # Whether the system can round to float32
    underflows: bool = False  # Whether underflow is an error in the system
    given: str = "float64"  # Float type of the first argument, in which knots are compared

    def as_kind(self, kind: str, given: str = "float64") -> "Arithmetic":
        """Return the arithmetic of another float type."""
        return Arithmetic(self.query, kind, self.casts, self.underflows, given)

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
        """Return a pairwise sum, which is shallow and has small rounding errors."""
        return self.rounded(summed(terms))

    def above(self, x: Term) -> Term:
        """Return the next float above a term."""
        step, tiny = number(STEP[self.kind]), number(TINY[self.kind])
        return self.rounded(text_of("({} + ABS({}) * {} + {})", x, x, step, tiny))


def summed(terms: Sequence[Term]) -> Term:
    """Return a pairwise sum."""
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return text_of("({} + {})", summed(terms[:half]), summed(terms[half:]))


def when(condition: Term, yes: Term, no: Term) -> Term:
    """Return one of two terms, depending on a condition."""
    return text_of("CASE WHEN {} THEN {} ELSE {} END", condition, yes, no)


def is_place(index: Term, place: int) -> Term:
    """Return whether an index is that of a given column."""
    return text_of(f"{{}} = {place}", index)


def maximum(x: Term, y: Term) -> Term:
    """Return the larger of two terms."""
    return text_of("GREATEST({}, {})", x, y)


def minimum(x: Term, y: Term) -> Term:
    """Return the smaller of two terms."""
    return text_of("LEAST({}, {})", x, y)
