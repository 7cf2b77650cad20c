"""A study on a Dask cluster gives the numbers of a single process."""

import subprocess
import sys

import pytest
from study_folders import GRID, timeless, write_study, write_trouble

from calibrant.errors import StudyError
from calibrant.studies import Store, plan, read_recipe, run
from calibrant.studies.workers import dask_backend

distributed = pytest.importorskip("distributed")
pytestmark = [
    # Of Dask itself, when its threads and sockets end.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def cluster():
    """Two workers that are threads of this process, behind a real scheduler."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as started:
        yield started


def test_numbers_are_those_of_one_process(cluster, tmp_path):
    folder = write_study(tmp_path / "study", GRID.replace("repeats = 2", "repeats = 1"))
    planned = plan(read_recipe(folder))
    with Store(tmp_path / "one.sqlite") as store:
        run(planned, store)
    seen = []
    with Store(tmp_path / "dask.sqlite") as store:
        summary = run(
            planned, store, backend="dask", scheduler=cluster.scheduler_address, on_progress=seen.append
        )
        assert summary.done == 36
        assert [each.done for each in seen] == list(range(37))  # each was written as it came
        assert (store.runs()[0].backend, store.runs()[0].jobs) == ("dask", 2)
    assert timeless(tmp_path / "one.sqlite") == timeless(tmp_path / "dask.sqlite")


def test_the_client_of_this_process_is_taken_where_there_is_one(cluster, tmp_path):
    planned = plan(read_recipe(write_trouble(tmp_path / "study", "none", "raises", "warns", "lasts")))
    with distributed.Client(cluster), Store(tmp_path / "store.sqlite") as store:
        summary = run(planned, store, backend="dask")
        records = planned.records(store)
    assert (summary.done, summary.failed, summary.too_slow) == (2, 1, 1)
    assert (
        records[1].message == "the trial 'trouble' failed: ValueError: seven is no even number. Really not."
    )
    assert records[2].details == {"warnings": {"RuntimeWarning": 3}}


def test_a_scheduler_that_does_not_answer(tmp_path, monkeypatch):
    monkeypatch.setattr("calibrant.studies.workers.CONNECT_SECONDS", 0.2)
    planned = plan(read_recipe(write_trouble(tmp_path / "study", "none")))
    with (
        Store(tmp_path / "store.sqlite") as store,
        pytest.raises(StudyError, match=r"no Dask scheduler answers at tcp://127.0.0.1:9; start one"),
    ):
        run(planned, store, backend="dask", scheduler="tcp://127.0.0.1:9")


@pytest.mark.slow
def test_without_a_cluster_one_sentence(tmp_path):
    """In a process of its own, since workers leave clients behind."""
    folder = write_trouble(tmp_path / "study", "none")
    script = (
        "import sys\nfrom calibrant.studies import Store, plan, read_recipe, run\n"
        "run(plan(read_recipe(sys.argv[1])), Store(sys.argv[2]), backend='dask')"
    )
    command = [sys.executable, "-c", script, str(folder), str(tmp_path / "store.sqlite")]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    assert "StudyError: there is no Dask client in this process; give the address of a scheduler" in said


class Unreadable:
    """Can be sent, but not received."""

    def __reduce__(self):
        return _refuse, ()


def _refuse():
    raise RuntimeError("cannot be received")


@pytest.mark.slow
def test_a_task_that_dask_gives_up_is_an_error_and_not_waited_for(tmp_path):
    from joblib import Parallel, delayed, parallel_config

    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as started,
        distributed.Client(started) as client,
        parallel_config(backend=dask_backend(client, 60)),
        pytest.raises(Exception, match=r"cannot be received|[Dd]eseriali"),
    ):
        list(Parallel(n_jobs=2, return_as="generator_unordered")([delayed(repr)(Unreadable())]))
