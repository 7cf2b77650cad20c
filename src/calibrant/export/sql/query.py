"""SQL queries: names, stages and dialects."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from calibrant.errors import ExportError, MissingExtraError, ParameterError
from calibrant.export.backend import Exportable
from calibrant.export.sql.operations import terms_of
from calibrant.export.sql.terms import Arithmetic, Query, Term, TermError, number, text_of
from calibrant.options import check_choice
from calibrant.predictions import ROW_SUM_TOLERANCE
from calibrant.space import Space

__all__ = ["DIALECTS", "Dialect", "quoted_name", "sql_of", "table_parts"]


@dataclass(frozen=True)
class Dialect:
    """Properties of a database system that sqlglot does not handle.

    Attributes
    ----------
    has_float32 : bool
        Whether a cast rounds to float32; otherwise values stay float64.
    fence : str
        Keyword that prevents the system from merging common table expressions.
    most_characters, most_columns : int
        Maximum size of a query.
    ignores_nulls : bool
        Whether GREATEST ignores NULL.
    underflows : bool
        Whether underflow is an error.
    folds_case : bool
        Whether names are case-insensitive.
    longest_name : int or None
        Maximum length of a name in bytes.
    forbidden : str
        Characters that names cannot have, as a class of a regular expression.
    """

    has_float32: bool = True
    fence: str = ""
    most_characters: int = 20_000_000
    most_columns: int = 1600
    ignores_nulls: bool = True
    underflows: bool = False
    folds_case: bool = True
    longest_name: int | None = None
    forbidden: str = r"\0"


DIALECTS: Final[dict[str, Dialect]] = {
    "duckdb": Dialect(most_columns=20_000),
    "postgres": Dialect(fence="MATERIALIZED ", underflows=True, folds_case=False, longest_name=63),
    "spark": Dialect(most_characters=4_000_000),
    "bigquery": Dialect(
        has_float32=False,
        most_characters=1_000_000,
        ignores_nulls=False,
        longest_name=300,
        forbidden=r"\0-\x1f!\"$()*,./;?@\[\\\]^`{}~",
    ),
    "snowflake": Dialect(
        has_float32=False, most_characters=1_000_000, ignores_nulls=False, folds_case=False, longest_name=255
    ),
    "sqlite": Dialect(has_float32=False, fence="MATERIALIZED ", ignores_nulls=False),
}
"""Systems by their names in sqlglot."""

ALTERNATIVES = "export it to .onnx or .json instead"


def sql_of(
    exportable: Exportable,
    dialect: str = "duckdb",
    table: str | Sequence[str] = "predictions",
    keep: str | Sequence[str] = (),
) -> str:
    """Return a query that computes calibrated probabilities, one column per class.

    Parameters
    ----------
    exportable : Exportable
        Graph, names and float type.
    dialect : str, default="duckdb"
        One of ``DIALECTS``.
    table : str or sequence of str, default="predictions"
        Table of the scores; schema and table as two names.
    keep : str or sequence of str
        Other columns of the table to select, such as a key.

    Raises
    ------
    ExportError
        If the map cannot be a query, or a name cannot be one in the dialect.
    MissingExtraError
        If sqlglot is not installed and the dialect is another than DuckDB's.
    """
    check_choice("dialect", dialect, tuple(DIALECTS))
    system = DIALECTS[dialect]
    parts = table_parts(table)
    if not isinstance(keep, Iterable) or not all(isinstance(name, str) for name in keep):
        raise ParameterError(f"keep must be a list of names of columns, not {keep!r}.")
    keep = (keep,) if isinstance(keep, str) else tuple(keep)
    for names in ((*exportable.columns, *keep), (*keep, *exportable.classes), parts):
        _check_names(names, dialect, unique=names is not parts)
    try:
        text = _canonical(exportable, system, parts, keep)
    except TermError as error:
        raise ExportError(
            f"this calibrator cannot be exported to {dialect}, because {error}; {ALTERNATIVES}."
        ) from None
    except RecursionError:
        raise ExportError(
            f"this calibrator cannot be exported to {dialect}, because its terms are nested too deeply; {ALTERNATIVES}."
        ) from None
    if dialect == "duckdb":
        return text
    written = translated(text, "postgres", dialect)
    for name in (*exportable.columns, *keep, *exportable.classes, *parts):
        _check_rendering(name, dialect)
    return written


def _canonical(exportable: Exportable, system: Dialect, parts: Sequence[str], keep: Sequence[str]) -> str:
    """Return the query in the common subset of DuckDB and Postgres."""
    graph, kind = exportable.graph, exportable.dtype.name
    query = Query(system.most_characters)
    arithmetic = Arithmetic(query, kind, system.has_float32, system.underflows)
    raw = [query.given(f"x{column}") for column in range(graph.n_columns)]
    kept = [query.given(f"k{place}") for place in range(len(keep))]
    valid = query.named(_validity(raw, graph.space))
    # Invalid rows are replaced, so that they raise no error in between, and give NULL in the end.
    safe = number(1 / graph.n_outputs if graph.space is Space.PROBABILITIES else 0)
    inputs = [
        arithmetic.rounded(text_of("CASE WHEN {} = 1 THEN {} ELSE {} END", valid, x, safe)) for x in raw
    ]
    outputs = terms_of(graph, inputs, arithmetic)
    if query.widest + len(keep) > system.most_columns:
        raise TermError(
            f"it would have {query.widest:,} columns at once, and {system.most_columns:,} are possible"
        )
    results = [text_of("CASE WHEN {} = 1 THEN {} END", valid, output) for output in outputs]
    given = [
        f"CAST({quoted_name(name)} AS DOUBLE PRECISION) AS {x.text}"
        for name, x in zip(exportable.columns, raw, strict=True)
    ]
    given += [f"{quoted_name(name)} AS {k.text}" for name, k in zip(keep, kept, strict=True)]
    stages, last = query.stages(".".join(map(quoted_name, parts)), given, [*kept, *results], system.fence)
    chosen = [
        f"{term.text} AS {quoted_name(name)}"
        for term, name in zip([*kept, *results], [*keep, *exportable.classes], strict=True)
    ]
    text = f"WITH {stages}\nSELECT {', '.join(chosen)}\nFROM {last}"
    if len(text) > system.most_characters:
        raise TermError(
            f"it would be a query of {len(text):,} characters, and {system.most_characters:,} are possible"
        )
    return text


def _validity(raw: Sequence[Term], space: Space) -> Term:
    """Return 1 for rows that the library accepts, and 0 for all others, such as those with NULL or NaN."""
    if space is Space.PROBABILITIES:
        conditions = [text_of("{} >= 0e0", x) for x in raw]
        total = Arithmetic(Query(0)).total(raw)
        conditions.append(
            text_of("{} <= 1e0", total)
            if len(raw) == 1
            else text_of("ABS({} - 1e0) <= {}", total, number(ROW_SUM_TOLERANCE))
        )
    else:
        conditions = [text_of("ABS({}) <= 1.7e308", x) for x in raw]
    columns = frozenset().union(*[condition.columns for condition in conditions])
    return Term(f"CASE WHEN {' AND '.join(each.text for each in conditions)} THEN 1 ELSE 0 END", columns)


def quoted_name(name: str) -> str:
    """Return a name as a quoted identifier of standard SQL, in which only the quote needs an escape.

    >>> print(quoted_name('a"; DROP TABLE b; --'))
    "a""; DROP TABLE b; --"
    """
    return '"' + name.replace('"', '""') + '"'


def table_parts(table: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of schema and table."""
    parts = (table,) if isinstance(table, str) else tuple(table)
    if not 1 <= len(parts) <= 3 or not all(isinstance(part, str) and part for part in parts):
        raise ParameterError(
            f"table must be a name, or up to three names such as schema and table, not {table!r}."
        )
    return parts


