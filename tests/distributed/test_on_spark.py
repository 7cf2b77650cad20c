"""Spark with two local executors: parameters of a fit in memory, also when an executor is killed in the middle."""

import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from partitions_of_rows import LOGITS, PROMISED, given, promised, rows, table_of, tables_of, theta, written

from calibrant import TemperatureScaling, VectorScaling, registry
from calibrant.distributed import evaluate, fit, on_spark, predict_proba
from calibrant.distributed.on_spark import MERGED_AT_ONCE
from calibrant.errors import LabelError, PartitionError

spark = pytest.importorskip("pyspark.sql", reason="pyspark is not installed; run: make test-spark")
pytestmark = [
    pytest.mark.spark,
    # Of Spark itself.
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def session():
    """Two executors that are processes of their own, so that one of them can be killed."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    started = (
        spark.SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.executor.memory", "512m")
        .config("spark.executorEnv.PYTHONPATH", path)
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.default.parallelism", "2")
        .getOrCreate()
    )
    started.sparkContext.setLogLevel("OFF")
    yield started
    started.stop()


def frame_of(session, logits, labels, n_partitions=4):
    """Return a data frame whose partitions are consecutive rows; the first lack all classes but one."""
    frame = session.createDataFrame(table_of(logits, labels).to_pandas()).coalesce(1)
    numbered = frame.rdd.zipWithIndex().map(lambda row: (row[1] * n_partitions // len(labels), row[0]))
    parts = numbered.partitionBy(n_partitions, lambda place: place).map(lambda row: row[1])
    return session.createDataFrame(parts, frame.schema)


@pytest.mark.parametrize("name", PROMISED)
def test_parameters_are_those_of_a_fit_in_memory(name, session):
    logits, labels = rows()
    expected = theta(promised(name).fit(given(logits), labels))
    frame = frame_of(session, logits, labels).cache()
    assert theta(fit(promised(name), frame, **LOGITS)) == pytest.approx(expected, abs=1e-8)


def test_number_of_partitions_does_not_matter(session, monkeypatch):
    """By the label, some of five partitions are empty. From the third on, sums are merged on the executors first."""
    logits, labels = rows(900)
    expected = theta(TemperatureScaling().fit(given(logits), labels))
    frame = frame_of(session, logits, labels)
    for most, n_partitions in ((MERGED_AT_ONCE, 1), (2, 5)):
        monkeypatch.setattr(on_spark, "MERGED_AT_ONCE", most)
        fitted = fit(TemperatureScaling(), frame.repartition(n_partitions, "y"), **LOGITS)
        assert fitted.inverse_temperature_ == pytest.approx(expected[0], abs=1e-8)


def test_other_methods_metrics_and_predictions(session):
    logits, labels = rows(900)
    frame = frame_of(session, logits, labels).cache()
    expected = registry.make("isotonic").fit(given(logits), labels).predict_proba(given(logits))
    fitted = fit("isotonic", frame, **LOGITS)
    assert fitted.predict_proba(given(logits)) == pytest.approx(expected, abs=1e-9)
    here = evaluate(table_of(logits, labels), **LOGITS)
    for name, interval in evaluate(frame, **LOGITS).items():
        assert tuple(interval) == pytest.approx(tuple(here[name]), abs=1e-9, nan_ok=True)
    found = predict_proba(fitted, frame, columns="p_*").toPandas()
    scores = found[[f"p_{column}" for column in range(4)]].to_numpy()
    new = found[[f"calibrated_{column}" for column in range(4)]].to_numpy()
    np.testing.assert_array_equal(new, fitted.predict_proba(given(scores)))
    assert len(found) == 900


def test_files_that_spark_reads(session, tmp_path):
    logits, labels = rows(600)
    paths = written(tmp_path, tables_of(logits, labels, [0, 200, 400]))
    fitted = fit(TemperatureScaling(), paths, engine="spark", **LOGITS)
    expected = TemperatureScaling().fit(given(logits), labels)
    assert fitted.temperature_ == pytest.approx(expected.temperature_, rel=1e-9)
    frame = session.read.parquet(*paths)
    Path(paths[1]).unlink()
    with pytest.raises(PartitionError, match=r"part-1.parquet cannot be read because it is not there"):
        fit(TemperatureScaling(), frame, **LOGITS)


def killing(folder, n_kills):
    """Return a function over batches that kills the executor of the second partition in the third pass."""

    def batches_of(batches):
        from pyspark import TaskContext

        if TaskContext.get().partitionId() == 1:
            place = Path(folder)
            made = len(list(place.glob("made-*")))
            (place / f"made-{made}").touch()
            if 2 <= made < 2 + n_kills:
                # The daemon of the Python workers is the parent; the executor, a JVM, is above it.
                daemon = os.getppid()
                executor = int(Path(f"/proc/{daemon}/stat").read_text().rsplit(")", 1)[1].split()[1])
                os.kill(executor, signal.SIGKILL)
        yield from batches

    return batches_of


def test_an_executor_that_is_killed_in_the_middle_of_a_fit(session, tmp_path):
    logits, labels = rows()
    expected = theta(VectorScaling().fit(given(logits), labels))
    frame = frame_of(session, logits, labels)
    mortal = frame.mapInArrow(killing(str(tmp_path), 1), frame.schema)
    fitted = fit(VectorScaling(), mortal, **LOGITS)
    assert theta(fitted) == pytest.approx(expected, abs=1e-8)
    assert len(list(tmp_path.glob("made-*"))) > 4  # it died, and the fit went on


def test_bad_input_names_the_partition(session):
    logits, labels = rows(400)
    logits[250, 2] = np.nan  # which Spark takes for a missing value
    with pytest.raises(ValueError, match=r"partition 2, row 51: column 'p_2' has no value; remove or repair"):
        fit(TemperatureScaling(), frame_of(session, logits, labels), **LOGITS)
    logits, labels = rows(400)
    labels[150] = 8
    with pytest.raises(LabelError, match="rarest label, 8, is first in partition 1, row 51"):
        fit(TemperatureScaling(), frame_of(session, logits, labels), **LOGITS)


def test_a_function_of_a_query_that_fails(session):
    frame = frame_of(session, *rows(100))

    def breaks(batches):
        raise RuntimeError("this was no partition")

    with pytest.raises(PartitionError, match="Spark could not compute the partitions"):
        fit(TemperatureScaling(), frame.mapInArrow(breaks, frame.schema), **LOGITS)
