"""What a reader does next: lines to copy, the origin of the data, terms, and an earlier report to compare with."""

import html
import shlex
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest
from sample_assessment import sample_assessment

from calibrant import Predictions, registry
from calibrant.report import Assessment, assess
from calibrant.report.contents import Estimate, Origin
from calibrant.report.sections.changes import changes_section
from calibrant.report.sections.overview import lines_to_copy
from calibrant.report.sections.terms import TERMS

METHOD = "dirichlet-odir"
ORIGIN = Origin("2026-01-31 12:00 UTC", "ab" * 32, "my file.csv", "calibrant report 'my file.csv'")


def with_origin(origin, method=METHOD, **changes):
    """Return the sample assessment with a recommended method and an origin."""
    sample = sample_assessment(3)
    advice = replace(sample.recommendation, action="calibrate", method=method)
    return replace(sample, recommendation=advice, origin=origin, **changes)


def test_the_lines_of_a_file_name_it_with_its_options():
    options = {
        "label": "y",
        "space": "logits",
        "columns": "z_*",
        "weight": "w",
        "group": "who",
        "normalise": "",
    }
    commands, program = lines_to_copy(with_origin(replace(ORIGIN, options={**options, "decimal": ","})))
    words = shlex.split(commands.text.replace("\\\n", " ").splitlines()[0])
    assert words == [
        *("calibrant", "fit", "my file.csv", "--label", "y", "--space", "logits", "--columns", "z_*"),
        *("--weight", "w", "--normalise", "--decimal", ",", "--method", METHOD, "-o", "calibrator.npz"),
    ]
    assert all(len(line) <= 80 for line in commands.text.splitlines())
    compile(program.text, "program", "exec")
    assert "normalise=True, dialect=Dialect.of(None, ',')" in program.text
    assert "rows.labels, rows.weights" in program.text
    # Only methods that cross-validate take groups.
    assert "--group" in lines_to_copy(with_origin(replace(ORIGIN, options=options), "auto"))[0].text


def test_the_lines_in_memory_run():
    generator = np.random.default_rng(0)
    z = generator.normal(size=(60, 3))
    y = (2 * z + generator.gumbel(size=z.shape)).argmax(axis=1)
    (program,) = lines_to_copy(with_origin(replace(ORIGIN, file=""), "temperature"))
    names = {
        "y_scores": Predictions.from_logits(z).probabilities,
        "y_true": y,
        "new_scores": np.full((1, 3), 1 / 3),
    }
    exec(program.text.replace('calibrator.save("calibrator.npz")', ""), names)
    assert names["probabilities"].tolist() == [[1 / 3] * 3]


@pytest.mark.parametrize("origin", [None, ORIGIN])
def test_there_are_no_lines_to_keep_the_predictions_or_for_a_method_without_a_name(origin):
    assert lines_to_copy(with_origin(origin, "MyCalibrator()")) == ()
    kept = with_origin(origin)
    kept = replace(kept, recommendation=replace(kept.recommendation, action="keep"))
    assert lines_to_copy(kept) == ()


def test_the_lines_are_on_the_page_in_markdown_and_in_the_summary():
    found = with_origin(replace(ORIGIN, options={"label": "<y>"}))
    page = found.to_html()
    assert "<y>" not in page
    assert "--label '<y>'" in html.unescape(page)
    assert "    calibrant fit 'my file.csv' --label '<y>'" in found.to_markdown()
    assert "\n  calibrant fit 'my file.csv' --label '<y>'" in str(found)


def test_the_origin_of_arrays_is_their_hash():
    p = np.array([[0.9, 0.1]] * 20 + [[0.2, 0.8]] * 20)
    y = np.repeat([0, 1], 20)
    found = assess(y, p, methods=[])
    assert found.origin.sha256 == sha256(p.tobytes() + y.astype(np.int64).tobytes()).hexdigest()
    assert found.origin.sha256 in found.to_html()
    assert found.origin.date[:2] == "20"
    changed = p.copy()
    changed[0] = [0.8, 0.2]
    assert assess(y, changed, methods=[]).origin.sha256 != found.origin.sha256


def test_every_method_and_term_of_the_page_has_one_line():
    found = sample_assessment(3)
    page = found.to_html()
    for row in found.recommendation.methods:
        if row.name in registry.calibrators():
            assert registry.about(registry.make(row.name), parameters_too=False).split(":")[0] in page
    assert [term for term, _ in TERMS] == sorted((term for term, _ in TERMS), key=str.lower)
    assert all("\n" not in text and len(text) < 110 for _, text in TERMS)


# An earlier report


