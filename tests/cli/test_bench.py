"""calibrant bench: run, go on, status, report, forget and list."""

# ruff: noqa: F811 (fixtures are imported, since a second file of fixtures would confuse the doctests)

import csv
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from animal_files import folder, run  # noqa: F401

from calibrant.cli.commands import bench as bench_progress
from calibrant.studies import Progress, Record, Store, plan, read_recipe
from calibrant.studies.recipe import shipped_recipes

RECIPE = """
title = "Two animals"
[[data]]
name = "cats"
scores = "cats.npz"
[[data]]
name = "dogs"
scores = "dogs.npz"
[[data]]
name = "whales"
scores = "whales.npz"
optional = true
[calibrators]
Uncal = "uncalibrated"
TempS = "temperature"
Own = "own.py:Broken"
[splits]
kind = "given"
calibration_rows = [60]
repeats = 2
[measures]
log_loss = "log_loss"
accuracy = "accuracy"
[forms.small]
data = ["cats"]
calibrators = ["Uncal", "TempS"]
[[tables]]
name = "losses"
measure = "log_loss"
"""

OWN = """
from calibrant import TemperatureScaling

class Broken(TemperatureScaling):
    def _fit(self, data):
        raise ArithmeticError("no way")
"""


@pytest.fixture
def study(folder, monkeypatch):
    """A folder with a recipe, its data and a calibrator that fails."""
    monkeypatch.delenv("CALIBRANT_DATA", raising=False)
    place = folder / "animals"
    place.mkdir()
    (place / "recipe.toml").write_text(RECIPE)
    (place / "own.py").write_text(OWN)
    generator = np.random.default_rng(0)
    for name in ("cats", "dogs"):
        logits = 2 * generator.normal(size=(200, 3))
        labels = (0.5 * logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
        arrays = {"val_logits": logits[:100], "val_labels": labels[:100]}
        np.savez(place / f"{name}.npz", **arrays, test_logits=logits[100:], test_labels=labels[100:])
    return place


def test_a_study_is_run_and_reported(run, study):
    result = run("bench run animals")
    assert result.stdout.startswith("animals: 12 units, of which 12 run now.\nTime: ")
    assert result.stdout.endswith("The report is in animals-results/report.html.\n")
    assert "Note: whales is left out: " in result.stderr
    assert result.stderr.splitlines()[-1].startswith(
        "Note: 4 units failed or were too slow; see animals-results/report.html for the reasons"
    )
    assert Path("animals.sqlite").is_file()
    with Path("animals-results/tables/losses.csv").open() as file:
        rows = {(row["data"], row["calibrator"]): row for row in csv.DictReader(file)}
    assert float(rows["cats", "TempS"]["ours"]) < float(rows["cats", "Uncal"]["ours"])
    assert rows["dogs", "Own"]["n_units"] == "0"
    assert "ArithmeticError: no way" in Path("animals-results/report.md").read_text()


def test_what_is_there_is_not_run_again(run, study):
    run("bench run animals --form small")
    assert Path("animals-results/small/report.md").is_file()
    before = Path("animals-results/small/results.csv").read_bytes()
    assert "4 units, of which 0 run now" in run("bench run animals --form small").stdout
    assert Path("animals-results/small/results.csv").read_bytes() == before
    assert (
        "12 units, of which 8 run now" in run("bench run animals/recipe.toml").stdout
    )  # the small form is a part
    assert "12 units, of which 4 run now" in run("bench run animals --retry-failed").stdout


def test_another_store_continues_from_exported_units(run, study):
    run("bench run animals --form small")
    assert run("bench export animals units.csv.xz").stdout == "Wrote units.csv.xz (4 units of 12).\n"
    Path("animals.sqlite").unlink()
    assert run("bench import animals units.csv.xz").stdout == "Added 4 units to animals.sqlite.\n"
    assert "4 units, of which 0 run now" in run("bench run animals --form small").stdout
    again = run("bench import animals units.csv.xz --form small")
    assert again.stdout == "Added 0 units to animals.sqlite.\n"
    assert again.stderr.endswith("Note: 4 units of units.csv.xz are in the store already.\n")
    (study / "recipe.toml").write_text("seed = 5\n" + RECIPE)
    changed = run("bench import animals units.csv.xz --store other.sqlite")
    assert "Note: 4 units of units.csv.xz are left out: animals has other units" in changed.stderr


def test_files_can_be_named(run, study, folder):
    (folder / "elsewhere").mkdir()
    for name in ("cats", "dogs"):
        (study / f"{name}.npz").rename(folder / "elsewhere" / f"{name}.npz")
    result = run("bench run animals", 1)
    assert result.stderr.startswith("Error: data set 'cats': there is no file cats.npz in ")
    assert not Path("animals.sqlite").exists()
    run("bench run animals --data elsewhere --store other.sqlite -o deep/down --form small")
    assert Path("other.sqlite").is_file()
    assert Path("deep/down/report.html").is_file()


def test_the_data_folder_may_come_from_the_environment(run, study, folder, monkeypatch):
    (folder / "elsewhere").mkdir()
    (study / "cats.npz").rename(folder / "elsewhere" / "cats.npz")
    monkeypatch.setenv("CALIBRANT_DATA", "elsewhere")
    run("bench run animals --form small")
    monkeypatch.setenv("CALIBRANT_DATA", "nowhere")
    assert "the data folder nowhere does not exist" in run("bench run animals --form small", 1).stderr


def test_status_tells_what_is_there_what_is_left_and_what_failed(run, study):
    empty = run("bench status animals").stdout
    assert empty.startswith("animals: 0 of 12 units done\n")
    assert "12 units to be run; no time estimate yet." in empty
    assert not Path("animals.sqlite").exists()
    run("bench run animals --form small")
    assert "8 units to be run, in about" in run("bench status animals --jobs 2").stdout
    run("bench run animals")
    content = json.loads(run("bench status animals --format json").stdout)
    assert {name: content[name] for name in ("units", "done", "failed", "too_slow", "open")} == {
        "units": 12, "done": 8, "failed": 4, "too_slow": 0, "open": 0,
    }  # fmt: skip
    assert content["seconds_left"] == 0
    assert content["absent"][0]["name"] == "whales"
    (failure,) = content["failures"]
    assert failure["units"] == 4
    assert failure["message"] == "the calibrator failed: ArithmeticError: no way."
    assert [part["name"] for part in content["parts"]] == ["cats", "dogs"]
    assert "4 units failed (data: cats, dogs; calibrator: Own;" in " ".join(
        run("bench status animals").stdout.split()
    )


def test_results_can_be_forgotten(run, study):
    run("bench run animals")
    assert run("bench forget animals --failed").stdout == "Removed 4 results from animals.sqlite.\n"
    assert run("bench forget animals --where data=cats --where calibrator=TempS").stdout.startswith(
        "Removed 2 results"
    )
    assert run("bench forget animals --where calibrator=Uncal --failed").stdout.startswith(
        "Removed 0 results"
    )
    assert "12 units, of which 6 run now" in run("bench run animals").stdout
    assert "unknown label 'dat'" in run("bench forget animals --where dat=cats", 1).stderr
    assert "takes LABEL=VALUE" in run("bench forget animals --where cats", 1).stderr
    assert "select what to remove" in run("bench forget animals", 2).stderr


def changed(study, old, new=""):
    """Change the text of a recipe."""
    text = (study / "recipe.toml").read_text()
    assert old in text
    (study / "recipe.toml").write_text(text.replace(old, new))


WHALES = '[[data]]\nname = "whales"\nscores = "whales.npz"\noptional = true\n'


def test_only_what_no_form_asks_for_is_old(run, study):
    changed(study, WHALES)
    run("bench run animals")
    assert run("bench forget animals --form small --old").stdout.startswith("Removed 0 results")
    changed(study, 'Own = "own.py:Broken"')
    said = run("bench forget animals --form small --old --dry-run").stdout
    assert said == "4 results would be removed from animals.sqlite.\n"
    assert run("bench forget animals --form small --old").stdout == "Removed 4 results from animals.sqlite.\n"


def test_nothing_is_old_while_data_are_absent(run, study):
    (study / "whales.npz").write_bytes((study / "cats.npz").read_bytes())
    run("bench run animals")
    (study / "whales.npz").rename(study / "away.npz")
    error = run("bench forget animals --form small --old", 1).stderr.splitlines()[-1]
    assert error.startswith(
        "Error: whales cannot be found (there is no file whales.npz), so its results would be treated as old"
    )
    (study / "away.npz").rename(study / "whales.npz")
    assert "of which 0 run now" in run("bench run animals").stdout


def test_results_of_other_studies_in_the_same_store_are_not_old(run, study, folder):
    changed(study, WHALES)
    shutil.copytree(study, folder / "beasts")
    changed(folder / "beasts", "repeats = 2", "repeats = 3")
    changed(folder / "beasts", "calibration_rows = [60]", "calibration_rows = [50]")
    run("bench run animals --store both.sqlite")
    run("bench run beasts --store both.sqlite")
    assert run("bench forget animals --store both.sqlite --old").stdout.startswith("Removed 0 results")
    assert run("bench forget beasts --store both.sqlite --old").stdout.startswith("Removed 0 results")
    assert "of which 0 run now" in run("bench run beasts --store both.sqlite").stdout


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('figures = "none.csv"', "the table 'losses': the figures none.csv cannot be read"),
        (
            'rows = "dat"',
            "the table 'losses' asks for rows by 'dat', which no unit has; did you mean 'data'?",
        ),
    ],
)
@pytest.mark.parametrize("form", ["", " --form small"])
def test_what_cannot_be_shown_is_refused_before_anything_is_run(run, study, line, words, form):
    changed(study, 'measure = "log_loss"\n', f'measure = "log_loss"\n{line}\n')
    for command in ("run", "report"):
        assert words in run(f"bench {command} animals{form}", 1).stderr
    assert not Path("animals.sqlite").exists()
    assert not Path("animals-results").exists()