def translated(text: str, read: str, write: str) -> str:
    """Return a query in another dialect."""
    try:
        import sqlglot
        from sqlglot import expressions
    except ImportError as error:
        raise MissingExtraError("sqlglot", "sql") from error
    tree = sqlglot.parse_one(text, read=read)
    # No NULL reaches these functions, so its treatment need not be translated.
    ignores = write not in DIALECTS or DIALECTS[write].ignores_nulls
    for node in tree.find_all(expressions.Greatest, expressions.Least):
        node.set("ignore_nulls", ignores)
    return str(tree.sql(dialect=write, comments=False))


def _check_names(names: Sequence[str], dialect: str, unique: bool) -> None:
    system = DIALECTS[dialect]
    for name in names:
        try:
            size = len(name.encode())
        except UnicodeEncodeError:
            size = 0
        forbidden = re.search(f"[{system.forbidden}]", name)
        if size == 0 or forbidden or (system.longest_name is not None and size > system.longest_name):
            raise ExportError(
                f"{name[:60]!r} cannot be a name of a column or table of {dialect}; rename the class, or pass columns= "
                "with other names."
            )
    known = [name.lower() if system.folds_case else name for name in names]
    if unique and len(set(known)) < len(known):
        twice = next(name for name, own in zip(names, known, strict=True) if known.count(own) > 1)
        raise ExportError(
            f"two columns would be called {twice[:60]!r} in {dialect}; pass other names in columns= or keep=, or rename "
            "the class."
        )


def _check_rendering(name: str, dialect: str) -> None:
    """Raise an error for a name that the parser of the dialect would not return unchanged."""
    import sqlglot
    from sqlglot import expressions

    text = f"SELECT 1 AS {expressions.to_identifier(name, quoted=True).sql(dialect=dialect)}"
    found: list[Any] = sqlglot.parse(text, read=dialect)
    if len(found) != 1 or len(found[0].expressions) != 1 or found[0].expressions[0].alias != name:
        raise ExportError(f"{name[:60]!r} cannot be quoted in {dialect}; rename the class or the column.")
