"""Tables and pictures that ask for what no unit could have are refused, in one sentence, by whole recipes and by forms."""

import pytest

from calibrant.errors import RecipeError
from calibrant.studies import Results, plan, read_recipe, write_report
from calibrant.studies.shown_checks import check_shown

RECIPE = """
title = "Two sets and a trial"
[[data]]
name = "cats"
features = "cats.npz"
optional = true
labels = { group = "animals" }
[[data]]
name = "stones"
features = "stones.npz"
optional = true
[classifiers]
logistic = "logistic"
nbayes = "nbayes"
[calibrators]
Uncal = "uncalibrated"
TempS = "temperature"
Bins = { method = "width-binning", grid = { n_bins = [5, 10] } }
Both = "temperature+dirichlet-l2"
[splits]
kind = "folds"
repeats = 2
folds = 3
[measures]
log_loss = "log_loss"
[[trials]]
name = "climbing"
function = "own.py:run"
parameters = { stride = [1, 2.5], wind = [true, false], boots = [["a", "b"], "c"], noise = 0.5 }
seeds = 3
[forms.small]
data = ["cats"]
calibrators = ["Uncal"]
trials = []
splits = { repeats = 1 }
[[tables]]
name = "t"
"""


def planned(folder, text, form=None, name="recipe.toml"):
    (folder / "own.py").write_text(
        "def run(*, seed, data_folder, **parameters):\n    return {'height': seed}\n"
    )
    (folder / name).write_text(RECIPE + text)
    return plan(read_recipe(folder / name, form), folder)


def picture(kind, text):
    return f'measure = "log_loss"\n[[pictures]]\nname = "p"\nkind = "{kind}"\n{text}\n'


LOSS = 'measure = "log_loss"\n'
GOOD = [
    LOSS,
    LOSS
    + 'rows = ["group", "data", "classifier", "fold"]\nwhere = { classifier = "nbayes", fold = 2, repeat = [0, 1] }',
    'measures = ["a", "b"]\nrows = "stride"\ncolumns = "measure"\nrelative_to = "a"',
    LOSS + 'columns = "measure"\nrelative_to = "log_loss"',
    LOSS + 'friedman = true\ncontrol = "TempS"\nunranked = ["Uncal"]\nrelative_to = "Bins"',
    'measure = "height"\nrows = "trial"\ncolumns = "wind"\nwhere = { stride = [1, 2.5], wind = true, boots = "a b" }',
    picture(
        "critical-difference", LOSS + 'tasks = ["data", "group"]\ntest = "bonferroni-dunn"\ncontrol = "Uncal"'
    ),
    picture("pass-rate", LOSS + 'by = "classifier"'),
    picture("lines", LOSS + 'x = "repeat"\nseries = "data"'),
    picture("series", 'trial = "climbing"\nx = "step"\ny = "height"\nby = "stride"'),
    picture("bars", LOSS + 'by = "data"\nseries = "calibrator"\nrelative_to = "cats"'),
    picture("bars", LOSS + 'by = "data"\nseries = "calibrator"\nrelative_to = "TempS"'),
    picture("chosen", 'calibrator = "Bins"\nparameter = "n_bins"\nby = "data"'),
    picture("chosen", 'calibrator = "Both"\nparameter = "1.reg_lambda"'),
    picture("probabilities", 'data = "cats"\nclassifier = "nbayes"\ncalibrators = ["TempS"]\nfold = 1'),
]
BAD = [
    (LOSS + 'rows = "dat"', "the table 't' asks for rows by 'dat', which no unit has; did you mean 'data'?"),
    (LOSS + 'rows = ["data", "nosie"]', "rows by 'nosie'"),
    (LOSS + 'rows = "noise"', "rows by 'noise', which no unit has; known are "),
    (LOSS + 'columns = "calibratr"', "columns by 'calibratr'"),
    (LOSS + "where = { dta = 1 }", "asks for units by 'dta', which no unit has; did you mean 'data'?"),
    (
        LOSS + 'where = { data = ["cats", "stone"] }',
        "data = 'stone', which no unit has; did you mean 'stones'?",
    ),
    (LOSS + "where = { fold = 3 }", "fold = '3', which no unit has; known are 0, 1, 2."),
    (LOSS + "where = { stride = 3 }", "stride = '3'"),
    (LOSS + 'friedman = true\ncontrol = "TempSc"', "control = 'TempSc', which is none of its columns"),
    (
        LOSS + 'relative_to = "uncal"',
        "relative_to = 'uncal', which is none of its columns; did you mean 'Uncal'?",
    ),
    (LOSS + 'relative_to = "Bins"\nwhere = { calibrator = ["Uncal", "TempS"] }', "relative_to = 'Bins'"),
    (LOSS + 'ranks = true\nunranked = ["Unca"]', "unranked = 'Unca'"),
    (picture("critical-difference", LOSS + 'tasks = ["dat"]'), "the picture 'p' asks for tasks = 'dat'"),
    (picture("critical-difference", LOSS + 'columns = "clasifier"'), "columns = 'clasifier'"),
    (picture("critical-difference", LOSS + 'test = "bonferroni-dunn"\ncontrol = "U"'), "control = 'U'"),
    (picture("pass-rate", LOSS + 'by = "calbrator"'), "by = 'calbrator'"),
    (picture("lines", LOSS + 'x = "calibration_rows"'), "x = 'calibration_rows', which no unit has"),
    (picture("lines", LOSS + 'x = "fold"\nseries = "clasifier"'), "series = 'clasifier'"),
    (picture("measures", 'x = [1]\nmeasures = ["log_loss"]\nseries = "dat"'), "series = 'dat'"),
    (picture("series", 'trial = "climbin"\nx = "x"\ny = "y"'), "trial = 'climbin', which no unit has"),
    (picture("series", 'trial = "climbing"\nx = "x"\ny = "y"\nby = "strid"'), "by = 'strid'"),
    (
        picture("bars", LOSS + 'by = "data"\nrelative_to = "cat"'),
        "relative_to = 'cat', which is none of its bars",
    ),
    (picture("chosen", 'calibrator = "Binss"\nparameter = "n_bins"'), "calibrator = 'Binss'"),
    (picture("chosen", 'calibrator = "Bins"\nparameter = "n_bin"'), "'n_bin', which Bins does not have"),
    (picture("probabilities", 'data = "cat"'), "data = 'cat'"),
    (picture("probabilities", 'data = "cats"\nclassifier = "nbaies"'), "classifier = 'nbaies'"),
    (picture("probabilities", 'data = "cats"\ncalibrators = ["Temp"]'), "calibrators = 'Temp'"),
    (picture("lines", LOSS + 'x = "fold"\nwhere = { clssifier = "nbayes" }'), "units by 'clssifier'"),
]


