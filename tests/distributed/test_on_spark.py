"""Spark with two local executors: parameters of a fit in memory, also when an executor is killed in the middle."""

import os
import signal
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from partitions_of_rows import LOGITS, PROMISED, given, promised, rows, table_of, tables_of, theta, written

from calibrant import TemperatureScaling, registry
from calibrant.distributed import clusters, evaluate, fit, predict_proba
from calibrant.distributed.clusters import SPARK_MERGED_AT_ONCE
from calibrant.errors import LabelError, PartitionError

spark = pytest.importorskip("pyspark.sql", reason="pyspark is not installed; run: make test-spark")
pytestmark = [
    pytest.mark.spark,
    # Of Spark itself.
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


# Short jobs: little compilation in the virtual machines, no waiting for the executor that holds a partition.
JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.fixture(scope="module")
def session():
    """Two executors that are processes of their own, so that one of them can be killed."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": JVM,
        "spark.executor.extraJavaOptions": JVM,
        "spark.executor.memory": "512m",
        "spark.executorEnv.PYTHONPATH": path,
        "spark.executorEnv.OMP_NUM_THREADS": "1",
        "spark.python.daemon.module": "spark_daemon",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.adaptive.enabled": "false",
        # A batch of Arrow is a partition, see frame_of.
        "spark.sql.execution.arrow.localRelationThreshold": "0",
        "spark.locality.wait": "0s",
        "spark.task.maxFailures": "2",
    }
    started = spark.SparkSession.builder.master("local-cluster[2,1,1024]").config(map=options).getOrCreate()
    started.sparkContext.setLogLevel("OFF")
    yield started
    started.stop()


def frame_of(session, logits, labels, n_partitions=4):
    """Return a data frame whose partitions are consecutive rows; the first lack all classes but one."""
    setting = "spark.sql.execution.arrow.maxRecordsPerBatch"
    session.conf.set(setting, str(-(-len(labels) // n_partitions)))
    try:
        frame = session.createDataFrame(table_of(logits, labels))
    finally:
        session.conf.unset(setting)
    assert frame.rdd.getNumPartitions() == n_partitions
    return frame


@pytest.mark.parametrize("name", PROMISED)
def test_parameters_are_those_of_a_fit_in_memory(name, session):
    logits, labels = rows()
    expected = theta(promised(name).fit(given(logits), labels))
    frame = frame_of(session, logits, labels)
    assert theta(fit(promised(name), frame, **LOGITS)) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(("most", "n_partitions"), [(SPARK_MERGED_AT_ONCE, 1), (2, 5)])
def test_number_and_order_of_partitions_do_not_matter(most, n_partitions, session, monkeypatch):
    """By the label, some of five partitions are empty; with more than two, sums are merged on the executors first."""
    logits, labels = rows(900)
    expected = theta(TemperatureScaling().fit(given(logits), labels))
    monkeypatch.setattr(clusters, "SPARK_MERGED_AT_ONCE", most)
    frame = frame_of(session, logits, labels).repartition(n_partitions, "y").cache()
    fitted = fit(TemperatureScaling(), frame, **LOGITS)
    assert fitted.inverse_temperature_ == pytest.approx(expected[0], abs=1e-8)
    frame.unpersist()


def test_other_methods_metrics_and_predictions(session):
    logits, labels = rows(900)
    frame = frame_of(session, logits, labels)
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


def killing(folder):
    """Return a function over batches that kills the executor of the second partition in the third pass."""

    def batches_of(batches):
        from pyspark import TaskContext

        if TaskContext.get().partitionId() == 1:
            place = Path(folder)
            made = len(list(place.glob("made-*")))
            (place / f"made-{made}").touch()
            if made == 2:
                # The daemon of the Python workers is the parent; the executor, a JVM, is above it.
                daemon = os.getppid()
                executor = int(Path(f"/proc/{daemon}/stat").read_text().rsplit(")", 1)[1].split()[1])
                os.kill(executor, signal.SIGKILL)
        yield from batches

    return batches_of


def test_an_executor_that_is_killed_in_the_middle_of_a_fit(session, tmp_path):
    logits, labels = rows(900)
    expected = theta(TemperatureScaling().fit(given(logits), labels))
    frame = frame_of(session, logits, labels, 2)
    mortal = frame.mapInArrow(killing(str(tmp_path)), frame.schema)
    fitted = fit(TemperatureScaling(), mortal, **LOGITS)
    assert theta(fitted) == pytest.approx(expected, abs=1e-8)
    assert len(list(tmp_path.glob("made-*"))) > 4  # it died, and the fit went on


def test_a_file_with_another_type_of_column(session, tmp_path):
    first = table_of(*rows())
    second = first.set_column(0, first.column_names[0], pa.array(["high"] * first.num_rows))
    for number, table in enumerate((first, second)):
        pq.write_table(table, tmp_path / f"part-{number}.parquet")
    frame = session.read.parquet(*(str(tmp_path / f"part-{number}.parquet") for number in (0, 1)))
    with pytest.raises(
        PartitionError, match=rf"part-1.parquet: column '{first.column_names[0]}' has another type"
    ):
        fit(TemperatureScaling(), frame, **LOGITS)


def test_bad_input_names_the_partition(session):
    logits, labels = rows(400)
    logits[250, 2] = np.nan
    with pytest.raises(
        ValueError, match=r"partition 2, row 51: logit in column 'p_2' is nan; remove or repair"
    ):
        fit(TemperatureScaling(), frame_of(session, logits, labels), **LOGITS)
    logits, labels = rows(400)
    labels[150] = 8
    with pytest.raises(LabelError, match="rarest label, 8, is first in partition 1, row 51"):
        fit(TemperatureScaling(), frame_of(session, logits, labels), **LOGITS)


def fails(batches):
    raise RuntimeError("this was no partition")


def dies(batches):
    os.kill(os.getpid(), signal.SIGKILL)
    yield from batches


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (fails, r"Spark could not compute the partitions .*nothing was fitted or written\.$"),
        (
            dies,
            r"gave up a partition because its worker died too often; nothing was fitted or written: .*\.$",
        ),
    ],
)
def test_partitions_that_cannot_be_computed(function, message, session):
    frame = frame_of(session, *rows(100), 2)
    fitted = TemperatureScaling()
    with pytest.raises(PartitionError, match=message):
        fit(fitted, frame.mapInArrow(function, frame.schema), **LOGITS)
    assert not [name for name in vars(fitted) if name.endswith("_")]
