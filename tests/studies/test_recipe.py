"""A recipe is checked as a whole before anything runs, and says what is wrong and where."""

import pytest
from study_folders import GRID, TRIALS, write_study

from calibrant.errors import RecipeError
from calibrant.studies import Store, plan, read_recipe, run
from calibrant.studies.specifications import CalibratorSpec

MINIMAL = """
title = "Mine"
[[data]]
name = "mine"
scores = "mine.npz"
[calibrators]
TempS = "temperature"
[splits]
kind = "given"
[measures]
log_loss = "log_loss"
"""


def read(tmp_path, text, form=None):
    return read_recipe(write_study(tmp_path / "study", text), form)


def test_a_recipe_is_read_in_its_order(tmp_path):
    recipe = read(tmp_path, GRID)
    assert (recipe.name, recipe.title, recipe.form, recipe.seed) == ("study", "Two sets", None, 0)
    assert [data.name for data in recipe.data] == ["first", "second"]
    assert [each.name for each in recipe.calibrators] == ["Uncal", "TempS", "Vector"]
    assert recipe.forms == ("small",)
    assert recipe.splits_of(recipe.data[0]).folds == 3
    assert [each.higher_is_better for each in recipe.measures] == [False, False, True]


def test_a_file_of_another_name_names_the_study(tmp_path):
    write_study(tmp_path / "study", GRID)
    path = tmp_path / "study" / "other.toml"
    path.write_text(TRIALS)
    assert read_recipe(path).name == "other"


def test_a_form_selects_and_replaces(tmp_path):
    recipe = read(tmp_path, GRID, "small")
    assert [len(part) for part in (recipe.data, recipe.classifiers, recipe.calibrators)] == [1, 1, 1]
    splits = recipe.splits_of(recipe.data[0])
    assert (splits.repeats, splits.folds, splits.inner) == (1, 3, 2)


def test_calibrators_in_full(tmp_path):
    text = MINIMAL.replace(
        'TempS = "temperature"',
        """
Grid = { method = "dirichlet", folds = 3, select = "training", refit = "average", grid = { reg_lambda = [1e-3, 1e-5] } }
Parts = { parts = ["temperature", { method = "width-binning", parameters = { n_bins = 5 } }] }
""",
    )
    text = text.replace('scores = "mine.npz"', 'features = "first.npz"').replace('"given"', '"folds"')
    text += '[classifiers]\nnbayes = "nbayes"\n'
    assert read(tmp_path, text).calibrators == (
        CalibratorSpec(
            "Grid",
            "dirichlet",
            grid={"reg_lambda": [1e-3, 1e-5]},
            select="training",
            folds=3,
            refit="average",
        ),
        CalibratorSpec(
            "Parts",
            parts=(
                {"method": "temperature", "parameters": {}},
                {"method": "width-binning", "parameters": {"n_bins": 5}},
            ),
        ),
    )


def test_a_data_set_has_labels_splits_and_parameters_of_its_own(tmp_path):
    text = MINIMAL.replace(
        'scores = "mine.npz"',
        """scores = "mine.npz"
group = "CIFAR-10"
labels = { layers = 110 }
splits = { calibration_rows = [500, 0.5], repeats = 2 }
calibrator_parameters = { TempS = { loss = "brier" } }""",
    )
    recipe = read(tmp_path, text)
    (data,) = recipe.data
    assert dict(data.labels) == {"layers": 110, "group": "CIFAR-10"}
    assert recipe.splits_of(data).calibration_rows == (500, 0.5)
    assert recipe.splits_of(data).repeats == 2
    assert dict(recipe.calibrators_of(data)[0].parameters) == {"loss": "brier"}


def test_a_set_of_another_kind_takes_over_only_what_means_something_for_it(tmp_path):
    text = GRID + '[[data]]\nname = "third"\nscores = "third.npz"\nsplits = { kind = "given" }\n'
    recipe = read(tmp_path, text)
    splits = recipe.splits_of(recipe.data[2])
    assert (splits.kind, splits.repeats) == ("given", 2)
    assert recipe.classifiers_of(recipe.data[2]) == (None,)


