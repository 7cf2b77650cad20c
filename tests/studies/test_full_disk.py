"""A disk that is full stops a run in one sentence; what is finished is kept, and it goes on later."""

import errno
import os
import time

import pytest
from study_folders import GRID, TRIALS, timeless, write_study

from calibrant.errors import StoreError
from calibrant.studies import Store, plan, read_recipe, run


def limit_pages(store, pages):
    """Make SQLite refuse a larger file, with the error by which it says that the disk is full."""
    store._connection.execute(f"PRAGMA max_page_count = {pages}")


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_store_that_cannot_grow(tmp_path, jobs):
    folder = write_study(tmp_path / "study", TRIALS.replace("seeds = 3", "seeds = 30"))
    planned = plan(read_recipe(folder))
    with Store(tmp_path / "whole.sqlite") as store:
        run(planned, store)
    path = tmp_path / "store.sqlite"
    with Store(path) as store:
        limit_pages(store, 6)
        with pytest.raises(StoreError) as caught:
            run(planned, store, jobs=jobs, backend="threading")
    assert str(caught.value) == (
        f"{path} cannot be written because the disk is full; free some space and run again: finished units are kept."
    )
    with Store(path) as store:  # with room again
        kept = len(store.records())
        assert 0 < kept < 60
        assert run(planned, store, jobs=jobs, backend="threading").reused == kept
        assert sum(each.finished for each in store.runs()) == 60
    assert timeless(path) == timeless(tmp_path / "whole.sqlite")


def test_a_new_store_on_a_full_disk(tmp_path, monkeypatch):
    """The file cannot even be begun."""
    monkeypatch.setattr(
        "calibrant.studies.store.SCHEMA", "PRAGMA max_page_count = 1; CREATE TABLE a (b); CREATE TABLE c (d)"
    )
    with pytest.raises(StoreError, match="the disk is full; free some space"):
        Store(tmp_path / "store.sqlite")


@pytest.mark.parametrize(("jobs", "backend"), [(1, "loky"), (2, "threading")])
def test_outputs_that_cannot_be_written(tmp_path, monkeypatch, jobs, backend):
    folder = write_study(
        tmp_path / "study", GRID.replace("repeats = 2", "repeats = 1") + TRIALS.split("\n", 2)[2]
    )
    planned = plan(read_recipe(folder))
    path = tmp_path / "store.sqlite"
    written = []

    def sync(descriptor):
        written.append(descriptor)
        if len(written) > 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with Store(path) as store, monkeypatch.context() as patch:
        patch.setattr("calibrant.persistence.replacing.os.fsync", sync)
        with pytest.raises(StoreError, match="No space left on device; free some space") as caught:
            run(planned, store, jobs=jobs, backend=backend)
        assert "\n" not in str(caught.value)
        # The other thread may still be at its last unit.
        until = time.monotonic() + 10
        while list(store.outputs_folder.glob(".calibrant-*")) and time.monotonic() < until:
            time.sleep(0.05)
        assert not list(store.outputs_folder.glob(".calibrant-*"))
        kept = len(store.records())
        assert 0 < kept < 42
        assert store.keys("failed") == set()
    with Store(path) as store:
        summary = run(planned, store)
        assert (summary.reused, summary.done) == (kept, 42 - kept)
