"""Own code may raise what it likes, take its time and catch what it can: a record says so, and the rest is run."""

import numpy as np
import pytest
from study_folders import TRIALS, write_study

from calibrant.errors import StudyDataError
from calibrant.studies import Record, Store, plan, read_recipe, run

OWN = """
import os
import signal
import time

import numpy as np

from calibrant.calibrators import TemperatureScaling
from calibrant.studies.data import StudyData


class Leaves(TemperatureScaling):
    def _fit(self, data):
        raise SystemExit(3)


class Interrupts(TemperatureScaling):
    def _fit(self, data):
        raise KeyboardInterrupt


class LeavingClassifier:
    def fit(self, X, y):
        raise SystemExit("no more")

    def predict_proba(self, X):
        return np.full((len(X), 3), 1 / 3)


def leaving_data(*, seed, data_folder, error):
    raise {"SystemExit": SystemExit, "ValueError": ValueError}[error]("nothing to draw")


def trial(*, seed, data_folder, does):
    if does == "leaves":
        raise SystemExit
    if does == "interrupts":
        raise KeyboardInterrupt("by itself")
    if does == "closes":
        raise GeneratorExit
    if does == "is interrupted":
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10)
    if does == "hides an interrupt":
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10)
        except BaseException:
            pass
    if does == "hides the time":
        end = time.thread_time() + 0.5
        while time.thread_time() < end:
            try:
                while time.thread_time() < end:
                    pass
            except:
                pass
    if does == "takes its time":
        end = time.thread_time() + 0.5
        while time.thread_time() < end:
            pass
    return {"value": 1.0}
"""

GRID = """
title = "Own code"

[[data]]
name = "first"
features = "first.npz"

[classifiers]
nbayes = "nbayes"

[calibrators]
TempS = "temperature"

[splits]
kind = "folds"
folds = 2
inner = 2

[measures]
log_loss = "log_loss"
"""


def study(folder, text):
    write_study(folder, text)
    (folder / "own.py").write_text(OWN)
    return folder


def trials(folder, *does, limit=None):
    names = ", ".join(f'"{each}"' for each in does)
    text = TRIALS.replace("own.py:noise", "own.py:trial").replace("level = [1, 2]", f"does = [{names}]")
    text = text.replace("seeds = 3", "seeds = 1")
    return study(folder, text if limit is None else f"limit_seconds = {limit}\n{text}")


def run_all(folder, path, **options):
    planned = plan(read_recipe(folder))
    with Store(path) as store:
        summary = run(planned, store, **options)
        return summary, planned.records(store)


WORKERS = [(1, "loky"), (2, "loky"), (2, "threading")]


@pytest.mark.parametrize(("jobs", "backend"), WORKERS)
def test_a_trial_that_would_end_the_process_has_failed(tmp_path, jobs, backend):
    folder = trials(tmp_path / "study", "leaves", "interrupts", "closes", "nothing")
    summary, records = run_all(folder, tmp_path / "store.sqlite", jobs=jobs, backend=backend)
    assert (summary.done, summary.failed) == (1, 3)
    assert [record.message for record in records] == [
        "the trial 'noise' failed: SystemExit.",
        "the trial 'noise' failed: KeyboardInterrupt: by itself.",
        "the trial 'noise' failed: GeneratorExit.",
        "",
    ]
    assert [record.labels["seed"] for record in records] == [0] * 4


@pytest.mark.parametrize(("jobs", "backend"), WORKERS)
def test_a_calibrator_and_a_classifier_that_would_end_the_process_have_failed(tmp_path, jobs, backend):
    text = GRID.replace(
        'TempS = "temperature"',
        'TempS = "temperature"\nLeaves = "own.py:Leaves"\nInterrupts = "own.py:Interrupts"',
    ).replace('nbayes = "nbayes"', 'nbayes = "nbayes"\nleaving = "own.py:LeavingClassifier"')
    folder = study(tmp_path / "study", text)
    summary, records = run_all(folder, tmp_path / "store.sqlite", jobs=jobs, backend=backend)
    assert (summary.done, summary.failed) == (2, 10)
    said = {(each.labels["classifier"], each.labels["calibrator"]): each.message for each in records}
    leaving = "the classifier 'leaving' on 'first' failed: SystemExit: no more."
    assert said == {
        ("nbayes", "TempS"): "",
        ("nbayes", "Leaves"): "the calibrator 'Leaves' on 'first' with 'nbayes' failed: SystemExit: 3.",
        (
            "nbayes",
            "Interrupts",
        ): "the calibrator 'Interrupts' on 'first' with 'nbayes' failed: KeyboardInterrupt.",
        **{("leaving", each): leaving for each in ("TempS", "Leaves", "Interrupts")},
    }


