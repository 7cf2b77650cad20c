"""SQL: every method in DuckDB, most in Spark, some in SQLite, all dialects by their parsers, and names that try to escape."""

import os
import sqlite3
from dataclasses import replace

import numpy as np
import pytest
from export_cases import FLOATS, WITH_GRAPH, assert_same, cases
from hypothesis import given, settings
from hypothesis import strategies as st
from methods import fitted, problem

from calibrant import TemperatureScaling
from calibrant.errors import ExportError, FileFormatError, ParameterError
from calibrant.export import export, exportable, verify
from calibrant.export.sql import DIALECTS, read_sql, run_query, sql_of
from calibrant.export.sql.operations import EMITTERS
from calibrant.graph import OPERATIONS, MapGraph, Node
from calibrant.graph.rows import Normalise

duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed: pip install 'calibrant[sql]'")
sqlglot = pytest.importorskip("sqlglot", reason="sqlglot is not installed: pip install 'calibrant[sql]'")

# Curves of a Gaussian process have thousands of cubic segments per class.
TOO_LARGE = {("gp", 100)}

# No slower method than these in the fast part.
LARGE = {"gp"}


def in_duckdb(case):
    content = case.exportable
    return run_query(sql_of(content), case.rows, ["predictions"], list(content.columns), [])


def compare(some):
    for case in some:
        if (case.name, case.exportable.graph.n_columns) in TOO_LARGE:
            with pytest.raises(
                ExportError, match=r"more than 20,000,000 characters.*export it to .onnx or .json"
            ):
                sql_of(case.exportable)
            continue
        assert_same(case, in_duckdb(case))


