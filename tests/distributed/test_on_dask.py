"""Two worker processes of Dask: parameters of a fit in memory, also when a worker is killed in the middle."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from partitions_of_rows import LOGITS, PROMISED, given, promised, rows, table_of, tables_of, theta, written

from calibrant import TemperatureScaling, registry
from calibrant.distributed import evaluate, fit, predict_proba
from calibrant.errors import LabelError, PartitionError

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")
pytestmark = [
    # Of Dask itself, when its threads and sockets end.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ENDS = [0, 700, 700, 1500, 2990]
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def client():
    with (
        dask.config.set({"distributed.admin.log-format": "%(message)s"}),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=50,
            env={"PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])},
        ) as cluster,
        distributed.Client(cluster) as connected,
    ):
        yield connected


@pytest.mark.parametrize("name", PROMISED)
def test_parameters_are_those_of_a_fit_in_memory(name, client):
    logits, labels = rows()
    expected = theta(promised(name).fit(given(logits), labels))
    parts = [dask.delayed(table) for table in tables_of(logits, labels, ENDS)]
    assert theta(fit(promised(name), parts, **LOGITS)) == pytest.approx(expected, abs=1e-8)


def test_order_and_number_of_partitions_do_not_matter(client):
    logits, labels = rows()
    expected = theta(TemperatureScaling().fit(given(logits), labels))
    for ends in ([], [2999, 3000], list(range(150, 3000, 150))):
        parts = [dask.delayed(table.to_pandas()) for table in tables_of(logits, labels, ends)]
        assert theta(fit(TemperatureScaling(), parts[::-1], **LOGITS)) == pytest.approx(expected, abs=1e-8)


def test_data_frames_and_files(client, tmp_path):
    frames = pytest.importorskip("dask.dataframe")
    logits, labels = rows(900)
    names = np.array(["ant", "bee", "cat", "owl"])
    table = table_of(logits, names[labels]).rename_columns([*(f"p_{name}" for name in names), "y"])
    expected = TemperatureScaling().fit(given(logits), labels)
    frame = frames.from_pandas(table.to_pandas(), npartitions=5)
    fitted = fit(TemperatureScaling(), frame, **LOGITS)
    assert fitted.temperature_ == pytest.approx(expected.temperature_, rel=1e-9)
    found = evaluate(frame, metrics=["accuracy"], **LOGITS)["accuracy"]
    assert found.estimate == pytest.approx((logits.argmax(axis=1) == labels).mean())
    calibrated = predict_proba(fitted, frame, columns="p_*").compute()
    np.testing.assert_array_equal(calibrated["y"], names[labels])
    new = calibrated[[f"calibrated_{name}" for name in names]].to_numpy()
    assert new == pytest.approx(expected.predict_proba(given(logits)), abs=1e-9)
    paths = written(tmp_path, tables_of(logits, labels, [300, 600]), row_group_size=100)
    again = fit(TemperatureScaling(), paths, engine="dask", **LOGITS)
    assert again.temperature_ == pytest.approx(expected.temperature_, rel=1e-9)


def test_other_methods(client):
    logits, labels = rows(900)
    parts = [dask.delayed(table) for table in tables_of(logits, labels, [200, 201, 800])]
    for name in ("platt", "ets", "isotonic"):
        expected = registry.make(name).fit(given(logits), labels).predict_proba(given(logits))
        fitted = fit(name, parts, **LOGITS)
        assert fitted.predict_proba(given(logits)) == pytest.approx(expected, abs=1e-9)
    tables = predict_proba(fitted, parts, columns="p_*")
    assert sum(table.num_rows for table in dask.compute(*tables)) == 900


def kills_its_worker(table, folder, after):
    """Return a partition; when it is made for the given time, the process dies in the middle of it, once."""
    folder = Path(folder)
    made = len(list(folder.glob("made-*")))
    (folder / f"made-{made}").touch()
    if made == after:
        os.kill(os.getpid(), signal.SIGKILL)
    return table


def test_a_worker_that_is_killed_in_the_middle_of_a_fit(client, tmp_path):
    """The first pass goes through, in the third the worker of one partition dies: another one takes over."""
    logits, labels = rows()
    expected = theta(TemperatureScaling().fit(given(logits), labels))
    first, *others = tables_of(logits, labels, [600, 1200, 1800, 2400])
    mortal = dask.delayed(kills_its_worker, pure=False)(first, str(tmp_path), 2)
    fitted = fit(TemperatureScaling(), [mortal, *map(dask.delayed, others)], **LOGITS)
    assert theta(fitted) == pytest.approx(expected, abs=1e-8)
    assert len(list(tmp_path.glob("made-*"))) > 4  # it died, and the fit went on
    client.wait_for_workers(2)


def test_workers_that_die_whenever_they_hold_a_partition(client, tmp_path):
    logits, labels = rows(300)
    client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 0))
    try:
        fitted = TemperatureScaling()
        mortal = dask.delayed(kills_its_worker, pure=False)(table_of(logits, labels), str(tmp_path), 2)
        with pytest.raises(
            PartitionError, match=r"gave up a partition because workers died.*nothing was fitted"
        ):
            fit(fitted, [dask.delayed(table_of(logits, labels)), mortal], **LOGITS)
        assert not [name for name in vars(fitted) if name.endswith("_")]
    finally:
        client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 3))
        client.wait_for_workers(2)


def test_bad_input_names_the_partition(client, tmp_path):
    logits, labels = rows(300)
    logits[250, 2] = np.nan
    parts = [dask.delayed(table) for table in tables_of(logits, labels, [100, 200])]
    with pytest.raises(ValueError, match=r"partition 2, row 51: .*'p_2' is nan; remove or repair the row"):
        fit(TemperatureScaling(), parts, **LOGITS)
    logits, labels = rows(300)
    labels[150] = 8
    parts = [dask.delayed(table) for table in tables_of(logits, labels, [100, 200])]
    with pytest.raises(LabelError, match="rarest label, 8, is first in partition 1, row 51"):
        fit(TemperatureScaling(), parts, **LOGITS)
    short = [*parts[:1], dask.delayed(table_of(*rows(50)).drop_columns(["p_0"]))]
    with pytest.raises(ValueError, match="partition 1 has no column 'p_0'"):
        fit(TemperatureScaling(), short, **LOGITS)


def test_a_file_that_is_lost(client, tmp_path):
    import pyarrow.dataset as ds

    logits, labels = rows(300)
    data = ds.dataset(written(tmp_path, tables_of(logits, labels, [100, 200])))
    (tmp_path / "part-2.parquet").unlink()
    with pytest.raises(PartitionError, match=r"part-2.parquet cannot be read \(.*\); restore it"):
        fit(TemperatureScaling(), data, engine="dask", **LOGITS)


def test_a_frame_of_dask_whose_file_is_lost(client, tmp_path):
    frames = pytest.importorskip("dask.dataframe")
    logits, labels = rows(300)
    written(tmp_path, tables_of(logits, labels, [100, 200]))
    frame = frames.read_parquet(tmp_path)
    (tmp_path / "part-1.parquet").unlink()
    with pytest.raises(PartitionError, match=r"part-1.parquet.* cannot be read"):
        fit(TemperatureScaling(), frame, **LOGITS)