@pytest.mark.parametrize("does", ["is interrupted", "hides an interrupt"])
def test_an_interrupt_from_outside_stops_the_run(tmp_path, does):
    folder = trials(tmp_path / "study", "nothing", does, "leaves")
    path = tmp_path / "store.sqlite"
    with pytest.raises(KeyboardInterrupt):
        run_all(folder, path)
    with Store(path) as store:
        assert [record.status for record in store.records()] == ["done"]


# Data


@pytest.mark.parametrize("classifier", [True, False])
@pytest.mark.parametrize("error", ["SystemExit", "ValueError"])
def test_a_generator_that_fails_is_named_and_no_classifier(tmp_path, classifier, error):
    source = f'generator = "own.py:leaving_data"\nparameters = {{ error = "{error}" }}'
    text = GRID.replace(
        'features = "first.npz"', source + ('\nclassifiers = ["nbayes"]' if classifier else "")
    )
    if not classifier:
        text = text.replace('kind = "folds"\nfolds = 2\ninner = 2', 'kind = "given"')
    _, records = run_all(study(tmp_path / "study", text), tmp_path / "store.sqlite")
    said = f"the data set 'first' failed: own.py:leaving_data: {error}: nothing to draw."
    assert {record.message for record in records} == {said}


@pytest.mark.parametrize(("cell", "said"), [("", "row 2"), ("many", "'many'")])
def test_a_table_that_is_faulty_is_named_and_no_classifier(tmp_path, cell, said):
    folder = study(tmp_path / "study", GRID.replace('"first.npz"', '"first.csv"\nlabel = "kind"'))
    (folder / "first.csv").write_text("a,b,kind\n" + "1,2,x\n" + f"3,{cell},y\n" + "1,3,x\n3,4,y\n" * 20)
    _, records = run_all(folder, tmp_path / "store.sqlite")
    assert len(records) == 2
    for record in records:
        assert record.message.startswith("the data set 'first' failed: ")
        assert said in record.message
        assert "nbayes" not in record.message


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ('\nlabel = "knd"', "there is no column 'knd'; name the column"),
        ("", "name the column of the classes by label"),
    ],
)
def test_a_label_that_is_no_column_is_found_before_anything_runs(tmp_path, label, said):
    folder = study(tmp_path / "study", GRID.replace('"first.npz"', f'"first.csv"{label}'))
    (folder / "first.csv").write_text("a,kind\n1,x\n")
    with pytest.raises(StudyDataError, match=f"data set 'first': .*{said}.*there are a, kind"):
        plan(read_recipe(folder))


def test_a_label_of_scores_that_is_no_column_is_found_before_anything_runs(tmp_path):
    source = 'scores = "first.csv"\nspace = "probabilities"\nlabel = "knd"'
    text = GRID.replace('features = "first.npz"', source)
    folder = study(
        tmp_path / "study", text.replace('kind = "folds"\nfolds = 2\ninner = 2', 'kind = "random"')
    )
    (folder / "first.csv").write_text("p,q,kind\n0.5,0.5,1\n")
    with pytest.raises(StudyDataError, match=r"data set 'first': .*there is no column 'knd'"):
        plan(read_recipe(folder))
    (folder / "recipe.toml").write_text((folder / "recipe.toml").read_text().replace("knd", "kind"))
    assert len(plan(read_recipe(folder)).units) == 1


