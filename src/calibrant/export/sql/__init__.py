"""SQL exports: a fitted calibrator as one query in several dialects, and its file, which DuckDB runs."""

import json
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import calibrant
from calibrant.errors import ExportError, FileFormatError, MissingExtraError, ParameterError
from calibrant.export.backend import Backend, Exportable
from calibrant.export.sql.operations import terms_of
from calibrant.export.sql.terms import Arithmetic, Query, Term, TermError, number, text_of
from calibrant.options import check_choice
from calibrant.predictions import ROW_SUM_TOLERANCE
from calibrant.space import Space

__all__ = ["BACKEND", "DIALECTS", "Dialect", "quoted_name", "read_sql", "run_query", "sql_of", "table_parts"]


@dataclass(frozen=True)
class Dialect:
    """Properties of a database system that sqlglot does not handle."""

    has_float32: bool = True  # Whether a cast rounds to float32; otherwise values stay float64
    fence: str = ""  # Keyword that prevents the system from merging common table expressions
    most_characters: int = 20_000_000  # Maximum size of a query
    most_columns: int = 1600
    ignores_nulls: bool = True  # Whether GREATEST ignores NULL
    underflows: bool = False  # Whether underflow is an error
    folds_case: bool = True  # Whether names are case-insensitive
    longest_name: int | None = None  # Maximum length of a name in bytes
    forbidden: str = r"\0"  # Characters that names cannot have, as a class of a regular expression


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


FORMAT: Final = "calibrant sql"
VERSION: Final = 1
MAX_BYTES: Final = 2**26
SECONDS: Final = 600.0
"""Time limit for a query from a file."""

# Characters that may have a meaning for tools that split files into statements or fill templates.
MARKS: Final = re.compile(r"[;'`*/$%#&<>?@!|~^=]")

# All tokens of exported queries but quoted names: no strings, no other functions, no other statements.
NAME: Final = re.compile(r'"(?:[^"]|"")*"(?!\s*\()')
WORD: Final = re.compile(
    r"\b(?:WITH|AS|MATERIALIZED|SELECT|FROM|CASE|WHEN|THEN|ELSE|END|AND|CAST|TRY_CAST|NULLIF|DOUBLE|PRECISION|REAL|GREATEST|LEAST|LN|EXP|SQRT|ABS"
    r"|[cxk]\d+|calibrant_stage_\d+|\d+(?:\.\d+)?(?:e-?\d+)?)\b|<=|>=|<>|[-+*/(),.<>=\s]"
)


def _write(exportable: Exportable, path: Path, options: Mapping[str, Any]) -> None:
    dialect, table = options.get("dialect", "duckdb"), options.get("table", "predictions")
    keep = options.get("keep", ())
    query = sql_of(exportable, dialect, table, keep)
    about = {
        "format": FORMAT,
        "version": VERSION,
        "library_version": calibrant.__version__,
        "dialect": dialect,
        "float_type": exportable.dtype.name,
        "space": exportable.graph.space.value,
        "table": table_parts(table),
        "columns": exportable.columns,
        "keep": (keep,) if isinstance(keep, str) else keep,
        "classes": exportable.classes,
    }
    # One line of ASCII, because the end of the line ends the comment.
    line = MARKS.sub(lambda mark: f"\\u{ord(mark.group()):04x}", json.dumps(about))
    path.write_text(f"-- {line}\n{query}\n", encoding="utf-8", newline="\n")