def test_a_run_in_which_everything_fails_says_so(run, study):
    changed(study, "calibration_rows = [60]", "calibration_rows = [5000]")
    result = run("bench run animals", 1)
    assert result.stderr.splitlines()[-1].startswith(
        "Error: no unit finished: all 12 failed or were too slow; see animals-results/report.html for the reasons"
    )
    assert Path("animals-results/report.html").is_file()


def test_a_run_without_any_unit_says_so(run, study):
    for name in ("cats", "dogs"):
        (study / f"{name}.npz").unlink()
        changed(study, f'"{name}.npz"\n', f'"{name}.npz"\noptional = true\n')
    assert "nothing to run: all data" in run("bench run animals", 1).stderr


@pytest.mark.skipif(
    not Path("/proc/self").is_dir(), reason="no folder that takes no files even from the superuser"
)
def test_a_place_that_takes_no_report_is_refused_before_anything_is_run(run, study):
    for place in ("/proc", "/proc/new/folder"):
        assert (
            f"Error: the report cannot be written to {place} ("
            in run(f"bench run animals -o {place}", 1).stderr
        )
    assert not Path("animals.sqlite").exists()


def test_lines_of_progress_come_although_no_unit_ends(monkeypatch, capsys):
    monkeypatch.setattr(bench_progress, "SECONDS_BETWEEN_FIRST_LINES", 0.02)
    with bench_progress.StudyProgress() as progress:
        progress.update(Progress(0, 0, 7, "", 0.0, None))
        deadline = time.monotonic() + 20
        lines = []
        while len(lines) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
            lines += capsys.readouterr().err.splitlines()
    assert len(lines) >= 3
    assert all(re.match(r"0 of 7 units, [\d.]+ m?s so far", line) for line in lines[:3])