@pytest.mark.parametrize("form", [None, "small"])
@pytest.mark.parametrize("name", ["recipe.toml", "mine.toml"])
@pytest.mark.parametrize("text", GOOD)
def test_what_a_recipe_could_give_may_be_shown_by_every_form(tmp_path, text, form, name):
    check_shown(planned(tmp_path, text, form, name))


@pytest.mark.parametrize("form", [None, "small"])
@pytest.mark.parametrize(("text", "words"), BAD)
def test_what_no_unit_could_have_is_refused(tmp_path, text, words, form):
    with pytest.raises(RecipeError) as error:
        check_shown(planned(tmp_path, text, form))
    assert words in str(error.value)
    assert str(error.value).endswith((".", "?"))


def test_values_that_are_lists_are_not_checked(tmp_path):
    check_shown(planned(tmp_path, LOSS + 'where = { boots = "a b" }', "small"))


def test_a_picture_of_a_measure_that_is_not_there_is_refused_where_no_trial_could_give_it(tmp_path):
    text = RECIPE[: RECIPE.index("[[trials]]")] + RECIPE[RECIPE.index("[[tables]]") :]
    (tmp_path / "recipe.toml").write_text(text + picture("pass-rate", 'measure = "loss"'))
    with pytest.raises(RecipeError, match="the measure 'loss', which the recipe does not have"):
        check_shown(plan(read_recipe(tmp_path), tmp_path))


def test_a_form_whose_file_has_gone_is_checked_for_its_figures_alone(tmp_path):
    found = planned(tmp_path, LOSS + 'rows = "dat"\nfigures = "f.csv"', "small")
    (tmp_path / "recipe.toml").unlink()
    with pytest.raises(RecipeError, match=r"the table 't': the figures f\.csv cannot be read"):
        check_shown(found)
    (tmp_path / "f.csv").write_text("dat,Uncal\ncats,1\n")
    check_shown(found)


def test_no_report_is_begun_that_cannot_be_finished(tmp_path):
    (tmp_path / "f.csv").write_text("data,Uncal\ncats,many\n")
    results = Results(planned(tmp_path, LOSS + 'figures = "f.csv"'), [])
    with pytest.raises(RecipeError, match="'many' where a number should be"):
        write_report(results, tmp_path / "report")
    results = Results(planned(tmp_path, LOSS + 'rows = "dat"'), [])
    with pytest.raises(RecipeError, match="did you mean 'data'"):
        write_report(results, tmp_path / "report")
    assert not (tmp_path / "report").exists()