def cells(section, name):
    """Return the texts of a row of the table."""
    table = section.blocks[1]
    return next([cell.line() for cell in row] for row in table.rows if row[0].text() == name)


def with_score(found, value, half):
    (first, *others) = found.scores
    before = replace(first.before, value=value, low=value - half, high=value + half)
    return replace(found, scores=(replace(first, before=before), *others))


def test_a_change_has_the_interval_of_independent_data_sets():
    """Half-widths 0.03 and 0.04 give 0.05."""
    found = with_origin(ORIGIN)
    section = changes_section(with_score(found, 0.5, 0.04), with_score(found, 0.4, 0.03))
    assert cells(section, "Log-loss")[3] == "+0.1000 (+0.0500 to +0.1500), worse"
    section = changes_section(with_score(found, 0.43, 0.04), with_score(found, 0.4, 0.03))
    assert "within sampling error" in cells(section, "Log-loss")[3]


def test_a_bias_is_better_if_it_is_closer_to_zero():
    found = sample_assessment(3)

    def biased(value):
        first, *others = found.classes
        bias = Estimate("in the large", value, value - 0.01, value + 0.01)
        return replace(found, classes=(replace(first, in_the_large=bias), *others))

    name = f"class '{found.classes[0].label}': probability − frequency"
    rows = [cells(changes_section(biased(0.02), biased(old)), name)[3] for old in (0.1, -0.1)]
    assert all(text.endswith(", better") for text in rows)
    assert cells(changes_section(biased(-0.2), biased(0.1)), name)[3].endswith(", worse")


def test_the_verdicts_are_compared_in_words_and_the_section_follows_the_recommendation():
    now, then = with_origin(ORIGIN), sample_assessment(3, status="calibrated")
    page = now.to_html(baseline=then)
    assert page.index('id="recommendation"') < page.index('id="changes"') < page.index('id="reliability"')
    assert "The verdict was: calibrated. It is: not calibrated." in page
    assert "changes" not in now.to_markdown().lower().partition("## reliability")[0].partition("## what")[0]


def test_reports_with_other_classes_and_missing_numbers_are_compared():
    now = sample_assessment(3, names=["a", "b", "c"], infinite=True)
    then = sample_assessment(10)
    notes = changes_section(now, then).blocks[1].notes
    assert "The classes of the two reports differ" in notes[1]
    empty = replace(then, scores=(), errors=(), classes=())
    assert (
        "Log-loss"
        not in now.to_markdown(baseline=empty).partition("## Reliability")[0].partition("## Changes")[2]
    )


def test_open_shows_a_page_in_the_browser(monkeypatch):
    shown = []
    monkeypatch.setattr("webbrowser.open", lambda address: shown.append(address) or True)
    path = sample_assessment(2).open()
    assert shown == [path.as_uri()]
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    path.unlink()
    path.parent.rmdir()


# The headline


def test_the_bias_of_a_class_leads_where_it_is_larger_than_the_error_of_the_confidence():
    """Probability is moved from class 0 to class 1, which leaves most confidences as they are."""
    generator = np.random.default_rng(0)
    z = 1.5 * generator.normal(size=(4000, 3))
    y = (z + np.array([0.8, -0.8, 0]) + generator.gumbel(size=z.shape)).argmax(axis=1)
    p = np.exp(1.1 * z)
    headline = assess(y, p / p.sum(axis=1, keepdims=True), methods=[]).verdict.headline
    assert headline.startswith(
        ("Not calibrated: class 0 is too low by", "Not calibrated: class 1 is too high by")
    )
    assert "predicted, " in headline


def test_over_confidence_alone_has_no_class_in_the_headline():
    generator = np.random.default_rng(0)
    z = generator.normal(size=(4000, 3))
    y = (z + generator.gumbel(size=z.shape)).argmax(axis=1)
    p = np.exp(2 * z)
    headline = assess(y, p / p.sum(axis=1, keepdims=True), methods=[]).verdict.headline
    assert headline.startswith("Not calibrated: the predictions are over-confident (mean confidence")
    assert "class" not in headline


def test_the_origin_survives_json():
    found = with_origin(ORIGIN)
    assert Assessment.from_json(found.to_json()).origin == ORIGIN


def test_a_shift_of_one_class_of_two_leads_where_it_is_larger_than_over_confidence():
    generator = np.random.default_rng(0)
    z = generator.normal(size=3000) - 1
    y = (generator.random(3000) < 1 / (1 + np.exp(-(0.9 * z + 1)))).astype(int)
    headline = assess(y, 1 / (1 + np.exp(-z)), methods=[]).verdict.headline
    assert headline.startswith("Not calibrated: the probabilities of class 1 are too low by ")