def test_a_data_set_may_name_its_classifiers_and_calibrators(tmp_path):
    recipe = read(
        tmp_path,
        GRID.replace(
            'features = "first.npz"',
            'features = "first.npz"\nclassifiers = ["nbayes"]\ncalibrators = ["TempS"]',
        ),
    )
    first, second = recipe.data
    assert [each.name for each in recipe.classifiers_of(first)] == ["nbayes"]
    assert [each.name for each in recipe.calibrators_of(first)] == ["TempS"]
    assert len(recipe.calibrators_of(second)) == 3


WRONG = {
    "no title": ('title = "Mine"', "", "the recipe has no title"),
    "an unknown key of the recipe": (
        'title = "Mine"',
        'title = "Mine"\nsede = 1',
        "unknown key 'sede'; did you mean 'seed'",
    ),
    "no source": (
        'scores = "mine.npz"',
        "",
        "'mine' must have one of features, scores, top_label, generator",
    ),
    "two sources": ('scores = "mine.npz"', 'scores = "a"\nfeatures = "b"', "it has features, scores"),
    "an unknown key of data": (
        'scores = "mine.npz"',
        'scores = "a"\nspcae = "logits"',
        "did you mean 'space'",
    ),
    "an unknown method": ('"temperature"', '"temprature"', "did you mean 'temperature'"),
    "an unknown parameter": (
        '"temperature"',
        '{ method = "temperature", parameters = { lss = 1 } }',
        "TempS.*lss",
    ),
    "an unknown metric": ('"log_loss"', '"log_los"', "log_los"),
    "an unknown convention": ('"log_loss"', '"kull1919.log_loss"', "kull1919"),
    "an unknown kind of splits": (
        '"given"',
        '"givn"',
        "splits: kind must be one of folds, given, random, not 'givn'",
    ),
    "folds of scores": ('kind = "given"', 'kind = "folds"', "have no folds to be trained on"),
    "a key for another kind of splits": (
        'kind = "given"',
        'kind = "given"\ninner = 3',
        'inner has no meaning with kind = "given"',
    ),
    "no rows": (
        'kind = "given"',
        'kind = "given"\ncalibration_rows = [0]',
        "numbers of rows, or fractions below one, not 0",
    ),
    "half a row": (
        'kind = "given"',
        'kind = "given"\ncalibration_rows = 1.5',
        "numbers of rows, or fractions below one, not 1.5",
    ),
    "a share that is no share": (
        'kind = "given"',
        'kind = "given"\ncalibration_rows = [500, 1.0]',
        "numbers of rows, or fractions below one, not 1.0",
    ),
    "choice by rows that there are not": (
        '"temperature"',
        '{ method = "temperature", grid = { loss = ["brier"] }, select = "training" }',
        "'mine' has no training set of a classifier, on which the calibrator 'TempS' is selected",
    ),
    "a table of scores that does not say what they are": (
        'scores = "mine.npz"',
        'scores = "mine.csv"',
        "'mine' is a table of scores; add space",
    ),
    "a second table of scores that does not say what they are": (
        'scores = "mine.npz"',
        'scores = "mine.npz"\ntest = "test.csv"',
        "'mine' is a table of scores; add space",
    ),
    "a label of the name of a measure": (
        'scores = "mine.npz"',
        'scores = "mine.npz"\nlabels = { log_loss = "small" }',
        "label 'log_loss', which is the name of a measure",
    ),
    "a generator that is not there": (
        'scores = "mine.npz"',
        'generator = "own.py:draw"',
        "'mine': own.py:draw: there is no 'draw' in own.py",
    ),
    "a generator that takes no such parameter": (
        'scores = "mine.npz"',
        'generator = "own.py:noise"\nparameters = { levl = 1 }',
        "'mine': own.py:noise cannot be called with seed, data_folder, levl",
    ),
    "text for a number": (
        'kind = "given"',
        'kind = "given"\nrepeats = "5"',
        "repeats must be an integer, not '5'",
    ),
    "true for a number": (
        'kind = "given"',
        'kind = "given"\nrepeats = true',
        "repeats must be an integer, not True",
    ),
    "no repeat": ('kind = "given"', 'kind = "given"\nrepeats = 0', "repeats must be at least 1, not 0"),
    "no time": ('title = "Mine"', 'title = "Mine"\nlimit_seconds = 0', "limit_seconds must be above zero"),
    "no measure": ('log_loss = "log_loss"', "", "there is no measure"),
    "no calibrator": ('TempS = "temperature"', "", "has no calibrator; add one"),
    "a measure that is there anyway": (
        'log_loss = "log_loss"',
        'fit_seconds = "log_loss"',
        "is always there",
    ),
    "a metric and a test": (
        '= "log_loss"',
        '= { metric = "log_loss", test = "log_loss" }',
        "metric or a test, and not both",
    ),
    "an empty grid": (
        '"temperature"',
        '{ method = "temperature", grid = { loss = [] } }',
        "grid of 'loss' must be a list with at least one value",
    ),
    "nothing": (MINIMAL, 'title = "Mine"', "there is nothing to run"),
    "not TOML": ('title = "Mine"', "title = Mine", "recipe.toml is not TOML"),
    "a reserved label": (
        'scores = "mine.npz"',
        'scores = "a"\nlabels = { repeat = 1 }',
        "label 'repeat', which the study sets itself",
    ),
    "an unknown calibrator for a set": (
        'scores = "mine.npz"',
        'scores = "a"\ncalibrators = ["Temps"]',
        "did you mean 'TempS'",
    ),
    "parameters of an unknown calibrator": (
        'scores = "mine.npz"',
        'scores = "a"\ncalibrator_parameters = { X = {} }',
        "'X', which is no calibrator",
    ),
    "an unknown form key": (
        'title = "Mine"',
        'title = "Mine"\nforms = { small = { measures = [] } }',
        "form 'small' has an unknown key 'measures'",
    ),
    "an unknown set in a form": (
        'title = "Mine"',
        'title = "Mine"\nforms = { small = { data = ["min"] } }',
        "did you mean 'mine'",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_has_no_meaning_is_refused_in_one_sentence_that_names_the_file(name, tmp_path):
    before, after, said = WRONG[name]
    assert before in MINIMAL
    with pytest.raises(RecipeError, match=said) as caught:
        read(tmp_path, MINIMAL.replace(before, after))
    assert "recipe.toml" in str(caught.value)
    assert str(caught.value).endswith((".", "?"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "label",
    ["status", "message", "seconds", "fit_seconds", "predict_seconds", "seed", "trial", "fold", "calibrator"],
)
def test_a_label_has_no_name_of_another_column(label, tmp_path):
    text = MINIMAL.replace('scores = "mine.npz"', f'scores = "mine.npz"\nlabels = {{ {label} = 1 }}')
    with pytest.raises(RecipeError, match=f"label '{label}', which the study sets itself"):
        read(tmp_path, text)


@pytest.mark.parametrize("name", ["status", "seconds", "predict_seconds"])
def test_a_measure_has_no_name_of_another_column(name, tmp_path):
    with pytest.raises(RecipeError, match=f"the measure '{name}' is always there"):
        read(tmp_path, MINIMAL.replace('log_loss = "', f'{name} = "'))


def test_a_table_of_a_measure_that_is_not_there(tmp_path):
    with pytest.raises(RecipeError, match="'ece'"):
        read(tmp_path, MINIMAL + '[[tables]]\nname = "one"\nmeasure = "ece"\n')


def test_two_of_the_same_name(tmp_path):
    with pytest.raises(RecipeError, match="two data sets are called 'mine'"):
        read(tmp_path, MINIMAL + '[[data]]\nname = "mine"\nscores = "other.npz"\n')
    table = '[[tables]]\nname = "one"\nmeasure = "log_loss"\n'
    with pytest.raises(RecipeError, match="two tables are called 'one'"):
        read(tmp_path, MINIMAL + table + table)


def test_an_unknown_form(tmp_path):
    with pytest.raises(RecipeError, match="there is no form 'smal'; did you mean 'small'"):
        read(tmp_path, GRID, "smal")


def test_an_unknown_classifier(tmp_path):
    with pytest.raises(RecipeError, match="nbaye"):
        read(tmp_path, GRID.replace('"nbayes"\n\n[cal', '"nbaye"\n\n[cal'))


def test_features_without_a_classifier(tmp_path):
    with pytest.raises(RecipeError, match="holds features, but there is no classifier for it"):
        read(tmp_path, MINIMAL.replace("scores", "features").replace("given", "folds"))


def test_own_code_that_is_not_there(tmp_path):
    with pytest.raises(RecipeError, match=r"there is no file other.py"):
        read(tmp_path, TRIALS.replace("own.py", "other.py"))
    with pytest.raises(RecipeError, match=r"write it as file.py:function"):
        read(tmp_path, TRIALS.replace("own.py:noise", "noise"))


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def run(:\n", "trial.py cannot be read, SyntaxError"),
        ("def other(): pass\n", "there is no 'run' in trial.py"),
        ("run = 7\n", "trial.py:run is not a function, but int"),
        ("def run(*, seed, data_folder, levels): pass\n", "cannot be called with seed, data_folder, level: "),
    ],
)
def test_the_code_of_a_trial_is_checked_by_its_source(code, said, tmp_path):
    folder = write_study(tmp_path / "study", TRIALS.replace("own.py:noise", "trial.py:run"))
    (folder / "trial.py").write_text(code)
    with pytest.raises(RecipeError, match=said) as caught:
        read_recipe(folder)
    assert "the trial 'noise': trial.py:run" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "import no_such_module\ndef run(**_): pass\n",
            "cannot be imported, ModuleNotFoundError: No module named 'no_such_module'",
        ),
        ("def run(**_): pass\nraise SystemExit(3)\n", "cannot be imported, SystemExit: 3"),
        ("run = 'text'.upper()\n", "trial.py:run is not a function, but str"),
    ],
)
def test_the_code_of_a_trial_is_imported_before_anything_runs(code, said, tmp_path):
    folder = write_study(tmp_path / "study", TRIALS.replace("own.py:noise", "trial.py:run"))
    (folder / "trial.py").write_text(code)
    planned = plan(read_recipe(folder))
    with Store(tmp_path / "store.sqlite") as store, pytest.raises(RecipeError, match=said) as caught:
        run(planned, store)
    assert "the trial 'noise': trial.py:run" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_parameter_that_is_a_label_has_no_name_of_another_column(tmp_path):
    text = TRIALS.replace("level = [1, 2]", "message = [1, 2]")
    with pytest.raises(RecipeError, match="parameter 'message', which the study sets itself"):
        read(tmp_path, text)
    text = TRIALS + '[measures]\nlevel = "log_loss"\n'
    with pytest.raises(RecipeError, match="label 'level', which is the name of a measure"):
        read(tmp_path, text)


def test_a_trial_cannot_take_what_the_study_gives(tmp_path):
    with pytest.raises(RecipeError, match="parameter 'seed', which the study sets itself"):
        read(tmp_path, TRIALS.replace("level", "seed"))


def test_a_recipe_that_is_not_there(tmp_path):
    with pytest.raises(
        RecipeError, match=r"there is no recipe .*recipe.toml; name a folder with a recipe.toml"
    ):
        read_recipe(tmp_path)


def test_a_form_without_trials_may_have_tables_of_them(tmp_path):
    text = GRID.replace("[forms.small]", "[forms.small]\ntrials = []") + TRIALS.split("\n", 2)[2]
    recipe = read(tmp_path, text + '[[tables]]\nname = "one"\nmeasure = "worst"\n', "small")
    assert (recipe.trials, len(recipe.tables)) == ((), 1)
