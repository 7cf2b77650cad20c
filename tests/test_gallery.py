"""The scripts of the tutorials and of the gallery run and draw, and the decision chart names methods that exist."""

import ast
import runpy
from importlib import import_module
from pathlib import Path

import pytest

from calibrant import registry

ROOT = Path(__file__).parents[1]
GALLERY = sorted((ROOT / "examples" / "gallery").rglob("plot_*.py"))
TUTORIALS = sorted((ROOT / "examples" / "tutorials").glob("plot_*.py"))
SCRIPTS = [*TUTORIALS, *GALLERY]

every_script = pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)


def test_there_are_scripts():
    assert len(GALLERY) >= 25
    assert len(TUTORIALS) == 5


@every_script
def test_a_script_begins_with_a_heading_and_a_text(path):
    documentation = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    title, line, empty, text, *_ = documentation.splitlines()
    assert line == "=" * len(title)
    assert not empty
    assert text


@pytest.mark.slow
@every_script
def test_a_script_draws(path, monkeypatch, capsys):
    matplotlib = pytest.importorskip("matplotlib")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.close("all")
    runpy.run_path(str(path))
    drawn = pyplot.get_fignums()
    pyplot.close("all")
    assert drawn
    if path in TUTORIALS:
        assert capsys.readouterr().out


def test_the_decision_chart_names_methods_and_pages_that_exist(monkeypatch):
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(ROOT / "docs" / "_ext")
    chart = import_module("decision_chart")
    for question in chart.QUESTIONS:
        assert set(question.methods) <= set(registry.calibrators())
        assert (ROOT / "docs" / f"{question.page}.md").exists()
    drawn = chart.chart(chart.QUESTIONS)
    assert drawn.count("<a ") == len(chart.QUESTIONS)


def test_a_card_has_names_properties_exports_and_paper(monkeypatch):
    for library in ("sphinx", "onnx", "torch"):
        pytest.importorskip(library, reason=f"{library} is not installed")
    monkeypatch.syspath_prepend(ROOT / "docs" / "_ext")
    card = "\n".join(import_module("method_cards").card(registry.make("temperature").__class__))
    for text in ("``temperature``", "never changes", "two or more", "ONNX", ":cite:t:`guo2017`", "O(nK)"):
        assert text in card