def test_every_method_in_duckdb():
    """Large queries, and most in single precision, are left to the complete grid."""
    compare(case for case in cases(3, floats=["float64"]) if case.name not in LARGE)
    compare(cases(3, ["temperature", "dirichlet", "isotonic", "iop", "spline"], floats=["float32"]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::calibrant.errors.ConvergenceWarning")  # of matrices for 320 rows
@pytest.mark.parametrize(
    ("n_classes", "absent"), [(2, False), (3, False), (4, True), (10, False), (100, False)]
)
def test_every_method_in_duckdb_for_all_numbers_of_classes(n_classes, absent):
    compare(cases(n_classes, absent=absent))


def test_sql_knows_all_operations():
    assert set(EMITTERS) >= set(OPERATIONS) - {"opaque"}


def test_float32_is_rounded_where_the_library_rounds():
    """Logits near 800 lose digits in float32 when they are scaled, which float64 would not show."""
    calibrator = TemperatureScaling().fit([[0.9, 0.1]] * 4, [0, 0, 0, 1])
    content = exportable(calibrator, dtype="float32", space="logits")
    rows = np.array([[800.1, 799.6], [801.3, 800.2]], np.float32)
    found = run_query(sql_of(content), rows, ["predictions"], list(content.columns), [])
    np.testing.assert_allclose(found, content.graph(rows), rtol=0, atol=1e-7)


@pytest.mark.parametrize("dialect", sorted(set(DIALECTS) - {"duckdb"}))
def test_other_dialects_are_what_their_parsers_understand(dialect):
    """Each one, read by the parser of its dialect and run in DuckDB, gives the same numbers."""
    names = ["temperature", "dirichlet", "isotonic", "iop", "top-label-binning"]
    for case in cases(3, names, floats=FLOATS if dialect == "postgres" else ["float64"]):
        text = sql_of(case.exportable, dialect)
        columns = list(case.exportable.columns)
        again = sqlglot.transpile(text, read=dialect, write="duckdb")
        assert len(again) == 1
        assert_same(case, run_query(again[0], case.rows, ["predictions"], columns, []))


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
def test_sqlite_runs_every_method(n_classes):
    run_in_sqlite(cases(n_classes, floats=["float64"]))


def test_sqlite_runs_methods_of_all_kinds():
    names = ["temperature", "dirichlet", "beta", "isotonic", "bbq", "iop", "spline", "top-label-binning"]
    run_in_sqlite(cases(2, names, floats=["float64"]))


def run_in_sqlite(chosen):
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("SELECT EXP(1.0), LN(2.0)")
    except sqlite3.OperationalError:
        pytest.skip("this SQLite was built without mathematical functions")
    for case in chosen:
        if case.name in LARGE:
            continue
        connection.execute("DROP TABLE IF EXISTS predictions")
        names = ", ".join(f'"{name}" REAL' for name in case.exportable.columns)
        connection.execute(f"CREATE TABLE predictions ({names})")
        places = ", ".join("?" * len(case.exportable.columns))
        connection.executemany(f"INSERT INTO predictions VALUES ({places})", case.rows.tolist())
        found = connection.execute(sql_of(case.exportable, "sqlite")).fetchall()
        assert_same(case, np.array(found))
    connection.close()


@pytest.mark.slow
def test_methods_in_spark(tmp_path):
    """All but the two with the longest queries, some in single precision too."""
    pyspark = pytest.importorskip("pyspark.sql", reason="pyspark is not installed: pip install pyspark")
    try:
        session = (
            pyspark.SparkSession.builder.master("local[1]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.warehouse.dir", str(tmp_path))
            .getOrCreate()
        )
    except Exception as error:
        pytest.skip(f"Spark does not start, which needs Java 17: {type(error).__name__}")
    names = ["temperature", "dirichlet", "isotonic", "beta", "ets", "top-label-binning", "iop-diagonal"]
    others = set(WITH_GRAPH) - {*names, *LARGE, "forest"}
    try:
        for case in (*cases(3, names), *cases(3, sorted(others), floats=["float64"])):
            rows = [tuple(map(float, row)) for row in case.rows.astype(np.float64)]
            frame = session.createDataFrame(rows, list(case.exportable.columns)).coalesce(1)
            frame.createOrReplaceTempView("predictions")
            found = session.sql(sql_of(case.exportable, "spark")).collect()
            assert_same(case, np.array(found))
    finally:
        session.stop()


@pytest.mark.parametrize("kind", FLOATS)
def test_no_row_takes_the_logarithm_of_zero(kind):
    """Postgres refuses it, also where the result is not used."""
    strict = "CREATE MACRO strict(x) AS CASE WHEN x <= 0 THEN error('logarithm of zero') ELSE ln(x) END"
    for case in cases(3, ["dirichlet", "ets", "beta"], floats=[kind]):
        connection = duckdb.connect()
        connection.execute(strict)
        names = ", ".join(f'"{name}" DOUBLE' for name in case.exportable.columns)
        connection.execute(f"CREATE TABLE predictions ({names})")
        connection.executemany("INSERT INTO predictions VALUES (?, ?, ?)", case.rows.astype(float).tolist())
        text = sql_of(case.exportable, "postgres").replace("LN(", "strict(")
        assert_same(case, np.array(connection.execute(text).fetchall()))


@pytest.mark.slow
def test_methods_in_postgres():
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'psycopg[binary]'")
    address = os.environ.get("CALIBRANT_POSTGRES")
    if address is None:
        pytest.skip("set CALIBRANT_POSTGRES to a connection string, such as 'dbname=test'")
    with psycopg.connect(address) as connection:
        for case in cases(3, sorted(set(WITH_GRAPH) - LARGE)):
            columns = case.exportable.columns
            names = ", ".join(f'"{name}" double precision' for name in columns)
            connection.execute("DROP TABLE IF EXISTS predictions")
            connection.execute(f"CREATE TEMPORARY TABLE predictions ({names})")
            with connection.cursor() as cursor:
                places = ", ".join(["%s"] * len(columns))
                rows = case.rows.astype(np.float64).tolist()
                cursor.executemany(f"INSERT INTO predictions VALUES ({places})", rows)
            found = connection.execute(sql_of(case.exportable, "postgres")).fetchall()
            assert_same(case, np.array(found))


# Names

HOSTILE = [
    'a"b', "a'b", "a;b", 'x"; DROP TABLE predictions; --', "a`b", "a\\", 'a\\"', "a\nb", "a\r\n--b", "/* a", "*/ a", "-- a",
    "ünï ☃", "{{ a }}", "$1", "%s", "a.b", " ", "SELECT", "x0", "calibrant_stage_0", "\u202eabc", "[a]", "a\tb",
]  # fmt: skip


def two_names(first, second, dialect="duckdb"):
    content = exportable(TemperatureScaling().fit([[0.9, 0.1]] * 4, [0, 0, 0, 1]))
    named = replace(content, classes=(first, second), columns=(f"p{first}", f"p{second}"))
    return named, sql_of(named, dialect, table=first or "t", keep=[f"k{second}"])


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_names_in_duckdb(name):
    content, text = two_names(name, "other")
    statements = duckdb.extract_statements(text)
    assert len(statements) == 1
    rows = np.array([[0.9, 0.1], [0.3, 0.7]])
    found = run_query(text, rows, [name], list(content.columns), ["kother"])
    np.testing.assert_allclose(found[:, 1:], content.graph(rows), atol=1e-15)
    connection = duckdb.connect()
    quoted = ", ".join(
        '"' + column.replace('"', '""') + '" DOUBLE' for column in (*content.columns, "kother")
    )
    table = '"' + name.replace('"', '""') + '"'
    connection.execute(f"CREATE TABLE {table} ({quoted})")
    described = connection.execute(text).description
    assert [column[0] for column in described] == ["kother", name, "other"]


@pytest.mark.parametrize("dialect", sorted(set(DIALECTS) - {"duckdb"}))
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_names_in_other_dialects_or_refused(name, dialect):
    try:
        content, text = two_names(name, "other", dialect)
    except ExportError:
        assert dialect == "bigquery"
        return
    assert_only_names(text, content, name, dialect)


def assert_only_names(text, content, table, dialect):
    """One SELECT, whose columns and tables are the given ones and our own."""
    (tree,) = sqlglot.parse(text, read=dialect)
    assert isinstance(tree, sqlglot.exp.Select)
    assert tree.named_selects == ["kother", *content.classes]
    tables = {found.name for found in tree.find_all(sqlglot.exp.Table)}
    assert {found for found in tables if not found.startswith("calibrant_stage_")} <= {table}
    first = next(tree.find_all(sqlglot.exp.CTE))
    mentioned = [found.name for found in first.find_all(sqlglot.exp.Column)]
    assert sorted(mentioned) == sorted([*content.columns, "kother"])


@given(
    name=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20),
    dialect=st.sampled_from(["postgres", "spark", "snowflake", "sqlite"]),
)
@settings(max_examples=60, deadline=None)
def test_no_text_escapes_from_a_name(name, dialect):
    try:
        content, text = two_names(name, "other", dialect)
    except ExportError:
        # Such as a class called like the other one.
        assert name.lower() in ("other", "kother") or len(name.encode()) > 60
        return
    assert_only_names(text, content, name, dialect)


@pytest.mark.parametrize("name", HOSTILE)
def test_the_comment_of_a_file_is_one_line_that_no_tool_splits(name, tmp_path):
    calibrator = TemperatureScaling().fit([[0.9, 0.1]] * 4, [0, 0, 0, 1])
    path = tmp_path / "x.sql"
    export(calibrator, path, columns=[name, "other"], table=name)
    first = path.read_bytes().split(b"\n")[0]
    assert first.startswith(b"-- {")
    assert not set(first[3:]) & set(b";'`*/$%#\r\0")
    assert first.isascii()
    about, _ = read_sql(path)
    assert about["columns"] == [name, "other"]
    assert about["table"] == [name]


@pytest.mark.parametrize(
    ("name", "dialect"), [("", "duckdb"), ("a\0b", "duckdb"), ("\ud800", "duckdb"), ("x" * 64, "postgres")]
)
def test_names_that_cannot_be_are_refused(name, dialect):
    with pytest.raises(ExportError, match="cannot be a name of a column or table"):
        two_names(name, "other", dialect)


def test_names_that_differ_in_case_only():
    """DuckDB takes them for one; Postgres does not."""
    with pytest.raises(ExportError, match="two columns would be called 'pAb'"):
        two_names("Ab", "aB")
    two_names("Ab", "aB", "postgres")


# Rows that are no scores


def test_rows_that_are_no_scores_give_null():
    content = exportable(fitted("isotonic", 3))
    rows = np.array(
        [[0.2, 0.3, 0.5], [np.nan, 0.5, 0.5], [0.5, 0.5, 0.5], [1.5, -0.5, 0.0], [np.inf, 0.0, 0.0]]
    )
    found = run_query(sql_of(content), rows, ["predictions"], list(content.columns), [])
    assert np.isfinite(found[0]).all()
    assert np.isnan(found[1:]).all()


def test_null_gives_null():
    content = exportable(fitted("isotonic", 3), space="logits")
    connection = duckdb.connect()
    connection.execute("CREATE TABLE predictions AS SELECT NULL::DOUBLE z_0, 1.0::DOUBLE z_1, 2 AS z_2")
    assert connection.execute(sql_of(content)).fetchall() == [(None, None, None)]


# Files


def test_a_file_says_what_it_is_and_is_checked(tmp_path):
    path = tmp_path / "x.sql"
    parity = export(fitted("beta", 3), path, dialect="postgres", keep="id", table=["scores", "today"])
    assert parity.holds
    assert parity.largest_difference < 1e-14
    about, text = read_sql(path)
    assert about["dialect"] == "postgres"
    assert 'FROM "scores"."today"' in text
    assert verify(path, fitted("beta", 3)).holds
    with pytest.raises(ExportError, match="differs from the calibrator"):
        verify(path, fitted("temperature", 3))


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_files_of_every_dialect_are_checked(tmp_path, dialect, dtype):
    for name in ("iop", "spline-top-label", "beta"):
        path = tmp_path / f"{name}.sql"
        assert export(fitted(name, 3), path, dialect=dialect, dtype=dtype).holds


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE predictions",
        "SELECT 1; SELECT 2",
        "COPY predictions TO 'stolen.csv'",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT content FROM read_text('/etc/hostname')",
        "INSTALL httpfs",
        'SELECT "read_text"("x0") FROM "predictions"',
        'SELECT 1 AS c0 /* */ FROM "predictions"',
        "SELECT pg_sleep(1) AS c0",
        "PRAGMA database_list",
        "SELECT x FROM nothing",
        "SELEC",
        "",
    ],
)
def test_hostile_queries_are_refused_in_one_sentence(tmp_path, statement):
    path = tmp_path / "x.sql"
    calibrator = fitted("temperature", 3)
    export(calibrator, path)
    first = path.read_text().split("\n")[0]
    path.write_text(f"{first}\n{statement}")
    with pytest.raises((FileFormatError, ExportError)) as caught:
        verify(path, calibrator)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "stolen.csv").exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SELECT 1",
        "-- {}",
        "-- {",
        '-- {"format": "calibrant sql"}',
        '-- {"format": "calibrant sql", "version": 9}',
    ],
)
def test_other_files_are_refused(tmp_path, text):
    path = tmp_path / "x.sql"
    path.write_text(text)
    with pytest.raises(FileFormatError, match="first line"):
        read_sql(path)


