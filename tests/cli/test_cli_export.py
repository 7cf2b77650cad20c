"""``calibrant export`` and ``calibrant verify``."""

# ruff: noqa: F811 (fixtures are imported, since a second file of fixtures would confuse the doctests)

import numpy as np
import pytest
from animal_files import COLUMNS, folder, run  # noqa: F401

from calibrant import load

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'calibrant[onnx]'")


@pytest.fixture
def saved(run):
    run(f"fit val.csv {COLUMNS} --method temperature -o calibrator.npz")
    run(f"fit test.csv {COLUMNS} --method temperature -o other.npz")


def test_export_and_verify(run, folder, saved):
    said = run("export calibrator.npz -o calibrator.onnx").stderr
    assert said.startswith("Wrote calibrator.onnx (ONNX); largest difference")
    said = run("verify calibrator.onnx --against calibrator.npz").stderr
    assert "computes what calibrator.npz does; largest difference" in said
    assert "same predicted classes" in said


def test_verify_ends_with_a_code_and_one_sentence(run, folder, saved):
    run("export calibrator.npz -o calibrator.onnx --dtype float64 --space logits")
    run("verify calibrator.onnx --against calibrator.npz")
    assert "differs from the calibrator" in run("verify calibrator.onnx --against other.npz", 1).stderr
    (folder / "calibrator.onnx").write_bytes(b"\x00" * 50)
    assert "is damaged" in run("verify calibrator.onnx --against calibrator.npz", 1).stderr
    assert "absent.onnx: no such file" in run("verify absent.onnx --against calibrator.npz", 1).stderr
    assert "absent.npz: no such file" in run("verify calibrator.onnx --against absent.npz", 1).stderr
    assert "absent.npz: no such file" in run("export absent.npz -o absent.onnx", 1).stderr


def test_names_of_a_query(run, folder, saved):
    """A name may have commas, so that every name is an option of its own."""
    pytest.importorskip("duckdb", reason="duckdb is not installed: pip install 'calibrant[sql]'")
    names = "--column a --column b --column c,d --keep id --keep the,day --table main --table scores"
    said = run(f"export calibrator.npz -o calibrator.sql {names}").stderr
    assert said.startswith("Wrote calibrator.sql (SQL); largest difference")
    query = (folder / "calibrator.sql").read_text()
    for name in ('"a"', '"b"', '"c,d"', '"id"', '"the,day"', '"main"."scores"'):
        assert name in query
    run("verify calibrator.sql --against calibrator.npz")
    run("export calibrator.npz -o spark.sql --dialect spark")
    assert "`p_" in (folder / "spark.sql").read_text()


def test_the_only_column_of_the_fit_is_that_of_the_export(run, folder):
    """Two classes: the score of the second one, in a table with other numbers."""
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed: pip install 'calibrant[sql]'")
    generator = np.random.default_rng(0)
    p, others, chances = generator.uniform(size=(3, 300))
    rows = zip(range(300), p.tolist(), others.tolist(), (chances < p**2).astype(int), strict=True)
    lines = ["id,score,other,fraud", *(",".join(map(str, row)) for row in rows)]
    (folder / "events.csv").write_text("\n".join(lines) + "\n")
    run("fit events.csv --label fraud --space probabilities --columns score --method beta -o beta.npz")
    run("export beta.npz -o beta.sql --table events --keep id")
    run("verify beta.sql --against beta.npz")
    run("apply events.csv --calibrator beta.npz -o calibrated.csv --space probabilities")
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE events AS FROM '{folder / 'events.csv'}'")
    found = connection.execute((folder / "beta.sql").read_text()).fetchnumpy()
    applied = connection.execute(f"SELECT score FROM '{folder / 'calibrated.csv'}'").fetchnumpy()
    expected = load(folder / "beta.npz").predict_proba(p)[:, 1]
    np.testing.assert_allclose(found["1"], expected, atol=1e-12)
    np.testing.assert_allclose(applied["score"], expected, atol=1e-12)


def test_what_cannot_be_exported(run, folder, saved):
    assert "is no export format" in run("export calibrator.npz -o calibrator.txt", 1).stderr
    assert "ONNX has no option 'keep'" in run("export calibrator.npz -o x.onnx --keep id", 1).stderr
    assert "columns must be" in run("export calibrator.npz -o x.onnx --column a --column b", 1).stderr
    assert "dialect must be 'duckdb'" in run("export calibrator.npz -o x.sql --dialect access", 1).stderr
    run(f"fit val.csv {COLUMNS} --method knn-kl --set n_neighbours=5 -o neighbours.npz")
    said = run("export neighbours.npz -o x.onnx", 1).stderr
    assert "has no graph, because" in said
    assert not (folder / "x.onnx").exists()
