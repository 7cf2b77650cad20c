"""SQL files: one query after a comment with metadata, and its execution in DuckDB."""

import json
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import calibrant
from calibrant.errors import FileFormatError, MissingExtraError
from calibrant.export.backend import Backend, Exportable
from calibrant.export.sql.query import DIALECTS, quoted_name, sql_of, table_parts, translated

__all__ = ["BACKEND", "read_sql", "run_query"]

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


def _run(path: Path, scores: NDArray[np.floating]) -> NDArray[np.floating]:
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


BACKEND = Backend("SQL", (".sql",), "sql", _write, _run, _metadata, options=("dialect", "table", "keep"))
