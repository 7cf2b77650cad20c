"""Defaults from calibrant.toml and pyproject.toml, methods by task, and tables for LaTeX."""

# ruff: noqa: F811 (fixtures are imported, since a second file of fixtures would confuse the doctests)

import json
import logging

import pytest
from animal_files import folder, run  # noqa: F401

from calibrant import registry
from calibrant.cli.commands.methods import START
from calibrant.cli.progress import Progress, messages_in

LINE = "evaluate val.csv --metrics accuracy --no-tests --format json"


@pytest.mark.parametrize(("name", "head"), [("calibrant.toml", ""), ("pyproject.toml", "[tool.calibrant]\n")])
def test_a_project_file_sets_options_that_the_command_line_overrides(run, folder, monkeypatch, name, head):
    (folder / name).write_text(
        f'{head}label = "animal"\ncolumns = ["p_cat", "p_dog", "p_owl"]\nweight = "w"\n'
    )
    result = run(LINE)
    assert result.stderr.splitlines()[0] == f"Note: --label, --columns, --weight are from {name}."
    content = json.loads(result.stdout)
    assert (content["label"], content["weight"], content["columns"]) == (
        "animal",
        "w",
        ["p_cat", "p_dog", "p_owl"],
    )
    assert json.loads(run(f"{LINE} --weight who").stdout)["weight"] == "who"
    below = folder / "below"
    below.mkdir()
    (folder / "val.csv").rename(below / "val.csv")
    monkeypatch.chdir(below)
    assert f"are from ../{name}." in run(LINE).stderr


def test_the_nearest_project_file_counts_and_one_of_others_does_not(run, folder, monkeypatch):
    (folder / "pyproject.toml").write_text('[project]\nname = "tool.calibrant is not here"\n')
    assert "pyproject" not in run(LINE).stderr


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('lable = "y"', "unknown key 'lable'; did you mean 'label'?"),
        ("zoom = 3", "unknown key 'zoom'; known are label, columns"),
        ("label = 3", "label must be text, not 3."),
        ('space = "odds"', "space must be 'probabilities' or 'logits', not 'odds'."),
        ("drop-missing = 1", "drop-missing must be true or false, not 1."),
        ("label", "is not TOML"),
    ],
)
def test_a_wrong_project_file_is_refused_in_one_sentence(run, folder, text, sentence):
    (folder / "calibrant.toml").write_text(text)
    error = run(LINE, expected=1).stderr
    assert error.startswith("Error: calibrant.toml")
    assert sentence in error
    assert error.count("\n") == 1
    assert "methods" in run("methods").stdout  # needs none


def test_methods_are_grouped_by_task_and_none_is_lost(run):
    text = run("methods").stdout
    lines = text.splitlines()
    first = lines.index(next(line for line in lines if line.endswith("Start with these five")))
    names = [line.split()[0] for line in lines if line and not line.startswith((" ", "─", "method "))]
    listed = [name for name in names if name in registry.calibrators()]
    assert first == 2
    assert listed[:5] == list(START)
    assert sorted(listed) == registry.calibrators()
    keeping = json.loads(run("methods --format json").stdout)["methods"]
    assert {record["keeps_argmax"] for record in keeping if record["task"] == "argmax"} == {True}


def test_latex_has_booktabs_rules_and_minus_signs(run):
    text = run("compare val.csv --methods temperature --format latex").stdout
    assert text.startswith("\\begin{table}\n\\caption{val.csv: 120 rows, 3 classes}\n")
    assert text.count("\\toprule") == text.count("\\midrule") == text.count("\\bottomrule") == 1
    row = next(line for line in text.splitlines() if line.startswith("temperature &"))
    assert "$-$0." in row
    assert row.count("&") == 5
    assert run("evaluate val.csv --metrics accuracy --format latex").stdout.count("\\begin{table}") == 2


def test_steps_of_a_fit_move_the_progress(monkeypatch):
    told = []
    progress = Progress("fitting")
    monkeypatch.setattr(progress, "update", lambda *given: told.append(given))
    with messages_in(progress, "fitting auto"):
        logging.getLogger("calibrant.auto").info("platt: 0.1 s", extra={"done": 2, "total": 7})
        logging.getLogger("calibrant.auto").info("a message")
    assert told == [(2, 7, "fitting auto: platt: 0.1 s"), (0, None, "fitting auto: a message")]


def test_auto_counts_its_steps(caplog):
    from calibrant import AutoCalibration
    from calibrant.synthetic import tasks

    rows = tasks()["asymmetric"].sample(200, random_state=0)
    with caplog.at_level(logging.INFO, "calibrant"):
        AutoCalibration().fit(rows.predictions, rows.labels)
    counted = [(record.done, record.total) for record in caplog.records if hasattr(record, "done")]
    assert [done for done, _ in counted] == list(range(1, len(counted) + 1))
    assert {total for _, total in counted} == {len(counted) + 1}