def test_lines_of_progress_become_rarer(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(bench_progress.time, "monotonic", lambda: now[0])
    progress, said = bench_progress.StudyProgress(), []
    for now[0] in range(1, 130):
        progress.update(Progress(int(now[0]), 0, 200, "x", now[0], None))
        if capsys.readouterr().err:
            said.append(now[0])
    assert said == [1, 11, 21, 31, 41, 51, 81, 111]


def test_a_changed_recipe_does_not_mix_with_old_results(run, study):
    run("bench run animals --form small")
    text = (study / "recipe.toml").read_text()
    (study / "recipe.toml").write_text(text.replace('"temperature"', '"vector"'))
    assert "2 of 4 units done" in run("bench status animals --form small").stdout
    run("bench report animals --form small")
    with Path("animals-results/small/tables/losses.csv").open() as file:
        rows = {row["calibrator"]: row for row in csv.DictReader(file)}
    assert (rows["Uncal"]["n_units"], rows["TempS"]["n_units"], rows["TempS"]["ours"]) == ("2", "0", "")


def test_a_report_needs_a_store(run, study):
    assert "there is no store animals.sqlite" in run("bench report animals", 1).stderr
    assert "there is no store animals.sqlite" in run("bench forget animals --failed", 1).stderr


def test_a_store_that_is_none_is_refused(run, study):
    Path("animals.sqlite").write_text(
        "something else, which is long enough to be taken for a header of a database"
    )
    result = run("bench run animals", 1)
    assert (
        result.stderr.splitlines()[-1]
        == "Error: animals.sqlite is not a store of calibrant; name another file."
    )


def test_recipes_are_listed(run, study, folder):
    (folder / "broken").mkdir()
    (folder / "broken" / "recipe.toml").write_text("title = 1")
    text = run("bench list").stdout
    assert text.startswith(f"{1 + len(shipped_recipes())} recipes\n")
    assert "animals" in text
    assert "kull2019-uci" in text
    assert "small" in text
    assert "broken/recipe.toml cannot be used: " in text
    content = json.loads(run("bench list animals --format json").stdout)
    assert content["recipes"] == [{"recipe": "animals", "title": "Two animals", "forms": ["small"]}]
    assert run("bench list broken").stdout.startswith("0 recipes")


def test_a_recipe_of_the_package_is_known_by_its_name(run, folder):
    """Without a store there is nothing done yet, but the plan has its units."""
    content = json.loads(run(f"bench status wenger2020 --data {folder} --format json").stdout)
    assert content["study"] == "wenger2020"
    assert content["done"] == 0


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("bench run nothing", 1, "nothing"),
        ("bench run animals --form large", 1, "large"),
        ("bench run animals --jobs 0", 2, "--jobs must be at least 1"),
        ("bench run animals --scheduler tcp://x:1", 2, "--scheduler is for --backend dask"),
        ("bench run animals -o animals/recipe.toml", 2, "is a file"),
        ("bench list nothing", 2, "does not exist"),
        ("bench", 2, "Commands"),
    ],
)
def test_mistakes_are_told_in_one_sentence(run, study, line, code, words):
    result = run(line, code)
    assert words in result.output
    assert "Traceback" not in result.output