def test_outputs_in_memory_without_training_rows_are_made_anew(tmp_path):
    """The same process has used the same outputs before, when nobody asked for the rows of the training."""
    folder = study(tmp_path / "study", GRID.replace('kind = "folds"\nfolds = 2\ninner = 2', 'kind = "given"'))
    generator = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = generator.normal(size=(90, 4)) + np.eye(3, 4)[y]
    parts = {"train": slice(0, 30), "cal": slice(30, 60), "test": slice(60, 90)}
    arrays = {f"X_{name}": X[rows] for name, rows in parts.items()}
    np.savez(folder / "first.npz", **arrays, **{f"y_{name}": y[rows] for name, rows in parts.items()})
    path = tmp_path / "store.sqlite"
    run_all(folder, path)
    text = (folder / "recipe.toml").read_text()
    grid = 'Bins = { method = "width-binning", grid = { n_bins = [2, 5] }, select = "training" }'
    (folder / "recipe.toml").write_text(text.replace("[splits]", f"{grid}\n[splits]"))
    summary, records = run_all(folder, path)
    assert [record.message for record in records] == ["", ""]
    assert (summary.done, summary.reused) == (1, 1)


# Time


@pytest.mark.parametrize(("jobs", "backend"), WORKERS)
def test_work_that_catches_all_is_too_slow_all_the_same(tmp_path, jobs, backend):
    folder = trials(tmp_path / "study", "hides the time", "nothing", limit=0.2)
    summary, records = run_all(folder, tmp_path / "store.sqlite", jobs=jobs, backend=backend)
    assert (summary.done, summary.too_slow) == (1, 1)
    assert records[0].message == "the trial 'noise' took more than 0.2 seconds of processor time."
    assert records[0].details == {"limit_seconds": 0.2}


@pytest.mark.parametrize("limit", ["limit_seconds = 20", ""])
def test_what_was_too_slow_is_run_again_when_there_is_more_time(tmp_path, limit):
    folder = trials(tmp_path / "study", "takes its time", "leaves", limit=0.1)
    path = tmp_path / "store.sqlite"
    assert run_all(folder, path)[0].too_slow == 1
    for smaller in ("0.1", "0.05"):
        text = (folder / "recipe.toml").read_text()
        (folder / "recipe.toml").write_text(text.replace("limit_seconds = 0.1", f"limit_seconds = {smaller}"))
        assert run_all(folder, path)[0].reused == 2
        (folder / "recipe.toml").write_text(text)
    (folder / "recipe.toml").write_text(text.replace("limit_seconds = 0.1", limit))
    summary, records = run_all(folder, path)
    assert (summary.done, summary.reused) == (1, 1)
    assert [record.status for record in records] == ["done", "failed"]


def test_units_of_a_slow_training_are_run_again_when_there_is_more_time(tmp_path):
    text = "limit_seconds = 0.1\n" + GRID.replace('"nbayes"', '"slow.py:Slow"')
    folder = study(tmp_path / "study", text)
    (folder / "slow.py").write_text(
        "import time\nfrom sklearn.naive_bayes import GaussianNB\n"
        "class Slow(GaussianNB):\n"
        "    def fit(self, X, y):\n"
        "        end = time.thread_time() + 0.3\n"
        "        while time.thread_time() < end:\n"
        "            pass\n"
        "        return super().fit(X, y)\n"
    )
    path = tmp_path / "store.sqlite"
    summary, records = run_all(folder, path)
    assert summary.too_slow == 2
    assert [record.details for record in records] == [{"limit_seconds": 0.1}] * 2
    (folder / "recipe.toml").write_text(text.replace("limit_seconds = 0.1", "limit_seconds = 60"))
    assert run_all(folder, path)[0].done == 2


@pytest.mark.parametrize(("earlier", "reused"), [("5", 0), ("1e+02", 1)])
def test_limits_of_older_records_are_in_their_messages(tmp_path, earlier, reused):
    folder = trials(tmp_path / "study", "nothing", limit=20)
    planned = plan(read_recipe(folder))
    message = f"the trial 'noise' took more than {earlier} seconds of processor time."
    with Store(tmp_path / "store.sqlite") as store:
        store.add(Record(planned.units[0].key, {}, "too slow", message=message))
        assert run(planned, store).reused == reused
