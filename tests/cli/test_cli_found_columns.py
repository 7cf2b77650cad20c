"""The command line without options: columns and space are found and told, asked for, or required."""

# ruff: noqa: F811 (fixtures are imported, since a second file of fixtures would confuse the doctests)

import json
import shlex
import sys
from dataclasses import replace
from hashlib import sha256
from io import BytesIO

import numpy as np
import pytest
from animal_files import CLASSES, folder, probabilities, run  # noqa: F401

from calibrant import load
from calibrant.cli.program import calibrant
from calibrant.metrics import log_loss
from calibrant.report import Assessment
from calibrant.report.sections.overview import lines_to_copy

FOUND = (
    "Note: labels are from column 'animal', probabilities from columns 'p_cat', 'p_dog' and 'p_owl' "
    "(since all rows sum to one).\n"
)


@pytest.mark.parametrize(
    "line",
    [
        "evaluate val.csv --metrics accuracy --no-tests",
        "evaluate val.csv --metrics accuracy --stream",
        "fit val.csv --method temperature -o cal.npz",
        "compare val.csv --methods temperature",
        "report val.csv --methods temperature -o out.md",
    ],
)
def test_columns_and_space_are_found_and_told(run, line):
    assert run(line).stderr.startswith(FOUND)


def test_a_report_is_written_next_to_its_input(run, folder, monkeypatch):
    inside = folder / "inside"
    inside.mkdir()
    (folder / "val.csv").rename(inside / "val.csv")
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)
    result = run("report inside/val.csv --methods temperature --open")
    page = inside / "val-report.html"
    assert result.stderr.endswith("The report is in inside/val-report.html.\n")
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert opened == [page.as_uri()]
    run("report inside/val.csv --methods temperature --format json")
    assert json.loads((inside / "val-report.json").read_text())["title"] == "val.csv"


def test_a_test_file_is_read_as_the_first_one(run, folder):
    result = run("compare val.csv --test test.csv --methods temperature --format json")
    assert result.stderr == FOUND
    assert json.loads(result.stdout)["n_test_rows"] == 90


def test_a_test_file_may_have_other_names(run, folder):
    """Columns with other names are found again; --test-label names the labels where they cannot be."""
    line = "compare val.csv --methods temperature --format json --test"
    expected = json.loads(run(f"{line} test.csv").stdout)["methods"]
    header, rows = (folder / "test.csv").read_text().split("\n", 1)
    (folder / "test.csv").write_text(header.replace("animal", "kind").replace("p_", "q_") + "\n" + rows)
    told = run(f"{line} test.csv")
    assert "labels are from column 'kind', probabilities from columns 'q_cat'" in told.stderr
    for found in (told, run(f"{line} test.csv --test-label kind")):
        methods = json.loads(found.stdout)["methods"]
        assert [one["log_loss"] for one in methods] == [one["log_loss"] for one in expected]
    assert "no label column 'animal'" in run(f"{line} test.csv --test-label animal", 1).output
    assert "--test-label is for --test" in run("compare val.csv --test-label kind", 2).output


def test_arrays_with_label_files_of_their_own(run, folder):
    for name, seed in (("val", 0), ("test", 1)):
        p, y = probabilities(60, seed)
        np.save(folder / f"{name}_probs.npy", p)
        np.save(folder / f"{name}_y.npy", y)
    line = "compare val_probs.npy --label val_y.npy --methods temperature --format json --test test_probs.npy"
    found = json.loads(run(f"{line} --test-label test_y.npy").stdout)
    p, y = probabilities(60, 1)
    assert found["methods"][0]["log_loss"] == pytest.approx(log_loss(y, p))
    assert "say with --test-label which file has the labels" in run(line, 1).output


def write_logits(folder, name="logits.csv"):
    p, y = probabilities(60, 0)
    rows = "".join(
        f"{label},{','.join(map(repr, row))}\n" for label, row in zip(y, np.log(p).tolist(), strict=True)
    )
    (folder / name).write_text(f"y,0,1,2\n{rows}")


def test_in_a_script_a_space_that_nothing_tells_is_required(run, folder):
    write_logits(folder)
    error = run("evaluate logits.csv --no-tests", expected=2).stderr.splitlines()[-1]
    assert error.startswith(
        "Error: say --space probabilities or --space logits; nothing in logits.csv tells what its scores are, which are "
        "between -"
    )


def test_on_a_terminal_the_space_is_asked_for(folder, monkeypatch):
    """Click's runner replaces the streams, so the terminal and the answer are put in by hand."""
    write_logits(folder)
    asked = []

    class Terminal:
        def isatty(self):
            return True

    def prompt(text, **options):
        asked.append(text)
        return "logits"

    monkeypatch.setattr("click.prompt", prompt)
    from calibrant.cli import files

    monkeypatch.setattr(files, "sys", type("Streams", (), {"stdin": Terminal(), "stderr": Terminal()}))
    with pytest.raises(SystemExit) as left:
        calibrant.main(
            [
                "evaluate",
                "logits.csv",
                "--no-tests",
                "--metrics",
                "accuracy",
                "-o",
                "out.json",
                "--format",
                "json",
            ]
        )
    assert left.value.code == 0
    assert asked[0].startswith("Are the scores of logits.csv, which are between -")
    assert json.loads((folder / "out.json").read_text())["space"] == "logits"