SLOW = """
import time
from calibrant import TemperatureScaling

class Broken(TemperatureScaling):
    def _fit(self, data):
        print("fitting", flush=True)
        time.sleep(60)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such signal")
@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupt_keeps_what_is_finished_and_says_how_to_go_on(study, folder, jobs):
    (study / "own.py").write_text(SLOW)
    command = [sys.executable, "-m", "calibrant", "bench", "run", "animals", "--jobs", str(jobs)]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout.readline() == "fitting\n"
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert "are saved in animals.sqlite. Give the same command again to resume." in errors
    assert "The report" not in output


# Who runs code


TRAP = """
from pathlib import Path

Path("it-ran").touch()

def leave(**parameters):
    Path("it-ran").touch()

def rows(*, seed, data_folder):
    leave()

def trial(*, seed, data_folder):
    leave()
    return {"value": 1.0}

class Classifier:
    def __init__(self):
        leave()

class Calibrator:
    def __init__(self):
        leave()
"""

TRAPS = """
title = "Traps"
[[data]]
name = "cats"
scores = "cats.npz"
calibrators = ["TempS", "Own", "Parts"]
[[data]]
name = "rows"
generator = "trap.py:rows"
calibrators = ["TempS"]
classifiers = []
[[data]]
name = "table"
features = "table.csv"
label = "y"
calibrators = ["TempS"]
[classifiers]
own = "trap.py:Classifier"
installed = "installed_trap:Classifier"
shell = { estimator = "subprocess:Popen", parameters = { args = ["touch", "it-ran"] } }
[calibrators]
TempS = "temperature"
Own = "trap.py:Calibrator"
Parts = { parts = [{ method = "temperature" }, { method = "trap.py:Calibrator" }] }
[splits]
kind = "random"
[measures]
log_loss = "log_loss"
[[trials]]
name = "trial"
function = "trap.py:trial"
[[pictures]]
name = "chosen"
kind = "chosen"
calibrator = "Own"
parameter = "depth"
[[pictures]]
name = "predictions"
kind = "probabilities"
data = "cats"
"""


@pytest.fixture
def traps(study, folder):
    """A recipe whose every piece of own code leaves a file behind."""
    place = folder / "traps"
    place.mkdir()
    (place / "recipe.toml").write_text(TRAPS.replace("classifiers = []\n", ""))
    (place / "trap.py").write_text(TRAP)
    (folder / "installed_trap.py").write_text(TRAP)
    (place / "table.csv").write_text("a,y\n1,0\n2,1\n")
    shutil.copy(study / "cats.npz", place / "cats.npz")
    return place


@pytest.mark.parametrize(
    "command",
    [
        "bench list .",
        "bench status traps",
        "bench report traps",
        "bench forget traps --failed",
        "bench forget traps --old --dry-run",
    ],
)
def test_only_running_a_study_runs_its_code(traps, folder, command, monkeypatch):
    """In a process of its own, whose folder is on the path of modules, as in ``python -m calibrant``."""
    monkeypatch.syspath_prepend(str(folder))
    with Store(folder / "traps.sqlite") as store:
        planned = plan(read_recipe(traps), traps)
        store.add(*(Record(unit.key, dict(unit.labels), "done", {"log_loss": 1.0}) for unit in planned.units))
    done = subprocess.run(
        [sys.executable, "-m", "calibrant", *command.split()],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not (folder / "it-ran").exists()
    if command == "bench report traps":
        assert "code of the recipe" in (folder / "traps-results" / "report.md").read_text()


def test_running_a_study_imports_its_code_first(run, traps, folder, monkeypatch):
    monkeypatch.syspath_prepend(str(folder))
    result = run("bench run traps", 1)
    assert (folder / "it-ran").exists()
    assert "Own" in result.stderr
    assert not (folder / "traps.sqlite").exists()
