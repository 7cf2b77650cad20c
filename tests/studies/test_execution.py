"""Units are run once, whatever the workers, and what fails is recorded and stops nothing else."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
from study_folders import GRID, TRIALS, rows, timeless, write_study, write_trouble

from calibrant.errors import StoreError, StudyError
from calibrant.studies import Store, plan, read_recipe, run

FAILING = """
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


class Stubborn(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        raise RuntimeError("I will not learn this.")

    def predict_proba(self, X):
        return np.full((len(X), 3), 1 / 3)
"""

SCORES = """
title = "Scores"

[[data]]
name = "good"
scores = "good.npz"

[[data]]
name = "bad"
scores = "bad.npz"

[calibrators]
TempS = "temperature"

[splits]
kind = "random"

[measures]
kde = { metric = "kde_ece", parameters = { kind = "positive" } }
"""


def run_all(folder, path, **options):
    planned = plan(read_recipe(folder))
    with Store(path) as store:
        summary = run(planned, store, **options)
        return summary, planned.records(store)


def test_all_units_are_run_once_and_then_found(tmp_path):
    folder = write_study(tmp_path / "study", GRID)
    path = tmp_path / "store.sqlite"
    first, records = run_all(folder, path)
    assert (first.done, first.failed, first.reused, first.total) == (72, 0, 0, 72)
    for record in records:
        assert set(record.values) == {"log_loss", "ece", "p", "fit_seconds", "predict_seconds"}
        assert record.details["rows"] == 40
        assert record.details["classes"] == 3
    before = rows(path)
    second, again = run_all(folder, path)
    assert (second.done, second.reused) == (0, 72)
    assert (again, rows(path)) == (records, before)


@pytest.mark.parametrize(("jobs", "backend"), [(2, "threading"), (2, "loky")])
def test_numbers_do_not_hang_on_the_workers(tmp_path, jobs, backend):
    folder = write_study(tmp_path / "study", GRID.replace("repeats = 2", "repeats = 1"))
    run_all(folder, tmp_path / "one.sqlite")
    run_all(folder, tmp_path / "other.sqlite", jobs=jobs, backend=backend)
    assert timeless(tmp_path / "one.sqlite") == timeless(tmp_path / "other.sqlite")


def test_a_larger_recipe_runs_only_what_is_new(tmp_path):
    folder = write_study(tmp_path / "study", GRID.replace("repeats = 2", "repeats = 1"))
    path = tmp_path / "store.sqlite"
    run_all(folder, path)
    before = rows(path)
    (folder / "recipe.toml").write_text(GRID)
    summary, records = run_all(folder, path)
    assert (summary.done, summary.reused, len(records)) == (36, 36, 72)
    assert before.items() <= rows(path).items()


def test_a_changed_recipe_does_not_show_old_results(tmp_path):
    folder = write_study(tmp_path / "study", GRID.replace("repeats = 2", "repeats = 1"))
    path = tmp_path / "store.sqlite"
    run_all(folder, path)
    (folder / "recipe.toml").write_text(
        GRID.replace("repeats = 2", "repeats = 1\n").replace("inner = 2", "inner = 3")
    )
    with Store(path) as store:
        assert plan(read_recipe(folder)).records(store) == []


def test_a_new_calibrator_costs_only_itself(tmp_path):
    """The classifiers are trained by nobody a second time: they could not be."""
    folder = write_study(tmp_path / "study", GRID.replace("repeats = 2", "repeats = 1"))
    own = folder / "own_classifier.py"
    own.write_text("from sklearn.naive_bayes import GaussianNB as Own\n")
    text = (folder / "recipe.toml").read_text().replace('"nbayes"\n\n[cal', '"own_classifier.py:Own"\n\n[cal')
    (folder / "recipe.toml").write_text(text)
    path = tmp_path / "store.sqlite"
    run_all(folder, path)
    outputs = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "store.sqlite.outputs").iterdir()}
    (folder / "recipe.toml").write_text(text.replace('Vector = "vector"', 'Vector = "vector"\nBeta = "beta"'))
    summary, _ = run_all(folder, path)
    assert (summary.done, summary.reused) == (12, 36)
    assert {
        file.name: file.stat().st_mtime_ns for file in (tmp_path / "store.sqlite.outputs").iterdir()
    } == outputs


def test_a_damaged_file_of_outputs_is_made_anew(tmp_path):
    folder = write_study(tmp_path / "study", GRID.replace("repeats = 2", "repeats = 1"))
    run_all(folder, tmp_path / "one.sqlite")
    with Store(tmp_path / "two.sqlite") as store:
        run(plan(read_recipe(folder)), store)
        for file in store.outputs_folder.glob("*.npz"):
            file.write_bytes(file.read_bytes()[:100])
        store.forget(store.keys())
        assert run(plan(read_recipe(folder)), store).done == 36
    assert timeless(tmp_path / "one.sqlite") == timeless(tmp_path / "two.sqlite")


def test_series_of_trials_are_kept(tmp_path):
    folder = write_study(tmp_path / "study", TRIALS)
    _, records = run_all(folder, tmp_path / "store.sqlite")
    series = np.random.default_rng(1).normal(scale=2, size=5)
    (record,) = [each for each in records if each.labels == {"trial": "noise", "level": 2, "seed": 1}]
    assert record.values == {"mean": series.mean(), "worst": float("inf")}
    assert record.details == {"series": {"noise": list(series)}}


# What goes wrong


def test_a_trial_that_fails_is_recorded_and_the_rest_goes_on(tmp_path):
    folder = write_trouble(tmp_path / "study", "raises", "none", "returns text")
    summary, records = run_all(folder, tmp_path / "store.sqlite")
    assert (summary.done, summary.failed) == (1, 2)
    assert [record.message for record in records] == [
        "the trial 'trouble' failed: ValueError: seven is no even number. Really not.",
        "",
        "the trial 'trouble' failed: own.py:troubled must return a dict of numbers, not str.",
    ]
    assert records[1].values == {"value": 0.0}


def test_what_failed_is_run_again_only_if_asked_for(tmp_path):
    folder = write_trouble(tmp_path / "study", "raises", "none")
    path = tmp_path / "store.sqlite"
    run_all(folder, path)
    before = rows(path)
    again, _ = run_all(folder, path)
    assert (again.failed, again.reused) == (0, 2)
    assert rows(path) == before
    retried, _ = run_all(folder, path, retry_failed=True)
    assert (retried.failed, retried.reused) == (1, 1)


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_what_takes_too_long_is_stopped(tmp_path, backend):
    folder = write_trouble(tmp_path / "study", "lasts", "none")
    summary, records = run_all(
        folder, tmp_path / "store.sqlite", jobs=1 + (backend == "threading"), backend=backend
    )
    assert (summary.done, summary.too_slow) == (1, 1)
    assert records[0].status == "too slow"
    assert records[0].message == "the trial 'trouble' took more than 0.3 seconds of processor time."


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_warnings_are_counted_and_not_shown(tmp_path, backend):
    folder = write_trouble(tmp_path / "study", "warns", "none")
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        _, records = run_all(
            folder, tmp_path / "store.sqlite", jobs=1 + (backend == "threading"), backend=backend
        )
    assert [record.details.get("warnings") for record in records] == [{"RuntimeWarning": 3}, None]
    assert not [each for each in shown if each.category is RuntimeWarning]


def test_a_classifier_that_fails_is_named_in_all_its_units(tmp_path):
    folder = write_study(tmp_path / "study", GRID.replace("repeats = 2", "repeats = 1"))
    (folder / "stubborn.py").write_text(FAILING)
    text = (folder / "recipe.toml").read_text().replace('"nbayes"\n\n[cal', '"stubborn.py:Stubborn"\n\n[cal')
    (folder / "recipe.toml").write_text(text)
    summary, records = run_all(folder, tmp_path / "store.sqlite")
    assert (summary.done, summary.failed) == (18, 18)
    for record in records:
        if record.labels["classifier"] == "nbayes":
            said = f"the classifier 'nbayes' on {record.labels['data']!r} failed: RuntimeError: I will not learn this."
            assert (record.status, record.message, record.values) == ("failed", said, {})
        else:
            assert record.status == "done"


def test_a_calibrator_that_fails_is_named_with_its_set(tmp_path):
    folder = write_study(tmp_path / "study", GRID.replace("repeats = 2", "repeats = 1"))
    (folder / "picky.py").write_text(
        "from calibrant.calibrators import TemperatureScaling\n"
        "class Picky(TemperatureScaling):\n"
        "    def _fit(self, data):\n"
        "        raise ArithmeticError('not with these rows')\n"
    )
    text = (folder / "recipe.toml").read_text().replace('"vector"', '"picky.py:Picky"')
    (folder / "recipe.toml").write_text(text)
    summary, records = run_all(folder, tmp_path / "store.sqlite")
    assert (summary.done, summary.failed) == (24, 12)
    failed = [record for record in records if record.status == "failed"]
    assert {record.labels["calibrator"] for record in failed} == {"Vector"}
    assert "'Vector' on 'first' with 'logistic'" in failed[0].message
    assert "ArithmeticError: not with these rows." in failed[0].message


def test_a_measure_and_a_data_set_that_fail_are_named_as_such(tmp_path):
    """A share of positives means nothing with three classes; and the file of the other set holds no numbers."""
    folder = write_study(tmp_path / "study", SCORES)
    generator = np.random.default_rng(0)
    scores, labels = generator.dirichlet(np.ones(3), size=40), np.arange(40) % 3
    np.savez(folder / "good.npz", probs=scores, y=labels)
    (folder / "bad.npz").write_text("no numbers")
    summary, records = run_all(folder, tmp_path / "store.sqlite")
    assert (summary.done, summary.failed) == (0, 2)
    assert records[0].message.startswith(
        "a measure of the calibrator 'TempS' on 'good' failed: ParameterError: "
    )
    assert records[1].message.startswith("the data set 'bad' failed: ")
    assert all(record.message.endswith(".") and "\n" not in record.message for record in records)


@pytest.mark.slow
def test_a_process_that_is_killed_costs_only_its_own_unit(tmp_path):
    folder = write_trouble(tmp_path / "study", "none", "dies", "raises", "returns text")
    summary, records = run_all(folder, tmp_path / "store.sqlite", jobs=2)
    assert (summary.done, summary.failed) == (1, 3)
    assert (
        records[1].message
        == "the trial 'trouble' failed: its process was killed, possibly because it ran out of memory."
    )


def test_a_second_run_on_the_same_store_is_refused(tmp_path):
    folder = write_study(tmp_path / "study", TRIALS)
    path = tmp_path / "store.sqlite"
    with Store(path) as first, first.locked(), pytest.raises(StoreError, match="another run is writing"):
        run_all(folder, path)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"backend": "mpi"}, "there is no backend 'mpi'; choose one of loky, threading, dask"),
        ({"jobs": 0}, "jobs must be an integer of at least 1, or -1"),
        ({"scheduler": "tcp://host:1"}, "a scheduler is for the backend"),
    ],
)
def test_workers_that_there_are_not(tmp_path, options, said):
    folder = write_study(tmp_path / "study", TRIALS)
    with pytest.raises(StudyError, match=said):
        run_all(folder, tmp_path / "store.sqlite", **options)


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_an_interrupt_keeps_what_is_finished(tmp_path, jobs):
    """All processes of the group get the signal, as from the keyboard."""
    folder = write_study(tmp_path / "study", TRIALS.replace("seeds = 3", "seeds = 500"))
    path = tmp_path / "store.sqlite"
    script = (
        "import sys\nfrom calibrant.studies import Store, plan, read_recipe, run\n"
        "if __name__ == '__main__':\n"
        "    with Store(sys.argv[2]) as store:\n"
        "        try:\n"
        "            run(plan(read_recipe(sys.argv[1])), store, jobs=int(sys.argv[3]))\n"
        "        except KeyboardInterrupt:\n"
        "            sys.exit(7)\n"
    )
    command = [sys.executable, "-c", script, str(folder), str(path), str(jobs)]
    with subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True) as process:
        while not path.exists() or not finished_rows(path):
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait() == 7
        assert process.stderr.read() == ""
    found = rows(path)
    assert 0 < len(found) < 1000
    assert all(json.loads(row[3])["worst"] == float("inf") for row in found.values())
    with Store(path) as store, store.locked():
        assert len(store.records()) == len(found)


def finished_rows(path):
    try:
        return rows(path)
    except Exception:  # its tables are not made yet
        return {}


# Progress


def test_progress_counts_all_and_tells_the_time_left(tmp_path):
    folder = write_trouble(tmp_path / "study", "raises", "none", "warns")
    seen = []
    with Store(tmp_path / "store.sqlite") as store:
        run(plan(read_recipe(folder)), store, on_progress=seen.append)
    assert [(each.done, each.failed, each.total) for each in seen] == [
        (0, 0, 3),
        (0, 1, 3),
        (1, 1, 3),
        (2, 1, 3),
    ]
    assert seen[0].seconds_left is None
    assert [each.label for each in seen] == ["", "trouble raises 0", "trouble none 0", "trouble warns 0"]
    assert seen[-1].seconds_left == 0
    assert sorted(each.seconds for each in seen) == [each.seconds for each in seen]


def test_an_earlier_run_tells_how_long_the_rest_will_take(tmp_path):
    folder = write_study(tmp_path / "study", TRIALS)
    seen = []
    with Store(tmp_path / "store.sqlite") as store:
        planned = plan(read_recipe(folder))
        run(planned, store)
        store.forget([unit.key for unit in planned.units[:2]])
        seconds = [record.seconds for record in planned.records(store)]
        run(planned, store, on_progress=seen.append)
    assert (seen[0].done, seen[0].total) == (4, 6)
    assert seen[0].seconds_left == pytest.approx(2 * np.mean(seconds), rel=0.5)


def test_runs_are_noted_with_versions(tmp_path):
    folder = write_study(tmp_path / "study", TRIALS)
    with Store(tmp_path / "store.sqlite") as store:
        run(plan(read_recipe(folder)), store)
        run(plan(read_recipe(folder)), store)  # finds all there, and so is none
        (noted,) = store.runs()
    assert (noted.study, noted.finished, noted.jobs) == ("study", 6, 1)
    assert {"python", "numpy", "scipy", "scikit-learn", "calibrant"} <= set(noted.versions)
    assert noted.seconds > 0