def test_an_array_tells_its_space_by_its_name(run, folder):
    p, y = probabilities(60, 0)
    np.savez(folder / "a.npz", logits=np.log(p), y=y)
    result = run("evaluate a.npz --metrics accuracy --no-tests --format json")
    assert (
        result.stderr
        == "Note: labels are from array 'y', logits from array 'logits' (by the name 'logits').\n"
    )
    np.save(folder / "probs.npy", p)
    np.save(folder / "labels.npy", y)
    result = run("evaluate probs.npy --label labels.npy --metrics accuracy --no-tests --format json")
    assert json.loads(result.stdout)["space"] == "probabilities"
    error = run("evaluate probs.npy", expected=1).stderr
    assert error == (
        "Error: probs.npy has one array, 'probs'; say with --label which file has the labels, such as labels.npy.\n"
    )


def test_text_with_other_signs_and_missing_values(run, folder):
    text = (folder / "val.csv").read_text().splitlines()
    kept = [line.split(",")[:5] for line in text]
    kept[3][2] = ""
    (folder / "a.csv").write_text("\n".join(";".join(line).replace(".", ",") for line in kept) + "\n")
    error = run("evaluate a.csv", expected=1).stderr
    assert error == (
        "Error: a.csv: the header has semicolons and no commas; add --separator ';', and --decimal ',' if numbers have "
        "decimal commas.\n"
    )
    assert "add --decimal ','" in run("evaluate a.csv --separator ;", expected=1).stderr
    line = "evaluate a.csv --separator ; --decimal , --metrics accuracy --no-tests"
    assert "or add --drop-missing." in run(line, expected=1).stderr
    assert run(f"{line} --drop-missing").stderr == FOUND + "Note: 1 row with a missing value was dropped.\n"


def piped(monkeypatch, content):
    """Put bytes on standard input and collect those on standard output."""
    given = type("Stream", (), {"buffer": BytesIO(content), "isatty": staticmethod(lambda: False)})
    out = type("Stream", (), {"buffer": BytesIO()})
    from calibrant.cli import files

    replaced = type("Streams", (), {"stdin": given, "stdout": out, "stderr": sys.stderr})
    monkeypatch.setattr(files, "sys", replaced)
    return out.buffer


def test_standard_input_and_output(run, folder, monkeypatch):
    """The format is told by the first bytes; what is printed goes to the other stream."""
    piped(monkeypatch, (folder / "val.csv").read_bytes())
    result = run("evaluate - --metrics accuracy --no-tests")
    assert result.stdout.startswith("standard input: 120 rows")
    calibrator = piped(monkeypatch, (folder / "val.csv").read_bytes())
    result = run("fit - --method temperature -o -")
    assert result.stdout == ""
    (folder / "cal.npz").write_bytes(calibrator.getvalue())
    written = piped(monkeypatch, (folder / "test.csv").read_bytes())
    result = run("apply - --calibrator cal.npz -o -")
    assert "Wrote standard output (90 rows)" in result.stderr
    run("apply test.csv --calibrator cal.npz -o out.csv")
    assert written.getvalue() == (folder / "out.csv").read_bytes()
    page = piped(monkeypatch, (folder / "val.csv").read_bytes())
    assert run("report - --methods temperature -o - --format json").stdout == ""
    assert json.loads(page.getvalue())["title"] == "standard input"


def test_errors_about_standard_input_name_it(run, folder, monkeypatch):
    piped(monkeypatch, b"animal,p_cat,p_dog\ncat,0.9,0.1\ndog,x,0.5\n")
    error = run("evaluate - --space probabilities", expected=1).stderr.splitlines()[-1]
    assert error.startswith("Error: standard input: row 2 (line 3), column 'p_cat' is 'x'")
    p, _ = probabilities(60, 0)
    lines = [
        json.dumps({"y": CLASSES[row.argmax()], "probs": dict(zip(CLASSES, row.tolist(), strict=True))})
        for row in p
    ]
    piped(monkeypatch, "\n".join(lines).encode())
    assert run("evaluate - --metrics accuracy --no-tests").stdout.startswith("standard input: 60 rows")


# The origin of a report, and an earlier one


def test_a_report_names_its_file_and_has_lines_that_run(run, folder):
    run("report val.csv --methods temperature --format json")
    content = json.loads((folder / "val-report.json").read_text())
    origin = content["origin"]
    assert origin["sha256"] == sha256((folder / "val.csv").read_bytes()).hexdigest()
    assert origin["command"] == "calibrant report val.csv --methods temperature --format json"
    assert origin["options"] == {"label": "animal", "space": "probabilities", "columns": "p_*"}
    found = Assessment.from_json((folder / "val-report.json").read_text())
    advice = replace(found.recommendation, action="calibrate", method="temperature")
    commands, program = lines_to_copy(replace(found, recommendation=advice))
    fit, _ = commands.text.replace("\\\n", " ").split("\ncalibrant apply")
    run(" ".join(shlex.split(fit)[1:]))
    first = load(folder / "calibrator.npz").temperature_
    (folder / "calibrator.npz").unlink()
    exec(program.text, {})
    assert load(folder / "calibrator.npz").temperature_ == first


def test_a_report_is_compared_with_an_earlier_one(run, folder):
    run("report val.csv --methods temperature --format json")
    run("report test.csv --methods temperature --baseline val-report.json")
    assert "Changes since the earlier report" in (folder / "test-report.html").read_text()
    error = run("report test.csv --baseline val.csv", expected=1).stderr
    assert error == (
        "Error: val.csv is not a report in JSON, which 'calibrant report --format json' writes.\n"
    )
    assert (
        "--baseline is for HTML"
        in run("report test.csv --format json --baseline val-report.json", expected=2).stderr
    )
    error = run(
        "report test.csv --baseline val-report.json -o val-report.json --format html", expected=1
    ).stderr
    assert "would overwrite the input" in error