def read_sql(path: Path) -> tuple[dict[str, Any], str]:
    """Return the metadata of an SQL file and its query, without running it.

    Raises
    ------
    FileFormatError
        If the file is not an SQL export.
    """
    with open(path, "rb") as stream:
        content = stream.read(MAX_BYTES + 1)
    first, _, query = content.partition(b"\n")
    try:
        about = json.loads(first.removeprefix(b"-- ")) if first.startswith(b"-- ") else None
        text = query.decode()
    except (ValueError, RecursionError):
        about, text = None, ""
    if len(content) > MAX_BYTES or type(about) is not dict or about.get("format") != FORMAT:
        raise FileFormatError(
            f"{path} is not an SQL file that calibrant wrote: its first line does not say so; pass a file that export wrote."
        )
    names = [about.get(key) for key in ("table", "columns", "keep", "classes")]
    if (
        about.get("version") != VERSION
        or about.get("dialect") not in DIALECTS
        or about.get("float_type") not in ("float32", "float64")
        or about.get("space") not in ("probabilities", "logits")
        or not all(type(own) is list and all(type(name) is str for name in own) for own in names)
        or (len(about["columns"]), len(about["classes"])) not in ((1, 2), (len(about["classes"]),) * 2)
        or not 1 <= len(about["table"]) <= 3
    ):
        raise FileFormatError(
            f"{path} is damaged, or was written by a newer calibrant: its first line is invalid; export the calibrator again."
        )
    return about, text


def _run_file(path: Path, scores: NDArray[np.floating]) -> NDArray[np.floating]:
    about, text = read_sql(path)
    query = text if about["dialect"] == "duckdb" else translated(text, about["dialect"], "duckdb")
    if WORD.sub("", NAME.sub("", query)):
        raise FileFormatError(
            f"{path} is damaged or was edited: it is not a query that calibrant writes; export the calibrator again."
        )
    found = run_query(
        query, scores.astype(about["float_type"]), about["table"], about["columns"], about["keep"]
    )
    return found[:, len(about["keep"]) :].astype(about["float_type"])


def run_query(
    query: str, scores: NDArray[np.floating], table: list[str], columns: list[str], keep: list[str]
) -> NDArray[np.float64]:
    """Return the result of one SELECT over a table of scores in DuckDB, without access to files and network.

    Columns to keep contain the row number. NULL becomes NaN.
    """
    try:
        import duckdb
    except ImportError as error:
        raise MissingExtraError("duckdb", "sql") from error
    statements = duckdb.extract_statements(query)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise ValueError("it must be one SELECT and nothing else")
    connection = duckdb.connect(":memory:", config={"threads": 1, "memory_limit": "4GB"})
    try:
        _fill(connection, scores, table, columns, keep)
        # From here on, the query can reach no file, extension or setting.
        connection.execute("SET enable_external_access = false; SET lock_configuration = true")
        timer = threading.Timer(SECONDS, connection.interrupt)
        timer.start()
        try:
            found = connection.execute(statements[0]).fetchnumpy()
        finally:
            timer.cancel()
    finally:
        connection.close()
    filled = [np.ma.filled(np.ma.asarray(column, dtype=np.float64), np.nan) for column in found.values()]
    return np.column_stack(filled)


def _fill(
    connection: Any, scores: NDArray[np.floating], table: list[str], columns: list[str], keep: list[str]
) -> None:
    parts = [quoted_name(part) for part in table]
    if len(parts) == 3:
        connection.execute(f"ATTACH ':memory:' AS {parts[0]}")
    if len(parts) >= 2:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {'.'.join(parts[:-1])}")
    kind = "FLOAT" if scores.dtype == np.float32 else "DOUBLE"
    defined = [f"{quoted_name(name)} {kind}" for name in columns] + [
        f"{quoted_name(name)} BIGINT" for name in keep
    ]
    connection.execute(f"CREATE TABLE {'.'.join(parts)} ({', '.join(defined)})")
    given = {f"x{place}": np.ascontiguousarray(column) for place, column in enumerate(scores.T)}
    given |= {f"k{place}": np.arange(len(scores)) for place in range(len(keep))}
    connection.register("calibrant_scores", given)
    connection.execute(f"INSERT INTO {'.'.join(parts)} SELECT * FROM calibrant_scores")
    connection.unregister("calibrant_scores")


def _metadata(path: Path) -> Mapping[str, Any]:
    about, _ = read_sql(path)
    return about | {"n_columns": len(about["columns"])}


BACKEND = Backend("SQL", (".sql",), "sql", _write, _run_file, _metadata, options=("dialect", "table", "keep"))
