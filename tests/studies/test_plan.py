"""Keys of units change with all that determines a result, and with nothing else."""

import re

import numpy as np
import pytest
from study_folders import GRID, OWN_CODE, TRIALS, write_study

import calibrant
from calibrant.errors import StudyDataError
from calibrant.studies import Record, Store, plan, read_recipe

OWN_CALIBRATOR = '\nOwn = "own_method.py:Own"\n'
OWN_METHOD = "from calibrant.calibrators import TemperatureScaling as Own\n"


@pytest.fixture
def folder(tmp_path):
    write_study(tmp_path / "study", GRID)
    (tmp_path / "study" / "own_method.py").write_text(OWN_METHOD)
    return tmp_path / "study"


def planned(folder, text=GRID, form=None):
    (folder / "recipe.toml").write_text(text)
    return plan(read_recipe(folder, form))


def keys(folder, text=GRID, form=None):
    return {unit.key for unit in planned(folder, text, form).units}


def test_all_is_crossed(folder):
    units = planned(folder).units
    assert len(units) == 2 * 2 * 3 * 2 * 3
    assert len({unit.key for unit in units}) == len(units)
    assert units[0].labels == {
        "data": "first",
        "classifier": "logistic",
        "calibrator": "Uncal",
        "repeat": 0,
        "fold": 0,
    }
    assert all(re.fullmatch("[0-9a-f]{64}", unit.key) for unit in units)


def test_the_small_form_shares_its_units_with_the_whole(folder):
    small = keys(folder, form="small")
    assert len(small) == 3
    assert small < keys(folder)


