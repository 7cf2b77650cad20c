"""Commands with ``--engine dask``: the same results from files that a cluster reads."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calibrant import Predictions, TemperatureScaling, load, metrics

distributed = pytest.importorskip("distributed")
pytest.importorskip("rich")
testing = pytest.importorskip("click.testing")
program = pytest.importorskip("calibrant.cli.program")

pytestmark = [
    # Of Dask itself, when its threads and sockets end.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ROLES = ["--label", "y", "--columns", "p_*", "--space", "logits", "--engine", "dask"]


@pytest.fixture(scope="module")
def address():
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def rows(tmp_path):
    generator = np.random.default_rng(0)
    logits = generator.normal(0.0, 2.0, (1500, 3))
    labels = (logits / 1.6 + generator.gumbel(size=logits.shape)).argmax(axis=1)
    (tmp_path / "rows").mkdir()
    for part, some in enumerate(np.array_split(np.arange(1500), 3)):
        columns = {f"p_{column}": logits[some, column] for column in range(3)}
        pq.write_table(pa.table({**columns, "y": labels[some]}), tmp_path / "rows" / f"{part}.parquet")
    return logits, labels


def run(*words, expected=0):
    result = testing.CliRunner().invoke(
        program.calibrant, [str(word) for word in words], prog_name="calibrant"
    )
    assert result.exit_code == expected, result.output
    return result


def test_evaluate_fit_and_apply(rows, address, tmp_path):
    logits, labels = rows
    files, predictions = tmp_path / "rows" / "*.parquet", Predictions.from_logits(logits)
    where = [*ROLES, "--address", address]
    found = json.loads(run("evaluate", files, *where, "--format", "json").output)
    by_name = {record["metric"]: record for record in found["metrics"]}
    assert by_name["log_loss"]["value"] == pytest.approx(metrics.log_loss(labels, predictions))
    assert "smooth_ece" not in by_name
    assert any("smooth_ece" in note for note in found["notes"])
    saved = tmp_path / "calibrator.npz"
    run("fit", files, *where, "--method", "temperature", "-o", saved)
    expected = TemperatureScaling().fit(predictions, labels)
    assert load(saved).temperature_ == pytest.approx(expected.temperature_, rel=1e-9)
    output = tmp_path / "calibrated"
    applying = ["apply", files, "--calibrator", saved, "--columns", "p_*", "-o", output, "--append"]
    run(*applying, "--engine", "dask", "--address", address)
    table = pq.read_table(output)
    new = np.stack([table[f"calibrated_{column}"].to_numpy() for column in range(3)], axis=1)
    assert new == pytest.approx(expected.predict_proba(predictions), abs=1e-9)
    assert "is there already" in run(*applying, "--engine", "dask", "--address", address, expected=1).output


def test_a_report(rows, address, tmp_path):
    output = tmp_path / "report.md"
    run("report", tmp_path / "rows", *ROLES, "--address", address, "-o", output, "--methods", "temperature")
    assert "log-loss of all rows" in output.read_text().lower()


def test_a_limit_that_is_exceeded(rows, address, tmp_path):
    result = run(
        "evaluate",
        tmp_path / "rows",
        *ROLES,
        "--address",
        address,
        "--metrics",
        "log_loss",
        "--fail-above",
        "log_loss=0.1",
        expected=4,
    )
    assert "Limit exceeded" in result.output


def test_bad_input_is_one_sentence(rows, address, tmp_path):
    table = pq.read_table(tmp_path / "rows" / "1.parquet")
    values = table["p_1"].to_numpy().copy()
    values[9] = np.nan
    pq.write_table(table.set_column(1, "p_1", [values]), tmp_path / "rows" / "1.parquet")
    result = run("evaluate", tmp_path / "rows", *ROLES, "--address", address, expected=1)
    assert "1.parquet, row 10: logit in column 'p_1' is nan" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--engine", "dask", "--space", "logits"], "give the columns"),
        (["--address", "tcp://nowhere:1", "--space", "logits"], "--address is for"),
        ([*ROLES, "--normalise"], "read on this machine"),
    ],
)
def test_wrong_options(rows, tmp_path, words, message):
    assert message in run("evaluate", tmp_path / "rows", *words, expected=2).output
