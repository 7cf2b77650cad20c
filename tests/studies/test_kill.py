"""A run that is killed at any moment goes on where it was, and ends with the same table."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from study_folders import GRID, rows, timeless, write_study

from calibrant.studies import Store, plan, read_recipe, run

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are killed as on Unix")

KILLS = 20

RECIPE = (
    GRID
    + """
[[trials]]
name = "noise"
function = "own.py:noise"
parameters = { level = [1, 2] }
seeds = 150
"""
)

# Imports once, and then is copied for every run, since imports take longer than all else.
FORKING = """
import os, sys
from calibrant.studies import Store, plan, read_recipe, run

for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        os.setsid()
        with Store(sys.argv[2]) as store:
            run(plan(read_recipe(sys.argv[1])), store, jobs=2, backend="threading")
        os._exit(0)
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""

PROCESSES = """
import sys
from calibrant.studies import Store, plan, read_recipe, run

if __name__ == "__main__":
    with Store(sys.argv[2]) as store:
        run(plan(read_recipe(sys.argv[1])), store, jobs=2)
"""


def uninterrupted(folder: Path, path: Path) -> dict[str, tuple]:
    with Store(path) as store:
        run(plan(read_recipe(folder)), store, jobs=2, backend="threading")
    return timeless(path)


def finished(path: Path) -> dict[str, tuple]:
    """Return what a store has, which may not be made yet; a journal of a killed writer is undone by reading."""
    if not path.exists():
        return {}
    try:
        with Store(path, create=False):
            return rows(path)
    except sqlite3.OperationalError:  # not even its tables are there
        return {}


def wait_for(path: Path, number: int) -> None:
    """Wait until a store has so many records, while another process writes them."""
    while True:
        try:
            with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
                found = connection.execute("SELECT count(*) FROM records").fetchone()[0]
            connection.close()
            if found >= number:
                return
        except sqlite3.OperationalError:  # it is not there yet
            pass
        time.sleep(0.005)


def check_went_on(before: dict[str, tuple], after: dict[str, tuple]) -> None:
    """Whatever was there is there still, down to its seconds: nothing was lost, and nothing was run again."""
    assert before.items() <= after.items()


def check_the_end(path: Path, expected: dict[str, tuple], n_units: int) -> None:
    assert len(rows(path)) == n_units
    assert timeless(path) == expected
    with Store(path) as store:
        assert sum(each.finished for each in store.runs()) == n_units  # each was written once
        assert not list(store.outputs_folder.glob(".calibrant-*"))  # nothing half-written is left


@pytest.mark.parametrize("n_kills", [8, pytest.param(KILLS, marks=pytest.mark.slow)])
def test_kills_leave_the_table_of_an_uninterrupted_run(tmp_path, n_kills):
    folder = write_study(tmp_path / "study", RECIPE)
    n_units = 2 * 2 * 2 * 3 * 3 + 2 * 150
    expected = uninterrupted(folder, tmp_path / "whole.sqlite")
    path = tmp_path / "killed.sqlite"
    moments = random.Random(8)
    before: dict[str, tuple] = {}
    partial, grown = 0, 0
    command = [sys.executable, "-c", FORKING, str(folder), str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as runner:

        def started() -> int:
            print("run", file=runner.stdin, flush=True)
            return int(runner.stdout.readline())

        for number in range(n_kills):
            pid = started()
            while os.getpgid(pid) != pid:
                time.sleep(0.001)
            if number % 4:
                wait_for(path, len(before) + moments.randint(1, 5))
            time.sleep(moments.uniform(0, 0.05))
            os.killpg(pid, signal.SIGKILL)
            assert int(runner.stdout.readline()) == -signal.SIGKILL
            after = finished(path)
            check_went_on(before, after)
            partial += 0 < len(after) < n_units
            grown += len(after) > len(before)
            before = after
        assert partial >= n_kills // 2
        assert grown >= n_kills // 2
        started()
        assert int(runner.stdout.readline()) == 0
        runner.stdin.close()
    check_went_on(before, rows(path))
    check_the_end(path, expected, n_units)


@pytest.mark.slow
def test_twenty_kills_of_a_run_with_processes_of_its_own(tmp_path):
    """Every other one is killed soon after its first unit, the rest whenever it is: at the start, most of them."""
    folder = write_study(tmp_path / "study", RECIPE)
    n_units = 2 * 2 * 2 * 3 * 3 + 2 * 150
    expected = uninterrupted(folder, tmp_path / "whole.sqlite")
    path = tmp_path / "killed.sqlite"
    moments = random.Random(8)
    before: dict[str, tuple] = {}
    partial = 0
    command = [sys.executable, "-c", PROCESSES, str(folder), str(path)]
    for number in range(KILLS):
        with subprocess.Popen(command, start_new_session=True) as process:
            if number % 2:
                wait_for(path, len(before) + 1)
                time.sleep(moments.uniform(0, 0.1))
            else:
                time.sleep(moments.uniform(0, 3))
            os.killpg(process.pid, signal.SIGKILL)
        after = finished(path)
        check_went_on(before, after)
        partial += 0 < len(after) < n_units
        before = after
    assert partial >= 5
    subprocess.run(command, check=True)
    check_went_on(before, rows(path))
    check_the_end(path, expected, n_units)