SAME = {
    "names of calibrators": ("TempS", '"Temperature scaling"'),
    "names of classifiers": ('nbayes = "nbayes"', '"naive Bayes" = "nbayes"'),
    "names of data": ('name = "first"', 'name = "the first"'),
    "labels": ('name = "first"', 'name = "first"\ngroup = "small"'),
    "the title": ("Two sets", "Three sets"),
    "the time limit": ('title = "Two sets"', 'title = "Two sets"\nlimit_seconds = 5'),
    "the order of calibrators": ('TempS = "temperature"\nVector = "vector"', 'Vector = "vector"\nTempS = "temperature"'),
    "the order of measures": ('log_loss = "log_loss"\nece = "confidence_ece"', 'ece = "confidence_ece"\nlog_loss = "log_loss"'),
    "which of two is better": ('ece = "confidence_ece"', 'ece = { metric = "confidence_ece", better = "higher" }'),
    "tables": ("[forms.small]", '[[tables]]\nname = "one"\nmeasure = "ece"\n[forms.small]'),
    "a way of searching where there is nothing to search": ('"temperature"', '{ method = "temperature", folds = 7 }'),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_keys_do_not_hang_on(name, folder):
    before, after = SAME[name]
    assert before in GRID
    changed = GRID.replace(before, after)
    if "names of" in name:
        changed = re.sub(r"\[forms.small\].*", "", changed, flags=re.DOTALL)
    assert keys(folder, changed) == keys(folder)


ALL_DIFFERENT = {
    "a measure": ('ece = "confidence_ece"', 'ece = "confidence_ece"\nbrier = "brier_score"'),
    "the name of a measure": ('ece = "', 'ECE = "'),
    "options of a measure": ('"confidence_ece"\np', '{ metric = "confidence_ece", parameters = { n_bins = 7 } }\np'),
    "resamples": ("resamples = 20", "resamples = 21"),
    "the seed": ('title = "Two sets"', 'title = "Two sets"\nseed = 1'),
    "the number of folds": ("folds = 3", "folds = 4"),
    "the number of inner folds": ("inner = 2", "inner = 3"),
    "how folds are combined": ("inner = 2", 'inner = 2\ncombine = "pooled"'),
}  # fmt: skip


@pytest.mark.parametrize("name", ALL_DIFFERENT)
def test_all_keys_change_with(name, folder):
    before, after = ALL_DIFFERENT[name]
    assert before in GRID
    assert not keys(folder, GRID.replace(before, after)) & keys(folder)


SOME_DIFFERENT = {
    "a parameter of a calibrator": (
        '"temperature"',
        '{ method = "temperature", parameters = { loss = "brier" } }',
        24,
    ),
    "a parameter for one set": (
        'features = "first.npz"',
        'features = "first.npz"\ncalibrator_parameters = { TempS = { loss = "brier" } }',
        12,
    ),
    "a parameter of a classifier": (
        'nbayes = "nbayes"',
        'nbayes = { estimator = "nbayes", parameters = { var_smoothing = 1e-3 } }',
        36,
    ),
    "an option of a set": ('features = "first.npz"', 'features = "first.npz"\nstandardise = true', 36),
    "another repeat": ("repeats = 2", "repeats = 1", 36),
}


@pytest.mark.parametrize("name", SOME_DIFFERENT)
def test_only_their_keys_change_with(name, folder):
    before, after, number = SOME_DIFFERENT[name]
    assert before in GRID
    assert len(keys(folder) - keys(folder, GRID.replace(before, after))) == number


def test_keys_change_with_the_content_of_the_data(folder):
    before = keys(folder)
    with np.load(folder / "first.npz") as file:
        X, y = file["X"], file["y"]
    np.savez(folder / "first.npz", X=X + 1e-9, y=y)
    assert len(before - keys(folder)) == 36


def test_keys_do_not_hang_on_where_things_are(folder, tmp_path):
    before = keys(folder)
    folder.rename(tmp_path / "elsewhere")
    assert keys(tmp_path / "elsewhere") == before


def test_keys_change_with_own_code_and_only_those_of_its_units(folder):
    text = GRID.replace('TempS = "temperature"', 'TempS = "temperature"' + OWN_CALIBRATOR)
    before = keys(folder, text)
    assert len(before) == 96
    (folder / "own_method.py").write_text(OWN_METHOD + "# with other words\n")
    assert len(before - keys(folder, text)) == 24


def test_keys_change_with_the_version_of_calibrant(folder, monkeypatch):
    before = keys(folder)
    monkeypatch.setattr(calibrant, "__version__", "99.0")
    assert not before & keys(folder)


def test_a_calibrator_that_needs_the_training_rows_changes_no_other_keys(folder):
    text = GRID.replace(
        'Vector = "vector"',
        'Vector = "vector"\nGrid = { method = "width-binning", grid = { n_bins = [5, 10] }, select = "training" }',
    )
    assert keys(folder) < keys(folder, text)


def test_two_names_for_the_same_are_one_key_and_two_units(folder):
    text = GRID.replace('Vector = "vector"', 'Again = "temperature"')
    units = planned(folder, text).units
    assert len(units) == 72
    assert len({unit.key for unit in units}) == 48


def test_trials_are_crossed_and_labelled(folder):
    units = planned(folder, TRIALS).units
    assert [unit.labels for unit in units[:4]] == [
        {"trial": "noise", "level": 1, "seed": 0},
        {"trial": "noise", "level": 1, "seed": 1},
        {"trial": "noise", "level": 1, "seed": 2},
        {"trial": "noise", "level": 2, "seed": 0},
    ]
    assert len({unit.key for unit in units}) == 6


def test_keys_of_trials_change_with_code_files_and_parameters(folder):
    text = TRIALS.replace("seeds = 3", 'seeds = 3\nfiles = ["first.npz"]')
    before = keys(folder, text)
    assert keys(folder, text.replace("seeds = 3", "seeds = 2")) < before
    assert keys(folder, text.replace('name = "noise"', 'name = "other"')) == before
    assert len(keys(folder, text.replace("[1, 2]", "[1, 3]")) & before) == 3
    assert not keys(folder, TRIALS) & before
    (folder / "own.py").write_text(OWN_CODE + "# with other words\n")
    assert not keys(folder, text) & before
    (folder / "own.py").write_text(OWN_CODE)
    np.savez(folder / "first.npz", X=np.zeros((3, 1)), y=np.arange(3))
    assert not keys(folder, text) & before


def test_an_absent_file_is_an_error_before_anything_runs(folder):
    (folder / "second.npz").unlink()
    with pytest.raises(StudyDataError, match=r"'second'.*second.npz") as caught:
        planned(folder)
    assert "\n" not in str(caught.value)


def test_an_absent_file_of_an_optional_set_leaves_it_out(folder):
    (folder / "second.npz").unlink()
    found = planned(
        folder, GRID.replace('features = "second.npz"', 'features = "second.npz"\noptional = true')
    )
    assert found.absent == (("second", "there is no file second.npz"),)
    assert {unit.labels["data"] for unit in found.units} == {"first"}


def test_an_absent_file_of_a_trial(folder):
    text = TRIALS.replace("seeds = 3", 'seeds = 3\nfiles = ["other.npz"]')
    with pytest.raises(StudyDataError, match=r"trial 'noise': there is no file other.npz"):
        planned(folder, text)
    found = planned(folder, text.replace("seeds = 3", "seeds = 3\noptional = true"))
    assert (found.units, found.absent) == ((), (("noise", "there is no file other.npz"),))


def test_data_are_found_in_a_folder_of_their_own(folder, tmp_path):
    before = keys(folder)
    (tmp_path / "data").mkdir()
    for name in ("first.npz", "second.npz"):
        (folder / name).rename(tmp_path / "data" / name)
    assert {unit.key for unit in plan(read_recipe(folder), tmp_path / "data").units} == before


def test_records_have_the_labels_of_the_present_plan(folder, tmp_path):
    first = planned(folder)
    with Store(tmp_path / "store.sqlite") as store:
        for unit in first.units[:3]:
            store.add(Record(unit.key, unit.labels, "done", {"log_loss": 1.0}))
        store.add(Record("of something else", {}, "done"))
        renamed = re.sub(r"\[forms.small\].*", "", GRID.replace("TempS", "T"), flags=re.DOTALL)
        records = planned(folder, renamed).records(store)
    assert [record.labels["calibrator"] for record in records] == ["Uncal", "T", "Vector"]