# What SQL cannot express


def test_an_iteration_is_refused_with_alternatives():
    content = exportable(fitted("temperature", 2))
    nodes = (*content.graph.nodes, Node(Normalise("shift"), (len(content.graph.nodes), 0)))
    graph = MapGraph(2, nodes)
    with pytest.raises(ExportError, match=r"by an iteration .*; export it to .onnx or .json instead\.$"):
        sql_of(replace(content, graph=graph))


def test_projection_is_a_query():
    from calibrant import IsotonicCalibration, OneVsRest

    calibrator = OneVsRest(IsotonicCalibration(), normalisation="project").fit(*problem(3))
    content = exportable(calibrator)
    rows = problem(3, seed=1).probabilities
    found = run_query(sql_of(content), rows, ["predictions"], list(content.columns), [])
    np.testing.assert_allclose(found, calibrator.predict_proba(rows), rtol=0, atol=1e-14)


def test_options_are_checked(tmp_path):
    calibrator = fitted("temperature", 2)
    with pytest.raises(ParameterError, match="dialect"):
        export(calibrator, tmp_path / "x.sql", dialect="oracle")
    with pytest.raises(ParameterError, match="keep must be a list"):
        export(calibrator, tmp_path / "x.sql", keep=[1])
    with pytest.raises(ParameterError, match="table must be a name"):
        export(calibrator, tmp_path / "x.sql", table=[])
    assert not list(tmp_path.iterdir())
