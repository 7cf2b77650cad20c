"""calibrant compare, report, methods and demo."""

# ruff: noqa: F811 (fixtures are imported, since a second file of fixtures would confuse the doctests)

import json
from dataclasses import dataclass

import pytest
from animal_files import COLUMNS, folder, probabilities, run  # noqa: F401

from calibrant import __version__, registry
from calibrant.comparison import compare


def test_compare_gives_the_numbers_of_the_library(run):
    p, y = probabilities(120, 0)
    content = json.loads(run(f"compare val.csv {COLUMNS} --methods vector,temperature --format json").stdout)
    own = compare(y, p, ["vector", "temperature"])
    assert [record["method"] for record in content["methods"]] == [result.name for result in own.results]
    for record, result in zip(content["methods"], own.results, strict=True):
        assert record["log_loss"] == pytest.approx(result.scores["log_loss"])
        if result.differences:
            gap = result.differences["log_loss"]
            assert record["log_loss_low"] == pytest.approx(gap.low)
    assert content["best"] == own.best.name
    assert content["n_rows"] == 120


def test_compare_measures_on_a_test_file(run):
    p, y = probabilities(120, 0)
    test_p, test_y = probabilities(90, 1)
    line = (
        f"compare val.csv {COLUMNS} --methods temperature --test test.csv --metrics smooth_ece --format json"
    )
    content = json.loads(run(line).stdout)
    own = compare(y, p, ["temperature"], test=(test_y, test_p), metrics=["smooth_ece"])
    assert content["n_test_rows"] == 90
    for name in ("log_loss", "smooth_ece"):
        assert content["methods"][1][name] == pytest.approx(own.results[1].scores[name])


def test_compare_fits_eighty_columns_with_long_names(run):
    text = run(f"compare val.csv {COLUMNS} --methods bias-corrected-temperature,temperature").stdout
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "Lowest log-loss: " in text


def test_compare_lists_a_method_that_fails(run, monkeypatch):
    def broken(self, data):
        raise ArithmeticError("no way")

    monkeypatch.setattr("calibrant.VectorScaling._fit", broken)
    result = run(f"compare val.csv {COLUMNS} --methods vector,temperature")
    assert "vector failed: no way." in result.stdout


@pytest.mark.parametrize(("name", "start"), [("r.html", "<!doctype html>"), ("r.json", "{"), ("r.md", "# ")])
def test_report_writes_a_page(run, folder, name, start):
    if name.endswith("html"):
        pytest.importorskip("jinja2")
    result = run(f"report val.csv {COLUMNS} --methods temperature --title Animals -o {name}")
    text = (folder / name).read_text(encoding="utf-8")
    assert text.lstrip().lower().startswith(start)
    assert "Animals" in text
    assert "Animals" in result.stdout
    assert result.stderr.strip() == f"The report is in {name}."


def test_report_passes_everything_on(run, folder, monkeypatch):
    given = {}

    @dataclass
    class Assessed:
        origin: object = None

        def to_json(self):
            return "{}"

        to_html = to_markdown = to_json

        def __str__(self):
            return "Fine."

    def assess(y, p, **options):
        given.update(options, n_rows=len(y))
        return Assessed()

    monkeypatch.setattr("calibrant.cli.commands.report.assess", assess)
    run(
        f"report val.csv {COLUMNS} --weight w --group who --methods vector --cv 3 --level 0.9 -o r.txt --format json"
    )
    assert given["methods"] == ["vector"]
    assert (given["cv"], given["level"], given["title"], given["n_rows"]) == (3, 0.9, "val.csv", 120)
    assert given["sample_weight"].shape == given["groups"].shape == (120,)
    assert "give --format" in run(f"report val.csv {COLUMNS} -o r.txt", expected=2).stderr


def test_methods_lists_all_of_the_registry(run):
    content = json.loads(run("methods --format json").stdout)
    assert [record["name"] for record in content["methods"]] == registry.calibrators()
    for record in content["methods"]:
        assert record["keeps_argmax"] == registry.make(record["name"]).traits.keeps_argmax
        assert len(record["about"]) > 10
    text = run("methods").stdout
    assert all(len(line) <= 80 for line in text.splitlines())


def test_demo_runs_the_demo(run, monkeypatch):
    given = []
    monkeypatch.setattr("calibrant.demo.main", given.append)
    run("demo --output somewhere")
    assert given == [["--output", "somewhere"]]


def test_the_version(run):
    assert run("--version").stdout == f"calibrant, version {__version__}\n"
