"""Forms of an assessment: JSON there and back, Markdown, text and page, and files that are whole or not there."""

import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from report_rows import drawn, powered

from calibrant import Predictions
from calibrant.errors import FileFormatError
from calibrant.report import SECTIONS, Assessment, assess

NAMES = ["a|b", "<script>", "c`*_[x](y)"]
Y, P = drawn(200, 3)


@pytest.fixture(scope="module")
def found():
    p = Predictions.from_probabilities(powered(P, 2.0), classes=NAMES)
    return assess(np.array(NAMES)[Y], p, methods=["temperature"], title="Ours | <b>theirs</b>")


def without_times(found):
    plain = found.to_dict()
    plain["repeatability"].pop("seconds")
    plain["origin"].pop("date")
    for row in plain["recommendation"]["methods"]:
        row.pop("seconds")
    return plain


def test_the_same_seed_gives_the_same_report(found):
    p = Predictions.from_probabilities(powered(P, 2.0), classes=NAMES)
    again = assess(np.array(NAMES)[Y], p, methods=["temperature"], title="Ours | <b>theirs</b>")
    assert without_times(again) == without_times(found)


def test_json_is_strict_and_gives_the_same_report_back(found):
    text = found.to_json()
    plain = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert plain["schema"] == 1
    assert Assessment.from_json(text) == found


def test_a_report_of_an_earlier_version_can_be_read_and_written():
    """Written by version 0.1.0, with shortened arrays."""
    text = (Path(__file__).parent / "report_schema_1.json").read_text(encoding="utf-8")
    earlier = Assessment.from_json(text)
    given = json.loads(text)
    later = {field.name for field in fields(Assessment)} - given.keys()
    assert later >= {"selective", "origin", "decisions", "subgroups"}
    verdict = {**given["verdict"], "detectable": []}
    plain = earlier.to_dict()
    assert not any(plain.pop(name, None) for name in later)
    assert plain == {**given, "verdict": verdict}
    assert earlier.recommendation.methods[1].log_loss_difference.high < 0
    assert "## Try the calibrator" in earlier.to_markdown()


def test_infinite_numbers_survive_json(found):
    verdict = replace(found.verdict, smallest_detectable=float("inf"))
    changed = replace(found, verdict=verdict)
    assert '"smallest_detectable": "Infinity"' in changed.to_json()
    assert Assessment.from_json(changed.to_json()) == changed


def test_a_dictionary_holds_plain_data_only(found):
    def check(value):
        if isinstance(value, dict):
            for key, entry in value.items():
                assert type(key) is str
                check(entry)
        elif isinstance(value, list):
            for entry in value:
                check(entry)
        else:
            assert value is None or type(value) in (str, int, float, bool), type(value)

    check(found.to_dict())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda plain: plain.pop("schema"), "schema"),
        (lambda plain: plain.update(schema=99), "later version"),
        (lambda plain: plain.pop("verdict"), "lacks a field"),
        (lambda plain: plain.update(surplus=1), "unknown field 'surplus'"),
        (lambda plain: plain["verdict"].update(status="fine"), "report.verdict.status must be one of"),
        (lambda plain: plain["data"].update(n_rows="many"), "report.data.n_rows must be an integer"),
        (lambda plain: plain["verdict"].update(p_value="small"), "report.verdict.p_value must be a number"),
        (lambda plain: plain.update(curves={}), "report.curves must be a list"),
        (lambda plain: plain["repeatability"].update(settings=[]), "must be an object"),
    ],
)
def test_json_that_is_no_report_is_refused_with_the_place(found, change, message):
    plain = json.loads(found.to_json())
    change(plain)
    with pytest.raises(FileFormatError, match=message):
        Assessment.from_json(json.dumps(plain))


@pytest.mark.parametrize("text", ["", "{", "[]", "3"])
def test_other_texts_are_refused(text):
    with pytest.raises(FileFormatError):
        Assessment.from_json(text)


def test_markdown_has_every_section(found):
    text = found.to_markdown()
    titles = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    made = [section(found) for section in SECTIONS]
    assert titles == [section.title for section in made if section is not None]
    known = [
        "Verdict",
        "What to do",
        "Reliability before and after",
        "Scores before and after",
        "Calibration errors",
        "Selective prediction",
        "Decomposition",
        "Tests, slope and intercept",
        "Classes",
        "Cumulative differences",
        "Sensitivity to binning",
        "Comparison of methods",
        "Learning curve",
        "Try the calibrator",
        "Pitfalls",
        "Data",
        "Settings and versions",
        "Terms",
    ]
    assert [title for title in titles if title in known] == known


def test_names_cannot_break_markdown(found):
    text = found.to_markdown()
    assert "<script" not in text
    assert "<b>" not in text
    assert r"a\|b" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    tables = "\n".join(text.splitlines()).split("\n\n")
    for table in (part for part in tables if part.startswith("|")):
        widths = {line.replace(r"\|", "").count("|") for line in table.splitlines()}
        assert len(widths) == 1, table
    assert rows


def test_the_text_fits_a_terminal_and_begins_with_the_verdict(found):
    lines = str(found).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[3].startswith("Not calibrated")
    assert any(line.startswith("log-loss") for line in lines)


@pytest.mark.parametrize("form", ["to_json", "to_markdown", "to_html"])
def test_a_form_is_written_as_it_is_returned(found, form, tmp_path):
    path = tmp_path / "report"
    path.write_text("old")
    text = getattr(found, form)(path)
    assert path.read_text(encoding="utf-8") == text
    assert [entry.name for entry in tmp_path.iterdir()] == ["report"]


def test_a_notebook_shows_the_page_in_a_frame(found):
    shown = found._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "<script" not in shown
